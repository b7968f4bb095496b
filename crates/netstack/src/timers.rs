//! Timers of the stack.

use crate::SocketKey;

/// The action of one of the stack's timers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StackTimer {
    /// The protocol of a socket.
    Socket(SocketKey),
    /// The queue of an interface.
    Interface(usize),
    /// The TCP connections of the name server.
    Resolver,
    /// The IPv4 neighbour cache: a retransmission or failure is due.
    Neighbours,
    /// Reassembly: an incomplete datagram expires.
    Reassembly,
    /// IGMP: a membership report is due.
    Igmp,
    /// IPv6: any of its timers is due.
    Ipv6,
    /// The lifetime of an address expires.
    Addresses,
    /// Frames have arrived at a veth interface.
    Crossing,
    /// A tracked connection ends.
    Conntrack,
    /// A discipline of traffic control has a packet, or a redirected packet is received.
    Traffic,
    /// A timer of a bridge, or of another device made inside the host, is due.
    Devices,
    /// The bootstrap phase ends.
    BootstrapEnd,
}
