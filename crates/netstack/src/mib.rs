//! Counters of IP and ICMP, of each version (RFC 4293, RFC 5097): the numbers of `/proc/net/snmp`, `netstat` and
//! `snmp6`.

use super::Stack;
use belljar_base::{Footprint, Map};
use belljar_linux_abi::Errno;
use belljar_net::icmp_limit::Exceeded;
use belljar_wire::protocol;
use std::net::IpAddr;

/// The place of a version in tables of both.
pub const fn version(ip: &IpAddr) -> usize {
    match ip {
        IpAddr::V4(_) => 0,
        IpAddr::V6(_) => 1,
    }
}

/// Packets and their bytes, headers of IP included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Volume {
    /// Packets.
    pub packets: u64,
    /// Bytes.
    pub octets: u64,
}

impl Volume {
    /// One packet more.
    pub fn add(&mut self, octets: usize) {
        self.packets += 1;
        self.octets += octets as u64;
    }
}

/// To whom a packet is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cast {
    /// One host.
    One,
    /// The members of a group.
    Group,
    /// All on a network.
    All,
}

/// Counters of one version of IP. The names are those of Linux, in full.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
#[repr(C)] // What is read often comes first: see `belljar_base::Footprint`.
pub struct IpCounters {
    /// `InReceives` and `InOctets`.
    pub received: Volume,
    /// By the ECN bits of the packets received: none, ECT(1), ECT(0), CE.
    pub ecn: [u64; 4],
    /// Datagrams for this host, all their fragments together.
    pub whole: u64,
    pub out_requests: u64,
    /// `OutTransmits` and `OutOctets`.
    pub sent: Volume,
    pub in_header_errors: u64,
    pub in_truncated: u64,
    pub in_wrong_checksums: u64,
    pub in_address_errors: u64,
    pub in_no_routes: u64,
    pub in_unknown_protocols: u64,
    /// `ForwDatagrams`.
    pub forwarded: u64,
    pub out_no_routes: u64,
    /// `ReasmReqds`: fragments received.
    pub fragments: u64,
    pub reassembled: u64,
    /// `FragOKs`, `FragFails` and `FragCreates`.
    pub cut: u64,
    pub not_cut: u64,
    pub fragments_created: u64,
    /// To groups.
    pub in_group: Volume,
    pub out_group: Volume,
    /// To all.
    pub in_all: Volume,
    pub out_all: Volume,
}

impl IpCounters {
    /// Tells what each packet is counted in.
    pub fn footprint(&self, footprint: &mut Footprint) {
        footprint.object(&self.received);
        footprint.object(&self.ecn);
        footprint.object(&self.whole);
        footprint.object(&self.out_requests);
        footprint.object(&self.sent);
    }
    /// `InDelivers`: datagrams that a protocol has taken.
    pub fn in_delivers(&self) -> u64 {
        self.whole - self.in_unknown_protocols
    }
}

/// Counters of one version of ICMP.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct IcmpCounters {
    pub received: u64,
    pub in_errors: u64,
    pub in_wrong_checksums: u64,
    pub sent: u64,
    /// Errors not sent because there were too many: to all together, to one receiver.
    pub limited: [u64; 2],
    /// Messages received and sent by type.
    pub received_by_kind: Map<u8, u64>,
    pub sent_by_kind: Map<u8, u64>,
}

impl IcmpCounters {
    /// A message was received whose checksum was right.
    pub fn count_received(&mut self, kind: u8) {
        *self.received_by_kind.entry(kind).or_default() += 1;
    }

    /// A message was sent.
    pub fn count_sent(&mut self, kind: u8) {
        self.sent += 1;
        *self.sent_by_kind.entry(kind).or_default() += 1;
    }

    /// An error was not sent.
    pub fn count_limited(&mut self, why: Exceeded) {
        self.limited[matches!(why, Exceeded::Peer) as usize] += 1;
    }
}

impl Stack {
    /// A packet was received, for whomever.
    pub fn count_received(&mut self, version: usize, octets: usize, tos: u8) {
        let counters = &mut self.counters.ip[version];
        counters.received.add(octets);
        counters.ecn[usize::from(tos & 3)] += 1;
    }

    /// A packet received is one for this host.
    pub fn count_cast(&mut self, version: usize, octets: usize, cast: Cast) {
        match cast {
            Cast::One => {}
            Cast::Group => self.counters.ip[version].in_group.add(octets),
            Cast::All => self.counters.ip[version].in_all.add(octets),
        }
    }

    /// Counts `OutNoRoutes` if the routing of a socket's packet to `to` failed by `ENETUNREACH`; passes the result on.
    pub fn count_no_route<T>(&mut self, to: &IpAddr, found: Result<T, Errno>) -> Result<T, Errno> {
        if let Err(Errno::ENETUNREACH) = found {
            self.counters.ip[version(to)].out_no_routes += 1;
        }
        found
    }

    /// A packet leaves, this host's own or another's.
    pub fn count_sent(&mut self, dst: &IpAddr, octets: usize) {
        let counters = &mut self.counters.ip[version(dst)];
        counters.sent.add(octets);
        if dst.is_multicast() {
            counters.out_group.add(octets);
        }
    }

    /// A packet of this host's own is to be sent, with this protocol and payload: counts it if it is a message of ICMP.
    pub fn count_icmp_sent(&mut self, dst: &IpAddr, number: u8, payload: &[u8]) {
        let is_icmp =
            matches!((number, dst), (protocol::ICMP, IpAddr::V4(_)) | (protocol::ICMPV6, IpAddr::V6(_)));
        if let (true, [kind, ..]) = (is_icmp, payload) {
            self.counters.icmp[version(dst)].count_sent(*kind);
        }
    }
}
