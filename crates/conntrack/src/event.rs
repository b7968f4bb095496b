//! Events: reports of new, changed and removed connections and expectations for the sockets that have joined
//! ctnetlink's multicast groups.
//!
//! Changes of a connection are collected in a mask and reported once its packet passes the last hook, as one
//! message (`nf_conntrack_ecache.c`). Nothing is collected while no socket listens.

use bitflags::bitflags;

bitflags! {
    /// Multicast groups of `NETLINK_NETFILTER` for connections and expectations (`NFNLGRP_*`): bit `n - 1`
    /// for group `n`.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct EventGroups: u32 {
        /// `NFNLGRP_CONNTRACK_NEW`, group 1.
        const NEW = 1 << 0;
        /// `NFNLGRP_CONNTRACK_UPDATE`, group 2.
        const UPDATE = 1 << 1;
        /// `NFNLGRP_CONNTRACK_DESTROY`, group 3.
        const DESTROY = 1 << 2;
        /// `NFNLGRP_CONNTRACK_EXP_NEW`, group 4.
        const EXPECT_NEW = 1 << 3;
        /// `NFNLGRP_CONNTRACK_EXP_UPDATE`, group 5.
        const EXPECT_UPDATE = 1 << 4;
        /// `NFNLGRP_CONNTRACK_EXP_DESTROY`, group 6.
        const EXPECT_DESTROY = 1 << 5;
    }
}

impl EventGroups {
    /// Groups of connections.
    pub const CONNECTIONS: EventGroups =
        EventGroups::NEW.union(EventGroups::UPDATE).union(EventGroups::DESTROY);

    /// Number of a single group.
    pub const fn number(self) -> u32 {
        self.bits().trailing_zeros() + 1
    }
}

/// Event, as the message that the sockets of a group receive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CtEvent {
    /// The group, one bit.
    pub group: EventGroups,
    /// Complete netlink message.
    pub message: Vec<u8>,
    /// Socket whose request caused the event, and whether it asked for a copy.
    pub reporter: Reporter,
}

/// Origin of a change: a request through netlink, or none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reporter {
    /// Port of the socket, 0 for changes by packets and timeouts.
    pub port: u32,
    /// `NLM_F_ECHO`: the socket receives the event, too.
    pub echo: bool,
}

/// Changes that are reported: numbers of `enum ip_conntrack_events`, as bits.
pub(crate) mod change {
    pub const NEW: u16 = 1 << 0;
    pub const RELATED: u16 = 1 << 1;
    pub const DESTROY: u16 = 1 << 2;
    pub const REPLY: u16 = 1 << 3;
    pub const ASSURED: u16 = 1 << 4;
    pub const PROTOINFO: u16 = 1 << 5;
    pub const HELPER: u16 = 1 << 6;
    pub const MARK: u16 = 1 << 7;
    pub const SEQADJ: u16 = 1 << 8;
    pub const LABEL: u16 = 1 << 10;
}
