//! Socket operations for owners without system calls: traffic models, and devices with an address of their
//! own. Each operation is a non-blocking attempt; [`Effect::Ready`](crate::Effect::Ready) reports when to
//! retry.

use crate::socket::SocketKind;
use crate::{SocketKey, Stack, ping, raw, tcp, udp};
use belljar_linux_abi::{Errno, c};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

impl Stack {
    /// Creates a TCP socket that listens at an address of this node, or at all of them (the unspecified
    /// address).
    pub fn listen(&mut self, at: SocketAddr, backlog: usize) -> Result<SocketKey, Errno> {
        let key = tcp::create(self, domain(at.ip()))?;
        self.socket(key).options.reuse_address = true;
        let ip = Some(at.ip()).filter(|ip| !ip.is_unspecified());
        let listening = self.tcp_bind(key, ip, at.port()).and_then(|()| self.tcp_listen(key, backlog));
        self.kept_if(key, listening)
    }
    /// Accepts the next connection of a listener. Returns it with its peer address, which is unspecified if
    /// the connection is closed already; `None` if the queue is empty.
    pub fn accept(&mut self, listener: SocketKey) -> Result<Option<(SocketKey, SocketAddr)>, Errno> {
        let Some(child) = self.tcp_accept(listener)? else { return Ok(None) };
        let remote = self.sockets.tcp(child).connection().map(|connection| connection.remote());
        let nobody = SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), 0);
        Ok(Some((child, remote.unwrap_or(nobody))))
    }
    /// Creates a TCP socket and connects it to a peer: see [`is_connected`](Self::is_connected).
    pub fn connect(&mut self, to: SocketAddr) -> Result<SocketKey, Errno> {
        let key = tcp::create(self, domain(to.ip()))?;
        let begun = self.tcp_connect(key, to);
        self.flush_network();
        self.kept_if(key, begun)
    }
    /// True if the connection is established; fails with the error of a failed connection attempt.
    pub fn is_connected(&mut self, key: SocketKey) -> Result<bool, Errno> {
        self.tcp_connected(key)
    }
    /// Reads received bytes of a connection; `Some(0)` if there are none, `None` at the end of the stream.
    pub fn read(&mut self, key: SocketKey, out: &mut [u8]) -> Result<Option<usize>, Errno> {
        self.tcp_read(key, out.len(), |connection, now| connection.recv(out, now))
    }
    /// Discards up to `most` received bytes.
    pub fn discard(&mut self, key: SocketKey, most: usize) -> Result<Option<usize>, Errno> {
        self.tcp_read(key, most, |connection, now| connection.discard(most, now))
    }
    /// Writes bytes to a connection. Returns the number accepted.
    pub fn write(&mut self, key: SocketKey, data: &[u8]) -> Result<usize, Errno> {
        self.tcp_write(key, data)
    }
    /// Closes the sending direction of a connection after the transmission of all written data.
    pub fn finish(&mut self, key: SocketKey) {
        let now = self.clock.now();
        if let Some(connection) = self.sockets.tcp(key).connection() {
            connection.shutdown_write(now);
        }
        self.tcp_pump(key);
        self.flush_network();
    }
    /// The `EPOLL*` bits currently set, see [`readiness`](crate::readiness).
    pub fn poll(&self, key: SocketKey) -> u32 {
        match self.sockets[key.0].kind {
            SocketKind::Tcp(_) => tcp::readiness(self, key),
            SocketKind::Udp(_) => udp::readiness(self, key),
            SocketKind::Ping(_) => ping::readiness(self, key),
            SocketKind::Raw(_) => raw::readiness(self, key),
            SocketKind::Other => 0,
        }
    }
    /// Closes a socket. A connection continues until all data has been sent, as after `close(2)`.
    pub fn close(&mut self, key: SocketKey) {
        match self.sockets[key.0].kind {
            SocketKind::Tcp(_) => tcp::close(self, key),
            SocketKind::Udp(_) => udp::close(self, key),
            SocketKind::Ping(_) => ping::close(self, key),
            SocketKind::Raw(_) => raw::close(self, key),
            SocketKind::Other => unreachable!("its owner closes it"),
        }
    }
    /// Creates a UDP socket bound to a port on all addresses of this node.
    pub fn bind_udp(&mut self, port: u16) -> Result<SocketKey, Errno> {
        let key = udp::create(self, c::AF_INET, udp::Protocol::Udp)?;
        let bound = self.udp_bind(key, None, port, true);
        self.kept_if(key, bound)
    }
    /// Sends a datagram. Returns false if the send buffer is full.
    pub fn send_to(&mut self, key: SocketKey, to: SocketAddr, payload: &[u8]) -> Result<bool, Errno> {
        Ok(self.udp_send(key, &udp::Bytes { to, payload })?.is_some())
    }
    /// Receives the next datagram's payload into `out` and returns its source; `None` if the queue is empty.
    pub fn receive_from(&mut self, key: SocketKey, out: &mut Vec<u8>) -> Result<Option<SocketAddr>, Errno> {
        out.clear();
        let Some(datagram) = self.udp_take(key)? else { return Ok(None) };
        out.extend_from_slice(&datagram.packet[datagram.payload.clone()]);
        let source = datagram.source;
        self.udp_taken(key, datagram, false);
        Ok(Some(source))
    }

    /// Returns the key of a socket, or closes the socket if its setup failed.
    fn kept_if<T>(&mut self, key: SocketKey, made: Result<T, Errno>) -> Result<SocketKey, Errno> {
        match made {
            Ok(_) => Ok(key),
            Err(errno) => {
                self.close(key);
                Err(errno)
            }
        }
    }
}

fn domain(ip: IpAddr) -> i32 {
    if ip.is_ipv4() { c::AF_INET } else { c::AF_INET6 }
}

#[cfg(test)]
mod tests {
    use crate::readiness::{EPOLLRDHUP, READABLE};
    use crate::testing::stack_at;
    use crate::{Departure, Effect, SocketKey, Stack};
    use belljar_base::{EventClass, EventKey, HostId, SimDuration, SimTime};
    use std::net::{Ipv4Addr, SocketAddr};

    /// Two nodes 10 ms apart.
    struct Pair {
        stacks: [Stack; 2],
        sequence: u64,
    }

    impl Pair {
        fn new() -> Pair {
            Pair { stacks: [1, 2].map(|n| stack_at(Ipv4Addr::new(11, 0, 0, n))), sequence: 0 }
        }
        /// Advances the time and carries packets between the nodes.
        fn pass(&mut self, time: SimDuration) {
            let until = self.stacks[0].clock.now() + time;
            loop {
                for from in [0, 1] {
                    let mut departures: Vec<Departure> = Vec::new();
                    self.stacks[from].take_departures(&mut departures);
                    for departure in departures {
                        self.sequence += 1;
                        let key = EventKey {
                            time: departure.at + SimDuration::from_millis(10),
                            class: EventClass::Arrival,
                            source: HostId(from as u32),
                            sequence: self.sequence,
                        };
                        self.stacks[1 - from].deliver(key, departure.link, departure.packet);
                    }
                }
                let next = self.stacks.iter().filter_map(Stack::next_event).min();
                let Some(at) = next.filter(|at| *at <= until) else { break };
                self.stacks.iter_mut().for_each(|stack| stack.pass_until(at));
            }
            self.stacks.iter_mut().for_each(|stack| stack.pass_until(until));
        }
        /// The bits newly set at a socket since the last call.
        fn told(&mut self, node: usize, key: SocketKey) -> u32 {
            let mut effects = Vec::new();
            self.stacks[node].take_effects(&mut effects);
            let told = effects.iter().filter_map(|effect| match effect {
                Effect::Ready(of, bits) if *of == key => Some(*bits),
                _ => None,
            });
            told.fold(0, |all, bits| all | bits)
        }
    }

    #[test]
    fn a_stack_alone_serves_tcp_connections() {
        let mut pair = Pair::new();
        let listener = pair.stacks[1].listen(SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), 80), 10).unwrap();
        let client = pair.stacks[0].connect(SocketAddr::new([11, 0, 0, 2].into(), 80)).unwrap();
        assert_eq!(pair.stacks[0].is_connected(client), Ok(false));
        pair.pass(SimDuration::from_millis(31));
        assert_eq!(pair.stacks[0].is_connected(client), Ok(true));
        assert_ne!(pair.told(1, listener) & READABLE, 0);
        let (server, peer) = pair.stacks[1].accept(listener).unwrap().expect("a connection");
        assert_eq!(peer.ip(), Ipv4Addr::new(11, 0, 0, 1));
        assert!(pair.stacks[1].accept(listener).unwrap().is_none());

        assert_eq!(pair.stacks[0].write(client, b"a question"), Ok(10));
        pair.stacks[0].finish(client);
        let mut bytes = [0; 100];
        assert_eq!(pair.stacks[1].read(server, &mut bytes), Ok(Some(0)));
        pair.pass(SimDuration::from_millis(11));
        assert_eq!(pair.stacks[1].poll(server) & (READABLE | EPOLLRDHUP), READABLE | EPOLLRDHUP);
        assert_eq!(pair.stacks[1].read(server, &mut bytes), Ok(Some(10)));
        assert_eq!(&bytes[..10], b"a question");
        assert_eq!(pair.stacks[1].read(server, &mut bytes), Ok(None));
        pair.stacks[1].close(server);
        pair.stacks[0].close(client);
        pair.stacks[1].close(listener);
        pair.pass(SimDuration::from_secs(120));
        assert!(pair.stacks.iter().all(|stack| stack.sockets.is_empty() && stack.next_event().is_none()));
        assert_eq!(pair.stacks[0].clock.now(), SimTime::ZERO + SimDuration::from_millis(120_042));
    }

    #[test]
    fn nobody_listens_there() {
        let mut pair = Pair::new();
        let client = pair.stacks[0].connect(SocketAddr::new([11, 0, 0, 2].into(), 80)).unwrap();
        pair.pass(SimDuration::from_millis(21));
        assert_eq!(pair.stacks[0].is_connected(client), Err(belljar_linux_abi::Errno::ECONNREFUSED));
    }

    #[test]
    fn datagrams_go_there_and_back() {
        let mut pair = Pair::new();
        let [a, b] = [0, 1].map(|n: usize| pair.stacks[n].bind_udp(53).unwrap());
        assert_eq!(pair.stacks[0].send_to(a, SocketAddr::new([11, 0, 0, 2].into(), 53), b"hello"), Ok(true));
        pair.pass(SimDuration::from_millis(11));
        let mut bytes = Vec::new();
        let from = pair.stacks[1].receive_from(b, &mut bytes).unwrap();
        assert_eq!((from, &bytes[..]), (Some(SocketAddr::new([11, 0, 0, 1].into(), 53)), &b"hello"[..]));
        assert_eq!(pair.stacks[1].bind_udp(53), Err(belljar_linux_abi::Errno::EADDRINUSE));
    }
}
