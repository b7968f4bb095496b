//! Address families of tables, the hooks of their base chains, and the types of base chains.

use belljar_linux_abi::Errno;

/// Family of a table, `NFPROTO_*`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Family {
    /// IPv4 and IPv6.
    Inet,
    /// IPv4.
    Ip,
    /// IPv6.
    Ip6,
}

impl Family {
    /// The family of a request. Those of a kernel without ARP, bridge and netdev tables are refused.
    pub(crate) fn of_request(number: u8) -> Result<Family, Errno> {
        match number {
            1 => Ok(Family::Inet),
            2 => Ok(Family::Ip),
            10 => Ok(Family::Ip6),
            _ => Err(Errno::EOPNOTSUPP),
        }
    }
    /// `NFPROTO_*`.
    pub(crate) fn number(self) -> u8 {
        match self {
            Family::Inet => 1,
            Family::Ip => 2,
            Family::Ip6 => 10,
        }
    }
    /// True if chains of this family see packets of IPv6 (`v6`) or IPv4.
    pub(crate) fn sees(self, v6: bool) -> bool {
        match self {
            Family::Inet => true,
            Family::Ip => !v6,
            Family::Ip6 => v6,
        }
    }
}

/// Hook of the IP layer, `NF_INET_*`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Hook {
    /// Received.
    Prerouting,
    /// For this host.
    Input,
    /// For another host, routed.
    Forward,
    /// Sent by this host.
    Output,
    /// About to leave.
    Postrouting,
}

impl Hook {
    /// All hooks by number.
    pub const ALL: [Hook; 5] =
        [Hook::Prerouting, Hook::Input, Hook::Forward, Hook::Output, Hook::Postrouting];
}

/// Type of a base chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChainType {
    /// `filter`.
    Filter,
    /// `route`: packets of this host whose addresses or mark change are routed again.
    Route,
    /// `nat`: sees the first packet of each connection.
    Nat,
}

impl ChainType {
    /// The type of this name.
    pub(crate) fn by_name(name: &str) -> Option<ChainType> {
        match name {
            "filter" => Some(ChainType::Filter),
            "route" => Some(ChainType::Route),
            "nat" => Some(ChainType::Nat),
            _ => None,
        }
    }
    pub(crate) fn name(self) -> &'static str {
        match self {
            ChainType::Filter => "filter",
            ChainType::Route => "route",
            ChainType::Nat => "nat",
        }
    }
    /// True if a chain of the type may be at a hook (`hook_mask` of `struct nft_chain_type`).
    pub(crate) fn fits(self, hook: Hook) -> bool {
        match self {
            ChainType::Filter => true,
            ChainType::Route => hook == Hook::Output,
            ChainType::Nat => hook != Hook::Forward,
        }
    }
}
