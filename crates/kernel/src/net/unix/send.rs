//! Send path of UNIX sockets.

use super::connect::may_send;
use super::control::{Ancillary, credentials_of};
use super::{ARRIVED, ROOM};
use crate::call::Call;
use crate::ids::SocketKey;
use crate::net::message::{Attempt, OutgoingMessage};
use belljar_linux_abi::{Errno, c};
use belljar_linux_net::unix_address::UnixAddress;
use belljar_objects::unix_sockets::{PeerCredentials, PeerRef, UnixMessage, UnixRole, charge, piece_max};

/// Bytes of `SO_SNDBUF` not available to a single datagram.
const DATAGRAM_OVERHEAD: usize = 32;

/// `send(2)` and its variants.
pub fn send(
    call: &mut Call<'_>,
    key: SocketKey,
    message: &OutgoingMessage,
    done: usize,
) -> Result<Attempt<usize>, Errno> {
    let packets = call.host.net.socket(key).type_ == c::SOCK_SEQPACKET;
    if packets {
        call.host.net.socket(key).take_error()?;
        if !matches!(call.host.own.unix(key).role, UnixRole::Connected) {
            return Err(Errno::ENOTCONN);
        }
    }
    // Control message errors take precedence.
    let ancillary = Ancillary::read(call, message)?;
    if message.flags & c::MSG_OOB != 0 {
        return Err(Errno::EOPNOTSUPP);
    }
    match call.host.net.socket(key).type_ {
        c::SOCK_STREAM => send_stream(call, key, message, done, ancillary),
        _ => send_datagram(call, key, message, packets, &ancillary),
    }
}

/// Peer of a connection: `ENOTCONN` if unconnected, `EPIPE` if either side has shut the direction down or the
/// peer is closed.
fn connected_peer(call: &mut Call<'_>, key: SocketKey) -> Result<SocketKey, Errno> {
    let socket = call.host.own.unix(key);
    if !matches!(socket.role, UnixRole::Connected) {
        return Err(Errno::ENOTCONN);
    }
    if socket.shut_write {
        return Err(Errno::EPIPE);
    }
    let peer = call.host.own.unix_peer(&call.host.net, key).ok_or(Errno::EPIPE)?;
    if call.host.own.unix(peer).shut_read { Err(Errno::EPIPE) } else { Ok(peer) }
}

/// Sends as many segments as the send buffer takes.
fn send_stream(
    call: &mut Call<'_>,
    key: SocketKey,
    message: &OutgoingMessage,
    done: usize,
    mut ancillary: Ancillary,
) -> Result<Attempt<usize>, Errno> {
    if message.name.is_some() {
        let connected = matches!(call.host.own.unix(key).role, UnixRole::Connected);
        return Err(if connected { Errno::EISCONN } else { Errno::EOPNOTSUPP });
    }
    let peer = connected_peer(call, key)?;
    // Open files accompany the first segment only.
    if done > 0 {
        ancillary.files.clear();
    }
    let mut sent = 0;
    while done + sent < message.len {
        if call.host.own.unix_send_buffer_full(&call.host.net, key) {
            break;
        }
        let limit = piece_max(call.host.net.socket(key).options.send_buffer as usize);
        let data = call.gather(&message.buffers, (done + sent) as u64, limit)?;
        sent += data.len();
        deliver(call, key, peer, data, &ancillary);
        ancillary.files.clear();
    }
    if sent == 0 && done < message.len {
        return Ok(Attempt::Wait(key.into()));
    }
    Ok(Attempt::Done(sent))
}

/// Receiver of a datagram: the address given, or the peer.
fn destination(call: &mut Call<'_>, key: SocketKey, named: Option<UnixAddress>) -> Result<SocketKey, Errno> {
    let target = match named {
        Some(address) => call.host.find_unix(call.process, &address, key)?,
        None => {
            call.host.own.unix(key).peer.ok_or(Errno::ENOTCONN)?;
            match call.host.own.unix_peer(&call.host.net, key) {
                Some(peer) => peer,
                None => {
                    // The receiver is closed: disconnect.
                    let socket = call.host.own.unix_mut(key);
                    (socket.peer, socket.peer_address) = (None, None);
                    // The unread messages are dropped (`unix_dgram_disconnected`).
                    let lost = std::mem::take(&mut socket.inbox);
                    for message in lost {
                        call.host.own.settle(&mut call.host.net, &message);
                        for file in message.files {
                            call.host.release_file(file);
                        }
                    }
                    return Err(Errno::ECONNREFUSED);
                }
            }
        }
    };
    if !may_send(call.host, key, target) {
        return Err(Errno::EPERM);
    }
    if call.host.own.unix(target).shut_read { Err(Errno::EPIPE) } else { Ok(target) }
}

/// Sends a whole message or nothing. Linux allocates the message before it looks up the receiver.
fn send_datagram(
    call: &mut Call<'_>,
    key: SocketKey,
    message: &OutgoingMessage,
    packets: bool,
    ancillary: &Ancillary,
) -> Result<Attempt<usize>, Errno> {
    let named = match &message.name {
        Some(raw) if !packets => Some(UnixAddress::parse(raw)?.ok_or(Errno::EINVAL)?),
        _ => None,
    };
    let options = &call.host.net.socket(key).options;
    let send_buffer = options.send_buffer as usize;
    if options.pass_credentials {
        call.host.own.autobind(&mut call.host.net, key);
    }
    if message.len > send_buffer - DATAGRAM_OVERHEAD {
        return Err(Errno::EMSGSIZE);
    }
    call.host.net.socket(key).take_error()?;
    if call.host.own.unix(key).shut_write {
        return Err(Errno::EPIPE);
    }
    if call.host.own.unix_send_buffer_full(&call.host.net, key) {
        return Ok(Attempt::Wait(key.into()));
    }
    let data = call.gather(&message.buffers, 0, message.len)?;
    let target = if packets { connected_peer(call, key) } else { destination(call, key, named) };
    // Freeing the allocated message notifies waiters for room (`sock_wfree`).
    if target.is_err() && call.host.own.unix_has_room(&call.host.net, key) {
        call.host.net.effects.notify_socket(key, ROOM);
    }
    let target = target?;
    let own = PeerRef::to(&call.host.net, key);
    if call.host.own.unix(target).peer != Some(own) && call.host.own.unix_inbox_full(target) {
        return Ok(Attempt::Wait(target.into()));
    }
    let sent = data.len();
    deliver(call, key, target, data, ancillary);
    Ok(Attempt::Done(sent))
}

/// Queues a message on the receiver, charged to the sender.
fn deliver(call: &mut Call<'_>, from: SocketKey, to: SocketKey, data: Vec<u8>, ancillary: &Ancillary) {
    // `maybe_add_creds`.
    let asked = [from, to].iter().any(|key| call.host.net.socket(*key).options.pass_credentials);
    let credentials = match ancillary.credentials {
        Some(claimed) => claimed,
        None if asked || call.host.own.unix(to).embryo => credentials_of(call),
        None => PeerCredentials::NOBODY,
    };
    let host = &mut *call.host;
    for file in &ancillary.files {
        host.files.retain_file(*file);
    }
    let charge = charge(data.len(), host.net.socket(from).is_stream());
    let sender = PeerRef::to(&host.net, from);
    let socket = host.own.unix_mut(from);
    socket.charged += charge;
    let source = socket.address.clone();
    let files = ancillary.files.clone();
    let message = UnixMessage { data, taken: 0, files, credentials, source, sender, charge };
    host.own.unix_mut(to).inbox.push_back(message);
    host.net.effects.notify_socket(to, ARRIVED);
}
