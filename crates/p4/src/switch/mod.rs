//! The switch: ports, queues and replication around a program.
//!
//! A packet comes in by [`Switch::receive`], waits for ingress if that has a limited rate, is processed at once and
//! stands in an egress queue after the pipeline's latency. When its port is free it goes through egress and leaves. All
//! happens at its exact time, however late [`Switch::poll`] is called.
//!
//! After each call, take what leaves from [`Switch::poll`] and what is told from [`Switch::notification`] until both give
//! `None`, then call again at [`Switch::next_event`].

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
use belljar_base::{Bucket, SimDuration, SimTime, TokenBucket};
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
/// Most notifications that wait; further ones are counted and dropped.
const MAX_NOTIFICATIONS: usize = 65_536;
/// Most copies that wait to be queued.
const MAX_COPIES: usize = 1_024;

/// A packet that leaves a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leaving {
    /// Number of the port.
    pub port: u16,
    /// Time at which its first bit goes.
    pub at: SimTime,
    /// Time at which its last bit goes.
    pub departs: SimTime,
    /// Packet.
    pub packet: Vec<u8>,
}

/// A v1model switch. See the [module](self).
#[derive(Debug)]
pub struct Switch {
    pub(crate) program: Arc<Program>,
    pub(crate) config: SwitchConfig,
    pub(crate) state: State,
    pub(crate) replication: Replication,
    pub(crate) digests: Vec<DigestState>,
    scratch: Scratch,
    ports: Vec<Port>,
    /// Packets before ingress, with the time at which they came.
    input: VecDeque<(SimTime, Box<Packet>)>,
    ingress_free: SimTime,
    /// Packets between ingress and their queue.
    delayed: VecDeque<(SimTime, u16, Box<Packet>)>,
    /// Copies that are to be queued now.
    copies: VecDeque<(u16, Box<Packet>)>,
    /// Ports with packets that wait, by the time at which one can be taken.
    busy: Busy,
    out: VecDeque<Leaving>,
    notifications: VecDeque<Notification>,
    lost_notifications: u64,
    logs: Vec<String>,
    #[expect(clippy::vec_box, reason = "packets move between queues as boxes")]
    pool: Vec<Box<Packet>>,
    drops: [u64; Drop::ALL.len()],
    received: u64,
    pub(crate) now: SimTime,
    /// Time of the next look for idle entries.
    sweep: Option<SimTime>,
    trace: Option<Trace>,
}

impl Switch {
    /// A switch with a program and empty tables, but for their constant entries.
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
            now: SimTime::ZERO,
            sweep: None,
            trace: None,
            program,
            config,
        }
    }

    /// Takes a packet that has come in completely. The times of calls do not decrease.
    pub fn receive(&mut self, now: SimTime, port: u16, packet: Vec<u8>) {
        self.advance(now);
        if let Some(port) = self.ports.get_mut(usize::from(port)) {
            port.counters.packets_in += 1;
            port.counters.bytes_in += packet.len() as u64;
        }
        self.received += 1;
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

    /// The next packet that has begun to leave up to `now`.
    pub fn poll(&mut self, now: SimTime) -> Option<Leaving> {
        self.advance(now);
        self.out.pop_front()
    }
    /// The next thing that is told to the control plane.
    pub fn notification(&mut self) -> Option<Notification> {
        self.notifications.pop_front()
    }
    /// True if there is something to be told.
    pub fn has_notifications(&self) -> bool {
        !self.notifications.is_empty()
    }
    /// When [`poll`](Self::poll) or [`notification`](Self::notification) may have something, if nothing is received
    /// before.
    pub fn next_event(&self) -> Option<SimTime> {
        if let Some(leaving) = self.out.front() {
            return Some(leaving.at);
        }
        if !self.notifications.is_empty() {
            return Some(self.now);
        }
        self.next_due()
    }
    /// When the next packet is processed, if nothing is received before: the timers of idle entries and digests aside.
    pub fn next_packet(&self) -> Option<SimTime> {
        let input = self.input.front().map(|(at, _)| (*at).max(self.ingress_free));
        let delayed = self.delayed.front().map(|(at, ..)| *at);
        [input, delayed, self.busy.next()].into_iter().flatten().min()
    }

    /// Does everything up to `now` in the order of time.
    pub(crate) fn advance(&mut self, now: SimTime) {
        self.now = self.now.max(now);
        // This is asked several times for each packet, and mostly there is nothing to do.
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

    /// When the next thing happens by itself.
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

    /// Queues the copies that were made, and those that they make.
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

    /// A packet with an empty state.
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
    /// A timestamp as programs see it.
    fn stamp(&self, at: SimTime) -> u64 {
        if self.config.nanoseconds { at.as_nanos() } else { at.as_nanos() / 1_000 }
    }

    /// Its program.
    pub fn program(&self) -> &Arc<Program> {
        &self.program
    }
    /// Packets that were dropped for a reason.
    pub fn dropped(&self, reason: Drop) -> u64 {
        self.drops[reason as usize]
    }
    /// Packets that came in.
    pub fn received(&self) -> u64 {
        self.received
    }
    /// Notifications that nobody took and that found no room.
    pub fn lost_notifications(&self) -> u64 {
        self.lost_notifications
    }
    /// Packets and bytes of a port.
    pub fn port_counters(&self, port: u16) -> Option<&PortCounters> {
        self.ports.get(usize::from(port)).map(|port| &port.counters)
    }
    /// Packets that wait to leave a port.
    pub fn queue_len(&self, port: u16) -> usize {
        self.ports.get(usize::from(port)).map_or(0, Port::waiting)
    }
    /// Sets a port's rate in bits per second from now on, `None` is infinite. A packet whose first bit has gone keeps its
    /// time.
    pub fn set_port_rate(&mut self, now: SimTime, port: u16, rate: Option<u64>) {
        self.advance(now);
        if let Some(port) = self.ports.get_mut(usize::from(port)) {
            port.rate = rate;
        }
    }
    /// Sets a port's token bucket from now on, which is full then, or takes it away. A packet that waits needs tokens for the length
    /// that it was queued with; it takes them for that with which it leaves, and tokens that are not there are owed.
    pub fn set_port_bucket(&mut self, now: SimTime, port: u16, bucket: Option<TokenBucket>) {
        self.advance(now);
        if let Some(found) = self.ports.get_mut(usize::from(port)) {
            found.bucket = bucket.map(|bucket| Bucket::new(bucket, now));
            self.serve(now, port);
        }
    }
    /// Sets the bytes that a packet takes on the wire of a port besides its own.
    pub fn set_port_overhead(&mut self, port: u16, overhead: u64) {
        if let Some(port) = self.ports.get_mut(usize::from(port)) {
            port.overhead = overhead;
        }
    }
    /// Sets the limits of all queues of a port. What waits already stays.
    pub fn set_port_limits(&mut self, port: u16, limits: QueueLimits) {
        if let Some(port) = self.ports.get_mut(usize::from(port)) {
            port.set_limits(limits);
        }
    }
    /// Takes the place of a switch with another program: goes on with its clock, its carriers and what it has counted. Packets
    /// that wait there are dropped.
    pub fn take_over(&mut self, other: &Switch) {
        self.now = self.now.max(other.now);
        for (own, theirs) in self.ports.iter_mut().zip(&other.ports) {
            own.continue_from(theirs);
        }
        (self.drops, self.received) = (other.drops, other.received);
        self.lost_notifications = other.lost_notifications + other.notifications.len() as u64;
        let queued: usize = other.ports.iter().map(Port::waiting).sum();
        let waiting = queued + other.input.len() + other.delayed.len() + other.copies.len() + other.out.len();
        self.drops[Drop::Replaced as usize] += waiting as u64;
        // The trace that nobody has taken yet goes on here.
        if let (Some(own), Some(theirs)) = (&mut self.trace, &other.trace) {
            own.clone_from(theirs);
        }
    }
    /// A port loses its carrier, and with it the packets that wait to leave, or finds it again.
    pub fn set_carrier(&mut self, now: SimTime, port: u16, carrier: bool) {
        self.advance(now);
        let Some(found) = self.ports.get_mut(usize::from(port)) else { return };
        found.carrier = carrier;
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
    }
    /// Begins or ends to write down what happens to packets.
    pub fn set_trace(&mut self, on: bool) {
        self.trace = on.then(Trace::default);
    }
    /// Begins to write down what happens to packets, with their headers and metadata at each line.
    pub fn set_steps(&mut self) {
        self.trace = Some(Trace::with_steps());
    }
    /// Takes the lines since the last call, after [`set_steps`](Self::set_steps).
    pub fn take_steps(&mut self) -> Vec<Step> {
        self.trace.as_mut().map_or_else(Vec::new, Trace::take_steps)
    }
    /// Takes the trace since the last call.
    pub fn take_trace(&mut self) -> String {
        self.trace.as_mut().map_or_else(String::new, Trace::take)
    }
    pub(crate) fn limits_mut(&mut self, port: u16, queue: usize) -> Option<&mut QueueLimits> {
        self.ports.get_mut(usize::from(port))?.limits_mut(queue)
    }
    /// Bytes that its packets have in memory, those that wait and those that are kept for the next ones.
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
