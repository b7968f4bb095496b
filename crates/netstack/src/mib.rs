//! Counters of IPv4 and IPv6 and of their ICMPs (RFC 4293, RFC 5097): the values of `/proc/net/snmp`,
//! `netstat` and `snmp6`.

use crate::tcp::fast_open::FastOpenCounters;
use crate::udp::UdpCounters;
use belljar_base::{Footprint, Map};
use belljar_linux_abi::Errno;
use belljar_net::icmp_limit::Exceeded;
use belljar_wire::protocol;
use std::net::IpAddr;

/// Index of an address's IP version in per-version tables.
pub const fn version(ip: &IpAddr) -> usize {
    match ip {
        IpAddr::V4(_) => 0,
        IpAddr::V6(_) => 1,
    }
}

/// Number of packets and of their bytes, IP headers included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Volume {
    /// Packets.
    pub packets: u64,
    /// Bytes.
    pub octets: u64,
}

impl Volume {
    /// Counts a packet of `octets` bytes.
    pub fn add(&mut self, octets: usize) {
        self.packets += 1;
        self.octets += octets as u64;
    }
}

/// Kind of a destination address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cast {
    /// Unicast.
    One,
    /// Multicast.
    Group,
    /// Broadcast.
    All,
}

/// Counters of one version of IP, under Linux's names written in full.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
#[repr(C)] // Frequently read fields come first: see `belljar_base::Footprint`.
pub struct IpCounters {
    /// `InReceives` and `InOctets`.
    pub received: Volume,
    /// Packets received by ECN codepoint: Not-ECT, ECT(1), ECT(0), CE.
    pub ecn: [u64; 4],
    /// Datagrams for this host, counted after reassembly.
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
    /// `FragOKs`; below it `FragFails` and `FragCreates`.
    pub cut: u64,
    pub not_cut: u64,
    pub fragments_created: u64,
    /// `InMcastPkts` and `InMcastOctets`; next `OutMcastPkts` and `OutMcastOctets`.
    pub in_group: Volume,
    pub out_group: Volume,
    /// `InBcastPkts` and `InBcastOctets`; next `OutBcastPkts` and `OutBcastOctets`.
    pub in_all: Volume,
    pub out_all: Volume,
}

impl IpCounters {
    /// Lists the counters that each packet updates.
    pub fn footprint(&self, footprint: &mut Footprint) {
        footprint.object(&self.received);
        footprint.object(&self.ecn);
        footprint.object(&self.whole);
        footprint.object(&self.out_requests);
        footprint.object(&self.sent);
    }
    /// `InDelivers`: datagrams delivered to a protocol.
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
    /// Errors suppressed by the global rate limit, and by the limit per destination.
    pub limited: [u64; 2],
    /// Messages received, and below it sent, by type.
    pub received_by_kind: Map<u8, u64>,
    pub sent_by_kind: Map<u8, u64>,
}

impl IcmpCounters {
    /// Counts a received message with a valid checksum.
    pub fn count_received(&mut self, kind: u8) {
        *self.received_by_kind.entry(kind).or_default() += 1;
    }

    /// Counts a sent message.
    pub fn count_sent(&mut self, kind: u8) {
        self.sent += 1;
        *self.sent_by_kind.entry(kind).or_default() += 1;
    }

    /// Counts an error suppressed by a rate limit.
    pub fn count_limited(&mut self, why: Exceeded) {
        self.limited[matches!(why, Exceeded::Peer) as usize] += 1;
    }
}

/// Counters of packets that were not forwarded, of both IP versions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ForwardCounters {
    /// Packets whose TTL or hop limit expired.
    pub expired: u64,
    /// Packets without a route, or with one that rejects them.
    pub no_route: u64,
    /// Packets whose next hop was not resolved, local ones included.
    pub unanswered: u64,
}

/// Counters of the stack, apart from those of the interfaces.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[repr(C)] // Frequently read fields come first: see `belljar_base::Footprint`.
pub struct StackCounters {
    /// UDP and UDP-Lite, indexed by [`Protocol::index`](crate::udp::Protocol::index) and [`version`].
    pub udp: [[UdpCounters; 2]; 2],
    /// IP, indexed by [`version`].
    pub ip: [IpCounters; 2],
    /// Truncated, malformed or corrupted packets.
    pub malformed: u64,
    /// Packets addressed to another host.
    pub not_for_us: u64,
    /// Packets dropped by hooks ([`ip::hooks`](crate::ip::hooks)), indexed by hook and [`version`].
    pub hook_drops: [[u64; 2]; 5],
    /// Packets dropped by reverse path filtering (`rp_filter`).
    pub wrong_sources: u64,
    /// SYNs and completed handshakes dropped because a listener's queue was full.
    pub listen_overflows: u64,
    /// SYNs and completed handshakes dropped by a listener for any reason.
    pub listen_drops: u64,
    /// SYN cookies sent, valid ones received, and invalid ones received.
    pub cookies: [u64; 3],
    /// TCP Fast Open.
    pub fast_open: FastOpenCounters,
    /// Resets sent in answer to segments without a connection.
    pub tcp_resets_sent: u64,
    /// ICMP, indexed by [`version`].
    pub icmp: [IcmpCounters; 2],
    /// Connections opened by `connect(2)`.
    pub tcp_active_opens: u64,
    /// Connections opened by a SYN to a listener.
    pub tcp_passive_opens: u64,
    /// Connections that failed before the handshake was complete.
    pub tcp_attempt_fails: u64,
    /// `EstabResets`: established connections that ended with an error.
    pub tcp_resets: u64,
    /// TCP segments received.
    pub tcp_in: u64,
    /// TCP segments sent.
    pub tcp_out: u64,
    /// TCP segments retransmitted.
    pub tcp_retransmitted: u64,
    /// Retransmission timeouts.
    pub tcp_timeouts: u64,
    /// Further counters of connections, indexed as `belljar_tcp::COUNT_NAMES`.
    pub tcp_counts: [u64; belljar_tcp::COUNTS],
    /// Forwarded packets.
    pub forwarding: ForwardCounters,
}
impl StackCounters {
    /// Counts a received packet, whatever its destination.
    pub fn count_received(&mut self, version: usize, octets: usize, tos: u8) {
        let counters = &mut self.ip[version];
        counters.received.add(octets);
        counters.ecn[usize::from(tos & 3)] += 1;
    }

    /// Counts a received packet for this host by the kind of its destination.
    pub fn count_cast(&mut self, version: usize, octets: usize, cast: Cast) {
        match cast {
            Cast::One => {}
            Cast::Group => self.ip[version].in_group.add(octets),
            Cast::All => self.ip[version].in_all.add(octets),
        }
    }

    /// Counts `OutNoRoutes` if `found`, the result of routing a socket's packet to `to`, is `ENETUNREACH`.
    /// Returns `found`.
    pub fn count_no_route<T>(&mut self, to: &IpAddr, found: Result<T, Errno>) -> Result<T, Errno> {
        if let Err(Errno::ENETUNREACH) = found {
            self.ip[version(to)].out_no_routes += 1;
        }
        found
    }

    /// Counts a transmitted packet, local or forwarded.
    pub fn count_sent(&mut self, dst: &IpAddr, octets: usize) {
        let counters = &mut self.ip[version(dst)];
        counters.sent.add(octets);
        if dst.is_multicast() {
            counters.out_group.add(octets);
        }
    }

    /// Counts a local packet with this protocol number and payload if it is an ICMP message.
    pub fn count_icmp_sent(&mut self, dst: &IpAddr, number: u8, payload: &[u8]) {
        let is_icmp =
            matches!((number, dst), (protocol::ICMP, IpAddr::V4(_)) | (protocol::ICMPV6, IpAddr::V6(_)));
        if let (true, [kind, ..]) = (is_icmp, payload) {
            self.icmp[version(dst)].count_sent(*kind);
        }
    }
}
