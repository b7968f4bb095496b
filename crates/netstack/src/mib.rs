//! Counters of IP and ICMP, of each version (RFC 4293, RFC 5097): the numbers of `/proc/net/snmp`, `netstat` and
//! `snmp6`.

use crate::{tcp, udp};
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

/// Counters of the stack beside those of the interfaces.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[repr(C)] // What is read often comes first: see `belljar_base::Footprint`.
pub struct StackCounters {
    /// Of UDP and of UDP-Lite, by [`udp::Protocol::index`] and [`version`].
    pub udp: [[udp::UdpCounters; 2]; 2],
    /// Of IP and of ICMP, by [`version`].
    pub ip: [IpCounters; 2],
    /// Packets that were cut short, malformed or damaged.
    pub malformed: u64,
    /// Packets for another host's address.
    pub not_for_us: u64,
    /// Packets dropped by hooks ([`ip::hooks`](crate::ip::hooks)), by their point and by [`version`].
    pub hook_drops: [[u64; 2]; 5],
    /// Packets dropped because those to their source would leave by another interface (`rp_filter`).
    pub wrong_sources: u64,
    /// SYNs and handshakes dropped because a listener's queues were full.
    pub listen_overflows: u64,
    /// SYNs and handshakes that a listener dropped for any reason.
    pub listen_drops: u64,
    /// SYN cookies sent, returned, and returned that were none.
    pub cookies: [u64; 3],
    /// Of TCP Fast Open.
    pub fast_open: tcp::fast_open::FastOpenCounters,
    /// Resets sent for segments that belong to no connection.
    pub tcp_resets_sent: u64,
    /// See `ip`.
    pub icmp: [IcmpCounters; 2],
    /// Connections begun by `connect(2)`.
    pub tcp_active_opens: u64,
    /// Connections begun by a SYN for a listener.
    pub tcp_passive_opens: u64,
    /// Connections that ended before their handshake was complete.
    pub tcp_attempt_fails: u64,
    /// Connections that a reset ended.
    pub tcp_resets: u64,
    /// TCP segments received, sent, and of those sent again.
    pub tcp_in: u64,
    /// See `tcp_in`.
    pub tcp_out: u64,
    /// See `tcp_in`.
    pub tcp_retransmitted: u64,
    /// Retransmission timeouts.
    pub tcp_timeouts: u64,
    /// Further counters of connections, by `belljar_tcp::COUNT_NAMES`.
    pub tcp_counts: [u64; belljar_tcp::COUNTS],
    /// Of forwarded packets.
    pub forwarding: crate::ip::ForwardCounters,
}
impl StackCounters {
    /// A packet was received, for whomever.
    pub fn count_received(&mut self, version: usize, octets: usize, tos: u8) {
        let counters = &mut self.ip[version];
        counters.received.add(octets);
        counters.ecn[usize::from(tos & 3)] += 1;
    }

    /// A packet received is one for this host.
    pub fn count_cast(&mut self, version: usize, octets: usize, cast: Cast) {
        match cast {
            Cast::One => {}
            Cast::Group => self.ip[version].in_group.add(octets),
            Cast::All => self.ip[version].in_all.add(octets),
        }
    }

    /// Counts `OutNoRoutes` if the routing of a socket's packet to `to` failed by `ENETUNREACH`; passes the result on.
    pub fn count_no_route<T>(&mut self, to: &IpAddr, found: Result<T, Errno>) -> Result<T, Errno> {
        if let Err(Errno::ENETUNREACH) = found {
            self.ip[version(to)].out_no_routes += 1;
        }
        found
    }

    /// A packet leaves, this host's own or another's.
    pub fn count_sent(&mut self, dst: &IpAddr, octets: usize) {
        let counters = &mut self.ip[version(dst)];
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
            self.icmp[version(dst)].count_sent(*kind);
        }
    }
}
