//! Packets in transit from the graph to `eth0`, until the arrival of their last bit.
//!
//! Reception by the last router, which precedes reception by the host, is not an event of its own, since its
//! outcome depends on its time alone. It is processed when the previous packet has been received, or else
//! when the packet itself has.

use super::interface::GRAPH;
use crate::PacketDirection;
use crate::Stack;
use belljar_base::{EventKey, Footprint, Inbox, SimTime};
use belljar_net::{DropReason, Packet};

/// The packets in transit to `eth0`.
#[derive(Debug, Default)]
pub struct Arrivals {
    inbox: Inbox<Packet>,
    /// Key and length of the first packet due at the router.
    first: Option<(EventKey, usize)>,
    /// Time at which the next packet is received, or is dropped because the host is down.
    next: Option<SimTime>,
}

impl Arrivals {
    /// Time of the next reception or drop.
    #[inline]
    pub fn next(&self) -> Option<SimTime> {
        self.next
    }

    /// Number of packets in transit.
    pub fn in_transit(&self) -> usize {
        self.inbox.contents().count()
    }

    /// Lists the memory that an arrival reads.
    pub fn footprint(&self, footprint: &mut Footprint) {
        self.inbox.footprint(footprint);
    }

    /// Removes the first packet if it reaches the router before `limit`. Returns it with its arrival time.
    fn pop_before(&mut self, limit: SimTime) -> Option<(SimTime, Packet)> {
        let (key, _) = self.first.filter(|(key, _)| key.time < limit)?;
        self.pop().map(|packet| (key.time, packet))
    }

    fn pop(&mut self) -> Option<Packet> {
        let packet = self.inbox.pop();
        self.first = self.inbox.first().map(|(key, packet)| (key, packet.len()));
        packet
    }
}

impl Stack {
    /// Queues a packet that reaches the last router before `eth0` at the future time `key.time`.
    pub fn will_arrive(&mut self, key: EventKey, packet: Packet) {
        let arrivals = &mut self.arrivals;
        let is_first = arrivals.first.is_none_or(|(first, _)| key < first);
        if is_first {
            arrivals.first = Some((key, packet.len()));
        }
        arrivals.inbox.push(key, packet);
        if is_first {
            self.plan_arrivals();
        }
    }

    /// Recomputes the time of the next reception. The caller invokes it after every change that affects it.
    pub fn plan_arrivals(&mut self) {
        let nic = &mut self.eth0.nic;
        self.arrivals.next = match (nic.next_received(), self.arrivals.first) {
            (Some(at), _) => Some(at),
            (None, Some((key, _))) if self.is_down => Some(key.time),
            (None, Some((key, len))) => Some(nic.would_be_received(key.time, len)),
            (None, None) => None,
        };
    }

    /// Processes the time of [`Arrivals::next`]: returns the packet received, with its time, unless it was
    /// dropped.
    #[inline]
    pub(crate) fn take_received(&mut self, at: SimTime) -> Option<(SimTime, Packet)> {
        if self.eth0.nic.next_received().is_none()
            && let Some((key, _)) = self.arrivals.first
            && let Some(packet) = self.arrivals.pop()
        {
            self.arrive(key.time, packet);
        }
        self.take_arrivals(at);
        let received = self.eth0.nic.received(at);
        self.plan_arrivals();
        received
    }

    /// Processes a packet received from the graph.
    #[inline]
    pub(crate) fn graph_input(&mut self, at: SimTime, mut packet: Packet) {
        // Prefetches the next packet's bytes, no longer cached since it was sent, during the processing of
        // this one.
        if let Some(next) = self.eth0.nic.coming().or_else(|| self.arrivals.inbox.following()) {
            (self.prefetch)(next.open_bytes());
        }
        self.seen(at, GRAPH, &mut packet, PacketDirection::In);
        self.arrived_as_one = true;
        let end = self.ip_input(GRAPH, packet);
        self.account.receive(end);
        self.flush_network();
    }

    /// Passes the packets that reach the router before `limit` to the interface.
    pub fn take_arrivals(&mut self, limit: SimTime) {
        while let Some((at, packet)) = self.arrivals.pop_before(limit) {
            self.arrive(at, packet);
        }
    }

    fn arrive(&mut self, at: SimTime, packet: Packet) {
        match self.is_down {
            true => self.eth0.nic.count_drop(DropReason::HostDown),
            false => self.eth0.nic.receive(at, packet),
        }
    }
}
