//! `listen`, `connect` and `accept`.

use super::control::credentials_of;
use super::names::name_space;
use super::{ARRIVED, ROOM, new_socket};
use crate::call::Call;
use crate::host::Host;
use crate::ids::SocketKey;
use crate::net::message::Attempt;
use belljar_linux_abi::{Errno, c};
use belljar_linux_net::unix_address::UnixAddress;
use belljar_objects::unix_sockets::{PeerRef, UnixRole};

/// `listen(2)`; on a listening socket, changes the backlog.
pub fn listen(call: &mut Call<'_>, key: SocketKey, backlog: usize) -> Result<(), Errno> {
    if call.host.net.socket(key).type_ == c::SOCK_DGRAM {
        return Err(Errno::EOPNOTSUPP);
    }
    let credentials = credentials_of(call);
    let socket = call.host.own.unix_mut(key);
    if socket.address.is_none() {
        return Err(Errno::EINVAL);
    }
    match &mut socket.role {
        UnixRole::Connected => return Err(Errno::EINVAL),
        UnixRole::Unconnected => socket.role = UnixRole::Listening { backlog, waiting: Default::default() },
        UnixRole::Listening { backlog: present, .. } => *present = backlog,
    }
    socket.credentials = credentials;
    socket.peer_credentials = Some(credentials);
    call.host.net.effects.notify_socket(key, ROOM);
    Ok(())
}

/// `connect(2)`. The connection is established at once; the call waits if the backlog is full.
pub fn connect(call: &mut Call<'_>, key: SocketKey, raw: &[u8], _again: bool) -> Result<Attempt<()>, Errno> {
    let datagrams = call.host.net.socket(key).type_ == c::SOCK_DGRAM;
    if datagrams && raw.len() >= 2 && raw[..2] == (c::AF_UNSPEC as u16).to_le_bytes() {
        set_destination(call.host, key, None, None);
        return Ok(Attempt::Done(()));
    }
    let address = UnixAddress::parse(raw)?.ok_or(Errno::EINVAL)?;
    if call.host.net.socket(key).options.pass_credentials {
        call.host.own.autobind(&mut call.host.net, key);
    }
    if datagrams { connect_datagrams(call, key, address) } else { connect_stream(call, key, &address) }
}

/// Sets the peer of a datagram socket: its default destination and only sender.
fn connect_datagrams(
    call: &mut Call<'_>,
    key: SocketKey,
    address: UnixAddress,
) -> Result<Attempt<()>, Errno> {
    let target = call.host.find_unix(call.process, &address, key)?;
    if !may_send(call.host, key, target) {
        return Err(Errno::EPERM);
    }
    set_destination(call.host, key, Some(target), Some(address));
    Ok(Attempt::Done(()))
}

/// True if datagram socket `to` accepts messages from `from`: a connected one accepts only those of its peer.
pub(super) fn may_send(host: &Host, from: SocketKey, to: SocketKey) -> bool {
    let own = PeerRef::to(&host.net, from);
    host.own.unix(to).peer.is_none_or(|peer| peer == own)
}

fn set_destination(host: &mut Host, key: SocketKey, target: Option<SocketKey>, address: Option<UnixAddress>) {
    let own = PeerRef::to(&host.net, key);
    let peer = target.map(|target| PeerRef::to(&host.net, target));
    let socket = host.own.unix_mut(key);
    let before = std::mem::replace(&mut socket.peer, peer);
    socket.peer_address = address;
    if before == peer {
        return;
    }
    if let Some(target) = target {
        host.own.unix_mut(target).connected_from.push(own);
    }
    let Some(before) = before else { return };
    // Unread messages of the former peer are dropped; if there were any, that peer gets `ECONNRESET`.
    let was_full = host.own.unix_inbox_full(key);
    let lost = std::mem::take(&mut host.own.unix_mut(key).inbox);
    let any_lost = !lost.is_empty();
    for message in lost {
        host.own.settle(&mut host.net, &message);
        for file in message.files {
            host.release_file(file);
        }
    }
    if let Some(former) = before.alive(&host.net) {
        host.own.unix_mut(former).connected_from.retain(|from| *from != own);
        if any_lost && host.own.unix(former).peer == Some(own) {
            host.net.socket(former).error = Some(Errno::ECONNRESET);
            host.net.effects.notify_socket(former, u32::MAX);
        }
    }
    host.own.inbox_drained(&mut host.net, key, was_full);
}

fn connect_stream(call: &mut Call<'_>, key: SocketKey, address: &UnixAddress) -> Result<Attempt<()>, Errno> {
    let (network, type_) = name_space(&call.host.net, key);
    let listener = call.host.find_unix(call.process, address, key)?;
    let listening = call.host.own.unix(listener);
    if !matches!(listening.role, UnixRole::Listening { .. }) || listening.shut_read {
        return Err(Errno::ECONNREFUSED);
    }
    if call.host.own.unix_inbox_full(listener) {
        return Ok(Attempt::Wait(listener.into()));
    }
    // Linux checks the caller's own state only now.
    match call.host.own.unix(key).role {
        UnixRole::Unconnected => {}
        UnixRole::Connected => return Err(Errno::EISCONN),
        UnixRole::Listening { .. } => return Err(Errno::EINVAL),
    }
    let credentials = credentials_of(call);
    let host = &mut *call.host;
    let child = new_socket(host, network, type_);
    host.net.socket(child).options = host.net.socket(listener).options.clone();
    let (client_ref, child_ref) = (PeerRef::to(&host.net, key), PeerRef::to(&host.net, child));
    let listener_file = host.own.unix(listener).file;
    let (listener_address, listener_credentials) =
        (host.own.unix(listener).address.clone(), host.own.unix(listener).credentials);

    let client = host.own.unix_mut(key);
    client.role = UnixRole::Connected;
    client.peer = Some(child_ref);
    client.peer_address = listener_address.clone();
    client.peer_credentials = Some(listener_credentials);
    client.credentials = credentials;
    let client_address = client.address.clone();

    let accepted = host.own.unix_mut(child);
    accepted.role = UnixRole::Connected;
    accepted.embryo = true;
    accepted.address = listener_address;
    accepted.file = listener_file;
    accepted.peer = Some(client_ref);
    accepted.peer_address = client_address;
    accepted.peer_credentials = Some(credentials);
    accepted.credentials = listener_credentials;

    match &mut host.own.unix_mut(listener).role {
        UnixRole::Listening { waiting, .. } => waiting.push_back(child),
        _ => return Err(Errno::ECONNREFUSED),
    }
    host.net.effects.notify_socket(listener, ARRIVED);
    host.net.effects.notify_socket(key, ROOM);
    Ok(Attempt::Done(()))
}

/// `accept(2)`. Only a blocking call reports that the listener is shut down.
pub fn accept(call: &mut Call<'_>, key: SocketKey, waits: bool) -> Result<Attempt<SocketKey>, Errno> {
    if call.host.net.socket(key).type_ == c::SOCK_DGRAM {
        return Err(Errno::EOPNOTSUPP);
    }
    let queue = key.into();
    let socket = call.host.own.unix_mut(key);
    let shut = socket.shut_read;
    let UnixRole::Listening { waiting, .. } = &mut socket.role else { return Err(Errno::EINVAL) };
    match waiting.pop_front() {
        Some(child) => {
            // Notify callers of `connect(2)` that found the backlog full.
            call.host.net.effects.notify_socket(key, ROOM);
            call.host.own.unix_mut(child).embryo = false;
            Ok(Attempt::Done(child))
        }
        None if shut && waits => Err(Errno::EINVAL),
        None => Ok(Attempt::Wait(queue)),
    }
}
