//! Graph network: packets between hosts at the nodes of a graph, which are delayed and lost as its paths
//! define.
//!
//! Each host has one interface, whose peer is a port of this network. A packet leaves through a queue at
//! the bandwidth of the host's uplink, is lost or takes the path's delay, and passes the queue of the
//! receiver's downlink. These parts are those of the simulator, and draw from the same random streams. One
//! thread serves all hosts.

use crate::account;
use crate::adapt::{Late, Pressure};
use crate::clock::{ExperimentClock, monotonic_ns};
use crate::relay::{Refused, take_in};
use crate::relayed_link::thread_seconds;
use crate::wake::{Waker, timespec};
use crate::{Clock, Lateness, go_first, precise_waits};
use belljar_base::{HostId, Map, PacketAccount, Seed, SimDuration, SimTime};
use belljar_config::Experiment;
use belljar_net::link::GraphPath;
use belljar_net::nic::NicEvent;
use belljar_net::routes::Route;
use belljar_net::{DropReason, Graph, InterfaceAddress, Nic, NicConfig, NodeIndex, Packet, RouteTable};
use belljar_packetio::{Port, Sent};
use belljar_plan::{HostChange, NetChange, Schedule};
use belljar_wire::ethernet::HEADER_LEN;
use rustix::event::{PollFd, PollFlags, poll};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

/// Hardware address of every host's interface: packets are distinguished by their IP addresses only.
pub const MAC: [u8; 6] = [2, 0, 0, 0, 0, 1];
/// Longest sleep, which bounds the time until the thread notices the end of the run.
const NAP: Duration = Duration::from_millis(20);

/// New bandwidth in bit/s, if it changes; the inner `None` is unlimited.
type NewRate = Option<Option<u64>>;

/// Host on the graph.
struct Member {
    id: HostId,
    node: NodeIndex,
    nic: Nic,
    /// Future changes of its bandwidths up and down, the next one last.
    bandwidths: Vec<(SimTime, NewRate, NewRate)>,
    now: (Option<u64>, Option<u64>),
    drops: Map<DropReason, u64>,
    refused: Refused,
    /// Frames from the host that are no IP packets.
    not_ip: u64,
    /// Packets that have left the network for the host's downlink.
    reached: u64,
    /// Packets in flight to the host.
    under_way: BinaryHeap<Reverse<UnderWay>>,
    /// Host time up to which all packets have been received from the port.
    seen: SimTime,
}

impl Member {
    /// Final statistics; the host's queues are emptied.
    fn report(&mut self, port: &mut dyn Port) -> MemberReport {
        let left = port.finish();
        let counters = port.counters();
        let nic = *self.nic.counters();
        let missed = counters.dropped_kernel + counters.dropped_port + self.refused.full + counters.failed
            - counters.failed_down;
        // Both queues of the host drop for the same reasons, so that they have one account.
        let mut account = account::of_ports([counters; 2], [left; 2], missed);
        account.received += self.reached;
        account.sent += nic.packets_out;
        account.held += self.nic.egress_queue_len() as u64 + self.downlink_len();
        account.drop_for(account::NOT_IP, self.not_ip);
        account.drop_for(account::INTERFACE_DOWN, self.refused.unfit + counters.failed_down);
        for reason in DropReason::ALL {
            account.drop_for(reason.name(), nic.dropped(reason));
        }
        MemberReport { id: self.id, nic, drops: self.drops.clone(), missed, account }
    }

    /// Number of packets at the downlink, which is emptied.
    fn downlink_len(&mut self) -> u64 {
        let before = self.nic.counters().dropped_in_total();
        let received = std::iter::from_fn(|| self.nic.received(SimTime::MAX)).count() as u64;
        received + self.nic.counters().dropped_in_total() - before
    }
}

/// Packet in flight to a member: due time, sequence number, packet.
struct UnderWay(SimTime, u64, Packet);

impl UnderWay {
    fn key(&self) -> (SimTime, u64) {
        (self.0, self.1)
    }
}
impl PartialEq for UnderWay {
    fn eq(&self, other: &UnderWay) -> bool {
        self.key() == other.key()
    }
}
impl Eq for UnderWay {}
impl PartialOrd for UnderWay {
    fn partial_cmp(&self, other: &UnderWay) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for UnderWay {
    fn cmp(&self, other: &UnderWay) -> std::cmp::Ordering {
        self.key().cmp(&other.key())
    }
}

/// Graph network of an experiment.
pub struct GraphNetwork {
    members: Vec<Member>,
    names: Vec<String>,
    seed: Seed,
    graphs: Vec<Arc<Graph>>,
    changes: Vec<(SimTime, NetChange)>,
    /// Index of the member, by address.
    owners: Map<IpAddr, usize>,
    /// Routes to networks behind members that forward packets.
    behind: RouteTable,
    behind6: RouteTable<Ipv6Addr>,
    /// Paths by sender and receiver.
    paths: Map<(usize, usize), GraphPath>,
    /// End of the bootstrap period, in which no packet is lost and bandwidths are infinite.
    bootstrap_end: SimTime,
    sequence: u64,
    /// Packets to groups, which the graph does not carry, and packets without a destination address.
    multicast: u64,
    malformed: u64,
    lateness: Lateness,
    late: Late,
    harmless: SimDuration,
}

/// Statistics of a host on the graph.
#[derive(Debug)]
pub struct MemberReport {
    /// Node id of the host.
    pub id: HostId,
    /// Counters of its queues.
    pub nic: belljar_net::Counters,
    /// Packets sent by the host and lost in the network, by reason.
    pub drops: Map<DropReason, u64>,
    /// Packets that the kernel dropped before they reached this thread, or refused to accept from it.
    pub missed: u64,
    /// Account of the packets at the host's queues.
    pub account: PacketAccount,
}

/// Statistics of the graph network.
pub struct GraphReport {
    /// Statistics of the hosts on the graph.
    pub members: Vec<MemberReport>,
    /// Account of the packets on the paths between the hosts.
    pub account: PacketAccount,
    /// Lateness of packets delivered to their receivers.
    pub lateness: Lateness,
    /// Processor time of the thread, in seconds.
    pub cpu_seconds: f64,
}

impl GraphNetwork {
    /// Creates the graph network, if any host is on it.
    pub fn new(experiment: &Experiment, schedule: &Schedule) -> Option<GraphNetwork> {
        let seed = Seed(experiment.general.seed);
        let on_graph =
            experiment.hosts.iter().enumerate().filter_map(|(n, host)| Some((n, host, host.node?)));
        let mut network = GraphNetwork {
            members: Vec::new(),
            names: Vec::new(),
            seed,
            graphs: [experiment.network.graph.clone()].into_iter().chain(schedule.graphs.clone()).collect(),
            changes: schedule.network.clone(),
            owners: Map::new(),
            behind: RouteTable::default(),
            behind6: RouteTable::default(),
            paths: Map::new(),
            bootstrap_end: experiment.general.bootstrap_end_time,
            sequence: 0,
            multicast: 0,
            malformed: 0,
            lateness: Lateness::default(),
            late: Late::default(),
            harmless: SimDuration::MAX,
        };
        for (index, host, node) in on_graph {
            let number = network.members.len();
            let config = NicConfig {
                bandwidth_up: host.bandwidth_up.filter(|_| network.bootstrap_end == SimTime::ZERO),
                bandwidth_down: host.bandwidth_down.filter(|_| network.bootstrap_end == SimTime::ZERO),
                queue: host.options.queue.clone(),
                seed: seed.stream(&["host", &host.name, "queue"]).next_u64(),
                ..NicConfig::default()
            };
            let changes = schedule.hosts[index].iter().rev().filter_map(|(at, change)| match change {
                HostChange::Bandwidth { up, down } => Some((*at, *up, *down)),
                _ => None,
            });
            let mut bandwidths: Vec<_> = changes.collect();
            if network.bootstrap_end > SimTime::ZERO {
                let later = bandwidths.partition_point(|(at, ..)| *at >= network.bootstrap_end);
                bandwidths.insert(later, (network.bootstrap_end, None, None));
            }
            network.members.push(Member {
                id: HostId(index as u32),
                node,
                nic: Nic::new(&config),
                bandwidths,
                now: (host.bandwidth_up, host.bandwidth_down),
                drops: Map::new(),
                refused: Refused::default(),
                not_ip: 0,
                reached: 0,
                under_way: BinaryHeap::new(),
                seen: SimTime::ZERO,
            });
            network.names.push(host.name.clone());
            network.owners.insert(host.address.into(), number);
            network.owners.extend(host.address6.map(|address| (address.into(), number)));
            if host.forwarding {
                let networks =
                    host.interfaces.iter().flat_map(|i| &i.addresses).map(InterfaceAddress::network);
                let routes = schedule.first.routes[index].iter().map(|(prefix, ..)| *prefix);
                for prefix in networks.chain(routes).filter(|prefix| !prefix.is_all()) {
                    if network.behind.get(prefix, 0).is_none() {
                        network.behind.insert(prefix, 0, Route::by(number, None, 0));
                    }
                }
                let networks =
                    host.interfaces.iter().flat_map(|i| &i.addresses6).map(InterfaceAddress::network);
                let routes = schedule.first.routes6[index].iter().map(|(prefix, ..)| *prefix);
                for prefix in networks.chain(routes).filter(|prefix| !prefix.is_all()) {
                    if network.behind6.get(prefix, 0).is_none() {
                        network.behind6.insert(prefix, 0, Route::by(number, None, 0));
                    }
                }
            }
        }
        (!network.members.is_empty()).then_some(network)
    }

    /// Hosts on the graph, in the order of the ports and clocks that [`run`](Self::run) takes.
    pub fn hosts(&self) -> impl Iterator<Item = HostId> {
        self.members.iter().map(|member| member.id)
    }

    /// Sets the lateness up to which packets count as being in time.
    pub fn set_harmless(&mut self, harmless: SimDuration) {
        self.harmless = harmless;
    }

    /// Forwards packets until `stop` is set. `ports` and `clocks` are by member; `waker` interrupts the
    /// sleep when a stopped clock continues.
    pub fn run(
        mut self,
        mut ports: Vec<Box<dyn Port>>,
        clocks: Vec<ExperimentClock>,
        waker: Option<Waker>,
        pressure: &Pressure,
        stop: &AtomicBool,
    ) -> GraphReport {
        let _ = precise_waits();
        go_first();
        let mut frame = Vec::new();
        let mut seen = Late::default();
        let times = || {
            let real = monotonic_ns();
            clocks.iter().map(|clock| clock.at(real)).collect::<Vec<_>>()
        };
        while !stop.load(Relaxed) {
            let now = times();
            let mut moved = self.receive(&mut ports, &clocks, &now);
            self.transmit();
            moved += self.deliver(&mut ports, &times(), &mut frame);
            match moved {
                0 => self.sleep(&ports, &clocks, waker.as_ref()),
                _ => pressure.grow(&mut seen, self.late),
            }
        }
        let account = self.account();
        let members =
            self.members.iter_mut().zip(&mut ports).map(|(member, port)| member.report(&mut **port));
        GraphReport {
            members: members.collect(),
            account,
            lateness: self.lateness,
            cpu_seconds: thread_seconds(),
        }
    }

    /// Account of the packets on the paths between the hosts.
    fn account(&self) -> PacketAccount {
        let sum = |count: fn(&Member) -> u64| self.members.iter().map(count).sum();
        let mut account = PacketAccount {
            received: sum(|member| member.nic.counters().packets_out),
            sent: sum(|member| member.reached),
            held: sum(|member| member.under_way.len() as u64),
            ..PacketAccount::default()
        };
        for (reason, count) in self.members.iter().flat_map(|member| &member.drops) {
            account.drop_for(reason.name(), *count);
        }
        account.drop_for(account::MULTICAST, self.multicast);
        account.drop_for(account::MALFORMED, self.malformed);
        account
    }

    fn receive(&mut self, ports: &mut [Box<dyn Port>], clocks: &[ExperimentClock], now: &[SimTime]) -> usize {
        let mut moved = 0;
        let members = self.members.iter_mut().zip(ports);
        for (((member, port), clock), now) in members.zip(clocks).zip(now.iter().copied()) {
            let Member { nic, seen, not_ip, .. } = member;
            let received = take_in(&mut **port, clock, now, seen, |at, frame| {
                match frame.bytes.get(HEADER_LEN..).filter(|_| is_ip(frame.bytes)) {
                    // A packet that the queue does not accept is counted there.
                    Some(packet) => drop(nic.send(at, Packet::new(packet.to_vec()))),
                    None => *not_ip += 1,
                }
            });
            // Receiving fails while an interface is down, as that of a crashed host.
            moved += received.unwrap_or(0);
        }
        moved
    }

    /// Advances the uplinks to the time up to which packets have been received, and applies changes of
    /// bandwidths.
    fn transmit(&mut self) {
        for from in 0..self.members.len() {
            let now = self.members[from].seen;
            while let Some((at, up, down)) =
                self.members[from].bandwidths.last().copied().filter(|c| c.0 <= now)
            {
                let member = &mut self.members[from];
                member.bandwidths.pop();
                member.now = (up.unwrap_or(member.now.0), down.unwrap_or(member.now.1));
                if at >= self.bootstrap_end {
                    member.nic.set_bandwidths(at.max(now), member.now.0, member.now.1);
                }
            }
            while let Some((_, event)) = self.members[from].nic.poll(now) {
                if let NicEvent::Transmit { packet, departs } = event {
                    self.carry(from, packet, departs);
                }
            }
        }
    }

    /// Routes a packet whose last bit leaves at `departs`, and schedules its arrival or counts its loss.
    fn carry(&mut self, from: usize, packet: Packet, departs: SimTime) {
        let Some(destination) = destination(packet.bytes()) else {
            self.malformed += 1;
            return;
        };
        let to = self.owners.get(&destination).copied().or_else(|| self.behind(destination));
        let due = match to {
            Some(to) => self.due(from, to, departs).map(|due| (to, due)),
            None if is_group(destination) => {
                self.multicast += 1;
                return;
            }
            None => Err(DropReason::NoRoute),
        };
        match due {
            Ok((to, due)) => {
                self.sequence += 1;
                self.members[to].under_way.push(Reverse(UnderWay(due, self.sequence, packet)));
            }
            Err(reason) => *self.members[from].drops.entry(reason).or_default() += 1,
        }
    }

    fn behind(&self, destination: IpAddr) -> Option<usize> {
        match destination {
            IpAddr::V4(v4) => self.behind.lookup(v4, || 0, |_| true)?.1.map(|hop| hop.interface),
            IpAddr::V6(v6) => self.behind6.lookup(v6, || 0, |_| true)?.1.map(|hop| hop.interface),
        }
    }

    /// Arrival time of a packet, or the reason for its loss.
    fn due(&mut self, from: usize, to: usize, departs: SimTime) -> Result<SimTime, DropReason> {
        let (a, b) = (&self.members[from], &self.members[to]);
        let (seed, names, graphs) = (self.seed, &self.names, &self.graphs);
        let new = || GraphPath::new(seed, &names[from], &names[to]);
        let path = self.paths.entry((from, to)).or_insert_with(new);
        let change = |change: &NetChange| change.of_path(a.id, b.id);
        path.carry(departs, self.bootstrap_end, &self.changes, change, |graph| {
            graphs[graph].path(a.node, b.node)
        })
    }

    /// Delivers the packets that are due at `now`, by member.
    fn deliver(&mut self, ports: &mut [Box<dyn Port>], now: &[SimTime], frame: &mut Vec<u8>) -> usize {
        let mut moved = 0;
        for ((member, port), now) in self.members.iter_mut().zip(ports).zip(now.iter().copied()) {
            let mut sent = 0;
            while member.under_way.peek().is_some_and(|Reverse(next)| next.0 <= now) {
                let Some(Reverse(UnderWay(due, _, packet))) = member.under_way.pop() else { break };
                member.reached += 1;
                member.nic.receive(due, packet);
            }
            while let Some((at, packet)) = member.nic.received(now) {
                self.lateness.add(now.since(at));
                self.late.add(now.since(at), self.harmless);
                let version6 = packet.bytes().first().is_some_and(|byte| byte >> 4 == 6);
                frame.clear();
                frame.extend(MAC);
                frame.extend(MAC);
                frame.extend(if version6 { [0x86, 0xdd] } else { [0x08, 0x00] });
                frame.extend(packet.bytes());
                match port.send(frame) {
                    Ok(Sent::Queued) => {}
                    Ok(Sent::Full) => member.refused.full += 1,
                    Err(_) => member.refused.unfit += 1,
                }
                sent += 1;
            }
            if sent > 0 {
                let _ = port.flush();
            }
            moved += sent;
        }
        moved
    }

    /// Sleeps until a port is readable or an event is due.
    fn sleep(&self, ports: &[Box<dyn Port>], clocks: &[ExperimentClock], waker: Option<&Waker>) {
        let mut wait = NAP;
        for (member, clock) in self.members.iter().zip(clocks) {
            let change = member.bandwidths.last().map(|(at, ..)| *at);
            let arrival = member.under_way.peek().map(|Reverse(next)| next.0);
            let events = [member.nic.next_event(), member.nic.next_received(), change, arrival];
            if let Some(at) = events.into_iter().flatten().min() {
                wait = wait.min(clock.real(at.since(clock.time())));
            }
        }
        if wait.is_zero() {
            return;
        }
        let all = ports.iter().map(|port| port.fd()).chain(waker.map(Waker::fd));
        let mut fds: Vec<PollFd<'_>> = all.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)).collect();
        // An interrupted sleep only ends early.
        let _ = poll(&mut fds, Some(&timespec(wait)));
        if let Some(waker) = waker {
            waker.clear();
        }
        // An error condition of a port (such as being down) keeps it readable, and must not cause a busy
        // loop.
        if fds.iter().any(|fd| fd.revents().contains(PollFlags::ERR)) {
            std::thread::sleep(Duration::from_micros(200));
        }
    }
}

fn is_ip(frame: &[u8]) -> bool {
    matches!(frame.get(12..14), Some([0x08, 0x00] | [0x86, 0xdd]))
}

fn is_group(address: IpAddr) -> bool {
    address.is_multicast() || address == IpAddr::V4(Ipv4Addr::BROADCAST)
}

/// Destination address of an IP packet.
fn destination(packet: &[u8]) -> Option<IpAddr> {
    match packet.first()? >> 4 {
        4 => <[u8; 4]>::try_from(packet.get(16..20)?).ok().map(|octets| Ipv4Addr::from(octets).into()),
        6 => <[u8; 16]>::try_from(packet.get(24..40)?).ok().map(|octets| Ipv6Addr::from(octets).into()),
        _ => None,
    }
}
