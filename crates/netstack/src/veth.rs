//! Pairs of virtual Ethernet interfaces, veth(4), within one network namespace or between two of the same
//! owner.
//!
//! A frame is received at the instant of its transmission, but never within the sending call. Each end
//! identifies its peer by the numbers of the namespace and the interface. Notifications for a peer in another
//! namespace are effects for the owner ([`PeerNews`]).

use crate::account::{DropCause, PacketDisposition};
pub use crate::effects::PeerNews;
use crate::interface::{Attachment, DeviceKind};
use crate::interfaces::Interfaces;
use crate::stamping;
use crate::timestamps::is_stamped;
use crate::{PacketDirection, Stack, StackTimer, TimerId};
use belljar_net::Packet;

impl Stack {
    /// Sends a frame to the peer.
    #[inline(never)]
    pub(crate) fn veth_output(
        &mut self,
        interface: usize,
        (network, peer): (u32, usize),
        mut frame: Packet,
    ) -> PacketDisposition {
        if !self.interfaces[interface].carrier {
            return PacketDisposition::dropped(DropCause::NoCarrier);
        }
        self.clock.work_on_packet(frame.len());
        self.seen(self.clock.now(), interface, &mut frame, PacketDirection::Out);
        self.interfaces.count_virtual(interface, frame.len(), PacketDirection::Out);
        let (cookie, len, checksum, mark) = (frame.cookie(), frame.len(), frame.checksum(), frame.mark());
        if is_stamped(cookie) {
            stamping::sent(self, self.clock.now(), interface, &frame);
        }
        if cookie != 0 {
            // The sender must not be notified within its own call.
            self.taken_over.push_back((cookie, len));
        }
        let frame = Packet::new(frame.into_bytes()).with_checksum(checksum);
        if network == self.number {
            let timer = self.timers.name(self.clock.now());
            self.cross(peer, frame.with_mark(mark), timer);
            PacketDisposition::HELD
        } else {
            self.effects.tell_peer(network, peer, PeerNews::Frame(frame));
            self.account.to_peers += 1;
            PacketDisposition::SENT
        }
    }
    /// Receives a frame from the stack of another network namespace for an interface, at the time of `timer`.
    pub fn receive_from_peer(&mut self, interface: usize, frame: Packet, timer: TimerId) {
        self.account.receive_from_peer(PacketDisposition::HELD);
        self.cross(interface, frame, timer);
    }
    /// Queues a frame for reception by an interface at the time of `timer`.
    fn cross(&mut self, interface: usize, frame: Packet, timer: TimerId) {
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
            if self.lo.exceeds_free_packets(self.clock.now()) {
                self.clock.charge();
            }
            let there = &self.interfaces[interface];
            let counts = matches!(
                there.attachment,
                Attachment::Veth { .. } | Attachment::Made(DeviceKind::Macvlan | DeviceKind::Ipvlan)
            );
            // Frames from ipvlans to their lower interface are not counted there.
            let end = if there.up && there.exists() {
                self.clock.work_on_packet(frame.len());
                if counts {
                    self.interfaces.count_virtual(interface, frame.len(), PacketDirection::In);
                }
                self.frame_input(interface, frame)
            } else {
                PacketDisposition::dropped(DropCause::InterfaceDown)
            };
            self.account.release(end);
        }
        self.flush_network();
    }
}

/// Queues a frame for reception by an interface of this stack at this time.
pub(crate) fn cross_now(stack: &mut Stack, interface: usize, frame: Packet) {
    let timer = stack.timers.name(stack.clock.now());
    stack.cross(interface, frame, timer);
}

impl Interfaces {
    /// Joins two interfaces of the network namespace `network` to a pair.
    pub fn join_ends(&mut self, network: u32, one: usize, other: usize) {
        self.has_pairs = true;
        self[one].attachment = Attachment::Veth { network, peer: other };
        self[other].attachment = Attachment::Veth { network, peer: one };
        for (end, far) in [(one, other), (other, one)] {
            let up = self[far].up;
            self[end].set_carrier(up);
        }
    }
}
