//! Loads an [`Experiment`] from the tree of its file, with one module per section.

mod args;
mod captures;
pub(crate) mod cpu;
mod effects;
mod events;
pub(crate) mod events_values;
mod experimental;
mod exploration;
mod extensions;
mod general;
mod hosts;
mod inventory;
mod judged_packets;
pub(crate) mod links;
mod machine;
mod models;
mod network;
pub(crate) mod process;
mod properties;
mod recovery;
pub(crate) mod root;
mod scheduling;
#[cfg(test)]
mod tests;

use crate::error::{ConfigError, Problem, Problems, Source, plain};
use crate::exploration::Exploration;
use crate::model::{Experiment, Experimental, Extensions, FinalState, Host, HostOptions, Network, Process};
use crate::yaml::section::mapping;
use crate::yaml::{self, Node, Section, Setting, Value};
use crate::{GUEST_PATH, PathContext, Signal};
use belljar_base::choices::Choices;
use belljar_base::{Map, SimTime};
use belljar_net::NodeIndex;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};

pub use inventory::{Inventory, Machine};

/// Size in bytes of the largest experiment file that is read.
const LARGEST: u64 = 256 << 20;
/// Path of the stop time, as a setting of the command line has it.
pub const STOP_TIME: &str = "general.stop_time";
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
    "properties",
    "explore",
];

/// Bandwidth in bits per second below which a note asks whether a unit is missing.
const SLOW: u64 = 1_000;
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
        Experiment::load_into(path, settings, None)
    }

    /// [`load_with`](Self::load_with) for readers of the network alone: programs, roots and machines that are missing
    /// are accepted.
    pub fn load_network(path: &Path, settings: &[Setting]) -> Result<Experiment, ConfigError> {
        let (name, text, base_dir) = read_experiment(path)?;
        let around = PathContext { network_only: true, ..PathContext::of_this_process(base_dir) };
        Experiment::parse_around(&name, &text, &around, settings)
    }

    /// [`load_with`](Self::load_with) with the results folder of an experiment that names none, in place of the file's
    /// name with `.data` in the current folder.
    pub fn load_into(
        path: &Path,
        settings: &[Setting],
        results: Option<&Path>,
    ) -> Result<Experiment, ConfigError> {
        let (name, text, base_dir) = read_experiment(path)?;
        let mut experiment = Experiment::parse_with(&name, &text, base_dir, settings)?;
        let of_file = path.file_stem().filter(|_| !is_stdin(path)).map(|stem| {
            let mut name = stem.to_owned();
            name.push(".data");
            PathBuf::from(name)
        });
        let results = results.map(Path::to_owned).or(of_file);
        experiment.general.data_directory = experiment.general.data_directory.or(results);
        Ok(experiment)
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
        Experiment::parse_around(name, text, &PathContext::of_this_process(base_dir), settings)
    }

    fn parse_around(
        name: &str,
        text: &str,
        around: &PathContext,
        settings: &[Setting],
    ) -> Result<Experiment, ConfigError> {
        let source = Source { name: name.to_owned(), text: text.to_owned() };
        experiment(&source, around, settings)
            .map_err(|problem| yaml::set::located(problem, settings).into_error(&source))
    }

    /// [`parse`](Self::parse) in a given context, independent of this process.
    pub fn parse_in(name: &str, text: &str, around: &PathContext) -> Result<Experiment, ConfigError> {
        Experiment::parse_around(name, text, around, &[])
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
            must_start: false,
            placement: belljar.placement,
            is_setup: false,
            written: None,
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
            cpu_count: None,
            memory: None,
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
            properties: Vec::new(),
            explore: None,
            choices: Choices::NONE,
            notes: Vec::new(),
        })
    }
}

/// True for the path that stands for standard input.
fn is_stdin(path: &Path) -> bool {
    path == Path::new("-")
}

/// Name of an experiment file in messages, its text, and the base of relative paths in it.
fn read_experiment(path: &Path) -> Result<(String, String, &Path), ConfigError> {
    let name = if is_stdin(path) { "standard input".to_owned() } else { path.display().to_string() };
    let text = read_file(path).map_err(|message| {
        let source = Source { name: name.clone(), text: String::new() };
        Problem::whole_file(message).into_error(&source)
    })?;
    let base_dir = path.parent().filter(|_| !is_stdin(path)).unwrap_or(Path::new(""));
    Ok((name, text, base_dir))
}

/// Text of an experiment file; `-` is standard input. The error is a sentence.
pub(crate) fn read_file(path: &Path) -> Result<String, String> {
    let read = || match is_stdin(path) {
        true => belljar_inputs::read_stream(std::io::stdin(), LARGEST),
        false => belljar_inputs::read_at_most(path, LARGEST),
    };
    let bytes = read().map_err(|error| {
        let help = if belljar_inputs::is_irregular(&error) { "; `-` reads standard input" } else { "" };
        format!("the experiment cannot be read: {}{help}", plain(&error))
    })?;
    String::from_utf8(bytes)
        .map_err(|e| format!("this is not text: byte {} is not UTF-8", e.utf8_error().valid_up_to()))
}

fn experiment(source: &Source, around: &PathContext, settings: &[Setting]) -> Result<Experiment, Problem> {
    let tree = yaml::parse(&source.text)?;
    let tree = tree.ok_or_else(|| {
        Problem::whole_file("this file is empty")
            .help("an experiment has at least the sections general, network and hosts")
    })?;
    let tree = yaml::set::apply(tree, settings)?;
    let load = |tree: &Node, is_partial: bool| experiment_of(tree, source, around, settings, is_partial);
    load(&tree, false).map_err(|problem| match has_nodes(&tree) {
        true => recovery::all(&tree, problem, |rest| load(rest, true).map(|_| ())),
        // Without them nothing of the rest can be judged.
        false => problem,
    })
}

/// True if a tree has hosts or simulators, by which the rest of it is understood.
fn has_nodes(tree: &Node) -> bool {
    ["hosts", "simulators"].iter().filter_map(|key| tree.entry(key)).any(|entry| match &entry.value.value {
        Value::Mapping(entries) => !entries.is_empty(),
        _ => false,
    })
}

/// Loads a tree. If it `is_partial`, sections with problems have been left out of it, and nothing demands them.
fn experiment_of(
    tree: &Node,
    source: &Source,
    around: &PathContext,
    settings: &[Setting],
    is_partial: bool,
) -> Result<Experiment, Problem> {
    let mut problems = Problems::default();
    // Sections with other keys are reported, and the rest is read.
    let file = Section::collecting(tree, "an experiment", KEYS, true, &mut problems)?;
    let mut notes = Vec::new();
    let is_absent = |key: &str| is_partial && file.get(key).is_none();
    let is_endless = is_absent("general");
    let general = match is_endless {
        true => Some(general::defaults(SimTime::MAX)),
        false => {
            let node = file.required("general", "general: { stop_time: 10s }");
            problems.take(node.and_then(|node| general::read(node, around)))
        }
    };
    let graph_help = "network: { graph: { type: 1_gbit_switch } }";
    let linked = links::linked_names(&file);
    let has_links = file.get("links").is_some() || file.get("radios").is_some();
    let is_any_graph = is_absent("network");
    let has_graph = !has_links || file.entry("network").is_some() || is_any_graph;
    let network = match has_graph && !is_any_graph {
        true => {
            let node = file.required("network", graph_help);
            problems.take(node.and_then(|node| network::read(node, source, around)))
        }
        false => Some(network::one_gbit_switch(true)),
    };
    notes.extend(network.iter().flat_map(|network| network.graph.notes().iter().cloned()));
    let experimental = match file.get("experimental") {
        Some(node) => problems.take(experimental::read(node, &mut notes)).unwrap_or_default(),
        None => Experimental::default(),
    };
    let belljar = file.get("belljar").map(extensions::read).transpose();
    let belljar = problems.take(belljar).flatten().unwrap_or_default();
    let defaults = file.get("host_option_defaults").map(hosts::defaults).transpose();
    let (defaults, reading) = problems.take(defaults).flatten().unwrap_or_default();
    // Hosts are read without a graph only if the file has none.
    if network.is_none() {
        problems.check()?;
    }
    let network = network.expect("a section without a problem has a value");
    let name_server = belljar.dns_address;
    let context = hosts::Context {
        network: has_graph.then_some(&network),
        is_any_graph,
        linked: &linked,
        defaults,
        reading,
        ipv6: belljar.ipv6,
        address_pool: belljar.address_pool,
        placement: belljar.placement,
        name_server,
        simulators: file
            .get("simulators")
            .is_some_and(|node| mapping(node, "section 'simulators'").is_ok_and(|all| !all.is_empty())),
        around,
    };
    let example = "hosts: { alice: { network_node_id: 0, processes: [] } }";
    // A run of simulators alone needs no host.
    let mut hosts = match file.entry("hosts") {
        None if context.simulators => Vec::new(),
        _ if is_absent("hosts") => Vec::new(),
        _ => {
            let node = file.required("hosts", example);
            problems.take(node.and_then(|node| hosts::read(node, &context))).unwrap_or_default()
        }
    };
    problems.check()?;
    let general = general.expect("a section without a problem has a value");
    let topology = links::read(&file, &mut hosts, &context, belljar.ipv6)?;
    // The addresses of all hosts are known only now.
    models::resolve(&mut hosts);
    if let Some(host) = hosts.iter().find(|host| host.address == belljar.dns_address) {
        let message = format!("host '{}' has the name server's address {}", host.name, host.address);
        return Err(Problem::whole_file(message)
            .help("give one of them another: belljar: { dns: { address: 10.9.9.9 } }"));
    }
    let is_overridden = settings.iter().any(|setting| setting.path == STOP_TIME);
    let stop_time = (!is_overridden && !is_endless).then_some(general.stop_time);
    let world =
        events_values::World { hosts: &hosts, network: &network, topology: &topology, around, stop_time };
    // The sections that act on the hosts' programs.
    let acting = |key: &str| file.entry(key).filter(|_| !around.network_only);
    let events = acting("events").filter(|entry| !entry.value.is_null());
    let mut events = events.map(|entry| events::read(&entry.value, &world)).transpose()?.unwrap_or_default();
    let mut explore = match acting("explore") {
        Some(entry) if entry.value.is_null() => Some(Exploration::of(&hosts, general.stop_time)),
        Some(entry) => Some(exploration::read(&entry.value, &world, general.stop_time)?),
        None => None,
    };
    let is_explored = explore.is_some();
    let timeline = properties::Timeline { events: &events, is_explored, stop: general.stop_time };
    let properties = acting("properties").filter(|entry| !entry.value.is_null());
    let properties = properties.map(|entry| properties::read(&entry.value, &world, timeline));
    let properties = properties.transpose()?.unwrap_or_default();
    let upgrades = explore.iter_mut().flat_map(|explore| explore.upgrades_mut());
    let actions = events.iter_mut().map(|event| &mut event.action).chain(upgrades);
    properties::name_assertion_files(&mut hosts, actions, &properties);
    for host in &hosts {
        for (key, rate) in [("bandwidth_up", host.bandwidth_up), ("bandwidth_down", host.bandwidth_down)] {
            if let Some(bits) = rate.filter(|bits| *bits < SLOW) {
                notes.push(format!(
                    "host '{}': '{key}' is {bits} bit/s: a number without a unit counts bits per second",
                    host.name
                ));
            }
        }
    }
    notes.extend(unreachable(&hosts, &network));
    notes.extend(links::simulator_notes(&topology));
    notes.extend(links::p4_notes(&topology, &events));
    let mut experiment = Experiment {
        general,
        network,
        hosts,
        topology,
        experimental,
        belljar,
        events,
        properties,
        explore,
        choices: Choices::NONE,
        notes,
    };
    if around.network_only {
        return Ok(experiment);
    }
    effects::check(&file, &experiment).map_err(Problem::relational)?;
    if is_overridden {
        experiment.drop_late_events();
        if !is_explored {
            experiment.settle_properties();
        }
        effects::reset_idle_lines(&mut experiment);
    }
    captures::check(&file, &experiment)?;
    judged_packets::check(&file, &experiment)?;
    effects::settle_final_states(&mut experiment);
    let late = effects::late_times(&experiment);
    experiment.notes.extend(late);
    let idle = effects::notes(&file, &experiment);
    experiment.notes.extend(idle);
    let of_arguments = args::notes(&experiment, around);
    experiment.notes.extend(of_arguments);
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
