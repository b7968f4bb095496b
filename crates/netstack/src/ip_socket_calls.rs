//! Calls on raw and ping sockets, and the delivery of messages and errors to them.

use crate::address::RawAddress;
use crate::error_queue::{QueuedError, is_hard};
use crate::ip::Inbound;
use crate::ip_socket::{IpMessage, IpSocket};
use crate::readiness::{EPOLLERR, EPOLLHUP, EPOLLIN, EPOLLRDHUP, EPOLLRDNORM, READABLE, WRITABLE};
use crate::send_charge::charge;
use crate::timestamps::error_bits;
use crate::{SocketKey, Stack, address};
use belljar_linux_abi::Errno;
use std::net::SocketAddr;

/// `getpeername(2)`: the peer has no port.
pub fn peer_name(net: &mut Stack, key: SocketKey) -> Result<RawAddress, Errno> {
    let domain = net.socket(key).domain;
    let peer = net.sockets.ip_socket(key).peer.ok_or(Errno::ENOTCONN)?;
    Ok(address::emit(domain, SocketAddr::new(peer, 0)))
}

/// The `EPOLL*` bits currently set: `datagram_poll` of Linux.
pub fn readiness(net: &Stack, key: SocketKey) -> u32 {
    let socket = &net.sockets[key.0];
    let Some(end) = IpSocket::of(socket) else { return 0 };
    let mut ready = if end.sending.is_writable(socket.options.send_buffer) { WRITABLE } else { 0 };
    if !end.queue.is_empty() {
        ready |= READABLE;
    }
    if end.read_closed {
        ready |= EPOLLIN | EPOLLRDNORM | EPOLLRDHUP;
    }
    if end.read_closed && end.write_closed {
        ready |= EPOLLHUP;
    }
    if socket.error.is_some() || !end.errors.is_empty() {
        ready |= error_bits(&socket.options);
    }
    ready
}

/// `FIONREAD`: the length of the next message.
pub fn readable_bytes(net: &mut Stack, key: SocketKey) -> Result<usize, Errno> {
    Ok(net.sockets.ip_socket(key).queue.front().map_or(0, |message| message.bytes.len()))
}

/// `SIOCOUTQ`: charge of the packets in the queues of interfaces, in bytes.
pub fn unsent_bytes(net: &mut Stack, key: SocketKey) -> Result<usize, Errno> {
    Ok(net.sockets.ip_socket(key).sending.bytes as usize)
}

impl Stack {
    /// Queues `bytes` of a packet on a socket. Returns false if its receive buffer is full.
    pub fn ip_socket_enqueue(&mut self, key: SocketKey, bytes: Vec<u8>, inbound: &Inbound) -> bool {
        let arrived = self.clock.now();
        let own = self.interfaces.own_address(inbound.interface, inbound.header.dst);
        let room = self.socket(key).options.receive_buffer;
        let hardware = self.frame_stamp;
        let end = self.sockets.ip_socket(key);
        if end.queued_charge > room {
            return false;
        }
        end.queued_charge += charge(bytes.len());
        end.queue.push_back(IpMessage {
            bytes,
            source: inbound.header.src,
            destination: inbound.header.dst,
            own,
            interface: inbound.interface,
            ttl: inbound.header.ttl,
            tos: inbound.header.tos,
            arrived,
            hardware,
        });
        self.effects.notify_socket(key, READABLE);
        true
    }

    /// Reports an ICMP error to a socket with `IP_RECVERR`, or a hard error to a connected one.
    pub fn ip_socket_error(&mut self, key: SocketKey, error: QueuedError) {
        let errno = error.errno;
        let room = self.socket(key).options.receive_buffer;
        let end = self.sockets.ip_socket(key);
        if end.ip.receive_errors {
            end.push_error(error, room);
        } else if end.peer.is_none() || !is_hard(errno, error.icmp, error.destination.is_ipv4()) {
            return;
        }
        self.socket(key).error = Some(errno);
        self.effects.notify_socket(key, EPOLLERR);
    }
}
