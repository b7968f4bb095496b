//! Sending datagrams.

use super::{CmsgContext, HEADER_LEN, SendOptions, charge};
use super::{check_length, check_may_send, named_destination};
use crate::call::Call;
use crate::ids::SocketKey;
use crate::net::message::{Attempt, OutgoingMessage};
use belljar_linux_abi::{Errno, c};
use belljar_netstack::address;
use belljar_netstack::ip::header::header_len;
use std::net::SocketAddr;

pub fn send(
    call: &mut Call<'_>,
    key: SocketKey,
    message: &OutgoingMessage,
    _done: usize,
) -> Result<Attempt<usize>, Errno> {
    let net = call.host.stack_of_mut(key);
    // Whatever becomes of the message.
    if net.udp(key).bound.is_none() {
        net.udp_bind(key, None, 0, false).map_err(|_| Errno::EAGAIN)?;
    }
    if message.flags & c::MSG_OOB != 0 {
        return Err(Errno::EOPNOTSUPP);
    }
    let socket = net.socket(key);
    let (queue, send_buffer, domain) = (key.into(), socket.options.send_buffer, socket.domain);
    if domain == c::AF_INET && message.len > 0xffff {
        return Err(Errno::EMSGSIZE);
    }
    // What is being collected goes where its first part was to go.
    let collecting = net.udp(key).corked.is_some();
    let destination = match &message.name {
        Some(raw) if !collecting => named_destination(net, key, raw)?,
        _ => None,
    };
    let udp = net.udp(key);
    // Only an address that is given: one may be connected to port 0. What a socket of IPv6 sends to a peer of
    // IPv4 goes as if that were given.
    let given =
        destination.or(udp.peer.filter(|peer| domain == c::AF_INET6 && peer.is_ipv4() && !collecting));
    if given.is_some_and(|to| to.port() == 0) {
        return Err(Errno::EINVAL);
    }
    if !collecting && destination.or(udp.peer).is_none() {
        return Err(Errno::EDESTADDRREQ);
    }
    let more = message.flags & c::MSG_MORE != 0 || udp.cork;
    let (peer, segment) = (udp.peer, udp.segment);
    let to = destination.or(peer);
    let over_v4 = to.is_none_or(|to| to.is_ipv4());
    let by = CmsgContext { v6: domain == c::AF_INET6, over_v4, udp: true };
    let mut options = if collecting { SendOptions::default() } else { message.send_options(by)? };
    if let Some(to) = to {
        net.check_given(key, to.ip(), &options)?;
    }
    options.segment.get_or_insert(segment);
    let scope = message.name.as_ref().and_then(|raw| address::scope(raw));
    options.interface = options.interface.or(scope);
    if more || collecting {
        let to = net.udp(key).corked.as_ref().map(|(to, ..)| *to).or(to);
        check_length(to, message.len)?;
        let told = net.zero_copies(key, message.flags)?;
        check_may_send(net, key)?;
        return send_corked(call, key, message, (to, options), (more, told));
    }
    let destination = to.ok_or(Errno::EDESTADDRREQ)?;
    let route = net.udp_route(key, destination, &options)?;
    if peer.is_none() {
        net.prefetch_ident(route.source, route.destination, c::IPPROTO_UDP as u8);
    }
    if let Err(too_long) = check_length(to, message.len) {
        let mtu = net.sending_mtu(key, &route);
        net.queue_too_long(key, destination, mtu);
        return Err(too_long);
    }
    let told = net.zero_copies(key, message.flags)?;
    check_may_send(net, key)?;
    if net.udp(key).sending_charge >= send_buffer {
        return Ok(Attempt::Wait(queue));
    }
    let start = header_len(route.destination) + HEADER_LEN;
    let mut packet = net.packet_buffer();
    packet.resize(start + message.len, 0);
    let mut at = start;
    for (addr, len) in &message.buffers {
        call.read_bytes(*addr, &mut packet[at..at + *len as usize])?;
        at += *len as usize;
    }
    let net = call.host.stack_of_mut(key);
    if told {
        net.zero_copy_begins(key);
    }
    net.udp_transmit(key, &route, destination.port(), packet, &options)?;
    net.flush_network();
    Ok(Attempt::Done(message.len))
}

/// Collects under `MSG_MORE` or `UDP_CORK`; sends what was collected with the first call without.
#[cold]
fn send_corked(
    call: &mut Call<'_>,
    key: SocketKey,
    message: &OutgoingMessage,
    (destination, options): (Option<SocketAddr>, SendOptions),
    (more, told): (bool, bool),
) -> Result<Attempt<usize>, Errno> {
    let data = call.gather(&message.buffers, 0, message.len)?;
    let udp = call.host.stack_of_mut(key).udp(key);
    if udp.corked.is_none() {
        let destination = destination.ok_or(Errno::EDESTADDRREQ)?;
        udp.corked = Some((destination, options, Vec::new()));
        udp.corked_charge = charge(header_len(destination.ip()) + HEADER_LEN);
    }
    if let Some((to, _, collected)) = &mut udp.corked {
        check_length(Some(*to), collected.len() + data.len())?;
        // What comes later lies in pages.
        udp.corked_charge = match collected.is_empty() {
            true => charge(header_len(to.ip()) + HEADER_LEN + data.len()),
            false => udp.corked_charge + data.len() as u32,
        };
        collected.extend_from_slice(&data);
    }
    if told {
        call.host.stack_of_mut(key).zero_copy_begins(key);
    }
    if !more {
        call.host.stack_of_mut(key).udp_uncork(key)?;
    }
    Ok(Attempt::Done(message.len))
}
