//! Statistics of an emulation, in the format of a simulation's statistics, and accounts of its packets.

use crate::account::{self, Accounts, InterfaceCounters};
use crate::graph::GraphReport;
use crate::nodes::Node;
use crate::relayed_link::{DirectionReport, LinkReport};
use crate::truth::Direction;
use belljar_base::{Map, SimTime};
use belljar_config::Experiment;
use belljar_config::topology::DeviceKind;
use belljar_net::DropReason;
use belljar_packetio::Namespace;
use belljar_plan::outcome::{self, Observation};
use belljar_results::{
    DirectionStatistics, GatewayStatistics, HostStatistics, LocationAccount, Quantiles, RouterStatistics,
    Statistics, add_counts,
};
use belljar_wire::ethernet::HEADER_LEN;
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
    /// Accounts of the P4 switches.
    pub switches: Map<String, LocationAccount>,
    /// Packets that the kernel dropped because its backlog was full.
    pub backlog_dropped: u64,
    /// Warnings with their counts.
    pub warnings: Map<String, u64>,
    /// Time at which the emulation ended.
    pub now: SimTime,
}

impl Outcome<'_> {
    /// Compiles the statistics, including the kernel's counters of all interfaces, and the accounts of the
    /// packets. An account that does not balance is a warning of the statistics.
    pub fn statistics(&self, nodes: &mut [Node]) -> (Statistics, Accounts) {
        let links = 0..self.experiment.topology.links.len();
        let counters: Vec<_> = links.map(|link| account::read_link(self.experiment, nodes, link)).collect();
        let accounts = account::accounts(
            self.experiment,
            &counters,
            self.discarded_for(),
            &self.links,
            self.graph.as_ref(),
            &self.switches,
        );
        let mut statistics = self.of_counters(nodes, &counters);
        for (location, account) in &accounts.by_location {
            statistics.add_account(location, account);
        }
        for (switch, account) in &accounts.of_switches {
            statistics.packets.entry(switch.clone()).or_default().add(account);
        }
        statistics.check_accounts();
        (statistics, accounts)
    }

    fn of_counters(&self, nodes: &[Node], counters: &[[InterfaceCounters; 2]]) -> Statistics {
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
            // Those in both queues of the host, and on the paths from it.
            let in_queues = member.account.dropped.iter().map(|(reason, count)| (*reason, *count));
            let on_paths = member.drops.iter().map(|(reason, count)| (reason.name(), *count));
            add_counts(&mut host.drops, &not_zero(in_queues));
            add_counts(&mut host.drops, &not_zero(on_paths));
        }
        self.links(counters, &mut statistics);
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

    /// Reason for which interfaces discarded packets: they do so while the peer is down, or if the kernel's
    /// backlog is full, which the kernel counts for the whole machine.
    fn discarded_for(&self) -> &'static str {
        if self.backlog_dropped > 0 { account::MISSED } else { account::INTERFACE_DOWN }
    }

    /// Directions of links with a rate, and uplinks of hosts on the graph, with what they carried.
    pub fn directions(&self, statistics: &Statistics) -> Vec<Direction> {
        let mut all = Vec::new();
        for link in &self.experiment.topology.links {
            for end in 0..2 {
                let [near, far] = [end, 1 - end].map(|end| link.ends[end].node);
                let Some(rate) = link.ends[end].properties.rate else { continue };
                let [from, to] = [near, far].map(|id| self.experiment.node_name(id));
                let counted =
                    statistics.links.get(&link.name).and_then(|of| of.get(&format!("{from} to {to}")));
                let kind = self.experiment.device(far).map(|device| &device.kind);
                all.push(Direction {
                    rate,
                    bytes: counted.map_or(0, |counted| counted.bytes),
                    frame: link.mtu + HEADER_LEN,
                    to_switch: matches!(kind, Some(DeviceKind::P4(_))),
                });
            }
        }
        for member in self.graph.iter().flat_map(|graph| &graph.members) {
            let host = &self.experiment.hosts[member.id.index()];
            let direction =
                |rate| Direction { rate, bytes: member.nic.bytes_out, frame: 1_500, to_switch: false };
            all.extend(host.bandwidth_up.map(direction));
        }
        all
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

    /// Adds the statistics of links to those of hosts and links. As in a simulation, drops on a link count
    /// for the host that sent the frames.
    fn links(&self, counters: &[[InterfaceCounters; 2]], statistics: &mut Statistics) {
        let by_link: Map<usize, &LinkReport> =
            self.links.iter().map(|report| (report.link, report)).collect();
        for (number, (link, counters)) in self.experiment.topology.links.iter().zip(counters).enumerate() {
            for (end, InterfaceCounters { sent, queue, discarded, .. }) in counters.iter().enumerate() {
                let (near, far) = (&link.ends[end], &link.ends[1 - end]);
                let (mut direction, arrived) = match by_link.get(&number) {
                    Some(report) => {
                        let c = &report.directions[end].counters;
                        (through_here(report, end), (c.delivered, c.delivered_bytes))
                    }
                    None => {
                        let (frames, bytes) = *sent;
                        // A large segment (TSO) counts as one frame.
                        (
                            DirectionStatistics { frames, bytes, ..DirectionStatistics::default() },
                            (frames, bytes),
                        )
                    }
                };
                let at_interface =
                    [(DropReason::EgressFull.name(), queue.drops), (self.discarded_for(), *discarded)];
                add_counts(&mut direction.drops, &not_zero(at_interface.into_iter()));
                let names = [near.node, far.node].map(|id| self.experiment.node_name(id).to_owned());
                for (name, is_sender) in names.iter().zip([true, false]) {
                    if let Some(host) = statistics.hosts.get_mut(name) {
                        match is_sender {
                            true => {
                                host.packets_out += direction.frames;
                                host.bytes_out += direction.bytes;
                                add_counts(&mut host.drops, &direction.drops);
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
    let DirectionReport { counters, account, .. } = &report.directions[end];
    let drops = account.dropped.iter().map(|(reason, count)| (*reason, *count));
    let impairments = [("ecn_marked", counters.ecn_marked)].into_iter().chain(counters.impaired.by_name());
    DirectionStatistics {
        frames: counters.frames,
        bytes: counters.bytes,
        drops: not_zero(drops),
        impairments: not_zero(impairments),
    }
}

/// Nonzero counts, by name.
fn not_zero<'a>(counts: impl Iterator<Item = (&'a str, u64)>) -> Map<String, u64> {
    counts.filter(|(_, count)| *count > 0).map(|(name, count)| (name.to_owned(), count)).collect()
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
