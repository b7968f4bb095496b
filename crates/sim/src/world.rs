//! Construction of the engine's nodes from an experiment.

use crate::attach::Attached;
use crate::captures::Captures;
use crate::debug::DebugState;
use crate::device::{self, DeviceNode};
use crate::fabric::Fabric;
use crate::gateways::Gateways;
use crate::host_config::{Context, Names, host_config, model_host_config, number_interfaces, stack_config};
use crate::judged::JudgedPackets;
use crate::node::HostNode;
use crate::options::RunOptions;
use crate::outbound::OutboundLink;
use crate::output::Output;
use crate::pci::HostDevice;
use crate::simulated_host::SimulatedHost;
use crate::simulators::Simulators;
use crate::times;
use belljar_base::{HostId, Map, SimTime};
use belljar_config::topology::Interface;
use belljar_config::{CaptureFilter, CrashFiles, DiskProfile, Experiment, Host as HostSettings};
use belljar_disk::{Observed, Profile};
use belljar_kernel::Host;
use belljar_machine::Machine;
use belljar_model_host::ModelHost;
use belljar_plan::{DeviceChange, HostChange, NetChange, ProcessPlan};
use belljar_platform::HostMachine;
use belljar_results::{ResultsFolder, Writer};
use std::path::Path;
use std::sync::Arc;

/// Builds the hosts of the experiment that are `mine`, in the order of their ids; `processes` and `changes`
/// cover all hosts.
#[allow(clippy::too_many_arguments)]
pub fn hosts(
    experiment: &Experiment,
    processes: Vec<Vec<ProcessPlan>>,
    changes: Vec<Vec<(SimTime, HostChange)>>,
    fabric: &Arc<Fabric>,
    mine: impl Fn(HostId) -> bool,
    folder: &ResultsFolder,
    options: &RunOptions,
    writer: &Arc<Writer>,
) -> Vec<HostNode> {
    let names = Names::new(experiment, fabric);
    // Hosts with a kernel and room for guests. A host without processes and models has a kernel as well,
    // for inspection.
    let has_programs = |host: &HostSettings| !host.processes.is_empty() || host.models.is_empty();
    let mut programs = 0;
    let place = |host: &HostSettings| {
        let place = programs;
        programs += u32::from(has_programs(host));
        place
    };
    let places: Vec<u32> = experiment.hosts.iter().map(place).collect();
    let ids = (0..experiment.hosts.len() as u32).map(HostId);
    let hosts = ids.zip(experiment.hosts.iter().zip(processes).zip(changes)).filter(|(id, _)| mine(*id));
    let nodes = hosts.map(|(id, ((settings, processes), mut changes))| {
        let port = options.debug.connect(&settings.name);
        let context = Context { experiment, fabric, folder, options, names: &names };
        let mut network = stack_config(&context, settings, id);
        changes.iter_mut().for_each(|(_, change)| number_interfaces(settings, change));
        let host = if has_programs(settings) {
            let config = host_config(&context, settings, &processes, port.attention.clone());
            let machine = Box::new(HostMachine::new(places[id.index()], programs));
            let machine = observed(experiment, settings, &changes, &config.directory, machine);
            let mut host = Host::new(config, network, machine);
            host.write_log = times::log(experiment, settings);
            SimulatedHost::Linux(Box::new(host))
        } else {
            network.prefetch = belljar_platform::prefetch;
            let (config, clock) = model_host_config(&context, settings, port.attention.clone());
            SimulatedHost::Models(Box::new(ModelHost::new(config, network, clock)))
        };
        let debug = DebugState::new(port, options.interrupt.clone());
        let runs_programs = has_programs(settings);
        let attached =
            Attached::new(&options.attach, &settings.name, runs_programs, options.interrupt.clone());
        let interfaces = settings.interfaces.iter().map(|interface| interface.name.as_str());
        let wanted =
            Captures::new(experiment, &settings.options.pcap_filter, interfaces.chain(["lo", "eth0"]));
        let mut output = output(experiment, folder, settings.options.pcap_capture_size, wanted, writer);
        output.is_captured = settings.options.pcap_enabled;
        output.judged = JudgedPackets::new(experiment, id);
        output.pipe = options.packet_pipe.clone().filter(|pipe| pipe.is_of(&settings.name));
        // Every interface has a capture file, even without packets, as in Shadow.
        if settings.options.pcap_enabled && settings.options.pcap_filter == CaptureFilter::All {
            let links = settings.interfaces.iter().map(|interface| (Arc::from(&*interface.name), true));
            let graph = settings.node.is_some().then(|| (Arc::from("eth0"), false));
            let all = [(Arc::from("lo"), false)].into_iter().chain(graph).chain(links).collect();
            output.expected = (Path::new("hosts").join(&settings.name), all);
        }
        let links = outbound_links(experiment, &settings.interfaces, fabric.changes());
        let devices = HostDevice::all(experiment, &settings.name, &settings.interfaces);
        let seed = experiment.seed();
        let loss_free_until = experiment.general.bootstrap_end_time;
        let fabric = fabric.clone();
        HostNode::new(
            id,
            seed,
            host,
            fabric,
            changes,
            loss_free_until,
            links,
            devices,
            output,
            debug,
            attached,
        )
    });
    nodes.collect()
}

/// Builds the devices that are `mine`, in the order of their ids.
#[allow(clippy::too_many_arguments)]
pub fn devices(
    experiment: &Experiment,
    changes: Vec<Vec<(SimTime, DeviceChange)>>,
    fabric: &Fabric,
    mine: impl Fn(HostId) -> bool,
    folder: &ResultsFolder,
    options: &RunOptions,
    writer: &Arc<Writer>,
    simulators: &mut Simulators,
    gateways: &mut Gateways,
) -> Vec<DeviceNode> {
    let ids = (experiment.hosts.len() as u32..).map(HostId);
    let changes = ids.zip(&experiment.topology.devices).zip(changes);
    let mine = changes.filter(|((id, _), _)| mine(*id));
    let devices = mine.map(|((id, settings), changes)| {
        let interfaces = || settings.interfaces.iter().map(|interface| interface.name.as_str());
        let wanted = Captures::new(experiment, &experiment.topology.pcap_filter, interfaces());
        let mut output = output(experiment, folder, experiment.topology.pcap_capture_size, wanted, writer);
        output.is_captured = experiment.topology.pcap_enabled;
        output.pipe = options.packet_pipe.clone().filter(|pipe| pipe.is_of(&settings.name));
        let (_, in_results) = settings.kind.noun();
        let name = |interface: &Interface| {
            let is_pci = experiment.topology.links[interface.link].pci.is_some();
            (!is_pci).then(|| Arc::from(&*interface.name))
        };
        let is_seen = output.is_captured || output.pipe.is_some();
        let capture = is_seen.then(|| settings.interfaces.iter().map(name).collect());
        DeviceNode::new(
            id,
            device::new(experiment, id, fabric, options.control_servers, simulators, gateways),
            outbound_links(experiment, &settings.interfaces, fabric.changes()),
            changes,
            Path::new(in_results).join(&settings.name),
            capture,
            options.watched.clone(),
            output,
        )
    });
    devices.collect()
}

/// The machine of a host, with an observer if a crash of the host takes what is not synced.
fn observed(
    experiment: &Experiment,
    settings: &HostSettings,
    changes: &[(SimTime, HostChange)],
    folder: &Path,
    machine: Box<HostMachine>,
) -> Box<dyn Machine> {
    let profile = changes.iter().find_map(|(_, change)| match change {
        HostChange::Crash { files: CrashFiles::Unsynced { disk, .. } } => Some(*disk),
        _ => None,
    });
    let profile = match profile {
        None => return machine,
        Some(DiskProfile::Ordered) => Profile::Ordered,
        Some(DiskProfile::Any) => Profile::Any,
    };
    let draw = experiment.seed().stream(&["host", &settings.name, "disk"]);
    Box::new(Observed::new(machine, folder.to_owned(), profile, draw))
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
        is_captured: true,
        judged: None,
        pipe: None,
        epoch_secs: experiment.belljar.start_date,
        capture_len: keep as usize,
        captures: Map::new(),
        expected: Default::default(),
        logs: Map::new(),
        error: None,
        writer: writer.clone(),
    }
}

/// Outgoing directions of a node's links.
fn outbound_links(
    experiment: &Experiment,
    interfaces: &[Interface],
    changes: &[(SimTime, NetChange)],
) -> Vec<OutboundLink> {
    let link = |at: &Interface| OutboundLink::new(experiment, at.link, at.end, changes);
    interfaces.iter().map(link).collect()
}
