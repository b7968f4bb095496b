//! New routes: their checks, and their insertion among the routes to the same prefix (`fib_table_insert` and
//! `fib6_add_rt2node` of Linux).

use super::gateways::ON_LINK;
use super::hops::{NamedObject, object_named};
use super::refusal::{Refusal, invalid, refusal};
use super::route_config::Wanted;
use belljar_linux_abi::{Errno, c};
use belljar_net::Prefix;
use belljar_net::routes::{Ip, NextHop, Rank, Route, RouteTable, SHOWN_FLAGS};
use belljar_netstack::{LO, Stack};
use std::net::{Ipv4Addr, Ipv6Addr};

/// Scope of the next hop of a route of host scope, which stays when its interface goes down.
pub(crate) const RT_SCOPE_NOWHERE: u8 = 255;

/// Route to be inserted into a table.
#[derive(Clone, Debug)]
pub(crate) struct NewRoute<A> {
    pub(super) prefix: Prefix<A>,
    pub(super) metric: u32,
    pub(super) route: Route<A>,
}

/// Next hops of a new route, the next-hop object if it has one, and its decoded metrics.
pub(crate) struct Checked<A, M> {
    pub(super) metrics: M,
    pub(super) hops: Vec<NextHop<A>>,
    pub(super) object: Option<NamedObject<A>>,
}

/// Checks a new IPv4 route (`fib_create_info`).
pub(super) fn checked_hops_v4<M>(
    net: &Stack,
    wanted: &Wanted<'_, Ipv4Addr>,
    metrics: impl FnOnce() -> Result<M, Refusal>,
) -> Result<Checked<Ipv4Addr, M>, Refusal> {
    wanted.check()?;
    let object = object_named::<Ipv4Addr>(net, wanted.object)?;
    wanted.check_count()?;
    let metrics = metrics()?;
    let has_hops = wanted.check_kind()?;
    let host = wanted.scope == c::RT_SCOPE_HOST;
    let hops = match &object {
        // A route that refuses packets shows those of its object.
        Some(object) if !has_hops => object.hops.clone(),
        None if !has_hops => Vec::new(),
        Some(object) => {
            if host && object.hops.iter().any(|hop| !hop.is_direct()) {
                return invalid("Route with host scope can not have a gateway");
            }
            if wanted.scope >= c::RT_SCOPE_LINK && object.hops.iter().any(|hop| hop.on_link) {
                return invalid("Scope mismatch with nexthop");
            }
            object.hops.clone()
        }
        None if host => {
            let hop = wanted.first_hop()?;
            if wanted.several_count() > 1 {
                return invalid("Route with host scope can not have multiple nexthops");
            }
            if hop.gateway.is_some() {
                return invalid("Route with host scope can not have a gateway");
            }
            let interface = net.interfaces.by_index(hop.device).ok_or(Errno::ENODEV)?;
            let (on_link, scope) = (hop.flags & ON_LINK != 0, RT_SCOPE_NOWHERE);
            vec![NextHop { on_link, scope, ..NextHop::new(interface, None) }]
        }
        None => wanted.hops(net)?,
    };
    Ok(Checked { metrics, hops, object })
}

/// Checks a new IPv6 route (`ip6_route_info_create`).
pub(super) fn checked_hops_v6<M>(
    net: &Stack,
    wanted: &Wanted<'_, Ipv6Addr>,
    metrics: impl FnOnce() -> Result<M, Refusal>,
) -> Result<Checked<Ipv6Addr, M>, Refusal> {
    wanted.check()?;
    let metrics = metrics()?;
    let object = object_named::<Ipv6Addr>(net, wanted.object)?;
    let hops = match &object {
        Some(object) => object.hops.clone(),
        None => wanted.hops(net)?,
    };
    Ok(Checked { metrics, hops, object })
}

/// True if an IPv6 address may be the preferred source of a route (`ipv6_chk_addr`): one of link or host scope
/// must be that of the next hop's interface.
pub(super) fn may_be_source_v6(net: &Stack, ip: Ipv6Addr, hops: &[NextHop<Ipv6Addr>]) -> bool {
    let local = ip.is_unicast_link_local() || ip.is_loopback();
    let has = |number: usize| {
        net.interfaces[number].addresses6.iter().any(|own| own.ip == ip) && !net.v6.is_tentative(number, ip)
    };
    match hops {
        _ if !local => (0..net.interfaces.len()).any(has),
        [] => has(LO),
        hops => hops.iter().all(|hop| has(hop.interface)),
    }
}

fn has(flags: u16, flag: i32) -> bool {
    i32::from(flags) & flag != 0
}

/// True if two IPv4 routes are equal but for flags that are only reported (`fib_find_info`).
fn is_same(old: &Route, new: &Route) -> bool {
    let flags = old.flags ^ (old.flags ^ new.flags) & SHOWN_FLAGS;
    flags == new.flags && Route { flags, ..old.clone() } == *new
}

/// Flags of the routes of a table that share their attributes with a new IPv4 route: in Linux they have one
/// `struct fib_info`, which has the flags of the first of them.
fn shared_flags(table: &RouteTable, metric: u32, new: &Route) -> Option<u32> {
    if !table.shows_flags() && new.flags & SHOWN_FLAGS == 0 {
        return None;
    }
    let same = |old: &Route| is_same(&Route { tos: new.tos, ..old.clone() }, new);
    table.iter().find(|(_, of_old, old)| *of_old == metric && same(old)).map(|(.., old)| old.flags)
}

/// Inserts an IPv4 route: before the routes of its prefix, type of service and metric, or with `NLM_F_APPEND`
/// behind them.
pub(super) fn put_v4(table: &mut RouteTable, new: NewRoute<Ipv4Addr>, flags: u16) -> Result<(), Refusal> {
    let NewRoute { prefix, metric, mut route } = new;
    let rank = Rank::new(route.tos, metric);
    if let Some(flags) = shared_flags(table, metric, &route) {
        route.flags = flags;
    }
    let same = table.all_alike(prefix, rank).position(|other| is_same(other, &route));
    if table.get(prefix, rank).is_none() {
        if !has(flags, c::NLM_F_CREATE) {
            return Err(Errno::ENOENT.into());
        }
        table.insert(prefix, metric, route);
        return Ok(());
    }
    match same {
        _ if has(flags, c::NLM_F_EXCL) => Err(Errno::EEXIST.into()),
        Some(0) if has(flags, c::NLM_F_REPLACE) => Ok(()),
        Some(_) => Err(Errno::EEXIST.into()),
        None if has(flags, c::NLM_F_REPLACE) => {
            table.insert(prefix, metric, route);
            Ok(())
        }
        None if !has(flags, c::NLM_F_CREATE) => Err(Errno::ENOENT.into()),
        None => {
            table.insert_beside(prefix, metric, route, has(flags, c::NLM_F_APPEND));
            Ok(())
        }
    }
}

/// True if a route can be one of several next hops (`rt6_qualify_for_ecmp`).
pub(super) fn can_be_sibling(route: &Route<Ipv6Addr>) -> bool {
    route.object.is_none() && route.hops.first().is_some_and(|hop| hop.gateway.is_some())
}

/// True if a route has the next hop of a new one (`rt6_duplicate_nexthop`).
fn is_duplicate(old: &Route<Ipv6Addr>, new: &Route<Ipv6Addr>) -> bool {
    if old.object.is_some() || new.object.is_some() {
        return old.object == new.object;
    }
    let ends = |route: &Route<Ipv6Addr>| -> Vec<(usize, Option<Ipv6Addr>)> {
        match route.hops.is_empty() {
            true => vec![(LO, None)],
            false => route.hops.iter().map(|hop| (hop.interface, hop.gateway)).collect(),
        }
    };
    let of_old = ends(old);
    ends(new).iter().any(|end| of_old.contains(end))
}

/// Inserts an IPv6 route with one next hop into the routes of its prefix and metric.
fn put_one_v6(alike: &mut Vec<Route<Ipv6Addr>>, new: Route<Ipv6Addr>, flags: u16) -> Result<(), Refusal> {
    if !alike.is_empty() && has(flags, c::NLM_F_EXCL) {
        return Err(Errno::EEXIST.into());
    }
    if has(flags, c::NLM_F_REPLACE) {
        let fitting = alike.iter().position(|old| can_be_sibling(old) == can_be_sibling(&new));
        match fitting.or((!alike.is_empty()).then_some(0)) {
            Some(at) => alike[at] = new,
            None if has(flags, c::NLM_F_CREATE) => alike.push(new),
            None => return Err(Errno::ENOENT.into()),
        }
        return Ok(());
    }
    if alike.iter().any(|old| is_duplicate(old, &new)) {
        return Err(Errno::EEXIST.into());
    }
    match alike.iter_mut().find(|old| can_be_sibling(old) && can_be_sibling(&new)) {
        Some(sibling) => sibling.hops.extend(new.hops),
        None => alike.push(new),
    }
    Ok(())
}

/// True if Linux's tree of a table has a node for a prefix (`fib6_add_1`): the root, that of routes, or one at
/// which the prefixes of routes part.
fn has_node(table: &RouteTable<Ipv6Addr>, prefix: Prefix<Ipv6Addr>) -> bool {
    let below = |bit: u128| {
        let within = |(other, ..): (Prefix<Ipv6Addr>, u32, &Route<Ipv6Addr>)| {
            let address = other.address();
            let next = address.to_bits() >> (127 - prefix.bits()) & 1;
            other.bits() > prefix.bits() && prefix.contains(address) && next == bit
        };
        table.iter().any(within)
    };
    prefix.is_all()
        || table.iter().any(|(other, ..)| other == prefix)
        || prefix.bits() < 128 && below(0) && below(1)
}

/// Inserts an IPv6 route. In Linux each next hop is a route of its own; those by gateways become one here.
pub(super) fn put_v6(
    table: &mut RouteTable<Ipv6Addr>,
    new: NewRoute<Ipv6Addr>,
    flags: u16,
) -> Result<(), Refusal> {
    let NewRoute { prefix, metric, route } = new;
    let rank = Rank::new(0, metric);
    let mut alike: Vec<_> = table.all_alike(prefix, rank).cloned().collect();
    let no_match = refusal(Errno::ENOENT, "Can not replace route - no match found");
    if has(flags, c::NLM_F_REPLACE) && !has(flags, c::NLM_F_CREATE) && !has_node(table, prefix) {
        return Err(no_match);
    }
    if route.object.is_some() || route.hops.len() < 2 {
        put_one_v6(&mut alike, route, flags)?;
    } else {
        let later = flags & !((c::NLM_F_EXCL | c::NLM_F_REPLACE) as u16) | c::NLM_F_CREATE as u16;
        let runs = route.hops.chunk_by(|one, next| one == next);
        for (turn, run) in runs.enumerate() {
            let one = Route { hops: run.to_vec(), ..route.clone() };
            put_one_v6(&mut alike, one, if turn == 0 { flags } else { later })?;
        }
    }
    set_alike(table, prefix, rank, metric, alike);
    Ok(())
}

/// Replaces all routes of a prefix and metric.
pub(super) fn set_alike<A: Ip>(
    table: &mut RouteTable<A>,
    prefix: Prefix<A>,
    rank: Rank,
    metric: u32,
    routes: Vec<Route<A>>,
) {
    let before: Vec<_> = table.all_alike(prefix, rank).cloned().collect();
    if let ([_], [route]) = (&before[..], &routes[..]) {
        table.insert(prefix, metric, route.clone());
        return;
    }
    // Routes in front that are unchanged stay.
    let kept = before.iter().zip(&routes).take_while(|(old, new)| old == new).count();
    for old in before[kept..].iter().rev() {
        table.remove_this(prefix, metric, old);
    }
    for route in routes.into_iter().skip(kept) {
        table.insert_beside(prefix, metric, route, true);
    }
}
