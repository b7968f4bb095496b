//! Configuration of a host's kernel and network stack, derived from an experiment and its plan.

use crate::fabric::Fabric;
use crate::options::RunOptions;
use crate::sdk;
use belljar_base::HostId;
use belljar_config::topology::{Interface, has_hardware_clock};
use belljar_config::{Experiment, Host as HostSettings, Model, PlacementSetting, Scheduling, StraceMode};
use belljar_kernel::{HostConfig, HostNames, Order, Preemption, ProcessSpec, Processors, tunable};
use belljar_model_host::{ModelHostConfig, ModelSpec};
use belljar_net::NicConfig;
use belljar_net::dns::Zone;
use belljar_net::routes::Ip;
use belljar_netstack::clock::{CallLatency, Clock, CpuModel};
use belljar_netstack::conf::{self, GivenSetting};
use belljar_netstack::cpu::CpuCosts;
use belljar_netstack::ptp::PtpConfig;
use belljar_netstack::sysctl::Sysctl;
use belljar_netstack::{LinkConfig, Resolver, StackConfig, TcpBufferSizes};
use belljar_plan::{HostChange, LinkChange, PlannedRoute, ProcessPlan, link_nic};
use belljar_results::ResultsFolder;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Host names of the network, shared by all hosts.
pub struct Names {
    hosts: Arc<HostNames>,
    zone: Arc<Zone>,
}

impl Names {
    /// Collects the names of an experiment.
    pub fn new(experiment: &Experiment, fabric: &Fabric) -> Names {
        let v6 = experiment.names6().map(|(name, address)| (name.to_owned(), address));
        let hosts = HostNames::new(fabric.names(), v6.collect());
        Names { hosts: Arc::new(hosts), zone: Arc::new(experiment.zone()) }
    }
}

/// Run that a host belongs to.
pub struct Context<'a> {
    /// Experiment.
    pub experiment: &'a Experiment,
    /// Network between hosts.
    pub fabric: &'a Fabric,
    /// Folder of the results.
    pub folder: &'a ResultsFolder,
    /// Options of the run.
    pub options: &'a RunOptions,
    /// Host names of the network.
    pub names: &'a Names,
}

/// Renumbers the interfaces of routes as the host's stack does: `lo` and the graph's interface precede
/// those on links.
fn numbered<A: Ip>(settings: &HostSettings, mut routes: Vec<PlannedRoute<A>>) -> Vec<PlannedRoute<A>> {
    let base = 1 + usize::from(settings.node.is_some());
    for (_, _, route) in &mut routes {
        route.hops.iter_mut().for_each(|hop| hop.interface += base);
    }
    routes
}

/// Routes of a host's own stack; none if a machine runs in its place.
fn own_routes<A: Ip>(settings: &HostSettings, planned: &[PlannedRoute<A>]) -> Vec<PlannedRoute<A>> {
    match settings.machine {
        Some(_) => Vec::new(),
        None => numbered(settings, planned.to_vec()),
    }
}

/// Renumbers the interfaces of a scheduled change as the host's stack does.
pub fn number_interfaces(settings: &HostSettings, change: &mut HostChange) {
    match change {
        HostChange::Link(LinkChange::Routes(routes)) if settings.machine.is_some() => routes.clear(),
        HostChange::Link(LinkChange::Routes6(routes)) if settings.machine.is_some() => routes.clear(),
        HostChange::Link(LinkChange::Routes(routes)) => *routes = numbered(settings, std::mem::take(routes)),
        HostChange::Link(LinkChange::Routes6(routes)) => *routes = numbered(settings, std::mem::take(routes)),
        _ => {}
    }
}

fn order(scheduling: Scheduling) -> Order {
    match scheduling {
        Scheduling::Fifo => Order::Fifo,
        Scheduling::Random => Order::Random,
        Scheduling::Priorities(preemption) => {
            let belljar_config::Preemption { points, calls, instructions } = preemption;
            Order::Priorities(Preemption { points, calls, instructions })
        }
    }
}

/// Configuration of a host without its network.
pub fn host_config(
    context: &Context<'_>,
    settings: &HostSettings,
    processes: &[ProcessPlan],
    attention: Arc<AtomicBool>,
) -> HostConfig {
    let Context { experiment, folder, options, names, .. } = context;
    let directory = folder.host(&settings.name);
    // The root of a host with a machine belongs to the guest; QEMU runs on this machine's files.
    let root = settings.root.as_ref().filter(|_| settings.machine.is_none());
    let of_root = || root.and_then(|root| root.working_directory.clone());
    let working_directory = options.working_directory.clone().or_else(of_root);
    HostConfig {
        epoch_secs: experiment.belljar.start_date,
        processors: Processors::new(settings.cpu_count.unwrap_or(1)),
        memory: settings.memory,
        scheduling: order(settings.options.scheduling),
        clock_error: clock_error(settings),
        working_directory: working_directory.unwrap_or_else(|| directory.clone()),
        directory,
        exposed: options.exposed.clone(),
        root: root.map_or("/".into(), |root| root.directory.clone()),
        shared: settings.options.shared.clone(),
        interrupt: options.interrupt.clone(),
        cpu: cpu_model(experiment, settings),
        names: names.hosts.clone(),
        processes: processes.iter().map(|process| process_spec(process, &settings.name, options)).collect(),
        models: settings.models.iter().map(model_spec).collect(),
        sdk: sdk::files(experiment, settings, folder),
        strace: experiment.experimental.strace_logging_mode != StraceMode::Off,
        watched: options.watched.clone(),
        attention,
    }
}

/// Configuration of a host without programs, without its network; and its clock.
pub fn model_host_config(
    context: &Context<'_>,
    settings: &HostSettings,
    attention: Arc<AtomicBool>,
) -> (ModelHostConfig, Clock) {
    let Context { experiment, options, .. } = context;
    let config = ModelHostConfig {
        models: settings.models.iter().map(model_spec).collect(),
        interrupt: options.interrupt.clone(),
        attention,
        watched: options.watched.clone(),
    };
    let start = experiment.belljar.start_date;
    (config, Clock::with_error(start, cpu_model(experiment, settings), clock_error(settings)))
}

fn clock_error(settings: &HostSettings) -> (i64, i64) {
    (settings.clock.offset_ns, settings.clock.drift_ppb)
}

/// Configuration of a host's network stack.
pub fn stack_config(context: &Context<'_>, settings: &HostSettings, id: HostId) -> StackConfig {
    let Context { experiment, fabric, names, .. } = context;
    let (seed, first) = (experiment.seed(), fabric.first());
    let latency = fabric.latency_to_services(id);
    StackConfig {
        address: settings.address,
        on_graph: settings.node.is_some(),
        ipv6: settings.ipv6 && settings.machine.is_none(),
        address6: settings.address6.filter(|_| settings.node.is_some()),
        routes: own_routes(settings, &first.routes[id.index()]),
        routes6: own_routes(settings, &first.routes6[id.index()]),
        resolver: Some(Resolver {
            zone: names.zone.clone(),
            latency,
            down: false,
            faults: Default::default(),
        }),
        links: settings
            .interfaces
            .iter()
            .map(|interface| link_of_node(experiment, &settings.name, interface))
            .collect(),
        forwarding: settings.forwarding && settings.machine.is_none(),
        nic: NicConfig {
            bandwidth_up: settings.bandwidth_up,
            bandwidth_down: settings.bandwidth_down,
            queue: settings.options.queue.clone(),
            seed: seed.stream(&["host", &settings.name, "queue"]).next_u64(),
            ..NicConfig::default()
        },
        bootstrap_end: experiment.general.bootstrap_end_time,
        buffers: buffers(experiment),
        capture: settings.options.pcap_enabled
            || experiment.packet_properties(id).next().is_some()
            || context.options.packet_pipe.as_ref().is_some_and(|pipe| pipe.is_of(&settings.name)),
        sysctls: sysctls(settings),
        interface_settings: interface_settings(settings),
        log_routes: experiment.belljar.route_log,
        oscillator_ppb: settings.clock.drift_ppb,
        ..StackConfig::new(id, &settings.name, seed)
    }
}

/// Settings of `/proc/sys/net`. Unknown names and invalid values are skipped, since the loader has refused
/// them.
fn sysctls(settings: &HostSettings) -> Vec<(Sysctl, String)> {
    let given = settings.options.sysctls.iter();
    given.filter_map(|(name, value)| Some((tunable(name)?, value.clone()))).collect()
}

/// Settings of interfaces.
fn interface_settings(settings: &HostSettings) -> Vec<(GivenSetting, i32)> {
    let given = settings.options.sysctls.iter();
    given.filter_map(|(name, value)| Some((conf::by_name(name)?, value.parse().ok()?))).collect()
}

/// Buffer sizes of TCP; without autotuning the defaults are those of Shadow.
fn buffers(experiment: &Experiment) -> TcpBufferSizes {
    const SHADOW_RECEIVE: u32 = 174_760;
    const SHADOW_SEND: u32 = 131_072;
    let e = &experiment.experimental;
    let size = |given: Option<u32>, grows: bool, shadow| given.or((!grows).then_some(shadow));
    TcpBufferSizes {
        receive: size(e.socket_recv_buffer, e.socket_recv_autotune, SHADOW_RECEIVE),
        receive_fixed: !e.socket_recv_autotune,
        send: size(e.socket_send_buffer, e.socket_send_autotune, SHADOW_SEND),
        send_fixed: !e.socket_send_autotune,
    }
}

/// Interface of a node's stack at the end of a link.
pub fn link_of_node(experiment: &Experiment, node: &str, interface: &Interface) -> LinkConfig {
    // Where a machine runs in the host's place, the addresses are the machine's, and the host's own stack
    // does not take part.
    let quiet =
        experiment.host_by_name(node).is_some_and(|id| experiment.hosts[id.index()].machine.is_some());
    let has_clock = has_hardware_clock(&experiment.topology, experiment.hosts.len(), interface);
    let host = experiment.host_by_name(node).map(|id| &experiment.hosts[id.index()]);
    let ptp = host.filter(|_| has_clock).map(|host| PtpConfig {
        offset_ns: host.clock.hardware_offset_ns,
        drift_ppb: host.clock.hardware_drift_ppb,
    });
    LinkConfig {
        name: interface.name.as_str().into(),
        mac: belljar_plan::mac(experiment, node, interface),
        mtu: experiment.topology.links[interface.link].mtu,
        addresses: if quiet { Vec::new() } else { interface.addresses.clone() },
        addresses6: if quiet { Vec::new() } else { interface.addresses6.clone() },
        nic: link_nic(experiment, interface),
        carrier: true,
        ptp,
    }
}

fn cpu_model(experiment: &Experiment, host: &HostSettings) -> CpuModel {
    let settings = &experiment.experimental;
    let calls = experiment.general.model_unblocked_syscall_latency.then_some(CallLatency {
        syscall: settings.unblocked_syscall_latency,
        vdso: settings.unblocked_vdso_latency,
        max_unapplied: settings.max_unapplied_cpu_latency,
    });
    let costs = host.cpu.map(|cpu| CpuCosts {
        syscall: cpu.syscall,
        packet: cpu.packet,
        byte: cpu.byte,
        interrupt: cpu.interrupt,
        backlog: cpu.backlog as usize,
    });
    CpuModel {
        calls,
        preemption: settings.native_preemption_sim_interval,
        costs,
        reading: host.clock.reading,
    }
}

fn process_spec(process: &ProcessPlan, host: &str, options: &RunOptions) -> ProcessSpec {
    let waits = |(name, program): &(String, String)| *name == host && *program == process.program;
    ProcessSpec {
        wait_for_debugger: options.wait_for_debugger.iter().any(waits),
        args: process.args.clone(),
        path: process.path.clone(),
        environment: process.environment.clone(),
        user: process.user.clone(),
        start: process.start,
        shutdown: process.shutdown,
        shutdown_signal: process.shutdown_signal.number(),
        output: options.output,
        is_setup: process.is_setup,
        placement: match process.placement {
            PlacementSetting::Near => Some(belljar_machine::Placement::Near),
            PlacementSetting::Far => Some(belljar_machine::Placement::Far),
            PlacementSetting::Linux => Some(belljar_machine::Placement::Linux),
            PlacementSetting::Auto => None,
        },
    }
}

fn model_spec(model: &Model) -> ModelSpec {
    ModelSpec { spec: model.spec.clone(), start: model.start_time, stop: model.shutdown_time }
}
