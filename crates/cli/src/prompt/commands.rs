//! Commands of the prompt.

use super::line::{Line, parse};
use super::world::World;
use super::{measure, network};
use crate::attach::{self, Connection, Program};
use crate::failure::Failure;
use crate::progress;
use crate::tty::{self, Input};
use belljar_config::Experiment;
use belljar_net::units::parse_duration;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

/// Commands, their arguments and effects, in the order of the help.
const COMMANDS: [(&str, &str, &str); 18] = [
    ("HOST", "COMMAND [&]", "run a command on a host; names of hosts in it become their addresses"),
    ("pingall", "", "ping between all hosts"),
    ("pingpair", "", "ping between the first two hosts"),
    ("iperf", "[HOST HOST]", "TCP throughput between two hosts [the first and the last]"),
    ("nodes", "", "list all nodes"),
    ("links", "", "list all links"),
    ("net", "", "list the interfaces of all nodes with their peers"),
    ("dump", "", "list the addresses of all nodes"),
    ("link", "NODE NODE up|down", "take a link of a host up or down"),
    ("wait", "DURATION", "let time pass: wait 5 s"),
    ("xterm", "HOST ...", "open a terminal window on hosts"),
    ("sh", "COMMAND", "run a command on this machine, outside of the experiment"),
    ("source", "FILE", "read commands from a file"),
    ("time", "COMMAND", "run a command and print the real time that it took"),
    ("noecho", "HOST COMMAND", "run a command on a host without its terminal"),
    ("help", "", "list the commands"),
    ("exit", "", "end the run and leave"),
    ("quit", "", "end the run and leave"),
];
/// Commands of Mininet's prompt that Belljar does not have, and what to do instead.
const OTHERS: [(&str, &str); 7] = [
    ("py", "it has no Python: use 'HOST python3 -c ...', or Belljar's Python package"),
    ("px", "it has no Python: use 'HOST python3 -c ...', or Belljar's Python package"),
    ("dpctl", "run 'ovs-ofctl' on the host that has the switch"),
    ("iperfudp", "run 'iperf3 -u' on the hosts"),
    ("switch", "take its links down, or use an event of the experiment"),
    ("x", "use 'xterm'"),
    ("gterm", "use 'xterm'"),
];
/// Nesting of files that `source` reads.
const DEPTH: usize = 10;
/// Shell that runs the command lines of hosts.
const RUN_LINE: &str = "if command -v bash >/dev/null; then exec bash -c \"$1\"; else exec sh -c \"$1\"; fi";

/// What follows a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Another command.
    GoOn,
    /// The end.
    Leave,
}

/// Performs commands.
pub struct Commands {
    /// Run behind the prompt.
    pub world: World,
    experiment: Experiment,
    /// Names of all hosts and devices.
    nodes: Vec<String>,
    hosts: Vec<String>,
}

impl Commands {
    pub fn new(world: World, experiment: Experiment) -> Commands {
        let nodes = network::nodes(&experiment);
        let hosts = belljar_sim::host_names(&experiment);
        Commands { world, experiment, nodes, hosts }
    }

    /// Words that are completed: commands and nodes.
    pub fn words(&self) -> Vec<String> {
        let commands = COMMANDS[1..].iter().map(|(name, ..)| (*name).to_owned());
        commands.chain(self.nodes.iter().cloned()).collect()
    }

    /// Performs a line. Errors are printed.
    pub fn perform(&mut self, text: &str) -> Next {
        self.try_perform(text, 0).unwrap_or_else(|failure| {
            if !failure.is_quiet() {
                eprintln!("{}", crate::paint::message(&failure.to_string()));
            }
            Next::GoOn
        })
    }

    fn try_perform(&mut self, text: &str, depth: usize) -> Result<Next, Failure> {
        match parse(text, &self.nodes, &|name| network::address(&self.experiment, name)) {
            Line::Empty => {}
            Line::Shell(command) => {
                let status = Command::new("/bin/sh").arg("-c").arg(command).status();
                status.map_err(Failure::run)?;
            }
            Line::On(host, command, background) => self.on_host(&host, &command, background)?,
            Line::Command(name, arguments) => return self.command(&name, &arguments, text, depth),
        }
        Ok(Next::GoOn)
    }

    fn command(
        &mut self,
        name: &str,
        arguments: &[String],
        text: &str,
        depth: usize,
    ) -> Result<Next, Failure> {
        let rest = text.trim().strip_prefix(name).unwrap_or_default().trim();
        match (name, arguments) {
            ("exit" | "quit", []) => return Ok(Next::Leave),
            ("help" | "?", _) => print!("{}", help()),
            ("nodes", []) => println!("available nodes are:\n{}", self.nodes.join(" ")),
            ("links", []) => print!("{}", network::links(&self.experiment)),
            ("net", []) => print!("{}", network::net(&self.experiment)),
            ("dump", []) => print!("{}", network::dump(&self.experiment)),
            ("pingall", []) => drop(measure::ping_all(self, &self.hosts)?),
            ("pingpair", []) => drop(measure::ping_all(self, &self.hosts[..self.hosts.len().min(2)])?),
            ("iperf", [] | [_, _]) => {
                let (first, last) = (self.hosts.first(), self.hosts.last());
                let pair = arguments.first().or(first).zip(arguments.get(1).or(last));
                let (from, to) =
                    pair.filter(|(a, b)| a != b).ok_or_else(|| Failure::usage("iperf needs two hosts"))?;
                self.host(from)?;
                measure::iperf(self, from, to)?;
            }
            ("link", [a, b, state]) if ["up", "down"].contains(&&**state) => self.link(a, b, state)?,
            ("wait", [_, ..]) => self.wait(rest)?,
            ("xterm", [_, ..]) => arguments.iter().try_for_each(|host| self.xterm(host))?,
            ("source", [file]) => return self.source(file, depth),
            ("time", [_, ..]) => {
                let began = progress::now();
                let next = self.try_perform(rest, depth)?;
                println!("*** Elapsed time: {:.6} secs", began.elapsed().as_secs_f64());
                return Ok(next);
            }
            ("noecho", [host, _, ..]) => {
                self.host(host)?;
                let line = rest.strip_prefix(&**host).unwrap_or_default().trim();
                let (_, text) = self.capture(host, line)?;
                print!("{text}");
            }
            _ => return Err(self.misused(name)),
        }
        Ok(Next::GoOn)
    }

    /// Error for a command that does not exist, or has other arguments.
    fn misused(&self, name: &str) -> Failure {
        if let Some((_, usage, effect)) = COMMANDS.iter().find(|(known, ..)| *known == name) {
            return Failure::usage(format!("usage: {name} {usage}: {effect}"));
        }
        if let Some((_, remedy)) = OTHERS.iter().find(|(known, _)| *known == name) {
            return Failure::usage(format!("the prompt has no command '{name}': {remedy}"));
        }
        let hosts = self.hosts.join(", ");
        Failure::usage(format!(
            "there is no command or host '{name}': 'help' lists the commands; hosts are {hosts}"
        ))
    }

    /// Checks the name of a host.
    fn host(&self, name: &str) -> Result<(), Failure> {
        match self.hosts.iter().any(|host| host == name) {
            true => Ok(()),
            false if self.nodes.iter().any(|node| node == name) => {
                Err(Failure::usage(format!("{name} is not a host: commands run on hosts alone")))
            }
            false => {
                let hosts = self.hosts.join(", ");
                Err(Failure::usage(format!("there is no host {name}; there are: {hosts}")))
            }
        }
    }

    /// Address of a host.
    pub fn address(&self, host: &str) -> Result<String, Failure> {
        self.host(host)?;
        network::address(&self.experiment, host).ok_or_else(|| Failure::run(format!("{host} has no address")))
    }

    /// Runs a command line on a host, with the terminal if there is one.
    fn on_host(&self, host: &str, line: &str, background: bool) -> Result<(), Failure> {
        self.host(host)?;
        if background {
            return self.start(host, line);
        }
        if line.is_empty() {
            return Err(Failure::usage(format!("usage: {host} COMMAND (a shell is '{host} bash')")));
        }
        let input = if tty::is_here() { Input::Terminal } else { Input::Nothing };
        let connection = Connection::open(&self.world.folder, host, line_command(line), input, false)?;
        let (_, remark) = connection.relay(input)?;
        if !remark.is_empty() {
            eprintln!("belljar: {remark}");
        }
        Ok(())
    }

    /// Starts a command line on a host in the background. Its output is printed when it comes.
    pub fn start(&self, host: &str, line: &str) -> Result<(), Failure> {
        let connection =
            Connection::open(&self.world.folder, host, line_command(line), Input::Nothing, true)?;
        thread::spawn(move || connection.relay_apart());
        Ok(())
    }

    /// Runs a command line on a host. Returns its exit status and output.
    pub fn capture(&self, host: &str, line: &str) -> Result<(u8, String), Failure> {
        attach::capture(&self.world.folder, host, line_command(line))
    }

    /// Takes the ends of a link that are at hosts up or down.
    fn link(&self, a: &str, b: &str, state: &str) -> Result<(), Failure> {
        for name in [a, b] {
            if !self.nodes.iter().any(|node| node == name) {
                return Err(Failure::usage(format!("there is no node {name}: 'nodes' lists them")));
            }
        }
        let links = network::between(&self.experiment, a, b);
        if links.is_empty() {
            return Err(Failure::usage(format!("there is no link between {a} and {b}: 'links' lists them")));
        }
        for link in links {
            if link.hosts.is_empty() {
                return Err(Failure::usage(format!(
                    "link {} has no end at a host: use an event 'link_down' of the experiment",
                    link.name
                )));
            }
            for (host, interface) in link.hosts {
                let (status, text) = self.capture(&host, &format!("ip link set {interface} {state}"))?;
                if status != 0 {
                    return Err(Failure::run(format!(
                        "{interface} of {host} did not go {state}: {}",
                        text.trim()
                    )));
                }
            }
        }
        Ok(())
    }

    /// Lets time pass.
    fn wait(&self, text: &str) -> Result<(), Failure> {
        let duration = parse_duration(text).map_err(|error| Failure::usage(format!("wait: {error}")))?;
        if self.world.is_emulated {
            let until = progress::now() + Duration::from_nanos(duration.as_nanos());
            while progress::now() < until && !tty::INTERRUPTED.load(std::sync::atomic::Ordering::Relaxed) {
                thread::sleep(
                    Duration::from_millis(20).min(until.saturating_duration_since(progress::now())),
                );
            }
            return Ok(());
        }
        attach::ask(&self.world.folder, &format!("advance {}", duration.as_nanos())).map(drop)
    }

    /// Opens a terminal window on a host.
    fn xterm(&self, host: &str) -> Result<(), Failure> {
        self.host(host)?;
        if std::env::var_os("DISPLAY").is_none_or(|display| display.is_empty()) {
            return Err(Failure::usage(format!(
                "there is no display: use another terminal and 'belljar attach {} {host}'",
                self.world.folder.display()
            )));
        }
        let own = std::env::current_exe().map_err(Failure::run)?;
        let mut window = Command::new("xterm");
        window.args(["-T", &format!("host: {host}"), "-e"]).arg(own).arg("attach");
        window.arg(&self.world.folder).arg(host).stdin(Stdio::null());
        let mut child =
            window.spawn().map_err(|error| Failure::run(format!("cannot start xterm: {error}")))?;
        thread::spawn(move || child.wait());
        Ok(())
    }

    /// Performs the lines of a file.
    fn source(&mut self, file: &str, depth: usize) -> Result<Next, Failure> {
        if depth >= DEPTH {
            return Err(Failure::usage(format!("source {file}: files are nested more than {DEPTH} deep")));
        }
        let text = belljar_inputs::read_text(Path::new(file))
            .map_err(|error| Failure::usage(format!("source {file}: {error}")))?;
        for line in text.lines() {
            if self.try_perform(line, depth + 1)? == Next::Leave {
                return Ok(Next::Leave);
            }
        }
        Ok(Next::GoOn)
    }
}

/// Command that runs a line in the host's best shell.
fn line_command(line: &str) -> Program {
    Program {
        command: ["sh", "-c", RUN_LINE, "sh", line].map(str::to_owned).to_vec(),
        title: line.to_owned(),
    }
}

/// List of the commands.
fn help() -> String {
    let lines = COMMANDS.iter().map(|(name, usage, effect)| {
        let usage = format!("{name} {usage}");
        format!("{usage:<26} {effect}\n")
    });
    lines.collect()
}
