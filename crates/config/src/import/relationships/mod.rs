//! AS relationships of CAIDA, "serial-1" and "serial-2": `A|B|-1` where A is a provider of B, `A|B|0` where both
//! are peers; or of the years before 2013: `A B 1` where A is a provider of B, `A B -1` where B is one of A. Each autonomous system becomes a host with a routing daemon, each relationship a link with a BGP
//! session whose policies are those of Gao and Rexford: routes of customers go to all neighbours, others to
//! customers only.

mod bird;
mod frr;
mod sample;

use super::write::{heading, noted};
use super::{Imported, Importer, Input};
use crate::error::{Problem, Problems, Span};
use belljar_base::{Map, Seed, Set};
use std::fmt::Write;
use std::net::Ipv4Addr;

/// Largest number of autonomous systems that are imported without a sample: what one run can hold.
const MOST: usize = 2_000;
/// End of the run, start of the first program behind convergence, both in seconds.
const STOP_TIME: u64 = 60;
const CONVERGED: u64 = 40;
/// Latency of all links: the files have none.
const LATENCY: &str = "5 ms";
/// AS_TRANS of RFC 6793: stands for any system with a number of 32 bits, and has no sessions of its own.
const AS_TRANS: u32 = 23_456;
/// Start of the program that shows the routes, in seconds.
const ROUTES: u64 = CONVERGED - 5;

/// The routing daemon of each autonomous system.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Daemon {
    /// BIRD 2.
    #[default]
    Bird,
    /// FRRouting.
    Frr,
}

/// A file of AS relationships.
pub(super) struct Relationships;

impl Importer for Relationships {
    fn name(&self) -> &'static str {
        "as-relationships"
    }
    fn description(&self) -> Option<&'static str> {
        Some("AS relationships of CAIDA, serial-1 or serial-2")
    }
    fn has_extension(&self, extension: &str) -> bool {
        extension == "txt"
    }
    fn recognises(&self, text: &str) -> bool {
        let mut lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
        lines.next().is_some_and(|line| fields(line).is_some())
    }
    fn read(&self, input: &Input) -> Result<Imported, Problem> {
        let all = Relations::read(&input.source.text)?;
        if all.neighbours.is_empty() {
            return Err(Problem::whole_file("this file has no relationships")
                .help("write provider|customer|-1 or peer|peer|0"));
        }
        let chosen = match input.options.sample {
            Some(size) => {
                let mut draws = Seed(input.options.seed).stream(&["import", "as-relationships"]);
                sample::choose(&all, size, &mut draws)
            }
            None if all.neighbours.len() > MOST => {
                let text = format!("this file has {} autonomous systems", all.neighbours.len());
                return Err(Problem::whole_file(text).help("add --sample N, and --seed for another sample"));
            }
            None => all.neighbours.keys().copied().collect(),
        };
        Internet::new(&all, &chosen).write(input)
    }
}

/// Relationship of a neighbour to an autonomous system.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Role {
    Provider,
    Peer,
    Customer,
}

impl Role {
    /// Local preference of the routes of a neighbour with this role: customers pay.
    fn preference(self) -> u32 {
        match self {
            Role::Provider => 100,
            Role::Peer => 200,
            Role::Customer => 300,
        }
    }

    fn noun(self) -> &'static str {
        match self {
            Role::Provider => "provider",
            Role::Peer => "peer",
            Role::Customer => "customer",
        }
    }

    fn of_the_other(self) -> Role {
        match self {
            Role::Provider => Role::Customer,
            Role::Peer => Role::Peer,
            Role::Customer => Role::Provider,
        }
    }
}

/// All relationships of a file.
#[derive(Default)]
struct Relations {
    /// Neighbours by autonomous system.
    neighbours: Map<u32, Map<u32, Role>>,
    /// Number of lines with siblings, which become peers.
    siblings: usize,
    /// Number of lines with `AS_TRANS`, which are left out.
    of_trans: usize,
}

/// Numbers of two autonomous systems and the kind of their relationship, with the sign of today's files.
fn fields(line: &str) -> Option<(&str, &str, &str)> {
    let parts = |separator: &dyn Fn(char) -> bool| -> Vec<&str> {
        line.split(separator).map(str::trim).filter(|part| !part.is_empty()).collect()
    };
    if let [first, second, kind, ..] = parts(&|c| c == '|')[..] {
        return Some((first, second, kind));
    }
    let [first, second, kind] = parts(&char::is_whitespace)[..] else { return None };
    let kind = match kind {
        "-1" => "1",
        "1" => "-1",
        other => other,
    };
    first.parse::<u32>().is_ok().then_some((first, second, kind))
}

impl Relations {
    fn read(text: &str) -> Result<Relations, Problem> {
        let mut problems = Problems::default();
        let mut all = Relations::default();
        for (n, line) in text.lines().enumerate() {
            let span = Span { line: n + 1, column: 1, len: line.chars().count().max(1) };
            let line = line.trim();
            if !line.is_empty() && !line.starts_with('#') {
                problems.take(all.line(line, span));
            }
        }
        problems.check()?;
        Ok(all)
    }

    fn line(&mut self, line: &str, span: Span) -> Result<(), Problem> {
        let wrong =
            |message: String| Problem::at(span, message).help("write provider|customer|-1 or peer|peer|0");
        let fields = fields(line).ok_or_else(|| wrong("this line is not a relationship".to_owned()));
        let (first, second, kind) = fields?;
        let number = |text: &str| {
            let number = text.parse::<u32>().ok().filter(|number| *number > 0);
            number.ok_or_else(|| wrong(format!("'{text}' is not the number of an autonomous system")))
        };
        let (first, second) = (number(first)?, number(second)?);
        let role = match kind {
            "-1" => Role::Customer,
            "0" => Role::Peer,
            // As in older files.
            "1" => Role::Provider,
            "2" => {
                self.siblings += 1;
                Role::Peer
            }
            other => return Err(wrong(format!("'{other}' is not a relationship"))),
        };
        if first == second {
            return Err(wrong(format!("AS {first} is a neighbour of itself")));
        }
        if [first, second].contains(&AS_TRANS) {
            self.of_trans += 1;
            return Ok(());
        }
        let own = self.neighbours.entry(first).or_default().insert(second, role);
        if own.is_some_and(|own| own != role) {
            return Err(wrong(format!(
                "AS {first} and AS {second} have another relationship in an earlier line"
            )));
        }
        self.neighbours.entry(second).or_default().insert(first, role.of_the_other());
        Ok(())
    }
}

/// A BGP session of an autonomous system.
struct Session {
    interface: String,
    own: Ipv4Addr,
    other: Ipv4Addr,
    number: u32,
    role: Role,
}

/// An autonomous system with its addresses.
struct System {
    number: u32,
    /// Its network, a /24, of which it has the first address.
    network: Ipv4Addr,
    sessions: Vec<Session>,
}

impl System {
    fn address(&self) -> Ipv4Addr {
        Ipv4Addr::from_bits(self.network.to_bits() + 1)
    }

    fn name(&self) -> String {
        format!("as{}", self.number)
    }
}

/// The systems that are imported.
struct Internet {
    systems: Map<u32, System>,
    links: Vec<[String; 2]>,
    /// Notes on relationships that the file has and the experiment does not.
    notes: Vec<String>,
    /// Number of pairs of systems without a valley-free path, and one of them.
    unreachable: (usize, Option<(u32, u32)>),
}

impl Internet {
    fn new(all: &Relations, chosen: &Set<u32>) -> Internet {
        let mut systems: Map<u32, System> = Map::new();
        for (index, number) in chosen.iter().enumerate() {
            let network =
                Ipv4Addr::from_bits(Ipv4Addr::new(10, 0, 0, 0).to_bits() + ((index as u32 + 1) << 8));
            systems.insert(*number, System { number: *number, network, sessions: Vec::new() });
        }
        let mut links = Vec::new();
        for number in chosen {
            let neighbours = all.neighbours[number].iter().filter(|(other, _)| **other > *number);
            for (other, role) in neighbours.filter(|(other, _)| chosen.contains(*other)) {
                let base = Ipv4Addr::new(172, 16, 0, 0).to_bits() + 4 * links.len() as u32;
                let ends = [
                    (*number, *other, *role, base + 1, base + 2),
                    (*other, *number, role.of_the_other(), base + 2, base + 1),
                ];
                let names = ends.map(|(own, other, role, address, far)| {
                    let system = systems.get_mut(&own).expect("both are chosen");
                    let interface = format!("eth{}", system.sessions.len());
                    let name = format!("as{own}:{interface}");
                    let (own, far) = (Ipv4Addr::from_bits(address), Ipv4Addr::from_bits(far));
                    system.sessions.push(Session { interface, own, other: far, number: other, role });
                    name
                });
                links.push(names);
            }
        }
        let unreachable = sample::unreachable(all, chosen);
        let mut notes = Vec::new();
        if all.of_trans > 0 {
            let reason = "the number stands for systems with longer ones (RFC 6793)";
            notes.push(format!("relationships of AS {AS_TRANS} are left out ({}): {reason}", all.of_trans));
        }
        if all.siblings > 0 {
            notes.push(format!("siblings are peers here ({})", all.siblings));
        }
        Internet { systems, links, notes, unreachable }
    }

    fn write(&self, input: &Input) -> Result<Imported, Problem> {
        let mut notes = vec![format!(
            "links have a latency of {LATENCY} and the default rate of 1 Gbit: the file has neither"
        )];
        notes.extend_from_slice(&self.notes);
        if let (count, Some((from, to))) = self.unreachable {
            let text = "pairs of autonomous systems have no valley-free path";
            notes.push(format!("{count} {text}, such as AS {from} and AS {to}"));
        }
        if let Some(size) = input.options.sample.filter(|size| *size > self.systems.len()) {
            let text =
                "autonomous systems reach each other in a sample: the file has no more whose providers peer";
            notes.push(format!("{} of {size} {text}", self.systems.len()));
        }
        let alone: Vec<&System> = self.systems.values().filter(|own| own.sessions.is_empty()).collect();
        if let Some(first) = alone.first() {
            return Err(Problem::whole_file(format!("AS {} has no neighbour in the sample", first.number))
                .help("take a larger sample"));
        }
        let mut out = heading(&input.source.name);
        let (systems, links) = (self.systems.len(), self.links.len());
        let _ = writeln!(
            out,
            "# {systems} autonomous systems, {links} relationships. Each has a /24, of which it has the first address."
        );
        let _ = writeln!(out, "general: {{stop_time: {STOP_TIME} s}}\nhosts:");
        for system in self.systems.values() {
            self.host(&mut out, system, input.options.daemon);
        }
        out.push_str("links:\n");
        for [first, second] in &self.links {
            let _ = writeln!(out, "- {{between: [\"{first}\", \"{second}\"], latency: {LATENCY}}}");
        }
        let notes = notes.iter().map(|text| noted(&input.source.name, 0, text)).collect();
        Ok(Imported { yaml: out, notes })
    }

    fn host(&self, out: &mut String, system: &System, daemon: Daemon) {
        let _ = writeln!(out, "  {}:", system.name());
        let interfaces = system.sessions.iter().map(|own| format!("{}: {}/30", own.interface, own.own));
        let interfaces: Vec<String> = interfaces.collect();
        let _ = writeln!(
            out,
            "    forwarding: true\n    routes: []\n    interfaces: {{{}}}",
            interfaces.join(", ")
        );
        let _ = writeln!(out, "    processes:\n    - path: sh\n      args:\n      - -c\n      - |");
        let (script, show, state) = match daemon {
            Daemon::Bird => (bird::script(system), "birdc, args: [show, route, count]", "running"),
            Daemon::Frr => (frr::script(system), "vtysh, args: [-c, show ip bgp summary]", "any"),
        };
        for line in script.lines() {
            let _ = writeln!(out, "        {line}");
        }
        let _ = writeln!(out, "      expected_final_state: {state}");
        let _ = writeln!(out, "    - {{path: {show}, start_time: {ROUTES} s}}");
        // The first and the last system show whether packets reach each other's network.
        let (first, last) = (self.systems.values().next(), self.systems.values().next_back());
        if let (Some(first), Some(last)) = (first, last)
            && first.number == system.number
            && self.unreachable.0 == 0
        {
            let target = last.address();
            let _ = writeln!(
                out,
                "    - {{path: ping, args: [-n, -c, \"3\", {target}], start_time: {CONVERGED} s}}"
            );
            let _ = writeln!(
                out,
                "    - {{path: traceroute, args: [-n, {target}], start_time: {} s}}",
                CONVERGED + 5
            );
        }
    }
}
