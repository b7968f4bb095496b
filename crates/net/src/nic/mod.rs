//! Network interface of a host: queues, serialisation at the host's bandwidths, and counters.
//!
//! Egress is a queue ([`QueueConfig`], Linux's `pfifo` by default), an optional [`TokenBucket`], and a
//! sender that serialises packets. Ingress is the queue of the last router before the host: CoDel (RFC
//! 8289) before the host's downlink. A packet takes `8 * length of the IP packet / bandwidth` in each
//! direction, rounded up to a picosecond; link-layer framing is not counted. A bandwidth of `None` is
//! infinite: packets pass without delay or queue.
//!
//! Every event takes effect at its exact time, however late [`Nic::poll`] and [`Nic::received`] are called,
//! as long as the calls for each direction are in the order of their times. After each [`Nic::send`] call
//! [`Nic::poll`] until it returns `None`, then again at [`Nic::next_event`]; after each [`Nic::receive`]
//! call [`Nic::received`] at [`Nic::next_received`]. The directions are independent.

#[cfg(test)]
mod account_tests;
mod codel;
mod egress;
mod fifo;
mod fq_codel;
mod ingress;
mod priority;
mod queue;
#[cfg(test)]
mod queue_tests;
mod red;
#[cfg(test)]
mod tests;

use crate::Packet;
pub use belljar_base::TokenBucket;
use belljar_base::{Footprint, PacketAccount};
use belljar_base::{SimDuration, SimTime};
pub use codel::CodelConfig;
use egress::Egress;
pub use fq_codel::FqCodelConfig;
use ingress::Ingress;
pub use priority::PriorityConfig;
pub use queue::{Limit, QueueConfig};
pub use red::RedConfig;
use std::collections::VecDeque;

/// Configuration of an interface.
#[derive(Clone, Debug)]
pub struct NicConfig {
    /// Egress bandwidth in bit/s, not 0; `None` is infinite.
    pub bandwidth_up: Option<u64>,
    /// Ingress bandwidth in bit/s, not 0; `None` is infinite.
    pub bandwidth_down: Option<u64>,
    /// Overhead of each packet on egress in bytes, in addition to its length.
    pub overhead: u64,
    /// Egress queue.
    pub queue: QueueConfig,
    /// Token bucket that limits the rate in the long run, besides the bandwidth.
    pub token_bucket: Option<TokenBucket>,
    /// True if packets have an Ethernet header.
    pub framed: bool,
    /// Maximum length of a sent packet, including that header.
    pub mtu: usize,
    /// Random seed of the queue.
    pub seed: u64,
    /// Capacity of the router's queue before the downlink, in packets.
    pub router_queue_packets: usize,
    /// Active queue management before the downlink.
    pub codel: CodelConfig,
}

impl Default for NicConfig {
    fn default() -> NicConfig {
        NicConfig {
            bandwidth_up: None,
            bandwidth_down: None,
            overhead: 0,
            queue: QueueConfig::default(),
            token_bucket: None,
            framed: false,
            mtu: 1_500,
            seed: 0,
            router_queue_packets: 1_000,
            codel: CodelConfig::default(),
        }
    }
}

impl NicConfig {
    /// Applies a permanent change.
    pub fn change(&mut self, change: &NicChange) {
        match change {
            NicChange::Rate(rate) => self.bandwidth_up = *rate,
            NicChange::Queue(queue) => self.queue = queue.clone(),
            NicChange::TokenBucket(bucket) => self.token_bucket = *bucket,
        }
    }
}

/// Change of the egress.
#[derive(Clone, Debug, PartialEq)]
pub enum NicChange {
    /// New bandwidth in bit/s; `None` is infinite. A packet whose first bit has been sent keeps its time.
    Rate(Option<u64>),
    /// New queue. Queued packets are offered to it in their order.
    Queue(QueueConfig),
    /// New token bucket, initially full, or none.
    TokenBucket(Option<TokenBucket>),
}

/// Reason for which a packet was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum DropReason {
    /// The egress queue was full.
    EgressFull,
    /// The router's queue before the downlink was full.
    RouterFull,
    /// CoDel dropped the packet because of a standing queue.
    Codel,
    /// Random early detection dropped the packet.
    Red,
    /// The path or link lost the packet at random.
    PacketLoss,
    /// No host has the destination address, or no path leads to it.
    NoRoute,
    /// The link or path is down.
    LinkDown,
    /// A partition separates the hosts.
    Partition,
    /// The destination host is down.
    HostDown,
}

impl DropReason {
    /// All reasons, in the order of reports.
    pub const ALL: [DropReason; 9] = [
        DropReason::EgressFull,
        DropReason::RouterFull,
        DropReason::Codel,
        DropReason::Red,
        DropReason::PacketLoss,
        DropReason::NoRoute,
        DropReason::LinkDown,
        DropReason::Partition,
        DropReason::HostDown,
    ];

    /// Name in statistics.
    pub fn name(self) -> &'static str {
        match self {
            DropReason::EgressFull => "egress_full",
            DropReason::RouterFull => "router_full",
            DropReason::Codel => "codel",
            DropReason::Red => "red",
            DropReason::PacketLoss => "packet_loss",
            DropReason::NoRoute => "no_route",
            DropReason::LinkDown => "link_down",
            DropReason::Partition => "partition",
            DropReason::HostDown => "host_down",
        }
    }
}

/// Counters of an interface since its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Packets that the host has offered for sending, including those that were dropped at once.
    pub offered_out: u64,
    /// Packets that have arrived from the network, including those that were dropped at once.
    pub offered_in: u64,
    /// Packets delivered to the host.
    pub packets_in: u64,
    /// Bytes delivered to the host, IP headers included.
    pub bytes_in: u64,
    /// Packets sent.
    pub packets_out: u64,
    /// Bytes sent, IP headers included.
    pub bytes_out: u64,
    /// Packets marked with ECN CE by a queue.
    pub ecn_marked: u64,
    /// Frames of the host that a radio channel has returned because it could not deliver them.
    pub returned: u64,
    /// Frames from a link that were dropped because the host's receive ring was full.
    pub backlog: u64,
    drops: [u64; DropReason::ALL.len()],
}

impl Counters {
    /// Number of packets dropped for `reason`.
    pub fn dropped(&self, reason: DropReason) -> u64 {
        self.drops[reason as usize]
    }
    /// Number of packets dropped for any reason.
    pub fn dropped_in_total(&self) -> u64 {
        self.drops.iter().sum()
    }
    /// Adds the counters of another interface.
    pub fn add(&mut self, other: &Counters) {
        self.offered_out += other.offered_out;
        self.offered_in += other.offered_in;
        self.returned += other.returned;
        self.backlog += other.backlog;
        self.packets_in += other.packets_in;
        self.bytes_in += other.bytes_in;
        self.packets_out += other.packets_out;
        self.bytes_out += other.bytes_out;
        self.ecn_marked += other.ecn_marked;
        self.drops.iter_mut().zip(other.drops).for_each(|(sum, part)| *sum += part);
    }
    /// Adds packets that a device has dropped outside of its interfaces.
    pub fn add_drops(&mut self, reason: DropReason, count: u64) {
        self.drops[reason as usize] += count;
    }
    fn drop_one(&mut self, reason: DropReason) {
        self.drops[reason as usize] += 1;
    }
}

/// Event of the egress.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NicEvent {
    /// Transmission of a packet, which cannot be cancelled any more. It is reported when the first bit is
    /// sent, so that the arrival can be scheduled early.
    Transmit {
        /// Packet being sent.
        packet: Packet,
        /// Departure time of its last bit, from which a path's latency counts.
        departs: SimTime,
    },
    /// Departure of the last bit of a packet with a nonzero cookie; TCP small queues may then queue more
    /// packets.
    Sent {
        /// Cookie given by the packet's sender.
        cookie: u64,
        /// Length of the IP packet in bytes.
        bytes: usize,
    },
}

/// Network interface of a host. See the [module](self).
#[derive(Debug)]
#[repr(C)] // Frequently read fields come first: see `belljar_base::Footprint`.
pub struct Nic {
    /// Time before which the egress has no event.
    idle_until: SimTime,
    /// Events before the last `send` that have not been polled. They are processed by then, so that the
    /// queue's state does not depend on the times of polls.
    overdue: VecDeque<(SimTime, NicEvent)>,
    /// Received packets that have not been taken, for the same reason.
    waiting: VecDeque<(SimTime, Packet)>,
    ingress: Ingress,
    counters: Counters,
    egress: Egress,
}

impl Nic {
    /// Records the memory to which packets are written.
    pub fn footprint(&self, footprint: &mut Footprint) {
        footprint.start(self.overdue.as_slices().0.as_ptr(), 1);
        footprint.start(self.waiting.as_slices().0.as_ptr(), 1);
    }

    /// Creates an idle interface with empty queues.
    pub fn new(config: &NicConfig) -> Nic {
        Nic {
            egress: Egress::new(config),
            ingress: Ingress::new(config.bandwidth_down, config.router_queue_packets, config.codel),
            overdue: VecDeque::new(),
            waiting: VecDeque::new(),
            idle_until: SimTime::ZERO,
            counters: Counters::default(),
        }
    }

    /// Queues a packet for sending. Returns it, and counts it as [`DropReason::EgressFull`] or
    /// [`DropReason::LinkDown`], if the queue is full or there is no carrier.
    pub fn send(&mut self, now: SimTime, packet: Packet) -> Result<(), Packet> {
        self.counters.offered_out += 1;
        self.catch_up(now);
        self.idle_until = SimTime::ZERO;
        self.egress.enqueue(now, packet, &mut self.counters).map_err(|(reason, packet)| {
            self.counters.drop_one(reason);
            packet
        })
    }

    /// Queues a packet that has arrived at the router before the host, at `at`.
    pub fn receive(&mut self, at: SimTime, packet: Packet) {
        self.counters.offered_in += 1;
        self.catch_up_in(at);
        self.ingress.enqueue(at, packet, &mut self.counters);
    }

    /// Takes the next packet whose last bit has arrived by `now`, with the time of its arrival.
    pub fn received(&mut self, now: SimTime) -> Option<(SimTime, Packet)> {
        let (at, packet) = match self.waiting.pop_front() {
            Some(received) => received,
            None => self.ingress.step(now, &mut self.counters)?,
        };
        self.counters.packets_in += 1;
        self.counters.bytes_in += packet.len() as u64;
        Some((at, packet))
    }

    /// Time of the next [`received`](Self::received), if no packet arrives before.
    pub fn next_received(&self) -> Option<SimTime> {
        match self.waiting.front() {
            Some((at, _)) => Some(*at),
            None => self.ingress.next_event(),
        }
    }

    /// Time at which a packet of this length that reaches an idle downlink at `at` has been received.
    pub fn would_be_received(&mut self, at: SimTime, bytes: usize) -> SimTime {
        self.ingress.would_end(at, bytes)
    }

    /// Packet on the downlink.
    pub fn coming(&self) -> Option<&Packet> {
        self.ingress.on_wire()
    }

    /// Takes the next egress event up to `now`, with its time.
    pub fn poll(&mut self, now: SimTime) -> Option<(SimTime, NicEvent)> {
        if let Some(event) = self.overdue.pop_front() {
            return Some(event);
        }
        if now < self.idle_until { None } else { self.step(now) }
    }

    /// Time of the next [`poll`](Self::poll), if no packet is sent before.
    #[inline]
    pub fn next_event(&self) -> Option<SimTime> {
        if let Some((at, _)) = self.overdue.front() {
            return Some(*at);
        }
        if self.idle_until > SimTime::ZERO {
            return Some(self.idle_until).filter(|at| *at < SimTime::MAX);
        }
        self.egress.next_event()
    }

    /// Changes the bandwidths from `now` on (`None` is infinite). A packet whose first bit has been sent
    /// keeps its time.
    pub fn set_bandwidths(&mut self, now: SimTime, up: Option<u64>, down: Option<u64>) {
        self.catch_up(now);
        self.catch_up_in(now);
        self.idle_until = SimTime::ZERO;
        self.egress.set_bandwidth(up);
        self.ingress.set_bandwidth(down);
    }

    /// True if the sender takes a packet without another one waiting: it has no rate, or only transmits.
    pub fn takes_packets(&self) -> bool {
        self.egress.rate().is_none() || self.egress.queue_len() == 0
    }

    /// Rate of the egress in bit/s: the bandwidth, or that of the token bucket if it is lower; `None` is
    /// infinite.
    pub fn rate(&self) -> Option<u64> {
        self.egress.rate()
    }

    /// Time from the first to the last bit of a packet of this length on the wire.
    pub fn serialisation(&mut self, bytes: usize) -> SimDuration {
        self.egress.serialisation(bytes)
    }

    /// Changes the egress from `now` on.
    pub fn change(&mut self, now: SimTime, change: &NicChange) {
        self.catch_up(now);
        self.idle_until = SimTime::ZERO;
        match change {
            NicChange::Rate(rate) => self.egress.set_bandwidth(*rate),
            NicChange::Queue(queue) => self.egress.set_queue(now, queue, &mut self.counters),
            NicChange::TokenBucket(bucket) => self.egress.set_token_bucket(now, *bucket),
        }
    }

    /// Lets no queued packet start before a time, since the interface's host has stood still until then. A packet whose first bit has been
    /// sent keeps its time.
    pub fn hold_until(&mut self, until: SimTime) {
        self.idle_until = SimTime::ZERO;
        self.egress.hold_until(until);
    }

    /// Sets the carrier. Without one all queued packets are lost.
    pub fn set_carrier(&mut self, now: SimTime, carrier: bool) {
        self.catch_up(now);
        self.idle_until = SimTime::ZERO;
        self.egress.set_carrier(now, carrier, &mut self.counters);
    }
    /// True if there is a carrier.
    pub fn has_carrier(&self) -> bool {
        self.egress.has_carrier()
    }

    /// Counters after a power cut at this time: the packets in the interface are lost.
    pub fn counters_without_power(&self) -> Counters {
        let mut counters = self.counters;
        counters.add_drops(DropReason::HostDown, self.held());
        for packet in self.untaken() {
            counters.packets_out -= 1;
            counters.bytes_out -= packet.len() as u64;
        }
        counters
    }

    /// Resets the interface; all packets in it are lost, and its counters continue from `counters`.
    pub fn power_cycle(&mut self, config: &NicConfig, counters: Counters) {
        *self = Nic { counters, ..Nic::new(config) };
    }

    fn catch_up(&mut self, now: SimTime) {
        if now < self.idle_until {
            return;
        }
        while let Some(event) = self.step(now) {
            self.overdue.push_back(event);
        }
    }

    fn catch_up_in(&mut self, now: SimTime) {
        while let Some(received) = self.ingress.step(now, &mut self.counters) {
            self.waiting.push_back(received);
        }
    }

    fn step(&mut self, now: SimTime) -> Option<(SimTime, NicEvent)> {
        self.idle_until = SimTime::ZERO;
        loop {
            match self.egress.next_event() {
                Some(at) if at <= now => {
                    // The queue may have dropped all of its packets.
                    if let Some(event) = self.egress.step(&mut self.counters) {
                        return Some((at, event));
                    }
                }
                next => {
                    self.idle_until = next.unwrap_or(SimTime::MAX);
                    return None;
                }
            }
        }
    }

    /// Number of packets that wait for transmission, without the one being transmitted.
    pub fn egress_queue_len(&self) -> usize {
        self.egress.queue_len()
    }

    /// Counters of the interface so far.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Account of the packets that pass the interface in both directions. It balances between any two calls.
    pub fn packet_account(&self) -> PacketAccount {
        let counters = &self.counters;
        let untaken = self.untaken().count() as u64;
        let mut account = PacketAccount {
            received: counters.offered_out + counters.offered_in,
            sent: counters.packets_out - untaken + counters.packets_in,
            held: self.held(),
            ..PacketAccount::default()
        };
        for reason in DropReason::ALL {
            account.drop_for(reason.name(), counters.dropped(reason));
        }
        account.drop_for("backlog", counters.backlog);
        account.consume("returned", counters.returned);
        account
    }

    /// Number of packets in the interface.
    fn held(&self) -> u64 {
        let received = self.waiting.len() + self.ingress.held();
        (self.egress.queue_len() + self.untaken().count() + received) as u64
    }

    /// Packets whose transmission has begun and has not been polled.
    fn untaken(&self) -> impl Iterator<Item = &Packet> {
        self.overdue.iter().filter_map(|(_, event)| match event {
            NicEvent::Transmit { packet, .. } => Some(packet),
            NicEvent::Sent { .. } => None,
        })
    }

    /// Counts a packet received over a link, where there is no router's queue.
    pub fn count_received(&mut self, bytes: usize) {
        self.counters.offered_in += 1;
        self.counters.packets_in += 1;
        self.counters.bytes_in += bytes as u64;
    }
    /// Counts a packet that has arrived from the network and is dropped.
    pub fn count_drop(&mut self, reason: DropReason) {
        self.counters.offered_in += 1;
        self.counters.drop_one(reason);
    }
    /// Counts a frame from a link that is dropped because the host's receive ring is full.
    pub fn count_backlog(&mut self) {
        self.counters.offered_in += 1;
        self.counters.backlog += 1;
    }
    /// Counts a frame of the host that the medium has returned undelivered.
    pub fn count_returned(&mut self) {
        self.counters.offered_in += 1;
        self.counters.returned += 1;
    }
}

/// Serialisation of packets at a bandwidth.
#[derive(Clone, Copy, Debug)]
struct Pace {
    /// Bandwidth in bit/s; `None` is infinite.
    bandwidth: Option<u64>,
    /// Cache of the last length and its time, since most packets are as long as their predecessor.
    last: (u64, SimDuration),
}

impl Pace {
    fn new(bandwidth: Option<u64>) -> Pace {
        Pace { bandwidth, last: (0, SimDuration::ZERO) }
    }
    /// Serialisation time of a packet of this length.
    #[inline]
    fn of(&mut self, bytes: u64) -> SimDuration {
        if self.last.0 != bytes {
            let time = self.bandwidth.map(|rate| SimDuration::serialisation(bytes, rate.max(1)));
            self.last = (bytes, time.unwrap_or(SimDuration::ZERO));
        }
        self.last.1
    }
}
