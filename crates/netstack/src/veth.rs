//! Pairs of virtual Ethernet interfaces, veth(4), within one network namespace or between two of the same
//! owner.
//!
//! A frame is received at the instant of its transmission, but never within the sending call. Each end
//! identifies its peer by the numbers of the namespace and the interface. Notifications for a peer in another
//! namespace are effects for the owner ([`PeerNews`]).

use crate::interface::{Attachment, Interface};
use crate::{PacketDirection, Stack, StackTimer, TimerId};
use belljar_net::Packet;

/// A notification for an interface of another network namespace of the same owner.
#[derive(Debug)]
pub enum PeerNews {
    /// A frame for the interface.
    Frame(Packet),
    /// The peer is up (true) or down (false), which sets the carrier.
    Carrier(bool),
    /// The peer was deleted; the interface is deleted with it.
    Gone,
    /// An interface of this number and state moves to the namespace.
    Moved(usize, Box<Interface>),
}

impl Stack {
    /// Joins two interfaces of this namespace to a pair.
    pub fn join_ends(&mut self, one: usize, other: usize) {
        let network = self.number;
        self.has_pairs = true;
        self.interfaces[one].attachment = Attachment::Veth { network, peer: other };
        self.interfaces[other].attachment = Attachment::Veth { network, peer: one };
        for (end, far) in [(one, other), (other, one)] {
            self.interfaces[end].carrier = self.interfaces[far].up;
        }
    }
    /// Sends a frame to the peer. Returns false if the interface has no carrier.
    #[inline(never)]
    pub(crate) fn veth_output(
        &mut self,
        interface: usize,
        (network, peer): (u32, usize),
        mut frame: Packet,
    ) -> bool {
        if !self.interfaces[interface].carrier {
            return false;
        }
        self.clock.work_on_packet(frame.len());
        self.seen(self.clock.now(), interface, &mut frame, PacketDirection::Out);
        self.interfaces.count_virtual(interface, frame.len(), PacketDirection::Out);
        let (cookie, len, checksum, mark) = (frame.cookie(), frame.len(), frame.checksum(), frame.mark());
        if cookie != 0 {
            self.take_over(cookie, len);
        }
        let frame = Packet::new(frame.into_bytes()).with_checksum(checksum);
        if network == self.number {
            let timer = self.timers.name(self.clock.now());
            self.cross(peer, frame.with_mark(mark), timer);
        } else {
            self.effects.tell_peer(network, peer, PeerNews::Frame(frame));
        }
        true
    }
    /// Queues a frame for reception by an interface at the time of `timer`.
    pub fn cross(&mut self, interface: usize, frame: Packet, timer: TimerId) {
        if self.crossing.is_empty() {
            self.timers.insert(timer, StackTimer::Crossing);
        }
        self.crossing.push_back((interface, frame));
    }
    /// Receives the queued frames; answers are received at the next call.
    #[inline(never)]
    pub(crate) fn receive_crossed(&mut self) {
        let all = std::mem::take(&mut self.crossing);
        for (interface, frame) in all {
            self.charge_for_inner_packet();
            let there = &self.interfaces[interface];
            if there.up && matches!(there.attachment, Attachment::Veth { .. }) {
                self.clock.work_on_packet(frame.len());
                self.interfaces.count_virtual(interface, frame.len(), PacketDirection::In);
                self.frame_input(interface, frame);
            }
        }
        self.flush_network();
    }
}
