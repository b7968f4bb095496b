//! SimBricks: scripts in Python of its orchestration framework. A script is run with modules in place of the framework's that record
//! components, channels, applications and simulators (`system.py`, `earlier.py` and `run.py`, one program). Hosts of QEMU or gem5
//! become hosts, models of network controllers controllers in `nics`, switches of any network simulator switches. Everything else
//! is an error, and all of them are reported at once.

use super::draft::{At, Command, CommandKind};
use super::record::{self, get, items, line, of_line, text};
use super::script::Script;
use super::write::{STOP_TIME, heading, noted, quoted_address};
use super::{Imported, Importer, Input, node_name};
use crate::emit::quoted;
use crate::error::{Problem, Problems};
use crate::yaml::Node;
use crate::yaml::section;
use belljar_base::{Map, SimDuration};
use belljar_net::units;
use std::fmt::Write;
use std::rc::Rc;

/// Modules of SimBricks that record.
const MODULES: &str =
    concat!(include_str!("system.py"), "\n\n", include_str!("earlier.py"), "\n\n", include_str!("run.py"));
/// Rate of the links: channels of SimBricks have none, and its controllers send as fast as theirs.
const RATE: &str = "10 Gbit";
/// Start of the hosts that are waited for, in seconds after the servers.
const CLIENTS: u64 = 1;

/// A script of SimBricks.
pub(super) struct SimBricks;

impl Importer for SimBricks {
    fn name(&self) -> &'static str {
        "simbricks"
    }
    fn description(&self) -> Option<&'static str> {
        Some("a Python script of SimBricks' orchestration framework, which is run: add --run-script")
    }
    fn has_extension(&self, extension: &str) -> bool {
        extension == "py"
    }
    fn recognises(&self, text: &str) -> bool {
        text.contains("import simbricks") || text.contains("from simbricks")
    }
    fn read(&self, input: &Input) -> Result<Imported, Problem> {
        let record = record::of_script(input, "SimBricks", MODULES)?;
        let mut problems = Problems::default();
        for missing in items(&record, "missing")? {
            let help = "remove it, or write the experiment by hand: see the guide on coming from SimBricks";
            problems.add(record::problem(&missing)?.help(help));
        }
        if let Some(failure) = record::failure(&record) {
            problems.add(record::problem(&failure)?);
        }
        if let Some(problem) = problems.in_order() {
            return Err(problem);
        }
        let mut experiment = Experiment { input, out: String::new(), notes: Vec::new(), names: Map::new() };
        for note in items(&record, "notes")? {
            experiment.note(line(&note)?, &text(&note, "text")?);
        }
        experiment.write(&record)?;
        Ok(Imported { yaml: experiment.out, notes: experiment.notes })
    }
}

/// An experiment that is being written.
struct Experiment<'a> {
    input: &'a Input<'a>,
    out: String,
    notes: Vec<String>,
    /// Names here by names in the script.
    names: Map<String, String>,
}

impl Experiment<'_> {
    fn note(&mut self, line: usize, text: &str) {
        self.notes.push(noted(&self.input.source.name, line, text));
    }

    fn write(&mut self, record: &Node) -> Result<(), Problem> {
        let (hosts, nics) = (items(record, "hosts")?, items(record, "nics")?);
        let (switches, links) = (items(record, "switches")?, items(record, "links")?);
        if hosts.is_empty() {
            return Err(Problem::whole_file("the script makes no experiment")
                .help("it has no host in an Instantiation, a Simulation or an Experiment"));
        }
        for node in hosts.iter().chain(&nics).chain(&switches) {
            self.name(node)?;
        }
        self.out.push_str(&heading(&self.input.source.name));
        let _ = writeln!(self.out, "general: {{stop_time: {STOP_TIME} s}}");
        self.note(0, &format!("SimBricks ends when the applications do that are waited for: the run ends after {STOP_TIME} s"));
        if !nics.is_empty() {
            self.note(0, "the network controllers are Belljar's, of the e1000 family");
        }
        if !links.is_empty() {
            self.note(0, &format!("channels have no rate: that of the links is {RATE}"));
        }
        let waits: Vec<bool> = hosts.iter().map(waits).collect::<Result<_, _>>()?;
        let has_servers = waits.contains(&true) && waits.contains(&false);
        if has_servers {
            self.note(0, &format!("hosts that are waited for start {CLIENTS} s after the others"));
        }
        if waits.contains(&false) {
            self.note(0, "hosts that are not waited for may end in any state");
        }
        self.out.push_str("hosts:\n");
        for (host, waits) in hosts.iter().zip(waits) {
            self.host(host, waits, has_servers)?;
        }
        if !nics.is_empty() {
            self.out.push_str("nics:\n");
        }
        for nic in &nics {
            let name = self.known(&text(nic, "name")?);
            let _ = writeln!(self.out, "  {}: {{}}", quoted(&name));
        }
        if !switches.is_empty() {
            self.out.push_str("switches:\n");
        }
        for switch in &switches {
            let name = self.known(&text(switch, "name")?);
            let _ = writeln!(self.out, "- {}", quoted(&name));
        }
        if !links.is_empty() {
            self.out.push_str("links:\n");
        }
        for link in &links {
            let ends = [self.known(&text(link, "first")?), self.known(&text(link, "second")?)];
            let [first, second] = ends.each_ref().map(|end| quoted(end));
            let latency = latency(link)?;
            let _ =
                writeln!(self.out, "- {{between: [{first}, {second}], rate: {RATE}, latency: {latency}}}");
        }
        Ok(())
    }

    fn host(&mut self, host: &Node, waits: bool, has_servers: bool) -> Result<(), Problem> {
        let name = self.known(&text(host, "name")?);
        let _ = writeln!(self.out, "  {}:", quoted(&name));
        let (mut devices, mut addresses) = (Vec::new(), Vec::new());
        for interface in items(host, "interfaces")? {
            let (own, nic, address) =
                (text(&interface, "name")?, text(&interface, "nic")?, text(&interface, "address")?);
            if !nic.is_empty() {
                let (nic, latency) = (quoted(&self.known(&nic)), latency(&interface)?);
                devices.push(format!("{{pci: {nic}, driver: e1000, interface: {own}, latency: {latency}}}"));
            }
            if !address.is_empty() {
                addresses.push(format!("{own}: {{addresses: [{}]}}", quoted_address(&address)));
            }
        }
        if !devices.is_empty() {
            let _ = writeln!(self.out, "    devices: [{}]", devices.join(", "));
        }
        if !addresses.is_empty() {
            let _ = writeln!(self.out, "    interfaces: {{{}}}", addresses.join(", "));
        }
        let at = At::line(line(host)?);
        let command = |item: &Rc<Node>| -> Result<Command, Problem> {
            let text = section::string(item, "commands")?.to_owned();
            Ok(Command { at: at.clone(), text, kind: CommandKind::Shell })
        };
        let commands: Vec<Command> =
            items(host, "commands")?.iter().map(command).collect::<Result<_, _>>()?;
        let script = Script::of_commands(&commands);
        if script.is_empty() {
            self.out.push_str("    processes: []\n");
            return Ok(());
        }
        let _ = write!(self.out, "    processes:\n    - path: /bin/bash\n{}", script.arguments("      "));
        if waits && has_servers {
            let _ = writeln!(self.out, "      start_time: {CLIENTS} s");
        }
        let is_tolerated = self.input.options.tolerate_failures;
        for command in commands.iter().filter(|_| is_tolerated && waits) {
            self.note(line(host)?, &format!("'{name}' may fail at '{}'", command.text.trim()));
        }
        if !waits || is_tolerated {
            self.out.push_str("      expected_final_state: any\n");
        }
        Ok(())
    }

    /// Gives a node of the script a name that an experiment can have.
    fn name(&mut self, node: &Node) -> Result<(), Problem> {
        let (written, at) = (text(node, "name")?, line(node)?);
        let name = node_name(&written);
        if name.is_empty() {
            let message = format!("no letter or digit of the name '{written}' can be in a host's name");
            return Err(Problem::at(of_line(at), message).help("give the component another name"));
        }
        if self.names.values().any(|known| *known == name) {
            let message = format!("there are two components that would be called '{name}'");
            return Err(Problem::at(of_line(at), message)
                .help("names differ in more than case and spaces here: rename one of them"));
        }
        if name != written {
            self.note(at, &format!("'{written}' is called '{name}' here"));
        }
        self.names.insert(written, name);
        Ok(())
    }

    /// The name here of a node, or of a node's interface.
    fn known(&self, end: &str) -> String {
        match (self.names.get(end), end.rsplit_once(':')) {
            (Some(name), _) => name.clone(),
            (None, Some((node, interface))) => format!("{}:{interface}", self.known(node)),
            (None, None) => end.to_owned(),
        }
    }
}

/// True if SimBricks waits for an application of the host.
fn waits(host: &Rc<Node>) -> Result<bool, Problem> {
    section::boolean(&get(host, "waits"), "waits")
}

/// Latency of a channel, at least 2 ns: what an experiment can have everywhere.
fn latency(node: &Node) -> Result<String, Problem> {
    let written = text(node, "latency")?;
    let nanoseconds = written.parse::<f64>().ok().filter(|own| own.is_finite() && *own >= 0.0);
    let nanoseconds = nanoseconds.ok_or_else(|| {
        Problem::whole_file(format!("the latency of a channel is '{written}', which is no number"))
    })?;
    Ok(units::format_duration(SimDuration::from_nanos((nanoseconds.round() as u64).max(2))))
}
