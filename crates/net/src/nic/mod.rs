//! A host's interface: queues, serialisation at the host's bandwidths, and counters.
//!
//! The way out is a queue ([`QueueConfig`], Linux's `pfifo` by default), and a [`TokenBucket`] where one is set,
//! before a sender that puts one packet after another on the wire. The way in is the queue of the last router before the
//! host: CoDel (RFC 8289) before the host's downlink. A packet takes `8 * length of the IP packet /
//! bandwidth` in each direction, rounded up to a picosecond; link-layer framing is not counted. A
//! bandwidth of `None` is infinite: packets pass without delay or queue.
//!
//! Everything happens at its exact time, however late [`Nic::poll`] and [`Nic::received`] are called, as long as the
//! calls for each of the two ways come in the order of their times. After each [`Nic::send`] call [`Nic::poll`] until it
//! gives `None`, then again at [`Nic::next_event`]; after each [`Nic::receive`] call [`Nic::received`] at
//! [`Nic::next_received`]. Neither way knows of the other.

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
use belljar_base::Footprint;
pub use belljar_base::TokenBucket;
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
    /// Bits per second out of the host, not 0; `None` is infinite.
    pub bandwidth_up: Option<u64>,
    /// Bits per second into the host, not 0; `None` is infinite.
    pub bandwidth_down: Option<u64>,
    /// Bytes that a packet takes on the way out besides its own.
    pub overhead: u64,
    /// The egress queue.
    pub queue: QueueConfig,
    /// Token bucket that limits the rate in the long run, besides the bandwidth.
    pub token_bucket: Option<TokenBucket>,
    /// True if packets have an Ethernet header.
    pub framed: bool,
    /// The longest packet out of the host, with that header.
    pub mtu: usize,
    /// Seed of the queue's draws.
    pub seed: u64,
    /// Number of packets that wait before the downlink before further ones are dropped.
    pub router_queue_packets: usize,
    /// The queue management before the downlink.
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
    /// Makes a change that is to last.
    pub fn change(&mut self, change: &NicChange) {
        match change {
            NicChange::Rate(rate) => self.bandwidth_up = *rate,
            NicChange::Queue(queue) => self.queue = queue.clone(),
            NicChange::TokenBucket(bucket) => self.token_bucket = *bucket,
        }
    }
}

/// A change of the way out.
#[derive(Clone, Debug, PartialEq)]
pub enum NicChange {
    /// Bits per second; `None` is infinite. A packet whose first bit has gone keeps its time.
    Rate(Option<u64>),
    /// Another queue. What waits comes to it anew, in its order.
    Queue(QueueConfig),
    /// Another token bucket, which is full then, or none.
    TokenBucket(Option<TokenBucket>),
}

/// The reason of a packet's drop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum DropReason {
    /// The queue out of the host was full.
    EgressFull,
    /// The queue before the downlink was full.
    RouterFull,
    /// CoDel dropped it because a queue stood for too long.
    Codel,
    /// Random early detection dropped it.
    Red,
    /// The path lost it, as the graph says.
    PathLoss,
    /// No host has its destination address, or no path leads there.
    NoRoute,
    /// The way there is down.
    LinkDown,
    /// A partition lies between.
    Partition,
    /// The host that it has come to is down.
    HostDown,
}

impl DropReason {
    /// Every reason, in the order in which they are reported.
    pub const ALL: [DropReason; 9] = [
        DropReason::EgressFull,
        DropReason::RouterFull,
        DropReason::Codel,
        DropReason::Red,
        DropReason::PathLoss,
        DropReason::NoRoute,
        DropReason::LinkDown,
        DropReason::Partition,
        DropReason::HostDown,
    ];

    /// The name in statistics.
    pub fn name(self) -> &'static str {
        match self {
            DropReason::EgressFull => "egress_full",
            DropReason::RouterFull => "router_full",
            DropReason::Codel => "codel",
            DropReason::Red => "red",
            DropReason::PathLoss => "path_loss",
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
    /// Packets handed to the host.
    pub packets_in: u64,
    /// Their bytes, IP headers included.
    pub bytes_in: u64,
    /// Packets put on the wire.
    pub packets_out: u64,
    /// Their bytes, IP headers included.
    pub bytes_out: u64,
    /// Packets that a queue has marked as having met congestion.
    pub ecn_marked: u64,
    drops: [u64; DropReason::ALL.len()],
}

impl Counters {
    /// Number of packets that were dropped for `reason`.
    pub fn dropped(&self, reason: DropReason) -> u64 {
        self.drops[reason as usize]
    }
    /// Number of packets that were dropped for any reason.
    pub fn dropped_in_total(&self) -> u64 {
        self.drops.iter().sum()
    }
    /// Adds what another interface has seen.
    pub fn add(&mut self, other: &Counters) {
        self.packets_in += other.packets_in;
        self.bytes_in += other.bytes_in;
        self.packets_out += other.packets_out;
        self.bytes_out += other.bytes_out;
        self.ecn_marked += other.ecn_marked;
        self.drops.iter_mut().zip(other.drops).for_each(|(sum, part)| *sum += part);
    }
    /// Adds packets that a device has dropped by itself.
    pub fn add_drops(&mut self, reason: DropReason, count: u64) {
        self.drops[reason as usize] += count;
    }
    fn drop_one(&mut self, reason: DropReason) {
        self.drops[reason as usize] += 1;
    }
}

/// Event of an interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NicEvent {
    /// A packet has begun to go out and nothing can call it back. It is reported when its first bit
    /// goes, so that the other end can be told early.
    Transmit {
        /// The packet.
        packet: Packet,
        /// When its last bit leaves. A path's latency counts from here.
        departs: SimTime,
    },
    /// The last bit of a packet with a cookie has left: TCP small queues may hand down more.
    /// Not reported for cookie 0.
    Sent {
        /// The name that the packet's sender gave it.
        cookie: u64,
        /// Bytes of the IP packet.
        bytes: usize,
    },
}

/// A host's interface. See the [module](self).
#[derive(Debug)]
#[repr(C)] // What is read often comes first: see `belljar_base::Footprint`.
pub struct Nic {
    /// The way out has nothing to do before this.
    idle_until: SimTime,
    /// Events before the last `send` that have not been polled: with it, the content of a queue at some time does not
    /// depend on when the interface is polled.
    overdue: VecDeque<(SimTime, NicEvent)>,
    /// Received packets that have not been polled, for the same reason.
    waiting: VecDeque<(SimTime, Packet)>,
    ingress: Ingress,
    counters: Counters,
    egress: Egress,
}

impl Nic {
    /// Tells where it puts packets.
    pub fn footprint(&self, footprint: &mut Footprint) {
        footprint.start(self.overdue.as_slices().0.as_ptr(), 1);
        footprint.start(self.waiting.as_slices().0.as_ptr(), 1);
    }

    /// An idle interface with empty queues.
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

    /// Queues a packet to leave the host. Gives it back, and counts it as
    /// [`DropReason::EgressFull`] or [`DropReason::LinkDown`], if the queue is full or there is no carrier.
    pub fn send(&mut self, now: SimTime, packet: Packet) -> Result<(), Packet> {
        self.catch_up(now);
        self.idle_until = SimTime::ZERO;
        self.egress.enqueue(now, packet, &mut self.counters).map_err(|(reason, packet)| {
            self.counters.drop_one(reason);
            packet
        })
    }

    /// Takes a packet that has arrived, at `at`, at the router before the host.
    pub fn receive(&mut self, at: SimTime, packet: Packet) {
        self.catch_up_in(at);
        self.ingress.enqueue(at, packet, &mut self.counters);
    }

    /// The next packet that has come in completely by `now` and is the host's, with the time at which it had.
    pub fn received(&mut self, now: SimTime) -> Option<(SimTime, Packet)> {
        let (at, packet) = match self.waiting.pop_front() {
            Some(received) => received,
            None => self.ingress.step(now, &mut self.counters)?,
        };
        self.counters.packets_in += 1;
        self.counters.bytes_in += packet.len() as u64;
        Some((at, packet))
    }

    /// When [`received`](Self::received) has something to give, if nothing arrives before.
    pub fn next_received(&self) -> Option<SimTime> {
        match self.waiting.front() {
            Some((at, _)) => Some(*at),
            None => self.ingress.next_event(),
        }
    }

    /// When a packet of so many bytes has come in that arrives at `at`, if nothing else is on its way in then.
    pub fn would_be_received(&mut self, at: SimTime, bytes: usize) -> SimTime {
        self.ingress.would_end(at, bytes)
    }

    /// The packet that is coming in.
    pub fn coming(&self) -> Option<&Packet> {
        self.ingress.on_wire()
    }

    /// The next thing that has happened on the way out up to `now`, with the time at which it did.
    pub fn poll(&mut self, now: SimTime) -> Option<(SimTime, NicEvent)> {
        if let Some(event) = self.overdue.pop_front() {
            return Some(event);
        }
        if now < self.idle_until { None } else { self.step(now) }
    }

    /// When [`poll`](Self::poll) has something to say, if nothing is sent before.
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

    /// Changes the bandwidths from `now` on (`None` is infinite). A packet whose first bit has gone
    /// keeps its time.
    pub fn set_bandwidths(&mut self, now: SimTime, up: Option<u64>, down: Option<u64>) {
        self.catch_up(now);
        self.catch_up_in(now);
        self.idle_until = SimTime::ZERO;
        self.egress.set_bandwidth(up);
        self.ingress.set_bandwidth(down);
    }

    /// Changes the way out from `now` on.
    pub fn change(&mut self, now: SimTime, change: &NicChange) {
        self.catch_up(now);
        self.idle_until = SimTime::ZERO;
        match change {
            NicChange::Rate(rate) => self.egress.set_bandwidth(*rate),
            NicChange::Queue(queue) => self.egress.set_queue(now, queue, &mut self.counters),
            NicChange::TokenBucket(bucket) => self.egress.set_token_bucket(now, *bucket),
        }
    }

    /// Loses the carrier, and with it what waits to leave, or finds it again.
    pub fn set_carrier(&mut self, now: SimTime, carrier: bool) {
        self.catch_up(now);
        self.idle_until = SimTime::ZERO;
        self.egress.set_carrier(now, carrier, &mut self.counters);
    }
    /// True if it has a carrier.
    pub fn has_carrier(&self) -> bool {
        self.egress.has_carrier()
    }

    /// Loses everything that it holds and begins anew; what it has counted up to `counters` stays.
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
                    // The queue may have dropped all that there was.
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

    /// Packets that wait to leave; the one that is leaving does not count.
    pub fn egress_queue_len(&self) -> usize {
        self.egress.queue_len()
    }

    /// Counters of the interface so far.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Counts a packet that has come in by a link, where no router's queue is before it.
    pub fn count_received(&mut self, bytes: usize) {
        self.counters.packets_in += 1;
        self.counters.bytes_in += bytes as u64;
    }
    /// Counts a packet of this host that was dropped beyond the interface.
    pub fn count_drop(&mut self, reason: DropReason) {
        self.counters.drop_one(reason);
    }
}

/// Rate of packets on a wire.
#[derive(Clone, Copy, Debug)]
struct Pace {
    /// Bits per second; `None` is infinite.
    bandwidth: Option<u64>,
    /// The packet that was asked for last and what it takes: most are as long as the one before.
    last: (u64, SimDuration),
}

impl Pace {
    fn new(bandwidth: Option<u64>) -> Pace {
        Pace { bandwidth, last: (0, SimDuration::ZERO) }
    }
    /// Time that a packet of so many bytes takes.
    #[inline]
    fn of(&mut self, bytes: u64) -> SimDuration {
        if self.last.0 != bytes {
            let time = self.bandwidth.map(|rate| SimDuration::serialisation(bytes, rate.max(1)));
            self.last = (bytes, time.unwrap_or(SimDuration::ZERO));
        }
        self.last.1
    }
}
