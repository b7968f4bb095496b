//! Calls on raw sockets, raw(7).

pub use super::ip_socket::{receive, shutdown};
use super::message::{Attempt, OutgoingMessage};
use super::udp::CmsgContext;
use crate::call::Call;
use crate::ids::SocketKey;
use belljar_linux_abi::{Errno, c};
use belljar_netstack::address;
use belljar_netstack::bind::{bind_to_link, parse_bind};
use belljar_netstack::ip::route::Through;
pub use belljar_netstack::raw::*;

/// Maximum packet length in bytes.
const MAX_PACKET: usize = 65_535;
pub fn bind(call: &mut Call<'_>, key: SocketKey, given: &[u8]) -> Result<(), Errno> {
    let (ip, _) = parse_bind(call.host.stack_of(key), key, given)?;
    bind_to_link(call.host.stack_of_mut(key), key, ip, given);
    let raw = call.host.stack_of_mut(key).sockets.raw(key);
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
        let raw = call.host.stack_of_mut(key).sockets.raw(key);
        raw.end.peer = None;
        if !raw.address_chosen {
            raw.local = None;
        }
        return Ok(Attempt::Done(()));
    }
    let peer = call.host.stack_of_mut(key).inet_destination(key, given)?;
    let device = call.host.stack_of_mut(key).socket_device(key, peer.ip(), address::scope(given))?;
    let local = call.host.stack_of_mut(key).sockets.raw(key).local;
    let through = Through::of(call.host.socket(key), device);
    let route = call.host.stack_of_mut(key).route(peer.ip(), local, through)?;
    let raw = call.host.stack_of_mut(key).sockets.raw(key);
    raw.end.peer = Some(route.destination);
    // Programs read the local address to compute checksums; `ip4_datagram_connect` sets it too.
    raw.local = raw.local.or(Some(route.source));
    Ok(Attempt::Done(()))
}
pub fn send(
    call: &mut Call<'_>,
    key: SocketKey,
    message: &OutgoingMessage,
    _done: usize,
) -> Result<Attempt<usize>, Errno> {
    if message.flags & c::MSG_OOB != 0 {
        return Err(Errno::EOPNOTSUPP);
    }
    if message.len > MAX_PACKET {
        return Err(Errno::EMSGSIZE);
    }
    let destination = match &message.name {
        Some(raw) => Some(call.host.stack_of_mut(key).inet_destination(key, raw)?.ip()),
        None => call.host.stack_of_mut(key).sockets.raw(key).end.peer,
    };
    let destination = destination.ok_or(Errno::EDESTADDRREQ)?;
    call.host.socket(key).take_error()?;
    // Raw sockets ignore `SHUT_WR`, as in Linux's `raw_sendmsg`.
    let v6 = call.host.socket(key).domain == c::AF_INET6;
    let mut options = message.send_options(CmsgContext { v6, over_v4: destination.is_ipv4(), udp: false })?;
    call.host.stack_of_mut(key).check_given(key, destination, &options)?;
    options.interface = options.interface.or(message.name.as_ref().and_then(|raw| address::scope(raw)));
    let data = call.gather(&message.buffers, 0, message.len)?;
    let sent = call.host.stack_of_mut(key).raw_output(key, destination, data, &options)?;
    call.host.stack_of_mut(key).flush_network();
    Ok(if sent { Attempt::Done(message.len) } else { Attempt::Wait(key.into()) })
}
