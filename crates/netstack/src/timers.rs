//! Timers of the stack.

use crate::SocketKey;

/// The action of one of the stack's timers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StackTimer {
    /// A socket's protocol asked to be called again.
    Socket(SocketKey),
    /// An interface has something to do.
    Interface(usize),
    /// The name server has something to do.
    Resolver,
    /// A neighbour must be asked again, or given up.
    Neighbours,
    /// Fragments have waited for others long enough.
    Reassembly,
    /// A report of multicast groups is due.
    Igmp,
    /// IPv6 has something to do.
    Ipv6,
    /// The lifetime of an address has changed its stage.
    Addresses,
    /// Frames have crossed to the other end of a pair of interfaces.
    Crossing,
    /// Bandwidths are limited from now on.
    BootstrapEnd,
}
