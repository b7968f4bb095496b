//! State shared by raw and ping sockets, raw(7) and icmp(7): peer, receive queue with its charge, shutdown
//! state and errors.

use super::address;
use super::error_queue::{ErrorQueue, ErrorReport, QueuedError, is_hard};
use super::ip::{Inbound, IpOptions};
use super::send_charge::{SendCharge, charge};
use super::socket::{Socket, SocketKind};
use crate::SocketKey;
use crate::Stack;
use crate::address::RawAddress;
use crate::readiness::{EPOLLERR, EPOLLHUP, EPOLLIN, EPOLLRDHUP, EPOLLRDNORM, READABLE, WRITABLE};
use belljar_base::SimTime;
use belljar_linux_abi::Errno;
use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};

/// State of a raw or ping socket that is independent of its protocol.
#[derive(Debug, Default)]
pub struct IpSocket {
    /// The peer, if the socket is connected.
    pub peer: Option<IpAddr>,
    /// Socket options of the levels IPPROTO_IP and IPPROTO_IPV6.
    pub ip: IpOptions,
    /// The error queue (`MSG_ERRQUEUE`).
    errors: ErrorQueue,
    /// The receive queue.
    pub queue: VecDeque<IpMessage>,
    /// Charge of queued messages and errors against `SO_RCVBUF`, in bytes.
    pub queued_charge: u32,
    /// Packets in the queues of interfaces.
    pub sending: SendCharge,
    /// True after `shutdown(SHUT_RD)`.
    pub read_closed: bool,
    /// True after `shutdown(SHUT_WR)`.
    pub write_closed: bool,
}

/// A received message of a raw or ping socket.
#[derive(Debug)]
pub struct IpMessage {
    /// The part of the packet that the socket receives.
    pub bytes: Vec<u8>,
    /// Source address.
    pub source: IpAddr,
    /// Destination address.
    pub destination: IpAddr,
    /// The local address: for a multicast or broadcast destination the interface's own.
    pub own: IpAddr,
    /// The number of the input interface.
    pub interface: usize,
    /// TTL or hop limit.
    pub ttl: u8,
    /// Type of service or traffic class.
    pub tos: u8,
    /// Time of arrival.
    pub arrived: SimTime,
}

impl IpSocket {
    /// Charge of the receive queue against the receive buffer, in bytes.
    pub fn queued_bytes(&self) -> usize {
        self.queued_charge as usize
    }

    /// True if the program has shut down the sending direction.
    pub fn is_write_closed(&self) -> bool {
        self.write_closed
    }

    /// Queues an error; `room` is the size of the receive buffer.
    pub fn push_error(&mut self, error: QueuedError, room: u32) {
        self.errors.push(error, &mut self.queued_charge, room);
    }
    /// Removes the oldest error. Returns it with the errno of the next one.
    pub fn pop_error(&mut self) -> Option<(ErrorReport, Option<Errno>)> {
        self.errors.pop(&mut self.queued_charge)
    }

    /// The shared state of a raw or ping socket; `None` for other sockets.
    pub fn of(socket: &Socket) -> Option<&IpSocket> {
        match &socket.kind {
            SocketKind::Raw(raw) => Some(&raw.end),
            SocketKind::Ping(ping) => Some(&ping.end),
            _ => None,
        }
    }
}

/// `getpeername(2)`: the peer has no port.
pub fn peer_name(net: &mut Stack, key: SocketKey) -> Result<RawAddress, Errno> {
    let domain = net.socket(key).domain;
    let peer = net.ip_socket(key).peer.ok_or(Errno::ENOTCONN)?;
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
        ready |= EPOLLERR;
    }
    ready
}

/// `FIONREAD`: the length of the next message.
pub fn readable_bytes(net: &mut Stack, key: SocketKey) -> Result<usize, Errno> {
    Ok(net.ip_socket(key).queue.front().map_or(0, |message| message.bytes.len()))
}

/// `SIOCOUTQ`: charge of the packets in the queues of interfaces, in bytes.
pub fn unsent_bytes(net: &mut Stack, key: SocketKey) -> Result<usize, Errno> {
    Ok(net.ip_socket(key).sending.bytes as usize)
}

impl Stack {
    /// The shared state of a socket that is known to be a raw or ping socket.
    pub fn ip_socket(&mut self, key: SocketKey) -> &mut IpSocket {
        match &mut self.sockets[key.0].kind {
            SocketKind::Raw(raw) => &mut raw.end,
            SocketKind::Ping(ping) => &mut ping.end,
            other => unreachable!("a socket with ports: {other:?}"),
        }
    }

    /// Queues `bytes` of a packet on a socket. Returns false if its receive buffer is full.
    pub fn ip_socket_enqueue(&mut self, key: SocketKey, bytes: Vec<u8>, inbound: &Inbound) -> bool {
        let arrived = self.clock.now();
        let own = self.interfaces.own_address(inbound.interface, inbound.header.dst);
        let room = self.socket(key).options.receive_buffer;
        let end = self.ip_socket(key);
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
        });
        self.effects.notify_socket(key, READABLE);
        true
    }

    /// Reports an ICMP error to a socket with `IP_RECVERR`, or a hard error to a connected one.
    pub fn ip_socket_error(&mut self, key: SocketKey, error: QueuedError) {
        let errno = error.errno;
        let room = self.socket(key).options.receive_buffer;
        let end = self.ip_socket(key);
        if end.ip.receive_errors {
            end.push_error(error, room);
        } else if end.peer.is_none() || !is_hard(errno, error.icmp, error.destination.is_ipv4()) {
            return;
        }
        self.socket(key).error = Some(errno);
        self.effects.notify_socket(key, EPOLLERR);
    }
}
