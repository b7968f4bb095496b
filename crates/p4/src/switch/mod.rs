//! Switch: ports, queues and replication around a program.
//!
//! [`Switch::receive`] accepts a packet. It waits for ingress if the ingress rate is limited, is processed at
//! once, and is queued for egress after the pipeline latency. When its port is free, the packet passes egress
//! and is transmitted. All events happen at their exact times, however late [`Switch::poll`] is called.
//!
//! After each call, drain [`Switch::poll`] and [`Switch::notification`] until both return `None`, then call
//! again at [`Switch::next_event`].

mod account;
mod config;
mod copies;
mod digest;
mod ingress;
mod multicast;
mod port;
mod timers;

use crate::packet::Packet;
use crate::program::Program;
use crate::run::{Run, Scratch};
use crate::state::State;
use crate::trace::{Step, Trace};
use account::Flow;
use belljar_base::{Bucket, Set, SimDuration, SimTime, TokenBucket};
pub use config::{Drop, Notification, SwitchConfig};
pub(crate) use digest::DigestState;
pub use digest::{DigestConfig, Sample};
pub(crate) use multicast::Replication;
pub use multicast::{CloneSession, MulticastNode, Replica};
use port::{Busy, Port};
pub use port::{PortCounters, QueueLimits};
use std::collections::VecDeque;
use std::sync::Arc;

/// Value of `egress_spec` that drops a packet.
pub(crate) const DROP_PORT: u64 = 511;
/// Maximum number of queued notifications; further ones are counted and dropped.
const MAX_NOTIFICATIONS: usize = 65_536;
/// Maximum number of copies waiting to be queued.
const MAX_COPIES: usize = 1_024;

/// Packet transmitted by a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leaving {
    /// Port number.
    pub port: u16,
    /// Transmission time of the first bit.
    pub at: SimTime,
    /// Transmission time of the last bit.
    pub departs: SimTime,
    /// Packet.
    pub packet: Vec<u8>,
}

/// v1model switch. See the [module](self).
#[derive(Debug)]
pub struct Switch {
    pub(crate) program: Arc<Program>,
    pub(crate) config: SwitchConfig,
    pub(crate) state: State,
    pub(crate) replication: Replication,
    pub(crate) digests: Vec<DigestState>,
    scratch: Scratch,
    ports: Vec<Port>,
    /// Ingress queue: arrival times and packets.
    input: VecDeque<(SimTime, Box<Packet>)>,
    ingress_free: SimTime,
    /// Packets between ingress and their egress queue.
    delayed: VecDeque<(SimTime, u16, Box<Packet>)>,
    /// Copies to be queued now.
    copies: VecDeque<(u16, Box<Packet>)>,
    /// Ports with queued packets, by the time of the next dequeue.
    busy: Busy,
    out: VecDeque<Leaving>,
    notifications: VecDeque<Notification>,
    lost_notifications: u64,
    logs: Vec<String>,
    #[expect(clippy::vec_box, reason = "packets move between queues as boxes")]
    pool: Vec<Box<Packet>>,
    drops: [u64; Drop::ALL.len()],
    received: u64,
    flow: Flow,
    pub(crate) now: SimTime,
    /// Time of the next scan for idle entries.
    sweep: Option<SimTime>,
    trace: Option<Trace>,
}

impl Switch {
    /// Creates a switch with empty tables except constant entries.
    pub fn new(program: Arc<Program>, config: SwitchConfig) -> Switch {
        let queues = config.queues.max(1);
        let port = || Port::new(config.rate, config.overhead, queues, config.limits);
        Switch {
            state: State::new(&program, config.seed, &config.name),
            replication: Replication::default(),
            digests: vec![DigestState::default(); program.learn_lists.len()],
            scratch: Scratch::default(),
            ports: (0..config.ports).map(|_| port()).collect(),
            input: VecDeque::new(),
            ingress_free: SimTime::ZERO,
            delayed: VecDeque::new(),
            copies: VecDeque::new(),
            busy: Busy::default(),
            out: VecDeque::new(),
            notifications: VecDeque::new(),
            lost_notifications: 0,
            logs: Vec::new(),
            pool: Vec::new(),
            drops: [0; Drop::ALL.len()],
            received: 0,
            flow: Flow::default(),
            now: SimTime::ZERO,
            sweep: None,
            trace: None,
            program,
            config,
        }
    }

    /// Receives a complete packet. The times of successive calls must not decrease.
    pub fn receive(&mut self, now: SimTime, port: u16, packet: Vec<u8>) {
        self.advance(now);
        if let Some(port) = self.ports.get_mut(usize::from(port)) {
            port.counters.packets_in += 1;
            port.counters.bytes_in += packet.len() as u64;
        }
        self.received += 1;
        if self.config.cpu_port.is_some_and(|cpu| cpu == port) {
            self.flow.packet_out += 1;
        }
        let mut incoming = self.fresh();
        let len = packet.len() as u32;
        incoming.data = packet;
        incoming.id = self.received;
        incoming.passes = 0;
        incoming.timestamp = now;
        incoming.ingress_port = port;
        (incoming.ingress_len, incoming.len) = (len, len);
        if self.input.is_empty() && self.ingress_free <= now {
            self.start_ingress(now, incoming);
        } else if self.input.len() >= self.config.input_packets {
            self.drop_packet(Drop::InputFull, incoming);
        } else {
            self.input.push_back((now, incoming));
        }
        self.advance(now);
    }

    /// Next packet whose transmission has begun by `now`.
    pub fn poll(&mut self, now: SimTime) -> Option<Leaving> {
        self.advance(now);
        // Counted in advance, which saves a move of the packet.
        self.flow.sent += u64::from(!self.out.is_empty());
        self.out.pop_front()
    }
    /// Next notification to the control plane.
    pub fn notification(&mut self) -> Option<Notification> {
        let notification = self.notifications.pop_front()?;
        self.flow.packet_in += u64::from(matches!(notification, Notification::PacketIn(_)));
        Some(notification)
    }
    /// True if a notification is queued.
    pub fn has_notifications(&self) -> bool {
        !self.notifications.is_empty()
    }
    /// Time at which [`poll`](Self::poll) or [`notification`](Self::notification) may next have output, if
    /// nothing is received before.
    pub fn next_event(&self) -> Option<SimTime> {
        if let Some(leaving) = self.out.front() {
            return Some(leaving.at);
        }
        if !self.notifications.is_empty() {
            return Some(self.now);
        }
        self.next_due()
    }
    /// Time at which the next packet is processed, if nothing is received before; ignores the timers of idle
    /// entries and digests.
    pub fn next_packet(&self) -> Option<SimTime> {
        let input = self.input.front().map(|(at, _)| (*at).max(self.ingress_free));
        let delayed = self.delayed.front().map(|(at, ..)| *at);
        [input, delayed, self.busy.next()].into_iter().flatten().min()
    }

    /// Processes all events up to `now` in time order.
    pub(crate) fn advance(&mut self, now: SimTime) {
        self.now = self.now.max(now);
        // Called several times per packet; usually nothing is due.
        while let Some(at) = self.next_due().filter(|at| *at <= now) {
            let input = self.input.front().map(|(at, _)| (*at).max(self.ingress_free));
            let delayed = self.delayed.front().map(|(at, ..)| *at);
            if let Some(port) = self.busy.take(at) {
                self.ports[usize::from(port)].due = None;
                self.serve(at, port);
            } else if delayed == Some(at) {
                if let Some((_, port, packet)) = self.delayed.pop_front() {
                    self.enqueue(at, port, packet);
                }
            } else if input == Some(at) {
                if let Some((_, packet)) = self.input.pop_front() {
                    self.start_ingress(at, packet);
                }
            } else {
                self.fire_timers(at);
            }
            self.settle(at);
        }
    }

    /// Time of the next internal event.
    #[inline]
    fn next_due(&self) -> Option<SimTime> {
        let timed = !self.digests.is_empty() || self.sweep.is_some();
        if self.input.is_empty() && self.delayed.is_empty() && !timed {
            return self.busy.next();
        }
        [self.next_packet(), self.next_timer()].into_iter().flatten().min()
    }

    fn start_ingress(&mut self, at: SimTime, packet: Box<Packet>) {
        if let Some(rate) = self.config.packets_per_second {
            self.ingress_free = at + SimDuration::from_picos(1_000_000_000_000u64.div_ceil(rate.max(1)));
        }
        self.ingress(at, packet);
        self.settle(at);
    }

    /// Queues the pending copies, and the copies that these create.
    fn settle(&mut self, at: SimTime) {
        while let Some((port, packet)) = self.copies.pop_front() {
            self.enqueue(at, port, packet);
        }
    }

    fn run<'a>(&'a mut self, now: SimTime, packet: &'a mut Packet) -> Run<'a> {
        Run {
            program: &self.program,
            state: &mut self.state,
            scratch: &mut self.scratch,
            packet,
            now,
            logs: &mut self.logs,
            trace: self.trace.as_mut(),
        }
    }

    /// Packet with an empty state.
    fn fresh(&mut self) -> Box<Packet> {
        let mut packet = self.pool.pop().unwrap_or_default();
        packet.clear_requests();
        packet.phv.reset(&self.program);
        packet
    }
    fn recycle(&mut self, packet: Box<Packet>) {
        if self.pool.len() < 1_024 {
            self.pool.push(packet);
        }
    }
    fn drop_packet(&mut self, reason: Drop, packet: Box<Packet>) {
        self.drops[reason as usize] += 1;
        if let Some(trace) = &mut self.trace {
            trace.line(format!("  drop: {}", reason.name()));
        }
        self.recycle(packet);
    }
    pub(crate) fn notify(&mut self, notification: Notification) {
        if self.notifications.len() >= MAX_NOTIFICATIONS {
            self.lost_notifications += 1;
            if matches!(notification, Notification::PacketIn(_)) {
                self.drops[Drop::NotificationsFull as usize] += 1;
            }
        } else {
            self.notifications.push_back(notification);
        }
    }
    fn tell_logs(&mut self) {
        if self.logs.is_empty() {
            return;
        }
        for text in std::mem::take(&mut self.logs) {
            self.notify(Notification::Log(text));
        }
    }
    /// Timestamp in the unit that programs see.
    fn stamp(&self, at: SimTime) -> u64 {
        if self.config.nanoseconds { at.as_nanos() } else { at.as_nanos() / 1_000 }
    }

    /// Program of the switch.
    pub fn program(&self) -> &Arc<Program> {
        &self.program
    }
    /// Number of packets dropped for a reason.
    pub fn dropped(&self, reason: Drop) -> u64 {
        self.drops[reason as usize]
    }
    /// Number of packets received.
    pub fn received(&self) -> u64 {
        self.received
    }
    /// Number of notifications dropped because their queue was full.
    pub fn lost_notifications(&self) -> u64 {
        self.lost_notifications
    }
    /// Counters of a port.
    pub fn port_counters(&self, port: u16) -> Option<&PortCounters> {
        self.ports.get(usize::from(port)).map(|port| &port.counters)
    }
    /// Number of packets queued at a port.
    pub fn queue_len(&self, port: u16) -> usize {
        self.ports.get(usize::from(port)).map_or(0, Port::waiting)
    }
    /// Sets a port's rate in bits per second from `now` on; `None` is infinite. A transmission in progress
    /// keeps its end time.
    pub fn set_port_rate(&mut self, now: SimTime, port: u16, rate: Option<u64>) {
        self.advance(now);
        if let Some(port) = self.ports.get_mut(usize::from(port)) {
            port.rate = rate;
        }
    }
    /// Sets or removes a port's token bucket, which is full at `now`. A packet is eligible when tokens for
    /// its length at enqueueing are available. It consumes tokens for its length at transmission; missing
    /// tokens become a debt.
    pub fn set_port_bucket(&mut self, now: SimTime, port: u16, bucket: Option<TokenBucket>) {
        self.advance(now);
        if let Some(found) = self.ports.get_mut(usize::from(port)) {
            found.bucket = bucket.map(|bucket| Bucket::new(bucket, now));
            self.serve(now, port);
        }
    }
    /// Sets the overhead of each packet on the wire of a port in bytes.
    pub fn set_port_overhead(&mut self, port: u16, overhead: u64) {
        if let Some(port) = self.ports.get_mut(usize::from(port)) {
            port.overhead = overhead;
        }
    }
    /// Sets the limits of all queues of a port. Queued packets remain.
    pub fn set_port_limits(&mut self, port: u16, limits: QueueLimits) {
        if let Some(port) = self.ports.get_mut(usize::from(port)) {
            port.set_limits(limits);
        }
    }
    /// Replaces a switch that ran another program: takes over its clock, carrier states and counters. Packets
    /// queued in `other` are dropped.
    pub fn take_over(&mut self, other: &Switch) {
        self.now = self.now.max(other.now);
        for (own, theirs) in self.ports.iter_mut().zip(&other.ports) {
            own.continue_from(theirs);
        }
        (self.drops, self.received, self.flow) = (other.drops, other.received, other.flow);
        self.lost_notifications = other.lost_notifications + other.notifications.len() as u64;
        self.drops[Drop::Replaced as usize] += other.held();
        // The trace not yet taken is continued.
        if let (Some(own), Some(theirs)) = (&mut self.trace, &other.trace) {
            own.clone_from(theirs);
        }
        self.update_watching_groups();
    }
    /// Sets the carrier of a port. Loss of carrier drops the packets queued at the port.
    pub fn set_carrier(&mut self, now: SimTime, port: u16, carrier: bool) {
        self.advance(now);
        let Some(found) = self.ports.get_mut(usize::from(port)) else { return };
        let changed = std::mem::replace(&mut found.carrier, carrier) != carrier;
        if !carrier {
            if let Some(due) = found.due.take() {
                self.busy.remove(due, port);
            }
            let waiting = found.drain();
            found.counters.link_down += waiting.len() as u64;
            for packet in waiting {
                self.drop_packet(Drop::LinkDown, packet);
            }
        }
        if changed {
            self.update_watching_groups();
        }
    }
    fn update_watching_groups(&mut self) {
        let down = self.ports_down();
        self.state.profiles.iter_mut().for_each(|profile| profile.set_ports_down(&down));
    }
    /// Ports without a carrier.
    pub(crate) fn ports_down(&self) -> Set<u32> {
        let down = self.ports.iter().enumerate().filter(|(_, port)| !port.carrier);
        down.map(|(number, _)| number as u32).collect()
    }
    /// Starts or stops tracing of packets.
    pub fn set_trace(&mut self, on: bool) {
        self.trace = on.then(Trace::default);
    }
    /// Starts tracing of packets with headers and metadata at each line.
    pub fn set_steps(&mut self) {
        self.trace = Some(Trace::with_steps());
    }
    /// Takes the steps recorded since the last call, after [`set_steps`](Self::set_steps).
    pub fn take_steps(&mut self) -> Vec<Step> {
        self.trace.as_mut().map_or_else(Vec::new, Trace::take_steps)
    }
    /// Takes the trace recorded since the last call.
    pub fn take_trace(&mut self) -> String {
        self.trace.as_mut().map_or_else(String::new, Trace::take)
    }
    pub(crate) fn limits_mut(&mut self, port: u16, queue: usize) -> Option<&mut QueueLimits> {
        self.ports.get_mut(usize::from(port))?.limits_mut(queue)
    }
    /// Memory of queued packets and of the packet pool, in bytes.
    pub(crate) fn packet_memory(&self) -> usize {
        let waiting: usize = self.ports.iter().map(Port::waiting).sum();
        let waiting = waiting + self.input.len() + self.delayed.len();
        let each = size_of::<Packet>() + self.program.phv_bytes;
        (waiting + self.pool.len()) * each + size_of_val(&self.ports[..])
    }
    pub(crate) fn port_count(&self) -> u16 {
        self.ports.len() as u16
    }
}
