//! `bind` and `connect`.

use super::Role;
use crate::call::Call;
use crate::ids::SocketKey;
use crate::net::message::Attempt;
use belljar_linux_abi::{Errno, c};
use belljar_netstack::address;
use belljar_netstack::bind::{bind_to_link, parse_bind};
use belljar_tcp::State;

pub fn bind(call: &mut Call<'_>, key: SocketKey, address: &[u8]) -> Result<(), Errno> {
    let (ip, port) = parse_bind(call.host.stack_of(key), key, address)?;
    bind_to_link(call.host.stack_of_mut(key), key, ip, address);
    if ip.is_some_and(|ip| call.host.stack_of_mut(key).interfaces.is_multipoint(ip)) {
        return Err(Errno::EADDRNOTAVAIL);
    }
    call.host.may_bind_port(call.process, port)?;
    let tcp = call.host.stack_of_mut(key).sockets.tcp(key);
    // A closed connection has released its port, unless the program chose it (`inet_put_port`).
    let ended = tcp.connection().is_some_and(|connection| connection.state() == State::Closed);
    if ended && !tcp.bound.is_some_and(|bound| bound.port_named) {
        call.host.stack_of_mut(key).tcp_give_up_name(key);
        call.host.stack_of_mut(key).tcp_bind(key, ip, port)?;
        call.host.stack_of_mut(key).sockets.tcp(key).is_renamed = true;
        return Ok(());
    }
    if tcp.bound.is_some() || !matches!(tcp.role, Role::Idle) {
        return Err(Errno::EINVAL);
    }
    call.host.stack_of_mut(key).tcp_bind(key, ip, port)
}

/// `connect(2)`. The states are those of Linux's `__inet_stream_connect`.
pub fn connect(
    call: &mut Call<'_>,
    key: SocketKey,
    address: &[u8],
    again: bool,
) -> Result<Attempt<()>, Errno> {
    let queue = key.into();
    let unspecified = address::family(address)? == c::AF_UNSPEC;
    let tcp = call.host.stack_of_mut(key).sockets.tcp(key);
    match &mut tcp.role {
        _ if unspecified => {
            call.host.stack_of_mut(key).tcp_disconnect(key);
            Ok(Attempt::Done(()))
        }
        _ if tcp.disconnecting => Err(Errno::EINVAL),
        Role::Listening(_) => Err(Errno::EISCONN),
        Role::Connection(connection) if !tcp.connecting || connection.is_deferred() => Err(Errno::EISCONN),
        Role::Connection(_) => match call.host.stack_of_mut(key).tcp_connected(key)? {
            true => Ok(Attempt::Done(())),
            false if again => Ok(Attempt::Wait(queue)),
            false => Err(Errno::EALREADY),
        },
        Role::Idle => {
            let peer = call.host.stack_of_mut(key).tcp_peer(key, address)?;
            if let Some(scope) = address::scope(address) {
                let device = call.host.stack_of_mut(key).socket_device(key, peer.ip(), Some(scope))?;
                call.host.socket(key).options.bound_device = device;
            }
            call.host.stack_of_mut(key).tcp_connect(key, peer)?;
            call.host.stack_of_mut(key).flush_network();
            let deferred = call
                .host
                .stack_of_mut(key)
                .sockets
                .tcp(key)
                .connection()
                .is_some_and(|connection| connection.is_deferred());
            Ok(if deferred { Attempt::Done(()) } else { Attempt::Wait(queue) })
        }
    }
}
