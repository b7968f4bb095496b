//! From an experiment to the nodes that the engine runs.

use crate::cable::Cable;
use crate::captures::Captures;
use crate::debug::DebugState;
use crate::device::{self, DeviceNode};
use crate::fabric::Fabric;
use crate::node::HostNode;
use crate::output::Output;
use crate::run::RunOptions;
use crate::schedule::{HostChange, LinkChange, routes_for};
use belljar_base::{HostId, Map, Seed, SimTime};
use belljar_config::topology::Interface;
use belljar_config::{Experiment, GUEST_PATH, Host as HostSettings, Model, Placement, Process, StraceMode};
use belljar_kernel::clock::{CallLatency, CpuModel};
use belljar_kernel::{Buffers, Host, HostConfig, LinkConfig, ModelSpec, ProcessSpec, Resolver};
use belljar_net::NicConfig;
use belljar_platform::HostMachine;
use belljar_results::{ResultsFolder, Writer};
use belljar_wire::ethernet;
use std::path::Path;
use std::sync::Arc;

/// What every process finds in its environment, besides what the experiment sets.
const CLEAN_ENVIRONMENT: [(&str, &str); 4] =
    [("PATH", GUEST_PATH), ("HOME", "/root"), ("LANG", "C.UTF-8"), ("TZ", "UTC")];

/// Builds those hosts of the experiment that are `mine`, in the order of their ids; `changes` are all hosts'.
pub fn build(
    experiment: &Experiment,
    changes: Vec<Vec<(SimTime, HostChange)>>,
    fabric: &Arc<Fabric>,
    mine: impl Fn(HostId) -> bool,
    folder: &ResultsFolder,
    options: &RunOptions,
    writer: &Arc<Writer>,
) -> Vec<HostNode> {
    let names = Arc::new(fabric.names());
    let names6 = Arc::new(experiment.names6().map(|(name, at)| (name.to_owned(), at)).collect::<Vec<_>>());
    let zone = Arc::new(experiment.zone());
    // Only hosts with programs have room for guests.
    let has_programs = |host: &HostSettings| !host.processes.is_empty() || host.models.is_empty();
    let mut programs = 0;
    let place = |host: &HostSettings| {
        let place = programs;
        programs += u32::from(has_programs(host));
        place
    };
    let places: Vec<u32> = experiment.hosts.iter().map(place).collect();
    let ids = (0..experiment.hosts.len() as u32).map(HostId);
    let hosts = ids.zip(experiment.hosts.iter().zip(changes)).filter(|(id, _)| mine(*id));
    let nodes = hosts.map(|(id, (settings, changes))| {
        let mut config = host_config(experiment, settings, id, folder, options, names.clone());
        config.routes = routes_for(experiment, id, &fabric.first().routes[id.index()]);
        config.routes6 = routes_for(experiment, id, &fabric.first().routes6[id.index()]);
        config.names6 = names6.clone();
        config.resolver =
            Some(Resolver { zone: zone.clone(), latency: fabric.latency_to_services(id), down: false });
        let port = options.debug.connect(&settings.name);
        config.attention = port.attention.clone();
        let debug = DebugState::new(port, options.interrupt.clone());
        let kernel = Host::new(config, Box::new(HostMachine::new(places[id.index()], programs)));
        let interfaces = settings.interfaces.iter().map(|interface| interface.name.as_str());
        let wanted =
            Captures::new(experiment, &settings.options.pcap_filter, interfaces.chain(["lo", "eth0"]));
        let output = output(experiment, folder, settings.options.pcap_capture_size, wanted, writer);
        let cables = cables(experiment, &settings.interfaces, fabric.changes());
        let seed = Seed(experiment.general.seed);
        let loss_free_until = experiment.general.bootstrap_end_time;
        HostNode::new(id, seed, kernel, fabric.clone(), changes, loss_free_until, cables, output, debug)
    });
    nodes.collect()
}

/// Builds those devices that are `mine`, in the order of their ids.
pub fn devices(
    experiment: &Experiment,
    changes: Vec<Vec<(SimTime, LinkChange)>>,
    fabric: &Fabric,
    mine: impl Fn(HostId) -> bool,
    folder: &ResultsFolder,
    options: &RunOptions,
    writer: &Arc<Writer>,
) -> Vec<DeviceNode> {
    let ids = (experiment.hosts.len() as u32..).map(HostId);
    let changes = ids.zip(&experiment.topology.devices).zip(changes);
    let mine = changes.filter(|((id, _), _)| mine(*id));
    let devices = mine.map(|((id, settings), changes)| {
        let interfaces = || settings.interfaces.iter().map(|interface| interface.name.as_str());
        let wanted = Captures::new(experiment, &experiment.topology.pcap_filter, interfaces());
        let output = output(experiment, folder, experiment.topology.pcap_capture_size, wanted, writer);
        let (_, in_results) = settings.kind.noun();
        let capture = experiment
            .topology
            .pcap_enabled
            .then(|| (Path::new(in_results).join(&settings.name), interfaces().map(Arc::from).collect()));
        DeviceNode::new(
            id,
            device::new(experiment, id, fabric),
            cables(experiment, &settings.interfaces, fabric.changes()),
            changes,
            experiment.general.bootstrap_end_time,
            capture,
            options.watched.clone(),
            output,
        )
    });
    devices.collect()
}

fn output(
    experiment: &Experiment,
    folder: &ResultsFolder,
    keep: u64,
    wanted: Captures,
    writer: &Arc<Writer>,
) -> Output {
    Output {
        folder: folder.clone(),
        wanted,
        epoch_secs: experiment.belljar.start_date,
        capture_len: keep as usize,
        captures: Map::new(),
        logs: Map::new(),
        error: None,
        writer: writer.clone(),
    }
}

/// The cables at the ends of a node's links.
fn cables(
    experiment: &Experiment,
    interfaces: &[Interface],
    changes: &[(SimTime, crate::faults::NetChange)],
) -> Vec<Cable> {
    let cable = |interface: &Interface| Cable::new(experiment, interface.link, interface.end, changes);
    interfaces.iter().map(cable).collect()
}

/// The way out of an interface. Until the end of the bootstrap phase it is as fast as can be.
pub(crate) fn nic(experiment: &Experiment, interface: &Interface) -> NicConfig {
    let link = &experiment.topology.links[interface.link];
    let end = &link.ends[interface.end];
    let (line, node) = (&end.line, experiment.node_name(end.node));
    let limited = experiment.general.bootstrap_end_time == SimTime::ZERO;
    NicConfig {
        bandwidth_up: line.rate.filter(|_| limited),
        queue: line.queue.clone(),
        token_bucket: line.token_bucket.filter(|_| limited),
        overhead: line.overhead,
        framed: true,
        mtu: link.mtu + ethernet::HEADER_LEN,
        seed: Seed(experiment.general.seed).stream(&["link", &link.name, node, "queue"]).next_u64(),
        ..NicConfig::default()
    }
}

/// The hardware address of an interface: locally administered, no group's.
pub(crate) fn mac(experiment: &Experiment, node: &str, interface: &Interface) -> [u8; 6] {
    interface.mac.unwrap_or_else(|| {
        let mut mac = [0; 6];
        Seed(experiment.general.seed).stream(&["interface", node, &interface.name, "mac"]).fill(&mut mac);
        mac[0] = mac[0] & 0xfc | 0x02;
        mac
    })
}

fn host_config(
    experiment: &Experiment,
    settings: &HostSettings,
    id: HostId,
    folder: &ResultsFolder,
    options: &RunOptions,
    names: Arc<Vec<(String, std::net::Ipv4Addr)>>,
) -> HostConfig {
    let directory = folder.host(&settings.name);
    HostConfig {
        id,
        name: settings.name.clone(),
        seed: Seed(experiment.general.seed),
        epoch_secs: experiment.belljar.start_date,
        clock_error: (settings.clock.offset_ns, settings.clock.drift_ppb),
        working_directory: options.working_directory.clone().unwrap_or_else(|| directory.clone()),
        directory,
        exposed: options.exposed.clone(),
        shared: settings.options.shared.clone(),
        interrupt: options.interrupt.clone(),
        address: settings.address,
        on_graph: settings.node.is_some(),
        ipv6: settings.ipv6,
        address6: settings.address6.filter(|_| settings.node.is_some()),
        routes6: Vec::new(),
        names6: Arc::default(),
        links: settings
            .interfaces
            .iter()
            .map(|interface| link_config(experiment, settings, interface))
            .collect(),
        routes: Vec::new(),
        forwarding: settings.forwarding,
        sysctls: settings.options.sysctls.clone().into_iter().collect(),
        nic: NicConfig {
            bandwidth_up: settings.bandwidth_up,
            bandwidth_down: settings.bandwidth_down,
            queue: settings.options.queue.clone(),
            seed: Seed(experiment.general.seed).stream(&["host", &settings.name, "queue"]).next_u64(),
            ..NicConfig::default()
        },
        bootstrap_end: experiment.general.bootstrap_end_time,
        buffers: buffers(experiment),
        cpu: cpu_model(experiment),
        names,
        resolver: None,
        processes: settings
            .processes
            .iter()
            .map(|process| process_spec(process, settings, options))
            .collect(),
        models: settings.models.iter().map(model_spec).collect(),
        capture: settings.options.pcap_enabled,
        strace: experiment.experimental.strace_logging_mode != StraceMode::Off,
        watched: options.watched.clone(),
        attention: Default::default(),
    }
}

/// Where buffers are not to grow, Shadow's sizes are theirs.
fn buffers(experiment: &Experiment) -> Buffers {
    const SHADOW_RECEIVE: u32 = 174_760;
    const SHADOW_SEND: u32 = 131_072;
    let e = &experiment.experimental;
    let size = |given: Option<u32>, grows: bool, shadow| given.or((!grows).then_some(shadow));
    Buffers {
        receive: size(e.socket_recv_buffer, e.socket_recv_autotune, SHADOW_RECEIVE),
        receive_fixed: !e.socket_recv_autotune,
        send: size(e.socket_send_buffer, e.socket_send_autotune, SHADOW_SEND),
        send_fixed: !e.socket_send_autotune,
    }
}

fn link_config(experiment: &Experiment, settings: &HostSettings, interface: &Interface) -> LinkConfig {
    LinkConfig {
        name: interface.name.as_str().into(),
        mac: mac(experiment, &settings.name, interface),
        mtu: experiment.topology.links[interface.link].mtu,
        addresses: interface.addresses.clone(),
        addresses6: interface.addresses6.clone(),
        nic: nic(experiment, interface),
        carrier: true,
    }
}

fn cpu_model(experiment: &Experiment) -> CpuModel {
    let settings = &experiment.experimental;
    let calls = experiment.general.model_unblocked_syscall_latency.then_some(CallLatency {
        syscall: settings.unblocked_syscall_latency,
        vdso: settings.unblocked_vdso_latency,
        max_unapplied: settings.max_unapplied_cpu_latency,
    });
    CpuModel { calls, preemption: settings.native_preemption_sim_interval }
}

fn process_spec(process: &Process, host: &HostSettings, options: &RunOptions) -> ProcessSpec {
    let path = process.path.to_string_lossy().into_owned();
    let mut environment: Map<String, String> =
        CLEAN_ENVIRONMENT.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
    if process.user.is_some() {
        environment.remove("HOME");
    }
    environment.extend(process.environment.clone());
    let program = program_name(&process.path);
    let waits = |(name, who): &(String, String)| *name == host.name && *who == program;
    ProcessSpec {
        wait_for_debugger: options.wait_for_debugger.iter().any(waits),
        args: std::iter::once(process.arg0.clone()).chain(process.args.iter().cloned()).collect(),
        path,
        environment: environment.into_iter().collect(),
        user: process.user.clone(),
        start: process.start_time,
        shutdown: process.shutdown_time,
        shutdown_signal: process.shutdown_signal.number(),
        output: options.output,
        placement: match process.placement {
            Placement::Near => Some(belljar_kernel::machine::Placement::Near),
            Placement::Far => Some(belljar_kernel::machine::Placement::Far),
            Placement::Linux => Some(belljar_kernel::machine::Placement::Linux),
            Placement::Auto => None,
        },
    }
}

fn model_spec(model: &Model) -> ModelSpec {
    ModelSpec { spec: model.spec.clone(), start: model.start_time, stop: model.shutdown_time }
}

/// The file name of a program.
pub fn program_name(path: &Path) -> String {
    path.file_name().map_or_else(|| path.display().to_string(), |name| name.to_string_lossy().into_owned())
}
