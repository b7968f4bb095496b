//! What comes in: checking headers, reassembling, handing to the protocol.

use super::IpHeader;
use crate::host::Host;
use crate::net::LO;
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
    pub(crate) fn ip_input(&mut self, interface: usize, packet: Vec<u8>) {
        self.net.counters.ip_in += 1;
        let Ok((header, payload)) = IpHeader::parse(&packet) else {
            self.net.counters.malformed += 1;
            return self.recycle_buffer(packet);
        };
        if !self.is_for_us(interface, header.dst) {
            if self.net.sysctls.forwarding
                && interface != LO
                && header.dst.is_ipv4()
                && !self.net.is_multipoint(header.dst)
            {
                return self.ip_forward(interface, packet);
            }
            self.net.counters.not_for_us += 1;
            return self.recycle_buffer(packet);
        }
        let inbound = if header.more_fragments || header.fragment_offset > 0 {
            let now = self.clock.now();
            let whole = self.net.reassembly.add(now, &header, &packet, payload);
            self.recycle_buffer(packet);
            let Some((header, packet)) = whole else { return };
            let payload = header.len()..packet.len();
            Inbound { interface, header, packet, payload }
        } else {
            Inbound { interface, header, packet, payload }
        };
        match header.protocol {
            protocol::UDP => self.udp_input(inbound),
            protocol::TCP => self.tcp_input(inbound),
            protocol::ICMP if header.dst.is_ipv4() => self.icmp_input(inbound),
            ICMPV6 if header.dst.is_ipv6() => self.icmp_input(inbound),
            _ => {
                self.net.counters.unknown_protocol += 1;
                self.send_unreachable(&inbound, super::icmp::Unreachable::Protocol);
            }
        }
    }

    fn is_for_us(&self, interface: usize, dst: IpAddr) -> bool {
        match dst {
            // A packet for 127/8 from the network is a martian.
            IpAddr::V4(v4) if v4.is_loopback() => interface == LO,
            IpAddr::V4(v4) if v4.is_multicast() => self.net.is_member(v4),
            IpAddr::V4(v4) if self.net.is_broadcast(v4) => true,
            _ => self.net.is_local(dst),
        }
    }
}
