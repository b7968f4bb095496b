//! Numbers of attributes: `enum ctattr_*` of `nfnetlink_conntrack.h`.

/// Attributes of a connection (`CTA_*`).
pub mod cta {
    pub const TUPLE_ORIG: u16 = 1;
    pub const TUPLE_REPLY: u16 = 2;
    pub const STATUS: u16 = 3;
    pub const PROTOINFO: u16 = 4;
    pub const HELP: u16 = 5;
    pub const NAT_SRC: u16 = 6;
    pub const TIMEOUT: u16 = 7;
    pub const MARK: u16 = 8;
    pub const COUNTERS_ORIG: u16 = 9;
    pub const COUNTERS_REPLY: u16 = 10;
    pub const USE: u16 = 11;
    pub const ID: u16 = 12;
    pub const NAT_DST: u16 = 13;
    pub const TUPLE_MASTER: u16 = 14;
    pub const SEQ_ADJ_ORIG: u16 = 15;
    pub const SEQ_ADJ_REPLY: u16 = 16;
    pub const ZONE: u16 = 18;
    pub const TIMESTAMP: u16 = 20;
    pub const MARK_MASK: u16 = 21;
    pub const LABELS: u16 = 22;
    pub const LABELS_MASK: u16 = 23;
    pub const SYNPROXY: u16 = 24;
    pub const FILTER: u16 = 25;
    pub const STATUS_MASK: u16 = 26;
    pub const MAX: u16 = 26;
}

/// Attributes of a tuple (`CTA_TUPLE_*`).
pub mod tuple {
    pub const IP: u16 = 1;
    pub const PROTO: u16 = 2;
    pub const ZONE: u16 = 3;
    pub const MAX: u16 = 3;
}

/// Addresses of a tuple (`CTA_IP_*`).
pub mod ip {
    pub const V4_SRC: u16 = 1;
    pub const V4_DST: u16 = 2;
    pub const V6_SRC: u16 = 3;
    pub const V6_DST: u16 = 4;
    pub const MAX: u16 = 4;
}

/// Transport of a tuple (`CTA_PROTO_*`).
pub mod proto {
    pub const NUM: u16 = 1;
    pub const SRC_PORT: u16 = 2;
    pub const DST_PORT: u16 = 3;
    pub const ICMP_ID: u16 = 4;
    pub const ICMP_TYPE: u16 = 5;
    pub const ICMP_CODE: u16 = 6;
    pub const ICMPV6_ID: u16 = 7;
    pub const ICMPV6_TYPE: u16 = 8;
    pub const ICMPV6_CODE: u16 = 9;
    pub const MAX: u16 = 9;
}

/// State of a transport (`CTA_PROTOINFO_*`).
pub mod protoinfo {
    pub const TCP: u16 = 1;
    pub const SCTP: u16 = 3;
    pub const MAX: u16 = 3;
    /// `CTA_PROTOINFO_TCP_*`.
    pub mod tcp {
        pub const STATE: u16 = 1;
        pub const WSCALE_ORIGINAL: u16 = 2;
        pub const WSCALE_REPLY: u16 = 3;
        pub const FLAGS_ORIGINAL: u16 = 4;
        pub const FLAGS_REPLY: u16 = 5;
        pub const MAX: u16 = 5;
    }
    /// `CTA_PROTOINFO_SCTP_*`.
    pub mod sctp {
        pub const STATE: u16 = 1;
        pub const VTAG_ORIGINAL: u16 = 2;
        pub const VTAG_REPLY: u16 = 3;
        pub const MAX: u16 = 3;
    }
}

/// Counters of a direction (`CTA_COUNTERS_*`).
pub mod counters {
    pub const PACKETS: u16 = 1;
    pub const BYTES: u16 = 2;
}

/// Times (`CTA_TIMESTAMP_*`).
pub mod timestamp {
    pub const START: u16 = 1;
    pub const STOP: u16 = 2;
}

/// Range of a translation (`CTA_NAT_*`).
pub mod nat {
    pub const V4_MINIP: u16 = 1;
    pub const V4_MAXIP: u16 = 2;
    pub const PROTO: u16 = 3;
    pub const V6_MINIP: u16 = 4;
    pub const V6_MAXIP: u16 = 5;
    pub const MAX: u16 = 5;
    /// `CTA_PROTONAT_PORT_MIN`.
    pub const PORT_MIN: u16 = 1;
    /// `CTA_PROTONAT_PORT_MAX`.
    pub const PORT_MAX: u16 = 2;
}

/// Adjustment of sequence numbers (`CTA_SEQADJ_*`).
pub mod seqadj {
    pub const CORRECTION_POS: u16 = 1;
    pub const OFFSET_BEFORE: u16 = 2;
    pub const OFFSET_AFTER: u16 = 3;
    pub const MAX: u16 = 3;
}

/// Helper (`CTA_HELP_*`).
pub mod help {
    pub const NAME: u16 = 1;
    pub const MAX: u16 = 2;
}

/// Attributes of an expectation (`CTA_EXPECT_*`).
pub mod expect {
    pub const MASTER: u16 = 1;
    pub const TUPLE: u16 = 2;
    pub const MASK: u16 = 3;
    pub const TIMEOUT: u16 = 4;
    pub const ID: u16 = 5;
    pub const HELP_NAME: u16 = 6;
    pub const ZONE: u16 = 7;
    pub const FLAGS: u16 = 8;
    pub const CLASS: u16 = 9;
    pub const NAT: u16 = 10;
    pub const FN: u16 = 11;
    pub const MAX: u16 = 11;
    /// `CTA_EXPECT_NAT_DIR`.
    pub const NAT_DIR: u16 = 1;
    /// `CTA_EXPECT_NAT_TUPLE`.
    pub const NAT_TUPLE: u16 = 2;
}

/// Counters of the tracker (`CTA_STATS_*`).
pub mod stats {
    pub const FOUND: u16 = 2;
    pub const INVALID: u16 = 4;
    pub const INSERT: u16 = 8;
    pub const INSERT_FAILED: u16 = 9;
    pub const DROP: u16 = 10;
    pub const EARLY_DROP: u16 = 11;
    pub const ERROR: u16 = 12;
    pub const SEARCH_RESTART: u16 = 13;
    pub const CLASH_RESOLVE: u16 = 14;
    pub const CHAIN_TOOLONG: u16 = 15;
    /// `CTA_STATS_GLOBAL_ENTRIES`.
    pub const ENTRIES: u16 = 1;
    /// `CTA_STATS_GLOBAL_MAX_ENTRIES`.
    pub const MAX_ENTRIES: u16 = 2;
    /// `CTA_STATS_EXP_NEW`.
    pub const EXPECT_NEW: u16 = 1;
    /// `CTA_STATS_EXP_CREATE`.
    pub const EXPECT_CREATE: u16 = 2;
    /// `CTA_STATS_EXP_DELETE`.
    pub const EXPECT_DELETE: u16 = 3;
}

/// Parts of tuples that a dump is filtered by (`CTA_FILTER_*`).
pub mod filter {
    pub const ORIG_FLAGS: u16 = 1;
    pub const REPLY_FLAGS: u16 = 2;
    pub const MAX: u16 = 2;
}
