//! Statistics of an emulation, in the format of a simulation's statistics.

use crate::graph::GraphReport;
use crate::nodes::Node;
use crate::relayed_link::{DirectionReport, LinkReport};
use belljar_base::{Map, SimTime};
use belljar_config::Experiment;
use belljar_config::topology::DeviceKind;
use belljar_net::DropReason;
use belljar_packetio::Namespace;
use belljar_plan::outcome::{self, Observation};
use belljar_results::{
    DirectionStatistics, GatewayStatistics, HostStatistics, Quantiles, RouterStatistics, Statistics,
    add_counts,
};
use std::fs;

/// Outcome of an emulation.
pub struct Outcome<'a> {
    /// Experiment that was run.
    pub experiment: &'a Experiment,
    /// Observations of each process, by host and process.
    pub observed: Vec<Vec<Vec<Observation>>>,
    /// Reports of the links whose frames passed through this process.
    pub links: Vec<LinkReport>,
    /// Report of the graph network.
    pub graph: Option<GraphReport>,
    /// Warnings with their counts.
    pub warnings: Map<String, u64>,
    /// Time at which the emulation ended.
    pub now: SimTime,
}

impl Outcome<'_> {
    /// Compiles the statistics, including the kernel's counters of all interfaces.
    pub fn statistics(&self, nodes: &mut [Node]) -> Statistics {
        let mut statistics =
            Statistics { simulated_seconds: self.now.as_secs_f64(), ..Statistics::default() };
        for (index, host) in self.experiment.hosts.iter().enumerate() {
            let judged = host.processes.iter().zip(&self.observed[index]);
            let own = HostStatistics {
                address: host.address.to_string(),
                processes: judged
                    .map(|(p, seen)| outcome::judge(p, seen.iter().cloned(), self.now))
                    .collect(),
                ..HostStatistics::default()
            };
            statistics.hosts.insert(host.name.clone(), own);
        }
        for member in self.graph.iter().flat_map(|graph| &graph.members) {
            let Some(host) = statistics.hosts.get_mut(&self.experiment.hosts[member.id.index()].name) else {
                continue;
            };
            host.packets_in += member.nic.packets_in;
            host.bytes_in += member.nic.bytes_in;
            host.packets_out += member.nic.packets_out;
            host.bytes_out += member.nic.bytes_out;
            let drops = DropReason::ALL.iter().map(|reason| {
                let lost = member.drops.get(reason).copied().unwrap_or_default();
                (reason.name().to_owned(), lost + member.nic.dropped(*reason))
            });
            let drops: Map<String, u64> = drops.filter(|(_, count)| *count > 0).collect();
            add_counts(&mut host.drops, &drops);
        }
        self.links(nodes, &mut statistics);
        self.gateways(&mut statistics);
        for (device, node) in
            self.experiment.topology.devices.iter().zip(&nodes[self.experiment.hosts.len()..])
        {
            if matches!(device.kind, DeviceKind::Router(_)) {
                statistics.routers.insert(device.name.clone(), router(node));
            }
        }
        statistics.warnings = self.warnings.clone();
        statistics
    }

    fn gateways(&self, statistics: &mut Statistics) {
        for device in &self.experiment.topology.devices {
            let DeviceKind::Gateway(settings) = &device.kind else { continue };
            let own = &device.interfaces[0];
            let Some(report) = self.links.iter().find(|report| report.link == own.link) else { continue };
            let [from, to] = [own.end, 1 - own.end].map(|end| &report.directions[end]);
            let gateway = GatewayStatistics {
                interface: settings.interface.clone(),
                frames_in: from.counters.offered,
                frames_out: to.counters.delivered,
                dropped: from.missed + to.missed,
                late: Quantiles::of_lateness(&report.lateness),
            };
            statistics.gateways.insert(device.name.clone(), gateway);
        }
    }

    fn links(&self, nodes: &mut [Node], statistics: &mut Statistics) {
        let by_link: Map<usize, &LinkReport> =
            self.links.iter().map(|report| (report.link, report)).collect();
        for (number, link) in self.experiment.topology.links.iter().enumerate() {
            for end in 0..2 {
                let (near, far) = (&link.ends[end], &link.ends[1 - end]);
                let (direction, arrived) = match by_link.get(&number) {
                    Some(report) => {
                        let c = &report.directions[end].counters;
                        (through_here(report, end), (c.delivered, c.delivered_bytes))
                    }
                    None => {
                        let sent = by_kernel(self.experiment, nodes, near.node.index(), near.port);
                        let arrived = (sent.frames, sent.bytes);
                        (sent, arrived)
                    }
                };
                let names = [near.node, far.node].map(|id| self.experiment.node_name(id).to_owned());
                for (name, is_sender) in names.iter().zip([true, false]) {
                    if let Some(host) = statistics.hosts.get_mut(name) {
                        match is_sender {
                            true => {
                                host.packets_out += direction.frames;
                                host.bytes_out += direction.bytes;
                            }
                            false => {
                                host.packets_in += arrived.0;
                                host.bytes_in += arrived.1;
                            }
                        }
                    }
                }
                let name = format!("{} to {}", names[0], names[1]);
                statistics.links.entry(link.name.clone()).or_default().insert(name, direction);
            }
        }
    }
}

fn through_here(report: &LinkReport, end: usize) -> DirectionStatistics {
    let DirectionReport { counters, missed } = &report.directions[end];
    let drops = counters.drops.iter().map(|(reason, count)| (reason.name(), *count));
    let impairments = [("ecn_marked", counters.ecn_marked)].into_iter().chain(counters.impaired.by_name());
    DirectionStatistics {
        frames: counters.frames,
        bytes: counters.bytes,
        drops: not_zero(drops.chain([("missed", missed + counters.overflowed)])),
        impairments: not_zero(impairments),
    }
}

/// Nonzero counts, by name.
fn not_zero<'a>(counts: impl Iterator<Item = (&'a str, u64)>) -> Map<String, u64> {
    counts.filter(|(_, count)| *count > 0).map(|(name, count)| (name.to_owned(), count)).collect()
}

/// Statistics of one direction of a direct link, from the kernel's counters. A large segment (TSO) counts
/// as one frame.
fn by_kernel(experiment: &Experiment, nodes: &mut [Node], node: usize, port: usize) -> DirectionStatistics {
    let name = &experiment.node_interfaces(nodes[node].id)[port].name;
    let stats = nodes[node].netlink.counters(name).unwrap_or_default();
    let drops = [("missed".to_owned(), stats.tx_dropped)];
    DirectionStatistics {
        frames: stats.tx_packets,
        bytes: stats.tx_bytes,
        drops: drops.into_iter().filter(|(_, count)| *count > 0).collect(),
        impairments: Map::new(),
    }
}

/// Statistics of a router, from its namespace's `/proc/net/snmp`.
fn router(node: &Node) -> RouterStatistics {
    let read = || Ok(fs::read_to_string("/proc/thread-self/net/snmp").unwrap_or_default());
    let text = Namespace::Fd(node.fd()).run(read).unwrap_or_default();
    let count = |name: &str| snmp(&text, name);
    RouterStatistics {
        forwarded: count("ForwDatagrams"),
        expired: count("InHdrErrors"),
        no_route: count("OutNoRoutes") + count("InAddrErrors"),
        unanswered: 0,
        malformed: count("InTruncatedPkts"),
    }
}

/// Value of a counter in the section `Ip`; 0 if it is missing.
fn snmp(text: &str, name: &str) -> u64 {
    let mut lines = text.lines().filter_map(|line| line.strip_prefix("Ip:"));
    let (names, values) = (lines.next().unwrap_or_default(), lines.next().unwrap_or_default());
    let place = names.split_whitespace().position(|own| own == name);
    place.and_then(|n| values.split_whitespace().nth(n)?.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_found_by_their_names() {
        let text = "Ip: Forwarding ForwDatagrams InHdrErrors\nIp: 1 42 3\nIcmp: InMsgs\nIcmp: 9\n";
        assert_eq!([snmp(text, "ForwDatagrams"), snmp(text, "InHdrErrors"), snmp(text, "No")], [42, 3, 0]);
    }
}
