//! Connections and their parts: status bits, zones, counters (`struct nf_conn`).

use crate::helper::Helper;
use crate::seqadj::SequenceAdjustment;
use crate::tcp::{TcpState, TcpTrack};
use crate::tuple::{Tuple, TupleDirection};
use belljar_base::{HZ, SimDuration, SimTime};
use bitflags::bitflags;

bitflags! {
    /// Status of a connection: `IPS_*` of `nf_conntrack_common.h`.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct CtStatus: u32 {
        /// The first packet matched an expectation.
        const EXPECTED = 1 << 0;
        /// Packets of both directions have passed.
        const SEEN_REPLY = 1 << 1;
        /// The connection is not evicted early when the table is full.
        const ASSURED = 1 << 2;
        /// The connection is in the table: its first packet has left the last hook.
        const CONFIRMED = 1 << 3;
        /// The source of original packets is translated.
        const SRC_NAT = 1 << 4;
        /// The destination of original packets is translated.
        const DST_NAT = 1 << 5;
        /// Sequence numbers are adjusted, since a helper changed the length of a payload.
        const SEQ_ADJUST = 1 << 6;
        /// The source translation is decided, possibly to none.
        const SRC_NAT_DONE = 1 << 7;
        /// The destination translation is decided, possibly to none.
        const DST_NAT_DONE = 1 << 8;
        /// The connection has left the table.
        const DYING = 1 << 9;
        /// Packets do not renew the timeout.
        const FIXED_TIMEOUT = 1 << 10;
        /// Template, never in the table.
        const TEMPLATE = 1 << 11;
        /// The entry lost a clash of its original tuple: only its reply tuple is in the table.
        const NAT_CLASH = 1 << 12;
        /// The helper was assigned by name.
        const HELPER = 1 << 13;
        /// Both translations are decided.
        const NAT_DONE_MASK = 1 << 7 | 1 << 8;
        /// Either translation changes packets.
        const NAT_MASK = 1 << 4 | 1 << 5;
    }
}

/// Relation of a packet to its connection (`enum ip_conntrack_info`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CtInfo {
    /// Original direction, after packets of both directions.
    Established,
    /// Begins an expected connection, or an ICMP error about the original direction.
    Related,
    /// Begins a connection.
    New,
    /// Reply direction.
    EstablishedReply,
    /// ICMP error about the reply direction.
    RelatedReply,
}

impl CtInfo {
    /// Direction of the packet within its connection.
    pub const fn direction(self) -> TupleDirection {
        match self {
            CtInfo::Established | CtInfo::Related | CtInfo::New => TupleDirection::Original,
            CtInfo::EstablishedReply | CtInfo::RelatedReply => TupleDirection::Reply,
        }
    }

    /// Number of the kernel's enumeration.
    pub const fn number(self) -> u32 {
        self as u32
    }
}

/// Zone: connections of different zones may have equal tuples (`struct nf_conntrack_zone`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CtZone {
    /// Number of the zone, 0 by default.
    pub id: u16,
    /// Directions in which the zone distinguishes tuples: [`CtZone::ORIGINAL`], [`CtZone::REPLY`] or both.
    pub directions: u8,
}

impl CtZone {
    /// Bit of the original direction.
    pub const ORIGINAL: u8 = 1;
    /// Bit of the reply direction.
    pub const REPLY: u8 = 2;
    /// Default zone.
    pub const DEFAULT: CtZone = CtZone { id: 0, directions: CtZone::ORIGINAL | CtZone::REPLY };

    /// Zone that distinguishes both directions.
    pub const fn both(id: u16) -> CtZone {
        CtZone { id, directions: CtZone::ORIGINAL | CtZone::REPLY }
    }

    /// Number by which tuples of a direction are distinguished (`nf_ct_zone_id`).
    pub const fn id_in(self, direction: TupleDirection) -> u16 {
        let bit = match direction {
            TupleDirection::Original => CtZone::ORIGINAL,
            TupleDirection::Reply => CtZone::REPLY,
        };
        if self.directions & bit != 0 { self.id } else { 0 }
    }
}

impl Default for CtZone {
    fn default() -> CtZone {
        CtZone::DEFAULT
    }
}

/// Settings for the connection that a packet begins, from a rule before the tracker (`nf_ct_tmpl_alloc`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Template {
    /// Zone of the packet.
    pub zone: CtZone,
    /// Helper of the connection.
    pub helper: Option<Helper>,
    /// Events that are reported of the connection, by their `IPCT_*` bits; `None` for all.
    pub event_mask: Option<u16>,
}

/// Key of a connection. A key outlives its connection, and then finds none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ConnKey {
    pub(crate) slot: u32,
    pub(crate) generation: u32,
}

/// Tracker's part of a packet, which accompanies it from hook to hook (`skb->_nfct`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Attached {
    /// The packet has not been tracked, or is invalid.
    #[default]
    None,
    /// A rule exempted the packet from tracking (`notrack`).
    Untracked,
    /// A rule before the tracker chose settings.
    Template(Template),
    /// The packet belongs to a connection.
    Conn {
        /// The connection.
        key: ConnKey,
        /// Relation of the packet to it.
        info: CtInfo,
    },
}

impl Attached {
    /// Relation to the connection, if there is one.
    pub const fn info(self) -> Option<CtInfo> {
        match self {
            Attached::Conn { info, .. } => Some(info),
            _ => None,
        }
    }

    /// Connection of the packet.
    pub const fn key(self) -> Option<ConnKey> {
        match self {
            Attached::Conn { key, .. } => Some(key),
            _ => None,
        }
    }

    /// Direction of the packet within its connection.
    pub fn direction(self) -> Option<TupleDirection> {
        self.info().map(CtInfo::direction)
    }

    /// State bit that rules match: `NF_CT_STATE_*`. Invalid is 1, established 2, related 4, new 8 and
    /// untracked 64.
    pub fn state_bits(self) -> u32 {
        match self {
            Attached::Untracked => 1 << 6,
            Attached::None | Attached::Template(_) => 1,
            Attached::Conn { info, .. } => match info {
                CtInfo::Established | CtInfo::EstablishedReply => 1 << 1,
                CtInfo::Related | CtInfo::RelatedReply => 1 << 2,
                CtInfo::New => 1 << 3,
            },
        }
    }
}

/// Packets and bytes of one direction, IP headers included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CtCounters {
    /// Number of packets.
    pub packets: u64,
    /// Number of bytes.
    pub bytes: u64,
}

/// State of the transport protocol.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ProtocolState {
    /// Protocols that are tracked by timeouts alone.
    Stateless,
    /// UDP: time in ticks after which two-sided traffic counts as a stream.
    Udp {
        /// Two seconds after the first packet.
        stream_after: u64,
    },
    /// TCP.
    Tcp(TcpTrack),
    /// SCTP.
    Sctp(crate::sctp::SctpTrack),
}

/// Parts that few connections have.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Extra {
    /// Connection whose helper expected this one.
    pub master: Option<ConnKey>,
    /// Tuple of that connection's original direction, for listings after its end.
    pub master_tuple: Option<Tuple>,
    /// Adjustments of TCP sequence numbers, by direction.
    pub adjustments: [SequenceAdjustment; 2],
    /// State of the FTP helper.
    pub ftp: crate::helper::FtpState,
    /// Number of pending expectations.
    pub expectations: u32,
}

/// Time in ticks of Linux's clock ([`HZ`] per second), in which timeouts are kept.
pub(crate) type Jiffies = u64;

/// Ticks of a number of seconds.
pub(crate) const fn seconds(n: u32) -> Jiffies {
    n as u64 * HZ
}

/// Connection: a pair of tuples with what is known of the traffic between them.
#[derive(Clone, Debug)]
pub struct Conn {
    pub(crate) tuples: [Tuple; 2],
    pub(crate) status: CtStatus,
    pub(crate) mark: u32,
    pub(crate) id: u32,
    pub(crate) zone: CtZone,
    /// Time at which the connection expires; before it is confirmed, the time that it has left then.
    pub(crate) timeout: Jiffies,
    /// Time under which the connection stands in the order of deadlines; never after `timeout`.
    pub(crate) queued: Jiffies,
    /// Order of confirmation, from 1.
    pub(crate) serial: u64,
    pub(crate) protocol: ProtocolState,
    /// Counters by direction; `None` while `nf_conntrack_acct` is off at the start.
    pub(crate) counters: Option<[CtCounters; 2]>,
    pub(crate) labels: [u8; 16],
    /// Events since the last report, by their `IPCT_*` bits.
    pub(crate) pending: u16,
    /// Events that are reported.
    pub(crate) event_mask: u16,
    /// Start and end in nanoseconds since 1970, where `nf_conntrack_timestamp` is set.
    pub(crate) timestamps: Option<(u64, u64)>,
    /// Index of the interface whose address the source is masqueraded with; 0 for none.
    pub(crate) masquerade: u32,
    pub(crate) helper: Option<Helper>,
    pub(crate) extra: Option<Box<Extra>>,
}

impl Conn {
    /// Tuple of a direction.
    pub fn tuple(&self, direction: TupleDirection) -> &Tuple {
        &self.tuples[direction as usize]
    }
    /// Tuple of the first packet.
    pub fn original(&self) -> &Tuple {
        &self.tuples[0]
    }
    /// Tuple of the answers.
    pub fn reply(&self) -> &Tuple {
        &self.tuples[1]
    }
    /// Status bits.
    pub fn status(&self) -> CtStatus {
        self.status
    }
    /// Mark that rules set (`connmark`).
    pub fn mark(&self) -> u32 {
        self.mark
    }
    /// Labels: 128 bits, the first in the lowest bit of the first byte.
    pub fn labels(&self) -> [u8; 16] {
        self.labels
    }
    /// Zone.
    pub fn zone(&self) -> CtZone {
        self.zone
    }
    /// Identifier in listings, which is unlikely to be that of another connection.
    pub fn id(&self) -> u32 {
        self.id
    }
    /// Counters of a direction; zero if accounting was off when the connection began.
    pub fn counters(&self, direction: TupleDirection) -> CtCounters {
        self.counters.map_or_else(CtCounters::default, |counters| counters[direction as usize])
    }
    /// True if packets are counted.
    pub fn is_counted(&self) -> bool {
        self.counters.is_some()
    }
    /// Ticks until the connection expires.
    pub(crate) fn ticks_left(&self, now: SimTime) -> Jiffies {
        match self.is(CtStatus::CONFIRMED) {
            true => self.timeout.saturating_sub(now.jiffies()),
            false => self.timeout,
        }
    }
    /// Time until the connection expires, in whole ticks.
    pub fn expires(&self, now: SimTime) -> SimDuration {
        SimDuration::from_nanos(self.ticks_left(now).saturating_mul(1_000_000_000 / HZ))
    }
    /// State of a TCP connection.
    pub fn tcp_state(&self) -> Option<TcpState> {
        match &self.protocol {
            ProtocolState::Tcp(track) => Some(track.state),
            _ => None,
        }
    }
    /// Helper.
    pub fn helper(&self) -> Option<Helper> {
        self.helper
    }
    /// Connection whose helper expected this one.
    pub fn master(&self) -> Option<ConnKey> {
        self.extra.as_ref()?.master
    }
    /// True if all of the status bits are set.
    pub fn is(&self, bits: CtStatus) -> bool {
        self.status.contains(bits)
    }
    /// True if the connection has reached its deadline.
    pub(crate) fn is_expired(&self, now: SimTime) -> bool {
        self.is(CtStatus::CONFIRMED) && self.timeout <= now.jiffies()
    }
    /// Counts a packet of `bytes` bytes.
    pub(crate) fn count(&mut self, direction: TupleDirection, bytes: usize) {
        if let Some(counters) = &mut self.counters {
            let counters = &mut counters[direction as usize];
            counters.packets += 1;
            counters.bytes += bytes as u64;
        }
    }
    pub(crate) fn extra_mut(&mut self) -> &mut Extra {
        self.extra.get_or_insert_default()
    }
}
