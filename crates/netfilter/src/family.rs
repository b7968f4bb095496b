//! Address families of tables, the hooks of their base chains, and the types of base chains.

use belljar_linux_abi::Errno;

/// Family of a table, `NFPROTO_*`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TableFamily {
    /// IPv4 and IPv6.
    Inet,
    /// IPv4.
    Ip,
    /// IPv6.
    Ip6,
}

impl TableFamily {
    /// The family of a request. Those of a kernel without ARP, bridge and netdev tables are refused.
    pub(crate) fn of_request(number: u8) -> Result<TableFamily, Errno> {
        match number {
            1 => Ok(TableFamily::Inet),
            2 => Ok(TableFamily::Ip),
            10 => Ok(TableFamily::Ip6),
            _ => Err(Errno::EOPNOTSUPP),
        }
    }
    /// `NFPROTO_*`.
    pub(crate) fn number(self) -> u8 {
        match self {
            TableFamily::Inet => 1,
            TableFamily::Ip => 2,
            TableFamily::Ip6 => 10,
        }
    }
    /// True if chains of this family see packets of IPv6 (`v6`) or IPv4.
    pub(crate) fn sees(self, v6: bool) -> bool {
        match self {
            TableFamily::Inet => true,
            TableFamily::Ip => !v6,
            TableFamily::Ip6 => v6,
        }
    }
}

/// Hook of the IP layer, `NF_INET_*`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FilterHook {
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

impl FilterHook {
    /// All hooks by number.
    pub const ALL: [FilterHook; 5] = [
        FilterHook::Prerouting,
        FilterHook::Input,
        FilterHook::Forward,
        FilterHook::Output,
        FilterHook::Postrouting,
    ];
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
    pub(crate) fn fits(self, hook: FilterHook) -> bool {
        match self {
            ChainType::Filter => true,
            ChainType::Route => hook == FilterHook::Output,
            ChainType::Nat => hook != FilterHook::Forward,
        }
    }
}
