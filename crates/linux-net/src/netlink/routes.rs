//! Routes of both families in rtnetlink: `RTM_NEWROUTE`, `RTM_GETROUTE`.

use super::Announced;
use super::attributes;
use super::gateways::{LINK_DOWN, ON_LINK, find_v6};
use super::hops::{RTA_NH_ID, gateway_attribute, hop_bytes, hop_flags};
use super::local_table::local_source;
use super::message::{Message, Request, To};
use super::metrics;
use super::new_routes::{NewRoute, set_alike};
use super::refusal::{Refusal, refusal};
use super::requests::ip_bytes;
use super::route_config::{self, Wanted};
use super::route_dumps;
use crate::Admin;
use belljar_linux_abi::{Errno, c};
use belljar_net::Prefix;
use belljar_net::policy::table;
use belljar_net::routes::{Ip, NextHop, Rank, Route, RouteKind, RouteTable, SHOWN_FLAGS, protocol};
use belljar_netstack::devices::vrf;
use belljar_netstack::family::{Family, FlowKey, RouteQuery};
use belljar_netstack::ip::route::{ResolvedRoute, Through};
use belljar_netstack::{LO, Stack, interface_index};
use std::cmp::Reverse;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Length of `struct rtmsg` in bytes.
pub(super) const RTMSG: usize = 12;
/// `RTM_F_CLONED`: the result of a lookup rather than an entry of the table.
const RTM_F_CLONED: u32 = 0x200;
/// `RTM_F_LOOKUP_TABLE`: the result has the number of the table.
const RTM_F_LOOKUP_TABLE: u32 = 0x1000;
/// Further flags of an IPv4 lookup's result (`RTCF_LOCAL`, `RTCF_BROADCAST`).
const RTCF_LOCAL: u32 = 0x8000_0000;
const RTCF_BROADCAST: u32 = 0x1000_0000;
/// `RTM_F_NOTIFY` of a request, and its mark in the result.
pub(super) const RTM_F_NOTIFY: u32 = 0x100;
const RTCF_NOTIFY: u32 = 0x1_0000;
/// Length of `struct rta_cacheinfo` in bytes.
const CACHEINFO_LEN: usize = 32;
const RTA_MARK: u16 = 16;
/// Attributes for the selectors of policy rules.
const RTA_UID: u16 = 25;
const RTA_IP_PROTO: u16 = 27;
const RTA_SPORT: u16 = 28;
const RTA_DPORT: u16 = 29;
/// Router preference (RFC 4191).
pub(super) const RTA_PREF: u16 = 20;

/// Route with its table, prefix and metric.
#[derive(Clone, Debug)]
pub(super) struct Entry<A> {
    pub(super) table: u32,
    prefix: Prefix<A>,
    metric: u32,
    pub(super) route: Route<A>,
}

impl<A: Announced> Entry<A> {
    pub(super) fn of((table, prefix, metric, route): (u32, Prefix<A>, u32, &Route<A>)) -> Entry<A> {
        Entry { table, prefix, metric, route: route.clone() }
    }
}

/// Route types that a table can hold, as `RTN_*`.
const KINDS: [(RouteKind, u8); 6] = [
    (RouteKind::Unicast, c::RTN_UNICAST),
    (RouteKind::Blackhole, c::RTN_BLACKHOLE),
    (RouteKind::Unreachable, c::RTN_UNREACHABLE),
    (RouteKind::Prohibit, c::RTN_PROHIBIT),
    (RouteKind::Throw, c::RTN_THROW),
    (RouteKind::Local, c::RTN_LOCAL),
];

/// Table number for the one-byte header field; the attribute has the full number.
pub(crate) fn short_table(number: u32) -> u8 {
    u8::try_from(number).unwrap_or(c::RT_TABLE_COMPAT)
}

impl Admin<'_> {
    /// Handles `ip route get`.
    pub(crate) fn route_to(&self, request: &Request<'_>, port: u32) -> Result<Vec<u8>, Refusal> {
        let (ip, source) = route_dumps::query(request)?;
        if let IpAddr::V6(to) = ip {
            return self.route_to_v6(request, (to, source), port);
        }
        let through = options_asked(request)?;
        let Through { device, mark, tos, sender } = through;
        if device.is_some_and(|index| index != 0 && self.net.interfaces.by_index(index).is_none()) {
            return Err(Errno::ENODEV.into());
        }
        let found = match source {
            // The unspecified address is this host, whether or not `lo` is up (`ip_route_output_key_hash_rcu`).
            None if ip.is_unspecified() => {
                let number = device.and_then(|index| self.net.interfaces.by_index(index));
                if number.is_some_and(|number| !self.net.interfaces[number].up) {
                    return Err(Errno::ENETUNREACH.into());
                }
                let of = |number| self.net.interfaces.source_on(number, None, c::RT_SCOPE_HOST);
                ResolvedRoute::to_this_host(number.and_then(of).unwrap_or(Ipv4Addr::LOCALHOST).into())
            }
            source => self.net.route(ip, source, through)?,
        };
        let (family, bits) = if ip.is_ipv4() { (c::AF_INET, 32) } else { (c::AF_INET6, 128) };
        // IPv6 always reports `RTA_SRC`, unspecified if the request has none, and the chosen source as
        // `RTA_PREFSRC`.
        let asked = if ip.is_ipv6() { source.or(Some(Ipv6Addr::UNSPECIFIED.into())) } else { source };
        let source_bits = if asked.is_some() { bits } else { 0 };
        let kind = match (found.interface, found.broadcast) {
            (LO, _) if found.table == table::LOCAL => c::RTN_LOCAL,
            (_, true) => c::RTN_BROADCAST,
            _ => c::RTN_UNICAST,
        };
        let also = match (found.interface, kind) {
            (_, c::RTN_BROADCAST) => RTCF_LOCAL | RTCF_BROADCAST,
            (LO, _) => RTCF_LOCAL,
            _ => 0,
        };
        let notifies = request.word(8)? & RTM_F_NOTIFY != 0;
        let also = also | if notifies { RTCF_NOTIFY | RTM_F_NOTIFY } else { 0 };
        // Type of service of the route, if it has one.
        let tos = match (ip, source) {
            (IpAddr::V4(to), from) => {
                let source = from.and_then(<Ipv4Addr as Family>::of);
                let asked = RouteQuery { mark, tos, sender, ..RouteQuery::own(to, source) };
                self.net.lookup(&asked, || 0).ok().flatten().map_or(0, |found| found.route.tos)
            }
            _ => 0,
        };
        // The table is reported on request. Until a rule is added, IPv4 keeps the local and main tables merged
        // (`fib_unmerge`).
        let asks = request.word(8)? & RTM_F_LOOKUP_TABLE != 0;
        let merged = found.table == table::LOCAL && !self.net.policy.has_further_rules();
        let table = if merged || !asks || ip.is_unspecified() { table::MAIN } else { found.table };
        let mut message = Message::new(c::RTM_NEWROUTE, 0, request.sequence, port)
            .put(&[family as u8, bits, source_bits, tos, short_table(table), c::RTPROT_UNSPEC])
            .put(&[c::RT_SCOPE_UNIVERSE, kind])
            .put(&(RTM_F_CLONED | also).to_ne_bytes())
            .attribute(c::RTA_TABLE, &table.to_ne_bytes())
            .attribute(c::RTA_DST, &ip_bytes(ip));
        if let Some(asked) = asked {
            message = message.attribute(c::RTA_SRC, &ip_bytes(asked));
        }
        let interface = interface_index(found.interface).to_ne_bytes();
        if ip.is_ipv4() {
            message = message.attribute(c::RTA_OIF, &interface);
        }
        if ip.is_ipv6() || source.is_none() {
            let of_local = local_source(self.net, ip).filter(|_| found.table == table::LOCAL);
            message = message.attribute(c::RTA_PREFSRC, &ip_bytes(of_local.unwrap_or(found.source)));
        }
        if let Some(gateway) = found.gateway {
            let (kind, value) = gateway_attribute(gateway, ip.is_ipv4());
            message = message.attribute(kind, &value);
        }
        message = metrics::put(message, &found.metrics);
        if mark != 0 {
            message = message.attribute(RTA_MARK, &mark.to_ne_bytes());
        }
        message = match ip {
            IpAddr::V4(_) => message.attribute(RTA_UID, &sender.uid.to_ne_bytes()),
            IpAddr::V6(_) => message.attribute(c::RTA_OIF, &interface),
        };
        // Usage statistics are not recorded.
        Ok(message.attribute(c::RTA_CACHEINFO, &[0; CACHEINFO_LEN]).finish())
    }

    /// Handles `ip -6 route get` (`inet6_rtm_getroute`): reports the entry of the table.
    fn route_to_v6(
        &self,
        request: &Request<'_>,
        (to, source): (Ipv6Addr, Option<IpAddr>),
        port: u32,
    ) -> Result<Vec<u8>, Refusal> {
        let through = options_asked(request)?;
        let device = through.device.filter(|index| *index != 0);
        // An interface that is not there is one without routes.
        let number = |index| self.net.interfaces.by_index(index).ok_or(Errno::ENETUNREACH);
        let oif = device.map(number).transpose()?;
        let from = source.and_then(<Ipv6Addr as Family>::of);
        let found = find_v6(self.net, (to, from), oif, &through).ok_or(Errno::ENETUNREACH)?;
        match found.kind {
            c::RTN_BLACKHOLE => return Err(found.refused.unwrap_or(Errno::EINVAL).into()),
            c::RTN_PROHIBIT => return Err(Errno::EACCES.into()),
            c::RTN_UNREACHABLE => return Err(Errno::EHOSTUNREACH.into()),
            _ => {}
        }
        let interface = if found.kind == c::RTN_LOCAL { LO } else { found.interface };
        let mut message = Message::new(c::RTM_NEWROUTE, 0, request.sequence, port)
            .put(&[c::AF_INET6 as u8, 128, 128, 0, short_table(found.table), found.protocol])
            .put(&[c::RT_SCOPE_UNIVERSE, found.kind])
            .put(&[0; 4])
            .attribute(c::RTA_TABLE, &found.table.to_ne_bytes())
            .attribute(c::RTA_DST, &to.octets())
            .attribute(c::RTA_SRC, &ip_bytes(source.unwrap_or(Ipv6Addr::UNSPECIFIED.into())));
        let chosen = || self.net.source_for(to, found.interface).map(IpAddr::V6);
        // The source of a route is reported twice: as the chosen one, and as its own (`rt6_fill_node`).
        for source in [found.source.or_else(chosen), found.source].into_iter().flatten() {
            message = message.attribute(c::RTA_PREFSRC, &ip_bytes(source));
        }
        message =
            metrics::put(message, &found.metrics).attribute(c::RTA_PRIORITY, &found.metric.to_ne_bytes());
        if let Some(gateway) = found.gateway {
            message = message.attribute(c::RTA_GATEWAY, &ip_bytes(gateway));
        }
        Ok(message
            .attribute(c::RTA_OIF, &interface_index(interface).to_ne_bytes())
            // Usage statistics are not recorded.
            .attribute(c::RTA_CACHEINFO, &[0; CACHEINFO_LEN])
            .attribute(RTA_PREF, &[found.preference])
            .finish())
    }

    /// Handles `ip route add`, `replace` and `change` (`inet_rtm_newroute`, `inet6_rtm_newroute`).
    pub(crate) fn add_route<A: Announced>(
        &mut self,
        request: &Request<'_>,
        port: u32,
    ) -> Result<(), Refusal> {
        let mut wanted = A::read(request)?;
        self.look_through(request, &attributes::ROUTE)?;
        let v4 = A::AF == c::AF_INET;
        // IPv4 ignores the source, and IPv6 one of no bits.
        if !v4 && request.body[2] != 0 && request.attribute(RTMSG, c::RTA_SRC).is_some() {
            self.warn("rtnetlink: RTA_SRC of routes is not supported and refused");
            return Err(refusal(Errno::EOPNOTSUPP, "attribute not supported"));
        }
        let number = if wanted.table == 0 { table::MAIN } else { wanted.table };
        if v4 {
            A::policy_mut(self.net).create_table(number);
        } else {
            wanted.kind = if wanted.kind == c::RTN_UNSPEC { c::RTN_UNICAST } else { wanted.kind };
            wanted.protocol =
                if wanted.protocol == c::RTPROT_UNSPEC { c::RTPROT_BOOT } else { wanted.protocol };
        }
        if !v4 && A::creates_table(&wanted) {
            A::policy_mut(self.net).create_table(number);
        }
        let checked = A::checked_hops(self.net, &wanted, || wanted.metrics(request))?;
        let Some((asked, _)) = KINDS.iter().find(|(_, rtn)| *rtn == wanted.kind) else {
            self.warn(format!("netlink: routes of type {} are not supported", wanted.kind));
            return Err(Errno::EOPNOTSUPP.into());
        };
        if (*asked == RouteKind::Local) != (number == table::LOCAL) {
            self.warn("netlink: routes of type local are supported in the table local alone, and only they");
            return Err(Errno::EOPNOTSUPP.into());
        }
        let (metrics, others) = checked.metrics;
        if !others.is_empty() {
            self.warn(format!(
                "netlink: of a route's metrics only mtu and advmss count, not the numbers {others:?}"
            ));
        }
        let refuses = v4 && !matches!(asked, RouteKind::Unicast | RouteKind::Local);
        let itself = |ip| v4 && wanted.kind == c::RTN_LOCAL && ip == wanted.to;
        let valid = |ip| itself(ip) || A::may_be_source(self.net, ip, &checked.hops);
        if !refuses && !wanted.source.is_none_or(valid) {
            let words = if v4 { "Invalid prefsrc address" } else { "Invalid source address" };
            return Err(refusal(Errno::EINVAL, words));
        }
        let kind = match &checked.object {
            // A blackhole is one whatever the type of the route.
            Some(object) if *asked == RouteKind::Unicast || object.kind == RouteKind::Blackhole => {
                object.kind
            }
            _ => *asked,
        };
        let over_lo = checked.hops.first().is_some_and(|hop| hop.interface == LO && hop.is_direct());
        // Linux replaces the flags of a route that refuses packets, unless it has an object.
        let prefers = checked.object.is_some() || kind == RouteKind::Unicast && !over_lo;
        let route = Route {
            kind,
            tos: wanted.tos,
            // IPv6 routes that refuse packets are over `lo`.
            hops: match kind {
                RouteKind::Unicast | RouteKind::Local => checked.hops,
                _ if v4 && checked.object.is_none() => Vec::new(),
                _ => checked.hops,
            },
            source: wanted.source,
            protocol: wanted.protocol,
            scope: wanted.scope,
            preference: if prefers { wanted.preference } else { 0 },
            metrics,
            object: checked.object.map(|object| object.id),
            flags: if v4 { wanted.reported_flags() } else { 0 },
        };
        let metric = if !v4 && wanted.metric == 0 { A::METRIC } else { wanted.metric };
        let prefix = wanted.prefix();
        let entry = Entry { table: number, prefix, metric, route };
        let new = NewRoute { prefix, metric, route: entry.route.clone() };
        let rank = Rank::new(wanted.tos, metric);
        let changed = change_table(self.net, number, |routes| {
            A::put(routes, new, request.flags)?;
            // The route of which this one has become a part, if it has.
            let has = |other: &&Route<A>| entry.route.hops.iter().all(|hop| other.hops.contains(hop));
            Ok::<_, Refusal>(routes.all_alike(prefix, rank).filter(|_| !v4).find(has).cloned())
        })?;
        let entry = Entry { route: changed.unwrap_or(entry.route), ..entry };
        let message = message(self.net, &entry, c::RTM_NEWROUTE, (request.sequence, 0, port));
        self.announce(A::ROUTE_GROUP, &message);
        Ok(())
    }

    /// Handles `ip route del`: deletes the first route that matches (`inet_rtm_delroute`,
    /// `inet6_rtm_delroute`).
    pub(crate) fn remove_route<A: Announced>(
        &mut self,
        request: &Request<'_>,
        port: u32,
    ) -> Result<(), Refusal> {
        let wanted = A::read(request)?;
        if wanted.object != 0 && self.net.nexthops.get(wanted.object).is_none() {
            return Err(refusal(Errno::EINVAL, "Nexthop id does not exist"));
        }
        let v4 = A::AF == c::AF_INET;
        let number = if wanted.table == 0 { table::MAIN } else { wanted.table };
        if !A::policy(self.net).has_table(number) {
            return Err(refusal(Errno::ESRCH, "FIB table does not exist"));
        }
        match wanted.several {
            Some(several) if !v4 => {
                let mut result = Ok(());
                for entry in route_config::entries(several).0 {
                    let device = if entry.device == 0 { wanted.device } else { entry.device };
                    let gateway = entry.gateway_v6().or(wanted.gateway);
                    let one = Wanted { device, gateway, several: None, ..wanted.clone() };
                    result = self.remove_wanted(&one, number, (request.sequence, 0, port)).and(result);
                }
                result
            }
            _ => self.remove_wanted(&wanted, number, (request.sequence, 0, port)),
        }
    }

    /// Deletes the first route of a table that matches.
    fn remove_wanted<A: Announced>(
        &mut self,
        wanted: &Wanted<'_, A>,
        number: u32,
        to: To,
    ) -> Result<(), Refusal> {
        let v4 = A::AF == c::AF_INET;
        let none = RouteTable::default();
        let routes = routes_of_table::<A>(self.net, number).unwrap_or(&none);
        let matches = |metric: u32, route: &Route<A>| match v4 {
            true => is_meant(wanted, metric, route),
            false => is_meant_v6(wanted, metric, route),
        };
        let prefix = wanted.prefix();
        if !v4 && prefix.is_all() && routes.iter().all(|(other, ..)| other != prefix) && wanted.is_of_root() {
            return Err(Errno::ENOENT.into());
        }
        let found = routes.iter().find(|(other, metric, route)| *other == prefix && matches(*metric, route));
        let (_, metric, route) = found.ok_or(Errno::ESRCH)?;
        let whole = route.clone();
        let mut entry = Entry { table: number, prefix, metric, route: route.clone() };
        // In Linux, each next hop of an IPv6 route is a separate route, except those of an object.
        let one = !v4 && wanted.gateway.is_some() && route.object.is_none();
        let no_gateway = Ipv6Addr::UNSPECIFIED.into();
        let like = |hop: &NextHop<A>| {
            (wanted.device == 0 || interface_index(hop.interface) == wanted.device)
                && wanted.gateway.is_none_or(|gateway| hop.router().unwrap_or(no_gateway) == gateway)
        };
        let (gone, kept) =
            std::mem::take(&mut entry.route.hops).into_iter().partition(|hop| !one || like(hop));
        let rest = Route { hops: kept, ..entry.route.clone() };
        entry.route.hops = gone;
        let message = message(self.net, &entry, c::RTM_DELROUTE, to);
        change_table(self.net, number, |routes| match rest.hops.is_empty() {
            true => routes.remove_this(prefix, metric, &whole),
            false => {
                let rank = Rank::new(whole.tos, metric);
                let mut alike: Vec<_> = routes.all_alike(prefix, rank).cloned().collect();
                let at = alike.iter().position(|other| *other == whole).unwrap_or(0);
                alike[at] = rest;
                set_alike(routes, prefix, rank, metric, alike);
                None
            }
        });
        self.announce(A::ROUTE_GROUP, &message);
        Ok(())
    }

    /// Routes in all tables that use a next-hop object.
    pub(super) fn routes_by<A: Announced>(&self, object: u32) -> Vec<Entry<A>> {
        let by = all_routes(self.net).filter(|(.., route)| route.object == Some(object));
        by.map(Entry::of).collect()
    }

    /// True if a route uses the next-hop object.
    pub(super) fn has_routes_by<A: Announced>(&self, object: u32) -> bool {
        all_routes::<A>(self.net).any(|(.., route)| route.object == Some(object))
    }

    /// Notifies the netlink group of a new or deleted route in the main table.
    pub(crate) fn announce_route<A: Announced>(
        &mut self,
        prefix: Prefix<A>,
        metric: u32,
        route: &Route<A>,
        new: bool,
    ) {
        let kind = if new { c::RTM_NEWROUTE } else { c::RTM_DELROUTE };
        let over = route.hops.first().and_then(|hop| vrf::table(self.net, hop.interface));
        let of_kernel = route.protocol == protocol::KERNEL;
        let table = over.filter(|_| of_kernel).unwrap_or(table::MAIN);
        let entry = Entry { table, prefix, metric, route: route.clone() };
        let message = message(self.net, &entry, kind, (0, 0, 0));
        self.announce(A::ROUTE_GROUP, &message);
    }
}

/// Routing options in a query for a route.
fn options_asked(request: &Request<'_>) -> Result<Through, Errno> {
    let attribute = |kind: u16| request.attribute(RTMSG, kind);
    let port = |kind: u16| {
        let value = attribute(kind).and_then(|bytes| bytes.first_chunk::<2>().copied());
        value.map_or(0, u16::from_be_bytes)
    };
    // Without a protocol, IPv4 looks up the route of a UDP datagram (`inet_rtm_getroute`).
    let usual = if request.body.first() == Some(&(c::AF_INET as u8)) { c::IPPROTO_UDP as u8 } else { 0 };
    let sender = FlowKey {
        protocol: attribute(RTA_IP_PROTO).and_then(|bytes| bytes.first().copied()).unwrap_or(usual),
        ports: (port(RTA_SPORT), port(RTA_DPORT)),
        uid: request.number(RTMSG, RTA_UID)?.unwrap_or(0),
    };
    Ok(Through {
        device: request.number(RTMSG, c::RTA_OIF)?,
        mark: request.number(RTMSG, RTA_MARK)?.unwrap_or(0),
        tos: request.body.get(3).copied().unwrap_or(0),
        sender,
    })
}

/// Routes of all tables except the host's own: table, prefix, metric and route, in the order of Linux.
pub(super) fn all_routes<A: Announced>(
    net: &Stack,
) -> impl Iterator<Item = (u32, Prefix<A>, u32, &Route<A>)> {
    let others = A::policy(net).tables();
    let mut tables: Vec<_> = std::iter::once((table::MAIN, A::routes(net))).chain(others).collect();
    // Tables are in a hash table by their lowest bits.
    tables.sort_by_key(|(number, _)| number & 0xff);
    tables.into_iter().flat_map(|(table, routes)| {
        let mut all: Vec<_> = routes.iter().collect();
        match A::AF {
            c::AF_INET => all.sort_by_key(|(prefix, ..)| trie_order(prefix)),
            _ => all.sort_by_key(|(prefix, ..)| tree_order(prefix)),
        }
        all.into_iter().map(move |(prefix, metric, route)| (table, prefix, metric, route))
    })
}

/// Sort key for the order in which Linux lists a table's IPv4 routes: by address, longest prefix first
/// (`fib_trie.c`). Routes of one prefix stay in the order of lookup.
pub(crate) fn trie_order<A: Ip>(prefix: &Prefix<A>) -> (A, Reverse<u8>) {
    (prefix.address(), Reverse(prefix.bits()))
}

/// Sort key for the order in which Linux lists a table's IPv6 routes: by address, each prefix behind those
/// that it contains (`ip6_fib.c`).
pub(super) fn tree_order<A: Ip>(prefix: &Prefix<A>) -> (u128, Reverse<u8>) {
    let bits = match prefix.address().into() {
        IpAddr::V4(ip) => u128::from(u32::from(ip)),
        IpAddr::V6(ip) => ip.to_bits(),
    };
    let rest = A::BITS - prefix.bits();
    (bits | !u128::MAX.checked_shl(u32::from(rest)).unwrap_or(0), Reverse(prefix.bits()))
}

/// `RTN_*` of a kind of route.
pub(super) fn type_of(kind: RouteKind) -> u8 {
    KINDS.iter().find(|(other, _)| *other == kind).map_or(c::RTN_UNICAST, |(_, rtn)| *rtn)
}

/// True if a deletion means an IPv4 route of its prefix (`fib_table_delete`).
fn is_meant<A: Announced>(wanted: &Wanted<'_, A>, metric: u32, route: &Route<A>) -> bool {
    const ANY_SCOPE: u8 = 255;
    let hop = route.hops.first();
    let hops_fit = match (wanted.object, route.object) {
        (1.., object) => object == Some(wanted.object),
        (0, Some(_)) => wanted.device == 0 && wanted.gateway.is_none() && wanted.several.is_none(),
        (0, None) if wanted.device != 0 || wanted.gateway.is_some() => {
            (wanted.device == 0 || hop.is_some_and(|hop| interface_index(hop.interface) == wanted.device))
                && wanted.gateway.is_none_or(|gateway| hop.and_then(NextHop::router) == Some(gateway))
        }
        (0, None) => wanted.several.is_none_or(|several| have_hops(several, route)),
    };
    route.tos == wanted.tos
        && (wanted.kind == c::RTN_UNSPEC || wanted.kind == type_of(route.kind))
        && (wanted.scope == ANY_SCOPE || wanted.scope == route.scope)
        && wanted.source.is_none_or(|source| route.source == Some(source))
        && (wanted.protocol == c::RTPROT_UNSPEC || wanted.protocol == route.protocol)
        && (wanted.metric == 0 || wanted.metric == metric)
        && hops_fit
        && metrics::are_matched(wanted.metrics, &route.metrics)
}

/// True if an IPv4 route has the next hops that a deletion lists, in order.
fn have_hops<A: Announced>(several: &[u8], route: &Route<A>) -> bool {
    let (entries, _) = route_config::entries(several);
    let runs: Vec<_> = route.hops.chunk_by(|one, next| one == next).map(|run| run[0]).collect();
    let runs = if route.hops.is_empty() { vec![NextHop::new(usize::MAX - 1, None)] } else { runs };
    runs.iter().enumerate().all(|(at, hop)| {
        entries.get(at).is_some_and(|entry| {
            let gateway = entry.gateway_v4().ok().flatten();
            (entry.device == 0 || entry.device == interface_index(hop.interface))
                && gateway.is_none_or(|gateway| hop.router() == Some(gateway))
        })
    })
}

/// True if a deletion means an IPv6 route of its prefix (`ip6_route_del`).
fn is_meant_v6<A: Announced>(wanted: &Wanted<'_, A>, metric: u32, route: &Route<A>) -> bool {
    if route.object.is_some() && wanted.object != 0 && route.object != Some(wanted.object)
        || wanted.metric != 0 && wanted.metric != metric
        || wanted.protocol != c::RTPROT_UNSPEC && wanted.protocol != route.protocol
    {
        return false;
    }
    if route.object.is_some() {
        return true;
    }
    let like = |interface: usize, gateway: Option<IpAddr>| {
        (wanted.device == 0 || interface_index(interface) == wanted.device)
            && wanted.gateway.is_none_or(|wanted| gateway == Some(wanted))
    };
    wanted.object == 0
        && match route.hops.is_empty() {
            true => like(LO, Some(Ipv6Addr::UNSPECIFIED.into())),
            false => route
                .hops
                .iter()
                .any(|hop| like(hop.interface, hop.router().or(Some(Ipv6Addr::UNSPECIFIED.into())))),
        }
}

/// Table by number, if it has routes.
fn routes_of_table<A: Announced>(net: &Stack, number: u32) -> Option<&RouteTable<A>> {
    A::policy(net).table(A::routes(net), number)
}
/// Applies a change to a table.
fn change_table<A: Announced, T>(
    net: &mut Stack,
    number: u32,
    change: impl FnOnce(&mut RouteTable<A>) -> T,
) -> T {
    match number {
        table::MAIN => change(A::routes_mut(net)),
        number => A::policy_mut(net).change(number, change),
    }
}

/// `rtm_flags` of a route (`fib_dump_info`): a route with several next hops has those of its request, another one
/// those of its next hop.
fn route_flags<A: Announced>(net: &Stack, route: &Route<A>) -> u32 {
    let of_hop = |hop| u32::from(hop_flags(net, hop));
    let given = |mask| if route.object.is_none() { route.flags & mask } else { 0 };
    match &route.hops[..] {
        [] => given(ON_LINK | SHOWN_FLAGS),
        [hop, others @ ..] if others.iter().all(|other| other == hop) => of_hop(hop) | given(SHOWN_FLAGS),
        hops if A::AF == c::AF_INET => {
            route.flags | hops.iter().map(of_hop).fold(LINK_DOWN, |all, flags| all & flags)
        }
        _ => 0,
    }
}

/// Message of type `kind` about a route.
pub(super) fn message<A: Announced>(net: &Stack, entry: &Entry<A>, kind: u16, to: To) -> Vec<u8> {
    let (sequence, flags, port) = to;
    let Entry { table, prefix, metric, route } = entry;
    let v4 = A::AF == c::AF_INET;
    let scope = if v4 { route.scope } else { c::RT_SCOPE_UNIVERSE };
    let rtn = type_of(route.kind);
    let mut message = Message::new(kind, flags, sequence, port)
        .put(&[A::AF as u8, prefix.bits(), 0, route.tos, short_table(*table), route.protocol, scope, rtn])
        .put(&route_flags(net, route).to_ne_bytes())
        .attribute(c::RTA_TABLE, &table.to_ne_bytes());
    if !prefix.is_all() {
        message = message.attribute(c::RTA_DST, &ip_bytes(prefix.address().into()));
    }
    let metric = metric.to_ne_bytes();
    let source = route.source.map(|source| ip_bytes(source.into()));
    if v4 {
        if metric != [0; 4] {
            message = message.attribute(c::RTA_PRIORITY, &metric);
        }
        message = metrics::put(message, &route.metrics);
        message = source.iter().fold(message, |message, ip| message.attribute(c::RTA_PREFSRC, ip));
    } else {
        message = source.iter().fold(message, |message, ip| message.attribute(c::RTA_PREFSRC, ip));
        message = metrics::put(message, &route.metrics).attribute(c::RTA_PRIORITY, &metric);
    }
    if let Some(id) = route.object {
        message = message.attribute(RTA_NH_ID, &id.to_ne_bytes());
    }
    let message = match &route.hops[..] {
        [] if v4 && route.object.is_none() => message,
        [] => message.attribute(c::RTA_OIF, &interface_index(LO).to_ne_bytes()),
        [hop, others @ ..] if others.iter().all(|other| other == hop) => {
            if let Some(gateway) = hop.router() {
                let (kind, value) = gateway_attribute(gateway, v4);
                message = message.attribute(kind, &value);
            }
            message.attribute(c::RTA_OIF, &interface_index(hop.interface).to_ne_bytes())
        }
        hops => {
            let weighted =
                hops.chunk_by(|one, next| one == next).flat_map(|same| hop_bytes(net, &same[0], same.len()));
            message.attribute(c::RTA_MULTIPATH, &weighted.collect::<Vec<u8>>())
        }
    };
    if v4 { message } else { message.attribute(RTA_PREF, &[route.preference]) }.finish()
}
