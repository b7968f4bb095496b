//! Two hosts connected by a wire with latency; the tests make their programs' system calls.

mod arrivals;
mod checksums;
mod icmp;
mod interfaces;
mod links;
mod networks;
mod tcp;
mod udp;
mod zero_copy;

use crate::host::Host;
use crate::testing::{Answer, TestHost};
use belljar_base::{EventClass, EventKey, HostId, SimDuration, SimTime};
use belljar_linux_abi::socket::{SockaddrIn, SockaddrIn6};
use belljar_linux_abi::{Errno, c};
use belljar_net::{ChecksumState, InterfaceAddress, Nic, NicConfig, Packet};
use belljar_netstack::event_loop::EventLoop;
use belljar_netstack::interface::Ethernet;
use belljar_netstack::readiness::READABLE;
use belljar_netstack::{ETH0, Stack};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use zerocopy::{FromBytes, IntoBytes};

/// Latency of the wire.
const LATENCY: SimDuration = SimDuration::from_millis(10);
/// Offsets in guest memory of a call's address argument, the address length, and the data.
const ADDRESS: u64 = 0;
const ADDRESS_LEN: u64 = 128;
const BUFFER: u64 = 4_096;
const A: usize = 0;
const B: usize = 1;

/// Two hosts, 11.0.0.1 and 11.0.0.2.
struct Wire {
    hosts: [TestHost; 2],
    sequence: u64,
    /// Packets sent by either host: time, sender, bytes.
    seen: Vec<(SimTime, usize, Vec<u8>)>,
    /// Checksum states of these packets at departure.
    checksums: Vec<ChecksumState>,
    /// Packets to drop, by index in `seen`.
    lost: Vec<usize>,
}

impl Wire {
    fn new() -> Wire {
        Wire::with_nic(&NicConfig::default())
    }
    fn with_nic(nic: &NicConfig) -> Wire {
        let hosts = [A, B].map(|n| {
            let mut test = TestHost::new(2);
            set_graph_address(&mut test.host, address(n));
            test.host.net.eth0 = Ethernet::new(Nic::new(nic));
            test
        });
        Wire { hosts, sequence: 0, seen: Vec::new(), checksums: Vec::new(), lost: Vec::new() }
    }
    /// Advances both hosts by `time` and carries packets between them.
    fn pass(&mut self, time: SimDuration) {
        let until = self.now() + time;
        self.carry();
        loop {
            let due = |n: usize| self.hosts[n].host.next_due();
            let Some(next) = [due(A), due(B)].into_iter().flatten().min().filter(|at| *at <= until) else {
                break;
            };
            self.hosts.iter_mut().for_each(|test| test.host.fire_until(next));
            self.carry();
        }
        self.hosts.iter_mut().for_each(|test| test.host.fire_until(until));
        self.carry();
    }
    fn carry(&mut self) {
        for from in [A, B] {
            let mut departures = Vec::new();
            self.hosts[from].host.net.take_departures(&mut departures);
            for departure in departures {
                let lost = self.lost.contains(&self.seen.len());
                self.seen.push((departure.at, from, departure.packet.clone().into_bytes()));
                self.checksums.push(departure.packet.checksum());
                if lost {
                    continue;
                }
                self.sequence += 1;
                let key = EventKey {
                    time: departure.at + LATENCY,
                    class: EventClass::Arrival,
                    source: HostId(from as u32),
                    sequence: self.sequence,
                };
                self.hosts[1 - from].host.net.deliver(key, departure.link, departure.packet);
            }
        }
    }
    fn now(&self) -> SimTime {
        self.hosts[A].host.net.clock.now()
    }
}

/// Changes the address of a host's graph interface.
fn set_graph_address(host: &mut Host, address: Ipv4Addr) {
    host.net.config.address = address;
    host.net = Stack::new(host.net.config.clone(), host.net.clock.clone());
}

fn address(host: usize) -> Ipv4Addr {
    Ipv4Addr::new(11, 0, 0, host as u8 + 1)
}

fn at(host: usize, port: u16) -> SocketAddr {
    SocketAddr::new(address(host).into(), port)
}

fn loopback(port: u16) -> SocketAddr {
    SocketAddr::new(Ipv4Addr::LOCALHOST.into(), port)
}

/// System calls of a program.
impl TestHost {
    fn socket(&mut self, domain: i32, type_: i32) -> u64 {
        self.call(c::SYS_socket, &[domain as u64, type_ as u64, 0]).expect("a socket")
    }
    fn udp4(&mut self) -> u64 {
        self.socket(c::AF_INET, c::SOCK_DGRAM)
    }
    fn tcp4(&mut self) -> u64 {
        self.socket(c::AF_INET, c::SOCK_STREAM)
    }
    /// Stores an address in guest memory; returns its length in bytes.
    fn put_address(&mut self, address: SocketAddr) -> u64 {
        let port = address.port().to_be_bytes();
        match address.ip() {
            IpAddr::V4(v4) => {
                let sin = SockaddrIn { family: c::AF_INET as u16, port, addr: v4.octets(), zero: [0; 8] };
                self.put(ADDRESS, sin.as_bytes());
                16
            }
            IpAddr::V6(v6) => {
                let sin6 = SockaddrIn6 {
                    family: c::AF_INET6 as u16,
                    port,
                    addr: v6.octets(),
                    ..SockaddrIn6::default()
                };
                self.put(ADDRESS, sin6.as_bytes());
                28
            }
        }
    }
    /// Address stored by the last call.
    fn stored_address(&self) -> SocketAddr {
        let raw = self.get(ADDRESS, 28);
        if raw[0] == c::AF_INET as u8 {
            let (sin, _) = SockaddrIn::read_from_prefix(&raw).unwrap();
            SocketAddr::new(sin.addr.into(), u16::from_be_bytes(sin.port))
        } else {
            let (sin6, _) = SockaddrIn6::read_from_prefix(&raw).unwrap();
            SocketAddr::new(sin6.addr.into(), u16::from_be_bytes(sin6.port))
        }
    }
    fn with_address(&mut self, number: i64, fd: u64, address: SocketAddr) -> Answer {
        let len = self.put_address(address);
        self.attempt(0, number, &[fd, crate::testing::DATA + ADDRESS, len])
    }
    fn bind(&mut self, fd: u64, address: SocketAddr) -> Result<u64, Errno> {
        ended(self.with_address(c::SYS_bind, fd, address))
    }
    fn connect(&mut self, fd: u64, address: SocketAddr) -> Answer {
        self.with_address(c::SYS_connect, fd, address)
    }
    fn name_of(&mut self, number: i64, fd: u64) -> Result<SocketAddr, Errno> {
        let base = crate::testing::DATA;
        self.put(ADDRESS_LEN, &28i32.to_le_bytes());
        self.call(number, &[fd, base + ADDRESS, base + ADDRESS_LEN])?;
        Ok(self.stored_address())
    }
    fn local(&mut self, fd: u64) -> SocketAddr {
        self.name_of(c::SYS_getsockname, fd).expect("a local name")
    }
    fn send_to(&mut self, fd: u64, data: &[u8], to: SocketAddr) -> Result<u64, Errno> {
        let len = self.put_address(to);
        let buffer = self.put(BUFFER, data);
        let args = [fd, buffer, data.len() as u64, 0, crate::testing::DATA + ADDRESS, len];
        self.call(c::SYS_sendto, &args)
    }
    fn send(&mut self, fd: u64, data: &[u8]) -> Answer {
        let buffer = self.put(BUFFER, data);
        self.attempt(0, c::SYS_sendto, &[fd, buffer, data.len() as u64, c::MSG_NOSIGNAL as u64])
    }
    /// Receives without waiting; returns the bytes and the sender's address.
    fn receive_from(&mut self, fd: u64) -> Result<(Vec<u8>, SocketAddr), Errno> {
        let base = crate::testing::DATA;
        self.put(ADDRESS_LEN, &28i32.to_le_bytes());
        let flags = c::MSG_DONTWAIT as u64;
        let args = [fd, base + BUFFER, 100_000, flags, base + ADDRESS, base + ADDRESS_LEN];
        let n = self.call(c::SYS_recvfrom, &args)?;
        Ok((self.get(BUFFER, n as usize), self.stored_address()))
    }
    fn receive(&mut self, fd: u64) -> Result<Vec<u8>, Errno> {
        let args = [fd, crate::testing::DATA + BUFFER, 100_000, c::MSG_DONTWAIT as u64];
        let n = self.call(c::SYS_recvfrom, &args)?;
        Ok(self.get(BUFFER, n as usize))
    }
    fn set(&mut self, fd: u64, level: i32, name: i32, value: i32) -> Result<u64, Errno> {
        let at = self.put(BUFFER, &value.to_le_bytes());
        self.call(c::SYS_setsockopt, &[fd, level as u64, name as u64, at, 4])
    }
    fn get_int(&mut self, fd: u64, level: i32, name: i32) -> Result<i32, Errno> {
        let len = self.put(ADDRESS_LEN, &4i32.to_le_bytes());
        let at = self.put(BUFFER, &[0; 4]);
        self.call(c::SYS_getsockopt, &[fd, level as u64, name as u64, at, len])?;
        Ok(i32::from_le_bytes(self.get(BUFFER, 4).try_into().unwrap()))
    }
    fn ready(&mut self, fd: u64) -> u32 {
        let file = self.host.file_of(self.process, fd as i32).expect("open");
        self.host.readiness(file)
    }
    fn close(&mut self, fd: u64) {
        self.call(c::SYS_close, &[fd]).expect("open");
    }
    fn listener(&mut self, address: SocketAddr) -> u64 {
        let fd = self.tcp4();
        self.bind(fd, address).expect("free");
        self.call(c::SYS_listen, &[fd, 10]).expect("bound");
        fd
    }
    fn accept(&mut self, fd: u64) -> Result<u64, Errno> {
        self.call(c::SYS_accept, &[fd, 0, 0])
    }
}

fn ended(answer: Answer) -> Result<u64, Errno> {
    match answer {
        Answer::Ended(result) => result,
        Answer::Blocked => panic!("the call waits"),
    }
}

fn millis(n: u64) -> SimDuration {
    SimDuration::from_millis(n)
}
