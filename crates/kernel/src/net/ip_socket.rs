//! Calls shared by raw and ping sockets, raw(7) and icmp(7): receive and shutdown.

use super::error_queue;
use super::message::{Attempt, ControlMessage, Incoming, ReceivedMessage};
use super::udp::charge;
use crate::call::Call;
use crate::ids::SocketKey;
use belljar_linux_abi::socket::{In6Pktinfo, InPktinfo};
use belljar_linux_abi::{Errno, c};
use belljar_linux_net::timestamps::PacketArrival;
use belljar_netstack::ip::IpOptions;
use belljar_netstack::ip_socket::IpMessage;
use belljar_netstack::readiness::{EPOLLHUP, EPOLLRDHUP, READABLE, WRITABLE};
use belljar_netstack::{address, interface_index};
use std::net::{IpAddr, SocketAddr};
use zerocopy::IntoBytes;

/// `recvmsg(2)`.
pub fn receive(
    call: &mut Call<'_>,
    key: SocketKey,
    room: &Incoming,
    _done: usize,
) -> Result<Attempt<ReceivedMessage>, Errno> {
    if room.flags & c::MSG_OOB != 0 {
        return Err(Errno::EOPNOTSUPP);
    }
    if room.flags & c::MSG_ERRQUEUE != 0 {
        return error_queue::receive(call, key, room);
    }
    let socket = call.host.socket(key);
    let (domain, queue, stamp) = (socket.domain, key.into(), socket.receive_stamps());
    socket.take_error()?;
    let end = call.host.stack_of_mut(key).sockets.ip_socket(key);
    let Some(message) = end.queue.pop_front() else {
        // A non-blocking receive does not report the end of a shut-down socket.
        let ended = end.read_closed && room.flags & c::MSG_DONTWAIT == 0;
        return Ok(if ended { Attempt::Done(ReceivedMessage::default()) } else { Attempt::Wait(queue) });
    };
    let taken = message.bytes.len().min(room.len);
    let device = Some(interface_index(message.interface));
    let mut received = ReceivedMessage {
        value: if room.flags & c::MSG_TRUNC != 0 { message.bytes.len() } else { taken },
        flags: if taken < message.bytes.len() { c::MSG_TRUNC } else { 0 },
        name: address::emit_on(domain, SocketAddr::new(message.source, 0), device),
        control: control_messages(&end.ip, &message),
    };
    if !stamp.is_off() {
        let packet = (interface_index(message.interface), message.bytes.len());
        let arrival = PacketArrival { at: message.arrived, hardware: message.hardware, packet };
        received.control.splice(0..0, arrival.messages(stamp, &call.host.net.clock));
    }
    let stored = call.scatter(&room.buffers, &message.bytes[..taken]);
    call.host.socket(key).options.last_arrival = Some(message.arrived);
    let end = call.host.stack_of_mut(key).sockets.ip_socket(key);
    if room.flags & c::MSG_PEEK != 0 {
        end.queue.push_front(message);
    } else {
        end.queued_charge = end.queued_charge.saturating_sub(charge(message.bytes.len()));
    }
    stored.map(|()| Attempt::Done(received))
}

/// Control messages for a packet that the socket's options request.
fn control_messages(options: &IpOptions, message: &IpMessage) -> Vec<ControlMessage> {
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

/// `shutdown(2)`. Takes effect on an unconnected socket too, but returns `ENOTCONN`, as on Linux.
pub fn shutdown(call: &mut Call<'_>, key: SocketKey, how: i32) -> Result<(), Errno> {
    let end = call.host.stack_of_mut(key).sockets.ip_socket(key);
    end.read_closed |= how != c::SHUT_WR;
    end.write_closed |= how != c::SHUT_RD;
    let connected = end.peer.is_some();
    call.host.stack_of_mut(key).effects.notify_socket(key, READABLE | WRITABLE | EPOLLHUP | EPOLLRDHUP);
    if connected { Ok(()) } else { Err(Errno::ENOTCONN) }
}
