//! Stacks for unit tests.

use crate::clock::{Clock, CpuModel, DEFAULT_EPOCH_SECS};
use crate::udp::{self, Protocol};
use crate::{Departure, InitialRoute, InitialRoute6, LinkConfig, SocketKey, Stack, StackConfig};
use belljar_base::{EventClass, EventKey, HostId, Seed, SimDuration};
use belljar_linux_abi::c;
use belljar_net::routes::{InterfaceAddress, Prefix, Route, protocol as origin};
use belljar_net::{NicConfig, Packet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// The numbers of the hosts of a [`TestNetwork`].
pub const A: usize = 0;
/// The router between `A` and `B`.
pub const R: usize = 1;
/// The host beyond the router.
pub const B: usize = 2;
const NAMES: [&str; 3] = ["A", "R", "B"];
/// The number of the interface at a host's first link.
pub const ETH: usize = 1;
/// A group of IPv4.
pub const GROUP: Ipv4Addr = Ipv4Addr::new(239, 1, 1, 1);
/// A group of IPv6.
pub const GROUP6: Ipv6Addr = Ipv6Addr::new(0xff05, 0, 0, 0, 0, 0, 0, 7);

/// Creates a node on the graph with the address 11.0.0.1.
pub fn stack() -> Stack {
    stack_at(Ipv4Addr::new(11, 0, 0, 1))
}

/// Creates a node on the graph with this address.
pub fn stack_at(address: Ipv4Addr) -> Stack {
    let name = address.to_string();
    let config = StackConfig { address, on_graph: true, ..StackConfig::new(HostId(0), &name, Seed(1)) };
    Stack::new(config, Clock::new(DEFAULT_EPOCH_SECS, CpuModel::default()))
}

/// An IPv4 address in the network of a link.
pub fn v4(net: u8, host: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 0, net, host)
}
/// An IPv6 address in the network of a link.
pub fn v6(net: u16, host: u16) -> Ipv6Addr {
    Ipv6Addr::new(0x2001, 0xdb8, net, 0, 0, 0, 0, host)
}
/// The addresses of `B`.
pub fn far(v6_: bool) -> IpAddr {
    if v6_ { v6(2, 1).into() } else { v4(2, 1).into() }
}
/// The addresses of `A`.
pub fn own(v6_: bool) -> IpAddr {
    if v6_ { v6(1, 1).into() } else { v4(1, 1).into() }
}

/// A link of a host, with the address `number` in the network `net`.
pub fn link(host: usize, name: &str, net: u8, number: u8) -> LinkConfig {
    LinkConfig {
        name: name.into(),
        mac: [2, 0, 0, 0, net, host as u8],
        mtu: 1_500,
        addresses: vec![InterfaceAddress::new(v4(net, number), 24)],
        addresses6: vec![InterfaceAddress::new(v6(net.into(), number.into()), 64)],
        nic: NicConfig { framed: true, ..NicConfig::default() },
        carrier: true,
        ptp: None,
    }
}

fn node(host: usize) -> Stack {
    let links = match host {
        A => vec![link(host, "eth0", 1, 1)],
        R => vec![link(host, "eth0", 1, 2), link(host, "eth1", 2, 2)],
        _ => vec![link(host, "eth0", 2, 1)],
    };
    let (mut routes, mut routes6): (Vec<InitialRoute>, Vec<InitialRoute6>) = (Vec::new(), Vec::new());
    if host != R {
        let net = if host == A { 1 } else { 2 };
        routes.push((Prefix::ALL, 0, Route::by(ETH, Some(v4(net, 2)), origin::BOOT)));
        routes6.push((Prefix::ALL, 1_024, Route::by(ETH, Some(v6(net.into(), 2)), origin::BOOT)));
    }
    let config = StackConfig {
        links,
        routes,
        routes6,
        ipv6: true,
        forwarding: host == R,
        ..StackConfig::new(HostId(host as u32), NAMES[host], Seed(1))
    };
    Stack::new(config, Clock::new(DEFAULT_EPOCH_SECS, CpuModel::default()))
}

/// Decides whether a departed packet of a host is lost in transit; it may change the packet.
type Loss = Box<dyn FnMut(usize, &mut Packet) -> bool>;

/// Two hosts, `A` and `B`, on the links of a router `R`. The accounts of their packets balance whenever the
/// time passes and at the end.
pub struct TestNetwork {
    /// The stacks of the hosts.
    pub stacks: [Stack; 3],
    /// Loss in transit.
    pub loss: Loss,
    sequence: u64,
}

impl TestNetwork {
    /// The network at its start.
    pub fn new() -> TestNetwork {
        let mut stacks = [A, R, B].map(node);
        // The router forwards both IP versions.
        stacks[R].sysctls.forwarding6 = true;
        TestNetwork { stacks, loss: Box::new(|_, _| false), sequence: 0 }
    }
    /// Resolves the neighbours and completes router solicitation.
    pub fn warm_up(&mut self) {
        for v6_ in [false, true] {
            let probe = self.udp_socket(A, v6_, 0);
            self.send(probe, far(v6_), 10);
        }
        self.pass(SimDuration::from_secs(20));
    }
    /// Creates a UDP socket that is bound to this port.
    pub fn udp_socket(&mut self, host: usize, v6_: bool, port: u16) -> SocketKey {
        let domain = if v6_ { c::AF_INET6 } else { c::AF_INET };
        let key = udp::create(&mut self.stacks[host], domain, Protocol::Udp).unwrap();
        if v6_ {
            self.stacks[host].socket(key).ip_options_mut().unwrap().v6_only = true;
        }
        self.stacks[host].udp_bind(key, None, port, true).unwrap();
        key
    }
    /// Sends a datagram from `A` to port 9 of `to`.
    pub fn send(&mut self, key: SocketKey, to: IpAddr, len: usize) {
        assert_eq!(self.stacks[A].send_to(key, SocketAddr::new(to, 9), &vec![1; len]), Ok(true));
    }
    /// Lets time pass, and carries the packets between the hosts.
    pub fn pass(&mut self, time: SimDuration) {
        let until = self.stacks[0].clock.now() + time;
        loop {
            for from in [A, R, B] {
                let mut departures: Vec<Departure> = Vec::new();
                self.stacks[from].take_departures(&mut departures);
                for mut departure in departures {
                    if (self.loss)(from, &mut departure.packet) {
                        continue;
                    }
                    let (to, link) = match (from, departure.link.expect("there are links only")) {
                        (A, _) => (R, 0),
                        (R, 0) => (A, 0),
                        (R, _) => (B, 0),
                        (_, _) => (R, 1),
                    };
                    self.sequence += 1;
                    let key = EventKey {
                        time: departure.at + SimDuration::from_millis(1),
                        class: EventClass::Arrival,
                        source: HostId(from as u32),
                        sequence: self.sequence,
                    };
                    self.stacks[to].deliver(key, Some(link), departure.packet);
                }
            }
            let next = self.stacks.iter().filter_map(Stack::next_event).min();
            let Some(at) = next.filter(|at| *at <= until) else { break };
            self.stacks.iter_mut().for_each(|stack| stack.pass_until(at));
        }
        self.stacks.iter_mut().for_each(|stack| stack.pass_until(until));
        self.check();
    }
    /// Asserts that the accounts balance, and that the stacks have received all packets of their cards.
    pub fn check(&self) {
        for stack in &self.stacks {
            let account = stack.packet_account();
            assert_eq!(account.imbalance(), 0, "{}: {account:?}", stack.config.name);
            let received: u64 = stack.links.iter().map(|link| link.nic.counters().packets_in).sum();
            assert_eq!(account.received, received, "{}", stack.config.name);
        }
    }
}

impl Drop for TestNetwork {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.check();
        }
    }
}
