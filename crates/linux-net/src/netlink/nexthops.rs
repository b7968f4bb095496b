//! Next-hop objects in rtnetlink: `RTM_NEWNEXTHOP`, `RTM_DELNEXTHOP`, `RTM_GETNEXTHOP` (`net/ipv4/nexthop.c` of Linux).

use super::gateways::{Destination6, HopWanted, ON_LINK, check_v4, check_v6};
use super::hops::RTNH_F_ONLINK;
use super::message::{MULTI, Message, Request, To};
use super::policies;
use super::policy::{Policy, STRICT};
use super::refusal::{Refusal, invalid, refusal};
use super::requests::{ip_bytes, parse_ip};
use super::{Announced, group};
use crate::Admin;
use belljar_linux_abi::{Errno, c};
use belljar_netstack::nexthops::{NextHopKind, NextHopObject};
use belljar_netstack::{LO, interface_index};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// `RTM_NEWNEXTHOP`, `RTM_DELNEXTHOP`, `RTM_GETNEXTHOP`.
pub(super) const NEWNEXTHOP: u16 = 104;
pub(super) const DELNEXTHOP: u16 = 105;
pub(super) const GETNEXTHOP: u16 = 106;
/// Length of `struct nhmsg` in bytes.
const NHMSG: usize = 8;
/// Length of `struct nexthop_grp` in bytes.
const MEMBER: usize = 8;
/// `NHA_*`.
const ID: u16 = 1;
const GROUP: u16 = 2;
const GROUP_TYPE: u16 = 3;
const BLACKHOLE: u16 = 4;
const OIF: u16 = 5;
const GATEWAY: u16 = 6;
const ENCAP: u16 = 8;
const GROUPS: u16 = 9;
const MASTER: u16 = 10;
const FDB: u16 = 11;
const OP_FLAGS: u16 = 14;
/// `NHA_OP_FLAG_RESP_GRP_RESVD_0`: the reserved field of group members is zero.
const RESERVED_IS_ZERO: u32 = 0x8000_0000;

impl Admin<'_> {
    /// Handles `ip nexthop`: lists the objects that match the request's filters.
    pub(crate) fn nexthops(&self, request: &Request<'_>, port: u32) -> Result<Vec<Vec<u8>>, Refusal> {
        request.validate(NHMSG, &policies::NEXTHOP_DUMP, STRICT)?;
        let device = request.number(NHMSG, OIF)?;
        if device.is_some_and(|index| index as i32 <= -1) {
            return invalid("Invalid device index");
        }
        let master = request.number(NHMSG, MASTER)?;
        if master.is_some_and(|index| index as i32 <= -1) {
            return invalid("Invalid master device index");
        }
        if request.body[1..NHMSG].iter().any(|byte| *byte != 0) {
            return invalid("Invalid values in header for nexthop dump request");
        }
        let family = request.body[0];
        let device = device.filter(|index| *index != 0);
        let groups = request.attribute(NHMSG, GROUPS).is_some();
        let enslaved = master.is_some_and(|index| index != 0);
        let shown = |(_, object): &(u32, &NextHopObject)| {
            let on = |index| match object.kind {
                NextHopKind::Hop { interface, .. } => interface_index(interface) == index,
                NextHopKind::Blackhole { .. } => interface_index(LO) == index,
                NextHopKind::Group(_) => false,
            };
            (!groups || object.is_group())
                && (family == 0 || !object.is_group() && object.family == family)
                && device.is_none_or(on)
                // No interface has a master.
                && !enslaved
        };
        let to = (request.sequence, MULTI, port);
        let all = self.net.nexthops.iter().filter(shown);
        Ok(all.map(|(id, object)| message(id, object, NEWNEXTHOP, to)).collect())
    }

    /// Handles `ip nexthop get`.
    pub(crate) fn nexthop(&self, request: &Request<'_>, port: u32) -> Result<Vec<u8>, Refusal> {
        let id = named(request, &policies::NEXTHOP_QUERY)?;
        let object = self.net.nexthops.get(id).ok_or(Errno::ENOENT)?;
        Ok(message(id, object, NEWNEXTHOP, (request.sequence, 0, port)))
    }

    /// Handles `ip nexthop add` and `replace`.
    pub(crate) fn add_nexthop(&mut self, request: &Request<'_>, port: u32) -> Result<(), Refusal> {
        let to = (request.sequence, 0, port);
        request.validate(NHMSG, &policies::NEXTHOP, STRICT)?;
        let object = self.nexthop_given(request)?;
        let has = |flag: i32| i32::from(request.flags) & flag != 0;
        let id = request.number(NHMSG, ID)?.unwrap_or(0);
        if id == 0 && has(c::NLM_F_REPLACE) {
            return Err(refusal(Errno::EINVAL, "Replace requires nexthop id"));
        }
        self.check_nexthop(&object)?;
        let id = if id == 0 { self.net.nexthops.unused() } else { id };
        let object = self.created_nexthop(object)?;
        match self.net.nexthops.get(id) {
            Some(_) if !has(c::NLM_F_REPLACE) => return Err(Errno::EEXIST.into()),
            Some(old) => self.check_replacement(id, old, &object)?,
            None if has(c::NLM_F_REPLACE) && !has(c::NLM_F_CREATE) => {
                let words = "Replace specified without create and no entry exists";
                return Err(refusal(Errno::ENOENT, words));
            }
            None => {}
        }
        let new = self.net.nexthops.get(id).is_none();
        let message = message(id, &object, NEWNEXTHOP, to);
        self.net.nexthops.insert(id, object);
        self.announce(group::NEXTHOP, &message);
        if !new {
            self.net.apply_nexthops();
            for id in [vec![id], self.net.nexthops.groups_of(id)].concat() {
                self.announce_routes_by::<Ipv4Addr>(id, c::RTM_NEWROUTE, to);
                self.announce_routes_by::<Ipv6Addr>(id, c::RTM_NEWROUTE, to);
            }
        }
        Ok(())
    }

    /// Handles `ip nexthop del`: removes the object from its groups, its routes, and the routes of groups
    /// that become empty.
    pub(crate) fn remove_nexthop(&mut self, request: &Request<'_>, port: u32) -> Result<(), Refusal> {
        let to = (request.sequence, 0, port);
        let id = named(request, &policies::NEXTHOP_DELETION)?;
        let object = self.net.nexthops.get(id).ok_or(Errno::ENOENT)?.clone();
        self.announce(group::NEXTHOP, &message(id, &object, DELNEXTHOP, to));
        // As in Linux, the removal of IPv4 routes is not notified.
        self.announce_routes_by::<Ipv6Addr>(id, c::RTM_DELROUTE, to);
        for (changed, before, left) in self.net.nexthops.remove(id) {
            let now = self.net.nexthops.get(changed).unwrap_or(&before).clone();
            let kind = if left { NEWNEXTHOP } else { DELNEXTHOP };
            self.announce(group::NEXTHOP, &message(changed, &now, kind, to));
            if !left {
                self.announce_routes_by::<Ipv6Addr>(changed, c::RTM_DELROUTE, to);
            }
        }
        self.net.apply_nexthops();
        Ok(())
    }

    /// Decodes the object in a request (`rtm_to_nh_config`).
    fn nexthop_given(&mut self, request: &Request<'_>) -> Result<NextHopWanted, Refusal> {
        let [family, scope, protocol, reserved, ..] = *request.body else { return Err(Errno::EINVAL.into()) };
        let flags = request.word(4)?;
        let present = |kind: u16| request.attribute(NHMSG, kind);
        if reserved != 0 || scope != 0 {
            return invalid("Invalid values in ancillary header");
        }
        if flags & !u32::from(RTNH_F_ONLINK) != 0 {
            return invalid("Invalid nexthop flags in ancillary header");
        }
        let is_group = present(GROUP).is_some();
        let has_family = [c::AF_INET, c::AF_INET6].contains(&i32::from(family));
        if !(has_family || is_group && family == 0) {
            return invalid("Invalid address family");
        }
        let unsupported = [(FDB, "NHA_FDB"), (ENCAP, "NHA_ENCAP")];
        if let Some((_, name)) = unsupported.iter().find(|(kind, _)| present(*kind).is_some()) {
            self.warn(format!("rtnetlink: {name} of next hops is not supported and refused"));
            return Err(refusal(Errno::EOPNOTSUPP, "attribute not supported"));
        }
        let on_link = flags & u32::from(RTNH_F_ONLINK) != 0;
        let wanted = |kind| Ok(NextHopWanted { family, protocol, on_link, kind });
        if let Some(members) = present(GROUP) {
            if family != 0 {
                return invalid("Invalid family for group");
            }
            if !matches!(present(GROUP_TYPE), None | Some([0 | 1, 0])) {
                return invalid("Invalid group type");
            }
            let members = members_given(members)?;
            if matches!(present(GROUP_TYPE), Some([1, 0])) {
                self.warn("rtnetlink: resilient groups of next hops are not supported and refused");
                return Err(refusal(Errno::EOPNOTSUPP, "attribute not supported"));
            }
            if [BLACKHOLE, OIF, GATEWAY].iter().any(|kind| present(*kind).is_some()) {
                return invalid("No other attributes can be set in nexthop groups");
            }
            return wanted(KindWanted::Group(members));
        }
        let (device, gateway) = (request.number(NHMSG, OIF)?, present(GATEWAY));
        if present(BLACKHOLE).is_some() {
            if device.is_some() || gateway.is_some() {
                return invalid("Blackhole attribute can not be used with gateway, oif, encap or fdb");
            }
            return wanted(KindWanted::Blackhole);
        }
        let Some(device) = device else {
            return invalid("Device attribute required for non-blackhole and non-fdb nexthops");
        };
        let gateway = match (gateway, i32::from(family)) {
            (Some(value), c::AF_INET) if value.len() == 4 => Some(parse_ip(value)?),
            (Some(value), c::AF_INET6) if value.len() == 16 => Some(parse_ip(value)?),
            (Some(_), _) => return invalid("Invalid gateway"),
            (None, _) if on_link => {
                return invalid("ONLINK flag can not be set for nexthop without a gateway");
            }
            (None, _) => None,
        };
        wanted(KindWanted::Hop { device, gateway: gateway.filter(|ip| !ip.is_unspecified()) })
    }

    /// Checks the device or the members of an object (`rtm_to_nh_config_rtnl`).
    fn check_nexthop(&self, wanted: &NextHopWanted) -> Result<(), Refusal> {
        match &wanted.kind {
            KindWanted::Group(members) => self.check_members(members),
            KindWanted::Blackhole => Ok(()),
            KindWanted::Hop { device, .. } => {
                let Some(number) = self.net.interfaces.by_index(*device) else {
                    return invalid("Invalid device index");
                };
                let interface = &self.net.interfaces[number];
                if !interface.up {
                    return Err(refusal(Errno::ENETDOWN, "Nexthop device is not up"));
                }
                if !interface.carrier {
                    return Err(refusal(Errno::ENETDOWN, "Carrier for nexthop device is down"));
                }
                Ok(())
            }
        }
    }

    /// Creates the object, if its gateway can be reached (`nh_create_ipv4`, `nh_create_ipv6`).
    fn created_nexthop(&self, wanted: NextHopWanted) -> Result<NextHopObject, Refusal> {
        let NextHopWanted { family, protocol, on_link, kind } = wanted;
        let object = |kind| Ok(NextHopObject { family, protocol, kind });
        let (device, gateway, blackhole) = match kind {
            KindWanted::Group(members) => return object(NextHopKind::Group(members)),
            KindWanted::Blackhole => (interface_index(LO), None, true),
            KindWanted::Hop { device, gateway } => (device, gateway, false),
        };
        let flags = if on_link { ON_LINK } else { 0 };
        let hop = HopWanted { gateway, device, flags, table: 0, scope: 0 };
        let (interface, gateway, scope) = match i32::from(family) {
            c::AF_INET => check_v4(self.net, hop).map(|hop| (hop.interface, hop.router(), hop.scope))?,
            _ => {
                let hop = check_v6(self.net, hop, &Destination6::NONE)?;
                (hop.interface, hop.router(), c::RT_SCOPE_LINK)
            }
        };
        match blackhole {
            true => object(NextHopKind::Blackhole { on_link }),
            false => object(NextHopKind::Hop { interface, gateway, on_link, scope }),
        }
    }

    /// Checks that the members of a group may be in it (`nh_check_attr_group_rtnl`).
    fn check_members(&self, members: &[(u32, u16)]) -> Result<(), Refusal> {
        for (id, _) in members {
            match self.net.nexthops.get(*id).map(|object| &object.kind) {
                None => return invalid("Invalid nexthop id"),
                Some(NextHopKind::Group(_)) => {
                    return invalid("Hash-threshold group can not be a nexthop within a group");
                }
                Some(NextHopKind::Blackhole { .. }) if members.len() > 1 => {
                    return invalid("Blackhole nexthop can not be used in a group with more than 1 path");
                }
                Some(_) => {}
            }
        }
        Ok(())
    }

    /// Checks that an object may be replaced by another (`replace_nexthop`).
    fn check_replacement(&self, id: u32, old: &NextHopObject, new: &NextHopObject) -> Result<(), Refusal> {
        match (old.is_group(), new.is_group()) {
            (true, false) => return invalid("Can not replace a nexthop group with a nexthop."),
            (false, true) => return invalid("Can not replace a nexthop with a nexthop group."),
            _ => {}
        }
        let groups = self.net.nexthops.groups_of(id);
        let shared =
            |group: &u32| self.net.nexthops.get(*group).is_some_and(|group| group.members().len() > 1);
        if matches!(new.kind, NextHopKind::Blackhole { .. }) && groups.iter().any(shared) {
            return invalid("Blackhole nexthop can not be a member of a group with more than one path");
        }
        // An object that IPv6 routes use must remain an IPv6 object.
        let of_v4 = |object: &NextHopObject| i32::from(object.family) == c::AF_INET;
        let has_v4 = of_v4(new)
            || new.members().iter().any(|(member, _)| self.net.nexthops.get(*member).is_some_and(of_v4));
        let used =
            || [vec![id], groups.clone()].concat().iter().any(|id| self.has_routes_by::<Ipv6Addr>(*id));
        if has_v4 && used() {
            return invalid("IPv6 routes can not use an IPv4 nexthop");
        }
        Ok(())
    }

    fn announce_routes_by<A: Announced>(&mut self, id: u32, kind: u16, to: To) {
        for entry in self.routes_by::<A>(id) {
            let message = super::routes::message(self.net, &entry, kind, to);
            self.announce(A::ROUTE_GROUP, &message);
        }
    }
}

/// Object in a request, before its check against the state of the host.
struct NextHopWanted {
    family: u8,
    protocol: u8,
    on_link: bool,
    kind: KindWanted,
}

enum KindWanted {
    Blackhole,
    Hop { device: u32, gateway: Option<IpAddr> },
    Group(Vec<(u32, u16)>),
}

/// Decodes the members of a group with their weights (`nh_check_attr_group`).
fn members_given(value: &[u8]) -> Result<Vec<(u32, u16)>, Refusal> {
    if value.is_empty() || !value.len().is_multiple_of(MEMBER) {
        return invalid("Invalid length for nexthop group attribute");
    }
    let entries = value.chunks_exact(MEMBER);
    let ids: Vec<_> = entries.clone().map(|entry| &entry[..4]).collect();
    let mut members = Vec::new();
    for (at, entry) in entries.enumerate() {
        if entry[6..8] != [0, 0] {
            return invalid("Reserved field in nexthop_grp must be 0");
        }
        let Some(weight) = u16::from_le_bytes([entry[4], entry[5]]).checked_add(1) else {
            return invalid("Invalid value for weight");
        };
        if ids[at + 1..].contains(&ids[at]) {
            return invalid("Nexthop id can not be used twice in a group");
        }
        members.push((u32::from_ne_bytes(entry[..4].try_into().expect("four bytes")), weight));
    }
    Ok(members)
}

/// Object id in a request to get or delete an object.
fn named(request: &Request<'_>, policy: &Policy) -> Result<u32, Refusal> {
    request.validate(NHMSG, policy, STRICT)?;
    if request.body[1..NHMSG].iter().any(|byte| *byte != 0) {
        return Err(refusal(Errno::EINVAL, "Invalid values in header"));
    }
    match request.number(NHMSG, ID)? {
        None => Err(refusal(Errno::EINVAL, "Nexthop id is missing")),
        Some(0) => Err(refusal(Errno::EINVAL, "Invalid nexthop id")),
        Some(id) => Ok(id),
    }
}

/// Message of type `kind` about an object.
fn message(id: u32, object: &NextHopObject, kind: u16, (sequence, flags, port): To) -> Vec<u8> {
    let (scope, on_link) = match object.kind {
        NextHopKind::Hop { on_link, scope, .. } => (scope, on_link),
        NextHopKind::Blackhole { on_link } => (c::RT_SCOPE_UNIVERSE, on_link),
        NextHopKind::Group(_) => (c::RT_SCOPE_UNIVERSE, false),
    };
    let hop_flags = if on_link { RTNH_F_ONLINK } else { 0 };
    let message = Message::new(kind, flags, sequence, port)
        .put(&[object.family, scope, object.protocol, 0])
        .put(&u32::from(hop_flags).to_ne_bytes())
        .attribute(ID, &id.to_ne_bytes());
    match &object.kind {
        NextHopKind::Group(members) => {
            let entry = |(id, weight): &(u32, u16)| {
                let [low, high] = (weight - 1).to_le_bytes();
                [id.to_ne_bytes(), [low, high, 0, 0]].concat()
            };
            message
                .attribute(GROUP_TYPE, &[0, 0])
                .attribute(GROUP, &members.iter().flat_map(entry).collect::<Vec<u8>>())
                .attribute(OP_FLAGS, &RESERVED_IS_ZERO.to_ne_bytes())
        }
        NextHopKind::Blackhole { .. } => message.attribute(BLACKHOLE, &[]),
        NextHopKind::Hop { interface, gateway, .. } => {
            let message = message.attribute(OIF, &interface_index(*interface).to_ne_bytes());
            match gateway {
                Some(ip) => message.attribute(GATEWAY, &ip_bytes(*ip)),
                None => message,
            }
        }
    }
    .finish()
}
