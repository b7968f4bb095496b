//! Requests and answers of `NETLINK_ROUTE` and `NETLINK_SOCK_DIAG`, netlink(7), rtnetlink(7), sock_diag(7):
//! queries and changes of interfaces, addresses, routes, rules and neighbours, and queries of sockets.

mod addresses;
mod attributes;
pub(crate) mod bond_links;
pub(crate) mod bridge_links;
mod bridges;
mod diag;
mod ethtool_family;
mod fdb;
mod gateways;
mod generic;
mod hops;
pub(crate) mod ipvlan_links;
mod links;
mod local_table;
pub(crate) mod macvlan_links;
mod message;
mod metrics;
mod neighbours;
mod netconf;
mod networks;
mod new_links;
mod new_routes;
mod nexthops;
mod policies;
mod policy;
pub(crate) mod refusal;
mod requests;
mod route_config;
mod route_dumps;
mod routes;
mod rules;
mod traffic;
mod tree;
mod tunnel_links;
mod unix_diag;
pub(crate) mod vxlan_links;
mod wireguard_family;

use belljar_linux_abi::c;
use belljar_net::routes::{NextHop, RouteTable};
use belljar_netstack::Stack;
use belljar_netstack::routing::Routed;
pub use diag::InetSocketInfo;
use message::Request;
pub use neighbours::nud;
pub(crate) use new_routes::RT_SCOPE_NOWHERE;
use new_routes::{Checked, NewRoute};
use refusal::Refusal;
use route_config::Wanted;
pub(crate) use routes::trie_order;
use std::net::{Ipv4Addr, Ipv6Addr};

/// Multicast groups, `RTNLGRP_*`.
pub mod group {
    /// Interfaces.
    pub const LINK: u32 = 1;
    /// Neighbours of both families.
    pub const NEIGHBOUR: u32 = 3;
    /// IPv4 addresses.
    pub const IPV4_ADDRESS: u32 = 5;
    /// IPv4 routes.
    pub const IPV4_ROUTE: u32 = 7;
    /// IPv4 rules.
    pub const IPV4_RULE: u32 = 8;
    /// IPv6 addresses.
    pub const IPV6_ADDRESS: u32 = 9;
    /// IPv6 routes.
    pub const IPV6_ROUTE: u32 = 11;
    /// IPv6 rules.
    pub const IPV6_RULE: u32 = 19;
    /// Next-hop objects.
    pub const NEXTHOP: u32 = 32;
}
/// Address family with notifications of routes and rules, and with requests about routes.
pub(crate) trait Announced: Routed {
    /// Multicast group of route notifications.
    const ROUTE_GROUP: u32;
    /// Multicast group of rule notifications.
    const RULE_GROUP: u32;
    /// Decodes a request about a route.
    fn read<'a>(request: &Request<'a>) -> Result<Wanted<'a, Self>, Refusal>;
    /// Checks a new route and its next hops. `metrics` is called where Linux decodes those.
    fn checked_hops<M>(
        net: &Stack,
        wanted: &Wanted<'_, Self>,
        metrics: impl FnOnce() -> Result<M, Refusal>,
    ) -> Result<Checked<Self, M>, Refusal>;
    /// True if a route by these next hops may have a preferred source address.
    fn may_be_source(net: &Stack, ip: Self, hops: &[NextHop<Self>]) -> bool;
    /// True if a request for a new route creates its table, whether or not the route is valid.
    fn creates_table(wanted: &Wanted<'_, Self>) -> bool;
    /// Puts a route into a table by the flags of the request.
    fn put(table: &mut RouteTable<Self>, new: NewRoute<Self>, flags: u16) -> Result<(), Refusal>;
}

impl Announced for Ipv4Addr {
    const ROUTE_GROUP: u32 = group::IPV4_ROUTE;
    const RULE_GROUP: u32 = group::IPV4_RULE;
    fn read<'a>(request: &Request<'a>) -> Result<Wanted<'a, Ipv4Addr>, Refusal> {
        route_config::read_v4(request)
    }
    fn checked_hops<M>(
        net: &Stack,
        wanted: &Wanted<'_, Ipv4Addr>,
        metrics: impl FnOnce() -> Result<M, Refusal>,
    ) -> Result<Checked<Ipv4Addr, M>, Refusal> {
        new_routes::checked_hops_v4(net, wanted, metrics)
    }
    fn may_be_source(net: &Stack, ip: Ipv4Addr, _: &[NextHop]) -> bool {
        match gateways::address_type(net, ip) {
            c::RTN_LOCAL => true,
            c::RTN_UNICAST => net.is_of_local_network(ip),
            _ => false,
        }
    }
    fn creates_table(_: &Wanted<'_, Ipv4Addr>) -> bool {
        true
    }
    fn put(table: &mut RouteTable, new: NewRoute<Ipv4Addr>, flags: u16) -> Result<(), Refusal> {
        new_routes::put_v4(table, new, flags)
    }
}

impl Announced for Ipv6Addr {
    const ROUTE_GROUP: u32 = group::IPV6_ROUTE;
    const RULE_GROUP: u32 = group::IPV6_RULE;
    fn read<'a>(request: &Request<'a>) -> Result<Wanted<'a, Ipv6Addr>, Refusal> {
        route_config::read_v6(request)
    }
    fn checked_hops<M>(
        net: &Stack,
        wanted: &Wanted<'_, Ipv6Addr>,
        metrics: impl FnOnce() -> Result<M, Refusal>,
    ) -> Result<Checked<Ipv6Addr, M>, Refusal> {
        new_routes::checked_hops_v6(net, wanted, metrics)
    }
    fn may_be_source(net: &Stack, ip: Ipv6Addr, hops: &[NextHop<Ipv6Addr>]) -> bool {
        new_routes::may_be_source_v6(net, ip, hops)
    }
    fn creates_table(wanted: &Wanted<'_, Ipv6Addr>) -> bool {
        wanted.check().is_ok()
    }
    fn put(table: &mut RouteTable<Ipv6Addr>, new: NewRoute<Ipv6Addr>, flags: u16) -> Result<(), Refusal> {
        new_routes::put_v6(table, new, flags)
    }
}

/// Netlink socket that sends a request.
#[derive(Clone, Copy, Debug)]
pub struct Requester {
    /// Port id.
    pub port: u32,
    /// `NETLINK_EXT_ACK`: errors carry a message.
    pub extended: bool,
    /// `NETLINK_CAP_ACK`: errors do not quote the request.
    pub capped: bool,
    /// `NETLINK_GET_STRICT_CHK`: queries are checked strictly.
    pub strict: bool,
    /// True if the owner has `CAP_NET_ADMIN`.
    pub may_change: bool,
}
