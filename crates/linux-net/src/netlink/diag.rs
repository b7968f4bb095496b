//! `NETLINK_SOCK_DIAG`, sock_diag(7): TCP, UDP, UDP-Lite and UNIX (`unix_diag`) sockets, as `ss` lists them,
//! with its filters (`include/uapi/linux/inet_diag.h`). Requests for other families fail as on a kernel
//! without their modules, and `ss` reads `/proc/net` instead.

use super::Requester;
use super::message::{ACK, DONE, DUMP, MULTI, Message, Request};
use super::requests::{error_message, ip_bytes};
use crate::Admin;
use crate::options;
use crate::proc::{CLOSE, LISTEN, tcp_sockets, udp_sockets};
use belljar_linux_abi::{Errno, c};
use belljar_netstack::SocketKey;
use belljar_netstack::socket::SocketKind;
use belljar_netstack::tcp::Role;
use belljar_netstack::udp::Protocol;
use std::net::{IpAddr, SocketAddr};

/// `SOCK_DIAG_BY_FAMILY`, `SOCK_DESTROY`.
pub(super) const BY_FAMILY: u16 = 20;
const DESTROY: u16 = 21;
/// Length of `struct inet_diag_req_v2` in bytes, and the offset of its `struct inet_diag_sockid`.
const REQUEST: usize = 56;
const ID_AT: usize = 8;
/// `INET_DIAG_REQ_BYTECODE`.
const BYTECODE: u16 = 1;
/// Optional attributes of an answer; a request selects them by bits, from 1.
const MEMINFO: u16 = 1;
const INFO: u16 = 2;
const CONG: u16 = 4;
const TOS: u16 = 5;
const SKMEMINFO: u16 = 7;
/// `INET_DIAG_SKV6ONLY`, always present where it applies.
const SKV6ONLY: u16 = 11;
/// Maximum size of a datagram in bytes into which messages are packed, as programs read at once.
const DATAGRAM: usize = 8_192;

/// Socket as reported to `ss` and in `/proc/net`.
#[derive(Clone, Debug)]
pub struct InetSocketInfo {
    /// Key of the socket.
    pub key: SocketKey,
    /// `AF_INET` or `AF_INET6`.
    pub domain: i32,
    /// Local address.
    pub local: SocketAddr,
    /// Remote address.
    pub remote: SocketAddr,
    /// State number, as in `/proc/net/tcp`.
    pub state: u8,
    /// Unacknowledged bytes, or the backlog of a listening socket.
    pub send_queue: usize,
    /// Unread bytes, or the number of connections waiting to be accepted.
    pub receive_queue: usize,
    /// Inode number; 0 if no program holds the socket.
    pub inode: u64,
    /// User id of the owner.
    pub uid: u32,
    /// True if the program chose the port.
    pub port_chosen: bool,
    /// Datagrams dropped for lack of buffer space.
    pub drops: u64,
}

/// Selector of a request besides family and protocol.
struct Query<'a> {
    states: u32,
    source_port: u16,
    destination_port: u16,
    bytecode: &'a [u8],
}

impl Admin<'_> {
    /// Answers the requests sent to a `NETLINK_SOCK_DIAG` socket; returns the datagrams.
    pub fn answer_diag(&mut self, requests: &[u8], asker: Requester) -> Vec<Vec<u8>> {
        let port = asker.port;
        let mut answers = Vec::new();
        let mut rest = requests;
        while let Some((request, tail)) = Request::split(rest) {
            rest = tail;
            match self.diag_request(&request, port) {
                Ok(messages) if request.flags & DUMP == DUMP => {
                    answers.extend(together(messages));
                    answers.push(Message::new(DONE, MULTI, request.sequence, port).put(&[0; 4]).finish());
                }
                Ok(messages) => {
                    answers.extend(messages);
                    if request.flags & ACK != 0 {
                        answers.push(error_message(&request, asker, None));
                    }
                }
                Err(errno) => answers.push(error_message(&request, asker, Some(errno.into()))),
            }
        }
        answers
    }

    fn diag_request(&mut self, request: &Request<'_>, port: u32) -> Result<Vec<Vec<u8>>, Errno> {
        match request.kind {
            BY_FAMILY => {}
            DESTROY => return Err(Errno::EOPNOTSUPP),
            _ => return Err(Errno::EINVAL),
        }
        let family = request.body.first().copied().map(i32::from).ok_or(Errno::EINVAL)?;
        if family == c::AF_UNIX {
            return self.unix_diag(request, request.flags & DUMP == DUMP, port);
        }
        if !matches!(family, c::AF_INET | c::AF_INET6) {
            return Err(Errno::ENOENT);
        }
        let (Some([_, protocol, extensions, _, states @ ..]), true) =
            (request.body.first_chunk::<8>(), request.body.len() >= REQUEST)
        else {
            return Err(Errno::EINVAL);
        };
        let sockets = match i32::from(*protocol) {
            c::IPPROTO_TCP => tcp_sockets(self.net, family),
            c::IPPROTO_UDP => udp_sockets(self.net, family, Protocol::Udp),
            c::IPPROTO_UDPLITE => udp_sockets(self.net, family, Protocol::Lite),
            _ => return Err(Errno::ENOENT),
        };
        let id = &request.body[ID_AT..];
        let query = Query {
            states: u32::from_ne_bytes(*states),
            source_port: u16::from_be_bytes([id[0], id[1]]),
            destination_port: u16::from_be_bytes([id[2], id[3]]),
            bytecode: request.attribute(REQUEST, BYTECODE).unwrap_or(&[]),
        };
        if request.flags & DUMP != DUMP {
            let wanted = Ends::read(family, id);
            let found = sockets.iter().find(|socket| wanted.are_of(socket));
            let found = found.or_else(|| sockets.iter().find(|socket| wanted.may_reach(socket)));
            let found = found.ok_or(Errno::ENOENT)?.clone();
            return Ok(vec![self.diag_message(&found, *extensions, 0, request.sequence, port)]);
        }
        let mut messages = Vec::new();
        for socket in &sockets {
            if self.is_wanted(socket, &query)? {
                messages.push(self.diag_message(socket, *extensions, MULTI, request.sequence, port));
            }
        }
        Ok(messages)
    }

    fn is_wanted(&self, socket: &InetSocketInfo, query: &Query<'_>) -> Result<bool, Errno> {
        let is = |wanted: u16, port: u16| wanted == 0 || wanted == port;
        Ok(query.states & 1u32.checked_shl(socket.state.into()).unwrap_or(0) != 0
            && is(query.source_port, socket.local.port())
            && is(query.destination_port, socket.remote.port())
            && passes(query.bytecode, socket, &self.net.sockets[socket.key.0].options)?)
    }

    /// Running timer: its number, consecutive expirations, and milliseconds to the next.
    fn diag_timer(&self, key: SocketKey) -> (u8, u8, u32) {
        let SocketKind::Tcp(tcp) = &self.net.sockets[key.0].kind else { return (0, 0, 0) };
        let Role::Connection(connection) = &tcp.role else { return (0, 0, 0) };
        let Some((timer, retries, at)) = connection.shown_timer() else { return (0, 0, 0) };
        (timer, retries, at.since(self.net.clock.local()).as_millis() as u32)
    }

    /// `struct inet_diag_msg` with the selected attributes.
    fn diag_message(
        &mut self,
        socket: &InetSocketInfo,
        extensions: u8,
        flags: u16,
        sequence: u32,
        port: u32,
    ) -> Vec<u8> {
        let (rcvbuf, sndbuf, device, serial) = {
            let own = &self.net.sockets[socket.key.0];
            let options = &own.options;
            (options.receive_buffer, options.send_buffer, options.bound_device.unwrap_or(0), own.serial)
        };
        let (timer, retries, expires) = self.diag_timer(socket.key);
        let mut head = vec![socket.domain as u8, socket.state, timer, retries];
        head.extend(socket.local.port().to_be_bytes());
        head.extend(socket.remote.port().to_be_bytes());
        for end in [socket.local, socket.remote] {
            let mut octets = octets(socket.domain, end.ip());
            octets.resize(16, 0);
            head.extend(octets);
        }
        let (received, queued) = (socket.receive_queue as u32, socket.send_queue as u32);
        // Interface, cookie, timer expiration, queues, owner, inode.
        for word in [device, serial, 0, expires, received, queued, socket.uid, socket.inode as u32] {
            head.extend(word.to_ne_bytes());
        }
        let asked = |kind: u16| extensions & (1 << (kind - 1)) != 0;
        let mut message = Message::new(BY_FAMILY, flags, sequence, port).put(&head);
        if asked(MEMINFO) {
            message = message.attribute(MEMINFO, &words(&[received, queued, 0, 0]));
        }
        if asked(TOS)
            && let Some(options) = self.net.sockets[socket.key.0].ip_options()
        {
            message = message.attribute(TOS, &[options.tos]);
        }
        if socket.domain == c::AF_INET6
            && matches!(socket.state, LISTEN | CLOSE)
            && let Some(options) = self.net.sockets[socket.key.0].ip_options()
        {
            // As on Linux, binding to an IPv6 address implies it (`inet6_bind`).
            let own = matches!(socket.local.ip(), IpAddr::V6(ip) if !ip.is_unspecified() && ip.to_ipv4_mapped().is_none());
            message = message.attribute(SKV6ONLY, &[(options.v6_only || own).into()]);
        }
        if asked(SKMEMINFO) {
            let values = [received, rcvbuf, 0, sndbuf, 0, queued, 0, 0, socket.drops as u32];
            message = message.attribute(SKMEMINFO, &words(&values));
        }
        for (kind, option) in [(INFO, c::TCP_INFO), (CONG, c::TCP_CONGESTION)] {
            if asked(kind)
                && let Ok(value) = options::tcp::get(self.net, socket.key, option)
            {
                let len = if kind == CONG {
                    value.iter().take_while(|b| **b != 0).count() + 1
                } else {
                    value.len()
                };
                message = message.attribute(kind, &value[..len.min(value.len())]);
            }
        }
        message.finish()
    }
}

/// Attribute value of native-endian words.
pub(crate) fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_ne_bytes()).collect()
}

/// Packs messages into datagrams of moderate size.
fn together(messages: Vec<Vec<u8>>) -> Vec<Vec<u8>> {
    let mut datagrams: Vec<Vec<u8>> = Vec::new();
    for message in messages {
        match datagrams.last_mut() {
            Some(last) if last.len() + message.len() <= DATAGRAM => last.extend(message),
            _ => datagrams.push(message),
        }
    }
    datagrams
}

/// Address as shown for a socket of this family; IPv4 addresses are mapped for IPv6.
fn octets(domain: i32, ip: IpAddr) -> Vec<u8> {
    match ip {
        IpAddr::V4(v4) if domain == c::AF_INET6 => v4.to_ipv6_mapped().octets().to_vec(),
        ip => ip_bytes(ip),
    }
}

/// Endpoints in a request for one socket.
struct Ends {
    ports: (u16, u16),
    source: Vec<u8>,
    destination: Vec<u8>,
}

impl Ends {
    fn read(family: i32, id: &[u8]) -> Ends {
        let len = if family == c::AF_INET6 { 16 } else { 4 };
        Ends {
            ports: (u16::from_be_bytes([id[0], id[1]]), u16::from_be_bytes([id[2], id[3]])),
            source: id[4..4 + len].to_vec(),
            destination: id[20..20 + len].to_vec(),
        }
    }
    fn are_of(&self, socket: &InetSocketInfo) -> bool {
        self.ports == (socket.local.port(), socket.remote.port())
            && self.source == octets(socket.domain, socket.local.ip())
            && self.destination == octets(socket.domain, socket.remote.ip())
    }
    /// True if a packet between these endpoints reaches an unconnected socket.
    fn may_reach(&self, socket: &InetSocketInfo) -> bool {
        let local = socket.local.ip();
        socket.remote.port() == 0
            && self.ports.0 == socket.local.port()
            && (local.is_unspecified() || self.source == octets(socket.domain, local))
    }
}

/// Opcodes of the filter language, `INET_DIAG_BC_*`.
mod op {
    pub const NOP: u8 = 0;
    pub const JMP: u8 = 1;
    pub const SOURCE_GE: u8 = 2;
    pub const SOURCE_LE: u8 = 3;
    pub const DESTINATION_GE: u8 = 4;
    pub const DESTINATION_LE: u8 = 5;
    pub const AUTO: u8 = 6;
    pub const SOURCE: u8 = 7;
    pub const DESTINATION: u8 = 8;
    pub const DEVICE: u8 = 9;
    pub const MARK: u8 = 10;
    pub const SOURCE_EQ: u8 = 11;
    pub const DESTINATION_EQ: u8 = 12;
}

/// Runs a filter: it advances by `yes` bytes if an operation's condition holds, else by `no`, and accepts the
/// socket if it stops exactly at its end. `EINVAL` for an invalid jump.
fn passes(
    bytecode: &[u8],
    socket: &InetSocketInfo,
    options: &belljar_netstack::socket::SocketOptions,
) -> Result<bool, Errno> {
    let mut at = 0;
    while at < bytecode.len() {
        let rest = &bytecode[at..];
        let [code, yes, low, high, operand @ ..] = rest else { return Err(Errno::EINVAL) };
        let no = u16::from_ne_bytes([*low, *high]);
        // A port is in the `no` field of a second operation.
        let port = || match operand {
            [_, _, low, high, ..] => Ok(u16::from_ne_bytes([*low, *high])),
            _ => Err::<u16, Errno>(Errno::EINVAL),
        };
        let word = |at: usize| -> Result<u32, Errno> {
            let bytes = operand.get(at..at + 4).ok_or(Errno::EINVAL)?;
            Ok(u32::from_ne_bytes(bytes.try_into().expect("four bytes")))
        };
        let (source, destination) = (socket.local.port(), socket.remote.port());
        let holds = match *code {
            op::NOP => true,
            op::JMP => false,
            op::SOURCE_GE => source >= port()?,
            op::SOURCE_LE => source <= port()?,
            op::SOURCE_EQ => source == port()?,
            op::DESTINATION_GE => destination >= port()?,
            op::DESTINATION_LE => destination <= port()?,
            op::DESTINATION_EQ => destination == port()?,
            op::AUTO => !socket.port_chosen,
            op::SOURCE => is_at(socket.domain, socket.local, operand)?,
            op::DESTINATION => is_at(socket.domain, socket.remote, operand)?,
            op::DEVICE => options.bound_device.unwrap_or(0) == word(0)?,
            op::MARK => options.mark & word(4)? == word(0)?,
            _ => return Err(Errno::EINVAL),
        };
        let step = if holds { usize::from(*yes) } else { usize::from(no) };
        if step < 4 || step % 4 != 0 {
            return Err(Errno::EINVAL);
        }
        at += step;
    }
    Ok(at == bytecode.len())
}

/// Evaluates a `struct inet_diag_hostcond`: family, prefix length, port (-1 for any), address.
fn is_at(domain: i32, end: SocketAddr, condition: &[u8]) -> Result<bool, Errno> {
    let Some(([family, len, _, _, port @ ..], prefix)) = condition.split_first_chunk::<8>() else {
        return Err(Errno::EINVAL);
    };
    let (family, port) = (i32::from(*family), i32::from_ne_bytes(*port));
    if port != -1 && port != i32::from(end.port()) {
        return Ok(false);
    }
    let own = octets(domain, end.ip());
    let len = usize::from(*len);
    let begins = |own: &[u8]| -> Result<bool, Errno> {
        let (whole, bits) = (len / 8, len % 8);
        if len > own.len() * 8 || prefix.len() < len.div_ceil(8) {
            return Err(Errno::EINVAL);
        }
        Ok(own[..whole] == prefix[..whole] && (bits == 0 || (own[whole] ^ prefix[whole]) >> (8 - bits) == 0))
    };
    match (family, &own[..]) {
        (c::AF_INET, [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, v4 @ ..]) if v4.len() == 4 => begins(v4),
        (family, _) if family != c::AF_UNSPEC && family != domain => Ok(false),
        _ if len == 0 => Ok(true),
        (_, own) => begins(own),
    }
}
