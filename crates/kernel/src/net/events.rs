//! What reaches the stack from outside: packets and timers.

use crate::host::Host;
use crate::ids::SocketKey;
use belljar_net::Packet;

impl Host {
    /// A packet from the network reaches `eth0`.
    pub(crate) fn packet_arrived(&mut self, _packet: Packet) {}
    /// A socket's protocol asked to be called again.
    pub(crate) fn socket_timer(&mut self, _socket: SocketKey) {}
    /// An interface has something to do.
    pub(crate) fn interface_timer(&mut self, _interface: usize) {}
}
