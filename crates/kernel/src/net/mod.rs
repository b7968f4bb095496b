//! A host's network stack: interfaces, IP, UDP, TCP and the sockets over them.

mod events;

use crate::host::HostConfig;
use crate::wait::WaitTable;

/// Everything that a host keeps of its network.
pub struct NetStack {}

impl NetStack {
    /// The stack of a host with `lo` and `eth0` up.
    pub fn new(_config: &HostConfig, _waits: &mut WaitTable) -> NetStack {
        NetStack {}
    }
}
