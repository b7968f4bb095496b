//! Calls on ping sockets, icmp(7).

pub use super::ip_socket::{receive, shutdown};
use super::message::{Attempt, OutgoingMessage};
use crate::call::Call;
use crate::ids::SocketKey;
use belljar_linux_abi::{Errno, c};
use belljar_netstack::address;
use belljar_netstack::bind::{bind_to_link, parse_bind};
pub use belljar_netstack::ping::*;
use std::net::{IpAddr, SocketAddr};
pub fn bind(call: &mut Call<'_>, key: SocketKey, raw: &[u8]) -> Result<(), Errno> {
    let domain = call.host.socket(key).domain;
    let (ip, port) = parse_bind(call.host.stack_of(key), key, raw)?;
    bind_to_link(call.host.stack_of_mut(key), key, ip, raw);
    call.host.stack_of_mut(key).sockets.ping(key).local =
        Some(SocketAddr::new(ip.unwrap_or(address::unspecified(domain)), port));
    Ok(())
}
pub fn connect(call: &mut Call<'_>, key: SocketKey, raw: &[u8], _again: bool) -> Result<Attempt<()>, Errno> {
    if address::family(raw)? == c::AF_UNSPEC {
        call.host.stack_of_mut(key).sockets.ip_socket(key).peer = None;
        return Ok(Attempt::Done(()));
    }
    let peer = call.host.stack_of_mut(key).inet_destination(key, raw)?;
    let device = call.host.stack_of_mut(key).socket_device(key, peer.ip(), address::scope(raw))?;
    if matches!(peer.ip(), IpAddr::V6(ip) if ip.is_unicast_link_local()) {
        call.host.socket(key).options.bound_device = device;
    }
    let route = call.host.stack_of_mut(key).route(peer.ip(), None, device)?;
    call.host.stack_of_mut(key).sockets.ip_socket(key).peer = Some(route.destination);
    Ok(Attempt::Done(()))
}
pub fn send(
    call: &mut Call<'_>,
    key: SocketKey,
    message: &OutgoingMessage,
    _done: usize,
) -> Result<Attempt<usize>, Errno> {
    let destination = match &message.name {
        Some(raw) => Some(call.host.stack_of_mut(key).inet_destination(key, raw)?.ip()),
        None => call.host.stack_of_mut(key).sockets.ip_socket(key).peer,
    };
    let destination = destination.ok_or(Errno::EDESTADDRREQ)?;
    if call.host.stack_of_mut(key).sockets.ip_socket(key).is_write_closed() {
        return Err(Errno::EPIPE);
    }
    if message.len > 0xffff {
        return Err(Errno::EMSGSIZE);
    }
    let data = call.gather(&message.buffers, 0, message.len)?;
    let scope = message.name.as_ref().and_then(|raw| address::scope(raw));
    let sent = call.host.stack_of_mut(key).ping_output(key, destination, scope, data)?;
    call.host.stack_of_mut(key).flush_network();
    Ok(if sent { Attempt::Done(message.len) } else { Attempt::Wait(key.into()) })
}
