//! Keys of sockets and numbers of interfaces.

/// The key of a socket. Keys of freed sockets are reused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SocketKey(pub usize);

/// The number of the interface `lo`.
pub const LO: usize = 0;
/// The number of the interface `eth0` on a host that is attached to the graph.
pub const ETH0: usize = 1;
/// The interface index visible to guests.
pub fn interface_index(interface: usize) -> u32 {
    interface as u32 + 1
}
