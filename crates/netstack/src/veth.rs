//! Pairs of interfaces, veth(4): what one sends the other receives, in this network or in another of the same owner.
//!
//! A frame is received in the same instant, but never within the call that sends. Each end knows the other by the numbers of its network and its
//! interface; what concerns the other end in another network is an effect for the owner ([`PeerNews`]).

use crate::interface::{Attachment, Interface};
use crate::{PacketDirection, Stack, StackTimer, TimerId};
use belljar_net::Packet;

/// Something that concerns an interface of another network of the same owner.
#[derive(Debug)]
pub enum PeerNews {
    /// It receives a frame.
    Frame(Packet),
    /// Its other end is up, or is not.
    Carrier(bool),
    /// Its other end is no more, and it goes too.
    Gone,
    /// An interface of this number, in this state, is to be one of that network.
    Moved(usize, Box<Interface>),
}

impl Stack {
    /// Joins two interfaces of this network.
    pub fn join_ends(&mut self, one: usize, other: usize) {
        let network = self.number;
        self.has_pairs = true;
        self.interfaces[one].attachment = Attachment::Veth { network, peer: other };
        self.interfaces[other].attachment = Attachment::Veth { network, peer: one };
        for (end, far) in [(one, other), (other, one)] {
            self.interfaces[end].carrier = self.interfaces[far].up;
        }
    }
    /// Sends a frame to the other end.
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
    /// An interface will receive a frame, at the time of this timer.
    pub fn cross(&mut self, interface: usize, frame: Packet, timer: TimerId) {
        if self.crossing.is_empty() {
            self.timers.insert(timer, StackTimer::Crossing);
        }
        self.crossing.push_back((interface, frame));
    }
    /// Receives what has crossed; answers are received next time.
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
