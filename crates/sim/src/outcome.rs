//! Statistics of a run: processes, hosts, links and devices.

use crate::accounts::{self, NodeDrops};
use crate::device::DeviceNode;
use crate::node::HostNode;
use belljar_base::{Map, SimTime};
use belljar_config::{Experiment, Host as HostSettings};
use belljar_kernel::syscall::table;
use belljar_kernel::{ProcessReport, WaitStatus, call_faults, disk_faults, memory};
use belljar_netstack::cpu::{CpuUse, Work};
use belljar_plan::outcome::{self, End, Observation};
use belljar_results::{CpuStatistics, DirectionStatistics, HostStatistics, Statistics, add_counts, names};
use std::path::{Path, PathBuf};

/// Statistics of these hosts and devices of a run that has reached `now`.
pub fn statistics(
    experiment: &Experiment,
    nodes: &[HostNode],
    devices: &[DeviceNode],
    now: SimTime,
) -> Statistics {
    let mut statistics = Statistics { simulated_seconds: now.as_secs_f64(), ..Statistics::default() };
    let of_hosts: Vec<NodeDrops> = nodes.iter().map(NodeDrops::of_host).collect();
    for (node, drops) in nodes.iter().zip(&of_hosts) {
        let settings = &experiment.hosts[node.id().index()];
        statistics.hosts.insert(settings.name.clone(), host(settings, node, drops, now));
        accounts::add_host(experiment, node, &mut statistics);
        add_counts(&mut statistics.warnings, node.host.warnings());
        node.devices.iter().for_each(|device| device.add_statistics(&settings.name, &mut statistics));
        let Some(linux) = node.host.linux() else { continue };
        for (number, count) in linux.call_counts() {
            *statistics.syscalls.entry(call_name(number)).or_default() += count;
        }
        add_counts(&mut statistics.preempted, linux.preempted());
    }
    statistics.attended = nodes.iter().flat_map(|node| node.attached.log.iter().cloned()).collect();
    statistics.attended.sort_by(|a, b| a.started.total_cmp(&b.started));
    links(experiment, (nodes, &of_hosts), devices, &mut statistics);
    statistics
}

/// Files and folders that these hosts and devices may have written, relative to the results.
pub fn written(experiment: &Experiment, nodes: &[HostNode], devices: &[DeviceNode]) -> Vec<PathBuf> {
    let hosts = nodes.iter().flat_map(|node| {
        let name = &experiment.hosts[node.id().index()].name;
        let log = |folder: &str| Path::new(folder).join(format!("{name}.jsonl"));
        [
            Path::new("hosts").join(name),
            log(names::ROUTES),
            log(names::TIMES),
            Path::new(names::PACKETS).join(name),
        ]
    });
    let devices = devices.iter().filter_map(|device| {
        let device = experiment.device(device.id())?;
        Some(Path::new(device.kind.noun().1).join(&device.name))
    });
    hosts.chain(devices).collect()
}

/// Name of a system call, or its number if it has none.
pub fn call_name(number: u32) -> String {
    table::entry(number).map_or_else(|| number.to_string(), |entry| entry.name.to_owned())
}

/// Adds the statistics of links, from the outgoing directions of these hosts and devices, and those
/// specific to devices.
fn links(
    experiment: &Experiment,
    (nodes, drops): (&[HostNode], &[NodeDrops]),
    devices: &[DeviceNode],
    statistics: &mut Statistics,
) {
    let of_hosts = nodes.iter().zip(drops).flat_map(|(node, drops)| {
        let settings = &experiment.hosts[node.id().index()];
        settings.interfaces.iter().enumerate().map(move |(port, interface)| {
            let counters = *node.host.stack().links[port].nic.counters();
            (node.id(), interface, counters, node.link(port), drops.by_direction[port].clone())
        })
    });
    let of_devices = devices.iter().flat_map(|device| {
        let interfaces = experiment.node_interfaces(device.id()).iter().enumerate();
        let drops = NodeDrops::of_device(device).by_direction;
        interfaces.zip(drops).map(move |((port, interface), drops)| {
            (device.id(), interface, device.counters(port), device.link(port), drops)
        })
    });
    for (id, interface, counters, outbound, drops) in of_hosts.chain(of_devices) {
        let link = &experiment.topology.links[interface.link];
        let direction = DirectionStatistics {
            frames: counters.packets_out,
            bytes: counters.bytes_out,
            drops: named(&drops),
            impairments: [("ecn_marked", counters.ecn_marked)]
                .into_iter()
                .chain(outbound.direction.impairment_counts().by_name())
                .filter(|(_, count)| *count > 0)
                .map(|(what, count)| (what.to_owned(), count))
                .collect(),
        };
        let name = format!("{} to {}", experiment.node_name(id), experiment.node_name(outbound.to));
        statistics.links.entry(link.name.clone()).or_default().insert(name, direction);
    }
    for device in devices {
        accounts::add_device(experiment, device, statistics);
        device.add_statistics(experiment.node_name(device.id()), statistics);
    }
}

/// Counts by name.
fn named(counts: &Map<&'static str, u64>) -> Map<String, u64> {
    counts.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect()
}

fn host(settings: &HostSettings, node: &HostNode, drops: &NodeDrops, now: SimTime) -> HostStatistics {
    let counters = node.host.stack().interface_counters();
    let cpu = node.host.stack().clock.processor().map(|processor| processor.used());
    let processes = settings.processes.iter().enumerate().map(|(n, p)| {
        let mut process = outcome::judge(p, observed(&node.reports, n), now);
        if let (Some(pid), None, Some(linux)) = (process.pid, process.ended, node.host.linux()) {
            process.waits_in = linux.waits_of(pid).into_iter().map(str::to_owned).collect();
        }
        process
    });
    HostStatistics {
        address: settings.address.to_string(),
        packets_in: counters.packets_in,
        bytes_in: counters.bytes_in,
        packets_out: counters.packets_out,
        bytes_out: counters.bytes_out,
        drops: named(&drops.all),
        cpu: cpu.map(|used| cpu_statistics(used, now)),
        faults: faults(node),
        processes: processes.collect(),
    }
}

/// Effects of faults at a host, by kind.
fn faults(node: &HostNode) -> Map<String, u64> {
    let mut faults = Map::new();
    if node.connection_resets > 0 {
        faults.insert("connection_resets".to_owned(), node.connection_resets);
    }
    if node.kills > 0 {
        faults.insert("processes_killed".to_owned(), node.kills);
    }
    if node.paused_processes > 0 {
        faults.insert("processes_paused".to_owned(), node.paused_processes);
    }
    let wrong_answers =
        node.host.stack().config.resolver.as_ref().map_or(0, |resolver| resolver.faults.met());
    if wrong_answers > 0 {
        faults.insert("wrong_dns_answers".to_owned(), wrong_answers);
    }
    let Some(linux) = node.host.linux() else { return faults };
    faults.extend(disk_faults::counts(linux).by_name().map(|(name, count)| (name.to_owned(), count)));
    if memory::kills(linux) > 0 {
        faults.insert("out_of_memory_kills".to_owned(), memory::kills(linux));
    }
    for logged in call_faults::log(linux) {
        *faults.entry(format!("calls_{}", logged.forced.result.name())).or_default() += 1;
    }
    faults
}

fn cpu_statistics(used: &CpuUse, now: SimTime) -> CpuStatistics {
    let seconds = Work::ALL.iter().zip(used.busy);
    CpuStatistics {
        busy: used.total().as_secs_f64() / now.as_secs_f64().max(f64::MIN_POSITIVE),
        seconds: seconds.map(|(kind, time)| (kind.name().to_owned(), time.as_secs_f64())).collect(),
        longest_backlog: used.longest_backlog,
    }
}

/// Converts the kernel's reports about one process to observations.
fn observed(reports: &[ProcessReport], number: usize) -> impl Iterator<Item = Observation> {
    reports.iter().filter_map(move |report| {
        let (spec, observation) = match report {
            ProcessReport::Started { spec, pid, at } => (spec, Observation::Started { pid: *pid, at: *at }),
            ProcessReport::Failed { spec, reason, at } => {
                (spec, Observation::Failed { reason: reason.clone(), at: *at })
            }
            ProcessReport::Ended { spec, status, at } => {
                let how = match *status {
                    WaitStatus::Exited(code) => End::Exited(code),
                    WaitStatus::Signaled(signal) => End::Signaled(signal),
                };
                (spec, Observation::Ended { how, at: *at })
            }
            ProcessReport::Crashed { spec, at } => (spec, Observation::Crashed { at: *at }),
        };
        (*spec == number).then_some(observation)
    })
}
