//! Effects: requests of the stack to its owner, in the order in which they arose.

use super::Stack;
use super::veth::PeerNews;
use crate::SocketKey;
use belljar_base::{Footprint, SimTime};
use belljar_net::Packet;
use belljar_net::neighbour::Neighbour;
use std::net::{IpAddr, Ipv6Addr};

/// Something that follows from what the stack has done and that only its owner can do.
#[derive(Debug)]
pub enum Effect {
    /// A socket has changed in a way that brings these `EPOLL*` bits.
    Ready(SocketKey, u32),
    /// A program's end of an interface has changed in a way that brings these bits.
    ProgramReady(usize, u32),
    /// Urgent data has come for a socket: its owner (`F_SETOWN`) is told.
    Urgent(SocketKey),
    /// A frame has passed an interface while somebody looks on.
    Passed(Box<Passed>),
    /// A neighbour's entry has changed (true) or is forgotten (false).
    Neighbour(Box<Neighbour>, bool),
    /// The same of an IPv6 neighbour.
    Neighbour6(Box<Neighbour<Ipv6Addr>>, bool),
    /// An address of an interface is no longer valid: it is to be taken away.
    AddressExpired(usize, IpAddr),
    /// An address of an interface is no longer preferred.
    AddressDeprecated(usize, IpAddr),
    /// Something concerns an interface of another network, by the numbers of both.
    Peer(u32, usize, Box<PeerNews>),
    /// An effect of the stack of another network, by its number, whose turn is over.
    Further(u32, Box<Effect>),
    /// Something fell short, or is worth telling.
    Note(Box<str>),
    /// A socket is no more; its key may be given to another one.
    Closed(SocketKey),
}

/// Direction of a frame at an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PacketDirection {
    /// It has been received.
    In,
    /// It is being sent.
    Out,
}

/// A frame, or on interfaces without frames a packet, as it passes.
#[derive(Debug)]
pub struct Passed {
    /// When.
    pub at: SimTime,
    /// By which interface.
    pub interface: usize,
    /// Its direction: in or out.
    pub direction: PacketDirection,
    /// Its bytes, with their checksum.
    pub bytes: Vec<u8>,
}

/// What the owner of a stack is to do, in the order in which it arose.
#[derive(Debug, Default)]
pub struct Effects(Vec<Effect>);

impl Effects {
    /// Adds one.
    #[inline]
    pub(crate) fn push(&mut self, effect: Effect) {
        self.0.push(effect);
    }
    /// Reports `EPOLL*` bits that have come up at a socket to those who wait for it.
    #[inline]
    pub fn notify_socket(&mut self, key: SocketKey, events: u32) {
        self.0.push(Effect::Ready(key, events));
    }
    /// Reports something that fell short.
    pub fn note(&mut self, what: impl Into<Box<str>>) {
        self.0.push(Effect::Note(what.into()));
    }
    /// Reports an IPv4 neighbour that has changed, or is forgotten.
    pub fn neighbour_changed(&mut self, neighbour: Neighbour, there: bool) {
        self.0.push(Effect::Neighbour(Box::new(neighbour), there));
    }
    /// Reports an IPv6 neighbour that has changed, or is forgotten.
    pub fn neighbour_changed6(&mut self, neighbour: Neighbour<Ipv6Addr>, there: bool) {
        self.0.push(Effect::Neighbour6(Box::new(neighbour), there));
    }
    /// Reports something that concerns an interface of another network.
    pub fn tell_peer(&mut self, network: u32, interface: usize, news: PeerNews) {
        self.0.push(Effect::Peer(network, interface, Box::new(news)));
    }
    /// Lists the memory that reporting touches.
    pub(crate) fn footprint(&self, footprint: &mut Footprint) {
        footprint.object(self);
        footprint.start(self.0.as_ptr(), 1);
    }
}

impl Effects {
    /// Takes over the effects of the stack of another network.
    pub(crate) fn take_over(&mut self, network: u32, others: &mut Effects) {
        self.0.extend(others.0.drain(..).map(|effect| Effect::Further(network, Box::new(effect))));
    }
}

impl Stack {
    /// True if there is anything for its owner to do.
    #[inline]
    pub fn has_effects(&self) -> bool {
        !self.effects.0.is_empty()
    }
    /// Puts what its owner is to do into `out`, which is empty, in order.
    pub fn take_effects(&mut self, out: &mut Vec<Effect>) {
        std::mem::swap(&mut self.effects.0, out);
    }
    /// Shows what passes an interface to whoever looks on: a frame on links, a packet elsewhere.
    pub fn tap(&mut self, at: SimTime, interface: usize, packet: &mut Packet, direction: PacketDirection) {
        if self.watchers == 0 {
            return;
        }
        packet.fill_checksum();
        let bytes = packet.bytes().to_vec();
        self.effects.push(Effect::Passed(Box::new(Passed { at, interface, direction, bytes })));
    }
}
