//! Kathara: `machine[0]="A"` attaches an interface to a collision domain. A domain of two interfaces becomes
//! a link, every other one a switch. Machines become hosts, or routers if they start a routing daemon.

use super::{Cable, Draft, Imported, Importer, Input, Kind, Member, commands, node_name};
use crate::error::{Problem, Source, Span};
use belljar_base::Map;

/// Options of machines that do not affect the network between them.
const SILENT: [&str; 4] = ["image", "mem", "cpus", "num_terms"];

/// `lab.conf` of Kathara, with `<machine>.startup` beside it.
pub(super) struct Kathara;

impl Importer for Kathara {
    fn name(&self) -> &'static str {
        "kathara"
    }
    fn has_extension(&self, extension: &str) -> bool {
        extension == "conf"
    }
    fn read(&self, input: &Input) -> Result<Imported, Problem> {
        let startup = |machine: &str| (input.beside)(&format!("{machine}.startup"));
        Ok(draft(input.source, startup)?.finish(&input.source.name))
    }
}

fn draft(source: &Source, startup: impl Fn(&str) -> Option<String>) -> Result<Draft, Problem> {
    let mut draft = Draft::default();
    let mut domains: Map<String, Vec<String>> = Map::new();
    let mut interfaces: Map<String, usize> = Map::new();
    let mut later = Vec::new();
    for (n, line) in source.text.lines().enumerate() {
        let text = line.split('#').next().unwrap_or_default().trim();
        let span = Span { line: n + 1, column: 1, len: line.chars().count() };
        if text.is_empty() || text.starts_with("LAB_") {
            continue;
        }
        let Some((machine, key, value)) = assignment(text) else {
            return Err(Problem::at(span, "this is not a line of lab.conf")
                .help("write machine[0]=\"A\" for an interface, or machine[option]=\"value\""));
        };
        let name = node_name(machine);
        if name.is_empty() {
            return Err(Problem::at(span, format!("'{machine}' cannot be a host's name")));
        }
        if name != machine {
            draft.note(format!("'{machine}' is called '{name}' here"));
        }
        let member = draft.members.entry(name.clone()).or_insert_with(|| Member::new(Kind::Host));
        match key.parse::<u32>() {
            Ok(number) => {
                let (domain, mac) = value.split_once('/').map_or((value, None), |(d, mac)| (d, Some(mac)));
                let interface = format!("eth{number}");
                if let Some(mac) = mac {
                    draft.macs.insert((name.clone(), interface.clone()), mac.to_ascii_lowercase());
                }
                domains.entry(domain.to_owned()).or_default().push(format!("{name}:{interface}"));
                *interfaces.entry(machine.to_owned()).or_default() += 1;
            }
            // Deferred until all lines have been read: the startup script comes first, and needs the number
            // of interfaces.
            Err(_) if matches!(key, "sysctl" | "exec") => {
                later.push((n + 1, name, key.to_owned(), value.to_owned()));
            }
            Err(_) if key == "env" => match value.split_once('=') {
                Some((variable, value)) => {
                    member.environment.insert(variable.trim().to_owned(), value.trim().to_owned());
                }
                None => draft.note_at(n + 1, format!("'{value}' sets no variable")),
            },
            Err(_) if key == "ipv6" => {
                draft.note_at(
                    n + 1,
                    "hosts have IPv6 by the experiment's own settings: see the guide on topologies",
                );
            }
            Err(_) if SILENT.contains(&key) => {}
            Err(_) => draft.note_at(n + 1, format!("option '{key}' of machines has no meaning here")),
        }
    }
    for (machine, count) in &interfaces {
        start(&mut draft, machine, *count, startup(machine));
    }
    for (line, name, key, value) in later {
        if key == "exec" {
            draft.run(line, &name, &value);
            continue;
        }
        let Some(member) = draft.members.get_mut(&name) else { continue };
        let (setting, given) = value.split_once('=').unwrap_or((&value, ""));
        if !commands::sysctl(member, setting.trim(), given) {
            draft.note_at(line, format!("the setting '{value}' has no effect here"));
        }
    }
    draft.members.retain(|name, _| interfaces.keys().any(|machine| node_name(machine) == *name));
    join(&mut draft, domains);
    match draft.cables.is_empty() {
        true => {
            Err(Problem::whole_file("no machine of this lab has an interface").help("write machine[0]=\"A\""))
        }
        false => Ok(draft),
    }
}

/// `machine[key]=value`, the value in quotes or not.
fn assignment(text: &str) -> Option<(&str, &str, &str)> {
    let (left, value) = text.split_once('=')?;
    let (machine, key) = left.trim().strip_suffix(']')?.split_once('[')?;
    let value = value.trim();
    let inner = value.strip_prefix(['"', '\'']).and_then(|v| v.strip_suffix(['"', '\'']));
    Some((machine, key.trim_matches(['"', '\'']), inner.unwrap_or(value)))
}

/// Imports the network settings in a machine's startup script.
fn start(draft: &mut Draft, machine: &str, interfaces: usize, script: Option<String>) {
    let name = node_name(machine);
    if let Some(member) = draft.members.get_mut(&name) {
        // Kathara's machines forward packets.
        member.forwarding = Some(interfaces > 1);
    }
    // A script with control flow or here-documents is run as a whole; repeated settings are harmless.
    let is_whole =
        |word: &str| matches!(word, "if" | "for" | "while" | "until" | "case") || word.contains("<<");
    let whole = script.iter().flat_map(|script| script.split_whitespace()).any(is_whole);
    for line in script.iter().flat_map(|script| script.lines()) {
        match draft.members.get_mut(&name) {
            Some(member) if whole => {
                commands::apply(member, line.trim());
                member.script.push((0, line.to_owned()));
            }
            _ => draft.run(0, &name, line.trim()),
        }
    }
}

fn join(draft: &mut Draft, domains: Map<String, Vec<String>>) {
    for (domain, ends) in domains {
        if let [first, second] = &ends[..]
            && first.split(':').next() != second.split(':').next()
        {
            let ends = [first.clone(), second.clone()];
            draft.cables.push(Cable { name: Some(domain), ends, mtu: None });
            continue;
        }
        let base = node_name(&domain);
        let taken = |name: &String| draft.members.contains_key(name);
        let mut names = std::iter::once(base.clone()).chain((1..).map(|n| format!("{base}-{n}")));
        let name = names.find(|name| !name.is_empty() && !taken(name)).expect("numbers don't end");
        draft.members.insert(name.clone(), Member::new(Kind::Switch));
        for (n, end) in ends.into_iter().enumerate() {
            let ends = [end, format!("{name}:p{}", n + 1)];
            draft.cables.push(Cable { name: None, ends, mtu: None });
        }
    }
}
