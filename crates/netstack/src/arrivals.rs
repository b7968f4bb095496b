//! Packets in transit from the graph to `eth0`, until the arrival of their last bit.
//!
//! Reception by the last router, which precedes reception by the host, is not an event of its own, since its
//! outcome depends on its time alone. It is processed when the previous packet has been received, or else
//! when the packet itself has. The methods take the card of `eth0`, and true if the host is down.

use belljar_base::{EventKey, Footprint, Inbox, SimTime};
use belljar_net::{DropReason, Nic, Packet};

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

impl Arrivals {
    /// Queues a packet that reaches the last router before `eth0` at the future time `key.time`.
    pub fn push(&mut self, key: EventKey, packet: Packet, nic: &mut Nic, is_down: bool) {
        let is_first = self.first.is_none_or(|(first, _)| key < first);
        if is_first {
            self.first = Some((key, packet.len()));
        }
        self.inbox.push(key, packet);
        if is_first {
            self.plan(nic, is_down);
        }
    }

    /// Recomputes the time of the next reception. The caller invokes it after every change that affects it.
    pub fn plan(&mut self, nic: &mut Nic, is_down: bool) {
        self.next = match (nic.next_received(), self.first) {
            (Some(at), _) => Some(at),
            (None, Some((key, _))) if is_down => Some(key.time),
            (None, Some((key, len))) => Some(nic.would_be_received(key.time, len)),
            (None, None) => None,
        };
    }

    /// Processes the time of [`Arrivals::next`]: returns the packet received, with its time, unless it was
    /// dropped.
    #[inline]
    pub(crate) fn take_received(
        &mut self,
        at: SimTime,
        nic: &mut Nic,
        is_down: bool,
    ) -> Option<(SimTime, Packet)> {
        if nic.next_received().is_none()
            && let Some((key, _)) = self.first
            && let Some(packet) = self.pop()
        {
            arrive(key.time, packet, nic, is_down);
        }
        self.pass_before(at, nic, is_down);
        let received = nic.received(at);
        self.plan(nic, is_down);
        received
    }

    /// The packet due at the router after the first one.
    #[inline]
    pub(crate) fn following(&self) -> Option<&Packet> {
        self.inbox.following()
    }

    /// Passes the packets that reach the router before `limit` to the interface.
    pub fn pass_before(&mut self, limit: SimTime, nic: &mut Nic, is_down: bool) {
        while let Some((at, packet)) = self.pop_before(limit) {
            arrive(at, packet, nic, is_down);
        }
    }
}

/// Passes a packet from the router to the interface, which drops it if the host is down.
fn arrive(at: SimTime, packet: Packet, nic: &mut Nic, is_down: bool) {
    match is_down {
        true => nic.count_drop(DropReason::HostDown),
        false => nic.receive(at, packet),
    }
}
