mod linux;
mod v4;
mod v6;

use super::{Router, RouterConfig};
use crate::device::Device;
use belljar_base::{HostId, Seed, SimDuration, SimTime};
use belljar_net::frame::framed;
use belljar_net::switch::EgressFrame;
use belljar_net::{NicConfig, Packet};
use belljar_netstack::clock::DEFAULT_EPOCH_SECS;
use belljar_netstack::{LinkConfig, StackConfig};
use belljar_wire::ethernet::{self, Address, ethertype};
use belljar_wire::{arp, checksum, ipv6};
use std::net::{Ipv4Addr, Ipv6Addr};

/// Hardware address of a router's port.
fn own(port: usize) -> Address {
    Address([2, 0, 0, 0, port as u8, 1])
}
/// Hardware address of the station at a port.
fn station(port: usize) -> Address {
    Address([2, 0, 0, 0, port as u8, 9])
}
fn ip(text: &str) -> Ipv4Addr {
    text.parse().unwrap()
}
fn ip6(text: &str) -> Ipv6Addr {
    text.parse().unwrap()
}
fn s(n: u64) -> SimTime {
    SimTime::from_secs(n)
}
fn ms(n: u64) -> SimTime {
    SimTime::ZERO + SimDuration::from_millis(n)
}

/// Router configuration with a port for each of these MTUs: 10.0.N.1/24 and 2001:db8:N::1/64.
fn config(mtus: &[usize]) -> RouterConfig {
    let link = |(port, mtu): (usize, &usize)| LinkConfig {
        name: format!("eth{port}").into(),
        mac: own(port).0,
        mtu: *mtu,
        addresses: vec![format!("10.0.{port}.1/24").parse().unwrap()],
        addresses6: vec![format!("2001:db8:{port}::1/64").parse().unwrap()],
        nic: NicConfig::default(),
        carrier: true,
        ptp: None,
    };
    let stack = StackConfig {
        ipv6: true,
        links: mtus.iter().enumerate().map(link).collect(),
        ..StackConfig::new(HostId(0), "router", Seed(1))
    };
    RouterConfig { stack, advertise: Vec::new(), epoch_secs: DEFAULT_EPOCH_SECS }
}

/// IPv4 packet without options.
fn packet(from: &str, to: &str, ttl: u8, number: u8, payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; 20];
    bytes.extend_from_slice(payload);
    let len = bytes.len() as u16;
    (bytes[0], bytes[8], bytes[9]) = (0x45, ttl, number);
    bytes[2..4].copy_from_slice(&len.to_be_bytes());
    bytes[12..16].copy_from_slice(&ip(from).octets());
    bytes[16..20].copy_from_slice(&ip(to).octets());
    fill_header(&mut bytes);
    bytes
}
/// Computes the checksum of an IPv4 header without options.
fn fill_header(bytes: &mut [u8]) {
    bytes[10..12].fill(0);
    let sum = checksum::internet(&bytes[..20]);
    bytes[10..12].copy_from_slice(&sum.to_be_bytes());
}
/// ICMP echo request of `len` bytes.
fn echo(len: usize) -> Vec<u8> {
    let mut message = vec![7; len];
    message[..4].copy_from_slice(&[8, 0, 0, 0]);
    let sum = checksum::internet(&message);
    message[2..4].copy_from_slice(&sum.to_be_bytes());
    message
}

/// Router under test.
struct Bench(Router);

impl Bench {
    fn new(config: RouterConfig) -> Bench {
        Bench(Router::new(config))
    }
    /// Router with three ports that has resolved the stations 10.0.N.9.
    fn acquainted() -> Bench {
        let mut bench = Bench::new(config(&[1_500, 600, 1_500]));
        for port in 0..3 {
            let (theirs, ours) = (format!("10.0.{port}.9"), format!("10.0.{port}.1"));
            assert_eq!(bench.ask(port, &theirs, &ours).len(), 1, "a question is answered");
        }
        bench
    }
    /// Sends an ARP request from the station at a port; returns the frames sent.
    fn ask(&mut self, port: usize, theirs: &str, ours: &str) -> Vec<(usize, Address, Vec<u8>)> {
        let question = belljar_net::frame::arp_request(station(port), ip(theirs), ip(ours));
        let frame = belljar_net::frame::arp_frame(Address::BROADCAST, &question);
        self.receive(s(0), port, Packet::new(frame))
    }
    /// Receives a frame; returns the frames sent: port, destination, and payload of the Ethernet frame.
    fn receive(&mut self, now: SimTime, port: usize, frame: Packet) -> Vec<(usize, Address, Vec<u8>)> {
        Device::receive(&mut self.0, now, port, frame);
        self.left(now)
    }
    /// Receives a packet from the station at a port; returns the frames sent.
    fn send(&mut self, now: SimTime, port: usize, bytes: Vec<u8>) -> Vec<(usize, Address, Vec<u8>)> {
        let kind = if bytes[0] >> 4 == 6 { ethertype::IPV6 } else { ethertype::IPV4 };
        self.receive(now, port, framed(Packet::new(bytes), own(port), station(port), kind))
    }
    /// Frames sent up to `now`.
    fn left(&mut self, now: SimTime) -> Vec<(usize, Address, Vec<u8>)> {
        let shown = |leaving: EgressFrame| {
            let frame = ethernet::Frame::new_checked(leaving.packet.bytes()).unwrap();
            (leaving.port, frame.dst(), frame.payload().to_vec())
        };
        std::iter::from_fn(|| self.0.poll(now)).map(shown).collect()
    }
    /// Advances time; returns the frames sent, with their times.
    fn pass(&mut self, until: SimTime) -> Vec<(SimTime, usize, Vec<u8>)> {
        let mut all = Vec::new();
        while let Some(at) = self.0.next_event().filter(|at| *at <= until) {
            self.0.on_timeout(at);
            all.extend(self.left(at).into_iter().map(|(port, _, bytes)| (at, port, bytes)));
        }
        all
    }
    fn statistics(&self) -> belljar_results::RouterStatistics {
        let mut all = belljar_results::Statistics::default();
        self.0.add_statistics("router", &mut all);
        all.routers.remove("router").unwrap()
    }
}
