//! Raw sockets, raw(7): they send and receive what follows the IP header, of one protocol, or with
//! `IP_HDRINCL` whole packets.

mod input;
mod output;

use super::bind::{bind_to_link, parse_bind};
use super::error_queue::{self, ErrorQueue};
use super::ip::IpOptions;
use super::ip::route::Through;
use super::message::{Attempt, ControlMessage, Incoming, Outgoing, RawAddress, Received};
use super::socket::SocketKind;
use super::udp::{charge, timestamp_message};
use super::{address, interface_index};
use crate::call::Call;
use crate::files::readiness::{EPOLLERR, EPOLLHUP, READABLE, WRITABLE};
use crate::host::Host;
use crate::ids::SocketKey;
use belljar_base::SimTime;
use belljar_linux_abi::socket::{In6Pktinfo, InPktinfo};
use belljar_linux_abi::{Errno, c};
pub(crate) use output::RawError;
use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};
use zerocopy::IntoBytes;

/// What opening raw and packet sockets takes.
pub const CAP_NET_RAW: u32 = 13;

/// What a raw socket keeps.
#[derive(Debug, Default)]
pub struct RawSocket {
    /// The protocol that it speaks.
    pub protocol: u8,
    /// Its local address; `None` is any.
    pub local: Option<IpAddr>,
    /// The program chose the address: it outlives a disconnect.
    pub address_chosen: bool,
    /// Its peer, if it is connected.
    pub peer: Option<IpAddr>,
    /// Options of the IP levels.
    pub ip: IpOptions,
    /// `IP_HDRINCL`: what is sent begins with an IP header.
    pub header_included: bool,
    /// `ICMP_FILTER`: a bit for each type of ICMP that is not wanted.
    pub icmp_filter: u32,
    /// `ICMP6_FILTER`: the same for ICMPv6.
    pub icmp6_filter: [u32; 8],
    /// `IPV6_CHECKSUM`: where the kernel puts the checksum of what an IPv6 socket sends.
    pub checksum_at: Option<usize>,
    pub(super) errors: ErrorQueue,
    queue: VecDeque<Message>,
    pub(super) queued_charge: u32,
    read_closed: bool,
    write_closed: bool,
}

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

/// A new raw socket.
pub fn create(host: &mut Host, domain: i32, protocol: i32) -> Result<SocketKey, Errno> {
    let number = u8::try_from(protocol).map_err(|_| Errno::EINVAL)?;
    if number == 0 {
        return Err(Errno::EPROTONOSUPPORT);
    }
    let raw = RawSocket {
        protocol: number,
        header_included: protocol == c::IPPROTO_RAW,
        // RFC 3542, section 2.1: ICMPv6's checksum is always the kernel's.
        checksum_at: (domain == c::AF_INET6 && protocol == c::IPPROTO_ICMPV6).then_some(2),
        ..RawSocket::default()
    };
    Ok(host.add_socket(domain, c::SOCK_RAW, protocol, SocketKind::Raw(Box::new(raw))))
}

pub fn bind(call: &mut Call<'_>, key: SocketKey, given: &[u8]) -> Result<(), Errno> {
    let (ip, _) = parse_bind(&call.host.net, key, given)?;
    bind_to_link(call.host, key, ip, given);
    let raw = call.host.raw(key);
    (raw.local, raw.address_chosen) = (ip, ip.is_some());
    Ok(())
}

pub fn connect(
    call: &mut Call<'_>,
    key: SocketKey,
    given: &[u8],
    _again: bool,
) -> Result<Attempt<()>, Errno> {
    if address::family(given)? == c::AF_UNSPEC {
        let raw = call.host.raw(key);
        raw.peer = None;
        if !raw.address_chosen {
            raw.local = None;
        }
        return Ok(Attempt::Done(()));
    }
    let peer = call.host.inet_destination(key, given)?;
    let device = call.host.socket_device(key, peer.ip(), address::scope(given))?;
    let local = call.host.raw(key).local;
    let through = Through::of(&call.host.net.sockets[key.0], device);
    let route = call.host.net.route(peer.ip(), local, through)?;
    let raw = call.host.raw(key);
    raw.peer = Some(route.destination);
    // As `ip4_datagram_connect`: programs ask for the address to compute checksums.
    raw.local = raw.local.or(Some(route.source));
    Ok(Attempt::Done(()))
}

pub fn send(
    call: &mut Call<'_>,
    key: SocketKey,
    message: &Outgoing,
    done: usize,
) -> Result<Attempt<usize>, Errno> {
    output::send(call, key, message, done)
}

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
    let epoch = call.host.clock.realtime_ns() - call.now().as_nanos();
    let socket = call.host.socket(key);
    let (domain, queue, stamp) = (socket.domain, socket.queue, socket.options.timestamp);
    socket.take_error()?;
    let raw = call.host.raw(key);
    let Some(message) = raw.queue.pop_front() else {
        let closed = raw.read_closed;
        return Ok(if closed { Attempt::Done(Received::default()) } else { Attempt::Wait(queue) });
    };
    let taken = message.bytes.len().min(room.len);
    let mut received = Received {
        value: if room.flags & c::MSG_TRUNC != 0 { message.bytes.len() } else { taken },
        flags: if taken < message.bytes.len() { c::MSG_TRUNC } else { 0 },
        name: address::emit_on(
            domain,
            SocketAddr::new(message.source, 0),
            Some(interface_index(message.interface)),
        ),
        control: timestamp_message(stamp, message.arrived, epoch).into_iter().collect(),
    };
    received.control.extend(control_messages(&raw.ip, &message));
    let stored = call.scatter(&room.buffers, &message.bytes[..taken]);
    let raw = call.host.raw(key);
    if room.flags & c::MSG_PEEK != 0 {
        raw.queue.push_front(message);
    } else {
        raw.queued_charge = raw.queued_charge.saturating_sub(charge(message.bytes.len()));
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

pub fn shutdown(call: &mut Call<'_>, key: SocketKey, how: i32) -> Result<(), Errno> {
    let raw = call.host.raw(key);
    raw.read_closed |= how != c::SHUT_WR;
    raw.write_closed |= how != c::SHUT_RD;
    let connected = raw.peer.is_some();
    call.host.notify_socket(key, READABLE | WRITABLE | EPOLLHUP);
    if connected { Ok(()) } else { Err(Errno::ENOTCONN) }
}

pub fn local_name(host: &mut Host, key: SocketKey) -> Result<RawAddress, Errno> {
    let domain = host.socket(key).domain;
    let raw = host.raw(key);
    // Linux keeps the protocol where others have their port.
    let local = SocketAddr::new(raw.local.unwrap_or(address::unspecified(domain)), raw.protocol.into());
    Ok(address::emit(domain, local))
}

pub fn peer_name(host: &mut Host, key: SocketKey) -> Result<RawAddress, Errno> {
    let domain = host.socket(key).domain;
    let peer = host.raw(key).peer.ok_or(Errno::ENOTCONN)?;
    Ok(address::emit(domain, SocketAddr::new(peer, 0)))
}

pub fn readiness(host: &Host, key: SocketKey) -> u32 {
    let socket = &host.net.sockets[key.0];
    let SocketKind::Raw(raw) = &socket.kind else { return 0 };
    let readable = if raw.queue.is_empty() && !raw.read_closed { 0 } else { READABLE };
    let error = if socket.error.is_some() || !raw.errors.is_empty() { EPOLLERR } else { 0 };
    WRITABLE | readable | error
}

pub fn readable_bytes(host: &mut Host, key: SocketKey) -> Result<usize, Errno> {
    Ok(host.raw(key).queue.front().map_or(0, |message| message.bytes.len()))
}

pub fn unsent_bytes(_host: &mut Host, _key: SocketKey) -> Result<usize, Errno> {
    Ok(0)
}

pub fn close(host: &mut Host, key: SocketKey) {
    host.leave_all_groups(key);
    host.remove_socket(key);
}

impl RawSocket {
    /// What it has received is charged against its buffer.
    pub fn queued_bytes(&self) -> usize {
        self.queued_charge as usize
    }
}

impl Host {
    /// The raw part of a socket that is known to be one.
    pub(in crate::net) fn raw(&mut self, key: SocketKey) -> &mut RawSocket {
        match &mut self.net.sockets[key.0].kind {
            SocketKind::Raw(raw) => raw,
            other => unreachable!("not a raw socket: {other:?}"),
        }
    }
}
