//! A host's network stack: interfaces, IP, UDP, TCP and the sockets over them.

mod events;
pub mod message;
pub mod netlink;
pub mod operations;
pub mod ping;
pub mod socket;
pub mod tcp;
pub mod udp;
pub mod unix;

use crate::host::HostConfig;
use crate::wait::WaitTable;
use slab::Slab;
use socket::Socket;

/// Everything that a host keeps of its network.
pub struct NetStack {
    /// All sockets, those without an open file included.
    pub(crate) sockets: Slab<Socket>,
    /// Counts sockets, see [`Socket::serial`].
    pub(crate) next_serial: u32,
}

impl NetStack {
    /// The stack of a host with `lo` and `eth0` up.
    pub fn new(_config: &HostConfig, _waits: &mut WaitTable) -> NetStack {
        NetStack { sockets: Slab::new(), next_serial: 0 }
    }
}
