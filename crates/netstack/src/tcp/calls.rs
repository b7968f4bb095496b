//! Further calls on TCP sockets: creation, names, readiness, queries and close.

use super::{Role, TcpOptions, TcpSocket};
use crate::SocketKey;
use crate::Stack;
use crate::address;
use crate::address::RawAddress;
use crate::readiness::{EPOLLERR, EPOLLHUP, EPOLLRDHUP, READABLE, WRITABLE};
use crate::socket::SocketKind;
use crate::timestamps::error_bits;
use belljar_linux_abi::{Errno, c};
use belljar_tcp::State;
use std::net::SocketAddr;

/// Creates a TCP socket.
pub fn create(net: &mut Stack, domain: i32) -> Result<SocketKey, Errno> {
    let settings = &net.sysctls.tcp;
    // The initial values of `SO_RCVBUF` and `SO_SNDBUF`.
    let buffers = (settings.rmem[1], settings.wmem[1]);
    let socket = TcpSocket { options: TcpOptions::new(settings), ..TcpSocket::default() };
    let key = net.add_socket(domain, c::SOCK_STREAM, c::IPPROTO_TCP, SocketKind::Tcp(Box::new(socket)));
    let options = &mut net.socket(key).options;
    (options.receive_buffer, options.send_buffer) = buffers;
    Ok(key)
}

/// The address returned by `getsockname`.
pub fn local_name(net: &mut Stack, key: SocketKey) -> Result<RawAddress, Errno> {
    let socket = net.socket(key);
    let (domain, device) = (socket.domain, socket.options.bound_device);
    let tcp = net.sockets.tcp(key);
    let bound = tcp.bound.map(|bound| bound.shown(domain));
    let renamed = bound.filter(|_| tcp.is_renamed);
    let connected = tcp.connection().map(|connection| connection.local());
    let local = renamed.or(connected).or(bound).or(tcp.former_name);
    Ok(address::emit_on(domain, local.unwrap_or(SocketAddr::new(address::unspecified(domain), 0)), device))
}

/// The address returned by `getpeername`. Fails with `ENOTCONN` if there is no peer.
pub fn peer_name(net: &mut Stack, key: SocketKey) -> Result<RawAddress, Errno> {
    let socket = net.socket(key);
    let (domain, device) = (socket.domain, socket.options.bound_device);
    let connection = net.sockets.tcp(key).connection().ok_or(Errno::ENOTCONN)?;
    match connection.state() {
        State::Closed | State::SynSent => Err(Errno::ENOTCONN),
        _ => Ok(address::emit_on(domain, connection.remote(), device)),
    }
}

impl Stack {
    /// True if a closed socket still has a connection between these endpoints with unacknowledged data or
    /// FIN.
    pub fn tcp_lingers(&self, key: SocketKey, ends: (SocketAddr, SocketAddr)) -> bool {
        let Some(SocketKind::Tcp(tcp)) = self.sockets.get(key.0).map(|socket| &socket.kind) else {
            return false;
        };
        let Role::Connection(connection) = &tcp.role else { return false };
        tcp.orphan
            && (connection.local(), connection.remote()) == ends
            && matches!(connection.state(), State::FinWait1 | State::Closing | State::LastAck)
    }

    /// The peer of a socket just accepted; `None` if its connection has been reset.
    pub fn tcp_accepted_name(&mut self, key: SocketKey) -> Option<RawAddress> {
        let socket = self.socket(key);
        let (domain, device) = (socket.domain, socket.options.bound_device);
        self.sockets
            .tcp(key)
            .connection()
            .map(|connection| address::emit_on(domain, connection.remote(), device))
    }
}

/// The `EPOLL*` bits currently set: `tcp_poll` of Linux.
pub fn readiness(net: &Stack, key: SocketKey) -> u32 {
    let socket = &net.sockets[key.0];
    let SocketKind::Tcp(tcp) = &socket.kind else { return 0 };
    let shut = match tcp.shut {
        (true, true) => READABLE | EPOLLRDHUP | EPOLLHUP | WRITABLE,
        (true, false) => READABLE | EPOLLRDHUP,
        (false, true) => WRITABLE,
        (false, false) => 0,
    };
    let told = if tcp.errors.is_empty() { 0 } else { error_bits(&socket.options) };
    told | match &tcp.role {
        // A socket that was never connected is in state CLOSE, which polls as hung up and writable.
        Role::Idle => WRITABLE | EPOLLHUP | shut | if socket.error.is_some() { EPOLLERR } else { 0 },
        Role::Listening(listener) => {
            if listener.is_ready() {
                READABLE
            } else {
                0
            }
        }
        Role::Connection(_) => tcp.ready | shut,
    }
}

/// `FIONREAD`: number of bytes ready to be read.
pub fn readable_bytes(net: &mut Stack, key: SocketKey) -> Result<usize, Errno> {
    match &net.sockets.tcp(key).role {
        Role::Listening(_) => Err(Errno::EINVAL),
        Role::Idle => Ok(0),
        Role::Connection(connection) => Ok(connection.readable_bytes()),
    }
}

/// `SIOCOUTQ`: number of unacknowledged bytes.
pub fn unsent_bytes(net: &mut Stack, key: SocketKey) -> Result<usize, Errno> {
    match &net.sockets.tcp(key).role {
        Role::Listening(_) => Err(Errno::EINVAL),
        Role::Idle => Ok(0),
        Role::Connection(connection) => Ok(connection.unacknowledged_bytes()),
    }
}

/// `SIOCOUTQNSD`: number of unsent bytes. Fails with `ENOTTY` for sockets other than TCP.
pub fn never_sent_bytes(net: &mut Stack, key: SocketKey) -> Result<usize, Errno> {
    if !matches!(net.socket(key).kind, SocketKind::Tcp(_)) {
        return Err(Errno::ENOTTY);
    }
    match &net.sockets.tcp(key).role {
        Role::Listening(_) => Err(Errno::EINVAL),
        Role::Idle => Ok(0),
        Role::Connection(connection) => Ok(connection.unsent_bytes()),
    }
}

/// `SIOCATMARK`: true if the next byte to be read is at the urgent mark; false for other protocols.
pub fn is_at_mark(net: &mut Stack, key: SocketKey) -> bool {
    match &mut net.socket(key).kind {
        SocketKind::Tcp(tcp) => tcp.connection().is_some_and(|connection| connection.is_at_mark()),
        _ => false,
    }
}

/// Closes a socket. Its connection continues as an orphan until it is finished. The wait of `SO_LINGER` is
/// left to `close(2)`.
pub fn close(net: &mut Stack, key: SocketKey) {
    let now = net.clock.local();
    let linger = net.socket(key).options.linger;
    let abort = linger.is_some_and(|time| time.is_zero());
    net.tcp_stop_listening(key);
    let tcp = net.sockets.tcp(key);
    tcp.orphan = true;
    match tcp.connection() {
        None => net.tcp_remove(key),
        Some(connection) => {
            if abort {
                connection.abort(now);
            } else {
                connection.close(now);
                let ends = (connection.local(), connection.remote());
                net.lingering = linger.map(|time| (key, ends, time));
            }
            net.tcp_pump(key);
        }
    }
    net.flush_network();
}
