//! Loads an [`Experiment`] from the tree of its file, with one module per section.

mod captures;
mod cpu;
mod events;
pub(crate) mod events_values;
mod experimental;
mod extensions;
mod general;
mod hosts;
mod inventory;
pub(crate) mod links;
mod machine;
mod models;
mod network;
pub(crate) mod process;
mod root;
#[cfg(test)]
mod tests;

use crate::error::{ConfigError, Problem, Source, plain};
use crate::model::{Experiment, Experimental, Extensions, FinalState, Host, HostOptions, Network, Process};
use crate::yaml::{self, Section, Setting};
use crate::{GUEST_PATH, PathContext, Signal};
use belljar_base::{Map, SimTime};
use belljar_net::NodeIndex;
use std::io::Read;
use std::net::Ipv4Addr;
use std::path::Path;

pub use inventory::{Inventory, Machine};

const KEYS: &[&str] = &[
    "general",
    "network",
    "host_option_defaults",
    "hosts",
    "switches",
    "routers",
    "simulators",
    "radios",
    "gateways",
    "nics",
    "memories",
    "links",
    "experimental",
    "belljar",
    "events",
];

/// Stop time of `belljar exec`: simulated time ends after 213 days.
const EXEC_STOP_TIME: SimTime = SimTime::from_secs(200 * 86_400);

impl Experiment {
    /// Loads the experiment file at `path`; `-` is standard input. Relative paths in it are resolved against
    /// its folder, then against the current folder.
    pub fn load(path: &Path) -> Result<Experiment, ConfigError> {
        Experiment::load_with(path, &[])
    }

    /// [`load`](Self::load) with values that replace those in the file.
    pub fn load_with(path: &Path, settings: &[Setting]) -> Result<Experiment, ConfigError> {
        let stdin = path == Path::new("-");
        let name = if stdin { "standard input".to_owned() } else { path.display().to_string() };
        let bytes = match stdin {
            true => {
                let mut bytes = Vec::new();
                std::io::stdin().read_to_end(&mut bytes).map(|_| bytes)
            }
            false => std::fs::read(path),
        };
        let fail = |message: String| {
            let source = Source { name: name.clone(), text: String::new() };
            Problem::whole_file(message).into_error(&source)
        };
        let bytes = bytes.map_err(|e| fail(format!("the experiment cannot be read: {}", plain(&e))))?;
        let text = String::from_utf8(bytes).map_err(|e| {
            fail(format!("this is not text: byte {} is not UTF-8", e.utf8_error().valid_up_to()))
        })?;
        let base_dir = if stdin { Path::new("") } else { path.parent().unwrap_or(Path::new("")) };
        Experiment::parse_with(&name, &text, base_dir, settings)
    }

    /// Loads an experiment from `text`, which the user knows as `name`. Relative paths in it are resolved
    /// against `base_dir`, then against the current folder.
    pub fn parse(name: &str, text: &str, base_dir: &Path) -> Result<Experiment, ConfigError> {
        Experiment::parse_with(name, text, base_dir, &[])
    }

    /// [`parse`](Self::parse) with values that replace those in the text.
    pub fn parse_with(
        name: &str,
        text: &str,
        base_dir: &Path,
        settings: &[Setting],
    ) -> Result<Experiment, ConfigError> {
        let source = Source { name: name.to_owned(), text: text.to_owned() };
        let around = PathContext::of_this_process(base_dir);
        experiment(&source, &around, settings)
            .map_err(|problem| yaml::set::located(problem, settings).into_error(&source))
    }

    /// [`parse`](Self::parse) in a given context, independent of this process.
    pub fn parse_in(name: &str, text: &str, around: &PathContext) -> Result<Experiment, ConfigError> {
        let source = Source { name: name.to_owned(), text: text.to_owned() };
        experiment(&source, around, &[]).map_err(|problem| problem.into_error(&source))
    }

    /// An experiment of one host, named `host`, that runs `command` (a program and its arguments) with any
    /// final state.
    pub fn single_host(command: &[String]) -> Result<Experiment, ConfigError> {
        let around = PathContext::of_this_process(Path::new(""));
        let source = Source { name: "command line".to_owned(), text: String::new() };
        let fail = |message, help| Problem::whole_file(message).maybe_help(help).into_error(&source);
        let Some((program, args)) = command.split_first() else {
            return Err(fail("there is no command to run".to_owned(), None));
        };
        let path = around.program(program).map_err(|(message, help)| fail(message, help))?;
        let belljar = Extensions::default();
        let process = Process {
            arg0: around.arg0(program, &path, GUEST_PATH),
            path,
            args: args.to_vec(),
            environment: Map::new(),
            user: None,
            start_time: SimTime::ZERO,
            shutdown_time: None,
            shutdown_signal: Signal::TERM,
            expected_final_state: FinalState::Any,
            placement: belljar.placement,
        };
        let host = Host {
            name: "host".to_owned(),
            node: Some(NodeIndex(0)),
            address: Ipv4Addr::new(11, 0, 0, 1),
            ipv6: false,
            address6: None,
            bandwidth_up: None,
            bandwidth_down: None,
            options: HostOptions::default(),
            clock: Default::default(),
            cpu: None,
            processes: vec![process],
            models: Vec::new(),
            interfaces: Vec::new(),
            routing: Default::default(),
            forwarding: false,
            root: None,
            machine: None,
        };
        Ok(Experiment {
            general: general::defaults(EXEC_STOP_TIME),
            network: network::one_gbit_switch(true),
            hosts: vec![host],
            topology: Default::default(),
            experimental: Experimental::default(),
            belljar,
            events: Vec::new(),
            notes: Vec::new(),
        })
    }
}

fn experiment(source: &Source, around: &PathContext, settings: &[Setting]) -> Result<Experiment, Problem> {
    let tree = yaml::parse(&source.text)?;
    let tree = tree.ok_or_else(|| {
        Problem::whole_file("this file is empty")
            .help("an experiment has at least the sections general, network and hosts")
    })?;
    let tree = yaml::set::apply(tree, settings)?;
    let file = Section::new(&tree, "an experiment", KEYS, true)?;
    let mut notes = Vec::new();
    let general = general::read(file.required("general", "general: { stop_time: 10s }")?, around)?;
    let graph_help = "network: { graph: { type: 1_gbit_switch } }";
    let linked = links::linked_names(&file);
    let has_links = file.get("links").is_some() || file.get("radios").is_some();
    let has_graph = !has_links || file.entry("network").is_some();
    let network = match has_graph {
        true => network::read(file.required("network", graph_help)?, source, around)?,
        false => network::one_gbit_switch(true),
    };
    notes.extend(network.graph.notes().iter().cloned());
    let experimental = match file.get("experimental") {
        Some(node) => experimental::read(node, &mut notes)?,
        None => Experimental::default(),
    };
    let belljar = file.get("belljar").map(extensions::read).transpose()?.unwrap_or_default();
    let defaults = match file.get("host_option_defaults") {
        Some(node) => hosts::options(node, "host_option_defaults", &HostOptions::default())?,
        None => HostOptions::default(),
    };
    let name_server = belljar.dns_address;
    let context = hosts::Context {
        network: has_graph.then_some(&network),
        linked: &linked,
        defaults,
        ipv6: belljar.ipv6,
        placement: belljar.placement,
        name_server,
        around,
    };
    let mut hosts = hosts::read(
        file.required("hosts", "hosts: { alice: { network_node_id: 0, processes: [] } }")?,
        &context,
    )?;
    let topology = links::read(&file, &mut hosts, &context, belljar.ipv6)?;
    // The addresses of all hosts are known only now.
    models::resolve(&mut hosts);
    if let Some(host) = hosts.iter().find(|host| host.address == belljar.dns_address) {
        let message = format!("host '{}' has the name server's address {}", host.name, host.address);
        return Err(Problem::whole_file(message)
            .help("give one of them another: belljar: { dns: { address: 10.9.9.9 } }"));
    }
    let world = events_values::World { hosts: &hosts, network: &network, topology: &topology, around };
    let events = file.get("events").map(|node| events::read(node, &world)).transpose()?.unwrap_or_default();
    for host in &hosts {
        let never = |p: &&Process| p.start_time >= general.stop_time && p.start_time != SimTime::MAX;
        for process in host.processes.iter().filter(never) {
            notes.push(format!(
                "host '{}': '{}' never starts, since the simulation stops at {} s",
                host.name,
                process.path.display(),
                general.stop_time.as_secs_f64()
            ));
        }
    }
    notes.extend(unreachable(&hosts, &network));
    notes.extend(links::simulator_notes(&topology));
    let experiment = Experiment { general, network, hosts, topology, experimental, belljar, events, notes };
    captures::check(&file, &experiment)?;
    Ok(experiment)
}

/// A note about hosts without a path between them, if there are any.
fn unreachable(hosts: &[Host], network: &Network) -> Option<String> {
    let graph = &network.graph;
    let mut at_node = vec![0; graph.nodes().len()];
    hosts.iter().filter_map(|host| host.node).for_each(|node| at_node[node.index()] += 1);
    let (from, to) = graph.unreachable(&at_node)?;
    let name = |node: NodeIndex| {
        let host = hosts.iter().find(|host| host.node == Some(node));
        format!("host '{}' (node {})", host.map_or("", |h| &h.name), graph.node(node).id)
    };
    let what = if network.use_shortest_path { "path" } else { "edge" };
    Some(format!(
        "no {what} of the graph leads from {} to {}: their packets are dropped",
        name(from),
        name(to)
    ))
}
