//! Calls that use TCP Fast Open (RFC 7413): `MSG_FASTOPEN` and sends on a deferred connection, which put data
//! into the SYN.

use super::Role;
use crate::call::Call;
use crate::ids::SocketKey;
use crate::net::message::{Attempt, OutgoingMessage};
use belljar_linux_abi::{Errno, c};
use belljar_netstack::address;
pub use belljar_netstack::tcp::fast_open::bit;

/// Upper bound in bytes on the data of a SYN; no more is copied from the guest.
const SYN_DATA_MAX: usize = 32_768;

/// Fast-open part of `send(2)`: `MSG_FASTOPEN`, or the first data of a socket whose SYN is deferred. `None`
/// if there is no connection to open; the states are those of Linux's `__inet_stream_connect`.
pub(super) fn send(
    call: &mut Call<'_>,
    key: SocketKey,
    message: &OutgoingMessage,
    done: usize,
) -> Result<Option<Attempt<usize>>, Errno> {
    let asked = message.flags & c::MSG_FASTOPEN != 0;
    let blocking = message.flags & c::MSG_DONTWAIT == 0;
    let begun = done > 0 || call.resumed.is_some();
    let queue = key.into();
    let tcp = call.host.stack_of_mut(key).sockets.tcp(key);
    let deferred = tcp.connection().is_some_and(|connection| connection.is_deferred());
    if !asked && !deferred {
        return Ok(None);
    }
    if begun {
        // The handshake was begun by this call, or this call waits for it.
        let ended = !tcp.connecting || call.host.stack_of_mut(key).tcp_connected(key)?;
        return Ok((!ended).then_some(Attempt::Wait(queue)));
    }
    let unspecified = match &message.name {
        Some(name) => address::family(name)? == c::AF_UNSPEC,
        None => false,
    };
    if unspecified || call.host.stack_of_mut(key).sysctls.fast_open & bit::CLIENT == 0 {
        return Err(Errno::EOPNOTSUPP);
    }
    let data = call.gather(&message.buffers, 0, message.len.min(SYN_DATA_MAX))?;
    let tcp = call.host.stack_of_mut(key).sockets.tcp(key);
    let taken = match &tcp.role {
        Role::Connection(_) if deferred => {
            let taken = call.host.stack_of_mut(key).tcp_prepare_fast_open(key, Some(&data));
            call.host.stack_of_mut(key).tcp_pump(key);
            taken
        }
        Role::Connection(_) if tcp.connecting => {
            return match call.host.stack_of_mut(key).tcp_connected(key)? {
                true => Ok(None),
                false if blocking => Ok(Some(Attempt::Wait(queue))),
                false => Err(Errno::EALREADY),
            };
        }
        Role::Listening(_) | Role::Connection(_) => return Err(Errno::EISCONN),
        Role::Idle => {
            let name = message.name.as_ref().ok_or(Errno::EINVAL)?;
            let peer = call.host.stack_of_mut(key).tcp_peer(key, name)?;
            call.host.stack_of_mut(key).tcp_connect_with(key, peer, Some(&data))?
        }
    };
    if blocking
        && taken < message.len
        && let Some(connection) = call.host.stack_of_mut(key).sockets.tcp(key).connection()
    {
        connection.set_write_pending(true);
    }
    call.host.stack_of_mut(key).flush_network();
    match taken {
        0 if blocking => Ok(Some(Attempt::Wait(queue))),
        0 => Err(Errno::EINPROGRESS),
        taken => Ok(Some(Attempt::Done(taken))),
    }
}
