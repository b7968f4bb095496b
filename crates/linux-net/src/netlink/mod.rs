//! Requests and answers of `NETLINK_ROUTE` and `NETLINK_SOCK_DIAG`, netlink(7), rtnetlink(7), sock_diag(7):
//! queries and changes of interfaces, addresses, routes, rules and neighbours, and queries of sockets.

mod addresses;
mod attributes;
mod diag;
mod hops;
mod links;
mod message;
mod metrics;
mod neighbours;
mod netconf;
mod networks;
mod new_links;
mod nexthops;
mod refusal;
mod requests;
mod routes;
mod rules;
mod unix_diag;

use belljar_netstack::family::Family;
pub use diag::InetSocketInfo;
pub use neighbours::nud;
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
/// Address family with notifications of routes and rules.
pub(crate) trait Announced: Family {
    /// Multicast group of route notifications.
    const ROUTE_GROUP: u32;
    /// Multicast group of rule notifications.
    const RULE_GROUP: u32;
}

impl Announced for Ipv4Addr {
    const ROUTE_GROUP: u32 = group::IPV4_ROUTE;
    const RULE_GROUP: u32 = group::IPV4_RULE;
}

impl Announced for Ipv6Addr {
    const ROUTE_GROUP: u32 = group::IPV6_ROUTE;
    const RULE_GROUP: u32 = group::IPV6_RULE;
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
    /// True if the owner has `CAP_NET_ADMIN`.
    pub may_change: bool,
}
