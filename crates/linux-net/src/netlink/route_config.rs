//! Requests that change routes, decoded (`rtm_to_fib_config` and `rtm_to_fib6_config` of Linux).

use super::gateways::{DEAD, Destination6, HopWanted, LINK_DOWN, ON_LINK, check_v4, check_v6};
use super::hops::{RTA_NH_ID, RTA_VIA, RTNEXTHOP};
use super::message::{Request, attribute};
use super::metrics;
use super::new_routes::may_be_source_v6;
use super::policies;
use super::policy::LIBERAL;
use super::refusal::{Refusal, invalid, refusal};
use super::routes::{RTA_PREF, RTMSG};
use belljar_linux_abi::{Errno, c};
use belljar_net::Prefix;
use belljar_net::policy::table;
use belljar_net::routes::{Ip, NextHop};
use belljar_netstack::Stack;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// `RTN_MAX`: the last type of routes.
const RTN_MAX: u8 = 11;
/// ECN bits of the type of service.
const ECN_BITS: u8 = 3;
/// `RTA_FLOWLABEL`.
const RTA_FLOWLABEL: u16 = 31;

/// Route in a request.
#[derive(Clone, Debug)]
pub(crate) struct Wanted<'a, A> {
    pub(super) table: u32,
    /// Destination; bits behind the prefix may be set.
    pub(super) to: A,
    pub(super) len: u8,
    pub(super) tos: u8,
    /// Metric; 0 without one.
    pub(super) metric: u32,
    pub(super) protocol: u8,
    pub(super) scope: u8,
    /// `RTN_*`.
    pub(super) kind: u8,
    /// `RTNH_F_*` and `RTM_F_*`.
    pub(super) flags: u32,
    pub(super) gateway: Option<IpAddr>,
    /// Index of the interface; 0 without one.
    pub(super) device: u32,
    pub(super) source: Option<A>,
    /// Id of a next-hop object; 0 without one.
    pub(super) object: u32,
    /// Several next hops, as `struct rtnexthop` entries.
    pub(super) several: Option<&'a [u8]>,
    /// Metrics besides the priority.
    pub(super) metrics: Option<&'a [u8]>,
    /// Router preference of IPv6 (`RTA_PREF`), as a route reports it.
    pub(super) preference: u8,
}

impl<A: Ip> Wanted<'_, A> {
    /// Destination prefix.
    pub(super) fn prefix(&self) -> Prefix<A> {
        Prefix::new(self.to, self.len)
    }
    /// The single next hop.
    pub(super) fn hop(&self) -> HopWanted {
        HopWanted {
            gateway: self.gateway,
            device: self.device,
            flags: self.flags,
            table: self.table,
            scope: self.scope,
        }
    }
    /// Flags reported with the route: those of the request, but of an only next hop in `RTA_MULTIPATH` its own
    /// (`fib_get_nhs`).
    pub(super) fn reported_flags(&self) -> u32 {
        let hops = self.several.map(|several| entries(several).0).unwrap_or_default();
        match &hops[..] {
            [only] => self.flags & !0xff | u32::from(only.flags),
            _ => self.flags,
        }
    }
}

fn v4(value: &[u8]) -> Ipv4Addr {
    Ipv4Addr::from(*value.first_chunk::<4>().expect("a checked length"))
}

fn v6(value: &[u8]) -> Ipv6Addr {
    Ipv6Addr::from(*value.first_chunk::<16>().expect("a checked length"))
}

/// Gateway in an `RTA_VIA` (`fib_gw_from_via`).
fn gateway_via(via: &[u8]) -> Result<IpAddr, Refusal> {
    let Some((family, ip)) = via.split_first_chunk() else {
        return invalid("Invalid attribute length for RTA_VIA");
    };
    match (i32::from(u16::from_ne_bytes(*family)), ip.len()) {
        (c::AF_INET, 4) => Ok(v4(ip).into()),
        (c::AF_INET6, 16) => Ok(v6(ip).into()),
        (c::AF_INET, _) => invalid("Invalid IPv4 address in RTA_VIA"),
        (c::AF_INET6, _) => invalid("Invalid IPv6 address in RTA_VIA"),
        _ => invalid("Unsupported address family in RTA_VIA"),
    }
}

/// Fields of a request's `struct rtmsg`, with the flags.
fn head(request: &Request<'_>) -> Result<([u8; 8], u32), Errno> {
    let head = *request.body.first_chunk().ok_or(Errno::EINVAL)?;
    Ok((head, request.word(8)?))
}

/// Decodes a request about an IPv4 route.
pub(super) fn read_v4<'a>(request: &Request<'a>) -> Result<Wanted<'a, Ipv4Addr>, Refusal> {
    if request.body.len() < RTMSG {
        return Err(Errno::EINVAL.into());
    }
    request.validate(RTMSG, &policies::ROUTE, LIBERAL)?;
    let ([_, len, _, tos, short, protocol, scope, kind], flags) = head(request)?;
    if tos & ECN_BITS != 0 {
        return invalid("Invalid dsfield (tos): ECN bits must be 0");
    }
    if kind > RTN_MAX {
        return invalid("Invalid route type");
    }
    let mut wanted = Wanted {
        table: u32::from(short),
        to: Ipv4Addr::UNSPECIFIED,
        len,
        tos,
        metric: 0,
        protocol,
        scope,
        kind,
        flags,
        gateway: None,
        device: 0,
        source: None,
        object: 0,
        several: None,
        metrics: None,
        preference: 0,
    };
    let (mut has_gateway, mut has_via) = (false, false);
    for (kind, value) in request.attributes(RTMSG) {
        let number = || u32::from_ne_bytes(*value.first_chunk().expect("a checked length"));
        match kind {
            c::RTA_DST => wanted.to = v4(value),
            c::RTA_OIF => wanted.device = number(),
            c::RTA_GATEWAY => {
                has_gateway = true;
                let gateway = Some(v4(value)).filter(|ip| !ip.is_unspecified()).map(IpAddr::V4);
                wanted.gateway = gateway.or(wanted.gateway);
            }
            RTA_VIA => {
                has_via = true;
                wanted.gateway = Some(gateway_via(value)?);
            }
            c::RTA_PRIORITY => wanted.metric = number(),
            c::RTA_PREFSRC => wanted.source = Some(v4(value)).filter(|ip| !ip.is_unspecified()),
            c::RTA_METRICS => wanted.metrics = Some(value),
            c::RTA_MULTIPATH => wanted.several = Some(value),
            c::RTA_TABLE => wanted.table = number(),
            RTA_NH_ID => wanted.object = number(),
            _ => {}
        }
    }
    if len > 32 {
        return invalid("Invalid prefix length");
    }
    if Prefix::new(wanted.to, len).address() != wanted.to {
        return invalid("Invalid prefix for given prefix length");
    }
    if wanted.object != 0 && (wanted.device != 0 || wanted.gateway.is_some() || wanted.several.is_some()) {
        return invalid("Nexthop specification and nexthop id are mutually exclusive");
    }
    if has_gateway && has_via {
        return invalid("Nexthop configuration can not contain both GATEWAY and VIA");
    }
    if wanted.table == 0 {
        wanted.table = table::MAIN;
    }
    Ok(wanted)
}

/// Decodes a request about an IPv6 route.
pub(super) fn read_v6<'a>(request: &Request<'a>) -> Result<Wanted<'a, Ipv6Addr>, Refusal> {
    request.validate(RTMSG, &policies::ROUTE6, LIBERAL)?;
    let ([_, len, _, tos, short, protocol, scope, kind], flags) = head(request)?;
    if tos != 0 {
        return invalid("Invalid dsfield (tos): option not available for IPv6");
    }
    let given = |kind| request.attribute(RTMSG, kind);
    if given(RTA_FLOWLABEL).is_some() {
        return invalid("Flow label cannot be specified for this operation");
    }
    let spelled = [c::RTA_OIF, c::RTA_GATEWAY, c::RTA_MULTIPATH];
    if given(RTA_NH_ID).is_some() && spelled.iter().any(|kind| given(*kind).is_some()) {
        return invalid("Nexthop specification and nexthop id are mutually exclusive");
    }
    if given(RTA_VIA).is_some() {
        return invalid("IPv6 does not support RTA_VIA attribute");
    }
    let mut to = [0; 16];
    if let Some(value) = given(c::RTA_DST) {
        let bytes = usize::from(len).div_ceil(8);
        let value = value.get(..bytes).ok_or(Errno::EINVAL)?;
        to[..bytes.min(16)].copy_from_slice(&value[..bytes.min(16)]);
    }
    let number = |kind| request.number(RTMSG, kind).map(|number| number.unwrap_or(0));
    let wanted = Wanted {
        table: request.number(RTMSG, c::RTA_TABLE)?.unwrap_or(u32::from(short)),
        to: to.into(),
        len,
        tos: 0,
        metric: number(c::RTA_PRIORITY)?,
        protocol,
        scope,
        kind,
        flags,
        gateway: given(c::RTA_GATEWAY).map(v6).map(IpAddr::V6),
        device: number(c::RTA_OIF)?,
        source: given(c::RTA_PREFSRC).map(v6).filter(|ip| !ip.is_unspecified()),
        object: number(RTA_NH_ID)?,
        several: given(c::RTA_MULTIPATH),
        metrics: given(c::RTA_METRICS),
        preference: match given(RTA_PREF) {
            Some([pref @ (1 | 3), ..]) => *pref,
            _ => 0,
        },
    };
    if let Some(several) = wanted.several {
        let new = request.kind == c::RTM_NEWROUTE;
        check_several_v6(several, new, wanted.gateway.is_some())?;
    }
    Ok(wanted)
}

/// Checks several next hops of an IPv6 route (`rtm_to_fib6_multipath_config`).
fn check_several_v6(several: &[u8], new: bool, has_gateway: bool) -> Result<(), Refusal> {
    let (entries, _) = entries(several);
    if entries.is_empty() {
        return invalid("Invalid nexthop configuration - no valid nexthops");
    }
    for entry in entries {
        let gateway = attribute(entry.attributes, c::RTA_GATEWAY);
        if gateway.is_some_and(|gateway| gateway.len() < 16) {
            return invalid("Invalid IPv6 address in RTA_GATEWAY");
        }
        if new && gateway.is_none() && !has_gateway {
            return invalid("Device only routes can not be added for IPv6 using the multipath API.");
        }
    }
    Ok(())
}

/// A `struct rtnexthop` in a request.
#[derive(Clone, Copy, Debug)]
pub(super) struct HopEntry<'a> {
    flags: u8,
    pub(super) weight: usize,
    /// Index of the interface; 0 without one.
    pub(super) device: u32,
    pub(super) attributes: &'a [u8],
}

impl HopEntry<'_> {
    /// Gateway in the attributes, of either family.
    pub(super) fn gateway_v4(&self) -> Result<Option<IpAddr>, Refusal> {
        match (attribute(self.attributes, c::RTA_GATEWAY), attribute(self.attributes, RTA_VIA)) {
            (Some(_), Some(_)) => invalid("Nexthop configuration can not contain both GATEWAY and VIA"),
            (Some(gateway), None) if gateway.len() < 4 => invalid("Invalid IPv4 address in RTA_GATEWAY"),
            (Some(gateway), None) => Ok(Some(v4(gateway)).filter(|ip| !ip.is_unspecified()).map(IpAddr::V4)),
            (None, Some(via)) => gateway_via(via).map(Some),
            (None, None) => Ok(None),
        }
    }
    /// Gateway of an IPv6 next hop.
    pub(super) fn gateway_v6(&self) -> Option<IpAddr> {
        attribute(self.attributes, c::RTA_GATEWAY).filter(|value| value.len() >= 16).map(v6).map(IpAddr::V6)
    }
}

/// Entries of several next hops, and true if malformed bytes follow.
pub(super) fn entries(mut several: &[u8]) -> (Vec<HopEntry<'_>>, bool) {
    let mut all = Vec::new();
    while several.len() >= RTNEXTHOP {
        let len = usize::from(u16::from_ne_bytes([several[0], several[1]]));
        if len < RTNEXTHOP || len > several.len() {
            break;
        }
        all.push(HopEntry {
            flags: several[2],
            weight: usize::from(several[3]) + 1,
            device: u32::from_ne_bytes(several[4..8].try_into().expect("four bytes")),
            attributes: &several[RTNEXTHOP..len],
        });
        several = several.get(len.next_multiple_of(4)..).unwrap_or_default();
    }
    (all, !several.is_empty())
}

impl Wanted<'_, Ipv4Addr> {
    /// Decodes several next hops (`fib_get_nhs`).
    fn several_wanted(&self, several: &[u8]) -> Result<Vec<(HopWanted, usize)>, Refusal> {
        let (entries, _) = entries(several);
        let mut all = Vec::new();
        for entry in entries {
            if u32::from(entry.flags) & (DEAD | LINK_DOWN) != 0 {
                return invalid("Invalid flags for nexthop - can not contain DEAD or LINKDOWN");
            }
            let hop = HopWanted {
                gateway: entry.gateway_v4()?,
                device: entry.device,
                flags: u32::from(entry.flags),
                ..self.hop()
            };
            all.push((hop, entry.weight));
        }
        Ok(all)
    }

    /// Decodes and checks the next hops (`fib_create_info` without the route's own checks).
    pub(super) fn hops(&self, net: &Stack) -> Result<Vec<NextHop>, Refusal> {
        let Some(several) = self.several else { return Ok(vec![check_v4(net, self.hop())?]) };
        let all = self.several_wanted(several)?;
        let mut hops = Vec::new();
        for (hop, weight) in all {
            hops.push((check_v4(net, hop)?, weight));
        }
        Ok(NextHop::repeated(hops))
    }

    /// Checks of the route that precede those of its next hops.
    pub(super) fn check(&self) -> Result<(), Refusal> {
        const LEAST_SCOPES: [u8; 12] = [255, 0, 254, 253, 253, 0, 0, 0, 0, 0, 255, 255];
        if LEAST_SCOPES[usize::from(self.kind)] > self.scope {
            return invalid("Invalid scope");
        }
        if self.flags & (DEAD | LINK_DOWN) != 0 {
            return invalid("Invalid rtm_flags - can not contain DEAD or LINKDOWN");
        }
        Ok(())
    }

    /// Checks the number of next hops (`fib_count_nexthops`).
    pub(super) fn check_count(&self) -> Result<(), Refusal> {
        match self.several.map(entries) {
            Some((_, true)) => {
                Err(refusal(Errno::EINVAL, "Invalid nexthop configuration - extra data after nexthops"))
            }
            Some((entries, _)) if entries.is_empty() => Err(Errno::EINVAL.into()),
            _ => Ok(()),
        }
    }

    /// First next hop, which is the only one of a route with host scope.
    pub(super) fn first_hop(&self) -> Result<HopWanted, Refusal> {
        let several = self.several.map(|several| self.several_wanted(several)).transpose()?;
        Ok(several.and_then(|all| all.first().map(|(hop, _)| *hop)).unwrap_or(self.hop()))
    }

    /// Number of next hops.
    pub(super) fn several_count(&self) -> usize {
        self.several.map_or(1, |several| entries(several).0.len())
    }

    /// Checks that depend on the type and scope of the route, between decoding the next hops and checking
    /// them. Returns false if the route has no next hops.
    pub(super) fn check_kind(&self) -> Result<bool, Refusal> {
        if let Some(several) = self.several {
            let all = self.several_wanted(several)?;
            let first = all[0].0;
            if self.device != 0 && self.device != first.device {
                return invalid("Nexthop device index does not match RTA_OIF");
            }
            if self.gateway.is_some() && self.gateway != first.gateway {
                return invalid("Nexthop gateway does not match RTA_GATEWAY or RTA_VIA");
            }
        }
        match self.kind {
            c::RTN_BLACKHOLE | c::RTN_UNREACHABLE | c::RTN_PROHIBIT | c::RTN_THROW => {
                if self.gateway.is_some() || self.device != 0 || self.several.is_some() {
                    let words = "Gateway, device and multipath can not be specified for this route type";
                    return invalid(words);
                }
                return Ok(false);
            }
            c::RTN_UNICAST | c::RTN_LOCAL | c::RTN_BROADCAST | c::RTN_ANYCAST | c::RTN_MULTICAST => {}
            _ => return invalid("Invalid route type"),
        }
        if self.scope > c::RT_SCOPE_HOST {
            return invalid("Invalid scope");
        }
        Ok(true)
    }
}

impl Wanted<'_, Ipv6Addr> {
    /// Properties on which the next hops depend.
    fn destination(&self) -> Destination6 {
        let rejecting = [c::RTN_BLACKHOLE, c::RTN_UNREACHABLE, c::RTN_PROHIBIT, c::RTN_THROW];
        Destination6 { to: self.to, rejects: rejecting.contains(&self.kind) }
    }

    /// Decodes and checks the next hops.
    pub(super) fn hops(&self, net: &Stack) -> Result<Vec<NextHop<Ipv6Addr>>, Refusal> {
        let of = self.destination();
        let check = |hop| {
            let hop = check_v6(net, hop, &of)?;
            match self.source.is_none_or(|ip| may_be_source_v6(net, ip, &[hop])) {
                true => Ok(hop),
                false => invalid("Invalid source address"),
            }
        };
        let Some(several) = self.several else { return Ok(vec![check(self.hop())?]) };
        let mut hops = Vec::new();
        for entry in entries(several).0 {
            let flags = self.flags | u32::from(entry.flags) & ON_LINK;
            let device = if entry.device == 0 { self.device } else { entry.device };
            let gateway = entry.gateway_v6().or(self.gateway);
            let hop = HopWanted { gateway, device, flags, ..self.hop() };
            let hop = check(hop)?;
            if hops.iter().any(|(other, _)| *other == hop) {
                return Err(Errno::EEXIST.into());
            }
            hops.push((hop, entry.weight));
        }
        Ok(NextHop::repeated(hops))
    }

    /// Checks of the route that precede those of its next hops (`ip6_route_info_create`).
    pub(super) fn check(&self) -> Result<(), Refusal> {
        const RTM_F_CLONED: u32 = 0x200;
        if self.flags & RTM_F_CLONED != 0 {
            return invalid("Userspace can not set RTF_CACHE");
        }
        if self.kind > RTN_MAX {
            return invalid("Invalid route type");
        }
        if self.len > 128 {
            return invalid("Invalid prefix length");
        }
        Ok(())
    }
}

impl<A: Ip> Wanted<'_, A> {
    /// True if a deletion means the entry at the root of an IPv6 table, which stands for no route.
    pub(super) fn is_of_root(&self) -> bool {
        const KERNEL: u8 = 2;
        let lo = belljar_netstack::interface_index(belljar_netstack::LO);
        (self.metric == 0 || self.metric == u32::MAX)
            && [0, KERNEL].contains(&self.protocol)
            && self.object == 0
            && [0, lo].contains(&self.device)
            && self.gateway.is_none()
    }
    /// Metrics of the route, and the numbers of those that have no effect here.
    pub(super) fn metrics(
        &self,
        request: &Request<'_>,
    ) -> Result<(belljar_net::routes::Metrics, Vec<u16>), Refusal> {
        metrics::read(request, self.metrics)
    }
}
