//! `/proc/net/tcp`, `udp`, `raw`, `sockstat` and `dev`, in Linux's columns.

use crate::counters::InterfaceCounters;
use crate::netlink::InetSocketInfo;
use crate::socket_inode;
use belljar_linux_abi::c;
use belljar_netstack::endpoint::Bound;
use belljar_netstack::socket::{Socket, SocketKind};
use belljar_netstack::tcp::Role;
use belljar_netstack::udp::Protocol;
use belljar_netstack::{SocketKey, Stack, address};
use std::fmt::Write;
use std::net::{IpAddr, SocketAddr};

/// State number of an unconnected socket, as in `/proc/net/tcp`.
pub const CLOSE: u8 = 7;
/// State number of a listening socket.
pub const LISTEN: u8 = 10;
/// State number of an established connection.
pub const ESTABLISHED: u8 = 1;
/// State number of a connection in TIME-WAIT.
const TIME_WAIT: u8 = 6;

/// Line of a socket.
struct Line {
    local: SocketAddr,
    remote: SocketAddr,
    state: u8,
    send_queue: usize,
    receive_queue: usize,
    inode: u64,
    uid: u32,
    drops: u64,
}

impl Line {
    fn of(socket: &InetSocketInfo) -> Line {
        Line {
            local: socket.local,
            remote: socket.remote,
            state: socket.state,
            send_queue: socket.send_queue,
            receive_queue: socket.receive_queue,
            inode: socket.inode,
            uid: socket.uid,
            drops: socket.drops,
        }
    }
}

/// Address as Linux prints it: 32-bit words in native byte order, in hexadecimal.
fn hex(domain: i32, address: SocketAddr) -> String {
    let mut text = String::new();
    let octets = match (domain, address.ip()) {
        (c::AF_INET6, IpAddr::V4(v4)) => v4.to_ipv6_mapped().octets().to_vec(),
        (_, IpAddr::V4(v4)) => v4.octets().to_vec(),
        (_, IpAddr::V6(v6)) => v6.octets().to_vec(),
    };
    for word in octets.chunks_exact(4) {
        let word = u32::from_le_bytes(word.try_into().expect("four bytes"));
        let _ = write!(text, "{word:08X}");
    }
    let _ = write!(text, ":{:04X}", address.port());
    text
}

fn none(domain: i32) -> SocketAddr {
    SocketAddr::new(address::unspecified(domain), 0)
}

fn shown(domain: i32, bound: Option<Bound>) -> SocketAddr {
    bound.map_or(none(domain), |bound| bound.shown(domain))
}

/// TCP sockets of a family that have a port or a connection.
pub fn tcp_sockets(net: &Stack, domain: i32) -> Vec<InetSocketInfo> {
    let sockets = net.own_sockets().filter_map(|(key, socket)| {
        let SocketKind::Tcp(tcp) = &socket.kind else { return None };
        let key = SocketKey(key);
        let (local, remote, state, send_queue, receive_queue) = match &tcp.role {
            // A socket without a port is not listed.
            Role::Idle => return None,
            Role::Listening(listener) => {
                let waiting = listener.queue_lengths().1;
                (shown(domain, tcp.bound), none(domain), LISTEN, listener.backlog(), waiting)
            }
            Role::Connection(connection) => (
                connection.local(),
                connection.remote(),
                connection.state().linux_number(),
                connection.unacknowledged_bytes(),
                connection.readable_bytes(),
            ),
        };
        let inode = if tcp.orphan || tcp.parent.is_some() { 0 } else { socket_inode(net, key) };
        let port_chosen = tcp.bound.is_some_and(|bound| bound.port_chosen);
        let shown = InetSocketInfo {
            key,
            domain,
            local,
            remote,
            state,
            send_queue,
            receive_queue,
            inode,
            uid: socket.uid,
            port_chosen,
            drops: 0,
        };
        (socket.domain == domain && state != CLOSE).then_some(shown)
    });
    sockets.collect()
}

/// UDP or UDP-Lite sockets of a family that are bound to a port.
pub fn udp_sockets(net: &Stack, domain: i32, protocol: Protocol) -> Vec<InetSocketInfo> {
    let sockets = net.own_sockets().filter_map(|(key, socket)| {
        let SocketKind::Udp(udp) = &socket.kind else { return None };
        let bound = udp.bound?;
        let shown = InetSocketInfo {
            key: SocketKey(key),
            domain,
            local: bound.shown(domain),
            remote: udp.peer.unwrap_or(none(domain)),
            state: if udp.peer.is_some() { ESTABLISHED } else { CLOSE },
            send_queue: udp.sending.bytes as usize,
            receive_queue: udp.queued_charge as usize,
            inode: socket_inode(net, SocketKey(key)),
            uid: socket.uid,
            port_chosen: bound.port_chosen,
            drops: udp.drops,
        };
        (socket.domain == domain && udp.protocol == protocol).then_some(shown)
    });
    sockets.collect()
}

/// `/proc/net/tcp` (`AF_INET`) or `/proc/net/tcp6` (`AF_INET6`).
pub fn proc_net_tcp(net: &Stack, domain: i32) -> String {
    // The send queue of a listening socket is shown as 0 here.
    let lines = tcp_sockets(net, domain).into_iter().map(|socket| Line {
        send_queue: if socket.state == LISTEN { 0 } else { socket.send_queue },
        ..Line::of(&socket)
    });
    let head = match domain {
        c::AF_INET => {
            "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode"
        }
        _ => {
            "  sl  local_address                         remote_address                        \
             st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode"
        }
    };
    let tail = |line: &Line| format!("{} 1 0000000000000000 100 0 0 10 0", line.inode);
    table(head, domain, lines, tail)
}

/// `/proc/net/udp` (`AF_INET`) or `/proc/net/udp6` (`AF_INET6`), and the UDP-Lite files.
pub fn proc_net_udp(net: &Stack, domain: i32, protocol: Protocol) -> String {
    let lines = udp_sockets(net, domain, protocol).into_iter().map(|socket| Line::of(&socket));
    let head = match domain {
        c::AF_INET => {
            "   sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   \
             uid  timeout inode ref pointer drops"
        }
        _ => {
            "  sl  local_address                         remote_address                        \
             st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode ref pointer drops"
        }
    };
    let tail = |line: &Line| format!("{} 2 0000000000000000 {}", line.inode, line.drops);
    table(head, domain, lines, tail)
}

/// `/proc/net/raw`: the protocol appears in the port field.
pub fn proc_net_raw(net: &Stack) -> String {
    let lines = net.own_sockets().filter_map(|(key, socket)| {
        let SocketKind::Raw(raw) = &socket.kind else { return None };
        let end = |ip: Option<IpAddr>, port: u8| {
            SocketAddr::new(ip.unwrap_or(address::unspecified(socket.domain)), port.into())
        };
        let line = Line {
            local: end(raw.local, raw.protocol),
            remote: end(raw.end.peer, 0),
            state: if raw.end.peer.is_some() { ESTABLISHED } else { CLOSE },
            send_queue: 0,
            receive_queue: raw.end.queued_bytes(),
            inode: socket_inode(net, SocketKey(key)),
            uid: socket.uid,
            drops: 0,
        };
        (socket.domain == c::AF_INET).then_some(line)
    });
    let head = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   \
                uid  timeout inode ref pointer drops";
    table(head, c::AF_INET, lines, |line| format!("{} 2 0000000000000000 {}", line.inode, line.drops))
}

/// Numbers of sockets of a family for `/proc/net/sockstat`.
struct InUse {
    tcp: usize,
    /// TCP connections in TIME-WAIT, which `tcp` does not include.
    waiting: usize,
    udp: usize,
    udplite: usize,
    raw: usize,
}

impl InUse {
    fn of(net: &Stack, domain: i32) -> InUse {
        let tcp = tcp_sockets(net, domain);
        let waiting = tcp.iter().filter(|socket| socket.state == TIME_WAIT).count();
        let is_raw = |socket: &Socket| socket.domain == domain && matches!(socket.kind, SocketKind::Raw(_));
        InUse {
            tcp: tcp.len() - waiting,
            waiting,
            udp: udp_sockets(net, domain, Protocol::Udp).len(),
            udplite: udp_sockets(net, domain, Protocol::Lite).len(),
            raw: net.own_sockets().filter(|(_, socket)| is_raw(socket)).count(),
        }
    }
}

/// `/proc/net/sockstat`. Memory is not counted in pages here.
pub fn proc_net_sockstat(net: &Stack, used: usize) -> String {
    let [v4, v6] = [c::AF_INET, c::AF_INET6].map(|domain| InUse::of(net, domain));
    let waiting = v4.waiting + v6.waiting;
    let (mut all, mut orphans) = (0, 0);
    for (_, socket) in net.own_sockets() {
        if let SocketKind::Tcp(tcp) = &socket.kind {
            all += 1;
            orphans += usize::from(tcp.orphan);
        }
    }
    format!(
        "sockets: used {used}\nTCP: inuse {} orphan {} tw {waiting} alloc {} mem 0\nUDP: inuse {} mem 0\nUDPLITE: inuse {}\nRAW: inuse {}\n\
         FRAG: inuse 0 memory 0\n",
        v4.tcp,
        orphans.max(waiting) - waiting,
        all - waiting,
        v4.udp,
        v4.udplite,
        v4.raw,
    )
}

/// `/proc/net/sockstat6`.
pub fn proc_net_sockstat6(net: &Stack) -> String {
    let InUse { tcp, udp, udplite, raw, .. } = InUse::of(net, c::AF_INET6);
    format!(
        "TCP6: inuse {tcp}\nUDP6: inuse {udp}\nUDPLITE6: inuse {udplite}\nRAW6: inuse {raw}\nFRAG6: inuse 0 memory 0\n"
    )
}

/// `/proc/net/dev`.
pub fn proc_net_dev(net: &Stack) -> String {
    let mut text = String::from(
        "Inter-|   Receive                                                |  Transmit\n \
         face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop \
         fifo colls carrier compressed\n",
    );
    for interface in net.interfaces.iter().filter(|interface| interface.exists()) {
        let InterfaceCounters { received, sent, dropped_out, errors_in, missed } =
            InterfaceCounters::of(net, interface);
        let _ = writeln!(
            text,
            "{:>6}: {:>7} {:>7} {errors_in:>4} {missed:>4}    0     0          0         0 {:>8} {:>7}    0 {dropped_out:>4}    0     \
             0       0          0",
            interface.name, received.0, received.1, sent.0, sent.1
        );
    }
    text
}

/// Table whose lines are padded as in Linux.
fn table(
    head: &str,
    domain: i32,
    lines: impl Iterator<Item = Line>,
    tail: impl Fn(&Line) -> String,
) -> String {
    let mut text = format!("{head:<149}\n");
    for (n, line) in lines.enumerate() {
        let entry = format!(
            "{n:>4}: {} {} {:02X} {:08X}:{:08X} 00:00000000 00000000 {:>5}        0 {}",
            hex(domain, line.local),
            hex(domain, line.remote),
            line.state,
            line.send_queue,
            line.receive_queue,
            line.uid,
            tail(&line)
        );
        let _ = writeln!(text, "{entry:<149}");
    }
    text
}
