//! What sockets of IP without ports have in common, raw(7) and icmp(7): a peer, a queue of messages, its charge, shut
//! ends, errors.

use super::error_queue::{self, ErrorQueue, QueuedError, Report, is_hard};
use super::ip::{Inbound, IpOptions};
use super::message::{Attempt, ControlMessage, Incoming, RawAddress, Received};
use super::socket::{Socket, SocketKind};
use super::udp::{charge, timestamp_message};
use super::{address, interface_index};
use crate::call::Call;
use crate::files::readiness::{EPOLLERR, EPOLLHUP, EPOLLIN, EPOLLRDHUP, EPOLLRDNORM, READABLE, WRITABLE};
use crate::ids::SocketKey;
use crate::net::Stack;
use belljar_base::SimTime;
use belljar_linux_abi::socket::{In6Pktinfo, InPktinfo};
use belljar_linux_abi::{Errno, c};
use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};
use zerocopy::IntoBytes;

/// What such a socket keeps besides what its protocol wants.
#[derive(Debug, Default)]
pub struct Portless {
    /// Its peer, if it is connected.
    pub peer: Option<IpAddr>,
    /// Options of the IP levels.
    pub ip: IpOptions,
    /// Errors that `MSG_ERRQUEUE` gives.
    errors: ErrorQueue,
    queue: VecDeque<Message>,
    /// What messages and errors are charged against `SO_RCVBUF`.
    queued_charge: u32,
    read_closed: bool,
    write_closed: bool,
}

/// A message that has been received.
#[derive(Debug)]
struct Message {
    bytes: Vec<u8>,
    source: IpAddr,
    destination: IpAddr,
    /// The host's address that stands for a destination of many.
    own: IpAddr,
    interface: usize,
    ttl: u8,
    tos: u8,
    arrived: SimTime,
}

impl Portless {
    /// What it has received is charged against its buffer, in bytes.
    pub fn queued_bytes(&self) -> usize {
        self.queued_charge as usize
    }

    /// Whether the program has shut the sending end.
    pub fn is_write_closed(&self) -> bool {
        self.write_closed
    }

    /// Adds to the queue of errors.
    pub(in crate::net) fn push_error(&mut self, error: QueuedError, room: u32) {
        self.errors.push(error, &mut self.queued_charge, room);
    }
    /// Takes the oldest error, and what the next one means.
    pub fn pop_error(&mut self) -> Option<(Report, Option<Errno>)> {
        self.errors.pop(&mut self.queued_charge)
    }

    /// That of a raw or a ping socket.
    pub fn of(socket: &Socket) -> Option<&Portless> {
        match &socket.kind {
            SocketKind::Raw(raw) => Some(&raw.end),
            SocketKind::Ping(ping) => Some(&ping.end),
            _ => None,
        }
    }
}

/// `recvmsg(2)`.
pub fn receive(
    call: &mut Call<'_>,
    key: SocketKey,
    room: &Incoming,
    _done: usize,
) -> Result<Attempt<Received>, Errno> {
    if room.flags & c::MSG_OOB != 0 {
        return Err(Errno::EOPNOTSUPP);
    }
    if room.flags & c::MSG_ERRQUEUE != 0 {
        return error_queue::receive(call, key, room);
    }
    let epoch = call.host.net.clock.realtime_ns() - call.now().as_nanos();
    let socket = call.host.net.socket(key);
    let (domain, queue, stamp) = (socket.domain, key.into(), socket.options.timestamp);
    socket.take_error()?;
    let end = call.host.net.portless(key);
    let Some(message) = end.queue.pop_front() else {
        // Without waiting, nothing finds out that it is shut.
        let ended = end.read_closed && room.flags & c::MSG_DONTWAIT == 0;
        return Ok(if ended { Attempt::Done(Received::default()) } else { Attempt::Wait(queue) });
    };
    let taken = message.bytes.len().min(room.len);
    let device = Some(interface_index(message.interface));
    let mut received = Received {
        value: if room.flags & c::MSG_TRUNC != 0 { message.bytes.len() } else { taken },
        flags: if taken < message.bytes.len() { c::MSG_TRUNC } else { 0 },
        name: address::emit_on(domain, SocketAddr::new(message.source, 0), device),
        control: timestamp_message(stamp, message.arrived, epoch).into_iter().collect(),
    };
    received.control.extend(control_messages(&end.ip, &message));
    let stored = call.scatter(&room.buffers, &message.bytes[..taken]);
    let end = call.host.net.portless(key);
    if room.flags & c::MSG_PEEK != 0 {
        end.queue.push_front(message);
    } else {
        end.queued_charge = end.queued_charge.saturating_sub(charge(message.bytes.len()));
    }
    stored.map(|()| Attempt::Done(received))
}

/// What the options of a socket say that it wants to know of a packet.
fn control_messages(options: &IpOptions, message: &Message) -> Vec<ControlMessage> {
    let mut messages = Vec::new();
    let mut push =
        |level, type_, data: &[u8]| messages.push(ControlMessage { level, type_, data: data.to_vec() });
    let ifindex = interface_index(message.interface) as i32;
    match (message.destination, message.own) {
        (IpAddr::V4(addr), IpAddr::V4(own)) => {
            if options.receive_pktinfo {
                let info = InPktinfo { ifindex, spec_dst: own.octets(), addr: addr.octets() };
                push(c::IPPROTO_IP, c::IP_PKTINFO, info.as_bytes());
            }
            if options.receive_ttl {
                push(c::IPPROTO_IP, c::IP_TTL, i32::from(message.ttl).as_bytes());
            }
            if options.receive_tos {
                push(c::IPPROTO_IP, c::IP_TOS, &[message.tos]);
            }
        }
        (IpAddr::V6(addr), _) => {
            if options.receive_pktinfo6 {
                let info = In6Pktinfo { addr: addr.octets(), ifindex };
                push(c::IPPROTO_IPV6, c::IPV6_PKTINFO, info.as_bytes());
            }
            if options.receive_ttl {
                push(c::IPPROTO_IPV6, c::IPV6_HOPLIMIT, i32::from(message.ttl).as_bytes());
            }
            if options.receive_tos {
                push(c::IPPROTO_IPV6, c::IPV6_TCLASS, i32::from(message.tos).as_bytes());
            }
        }
        _ => {}
    }
    messages
}

/// Takes effect on an unconnected socket too, but says `ENOTCONN`, as Linux does.
pub fn shutdown(call: &mut Call<'_>, key: SocketKey, how: i32) -> Result<(), Errno> {
    let end = call.host.net.portless(key);
    end.read_closed |= how != c::SHUT_WR;
    end.write_closed |= how != c::SHUT_RD;
    let connected = end.peer.is_some();
    call.host.net.notify_socket(key, READABLE | WRITABLE | EPOLLHUP | EPOLLRDHUP);
    if connected { Ok(()) } else { Err(Errno::ENOTCONN) }
}

/// `getpeername(2)`: the peer has no port.
pub fn peer_name(net: &mut Stack, key: SocketKey) -> Result<RawAddress, Errno> {
    let domain = net.socket(key).domain;
    let peer = net.portless(key).peer.ok_or(Errno::ENOTCONN)?;
    Ok(address::emit(domain, SocketAddr::new(peer, 0)))
}

/// The `EPOLL*` bits that hold now: `datagram_poll` of Linux.
pub fn readiness(net: &Stack, key: SocketKey) -> u32 {
    let socket = &net.sockets[key.0];
    let Some(end) = Portless::of(socket) else { return 0 };
    let mut ready = WRITABLE;
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
    Ok(net.portless(key).queue.front().map_or(0, |message| message.bytes.len()))
}

/// `SIOCOUTQ`: what is sent has left the socket at once.
pub fn unsent_bytes(_net: &mut Stack, _key: SocketKey) -> Result<usize, Errno> {
    Ok(0)
}

impl Stack {
    /// The end of a socket that is known to be a raw or a ping socket.
    pub(in crate::net) fn portless(&mut self, key: SocketKey) -> &mut Portless {
        match &mut self.sockets[key.0].kind {
            SocketKind::Raw(raw) => &mut raw.end,
            SocketKind::Ping(ping) => &mut ping.end,
            other => unreachable!("a socket with ports: {other:?}"),
        }
    }

    /// A socket gets `bytes` of a packet, if there is room.
    pub(in crate::net) fn portless_enqueue(&mut self, key: SocketKey, bytes: Vec<u8>, inbound: &Inbound) {
        let arrived = self.clock.now();
        let own = self.own_address(inbound.interface, inbound.header.dst);
        let room = self.socket(key).options.receive_buffer;
        let end = self.portless(key);
        if end.queued_charge > room {
            return;
        }
        end.queued_charge += charge(bytes.len());
        end.queue.push_back(Message {
            bytes,
            source: inbound.header.src,
            destination: inbound.header.dst,
            own,
            interface: inbound.interface,
            ttl: inbound.header.ttl,
            tos: inbound.header.tos,
            arrived,
        });
        self.notify_socket(key, READABLE);
    }

    /// A socket hears of an ICMP error: one that asked for all of them, or by its peer of a hard one.
    pub(in crate::net) fn portless_error(&mut self, key: SocketKey, error: QueuedError) {
        let errno = error.errno;
        let room = self.socket(key).options.receive_buffer;
        let end = self.portless(key);
        if end.ip.receive_errors {
            end.push_error(error, room);
        } else if end.peer.is_none() || !is_hard(errno, error.icmp, error.destination.is_ipv4()) {
            return;
        }
        self.socket(key).error = Some(errno);
        self.notify_socket(key, EPOLLERR);
    }
}
