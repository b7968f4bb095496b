//! What comes in: checking headers, reassembling, handing to the protocol.

use super::IpHeader;
use crate::host::Host;
use crate::net::LO;
use crate::net::multicast::IGMP;
use crate::net::udp::Protocol;
use crate::net::v6::device_for;
use belljar_net::Packet;
use belljar_wire::protocol;
use std::net::IpAddr;
use std::ops::Range;

/// Protocol number of ICMPv6.
pub const ICMPV6: u8 = 58;

/// A packet that has been received, its header read.
#[derive(Debug)]
pub struct Inbound {
    /// The interface that it came by.
    pub interface: usize,
    /// Whether its transport checksum need not be tested.
    pub intact: bool,
    /// The payload of each datagram that it is made of, in bytes; 0 if it is one.
    pub segment: u16,
    /// Its IP header.
    pub header: IpHeader,
    /// All of it.
    pub packet: Vec<u8>,
    /// Where in it the IP payload lies.
    pub payload: Range<usize>,
}

impl Inbound {
    /// What follows the IP header.
    pub fn payload(&self) -> &[u8] {
        &self.packet[self.payload.clone()]
    }
}

impl Host {
    /// A packet was received on `interface`.
    pub(crate) fn ip_input(&mut self, interface: usize, packet: Packet) {
        let (intact, segment) = (packet.is_intact(), packet.segment());
        let packet = packet.into_bytes();
        self.net.counters.ip_in += 1;
        let Ok((header, payload)) = IpHeader::parse(&packet) else {
            self.net.counters.malformed += 1;
            return self.recycle_buffer(packet);
        };
        if header.dst.is_ipv6() {
            if interface != LO && !self.net.v6.on {
                return self.recycle_buffer(packet);
            }
            self.net.v6.counters.in_receives += 1;
        }
        if !self.is_for_us(interface, header.dst, header.src) {
            return self.ip_pass_on(interface, header.dst, packet);
        }
        let inbound = Inbound { interface, intact, segment, header, packet, payload };
        match inbound.header.more_fragments || inbound.header.fragment_offset > 0 {
            true => self.fragment_input(inbound),
            false => self.whole_input(inbound),
        }
    }

    /// What is for others is forwarded, or dropped.
    #[inline(never)]
    fn ip_pass_on(&mut self, interface: usize, to: IpAddr, packet: Vec<u8>) {
        let settings = &self.net.sysctls;
        let forwards = if to.is_ipv4() { settings.forwarding } else { settings.forwarding6 };
        if forwards && interface != LO && !self.net.is_multipoint(to) {
            return match to {
                IpAddr::V4(_) => self.ip_forward(interface, packet),
                IpAddr::V6(_) => self.ip_forward6(interface, packet),
            };
        }
        self.net.counters.not_for_us += 1;
        self.recycle_buffer(packet);
    }

    /// A part of a datagram goes on when the others are there.
    #[inline(never)]
    fn fragment_input(&mut self, part: Inbound) {
        let Inbound { interface, header, packet, payload, .. } = part;
        let now = self.clock.now();
        let whole = self.net.reassembly.add(now, &header, &packet, payload);
        self.recycle_buffer(packet);
        let v6 = u64::from(header.dst.is_ipv6());
        self.net.v6.counters.fragments += v6;
        let Some((header, packet)) = whole else { return };
        self.net.v6.counters.reassembled += v6;
        let payload = header.len()..packet.len();
        self.whole_input(Inbound { interface, intact: false, segment: 0, header, packet, payload });
    }

    /// A whole datagram goes to its protocol.
    #[inline(always)]
    fn whole_input(&mut self, inbound: Inbound) {
        let (interface, header) = (inbound.interface, &inbound.header);
        self.net.v6.counters.in_delivers += u64::from(header.dst.is_ipv6());
        let taken = self.raw_input(&inbound);
        match header.protocol {
            protocol::UDP => self.udp_input(Protocol::Udp, inbound),
            protocol::UDP_LITE => self.udp_input(Protocol::Lite, inbound),
            protocol::TCP => self.tcp_input(inbound),
            protocol::ICMP if header.dst.is_ipv4() => self.icmp_input(inbound),
            ICMPV6 if header.dst.is_ipv6() => self.icmp_input(inbound),
            IGMP if header.dst.is_ipv4() => {
                self.igmp_input(interface, inbound.payload());
                self.recycle_buffer(inbound.packet);
            }
            _ if taken => self.recycle_buffer(inbound.packet),
            _ => {
                self.net.counters.unknown_protocol += 1;
                self.send_unreachable(&inbound, super::icmp::Unreachable::Protocol);
            }
        }
    }

    fn is_for_us(&self, interface: usize, dst: IpAddr, src: IpAddr) -> bool {
        match dst {
            // A packet for 127/8 from the network is a martian.
            IpAddr::V4(v4) if v4.is_loopback() => interface == LO,
            IpAddr::V4(v4) if self.net.interfaces[interface].addresses.iter().any(|own| own.ip == v4) => true,
            IpAddr::V4(v4) if v4.is_multicast() => match src {
                IpAddr::V4(src) => self.net.igmp.takes(interface, v4, src),
                IpAddr::V6(_) => false,
            },
            IpAddr::V4(v4) if self.net.is_broadcast(v4) => true,
            IpAddr::V6(v6) if v6.is_multicast() => self.net.is_member6(interface, v6),
            IpAddr::V6(v6) if v6.is_loopback() => interface == LO,
            // It is asked for before it is known to be free.
            IpAddr::V6(v6) if device_for(dst, interface).is_some() => {
                self.net.interfaces[interface].addresses6.iter().any(|own| own.ip == v6)
            }
            _ => self.net.is_local(dst),
        }
    }
}
