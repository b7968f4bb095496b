//! Name server of an emulation: it answers in every host's namespace, at the experiment's name-server
//! address on `lo`, after the same time as in a simulation.

use crate::clock::ExperimentClock;
use crate::error::{Doing, Result};
use crate::nodes::Node;
use belljar_base::{SimDuration, SimTime};
use belljar_config::Experiment;
use belljar_net::dns::{PORT, Zone};
use belljar_packetio::Namespace;
use nix::sys::socket::{AddressFamily, SockFlag, SockType, SockaddrIn, setsockopt, socket, sockopt};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io::{self, Read, Write};
use std::net::{SocketAddr, SocketAddrV4, TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsFd, AsRawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

/// Maximum size of a query in bytes.
const LONGEST: usize = 1 << 16;
/// Time after which a connection without a query is closed.
const PATIENCE: Duration = Duration::from_secs(10);

struct Server {
    udp: UdpSocket,
    tcp: TcpListener,
    /// Delay of an answer.
    delay: SimDuration,
    down: Arc<AtomicBool>,
}

/// Name server of all hosts.
pub struct Resolver {
    zone: Arc<Zone>,
    servers: Vec<Server>,
}

impl Resolver {
    /// Opens the name server's sockets in the namespace of each host. Setting a flag of the result stops
    /// the answers to that host.
    pub fn open(experiment: &Experiment, nodes: &mut [Node]) -> Result<(Resolver, Vec<Arc<AtomicBool>>)> {
        let zone = Arc::new(experiment.zone());
        let at = SocketAddrV4::new(zone.address, PORT);
        let mut servers = Vec::new();
        for (host, node) in experiment.hosts.iter().zip(nodes) {
            let lo = node.netlink.index("lo")?;
            node.netlink.add_address(lo, zone.address.into(), 32, true)?;
            let open = || {
                // A name server of the host's own may bind the wildcard address.
                let udp = bound(SockType::Datagram, at)?;
                let tcp = bound(SockType::Stream, at)?;
                Ok::<_, io::Error>((UdpSocket::from(udp), TcpListener::from(tcp)))
            };
            let opened: io::Result<_> = Namespace::Fd(node.fd()).run(|| Ok(open()))?;
            let (udp, tcp) = opened.doing(format!("opening the name server of host '{}'", host.name))?;
            let delay = one_way(experiment, host.node);
            servers.push(Server { udp, tcp, delay: delay + delay, down: Arc::default() });
        }
        let down = servers.iter().map(|server| server.down.clone()).collect();
        Ok((Resolver { zone, servers }, down))
    }

    /// Answers queries until `stop` is set.
    pub fn run(self, clock: ExperimentClock, stop: &AtomicBool) {
        let mut answers: Vec<(SimTime, usize, SocketAddr, Vec<u8>)> = Vec::new();
        let mut buffer = vec![0; LONGEST];
        while !stop.load(Relaxed) {
            let now = clock.time();
            answers.retain(|(due, server, to, answer)| {
                let is_due = *due <= now;
                if is_due {
                    let _ = self.servers[*server].udp.send_to(answer, to);
                }
                !is_due
            });
            for (number, server) in self.servers.iter().enumerate() {
                while let Ok((len, from)) = server.udp.recv_from(&mut buffer) {
                    let answer = self.zone.answer(&buffer[..len]).filter(|_| !server.down.load(Relaxed));
                    answers.extend(answer.map(|answer| (now + server.delay, number, from, answer)));
                }
                while let Ok((stream, _)) = server.tcp.accept() {
                    if !server.down.load(Relaxed) {
                        let (zone, delay) = (self.zone.clone(), clock.span(server.delay));
                        std::thread::spawn(move || converse(stream, &zone, delay));
                    }
                }
            }
            let due = answers.iter().map(|(due, ..)| *due).min();
            let most = Duration::from_millis(20);
            let wait = due.map_or(most, |due| clock.span(due.since(clock.time())).min(most));
            let sockets = self.servers.iter().flat_map(|s| [s.udp.as_fd(), s.tcp.as_fd()]);
            let mut fds: Vec<PollFd<'_>> =
                sockets.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)).collect();
            let timeout = Timespec { tv_sec: 0, tv_nsec: wait.subsec_nanos().into() };
            let _ = poll(&mut fds, Some(&timeout));
        }
    }
}

/// Returns a socket bound to an address with `SO_REUSEADDR`.
fn bound(kind: SockType, at: SocketAddrV4) -> io::Result<std::os::fd::OwnedFd> {
    let flags = SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC;
    let fd = socket(AddressFamily::Inet, kind, flags, None)?;
    setsockopt(&fd, sockopt::ReuseAddr, &true)?;
    nix::sys::socket::bind(fd.as_raw_fd(), &SockaddrIn::from(at))?;
    if kind == SockType::Stream {
        nix::sys::socket::listen(&fd, nix::sys::socket::Backlog::new(16)?)?;
    }
    Ok(fd)
}

/// Latency between a host and a service that is not on a host, as in a simulation.
fn one_way(experiment: &Experiment, node: Option<belljar_net::NodeIndex>) -> SimDuration {
    let near = SimDuration::from_millis(1);
    let Some(node) = node else { return near };
    let graph = &experiment.network.graph;
    let own = graph.path(node, node).map(|path| path.latency);
    own.or_else(|| graph.least_latency_from(node)).unwrap_or(near)
}

/// Answers the queries of a TCP connection.
fn converse(mut stream: TcpStream, zone: &Zone, delay: Duration) {
    let _ = stream.set_nonblocking(false);
    let _ = stream.set_read_timeout(Some(PATIENCE));
    let mut length = [0; 2];
    while stream.read_exact(&mut length).is_ok() {
        let mut question = vec![0; usize::from(u16::from_be_bytes(length))];
        if stream.read_exact(&mut question).is_err() {
            return;
        }
        let Some(answer) = zone.answer_over_tcp(&question) else { return };
        std::thread::sleep(delay);
        let length = (answer.len() as u16).to_be_bytes();
        if stream.write_all(&length).and_then(|()| stream.write_all(&answer)).is_err() {
            return;
        }
    }
}
