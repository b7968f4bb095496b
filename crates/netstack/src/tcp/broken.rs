//! Connections that the network breaks: by a reset from the middle of the path, or by silence.

use super::Role;
use crate::socket::SocketKind;
use crate::{SocketKey, Stack};
use std::net::SocketAddr;

/// End of a connection that its program has not caused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectionEnd {
    /// A valid reset arrives.
    Reset,
    /// Retransmissions run out.
    TimedOut,
}

/// Breaks the connections with the remote endpoints that `is_meant` accepts, listeners' embryonic ones included. Returns their
/// number. The caller then carries out the stack's effects.
pub fn break_connections(net: &mut Stack, is_meant: &dyn Fn(SocketAddr) -> bool, end: ConnectionEnd) -> u64 {
    let meant = |(key, socket): (usize, &crate::socket::Socket)| match &socket.kind {
        SocketKind::Tcp(tcp) => match &tcp.role {
            Role::Connection(connection) if is_meant(connection.remote()) => Some(SocketKey(key)),
            _ => None,
        },
        _ => None,
    };
    let keys: Vec<SocketKey> = net.own_sockets().filter_map(meant).collect();
    let mut count = 0;
    for key in keys {
        count += u64::from(break_connection(net, key, end));
    }
    net.flush_network();
    count
}

/// Breaks the connection of a TCP socket; false if it has none, or one that is closed already.
pub fn break_connection(net: &mut Stack, key: SocketKey, end: ConnectionEnd) -> bool {
    // A connection that was broken before may have removed the socket: that of a listener that is closed.
    let SocketKind::Tcp(tcp) = &mut net.sockets[key.0].kind else { return false };
    let Role::Connection(connection) = &mut tcp.role else { return false };
    let is_broken = match end {
        ConnectionEnd::Reset => connection.break_by_reset(),
        ConnectionEnd::TimedOut => connection.break_by_silence(),
    };
    if is_broken {
        net.tcp_pump(key);
    }
    is_broken
}
