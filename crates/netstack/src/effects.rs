//! Effects: requests of the stack to its owner, in the order in which they arose.

use crate::SocketKey;
use crate::devices::state::DeviceNews;
use crate::interface::Interface;
use crate::lifetimes::OwnAddress;
use crate::timestamps::SentStamp;
use belljar_base::{Footprint, SimTime};
use belljar_net::Packet;
use belljar_net::neighbour::Neighbour;
use std::net::Ipv6Addr;

/// A consequence of the stack's processing that its owner must carry out.
#[derive(Debug)]
pub enum Effect {
    /// `EPOLL*` bits have become set at a socket.
    Ready(SocketKey, u32),
    /// `EPOLL*` bits have become set at the program's end of an interface (TUN, TAP).
    ProgramReady(usize, u32),
    /// Urgent data has arrived at a socket: its owner (`F_SETOWN`) is signalled.
    Urgent(SocketKey),
    /// A frame has passed a tapped interface.
    Passed(Box<Passed>),
    /// A timestamp of a sent packet, for the socket of this cookie in another stack of the owner.
    Stamped(u64, Box<SentStamp>),
    /// The entry of an IPv4 neighbour was changed (true) or deleted (false).
    Neighbour(Box<Neighbour>, bool),
    /// The entry of an IPv6 neighbour was changed (true) or deleted (false).
    Neighbour6(Box<Neighbour<Ipv6Addr>>, bool),
    /// The valid lifetime of an interface address has expired: the address is removed.
    AddressExpired(usize, OwnAddress),
    /// The preferred lifetime of an interface address has expired.
    AddressDeprecated(usize, OwnAddress),
    /// A notification for an interface of another network namespace, by the numbers of both.
    Peer(u32, usize, Box<PeerNews>),
    /// An effect of the stack of another network namespace, by its number, whose turn is over.
    Further(u32, Box<Effect>),
    /// A device made inside the host has changed.
    Device(Box<DeviceNews>),
    /// A message for the log, such as a limitation that was met.
    Note(Box<str>),
    /// A line for the kernel's log, with its level.
    KernelLog(u8, Box<str>),
    /// A message for a multicast group of `NETLINK_NETFILTER`.
    Netfilter(u32, Vec<u8>),
    /// A socket was freed; its key may be reused.
    Closed(SocketKey),
}

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

/// Direction of a frame at an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PacketDirection {
    /// Received.
    In,
    /// Transmitted.
    Out,
}

/// A frame that passes an interface, or a packet on interfaces without link headers.
#[derive(Debug)]
pub struct Passed {
    /// Time of passage.
    pub at: SimTime,
    /// Number of the interface.
    pub interface: usize,
    /// Direction: in or out.
    pub direction: PacketDirection,
    /// The bytes, with checksums filled in.
    pub bytes: Vec<u8>,
    /// Timestamp of a received frame by the adapter's clock, or 0.
    pub hardware: i64,
}

/// The pending effects, in the order in which they arose.
#[derive(Debug, Default)]
pub struct Effects(Vec<Effect>);

impl Effects {
    /// Appends an effect.
    #[inline]
    pub(crate) fn push(&mut self, effect: Effect) {
        self.0.push(effect);
    }
    /// Reports newly set `EPOLL*` bits of a socket to its waiters.
    #[inline]
    pub fn notify_socket(&mut self, key: SocketKey, events: u32) {
        self.0.push(Effect::Ready(key, events));
    }
    /// Reports a message for the log.
    pub fn note(&mut self, what: impl Into<Box<str>>) {
        self.0.push(Effect::Note(what.into()));
    }
    /// Reports that the entry of an IPv4 neighbour was changed (`there`) or deleted.
    pub fn neighbour_changed(&mut self, neighbour: Neighbour, there: bool) {
        self.0.push(Effect::Neighbour(Box::new(neighbour), there));
    }
    /// Reports that the entry of an IPv6 neighbour was changed (`there`) or deleted.
    pub fn neighbour_changed6(&mut self, neighbour: Neighbour<Ipv6Addr>, there: bool) {
        self.0.push(Effect::Neighbour6(Box::new(neighbour), there));
    }
    /// Sends a notification to an interface of another network namespace.
    pub fn tell_peer(&mut self, network: u32, interface: usize, news: PeerNews) {
        self.0.push(Effect::Peer(network, interface, Box::new(news)));
    }
    /// Reports a frame of a link, or a packet of another interface, to packet sockets.
    pub(crate) fn report_frame(
        &mut self,
        at: SimTime,
        interface: usize,
        packet: &mut Packet,
        direction: PacketDirection,
        hardware: i64,
    ) {
        packet.fill_checksum();
        let bytes = packet.bytes().to_vec();
        self.push(Effect::Passed(Box::new(Passed { at, interface, direction, bytes, hardware })));
    }
    /// True if no effects are pending.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
    /// Moves the pending effects, in order, into `out`, which must be empty.
    pub fn take(&mut self, out: &mut Vec<Effect>) {
        std::mem::swap(&mut self.0, out);
    }
    /// Lists the memory that reporting touches.
    pub(crate) fn footprint(&self, footprint: &mut Footprint) {
        footprint.object(self);
        footprint.start(self.0.as_ptr(), 1);
    }
}

impl Effects {
    /// Moves the effects of the stack of another network namespace to the end of these.
    pub(crate) fn take_over(&mut self, network: u32, others: &mut Effects) {
        self.0.extend(others.0.drain(..).map(|effect| Effect::Further(network, Box::new(effect))));
    }
}
