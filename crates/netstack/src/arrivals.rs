//! Packets that come in over the graph, until the last bit of each is in.
//!
//! The router's reception of a packet, which precedes the host's, is no event of its own: its outcome follows from its
//! time alone. It is processed when the packet before has been received, or else when the packet itself has.

use super::interface::GRAPH;
use crate::PacketDirection;
use crate::Stack;
use belljar_base::{EventKey, Footprint, Inbox, SimTime};
use belljar_net::{DropReason, Packet};

/// The packets that are on their way to `eth0`.
#[derive(Debug, Default)]
pub struct Arrivals {
    inbox: Inbox<Packet>,
    /// The key and length of the first packet to reach the router.
    first: Option<(EventKey, usize)>,
    /// When the next one is in, or is lost because the host is down.
    next: Option<SimTime>,
}

impl Arrivals {
    /// When something comes of them.
    #[inline]
    pub fn next(&self) -> Option<SimTime> {
        self.next
    }

    /// Tells where they are.
    pub fn footprint(&self, footprint: &mut Footprint) {
        self.inbox.footprint(footprint);
    }

    /// The first of them, if it reaches the router before `limit`, with the time at which it does.
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
    /// A packet reaches the last router before `eth0` at `key.time`, which lies ahead.
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

    /// Works out when the next packet is in: to be called whenever that may have changed.
    pub fn plan_arrivals(&mut self) {
        let nic = &mut self.eth0.nic;
        self.arrivals.next = match (nic.next_received(), self.arrivals.first) {
            (Some(at), _) => Some(at),
            (None, Some((key, _))) if self.is_down => Some(key.time),
            (None, Some((key, len))) => Some(nic.would_be_received(key.time, len)),
            (None, None) => None,
        };
    }

    /// The time has come that [`Arrivals::next`] says: the packet that is in now, if it was not lost, with its time.
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

    /// Takes in a packet that came over the graph.
    #[inline]
    pub(crate) fn graph_input(&mut self, at: SimTime, mut packet: Packet) {
        // The next one's bytes have gone cold since they were sent: they come while this one is dealt with.
        if let Some(next) = self.eth0.nic.coming().or_else(|| self.arrivals.inbox.following()) {
            (self.prefetch)(next.open_bytes());
        }
        self.seen(at, GRAPH, &mut packet, PacketDirection::In);
        self.arrived_as_one = true;
        self.ip_input(GRAPH, packet);
        self.flush_network();
    }

    /// Hands what reaches the router before `limit` to the interface.
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
