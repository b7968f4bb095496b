//! Accounts of the packets of an emulation, by location: what reached a location, and what became of it.
//!
//! Locations, and the counts of their accounts:
//!
//! * `NAME: A to B`, relayed: the kernel counts the packets for the packet socket at A's end, the line
//!   counts its drops and copies, and the port at B's end counts what the kernel accepted. A large segment
//!   (TSO) is one packet until it is cut, which originates `segments`.
//! * `NAME: A to B`, direct: the kernel counts what A's interface sent and what B's received.
//! * `graph: queues of HOST`, in both directions; `graph: all paths` between these hosts.
//!
//! A link begins at the queueing discipline of A's interface, where the kernel counts drops, and packets
//! when they leave. It has no count of arrivals: a packet that it discarded there without counting it is not
//! noticed.
//!
//! * the name of a P4 switch: its process counts the packets from the kernel to the switch and back, and logs
//!   them at its end.
//!
//! The kernel does not count everything that happens to packets in the stacks of hosts and routers and in
//! bridges: these locations are listed as [unaccounted](Accounts::unaccounted).

use crate::graph::GraphReport;
use crate::line::LineCounters;
use crate::netlink::QueueCounters;
use crate::nodes::Node;
use crate::relayed_link::LinkReport;
use belljar_base::{Map, PacketAccount};
use belljar_config::Experiment;
use belljar_config::topology::DeviceKind;
use belljar_net::DropReason;
use belljar_packetio::{Counters, Remainder};
use belljar_results::LocationAccount;

/// Reason of a drop: too many frames were in flight on a line.
pub const OVERFLOW: &str = "overflow";
/// Reason of a drop: the kernel dropped the packet before it was read, or accepted it no more. The machine
/// was too slow.
pub const MISSED: &str = "missed";
/// Reason of a drop: the interface at either end was down or gone, or the frame too long for it.
pub const INTERFACE_DOWN: &str = "interface_down";
/// Reasons of drops by the graph: not an IP packet, an address of a group, no destination address.
pub const NOT_IP: &str = "not_ip";
pub const MULTICAST: &str = "multicast";
pub const MALFORMED: &str = "malformed";
/// Origin of packets: copies made by a line.
const DUPLICATES: &str = "duplicates";
/// Origin of packets: frames into which large segments are cut.
const SEGMENTS: &str = "segments";
/// Reason for which a stack has no account.
const STACK: &str = "the kernel does not count all packets of its stack";
/// Attempts at reading the counts of both ends of a direct link while they stand still.
const ATTEMPTS: usize = 10;

/// Accounts of a run.
#[derive(Clone, Debug, Default)]
pub struct Accounts {
    /// Account by location.
    pub by_location: Map<String, PacketAccount>,
    /// Account of each P4 switch.
    pub of_switches: Map<String, LocationAccount>,
    /// Locations without an account, with the reason.
    pub unaccounted: Map<String, String>,
}

/// Account of packets from the first of two ports to the second, whose counters and remainders these are,
/// without what lies between. `missed` packets were dropped at the ports because the machine was too slow.
pub fn of_ports([from, to]: [Counters; 2], [unread, unsent]: [Remainder; 2], missed: u64) -> PacketAccount {
    let read = from.packets + from.dropped_kernel + from.dropped_port;
    let mut account = PacketAccount {
        received: unread.offered.unwrap_or(read),
        sent: to.sent.frames,
        held: unread.unread + unsent.unsent,
        ..PacketAccount::default()
    };
    account.originate(SEGMENTS, from.received.frames.saturating_sub(from.packets));
    account.drop_for(MISSED, missed);
    account
}

/// Adds the copies and drops of a line.
pub(crate) fn add_line(account: &mut PacketAccount, line: &LineCounters) {
    account.originate(DUPLICATES, line.impaired.duplicated);
    line.drops.iter().for_each(|(reason, count)| account.drop_for(reason.name(), *count));
    account.drop_for(OVERFLOW, line.overflowed);
}

/// Counters of the kernel at a node's interface.
#[derive(Clone, Copy, Debug, Default)]
pub struct InterfaceCounters {
    /// Packets sent, and their bytes.
    pub sent: (u64, u64),
    /// Packets received.
    pub received: u64,
    /// Packets that the interface discarded when it should have sent them: its peer was down, or the
    /// kernel's backlog full.
    pub discarded: u64,
    /// Queueing discipline, if the interface has one.
    pub queue: QueueCounters,
}

/// Reads the counters of an interface; zeros if it is gone.
fn read(experiment: &Experiment, nodes: &mut [Node], node: usize, port: usize) -> InterfaceCounters {
    let name = &experiment.node_interfaces(nodes[node].id)[port].name;
    let index = nodes[node].ports.get(port).copied().unwrap_or_default();
    let netlink = &mut nodes[node].netlink;
    let stats = netlink.counters(name).unwrap_or_default();
    InterfaceCounters {
        sent: (stats.tx_packets, stats.tx_bytes),
        received: stats.rx_packets,
        discarded: stats.tx_dropped,
        queue: netlink.queue(index).unwrap_or_default(),
    }
}

/// Reads the counters of both ends of a link. Kernels may still send packets: the counters are read until
/// those of sent packets stand still, so that the counts of both ends are of the same time.
pub(crate) fn read_link(experiment: &Experiment, nodes: &mut [Node], link: usize) -> [InterfaceCounters; 2] {
    let ends = [0, 1].map(|end| {
        let end = &experiment.topology.links[link].ends[end];
        (end.node.index(), end.port)
    });
    let mut all = || ends.map(|(node, port)| read(experiment, nodes, node, port));
    let mut first = all();
    for _ in 0..ATTEMPTS {
        let second = all();
        if first[0].sent == second[0].sent && first[1].sent == second[1].sent {
            // The second reading of this end lies between both readings of the other one.
            first[0].received = second[0].received;
            break;
        }
        first = second;
    }
    first
}

/// Adds the drops and the packets at the queueing discipline of the sender's interface.
fn add_queue(account: &mut PacketAccount, near: &InterfaceCounters, discarded_for: &'static str) {
    let InterfaceCounters { queue, discarded, .. } = near;
    account.received += queue.drops + queue.queued + discarded;
    account.held += queue.queued;
    account.drop_for(DropReason::EgressFull.name(), queue.drops);
    account.drop_for(discarded_for, *discarded);
}

/// Account of a direct link from the counters of the sending and the receiving interface.
fn direct(near: &InterfaceCounters, far: &InterfaceCounters, discarded_for: &'static str) -> PacketAccount {
    let mut account = PacketAccount { received: near.sent.0, sent: far.received, ..PacketAccount::default() };
    add_queue(&mut account, near, discarded_for);
    account
}

/// Accounts of an emulation. `counters` are those of the interfaces at the ends of each link, which discarded
/// packets for the reason `discarded_for`.
pub(crate) fn accounts(
    experiment: &Experiment,
    counters: &[[InterfaceCounters; 2]],
    discarded_for: &'static str,
    links: &[LinkReport],
    graph: Option<&GraphReport>,
    switches: &Map<String, LocationAccount>,
) -> Accounts {
    let mut accounts = Accounts::default();
    let relayed: Map<usize, &LinkReport> = links.iter().map(|report| (report.link, report)).collect();
    for (number, (link, counters)) in experiment.topology.links.iter().zip(counters).enumerate() {
        for end in 0..2 {
            let [near, far] = [end, 1 - end].map(|end| experiment.node_name(link.ends[end].node));
            let account = match relayed.get(&number) {
                None => direct(&counters[end], &counters[1 - end], discarded_for),
                Some(report) => {
                    let mut account = report.directions[end].account.clone();
                    add_queue(&mut account, &counters[end], discarded_for);
                    account
                }
            };
            accounts.by_location.insert(format!("{}: {near} to {far}", link.name), account);
        }
    }
    if let Some(graph) = graph {
        for member in &graph.members {
            let name = &experiment.hosts[member.id.index()].name;
            accounts.by_location.insert(format!("graph: queues of {name}"), member.account.clone());
        }
        accounts.by_location.insert("graph: all paths".to_owned(), graph.account.clone());
    }
    let stacks = experiment.hosts.iter().map(|host| (format!("host {}", host.name), STACK.to_owned()));
    accounts.unaccounted.extend(stacks);
    for device in &experiment.topology.devices {
        let reason = match device.kind {
            DeviceKind::Router(_) => STACK,
            DeviceKind::Switch(_) => "the kernel counts neither copies nor drops of a bridge",
            DeviceKind::P4(_) => match switches.get(&device.name) {
                Some(account) => {
                    accounts.of_switches.insert(device.name.clone(), account.clone());
                    continue;
                }
                None => "its process has not ended in time",
            },
            // A gateway is the end of a link.
            _ => continue,
        };
        let location = format!("{} {}", device.kind.noun().0, device.name);
        accounts.unaccounted.insert(location, reason.to_owned());
    }
    accounts
}

#[cfg(test)]
mod tests;
