//! Routes of both families in rtnetlink: `RTM_NEWROUTE`, `RTM_GETROUTE`.

use super::Announced;
use super::hops::{RTA_NH_ID, gateway, gateway_attribute, hop_bytes, hop_flags, next_hops, object_named};
use super::message::{MULTI, Message, Request, To};
use super::metrics;
use super::refusal::{Refusal, refusal};
use super::requests::{ip_bytes, parse_ip};
use crate::Admin;
use belljar_linux_abi::{Errno, c};
use belljar_net::Prefix;
use belljar_net::policy::table;
use belljar_net::routes::{Ip, Metrics, NextHop, Rank, Route, RouteKind, RouteTable};
use belljar_netstack::family::{Family, FlowKey, RouteQuery};
use belljar_netstack::ip::route::Through;
use belljar_netstack::{LO, Stack, interface_index};
use std::cmp::Reverse;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Length of `struct rtmsg` in bytes.
pub(super) const RTMSG: usize = 12;
/// `RTM_F_CLONED`: the result of a lookup rather than an entry of the table.
const RTM_F_CLONED: u32 = 0x200;
/// Further flags of an IPv4 lookup's result (`RTCF_LOCAL`, `RTCF_BROADCAST`).
const RTCF_LOCAL: u32 = 0x8000_0000;
const RTCF_BROADCAST: u32 = 0x1000_0000;
/// Length of `struct rta_cacheinfo` in bytes.
const CACHEINFO_LEN: usize = 32;
const RTA_MARK: u16 = 16;
/// Attributes for the selectors of policy rules.
const RTA_UID: u16 = 25;
const RTA_IP_PROTO: u16 = 27;
const RTA_SPORT: u16 = 28;
const RTA_DPORT: u16 = 29;
/// Router preference (RFC 4191); its default is `MEDIUM`.
const RTA_PREF: u16 = 20;
/// ECN bits of the type of service.
const ECN_BITS: u8 = 3;
const MEDIUM: u8 = 0;
/// `RTPROT_KERNEL`.
const KERNEL: u8 = 2;

/// Route with its table, prefix and metric.
#[derive(Clone, Debug)]
pub(super) struct Entry<A> {
    table: u32,
    prefix: Prefix<A>,
    metric: u32,
    route: Route<A>,
}

impl<A: Announced> Entry<A> {
    fn of((table, prefix, metric, route): (u32, Prefix<A>, u32, &Route<A>)) -> Entry<A> {
        Entry { table, prefix, metric, route: route.clone() }
    }
    /// The entry restricted to one next hop.
    fn by(&self, hop: NextHop<A>) -> Entry<A> {
        Entry { route: Route { hops: vec![hop], ..self.route.clone() }, ..self.clone() }
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
    /// Routes of all tables, including the local table.
    pub(crate) fn routes(&self, family: i32, sequence: u32, port: u32) -> Vec<Vec<u8>> {
        let to = (sequence, MULTI, port);
        let mut all = Vec::new();
        if family != c::AF_INET6 {
            all.extend(shown_routes::<Ipv4Addr>(self.net, to));
            all.extend(local_routes(self.net, to));
        }
        if family != c::AF_INET {
            all.extend(shown_routes::<Ipv6Addr>(self.net, to));
            all.extend(local_routes6(self.net, to));
        }
        all
    }

    /// Handles `ip route get`.
    pub(crate) fn route_to(&self, request: &Request<'_>, port: u32) -> Result<Vec<u8>, Errno> {
        let destination = request.attribute(RTMSG, c::RTA_DST).ok_or(Errno::EINVAL)?;
        let ip = parse_ip(destination)?;
        let source = request.attribute(RTMSG, c::RTA_SRC).map(parse_ip).transpose()?;
        let device = request.number(RTMSG, c::RTA_OIF)?;
        let mark = request.number(RTMSG, RTA_MARK)?.unwrap_or(0);
        let ends_at =
            |kind: u16| request.attribute(RTMSG, kind).and_then(|bytes| bytes.first_chunk::<2>().copied());
        let sender = FlowKey {
            protocol: request
                .attribute(RTMSG, RTA_IP_PROTO)
                .and_then(|bytes| bytes.first().copied())
                .unwrap_or(0),
            ports: (
                ends_at(RTA_SPORT).map_or(0, u16::from_be_bytes),
                ends_at(RTA_DPORT).map_or(0, u16::from_be_bytes),
            ),
            uid: request.number(RTMSG, RTA_UID)?.unwrap_or(0),
        };
        let tos = request.body.get(3).copied().unwrap_or(0);
        let found = self.net.route(ip, source, Through { device, mark, tos, sender })?;
        let (family, bits) = if ip.is_ipv4() { (c::AF_INET, 32) } else { (c::AF_INET6, 128) };
        // IPv6 always reports `RTA_SRC`, unspecified if the request has none, and the chosen source as
        // `RTA_PREFSRC`.
        let asked = if ip.is_ipv6() { source.or(Some(Ipv6Addr::UNSPECIFIED.into())) } else { source };
        let source_bits = if asked.is_some() { bits } else { 0 };
        let kind = match (found.interface, found.broadcast) {
            (LO, _) => c::RTN_LOCAL,
            (_, true) => c::RTN_BROADCAST,
            _ => c::RTN_UNICAST,
        };
        let also = match kind {
            _ if ip.is_ipv6() => 0,
            c::RTN_LOCAL => RTCF_LOCAL,
            c::RTN_BROADCAST => RTCF_LOCAL | RTCF_BROADCAST,
            _ => 0,
        };
        // Type of service of the route, if it has one.
        let tos = match (ip, source) {
            (IpAddr::V4(to), from) => {
                let source = from.and_then(<Ipv4Addr as Family>::of);
                let asked = RouteQuery { mark, tos, sender, ..RouteQuery::own(to, source) };
                self.net.lookup(&asked, || 0).ok().flatten().map_or(0, |found| found.route.tos)
            }
            _ => 0,
        };
        // Until a rule is added, IPv4 keeps the local and main tables merged (`fib_unmerge`).
        let merged = ip.is_ipv4() && found.table == table::LOCAL && !self.net.policy.has_further_rules();
        let table = if merged { table::MAIN } else { found.table };
        let mut message = Message::new(c::RTM_NEWROUTE, 0, request.sequence, port)
            .put(&[family as u8, bits, source_bits, tos, short_table(table), c::RTPROT_UNSPEC])
            .put(&[c::RT_SCOPE_UNIVERSE, kind])
            .put(&(RTM_F_CLONED | also).to_ne_bytes())
            .attribute(c::RTA_TABLE, &table.to_ne_bytes())
            .attribute(c::RTA_DST, destination);
        if let Some(asked) = asked {
            message = message.attribute(c::RTA_SRC, &ip_bytes(asked));
        }
        if ip.is_ipv4() {
            message = message.attribute(RTA_UID, &sender.uid.to_ne_bytes());
        }
        if ip.is_ipv6() || source.is_none() {
            message = message.attribute(c::RTA_PREFSRC, &ip_bytes(found.source));
        }
        if mark != 0 {
            message = message.attribute(RTA_MARK, &mark.to_ne_bytes());
        }
        if let Some(gateway) = found.gateway {
            let (kind, value) = gateway_attribute(gateway, ip.is_ipv4());
            message = message.attribute(kind, &value);
        }
        Ok(metrics::put(message, &found.metrics)
            .attribute(c::RTA_OIF, &interface_index(found.interface).to_ne_bytes())
            // Usage statistics are not recorded.
            .attribute(c::RTA_CACHEINFO, &[0; CACHEINFO_LEN])
            .finish())
    }

    /// Handles `ip route add`, `replace` and `change`.
    pub(crate) fn add_route<A: Announced>(
        &mut self,
        request: &Request<'_>,
        port: u32,
    ) -> Result<(), Refusal> {
        let wanted = Wanted::<A>::read(request)?;
        if wanted.kind == c::RTN_LOCAL
            && gateway::<A>(request.body.get(RTMSG..).unwrap_or_default())?.is_some()
        {
            return Err(refusal(Errno::EINVAL, "Route with host scope can not have a gateway"));
        }
        let object = object_named::<A>(self.net, request)?;
        let hops = match &object {
            Some(object) => object.hops.clone(),
            None => next_hops::<A>(self.net, request)?,
        };
        let found = KINDS.iter().find(|(_, rtn)| *rtn == wanted.kind).ok_or(Errno::EOPNOTSUPP);
        let Ok((asked, _)) = found else {
            self.warn(format!("netlink: routes of type {} are not supported", wanted.kind));
            return Err(Errno::EOPNOTSUPP.into());
        };
        let kind = match &object {
            Some(object) if *asked == RouteKind::Unicast => object.kind,
            _ => *asked,
        };
        let hops = match kind {
            RouteKind::Unicast | RouteKind::Local if hops.is_empty() => return Err(Errno::ENODEV.into()),
            RouteKind::Local if wanted.table != table::LOCAL => {
                self.warn("netlink: routes of type local are supported in the table local alone");
                return Err(Errno::EOPNOTSUPP.into());
            }
            RouteKind::Unicast | RouteKind::Local => hops,
            _ => Vec::new(),
        };
        let source = match request.attribute(RTMSG, c::RTA_PREFSRC).map(parse_ip).transpose()? {
            Some(ip) if self.net.is_local(ip) => Some(A::of(ip).ok_or(Errno::EINVAL)?),
            Some(_) if A::AF == c::AF_INET => {
                return Err(refusal(Errno::EINVAL, "Invalid prefsrc address"));
            }
            Some(_) => return Err(refusal(Errno::EINVAL, "Invalid source address")),
            None => None,
        };
        let (metrics, others) = metrics::read(request)?;
        if !others.is_empty() {
            self.warn(format!(
                "netlink: of a route's metrics only mtu and advmss count, not the numbers {others:?}"
            ));
        }
        let (tos, protocol) = (wanted.tos, wanted.protocol);
        // Routes of other types have no next hop, whatever happens to the object.
        let object = object.filter(|_| *asked == RouteKind::Unicast).map(|object| object.id);
        let mut route = Route { kind, tos, hops, source, protocol, metrics, object };
        let (prefix, metric) = (wanted.prefix, wanted.metric.unwrap_or(A::METRIC));
        let flags = i32::from(request.flags);
        let has = |flag: i32| flags & flag != 0;
        let routes = routes_of_table::<A>(self.net, wanted.table);
        let there = routes.and_then(|routes| routes.get(prefix, Rank::new(tos, metric)));
        let alike = |route: &Route<A>| {
            routes.is_some_and(|routes| {
                routes.all_alike(prefix, Rank::new(tos, metric)).any(|old| old == route)
            })
        };
        // Another IPv4 route of the same prefix and metric is inserted before or after the existing ones.
        let mut beside = false;
        match there {
            Some(_) if has(c::NLM_F_EXCL) => return Err(Errno::EEXIST.into()),
            Some(old) if has(c::NLM_F_REPLACE) && *old != route && alike(&route) => {
                return Err(Errno::EEXIST.into());
            }
            Some(_) if has(c::NLM_F_REPLACE) => {}
            // A further next hop is added to the existing IPv6 route.
            Some(old) if A::AF == c::AF_INET6 => {
                let unicast = old.kind == RouteKind::Unicast && route.kind == RouteKind::Unicast;
                let plain = old.object.is_none() && route.object.is_none();
                if !unicast || !plain || route.hops.iter().all(|hop| old.hops.contains(hop)) {
                    return Err(Errno::EEXIST.into());
                }
                let mut hops = old.hops.clone();
                hops.append(&mut route.hops);
                route.hops = hops;
            }
            Some(_) if alike(&route) => return Err(Errno::EEXIST.into()),
            Some(_) if has(c::NLM_F_CREATE) => beside = true,
            Some(_) => return Err(Errno::ENOENT.into()),
            None if !has(c::NLM_F_CREATE) => return Err(Errno::ENOENT.into()),
            None => {}
        }
        let entry = Entry { table: wanted.table, prefix, metric, route };
        let message = message(&entry, c::RTM_NEWROUTE, (request.sequence, 0, port));
        change_table(self.net, wanted.table, |routes| match beside {
            true => routes.insert_beside(prefix, metric, entry.route, has(c::NLM_F_APPEND)),
            false => drop(routes.insert(prefix, metric, entry.route)),
        });
        self.announce(A::ROUTE_GROUP, &message);
        Ok(())
    }

    /// Handles `ip route del`: deletes the first route that matches.
    pub(crate) fn remove_route<A: Announced>(
        &mut self,
        request: &Request<'_>,
        port: u32,
    ) -> Result<(), Refusal> {
        let wanted = Wanted::<A>::read(request)?;
        let gateway = gateway::<A>(request.body.get(RTMSG..).unwrap_or_default())?;
        let device = request.number(RTMSG, c::RTA_OIF)?;
        let object = request.number(RTMSG, RTA_NH_ID)?.filter(|id| *id != 0);
        let several = request.attribute(RTMSG, c::RTA_MULTIPATH).is_some();
        let (named, _) = metrics::read(request)?;
        let like = |hop: &NextHop<A>| {
            device.is_none_or(|index| interface_index(hop.interface) == index)
                && gateway.is_none_or(|gateway| hop.router() == Some(gateway))
        };
        let routes = routes_of_table::<A>(self.net, wanted.table);
        let routes = routes.ok_or(match wanted.table {
            table::LOCAL => Errno::ESRCH.into(),
            _ => refusal(Errno::ESRCH, "FIB table does not exist"),
        })?;
        let found = routes.iter().find(|(prefix, metric, route)| {
            *prefix == wanted.prefix
                && route.tos == wanted.tos
                && wanted.metric.is_none_or(|wanted| wanted == *metric)
                && (named == Metrics::default() || named == route.metrics)
                && (wanted.protocol == c::RTPROT_UNSPEC || wanted.protocol == route.protocol)
                && match route.object {
                    Some(_) if A::AF == c::AF_INET && (gateway.is_some() || device.is_some() || several) => {
                        false
                    }
                    of_route => object.is_none_or(|id| of_route == Some(id)),
                }
                && (route.object.is_some() || route.hops.is_empty() || route.hops.iter().any(like))
        });
        let (prefix, metric, route) = found.ok_or(Errno::ESRCH)?;
        let whole = route.clone();
        let mut entry = Entry { table: wanted.table, prefix, metric, route: route.clone() };
        // In Linux, each next hop of an IPv6 route is a separate route, except those of an object.
        let one = A::AF == c::AF_INET6 && (gateway.is_some() || device.is_some()) && route.object.is_none();
        let (gone, kept) =
            std::mem::take(&mut entry.route.hops).into_iter().partition(|hop| !one || like(hop));
        let rest = Route { hops: kept, ..entry.route.clone() };
        entry.route.hops = gone;
        let message = message(&entry, c::RTM_DELROUTE, (request.sequence, 0, port));
        change_table(self.net, wanted.table, |routes| match rest.hops.is_empty() {
            true => routes.remove_this(prefix, metric, &whole),
            false => routes.insert(prefix, metric, rest),
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
        let entry = Entry { table: table::MAIN, prefix, metric, route: route.clone() };
        self.announce(A::ROUTE_GROUP, &message(&entry, kind, (0, 0, 0)));
    }
}

/// Routes of all tables except the local table: table, prefix, metric and route.
fn all_routes<A: Announced>(net: &Stack) -> impl Iterator<Item = (u32, Prefix<A>, u32, &Route<A>)> {
    let others = A::policy(net).tables();
    let tables = std::iter::once((table::MAIN, A::routes(net))).chain(others);
    tables.flat_map(|(table, routes)| {
        let mut all: Vec<_> = routes.iter().collect();
        if A::AF == c::AF_INET {
            all.sort_by_key(|(prefix, ..)| trie_order(prefix));
        }
        all.into_iter().map(move |(prefix, metric, route)| (table, prefix, metric, route))
    })
}

/// Sort key for the order in which Linux lists a table's IPv4 routes: by address, longest prefix first
/// (`fib_trie.c`). Routes of one prefix stay in the order of lookup.
pub(crate) fn trie_order<A: Ip>(prefix: &Prefix<A>) -> (A, Reverse<u8>) {
    (prefix.address(), Reverse(prefix.bits()))
}

/// Messages for the routes of [`all_routes`].
fn shown_routes<A: Announced>(net: &Stack, to: To) -> Vec<Vec<u8>> {
    // Each interface has a separate route to its link-local prefix.
    let parted = all_routes::<A>(net).map(Entry::of).flat_map(|entry| {
        let link_local = A::AF == c::AF_INET6
            && entry.prefix.bits() == 64
            && matches!(entry.prefix.address().into(), IpAddr::V6(ip) if ip.is_unicast_link_local());
        let plain = entry.route.hops.iter().all(NextHop::is_direct);
        match link_local && plain && entry.route.hops.len() > 1 {
            true => entry.route.hops.iter().map(|hop| entry.by(*hop)).collect(),
            false => vec![entry],
        }
    });
    parted.map(|entry| message(&entry, c::RTM_NEWROUTE, to)).collect()
}

/// Routes to the host's IPv4 addresses and to the broadcast addresses of its links.
fn local_routes(net: &Stack, to: To) -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    for (number, interface) in net.interfaces.iter().enumerate().filter(|(_, i)| i.up) {
        let mut told = Vec::new();
        for own in &interface.addresses {
            let primary = net.interfaces.primary_of(number, own);
            let mut add = |ip: Ipv4Addr, len, kind, scope| {
                let header = [c::AF_INET as u8, len, 0, 0, c::RT_TABLE_LOCAL, KERNEL, scope, kind];
                let message = local_message(&header, ip.into(), number, to);
                all.push(message.attribute(c::RTA_PREFSRC, &primary.ip.octets()).finish());
            };
            if number == LO && own.len < 32 {
                add(own.network().address(), own.len, c::RTN_LOCAL, c::RT_SCOPE_HOST);
            }
            add(own.ip, 32, c::RTN_LOCAL, c::RT_SCOPE_HOST);
            for broadcast in net.interfaces.broadcasts(number, own) {
                if !told.contains(&broadcast) {
                    add(broadcast, 32, c::RTN_BROADCAST, c::RT_SCOPE_LINK);
                    told.push(broadcast);
                }
            }
        }
    }
    all
}

/// Routes to the host's IPv6 addresses.
fn local_routes6(net: &Stack, to: To) -> Vec<Vec<u8>> {
    let interfaces = net.interfaces.iter().enumerate();
    let own = interfaces.flat_map(|(number, i)| i.addresses6.iter().map(move |own| (own.ip, number)));
    let universe = c::RT_SCOPE_UNIVERSE;
    let header = [c::AF_INET6 as u8, 128, 0, 0, c::RT_TABLE_LOCAL, KERNEL, universe, c::RTN_LOCAL];
    own.map(|(ip, number)| {
        let message = local_message(&header, ip.into(), number, to);
        message.attribute(c::RTA_PRIORITY, &0u32.to_ne_bytes()).finish()
    })
    .collect()
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

/// Common part of requests that change routes.
struct Wanted<A> {
    table: u32,
    prefix: Prefix<A>,
    tos: u8,
    metric: Option<u32>,
    protocol: u8,
    kind: u8,
}

impl<A: Announced> Wanted<A> {
    fn read(request: &Request<'_>) -> Result<Wanted<A>, Refusal> {
        let [_, len, _, tos, table, protocol, _, kind, ..] = *request.body else {
            return Err(Errno::EINVAL.into());
        };
        if A::AF == c::AF_INET6 && tos != 0 {
            return Err(refusal(Errno::EINVAL, "Invalid dsfield (tos): option not available for IPv6"));
        }
        if tos & ECN_BITS != 0 {
            return Err(refusal(Errno::EINVAL, "Invalid dsfield (tos): ECN bits must be 0"));
        }
        let table = match request.number(RTMSG, c::RTA_TABLE)?.unwrap_or(u32::from(table)) {
            0 => table::MAIN,
            // The local table is maintained separately.
            table::LOCAL if kind != c::RTN_LOCAL => return Err(Errno::EOPNOTSUPP.into()),
            number => number,
        };
        let to = match request.attribute(RTMSG, c::RTA_DST).map(parse_ip).transpose()? {
            Some(ip) => A::of(ip).ok_or(Errno::EINVAL)?,
            None => A::LEAST,
        };
        let prefix = Prefix::new(to, len);
        // IPv6 ignores the bits after the prefix.
        if len > A::BITS {
            return Err(Errno::EINVAL.into());
        }
        if A::AF == c::AF_INET && prefix.address() != to {
            return Err(refusal(Errno::EINVAL, "Invalid prefix for given prefix length"));
        }
        let metric = request.number(RTMSG, c::RTA_PRIORITY)?;
        let metric = metric.filter(|metric| A::AF == c::AF_INET || *metric != 0);
        Ok(Wanted { table, prefix, tos, metric, protocol, kind })
    }
}

/// Message of type `kind` about a route.
pub(super) fn message<A: Announced>(entry: &Entry<A>, kind: u16, to: To) -> Vec<u8> {
    let (sequence, flags, port) = to;
    let Entry { table, prefix, metric, route } = entry;
    let v4 = A::AF == c::AF_INET;
    let on_link = route.kind == RouteKind::Unicast
        && route.object.is_none()
        && route.hops.iter().all(NextHop::is_direct);
    let scope = match route.kind {
        RouteKind::Local if v4 => c::RT_SCOPE_HOST,
        _ if v4 && on_link => c::RT_SCOPE_LINK,
        _ => c::RT_SCOPE_UNIVERSE,
    };
    let rtn = KINDS.iter().find(|(kind, _)| *kind == route.kind).map_or(c::RTN_UNICAST, |(_, rtn)| *rtn);
    let mut message = Message::new(kind, flags, sequence, port)
        .put(&[A::AF as u8, prefix.bits(), 0, route.tos, short_table(*table), route.protocol, scope, rtn])
        .put(&[match &route.hops[..] {
            [hop, others @ ..] if others.iter().all(|other| other == hop) => hop_flags(hop),
            _ => 0,
        }])
        .put(&[0; 3])
        .attribute(c::RTA_TABLE, &table.to_ne_bytes());
    if !prefix.is_all() {
        message = message.attribute(c::RTA_DST, &ip_bytes(prefix.address().into()));
    }
    if !v4 || *metric != 0 {
        message = message.attribute(c::RTA_PRIORITY, &metric.to_ne_bytes());
    }
    message = metrics::put(message, &route.metrics);
    if !v4 {
        message = message.attribute(RTA_PREF, &[MEDIUM]);
    }
    if let Some(source) = route.source {
        message = message.attribute(c::RTA_PREFSRC, &ip_bytes(source.into()));
    }
    if let Some(id) = route.object {
        message = message.attribute(RTA_NH_ID, &id.to_ne_bytes());
    }
    match &route.hops[..] {
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
                hops.chunk_by(|one, next| one == next).flat_map(|same| hop_bytes(&same[0], same.len()));
            message.attribute(c::RTA_MULTIPATH, &weighted.collect::<Vec<u8>>())
        }
    }
    .finish()
}

/// Start of a message about a route in the local table.
fn local_message(header: &[u8; 8], ip: IpAddr, number: usize, to: To) -> Message {
    let (sequence, flags, port) = to;
    Message::new(c::RTM_NEWROUTE, flags, sequence, port)
        .put(header)
        .put(&[0; 4])
        .attribute(c::RTA_TABLE, &table::LOCAL.to_ne_bytes())
        .attribute(c::RTA_DST, &ip_bytes(ip))
        .attribute(c::RTA_OIF, &interface_index(number).to_ne_bytes())
}
