//! Checks of next hops: whether the gateway can be reached over the interface (`fib_check_nh` and `fib6_nh_init`
//! of Linux).

use super::local_table::{LocalEntry, in_order, local_entries};
use super::refusal::{Refusal, invalid, refusal};
use super::routes::type_of;
use belljar_linux_abi::{Errno, c};
use belljar_net::Prefix;
use belljar_net::policy::{Action, RuleSelector, table};
use belljar_net::routes::{Ip, Metrics, NextHop, Route, RouteTable};
use belljar_netstack::devices::vrf;
use belljar_netstack::ip::route::Through;
use belljar_netstack::routing::Routed;
use belljar_netstack::v6;
use belljar_netstack::{LO, Stack};
use belljar_wire::ipv6;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Bits of the type of service by which rules select packets.
const DSCP_BITS: u8 = 0xfc;
/// `RTNH_F_*`.
pub(super) const DEAD: u32 = 1;
pub(super) const PERVASIVE: u32 = 2;
pub(super) const ON_LINK: u32 = 4;
pub(super) const LINK_DOWN: u32 = 16;

/// Next hop in a request, before its check.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct HopWanted {
    pub(super) gateway: Option<IpAddr>,
    /// Index of the interface; 0 without one.
    pub(super) device: u32,
    /// `RTNH_F_*`.
    pub(super) flags: u32,
    /// Table of the route; 0 without one.
    pub(super) table: u32,
    /// Scope of the route, `RT_SCOPE_*`.
    pub(super) scope: u8,
}

/// Route found by a lookup.
#[derive(Clone, Debug)]
pub(super) struct Found {
    /// `RTN_*`.
    pub(super) kind: u8,
    pub(super) interface: usize,
    pub(super) gateway: Option<IpAddr>,
    pub(super) table: u32,
    pub(super) protocol: u8,
    pub(super) metric: u32,
    pub(super) preference: u8,
    /// Scope of the route, `RT_SCOPE_*`.
    scope: u8,
    /// Preferred source address.
    pub(super) source: Option<IpAddr>,
    pub(super) metrics: Metrics,
    /// Length of the route's prefix.
    bits: u8,
    /// True for a unicast route over `lo`, which would loop and thus refuses packets (`fib6_is_reject`).
    loops: bool,
    /// Error with which a rule refuses packets.
    pub(super) refused: Option<Errno>,
}

impl Found {
    fn refused(errno: Errno) -> Found {
        Found {
            kind: c::RTN_BLACKHOLE,
            interface: LO,
            gateway: None,
            table: 0,
            protocol: 0,
            metric: 0,
            preference: 0,
            scope: 0,
            source: None,
            metrics: Metrics::default(),
            bits: 0,
            loops: false,
            refused: Some(errno),
        }
    }
    fn of_local<A: Ip>(entry: &LocalEntry<A>) -> Found {
        const KERNEL: u8 = 2;
        Found {
            kind: entry.kind,
            interface: entry.interface,
            gateway: None,
            table: table::LOCAL,
            protocol: KERNEL,
            metric: entry.metric,
            preference: 0,
            scope: entry.scope,
            source: None,
            metrics: Metrics::default(),
            bits: entry.prefix.bits(),
            loops: false,
            refused: None,
        }
    }
    /// True if the destination is on-link.
    fn direct(&self) -> bool {
        self.gateway.is_none()
    }
}

/// True for types of routes that refuse packets.
fn rejects(kind: u8) -> bool {
    [c::RTN_BLACKHOLE, c::RTN_UNREACHABLE, c::RTN_PROHIBIT, c::RTN_THROW].contains(&kind)
}

fn address_of<A: Ip>(prefix: Prefix<A>) -> IpAddr {
    prefix.address().into()
}

/// Best route of a table to `to` among those for which `fits` is true of the route and its next hop.
fn best<A: Routed>(
    (table, routes): (u32, &RouteTable<A>),
    to: A,
    fits: impl Fn(&Route<A>, Option<&NextHop<A>>) -> bool,
) -> Option<Found> {
    routes.iter().filter(|(prefix, _, route)| prefix.contains(to) && route.tos == 0).find_map(
        |(prefix, metric, route)| {
            let found = |hop: Option<&NextHop<A>>| Found {
                kind: type_of(route.kind),
                interface: hop.map_or(LO, |hop| hop.interface),
                gateway: hop.and_then(NextHop::router),
                table,
                protocol: route.protocol,
                metric,
                preference: route.preference,
                scope: route.scope,
                source: route.source.map(Into::into),
                metrics: route.metrics,
                bits: prefix.bits(),
                loops: route.object.is_none()
                    && hop.is_some_and(|hop| hop.interface == LO && hop.is_direct())
                    && !address_of(prefix).is_loopback(),
                refused: None,
            };
            // IPv4 routes that refuse packets do so without a next hop.
            match route.hops.is_empty() || A::AF == c::AF_INET && rejects(type_of(route.kind)) {
                true => fits(route, None).then(|| found(None)),
                false => route.hops.iter().find(|hop| fits(route, Some(hop))).map(|hop| found(Some(hop))),
            }
        },
    )
}

/// Route by the policy rules, the local table first. `None` if there is none. `oif` may be a number that no
/// interface has.
fn by_rules<A: Routed>(
    net: &Stack,
    (to, source): (A, Option<A>),
    local: &[LocalEntry<A>],
    (oif, through): (Option<usize>, &Through),
    fits: impl Fn(&Route<A>, Option<&NextHop<A>>) -> bool,
) -> Option<Found> {
    let fits_local =
        |entry: &&LocalEntry<A>| entry.prefix.contains(to) && oif.is_none_or(|oif| oif == entry.interface);
    let of_local = |entries: &[LocalEntry<A>]| {
        entries.iter().filter(fits_local).max_by_key(|entry| entry.prefix.bits()).map(Found::of_local)
    };
    if let Some(found) = of_local(local) {
        return Some(found);
    }
    let name = |number: usize| net.interfaces.get(number).map_or("", |interface| &*interface.name);
    let flow = RuleSelector {
        destination: to,
        source,
        arrived: name(LO),
        device: oif.map(name),
        mark: through.mark,
        tos: through.tos & DSCP_BITS,
        protocol: through.sender.protocol,
        ports: through.sender.ports,
        uid: through.sender.uid,
        l3mdev: oif.and_then(|oif| vrf::table(net, oif)),
    };
    let policy = A::policy(net);
    if policy.is_plain() {
        let found = best((table::MAIN, A::routes(net)), to, &fits);
        return found.filter(|found| found.kind != c::RTN_THROW);
    }
    let mut from = 0;
    for rule in policy.rules().iter().filter(|rule| rule.is_for(&flow)) {
        if rule.priority < from {
            continue;
        }
        match rule.action {
            Action::Table(_) | Action::L3mdev => {
                let number = match (rule.action, flow.l3mdev) {
                    (Action::Table(number), _) | (_, Some(number)) => number,
                    _ => continue,
                };
                let Some(routes) = policy.table(A::routes(net), number) else { continue };
                let suppressed =
                    |found: &Found| rule.suppressed.is_some_and(|bits| u32::from(found.bits) <= bits);
                match best((number, routes), to, &fits) {
                    Some(found) if found.kind != c::RTN_THROW && !suppressed(&found) => return Some(found),
                    _ => {}
                }
            }
            Action::Goto(target) if policy.rules().iter().any(|rule| rule.priority == target) => {
                from = target
            }
            Action::Goto(_) | Action::Nop => {}
            Action::Unreachable => return Some(Found::refused(Errno::ENETUNREACH)),
            Action::Prohibit => return Some(Found::refused(Errno::EACCES)),
            Action::Blackhole | Action::Other(_) => return Some(Found::refused(Errno::EINVAL)),
        }
    }
    None
}

/// Type of an address in the local table (`inet_addr_type`).
pub(super) fn address_type(net: &Stack, ip: Ipv4Addr) -> u8 {
    if ip.is_broadcast() || ip.is_unspecified() {
        return c::RTN_BROADCAST;
    }
    if ip.is_multicast() {
        return c::RTN_MULTICAST;
    }
    let entries = in_order(net, local_entries(net));
    // An address may be that of the host and of a broadcast: the older route counts.
    let covering = entries.iter().rev().filter(|entry| entry.prefix.contains(ip));
    let best = covering.max_by_key(|entry| entry.prefix.bits());
    best.map_or(c::RTN_UNICAST, |entry| entry.kind)
}

/// Checks the next hop of an IPv4 route (`fib_check_nh`).
pub(super) fn check_v4(net: &Stack, wanted: HopWanted) -> Result<NextHop, Refusal> {
    let on_link = wanted.flags & ON_LINK != 0;
    match wanted.gateway {
        Some(IpAddr::V4(gateway)) => check_gateway_v4(net, wanted, gateway),
        Some(IpAddr::V6(_)) => {
            let hop = check_v6(net, wanted, &Destination6::NONE)?;
            let NextHop { interface, gateway: gateway6, on_link, .. } = hop;
            let scope = c::RT_SCOPE_LINK;
            Ok(NextHop { gateway6, on_link, scope, ..NextHop::new(interface, None) })
        }
        None if on_link || wanted.flags & PERVASIVE != 0 => {
            let words = "Invalid flags for nexthop - PERVASIVE and ONLINK can not be set";
            Err(refusal(Errno::EINVAL, words))
        }
        None => {
            let interface = net.interfaces.by_index(wanted.device).ok_or(Errno::ENODEV)?;
            if !net.interfaces[interface].up {
                return Err(refusal(Errno::ENETDOWN, "Device for nexthop is not up"));
            }
            Ok(NextHop::new(interface, None))
        }
    }
}

fn check_gateway_v4(net: &Stack, wanted: HopWanted, gateway: Ipv4Addr) -> Result<NextHop, Refusal> {
    let no_gateway = refusal(Errno::EINVAL, "Nexthop has invalid gateway");
    if wanted.flags & ON_LINK != 0 {
        if wanted.scope >= c::RT_SCOPE_LINK {
            return Err(refusal(Errno::EINVAL, "Nexthop has invalid scope"));
        }
        let no_device = refusal(Errno::ENODEV, "Nexthop device required for onlink");
        let interface = net.interfaces.by_index(wanted.device).ok_or(no_device)?;
        if !net.interfaces[interface].up {
            return Err(refusal(Errno::ENETDOWN, "Nexthop device is not up"));
        }
        if address_type(net, gateway) != c::RTN_UNICAST {
            return Err(no_gateway);
        }
        return Ok(NextHop { on_link: true, ..NextHop::new(interface, Some(gateway)) });
    }
    let least = wanted.scope.saturating_add(1).max(c::RT_SCOPE_LINK);
    let unreachable = |errno| refusal(errno, "Nexthop has invalid gateway");
    // An index without an interface is that of no next hop.
    let none = net.interfaces.len();
    let oif = match wanted.device {
        0 => None,
        index => Some(net.interfaces.by_index(index).unwrap_or(none)),
    };
    let fits = |route: &Route, hop: Option<&NextHop>| {
        route.scope >= least
            && match hop {
                Some(hop) => oif.is_none_or(|oif| oif == hop.interface) && net.interfaces[hop.interface].up,
                None => true,
            }
    };
    let local: Vec<_> = local_entries(net).into_iter().filter(|entry| entry.scope >= least).collect();
    let own = match wanted.table {
        0 | table::MAIN | table::LOCAL => None,
        number => {
            net.policy.table(&net.routes, number).and_then(|routes| best((number, routes), gateway, fits))
        }
    };
    let found = own.filter(|found| found.kind == c::RTN_UNICAST || found.kind == c::RTN_LOCAL);
    let found = found.or_else(|| by_rules(net, (gateway, None), &local, (oif, &Through::default()), fits));
    let found = found.ok_or(unreachable(Errno::ENETUNREACH))?;
    if let Some(errno) = found.refused {
        return Err(unreachable(errno));
    }
    match found.kind {
        c::RTN_UNICAST | c::RTN_LOCAL => {}
        c::RTN_UNREACHABLE => return Err(unreachable(Errno::EHOSTUNREACH)),
        c::RTN_PROHIBIT => return Err(unreachable(Errno::EACCES)),
        _ => return Err(no_gateway),
    }
    if !net.interfaces[found.interface].up {
        return Err(Errno::ENETDOWN.into());
    }
    Ok(NextHop { scope: found.scope, ..NextHop::new(found.interface, Some(gateway)) })
}

/// Properties of an IPv6 route on which its next hop depends.
#[derive(Clone, Copy, Debug)]
pub(super) struct Destination6 {
    /// Destination prefix's address.
    pub(super) to: Ipv6Addr,
    /// True for routes that refuse packets.
    pub(super) rejects: bool,
}

impl Destination6 {
    /// No route: next hops over `lo` are checked like others.
    pub(super) const NONE: Destination6 = Destination6 { to: Ipv6Addr::LOCALHOST, rejects: false };
}

/// Checks the next hop of an IPv6 route (`fib6_nh_init`).
pub(super) fn check_v6(
    net: &Stack,
    wanted: HopWanted,
    of: &Destination6,
) -> Result<NextHop<Ipv6Addr>, Refusal> {
    let on_link = wanted.flags & ON_LINK != 0;
    let mut device = match wanted.device {
        0 => None,
        index => Some(net.interfaces.by_index(index).ok_or(Errno::ENODEV)?),
    };
    if device.is_some_and(|device| device != LO && net.interfaces[device].mtu < ipv6::MIN_MTU) {
        return Err(Errno::ENODEV.into());
    }
    if on_link {
        let device = device.ok_or(refusal(Errno::ENODEV, "Nexthop device required for onlink"))?;
        if !net.interfaces[device].up {
            return Err(refusal(Errno::ENETDOWN, "Nexthop device is not up"));
        }
    }
    let gateway = match wanted.gateway {
        Some(IpAddr::V6(gateway)) => Some(gateway),
        _ => None,
    };
    // A route over `lo` would loop.
    let loops = device == Some(LO) && gateway.is_none() && !of.to.is_loopback();
    if loops && !of.rejects && !net.interfaces[LO].up {
        return Err(refusal(Errno::ENETDOWN, "Nexthop device is not up"));
    }
    if of.rejects || loops {
        return Ok(NextHop { on_link, ..NextHop::new(LO, None) });
    }
    if let Some(gateway) = gateway {
        device = Some(check_gateway_v6(net, wanted, gateway, device)?);
    }
    let device = device.ok_or(Errno::ENODEV)?;
    if !v6::is_possible(net, device) {
        return Err(refusal(Errno::EACCES, "IPv6 is disabled on nexthop device"));
    }
    if !net.interfaces[device].up {
        return Err(refusal(Errno::ENETDOWN, "Nexthop device is not up"));
    }
    Ok(NextHop { on_link, ..NextHop::new(device, gateway) })
}

/// Checks the gateway of an IPv6 route (`ip6_validate_gw`); returns the interface.
fn check_gateway_v6(
    net: &Stack,
    wanted: HopWanted,
    gateway: Ipv6Addr,
    device: Option<usize>,
) -> Result<usize, Refusal> {
    let link_local = gateway.is_unicast_link_local();
    let has = |number: usize| net.interfaces[number].addresses6.iter().any(|own| own.ip == gateway);
    let is_local = |device: usize| match link_local {
        true => has(device),
        false => (0..net.interfaces.len()).any(has),
    };
    if device.is_some_and(is_local) {
        return invalid("Gateway can not be a local address");
    }
    let mut found = device;
    if !link_local {
        if gateway.is_unspecified() || gateway.is_multicast() {
            return invalid("Invalid gateway address");
        }
        found = Some(match (wanted.flags & ON_LINK != 0, device) {
            (true, Some(device)) => check_on_link_v6(net, gateway, device)?,
            _ => reachable_v6(net, wanted, gateway, device)?,
        });
    }
    match found {
        None => invalid("Egress device not specified"),
        Some(LO) => invalid("Egress device can not be loopback device for this route"),
        Some(found) if device.is_none() && is_local(found) => invalid("Gateway can not be a local address"),
        Some(found) => Ok(found),
    }
}

/// Checks that no route contradicts an on-link gateway (`ip6_route_check_nh_onlink`).
fn check_on_link_v6(net: &Stack, gateway: Ipv6Addr, device: usize) -> Result<usize, Refusal> {
    let found = best((table::MAIN, &net.v6.routes), gateway, |_, _| true);
    match found {
        Some(found) if !rejects(found.kind) && !found.loops && found.bits != 0 => {
            if found.kind != c::RTN_UNICAST || found.interface != device {
                let words = "Nexthop has invalid gateway or device mismatch";
                return Err(refusal(Errno::EINVAL, words));
            }
            Ok(device)
        }
        _ => Ok(device),
    }
}

/// Route to an IPv6 destination, for a query.
pub(super) fn find_v6(
    net: &Stack,
    ends: (Ipv6Addr, Option<Ipv6Addr>),
    oif: Option<usize>,
    through: &Through,
) -> Option<Found> {
    let local = super::local_table::local_entries6(net);
    by_rules(net, ends, &local, (oif, through), |_: &Route<Ipv6Addr>, hop: Option<&NextHop<Ipv6Addr>>| {
        hop.is_none_or(|hop| oif.is_none_or(|oif| oif == hop.interface) && net.interfaces[hop.interface].up)
    })
}

/// Interface over which a gateway is reached (`ip6_route_check_nh`).
fn reachable_v6(
    net: &Stack,
    wanted: HopWanted,
    gateway: Ipv6Addr,
    device: Option<usize>,
) -> Result<usize, Refusal> {
    let fits = |_: &Route<Ipv6Addr>, hop: Option<&NextHop<Ipv6Addr>>| {
        hop.is_none_or(|hop| device.is_none_or(|device| device == hop.interface))
    };
    let local = super::local_table::local_entries6(net);
    let usable = |found: &Found| !rejects(found.kind) && !found.loops && found.direct();
    let own = match wanted.table {
        0 => None,
        table::LOCAL => local
            .iter()
            .filter(|entry| entry.prefix.contains(gateway))
            .max_by_key(|entry| entry.prefix.bits())
            .map(Found::of_local),
        number => {
            let routes = net.v6.policy.table(&net.v6.routes, number);
            routes.and_then(|routes| best((number, routes), gateway, fits))
        }
    };
    let own = own.filter(usable).filter(|found| device.is_none_or(|device| device == found.interface));
    let found = own.or_else(|| {
        by_rules(net, (gateway, None), &local, (device, &Through::default()), fits).filter(usable)
    });
    let found = found.ok_or(Errno::EHOSTUNREACH)?;
    match device {
        Some(device) if device != found.interface => Err(Errno::EHOSTUNREACH.into()),
        _ => Ok(found.interface),
    }
}
