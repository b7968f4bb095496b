//! Section `simulators`: other simulators and the channels to them.

use super::Station;
use crate::PathContext;
use crate::error::Problem;
use crate::load::process;
use crate::topology::{DeviceKind, Interface, Simulator, SimulatorEnd, SimulatorPort, Topology};
use crate::yaml::section::{self, mapping};
use crate::yaml::{Node, Section};
use belljar_base::{Map, SimDuration};
use belljar_channel::{SOCKET_NAME_MAX, SOCKET_PATH_MAX, is_socket_path};
use belljar_net::suggest::nearest;
use belljar_net::units::format_duration;
use std::path::{Path, PathBuf};

pub(super) const KEYS: &[&str] = &[
    "command",
    "environment",
    "working_directory",
    "sync",
    "latency",
    "sync_interval",
    "start_timeout",
    "ends",
    "ports",
    "devices",
];
/// SimBricks' default latency.
const LATENCY: SimDuration = SimDuration::from_nanos(500);
const START_TIMEOUT: SimDuration = SimDuration::from_secs(30);
const EXAMPLE: &str = "command: [python3, middlebox.py, \"{left}\", \"{right}\"]";
/// Attributes of a port that an argument can contain, besides its adapter URL.
const PARTS: [&str; 3] = ["socket", "memory", "latency"];

/// Loads a simulator, whose ports are the interfaces of its links, and the roles that the file specifies for
/// its ports.
pub(super) fn read(
    station: &Station,
    interfaces: &[Interface],
    around: &PathContext,
) -> Result<(Simulator, Vec<Option<bool>>), Problem> {
    let Some(s) = &station.section else {
        return Err(Problem::at(station.span, format!("nothing is said of simulator '{}'", station.name))
            .help(format!("write what starts it, {EXAMPLE}")));
    };
    if interfaces.is_empty() {
        let name = &station.name;
        return Err(Problem::at(
            station.span,
            format!("no channel reaches simulator '{name}': it is at the end of no link"),
        )
        .relational()
        .help(format!("add it to one: links: [ {{ between: [alice, {name}:p1] }} ]")));
    }
    let latency = s.read("latency", section::duration)?.unwrap_or(LATENCY);
    let sync_interval = s.read("sync_interval", section::duration)?.unwrap_or(latency);
    if latency.is_zero() || sync_interval > latency {
        let node = s.get("sync_interval").filter(|_| !latency.is_zero()).or(s.get("latency"));
        let message = match latency.is_zero() {
            true => "the latency of a channel cannot be 0".to_owned(),
            false => format!(
                "the 'sync_interval' ({}) is longer than the 'latency' ({}): the two clocks would wait for each other",
                format_duration(sync_interval),
                format_duration(latency)
            ),
        };
        let span = node.map_or(s.span, |node| node.span);
        return Err(
            Problem::at(span, message).help("leave 'sync_interval' out: it is as long as the latency then")
        );
    }
    let command = match s.get("command") {
        Some(node) => check_command(node, process::args(node, "command")?, interfaces, around)?,
        None => Vec::new(),
    };
    let mut roles = Vec::new();
    let working_directory = s.read("working_directory", |n, k| directory(n, k, around))?;
    let working_directory = working_directory.unwrap_or(around.base_dir.clone());
    let ports = ports(s, station, interfaces, &working_directory, !command.is_empty(), &mut roles)?;
    let simulator = Simulator {
        command,
        environment: s.read("environment", process::environment)?.unwrap_or_default(),
        working_directory,
        sync: s.read("sync", section::boolean)?.unwrap_or(true),
        latency,
        sync_interval,
        start_timeout: s.read("start_timeout", section::duration)?.unwrap_or(START_TIMEOUT),
        ends: s.read("ends", |n, k| section::choice(n, k, &SimulatorEnd::ALL))?.unwrap_or_default(),
        ports,
    };
    Ok((simulator, roles))
}

fn ports(
    s: &Section,
    station: &Station,
    interfaces: &[Interface],
    directory: &Path,
    started: bool,
    roles_given: &mut Vec<Option<bool>>,
) -> Result<Vec<SimulatorPort>, Problem> {
    let mut ports = vec![SimulatorPort::default(); interfaces.len()];
    roles_given.resize(interfaces.len(), None);
    let entries = s.get("ports").map(|node| mapping(node, "'ports'")).transpose()?.unwrap_or_default();
    for entry in entries {
        let Some(at) = interfaces.iter().position(|interface| interface.name == entry.key) else {
            let message = format!("no link ends at port '{}' of simulator '{}'", entry.key, station.name);
            let help = match nearest(&entry.key, interfaces.iter().map(|interface| interface.name.as_str())) {
                Some(near) => format!("did you mean '{near}'?"),
                None => format!("add a link: {{ between: [{}:{}, ...] }}", station.name, entry.key),
            };
            return Err(Problem::at(entry.key_span, message).help(help));
        };
        let p = Section::new(&entry.value, "a port", &["role", "socket"], false)?;
        let roles = [("connect", false), ("listen", true)];
        let role = p.read("role", |n, k| section::choice(n, k, &roles))?;
        ports[at].listens = role.unwrap_or(false);
        roles_given[at] = role;
        ports[at].socket = p.read("socket", |n, k| socket(n, k, directory))?;
    }
    if let Some((interface, _)) =
        interfaces.iter().zip(&ports).find(|(_, port)| !started && port.socket.is_none())
    {
        let message = format!(
            "simulator '{}' has no 'command', and port '{}' no 'socket': they would never find each other",
            station.name, interface.name
        );
        return Err(Problem::at(station.span, message)
            .relational()
            .help(format!("write {EXAMPLE}, or the path of a socket for each port")));
    }
    Ok(ports)
}

/// The path of a socket, which a simulator with this working directory opens too.
fn socket(node: &Node, key: &str, directory: &Path) -> Result<PathBuf, Problem> {
    let path = PathBuf::from(section::string(node, key)?);
    let whole = directory.join(&path);
    if is_socket_path(&whole) {
        return Ok(path);
    }
    let len = whole.as_os_str().len();
    Err(node
        .problem(format!(
            "'{key}' is a path of {len} bytes, where the address of a socket has {SOCKET_PATH_MAX}"
        ))
        .help(format!(
            "give the file a name of up to {SOCKET_NAME_MAX} bytes: its folder's path may be of any length"
        )))
}

/// The command with its program resolved and every name in braces checked.
fn check_command(
    node: &Node,
    mut command: Vec<String>,
    interfaces: &[Interface],
    around: &PathContext,
) -> Result<Vec<String>, Problem> {
    let Some(program) = command.first_mut().filter(|program| !program.is_empty()) else {
        return Err(node.problem("'command' is empty").help(format!("write {EXAMPLE}")));
    };
    let path = around.program(program).map_err(|(message, help)| node.problem(message).maybe_help(help))?;
    *program = path.to_string_lossy().into_owned();
    let names: Map<&str, ()> = interfaces.iter().map(|interface| (interface.name.as_str(), ())).collect();
    let known = |name: &str| {
        let port = PARTS.iter().find_map(|part| name.strip_suffix(part)?.strip_suffix('.')).unwrap_or(name);
        (name == "folder" || names.contains_key(port)).then(String::new)
    };
    for argument in &command {
        if let Err(name) = Simulator::place(argument, known) {
            let help = match nearest(&name, names.keys().copied()) {
                Some(near) => format!("did you mean '{{{near}}}'?"),
                None => {
                    let names: Vec<&str> = names.keys().copied().collect();
                    format!("links end at: {}; '{{folder}}' is its folder in the results", names.join(", "))
                }
            };
            return Err(node
                .problem(format!("'{{{name}}}' in 'command' is no port at the end of a link"))
                .help(help));
        }
    }
    Ok(command)
}

fn directory(node: &Node, key: &str, around: &PathContext) -> Result<PathBuf, Problem> {
    let written = section::string(node, key)?;
    let path = around.expand(written).map_err(|message| node.problem(message))?;
    let found = around.candidates(&path).into_iter().find(|path| path.is_dir());
    found.ok_or_else(|| node.problem(format!("'{key}' is no directory: '{written}'")))
}

/// Notes on simulators' commands: URLs with a latency that differs from the simulator's, and ports that no
/// argument names.
pub(in crate::load) fn notes(topology: &Topology) -> Vec<String> {
    let mut notes = Vec::new();
    for device in &topology.devices {
        let DeviceKind::Simulator(simulator) = &device.kind else { continue };
        let name = &device.name;
        let given = |argument: &str, key: &str| -> Option<u64> {
            let value = argument.split(':').find_map(|part| part.strip_prefix(key)?.strip_prefix('='))?;
            value.parse().ok().filter(|_| argument.contains(":sync="))
        };
        for argument in &simulator.command {
            for (key, own) in [("latency", simulator.latency), ("sync_interval", simulator.sync_interval)] {
                if let Some(other) =
                    given(argument, key).filter(|other| SimDuration::from_nanos(*other) != own)
                {
                    notes.push(format!(
                        "simulator '{name}': '{argument}' has a {key} of {other} ns, and 'simulators' one of {}: the two directions differ",
                        format_duration(own)
                    ));
                }
            }
        }
        let ports = device.interfaces.iter().zip(&simulator.ports).filter(|(_, port)| port.socket.is_none());
        for (interface, _) in ports {
            let named = simulator.command.iter().any(|argument| {
                ["}", ".socket}"].iter().any(|end| argument.contains(&format!("{{{}{end}", interface.name)))
            });
            if !named {
                notes.push(format!(
                    "simulator '{name}': no argument of its command has the address of port '{0}', '{{{0}}}'",
                    interface.name
                ));
            }
        }
    }
    notes
}
