//! `AF_NETLINK` sockets, netlink(7): port ids, groups and queues. `belljar_linux_net` answers the requests.

use super::message::{Attempt, ControlMessage, Incoming, OutgoingMessage, RawAddress, ReceivedMessage};
use crate::call::Call;
use crate::credentials::capability;
use crate::host::Host;
use crate::ids::SocketKey;
use crate::net::own::{OwnKind, OwnSockets};
use belljar_linux_abi::{Errno, c};
use belljar_linux_net::{Multicast, Requester, netfilter};
use belljar_netstack::Stack;
use belljar_netstack::filter::Metadata;
use belljar_netstack::readiness::{READABLE, WRITABLE};
use belljar_netstack::socket::Socket;
use belljar_objects::namespaces::NamespaceKind;
use belljar_objects::netlink_sockets::NetlinkSocket;

/// Maximum number of unread datagrams in a socket's queue; further multicast messages are dropped.
const QUEUE_LIMIT: usize = 1_024;
/// `NETLINK_ADD_MEMBERSHIP` and `NETLINK_DROP_MEMBERSHIP`.
const ADD_MEMBERSHIP: i32 = 1;
const DROP_MEMBERSHIP: i32 = 2;
/// Options for the form of error acknowledgements.
const CAP_ACK: i32 = 10;
const EXT_ACK: i32 = 11;
/// `NETLINK_GET_STRICT_CHK`: queries are checked strictly.
const GET_STRICT_CHK: i32 = 12;

/// `struct sockaddr_nl`: family, padding, port id, groups.
fn sockaddr(port: u32, groups: u32) -> RawAddress {
    let mut raw = RawAddress::new();
    raw.extend_from_slice(&(c::AF_NETLINK as u16).to_ne_bytes());
    raw.extend_from_slice(&[0; 2]);
    raw.extend_from_slice(&port.to_ne_bytes());
    raw.extend_from_slice(&groups.to_ne_bytes());
    raw
}

fn parse_sockaddr(raw: &[u8]) -> Result<(u32, u32), Errno> {
    let word = |at: usize| -> Result<u32, Errno> {
        let bytes = raw.get(at..at + 4).ok_or(Errno::EINVAL)?;
        Ok(u32::from_ne_bytes(bytes.try_into().expect("four bytes")))
    };
    if belljar_netstack::address::family(raw)? != c::AF_NETLINK {
        return Err(Errno::EINVAL);
    }
    Ok((word(4)?, word(8)?))
}

/// Creates a netlink socket in a network.
pub fn create(host: &mut Host, network: u32, type_: i32, protocol: i32) -> Result<SocketKey, Errno> {
    if type_ != c::SOCK_RAW && type_ != c::SOCK_DGRAM {
        return Err(Errno::ESOCKTNOSUPPORT);
    }
    match protocol {
        c::NETLINK_ROUTE | c::NETLINK_GENERIC | c::NETLINK_SOCK_DIAG | c::NETLINK_NETFILTER => {}
        // No audit support, as in a kernel built without `CONFIG_AUDIT`.
        c::NETLINK_AUDIT => return Err(Errno::EPROTONOSUPPORT),
        _ => {
            host.warn(format!("netlink sockets of protocol {protocol} are not supported"));
            return Err(Errno::EPROTONOSUPPORT);
        }
    }
    let kind = OwnKind::Netlink(Box::default());
    Ok(host.own.add(&mut host.net, network, (c::AF_NETLINK, type_, protocol), kind))
}

pub fn bind(call: &mut Call<'_>, key: SocketKey, raw: &[u8]) -> Result<(), Errno> {
    let (port, groups) = parse_sockaddr(raw)?;
    let netlink = call.host.own.netlink(key);
    // The port id cannot be changed once it is set (`netlink_bind`).
    if netlink.port != 0 && netlink.port != port {
        return Err(Errno::EINVAL);
    }
    netlink.groups = groups;
    let has_port = netlink.port != 0;
    listen(call.host, key);
    if has_port {
        return Ok(());
    }
    if port == 0 {
        autobind(call, key);
        return Ok(());
    }
    let network = call.host.net.socket(key).network;
    if call.host.own.netlink_port_taken(&call.host.net, network, port) {
        return Err(Errno::EADDRINUSE);
    }
    call.host.own.netlink(key).port = port;
    Ok(())
}

/// Assigns a port id if the socket has none: the process id, or a random one if that is taken.
fn autobind(call: &mut Call<'_>, key: SocketKey) {
    if call.host.own.netlink(key).port != 0 {
        return;
    }
    let pid = call.host.process(call.process).pid;
    let mut port = call.host.processes.shown_pid(call.process, pid) as u32;
    let network = call.host.net.socket(key).network;
    while call.host.own.netlink_port_taken(&call.host.net, network, port) {
        port = 0x8000_0000 | call.host.stack_mut(network).ports.next_u32();
    }
    call.host.own.netlink(key).port = port;
}

pub fn connect(call: &mut Call<'_>, key: SocketKey, raw: &[u8], _again: bool) -> Result<Attempt<()>, Errno> {
    let (port, _) = parse_sockaddr(raw)?;
    if port != 0 {
        return Err(Errno::ECONNREFUSED);
    }
    autobind(call, key);
    Ok(Attempt::Done(()))
}

/// Requests are processed by the kernel synchronously: the answers are queued before the call returns.
pub fn send(
    call: &mut Call<'_>,
    key: SocketKey,
    message: &OutgoingMessage,
    _done: usize,
) -> Result<Attempt<usize>, Errno> {
    if message.flags & c::MSG_OOB != 0 {
        return Err(Errno::EOPNOTSUPP);
    }
    if let Some(raw) = &message.name
        && parse_sockaddr(raw)?.0 != 0
    {
        return Err(Errno::ECONNREFUSED);
    }
    autobind(call, key);
    let requests = call.gather(&message.buffers, 0, message.len)?;
    let NetlinkSocket { port, extended, capped, strict, .. } = *call.host.own.netlink(key);
    let right = call.host.processes.require_for(call.process, NamespaceKind::Net, capability::NET_ADMIN);
    let may_change = right.is_ok();
    let requester = Requester { port, extended, capped, strict, may_change };
    let Socket { protocol, network, .. } = *call.host.net.socket(key);
    let process = call.host.process(call.process).pid;
    let process = call.host.processes.shown_pid(call.process, process) as u32;
    let command = || String::from_utf8_lossy(&call.host.threads[call.thread.0].comm).into_owned();
    let of_netfilter = (protocol == c::NETLINK_NETFILTER).then(|| netfilter::NetfilterSender {
        port,
        extended,
        capped,
        may_change,
        process,
        command: command(),
    });
    let answers = call.host.administer(network, |admin| match protocol {
        c::NETLINK_SOCK_DIAG => admin.answer_diag(&requests, requester),
        c::NETLINK_NETFILTER => admin.answer_netfilter(&requests, &of_netfilter.unwrap_or_default()),
        protocol => admin.answer(&requests, requester, protocol == c::NETLINK_GENERIC),
    });
    for answer in answers {
        call.host.own.netlink_enqueue(&mut call.host.net, key, &answer);
    }
    call.host.stack_mut(network).flush_network();
    Ok(Attempt::Done(message.len))
}

pub fn receive(
    call: &mut Call<'_>,
    key: SocketKey,
    room: &Incoming,
    _done: usize,
) -> Result<Attempt<ReceivedMessage>, Errno> {
    if room.flags & c::MSG_OOB != 0 {
        return Err(Errno::EOPNOTSUPP);
    }
    let queue = key.into();
    let Some(data) = call.host.own.netlink(key).queue.pop_front() else { return Ok(Attempt::Wait(queue)) };
    let taken = data.len().min(room.len);
    let stored = call.scatter(&room.buffers, &data[..taken]);
    // The kernel's credentials are pid 0, uid 0 and gid 0; programs that set `SO_PASSCRED` check for them.
    let credentials = call.host.net.socket(key).options.pass_credentials.then(|| ControlMessage {
        level: c::SOL_SOCKET,
        type_: c::SCM_CREDENTIALS,
        data: vec![0; 12],
    });
    let received = ReceivedMessage {
        value: if room.flags & c::MSG_TRUNC != 0 { data.len() } else { taken },
        name: sockaddr(0, 0),
        control: credentials.into_iter().collect(),
        flags: if taken < data.len() { c::MSG_TRUNC } else { 0 },
    };
    if room.flags & c::MSG_PEEK != 0 {
        call.host.own.netlink(key).queue.push_front(data);
    }
    stored.map(|()| Attempt::Done(received))
}

pub fn shutdown(_call: &mut Call<'_>, _key: SocketKey, _how: i32) -> Result<(), Errno> {
    Err(Errno::EOPNOTSUPP)
}

pub fn local_name(host: &mut Host, key: SocketKey) -> Result<RawAddress, Errno> {
    let netlink = host.own.netlink(key);
    Ok(sockaddr(netlink.port, netlink.groups))
}

/// The peer is the kernel, port id 0.
pub fn peer_name(_host: &mut Host, _key: SocketKey) -> Result<RawAddress, Errno> {
    Ok(sockaddr(0, 0))
}

pub fn readiness(host: &Host, key: SocketKey) -> u32 {
    match host.own.get(key) {
        Some(OwnKind::Netlink(netlink)) if !netlink.queue.is_empty() => WRITABLE | READABLE,
        _ => WRITABLE,
    }
}

pub fn readable_bytes(_host: &mut Host, _key: SocketKey) -> Result<usize, Errno> {
    Err(Errno::EOPNOTSUPP)
}

pub fn unsent_bytes(_host: &mut Host, _key: SocketKey) -> Result<usize, Errno> {
    Err(Errno::EOPNOTSUPP)
}

pub fn close(host: &mut Host, key: SocketKey) {
    host.own.netlink(key).groups = 0;
    listen(host, key);
    host.own.remove(&mut host.net, key);
}

/// Options of level `SOL_NETLINK`: group membership and the form of error acknowledgements. Others have no
/// effect.
pub fn set_option(host: &mut Host, key: SocketKey, name: i32, value: u32) {
    let netlink = host.own.netlink(key);
    let bit = value.checked_sub(1).and_then(|n| 1u32.checked_shl(n)).unwrap_or(0);
    match name {
        ADD_MEMBERSHIP => netlink.groups |= bit,
        DROP_MEMBERSHIP => netlink.groups &= !bit,
        CAP_ACK => netlink.capped = value != 0,
        EXT_ACK => netlink.extended = value != 0,
        GET_STRICT_CHK => netlink.strict = value != 0,
        _ => {}
    }
    if [ADD_MEMBERSHIP, DROP_MEMBERSHIP].contains(&name) {
        listen(host, key);
    }
}

/// Tells netfilter the groups that sockets have joined, after a change of one of `NETLINK_NETFILTER`.
fn listen(host: &mut Host, key: SocketKey) {
    let Socket { protocol, network, .. } = *host.net.socket(key);
    if protocol != c::NETLINK_NETFILTER {
        return;
    }
    let mut groups = 0;
    for (other, kind) in host.own.iter() {
        let socket = &host.net.sockets[other.0];
        if let OwnKind::Netlink(netlink) = kind
            && (socket.protocol, socket.network) == (protocol, network)
        {
            groups |= netlink.groups;
        }
    }
    host.administer(network, |admin| admin.listen_to_netfilter(groups));
}

impl OwnSockets {
    /// Sends a message to the members of a multicast group of a network.
    pub(super) fn netlink_announce(&mut self, net: &mut Stack, network: u32, to: Multicast, message: &[u8]) {
        let bit = 1 << (to.group - 1);
        let member = |kind: &OwnKind| match kind {
            OwnKind::Netlink(netlink) => netlink.groups & bit != 0 && netlink.queue.len() < QUEUE_LIMIT,
            _ => false,
        };
        let here = |key: SocketKey| {
            let socket = &net.sockets[key.0];
            socket.network == network && socket.protocol == to.protocol
        };
        let sockets = self.iter().filter(|(key, kind)| here(*key) && member(kind));
        let members: Vec<SocketKey> = sockets.map(|(key, _)| key).collect();
        members.into_iter().for_each(|key| self.netlink_enqueue(net, key, message));
    }
    /// True if a socket's queue has reached the limit for multicast messages.
    pub(crate) fn netlink_is_full(&self, key: SocketKey) -> bool {
        matches!(self.get(key), Some(OwnKind::Netlink(netlink)) if netlink.queue.len() >= QUEUE_LIMIT)
    }
    /// Queues a datagram on a socket, truncated or dropped as the socket's filter decides.
    pub(crate) fn netlink_enqueue(&mut self, net: &mut Stack, key: SocketKey, message: &[u8]) {
        let Some(kept) = net.sockets[key.0].filtered(&mut net.filter_random, message, Metadata::default())
        else {
            return;
        };
        self.netlink(key).queue.push_back(message[..kept].to_vec());
        net.effects.notify_socket(key, READABLE);
    }
    fn netlink(&mut self, key: SocketKey) -> &mut NetlinkSocket {
        match self.get_mut(key) {
            Some(OwnKind::Netlink(netlink)) => netlink,
            other => unreachable!("not a netlink socket: {other:?}"),
        }
    }
    fn netlink_port_taken(&self, net: &Stack, network: u32, port: u32) -> bool {
        self.iter().any(|(key, kind)| match kind {
            OwnKind::Netlink(netlink) => netlink.port == port && net.sockets[key.0].network == network,
            _ => false,
        })
    }
}
