//! Calls on UDP sockets other than send and receive.

use crate::call::Call;
use crate::ids::SocketKey;
use crate::net::message::Attempt;
use belljar_linux_abi::{Errno, c};
use belljar_netstack::bind::{bind_to_link, parse_bind};
use belljar_netstack::readiness::{EPOLLHUP, EPOLLRDHUP, READABLE, WRITABLE};

pub fn bind(call: &mut Call<'_>, key: SocketKey, address: &[u8]) -> Result<(), Errno> {
    let (ip, port) = parse_bind(call.host.stack_of(key), key, address)?;
    bind_to_link(call.host.stack_of_mut(key), key, ip, address);
    call.host.may_bind_port(call.process, port)?;
    let udp = call.host.stack_of_mut(key).sockets.udp(key);
    if udp.bound.is_some() {
        return Err(Errno::EINVAL);
    }
    call.host.stack_of_mut(key).udp_bind(key, ip, port, true)
}

pub fn connect(
    call: &mut Call<'_>,
    key: SocketKey,
    address: &[u8],
    _again: bool,
) -> Result<Attempt<()>, Errno> {
    call.host.stack_of_mut(key).udp_connect(key, address).map(Attempt::Done)
}

/// `shutdown(2)`. Takes effect on an unconnected socket too, but returns `ENOTCONN`, as on Linux.
pub fn shutdown(call: &mut Call<'_>, key: SocketKey, how: i32) -> Result<(), Errno> {
    let udp = call.host.stack_of_mut(key).sockets.udp(key);
    udp.read_closed |= how != c::SHUT_WR;
    udp.write_closed |= how != c::SHUT_RD;
    let connected = udp.peer.is_some();
    call.host.stack_of_mut(key).effects.notify_socket(key, READABLE | WRITABLE | EPOLLHUP | EPOLLRDHUP);
    if connected { Ok(()) } else { Err(Errno::ENOTCONN) }
}
