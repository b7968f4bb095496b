//! ICMP and ICMPv6: echo, and errors reported to sockets (RFC 792, RFC 4443).

use super::input::Inbound;
use super::route::ResolvedRoute;
use super::{IpHeader, Outbound};
use crate::account::{DropCause, Origin, PacketDisposition, Receiver};
use crate::conf::v4;
use crate::devices::vrf;
use crate::mib::version;
use crate::raw::RawError;
use crate::udp::Protocol;
use crate::{LO, Stack, buffers};
use belljar_linux_abi::Errno;
use belljar_net::forward::ForwardError;
use belljar_net::icmp_limit::IcmpMessage;
use belljar_net::{forward, forward6};
use belljar_tcp::Seq;
use belljar_wire::{checksum, icmpv6, ipv6, protocol};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

/// Length of an ICMP header in bytes.
pub const HEADER_LEN: usize = 8;
/// Maximum length of an ICMPv4 error in bytes, which bounds the quoted part of the packet (RFC 1812, section
/// 4.3.2.3).
const MAX_ERROR_V4: usize = 576;

/// The type of service of errors: internetwork control (RFC 1812, section 4.3.2.5).
pub const ERROR_TOS: u8 = 0xc0;
/// Traffic class of ICMPv6 errors: Linux sets none.
pub const ERROR_TOS_V6: u8 = 0;

/// ICMP and ICMPv6 message types.
pub(crate) mod kind {
    pub const ECHO_REPLY: u8 = 0;
    pub const UNREACHABLE: u8 = 3;
    pub const ECHO: u8 = 8;
    pub const TIME_EXCEEDED: u8 = 11;
    pub const V6_UNREACHABLE: u8 = 1;
    pub const V6_TOO_BIG: u8 = 2;
    pub const V6_PARAMETER_PROBLEM: u8 = 4;
    pub const V6_ROUTER_SOLICIT: u8 = 133;
    pub const REDIRECT: u8 = 5;
    pub const V6_REDIRECT: u8 = 137;
    pub const V6_ECHO: u8 = 128;
    pub const V6_ECHO_REPLY: u8 = 129;
}

/// Reason for which a packet cannot be delivered locally.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unreachable {
    /// No socket for the protocol.
    Protocol,
    /// No socket at the port.
    Port,
}

/// Computes and stores the checksum of an ICMP message.
pub fn fill_checksum(src: IpAddr, dst: IpAddr, message: &mut [u8]) {
    message[2..4].fill(0);
    let sum = match dst {
        IpAddr::V4(_) => checksum::internet(message),
        IpAddr::V6(_) => checksum::transport(src, dst, protocol::ICMPV6, message),
    };
    message[2..4].copy_from_slice(&sum.to_be_bytes());
}

impl Stack {
    /// Processes an ICMP message for this node.
    pub(super) fn icmp_input(&mut self, inbound: Inbound) -> PacketDisposition {
        let version = version(&inbound.header.dst);
        self.counters.icmp[version].received += 1;
        let (src, dst) = (inbound.header.src, inbound.header.dst);
        let message = inbound.payload();
        let intact = match dst {
            IpAddr::V4(_) => checksum::internet(message) == 0,
            IpAddr::V6(_) => checksum::transport(src, dst, protocol::ICMPV6, message) == 0,
        };
        if message.len() < HEADER_LEN || !intact {
            self.counters.malformed += 1;
            let counters = &mut self.counters.icmp[version];
            counters.in_errors += 1;
            counters.in_wrong_checksums += u64::from(!intact);
            buffers::recycle(inbound.packet);
            return PacketDisposition::dropped(if intact {
                DropCause::Malformed
            } else {
                DropCause::Checksum
            });
        }
        let (kind, code) = (message[0], message[1]);
        self.counters.icmp[version].count_received(kind);
        self.ping_input(&inbound);
        let mut end = PacketDisposition::consumed(Receiver::Icmp);
        match (kind, dst.is_ipv4()) {
            (kind::ECHO, true) | (kind::V6_ECHO, false) => self.echo_reply(&inbound),
            (kind::UNREACHABLE | kind::TIME_EXCEEDED, true)
            | (kind::V6_UNREACHABLE..=kind::V6_PARAMETER_PROBLEM, false) => {
                self.icmp_error(kind, code, &inbound);
            }
            (kind::REDIRECT, true) => self.redirected(&inbound),
            (icmpv6::kind::MLD_QUERY, false) => {
                if let IpAddr::V6(from) = src {
                    let (now, at) = (self.clock.now(), (inbound.interface, from));
                    if self.v6.group_query(&self.interfaces, at, inbound.payload(), now) {
                        self.v6.set_timer(&mut self.timers, now);
                    }
                }
                end = PacketDisposition::consumed(Receiver::Mld);
            }
            (kind::V6_ROUTER_SOLICIT..=kind::V6_REDIRECT, false) => end = self.discovery_input(&inbound),
            _ => {}
        }
        buffers::recycle(inbound.packet);
        end
    }

    fn echo_reply(&mut self, request: &Inbound) {
        let header = &request.header;
        // By default, Linux ignores broadcast pings but answers those to IPv6 groups.
        let to_many = self.interfaces.is_multipoint(header.dst);
        let v4 = header.dst.is_ipv4();
        if self.sysctls.echo_ignored[usize::from(!v4)] || to_many && v4 && self.sysctls.echo_ignored_to_many {
            return;
        }
        let mut message = request.payload().to_vec();
        message[0] = if v4 { kind::ECHO_REPLY } else { kind::V6_ECHO_REPLY };
        let src = Some(header.dst).filter(|_| !to_many);
        self.send_icmp(src, header.src, request.interface, header.tos, &mut message);
    }

    /// Sends a message in response to a packet received on `interface`.
    fn send_icmp(&mut self, src: Option<IpAddr>, dst: IpAddr, interface: usize, tos: u8, message: &mut [u8]) {
        let Ok(route) = self.route(dst, src, vrf::answer_device(self, dst, interface)) else { return };
        self.send_icmp_by(route, interface == LO, tos, message);
    }

    /// Sends a message, subject to the rate limits. `about_lo` is true for an error about a packet received
    /// on `lo`.
    pub fn send_icmp_by(&mut self, route: ResolvedRoute, about_lo: bool, tos: u8, message: &mut [u8]) {
        let (src, dst) = (route.source, route.destination);
        let sent = IcmpMessage {
            to: dst,
            kind: message[0],
            code: message[1],
            about_loopback: about_lo,
            by_loopback: route.interface == LO,
        };
        let now = self.clock.now();
        if let Err(why) = self.icmp_limit.take(now, &self.sysctls.icmp, &sent) {
            return self.counters.icmp[version(&dst)].count_limited(why);
        }
        fill_checksum(src, dst, message);
        let number = if dst.is_ipv4() { protocol::ICMP } else { protocol::ICMPV6 };
        let ttl =
            if dst.is_ipv4() { 64 } else { self.v6.hop_limit(&self.interface_settings, route.interface) };
        let header = IpHeader { tos, ttl, ..IpHeader::new(src, dst, number) };
        let mut packet = buffers::take();
        packet.resize(header.len(), 0);
        packet.extend_from_slice(message);
        let outbound = Outbound::new(Origin::Icmp, &route, header, packet);
        // A reply longer than the MTU is fragmented, so there is no error.
        let _ = self.ip_output(outbound);
    }

    /// Sends an Unreachable error to the sender of a packet.
    pub fn send_unreachable(&mut self, refused: &mut Inbound, why: Unreachable) {
        refused.fill_checksum();
        let header = &refused.header;
        // RFC 1122, section 3.2.2: no error for a multicast or broadcast packet, a later fragment or an ICMP
        // error.
        if self.interfaces.is_multipoint(header.dst) {
            return;
        }
        if header.dst.is_ipv6() {
            let why = match why {
                Unreachable::Protocol => ForwardError::ProtocolUnreachable,
                Unreachable::Port => ForwardError::PortUnreachable,
            };
            let Some(mut message) = forward6::refusal_message(&refused.packet, why) else { return };
            return self.send_icmp(
                Some(header.dst),
                header.src,
                refused.interface,
                ERROR_TOS_V6,
                &mut message,
            );
        }
        let (kind, code) = match why {
            Unreachable::Protocol => (kind::UNREACHABLE, 2),
            Unreachable::Port => (kind::UNREACHABLE, 3),
        };
        let room = MAX_ERROR_V4 - header.len() - HEADER_LEN;
        let quoted = &refused.packet[..refused.payload.end.min(room)];
        let mut message = vec![0; HEADER_LEN];
        message[..2].copy_from_slice(&[kind, code]);
        message.extend_from_slice(quoted);
        self.send_icmp(Some(header.dst), header.src, refused.interface, ERROR_TOS, &mut message);
    }

    /// Processes an error about a packet sent by this host.
    fn icmp_error(&mut self, kind: u8, code: u8, inbound: &Inbound) {
        let quoted = &inbound.payload()[HEADER_LEN..];
        let Some((src, dst, number, seq)) = parse_quoted(quoted) else { return };
        let errno = match (inbound.header.dst.is_ipv4(), kind, code) {
            (true, kind::TIME_EXCEEDED, _) => Errno::EHOSTUNREACH,
            (true, _, 0 | 6 | 9 | 11) => Errno::ENETUNREACH,
            (true, _, 2) => Errno::ENOPROTOOPT,
            (true, _, 3) => Errno::ECONNREFUSED,
            (true, _, 4) => Errno::EMSGSIZE,
            (true, ..) => Errno::EHOSTUNREACH,
            // icmpv6_err_convert of Linux.
            (false, kind::V6_UNREACHABLE, 0) => Errno::ENETUNREACH,
            (false, kind::V6_UNREACHABLE, 1 | 5 | 6) => Errno::EACCES,
            (false, kind::V6_UNREACHABLE, 4) => Errno::ECONNREFUSED,
            (false, kind::V6_TOO_BIG, _) => Errno::EMSGSIZE,
            (false, kind::V6_PARAMETER_PROBLEM, _) => Errno::EPROTO,
            (false, ..) => Errno::EHOSTUNREACH,
        };
        let extra = match errno {
            Errno::EMSGSIZE if inbound.header.dst.is_ipv4() => {
                u32::from(u16::from_be_bytes([inbound.payload()[6], inbound.payload()[7]]))
            }
            _ if inbound.header.dst.is_ipv4() => 0,
            // The MTU, or the pointer of a Parameter Problem.
            _ => u32::from_be_bytes(inbound.payload()[4..8].try_into().expect("four bytes")),
        };
        // A smaller MTU is invalid and ignored (RFC 8201, section 4).
        let too_small = dst.is_ipv6() && errno == Errno::EMSGSIZE && extra < ipv6::MIN_MTU as u32;
        if let (Errno::EMSGSIZE, IpAddr::V6(to), false) = (errno, dst.ip(), too_small) {
            let now = self.clock.now();
            self.v6.learn_path_mtu(to, extra as usize, now);
        }
        if let (Errno::EMSGSIZE, IpAddr::V4(to)) = (errno, dst.ip())
            && self.path_concerns((number, inbound.interface), src, dst, Seq(seq))
        {
            let now = self.clock.now();
            let Ok(route) = self.route(dst.ip(), Some(src.ip()), None) else { return };
            let usual = self.interfaces.mtu(route.interface);
            self.path_mtus.learn(to, extra as usize, usual, now);
        }
        self.raw_error(&RawError {
            protocol: number,
            local: src.ip(),
            remote: dst.ip(),
            errno,
            icmp: (kind, code, extra),
            offender: inbound.header.src,
            quoted: &quoted[payload_start(quoted)..],
        });
        match number {
            protocol::UDP | protocol::UDP_LITE => {
                let spoken = if number == protocol::UDP { Protocol::Udp } else { Protocol::Lite };
                let quoted = &quoted[payload_start(quoted)..];
                let offender = (inbound.header.src, vrf::ingress(self, inbound.interface));
                self.udp_error(spoken, (src, dst), errno, (kind, code, extra), offender, quoted);
            }
            protocol::ICMP | protocol::ICMPV6 => {
                let quoted = &quoted[payload_start(quoted)..];
                self.ping_error(src.ip(), dst.ip(), errno, (kind, code, extra), inbound.header.src, quoted);
            }
            protocol::TCP if too_small => {}
            protocol::TCP => {
                let now = self.clock.now();
                let next_mtu = match dst.ip() {
                    IpAddr::V4(to) => self.path_mtus.mtu(to, now).unwrap_or(extra as usize),
                    IpAddr::V6(_) => extra as usize,
                };
                let next_mtu = u16::try_from(next_mtu).unwrap_or(u16::MAX);
                self.tcp_error(src, dst, Seq(seq), errno, (errno == Errno::EMSGSIZE).then_some(next_mtu));
            }
            _ => {}
        }
    }
}

impl Stack {
    /// True if the quoted packet of a Packet Too Big error belongs to a socket of this host, which guards
    /// against forged path MTUs.
    fn path_concerns(
        &mut self,
        (number, interface): (u8, usize),
        local: SocketAddr,
        remote: SocketAddr,
        seq: Seq,
    ) -> bool {
        let ingress = vrf::ingress(self, interface);
        match number {
            protocol::TCP => {
                let key = self.tcp.connection(local, remote);
                key.and_then(|key| self.sockets.tcp(key).connection()).is_some_and(|c| c.is_in_flight(seq))
            }
            protocol::UDP => {
                let ports = &self.udp_ports[Protocol::Udp.index()];
                ports.receiver(&self.sockets, remote, local, ingress).is_some()
            }
            protocol::UDP_LITE => {
                let ports = &self.udp_ports[Protocol::Lite.index()];
                ports.receiver(&self.sockets, remote, local, ingress).is_some()
            }
            _ => true,
        }
    }

    /// Processes a received redirect. It is accepted if the route uses its sender, and if the new gateway is
    /// a known neighbour on the link.
    pub fn redirected(&mut self, inbound: &Inbound) {
        let (interface, settings) = (inbound.interface, &self.interface_settings);
        let accepted = match self.interface_settings.forwards(&self.sysctls, false, interface) {
            true => settings.both(v4::ACCEPT_REDIRECTS, interface),
            false => settings.either(v4::ACCEPT_REDIRECTS, interface),
        };
        let [_, _, _, _, a, b, c, d, quoted @ ..] = inbound.payload() else { return };
        let (gateway, IpAddr::V4(instead_of)) = (Ipv4Addr::new(*a, *b, *c, *d), inbound.header.src) else {
            return;
        };
        if !accepted
            || quoted.len() < 20
            || gateway == instead_of
            || self.interfaces.is_multipoint(gateway.into())
        {
            return;
        }
        let (from, to) = (forward::source(quoted), forward::destination(quoted));
        let Ok(route) = self.route(to.into(), Some(from.into()), None) else { return };
        let own = self.is_local(from.into()) && !self.is_local(gateway.into());
        if !own || route.interface != interface || route.gateway != Some(instead_of.into()) {
            return;
        }
        let now = self.clock.now();
        match self.neighbours.get(interface, gateway).is_some_and(|known| known.state.is_valid()) {
            true => self.redirects.accept(to, interface, instead_of, gateway),
            // Accepted once the gateway is resolved.
            false => self.neighbours.make_use(now, interface, gateway),
        }
    }
}

/// Offset of the payload in a quoted packet, which is known to be long enough.
fn payload_start(quoted: &[u8]) -> usize {
    if quoted[0] >> 4 == 4 {
        usize::from(quoted[0] & 0xf) * 4
    } else {
        quoted_upper(quoted).map_or(40, |(_, at)| at)
    }
}

/// Protocol and payload offset of a quoted IPv6 packet, past a fragment header if there is one.
fn quoted_upper(quoted: &[u8]) -> Option<(u8, usize)> {
    match *quoted.get(6)? {
        ipv6::extension::FRAGMENT => Some((*quoted.get(40)?, 48)),
        protocol => Some((protocol, 40)),
    }
}

/// Source, destination, protocol and TCP sequence number of the packet that an error quotes, which may be
/// truncated.
fn parse_quoted(quoted: &[u8]) -> Option<(SocketAddr, SocketAddr, u8, u32)> {
    let (src, dst, number, payload): (IpAddr, IpAddr, u8, &[u8]) = match quoted.first()? >> 4 {
        4 => {
            let header_len = usize::from(quoted[0] & 0xf) * 4;
            let octets = |at: usize| -> Option<[u8; 4]> { quoted.get(at..at + 4)?.try_into().ok() };
            (octets(12)?.into(), octets(16)?.into(), *quoted.get(9)?, quoted.get(header_len..)?)
        }
        6 => {
            let octets = |at: usize| -> Option<[u8; 16]> { quoted.get(at..at + 16)?.try_into().ok() };
            let (protocol, at) = quoted_upper(quoted)?;
            (octets(8)?.into(), octets(24)?.into(), protocol, quoted.get(at..)?)
        }
        _ => return None,
    };
    let port = |at: usize| Some(u16::from_be_bytes(payload.get(at..at + 2)?.try_into().ok()?));
    // Linux ignores an error that quotes less than eight bytes of payload.
    let seq = u32::from_be_bytes(payload.get(4..8)?.try_into().ok()?);
    Some((SocketAddr::new(src, port(0)?), SocketAddr::new(dst, port(2)?), number, seq))
}
