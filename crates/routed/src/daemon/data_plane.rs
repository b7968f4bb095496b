//! Data plane of a reactive protocol: packets without a route, the use of routes, and released packets.
//!
//! * A default route with the highest metric leads into a TUN interface, over which the kernel passes packets
//!   without another route. In a mesh, packets to the interfaces' own networks come here too: two routes to
//!   the halves of each network are more specific than the kernel's own.
//! * A packet socket captures the addresses of passing packets, and the neighbours that sent them. It has no
//!   ring: rings with `packetio`'s headers are unavailable on some kernels that this daemon supports. If the
//!   data plane counts flows itself, the socket captures only packets from and to this machine.
//! * Packets for which a route was found are sent by a raw socket, and the kernel routes them like any other.

use super::interfaces::Interfaces;
use crate::error::{Doing, Error, warn};
use crate::netlink::KernelRoute;
use crate::tun;
use crate::updater::Reactive;
use belljar_base::{Map, Set};
use belljar_packetio::Filter;
use belljar_routing::{Prefix, Released, Verdict};
use belljar_wire::{ethernet, icmpv4, ipv4, protocol};
use nix::sys::socket::{LinkAddr, MsgFlags, SockaddrIn, recvfrom, sendto};
use std::io;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

/// Metric of the route into the TUN interface, higher than all others.
const LAST_RESORT: u32 = 9999;
/// Captured bytes of a packet: the longest IPv4 header, and UDP's.
const LOOKED_AT: usize = 68;
/// Largest number of packets captured before the protocol is notified.
const BATCH: usize = 512;
/// Upper bound on the neighbours with known link-layer addresses.
const MOST_NEIGHBORS: usize = 4096;

/// The index of an interface and a link-layer address on its link.
type Station = (usize, [u8; 6]);

/// Packets captured by the packet socket.
#[derive(Default)]
pub struct Passed {
    /// Source and destination addresses.
    pub pairs: Set<(Ipv4Addr, Ipv4Addr)>,
    /// Neighbours that sent them, each with the index of the receiving interface.
    pub neighbors: Set<(u32, Ipv4Addr)>,
}

/// TUN interface, packet socket and raw socket.
pub struct DataPlane {
    fds: Reactive,
    index: u32,
    /// Indices of the monitored interfaces.
    watched: Set<usize>,
    /// Addresses of neighbours, from the protocol's packets.
    stations: Map<Station, Ipv4Addr>,
    /// True if the packet socket captures only packets from and to this machine.
    own_only: bool,
}

impl DataPlane {
    /// Takes the descriptors; `tun` is the name of the TUN interface.
    pub fn new(
        fds: Reactive,
        tun: &str,
        interfaces: &Interfaces,
        own_only: bool,
    ) -> Result<DataPlane, Error> {
        if std::fs::read_to_string("/proc/sys/net/ipv4/ip_forward").is_ok_and(|value| value.trim() == "0") {
            warn("net.ipv4.ip_forward is 0: packets of others are not forwarded here");
        }
        let mut plane = DataPlane {
            fds,
            index: tun::index_of(tun)?,
            watched: Set::new(),
            stations: Map::new(),
            own_only,
        };
        plane.look(interfaces)?;
        Ok(plane)
    }

    /// Updates the monitored interfaces and this machine's addresses.
    pub fn look(&mut self, interfaces: &Interfaces) -> Result<(), Error> {
        let now = || interfaces.now.iter().flatten();
        self.watched = now().map(|link| link.index as usize).collect();
        if self.own_only {
            // The filter must pass the neighbours' broadcasts.
            let own = now().filter_map(|link| link.address).chain([Ipv4Addr::BROADCAST]);
            Filter::ipv4_addresses(&own.collect::<Vec<_>>())
                .attach(self.fds.watch.as_fd())
                .doing("set the packet socket's filter")?;
        }
        Ok(())
    }

    /// The routes into the TUN interface; in a mesh they include those to the interfaces' networks.
    pub fn routes(&self, source: Option<Ipv4Addr>, interfaces: &Interfaces, mesh: bool) -> Vec<KernelRoute> {
        let route = |destination, bits| KernelRoute {
            destination,
            bits,
            gateway: None,
            interface: self.index,
            metric: LAST_RESORT,
            source,
        };
        let mut routes = vec![route(Ipv4Addr::UNSPECIFIED, 0)];
        let networks = interfaces.now.iter().flatten().filter(|_| mesh).filter_map(|link| {
            // The halves of a smaller network are single addresses, the destinations of the protocol's
            // routes.
            link.address.filter(|_| link.network_bits < 31).map(|address| (address, link.network_bits))
        });
        for (address, bits) in networks {
            let half = 1 << (31 - bits);
            for address in [u32::from(address) & !half, u32::from(address) | half] {
                routes.push(route(Prefix::new(address.into(), bits + 1).address(), bits + 1));
            }
        }
        routes
    }

    /// Descriptors to poll: packets without a route, and captured packets.
    pub fn fds(&self) -> [BorrowedFd<'_>; 2] {
        [self.fds.tun.fd(), self.fds.watch.as_fd()]
    }

    /// The next IPv4 packet without a route.
    pub fn next_packet(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        self.fds.tun.receive(buffer)
    }

    /// Captured packets, except the protocol's own on UDP port `port`.
    pub fn used(&mut self, port: u16) -> Passed {
        let mut passed = Passed::default();
        let mut head = [0; LOOKED_AT];
        for _ in 0..BATCH {
            // The monitor reports an interface that went down.
            let Ok((len, from)) = recvfrom::<LinkAddr>(self.fds.watch.as_raw_fd(), &mut head) else { break };
            let ipv4 = |from: &LinkAddr| from.protocol().to_be() == ethernet::ethertype::IPV4;
            let Some(from) = from.filter(|from| ipv4(from) && self.watched.contains(&from.ifindex())) else {
                continue;
            };
            let station = from.addr().map(|address| (from.ifindex(), address));
            match (Seen::new(&head[..len], port), station) {
                (Some(Seen::Protocol(neighbor)), Some(station))
                    if self.stations.len() < MOST_NEIGHBORS || self.stations.contains_key(&station) =>
                {
                    self.stations.insert(station, neighbor);
                }
                (Some(Seen::Data(source, destination)), station) => {
                    passed.pairs.insert((source, destination));
                    let neighbor = station.and_then(|station| self.stations.get(&station));
                    passed.neighbors.extend(neighbor.map(|neighbor| (from.ifindex() as u32, *neighbor)));
                }
                _ => {}
            }
        }
        passed
    }

    /// Sends a released packet, or an ICMP error to its sender if its destination is unreachable.
    pub fn release(&self, released: &Released) {
        let Ok(header) = ipv4::Packet::new_checked(&released.packet[..]) else { return };
        let done = match released.verdict {
            Verdict::Send => self.send(header.dst(), &released.packet),
            Verdict::Unreachable if !header.src().is_unspecified() => {
                self.send(header.src(), &unreachable(&released.packet))
            }
            Verdict::Unreachable | Verdict::Dropped => Ok(()),
        };
        if let Err(error) = done {
            warn(format_args!("packet to {} not sent: {error}", header.dst()));
        }
    }

    fn send(&self, to: Ipv4Addr, packet: &[u8]) -> Result<(), Error> {
        let to = SockaddrIn::from(SocketAddrV4::new(to, 0));
        sendto(self.fds.raw.as_raw_fd(), packet, &to, MsgFlags::empty())
            .map(|_| ())
            .doing("send by the raw socket")
    }
}

/// A captured packet.
enum Seen {
    /// A packet of the protocol, with the address of its sender.
    Protocol(Ipv4Addr),
    /// Any other unicast packet, with its source and destination.
    Data(Ipv4Addr, Ipv4Addr),
}

impl Seen {
    /// Parses a captured packet; `None` if it is too short.
    fn new(head: &[u8], port: u16) -> Option<Seen> {
        if head.len() < ipv4::HEADER_LEN || head[0] >> 4 != 4 {
            return None;
        }
        let address = |at: usize| Ipv4Addr::new(head[at], head[at + 1], head[at + 2], head[at + 3]);
        let (source, destination) = (address(12), address(16));
        let to = usize::from(head[0] & 15) * 4 + 2;
        if head[9] == protocol::UDP && head.get(to..to + 2) == Some(&port.to_be_bytes()) {
            return Some(Seen::Protocol(source));
        }
        let many = destination.is_broadcast() || destination.is_multicast();
        (!many).then_some(Seen::Data(source, destination))
    }
}

/// An ICMP "destination host unreachable" for a packet, as if from the sender's own machine.
fn unreachable(packet: &[u8]) -> Vec<u8> {
    let Ok(header) = ipv4::Packet::new_checked(packet) else { return Vec::new() };
    let quote = &packet[..packet.len().min(548)];
    let error = icmpv4::Repr::Unreachable { reason: icmpv4::Unreachable::Host, quote };
    let payload_len = error.emitted_len();
    let outer = ipv4::Repr {
        src: header.src(),
        dst: header.src(),
        protocol: protocol::ICMP,
        payload_len,
        ttl: 64,
        tos: 0xc0,
        ident: 0,
        dont_fragment: false,
        more_fragments: false,
        fragment_offset: 0,
    };
    let mut out = vec![0; ipv4::HEADER_LEN + payload_len];
    outer.emit(&mut out);
    error.emit(&mut out[ipv4::HEADER_LEN..]);
    out
}
