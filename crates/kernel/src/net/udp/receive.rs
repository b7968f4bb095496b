//! Receive path of UDP sockets.

use super::{Datagram, UDP_GRO, UdpSocket};
use crate::call::Call;
use crate::ids::SocketKey;
use crate::net::error_queue;
use crate::net::message::{Attempt, ControlMessage, Incoming, ReceivedMessage};
use belljar_linux_abi::socket::{In6Pktinfo, InPktinfo};
use belljar_linux_abi::{Errno, c};
use belljar_linux_net::timestamps::PacketArrival;
use belljar_netstack::{address, interface_index};
use std::net::IpAddr;
use zerocopy::IntoBytes;

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
    let peek = room.flags & c::MSG_PEEK != 0;
    let Some(datagram) = call.host.stack_of_mut(key).udp_take(key)? else {
        let udp = call.host.stack_of_mut(key).sockets.udp(key);
        // A non-blocking receive does not report the end of a shut-down socket.
        let ended = udp.read_closed && room.flags & c::MSG_DONTWAIT == 0;
        return Ok(if ended { Attempt::Done(ReceivedMessage::default()) } else { Attempt::Wait(key.into()) });
    };
    let socket = call.host.stack_of_mut(key).socket(key);
    let (domain, stamps) = (socket.domain, socket.receive_stamps());
    let payload = &datagram.packet[datagram.payload.clone()];
    let taken = payload.len().min(room.len);
    let stored = call.scatter(&room.buffers, &payload[..taken]);
    let value = if room.flags & c::MSG_TRUNC != 0 { payload.len() } else { taken };
    let mut received = ReceivedMessage { value, ..ReceivedMessage::default() };
    if taken < payload.len() {
        received.flags |= c::MSG_TRUNC;
    }
    if room.want_name {
        received.name = address::emit_on(domain, datagram.source, Some(interface_index(datagram.interface)));
    }
    if room.control_room > 0 {
        let own =
            call.host.stack_of_mut(key).interfaces.own_address(datagram.interface, datagram.destination);
        let udp = call.host.stack_of_mut(key).sockets.udp(key);
        received.control = control_messages(&datagram, udp, own);
        if !stamps.is_off() {
            let packet = (interface_index(datagram.interface), datagram.packet.len());
            let arrival = PacketArrival { at: datagram.arrived, hardware: datagram.hardware, packet };
            received.control.splice(0..0, arrival.messages(stamps, &call.host.net.clock));
        }
    }
    call.host.stack_of_mut(key).udp_taken(key, datagram, peek);
    stored.map(|()| Attempt::Done(received))
}

#[inline(never)]
fn control_messages(datagram: &Datagram, udp: &UdpSocket, own: IpAddr) -> Vec<ControlMessage> {
    let mut messages = Vec::new();
    let mut push = |level, type_, data: &[u8]| {
        messages.push(ControlMessage { level, type_, data: data.to_vec() });
    };
    if udp.joins && datagram.segment > 0 {
        push(c::IPPROTO_UDP, UDP_GRO, i32::from(datagram.segment).as_bytes());
    }
    let options = &udp.ip;
    let ifindex = interface_index(datagram.interface) as i32;
    if options.receive_pktinfo
        && let IpAddr::V4(addr) = datagram.destination
    {
        let spec_dst = match own {
            IpAddr::V4(own) => own.octets(),
            IpAddr::V6(_) => [0; 4],
        };
        let info = InPktinfo { ifindex, spec_dst, addr: addr.octets() };
        push(c::IPPROTO_IP, c::IP_PKTINFO, info.as_bytes());
    }
    if options.receive_pktinfo6 {
        let addr = match datagram.destination {
            IpAddr::V4(v4) => v4.to_ipv6_mapped(),
            IpAddr::V6(v6) => v6,
        };
        let info = In6Pktinfo { addr: addr.octets(), ifindex };
        push(c::IPPROTO_IPV6, c::IPV6_PKTINFO, info.as_bytes());
    }
    let v4 = datagram.destination.is_ipv4();
    if options.receive_ttl {
        let (level, type_) =
            if v4 { (c::IPPROTO_IP, c::IP_TTL) } else { (c::IPPROTO_IPV6, c::IPV6_HOPLIMIT) };
        push(level, type_, i32::from(datagram.ttl).as_bytes());
    }
    if options.receive_tos {
        if v4 {
            push(c::IPPROTO_IP, c::IP_TOS, &[datagram.tos]);
        } else {
            push(c::IPPROTO_IPV6, c::IPV6_TCLASS, i32::from(datagram.tos).as_bytes());
        }
    }
    if options.receive_destination
        && let IpAddr::V4(addr) = datagram.destination
    {
        // Destination port of the UDP header, which ends where the payload starts.
        let port = &datagram.packet[datagram.payload.start - 6..datagram.payload.start - 4];
        let mut data = [0; 16];
        data[..2].copy_from_slice(&(c::AF_INET as u16).to_ne_bytes());
        data[2..4].copy_from_slice(port);
        data[4..8].copy_from_slice(&addr.octets());
        push(c::IPPROTO_IP, c::IP_ORIGDSTADDR, &data);
    }
    messages
}
