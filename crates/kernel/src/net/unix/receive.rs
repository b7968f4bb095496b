//! Receive path of UNIX sockets.

use super::control::{hand_over, retained};
use crate::call::Call;
use crate::ids::SocketKey;
use crate::net::message::{Attempt, Incoming, RawAddress, ReceivedMessage};
use belljar_linux_abi::{Errno, c};
use belljar_linux_net::unix_address::UnixAddress;
use belljar_objects::unix_sockets::{PeerCredentials, UnixRole};

/// `recv(2)` and its variants.
pub fn receive(
    call: &mut Call<'_>,
    key: SocketKey,
    room: &Incoming,
    done: usize,
) -> Result<Attempt<ReceivedMessage>, Errno> {
    if room.flags & c::MSG_OOB != 0 {
        return Err(Errno::EOPNOTSUPP);
    }
    let type_ = call.host.net.socket(key).type_;
    let socket = call.host.own.unix(key);
    match (type_, &socket.role) {
        (c::SOCK_DGRAM, _) | (_, UnixRole::Connected) => {}
        (c::SOCK_STREAM, _) => return Err(Errno::EINVAL),
        _ => return Err(Errno::ENOTCONN),
    }
    let empty = socket.inbox.is_empty();
    if type_ != c::SOCK_STREAM {
        // A pending error is reported before packets that arrived earlier.
        call.host.net.socket(key).take_error()?;
    }
    if empty {
        let shut = call.host.own.unix(key).shut_read;
        if let Some(errno) = call.host.net.socket(key).error.take() {
            return Err(errno);
        }
        // A non-blocking receive on a datagram socket does not report the shutdown.
        let looks = type_ != c::SOCK_DGRAM || room.flags & c::MSG_DONTWAIT == 0;
        if !(shut && looks) {
            return Ok(Attempt::Wait(key.into()));
        }
        let mut received = ReceivedMessage::default();
        if type_ == c::SOCK_STREAM {
            // With `SO_PASSCRED`, credentials accompany the end of the stream too: the default ones.
            hand_over(call, key, room, PeerCredentials::default(), Vec::new(), &mut received);
        }
        return Ok(Attempt::Done(received));
    }
    let received = match type_ {
        c::SOCK_STREAM => receive_stream(call, key, room, done)?,
        _ => receive_message(call, key, room)?,
    };
    Ok(Attempt::Done(received))
}

/// Sender's address in the form that calls return; empty for an unbound sender.
fn name_of(room: &Incoming, source: Option<&UnixAddress>) -> RawAddress {
    match source {
        Some(address) if room.want_name => UnixAddress::raw(Some(address)),
        _ => RawAddress::new(),
    }
}

/// Receives one message; the part that does not fit is dropped.
fn receive_message(call: &mut Call<'_>, key: SocketKey, room: &Incoming) -> Result<ReceivedMessage, Errno> {
    let was_full = call.host.own.unix_inbox_full(key);
    let message = call.host.own.unix_mut(key).inbox.pop_front().expect("the inbox is not empty");
    let stored = message.data.len().min(room.len);
    if let Err(errno) = call.scatter(&room.buffers, &message.data[..stored]) {
        // A message that cannot be copied out is dropped, as on Linux.
        if room.flags & c::MSG_PEEK != 0 {
            call.host.own.unix_mut(key).inbox.push_front(message);
            return Err(errno);
        }
        call.host.own.settle(&mut call.host.net, &message);
        call.host.own.inbox_drained(&mut call.host.net, key, was_full);
        for file in message.files {
            call.host.release_file(file);
        }
        return Err(errno);
    }
    let source =
        message.source.clone().or_else(|| call.host.own.unix_name_of(&call.host.net, message.sender));
    let mut received =
        ReceivedMessage { value: stored, name: name_of(room, source.as_ref()), ..Default::default() };
    if stored < message.data.len() {
        received.flags |= c::MSG_TRUNC;
        if room.flags & c::MSG_TRUNC != 0 {
            received.value = message.data.len();
        }
    }
    if room.flags & c::MSG_PEEK != 0 {
        let files = retained(call, message.files.clone());
        let credentials = message.credentials;
        call.host.own.unix_mut(key).inbox.push_front(message);
        hand_over(call, key, room, credentials, files, &mut received);
    } else {
        call.host.own.settle(&mut call.host.net, &message);
        call.host.own.inbox_drained(&mut call.host.net, key, was_full);
        hand_over(call, key, room, message.credentials, message.files, &mut received);
    }
    Ok(received)
}

/// Receives stream bytes across segments. Stops after a segment with open files and, with `SO_PASSCRED`,
/// before one with other credentials.
fn receive_stream(
    call: &mut Call<'_>,
    key: SocketKey,
    room: &Incoming,
    done: usize,
) -> Result<ReceivedMessage, Errno> {
    let peek = room.flags & c::MSG_PEEK != 0;
    let pass_credentials = call.host.net.socket(key).options.pass_credentials;
    let (data, whole) = collect(call, key, room.len.saturating_sub(done), pass_credentials);
    call.scatter_at(&room.buffers, done as u64, &data)?;

    let first = &call.host.own.unix(key).inbox[0];
    let (credentials, source): (PeerCredentials, _) = (
        first.credentials,
        first.source.clone().or_else(|| call.host.own.unix_name_of(&call.host.net, first.sender)),
    );
    let mut received =
        ReceivedMessage { value: data.len(), name: name_of(room, source.as_ref()), ..Default::default() };
    let mut files = Vec::new();
    let mut left = data.len();
    for at in 0..whole {
        let at = if peek { at } else { 0 };
        if peek {
            let sent = call.host.own.unix(key).inbox[at].files.clone();
            files.extend(retained(call, sent));
            continue;
        }
        let message = &mut call.host.own.unix_mut(key).inbox[at];
        files.append(&mut message.files);
        let part = left.min(message.data.len() - message.taken);
        message.taken += part;
        left -= part;
        if message.taken == message.data.len() {
            let message = call.host.own.unix_mut(key).inbox.pop_front().expect("it was looked at");
            call.host.own.settle(&mut call.host.net, &message);
        }
    }
    hand_over(call, key, room, credentials, files, &mut received);
    Ok(received)
}

/// Returns the bytes that a read of at most `len` bytes receives, and the number of segments it touches.
fn collect(call: &mut Call<'_>, key: SocketKey, len: usize, same_sender: bool) -> (Vec<u8>, usize) {
    let inbox = &call.host.own.unix(key).inbox;
    let mut data = Vec::new();
    let mut touched = 0;
    let sender = inbox.front().map(|message| message.credentials);
    for message in inbox {
        // A read of 0 bytes receives the ancillary data of the next segment.
        if (data.len() == len && touched > 0) || (same_sender && Some(message.credentials) != sender) {
            break;
        }
        let rest = &message.data[message.taken..];
        let part = rest.len().min(len - data.len());
        data.extend_from_slice(&rest[..part]);
        touched += 1;
        if !message.files.is_empty() {
            break;
        }
    }
    (data, touched)
}
