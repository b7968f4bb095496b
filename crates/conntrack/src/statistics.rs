//! Counters of the tracker (`struct ip_conntrack_stat`).

/// Counters since the start, as `/proc/net/stat/nf_conntrack` and `conntrack -S` show them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CtStatistics {
    /// Tuples that NAT found taken.
    pub found: u64,
    /// Packets that could not be tracked.
    pub invalid: u64,
    /// Connections inserted through netlink.
    pub insert: u64,
    /// Connections that could not be inserted.
    pub insert_failed: u64,
    /// Packets dropped, since the table was full or a connection clashed with another one.
    pub drop: u64,
    /// Connections evicted from a full table.
    pub early_drop: u64,
    /// Invalid ICMP messages.
    pub error: u64,
    /// Connections that had been expected.
    pub expect_new: u64,
    /// Expectations made.
    pub expect_create: u64,
    /// Expectations removed.
    pub expect_delete: u64,
    /// Clashes resolved without a drop.
    pub clash_resolve: u64,
}
