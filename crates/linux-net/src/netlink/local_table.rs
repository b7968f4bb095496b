//! The local table: routes to the host's own addresses and to broadcast addresses, which follow from the
//! addresses of its interfaces (`fib_add_ifaddr` of Linux).

use super::message::{Message, To};
use super::requests::ip_bytes;
use super::routes::{tree_order, trie_order};
use belljar_linux_abi::c;
use belljar_net::Prefix;
use belljar_net::policy::table;
use belljar_net::routes::Ip;
use belljar_netstack::{LO, LocalRouteKey, Stack, interface_index};
use std::cmp::Reverse;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// `RTPROT_KERNEL`.
const KERNEL: u8 = 2;
/// Metric of routes to groups, `IP6_RT_PRIO_ADDRCONF`.
const ADDRCONF_METRIC: u32 = 256;

/// Route of the local table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LocalEntry<A> {
    pub(super) prefix: Prefix<A>,
    /// `RTN_*`.
    pub(super) kind: u8,
    /// `RT_SCOPE_*`.
    pub(super) scope: u8,
    pub(super) interface: usize,
    /// Preferred source address of IPv4.
    source: Option<A>,
    pub(super) metric: u32,
}

/// Routes to the host's IPv4 addresses and to the broadcast addresses of its interfaces, in the order of Linux.
pub(super) fn local_entries(net: &Stack) -> Vec<LocalEntry<Ipv4Addr>> {
    let mut all: Vec<LocalEntry<Ipv4Addr>> = Vec::new();
    for (number, interface) in net.interfaces.iter().enumerate() {
        for own in &interface.addresses {
            let primary = net.interfaces.primary_of(number, own);
            let mut add = |ip: Ipv4Addr, len, kind, scope, metric| {
                let prefix = Prefix::new(ip, len);
                let source = Some(primary.ip);
                let entry = LocalEntry { prefix, kind, scope, interface: number, source, metric };
                // Equal routes exist once; another one is before those that are older.
                if !all.contains(&entry) {
                    all.push(entry);
                }
            };
            // Without a usable source, Linux refuses the other routes.
            let usable =
                !(primary.ip.is_multicast() || primary.ip.is_broadcast() || primary.ip.is_unspecified());
            // Routes of this type stay while the interface is down.
            let network = net.interfaces.address_network(number, own);
            let zero = network.address().is_unspecified();
            let routed = net.interfaces.address_attributes(number, own).is_routed();
            let is_primary = net.interfaces.primary_of(number, own) == *own;
            let wide = network.bits() < 32 || network.address() != own.ip;
            if usable && routed && !zero && is_primary && number == LO && wide {
                let was_up = net.local_order.iter().any(|old| {
                    (old.ip, old.bits, old.interface)
                        == (IpAddr::V4(network.address()), network.bits(), number)
                });
                if interface.up || was_up {
                    let metric = net.interfaces.address_attributes(number, own).metric;
                    add(network.address(), network.bits(), c::RTN_LOCAL, c::RT_SCOPE_HOST, metric);
                }
            }
            if usable || is_primary {
                add(own.ip, 32, c::RTN_LOCAL, c::RT_SCOPE_HOST, 0);
            }
            if usable && interface.up {
                let of_network = [Some(network.address()), network.broadcast()];
                for broadcast in net.interfaces.broadcasts(number, own) {
                    if zero && of_network.contains(&Some(broadcast)) {
                        continue;
                    }
                    add(broadcast, 32, c::RTN_BROADCAST, c::RT_SCOPE_LINK, 0);
                }
            }
        }
    }
    all
}

/// Preferred source of the route to one of the host's own IPv4 addresses.
pub(super) fn local_source(net: &Stack, ip: IpAddr) -> Option<IpAddr> {
    let IpAddr::V4(ip) = ip else { return None };
    let own = Prefix::new(ip, 32);
    let entries = in_order(net, local_entries(net));
    entries.iter().find(|entry| entry.prefix == own)?.source.map(IpAddr::V4)
}

/// Identity of a route of the local table, for [`Stack::local_order`](belljar_netstack::Stack).
fn key<A: Ip>(entry: &LocalEntry<A>) -> LocalRouteKey {
    LocalRouteKey {
        ip: entry.prefix.address().into(),
        bits: entry.prefix.bits(),
        kind: entry.kind,
        interface: entry.interface,
        source: entry.source.map(Into::into),
    }
}

/// Records the order in which routes of the local table were added.
pub(super) fn record_order(net: &mut Stack) {
    let mut now: Vec<_> = local_entries(net).iter().map(key).collect();
    now.extend(local_entries6(net).iter().map(key));
    net.local_order.retain(|old| now.contains(old));
    let new: Vec<_> = now.into_iter().filter(|new| !net.local_order.contains(new)).collect();
    net.local_order.extend(new);
}

/// Routes of the local table in the order of Linux: by prefix, those of one prefix in the order of their
/// addition.
pub(super) fn in_order<A: Ip>(net: &Stack, mut all: Vec<LocalEntry<A>>) -> Vec<LocalEntry<A>> {
    let position = |entry: &LocalEntry<A>| {
        let key = key(entry);
        net.local_order.iter().position(|old| *old == key).unwrap_or(usize::MAX)
    };
    all.sort_by_key(|entry| match A::BITS {
        32 => (trie_order(&entry.prefix), None, position(entry)),
        _ => ((A::LEAST, Reverse(0)), Some(tree_order(&entry.prefix)), position(entry)),
    });
    all
}

/// Routes to the host's IPv6 addresses and to groups.
pub(super) fn local_entries6(net: &Stack) -> Vec<LocalEntry<Ipv6Addr>> {
    let entry = |prefix, kind, interface, metric| LocalEntry {
        prefix,
        kind,
        scope: c::RT_SCOPE_UNIVERSE,
        interface,
        source: None,
        metric,
    };
    let interfaces = || net.interfaces.iter().enumerate();
    let own = interfaces().flat_map(|(number, interface)| {
        let usable = interface.addresses6.iter().filter(move |own| !net.v6.is_tentative(number, own.ip));
        usable.map(move |own| (Prefix::new(own.ip, 128), number))
    });
    let mut all: Vec<_> = own.map(|(prefix, number)| entry(prefix, c::RTN_LOCAL, number, 0)).collect();
    let groups = Prefix::new(Ipv6Addr::new(0xff00, 0, 0, 0, 0, 0, 0, 0), 8);
    let linked =
        net.v6.grouped().iter().filter(|number| **number != LO && net.interfaces[**number].up).copied();
    all.extend(linked.map(|number| entry(groups, c::RTN_MULTICAST, number, ADDRCONF_METRIC)));
    all
}

/// Message about a route of the local table.
pub(super) fn message<A: Ip>(net: &Stack, entry: &LocalEntry<A>, to: To) -> Vec<u8> {
    let (sequence, flags, port) = to;
    let ip: IpAddr = entry.prefix.address().into();
    let family = if ip.is_ipv4() { c::AF_INET } else { c::AF_INET6 };
    // Routes to the host's own addresses do not depend on the carrier.
    const RTNH_F_LINKDOWN: u8 = 16;
    let without = entry.kind != c::RTN_LOCAL && !net.interfaces[entry.interface].carrier;
    let down = if without { RTNH_F_LINKDOWN } else { 0 };
    let message = Message::new(c::RTM_NEWROUTE, flags, sequence, port)
        .put(&[family as u8, entry.prefix.bits(), 0, 0, c::RT_TABLE_LOCAL, KERNEL, entry.scope, entry.kind])
        .put(&[down, 0, 0, 0])
        .attribute(c::RTA_TABLE, &table::LOCAL.to_ne_bytes())
        .attribute(c::RTA_DST, &ip_bytes(ip));
    let interface = interface_index(entry.interface).to_ne_bytes();
    match entry.source {
        Some(source) if entry.metric != 0 => message
            .attribute(c::RTA_PRIORITY, &entry.metric.to_ne_bytes())
            .attribute(c::RTA_PREFSRC, &ip_bytes(source.into()))
            .attribute(c::RTA_OIF, &interface),
        Some(source) => {
            message.attribute(c::RTA_PREFSRC, &ip_bytes(source.into())).attribute(c::RTA_OIF, &interface)
        }
        None => message
            .attribute(c::RTA_PRIORITY, &entry.metric.to_ne_bytes())
            .attribute(c::RTA_OIF, &interface)
            .attribute(super::routes::RTA_PREF, &[0]),
    }
    .finish()
}
