//! State of a ping socket.

use crate::ip_socket::IpSocket;
use std::net::SocketAddr;

/// State of a ping socket.
#[derive(Debug, Default)]
pub struct PingSocket {
    /// The local address, with the echo identifier as port.
    pub local: Option<SocketAddr>,
    /// State shared with raw sockets: peer, options and receive queue.
    pub end: IpSocket,
}
