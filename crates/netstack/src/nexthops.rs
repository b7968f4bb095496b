//! Next-hop objects (`ip nexthop`, `net/ipv4/nexthop.c` of Linux): next hops, and groups of next hops, that
//! routes reference by number, so that one change affects all routes that use them.
//!
//! A route stores the expansion of its object ([`belljar_net::routes::Route::object`]), so that packets need
//! no lookup. A caller that changes objects then calls [`Stack::apply_nexthops`](crate::Stack::apply_nexthops).

use crate::family::Family;
use belljar_base::Map;
use belljar_linux_abi::c;
use belljar_net::routes::{NextHop, RouteKind};
use std::net::IpAddr;

/// A next-hop object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NextHopObject {
    /// `AF_INET` or `AF_INET6`; `AF_UNSPEC` for a group.
    pub family: u8,
    /// `RTPROT_*`: the originator of the object.
    pub protocol: u8,
    /// The kind of the object.
    pub kind: NextHopKind,
}

/// Kind of a next-hop object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NextHopKind {
    /// Packets are silently discarded.
    Blackhole {
        /// `RTNH_F_ONLINK` of the request, which is only reported.
        on_link: bool,
    },
    /// Packets go to a gateway or, without one, directly to hosts of the link.
    Hop {
        /// The number of the output interface.
        interface: usize,
        /// The gateway.
        gateway: Option<IpAddr>,
        /// True if the gateway is on-link regardless of the interface's addresses (`onlink`).
        on_link: bool,
        /// `RT_SCOPE_*`: scope of the route to the gateway when the object was created.
        scope: u8,
    },
    /// Each flow uses one of several objects, given with their weights.
    Group(Vec<(u32, u16)>),
}

impl NextHopObject {
    /// The members of a group with their weights; empty for other objects.
    pub fn members(&self) -> &[(u32, u16)] {
        match &self.kind {
            NextHopKind::Group(members) => members,
            _ => &[],
        }
    }
    /// True for a group.
    pub fn is_group(&self) -> bool {
        matches!(self.kind, NextHopKind::Group(_))
    }
}

/// Maximum number of next-hop entries of a group. Greater weights are scaled down in proportion.
const MOST_ENTRIES: u64 = 1_024;

/// The next-hop objects of a host.
#[derive(Debug, Default)]
pub struct NextHops {
    objects: Map<u32, NextHopObject>,
    /// Groups in the order of their last change.
    groups: Vec<u32>,
    last: u32,
}

impl NextHops {
    /// The object with a number.
    pub fn get(&self, id: u32) -> Option<&NextHopObject> {
        self.objects.get(&id)
    }
    /// All objects, in the order of their numbers.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &NextHopObject)> {
        self.objects.iter().map(|(id, object)| (*id, object))
    }
    /// Allocates the next unused number.
    pub fn unused(&mut self) -> u32 {
        loop {
            self.last = self.last.wrapping_add(1).max(1);
            if !self.objects.contains_key(&self.last) {
                return self.last;
            }
        }
    }
    /// Inserts an object, or replaces the one with the same number.
    pub fn insert(&mut self, id: u32, object: NextHopObject) {
        self.groups.retain(|group| *group != id);
        if object.is_group() {
            self.groups.push(id);
        }
        self.objects.insert(id, object);
    }
    /// The groups of which an object is a member, the one changed last first.
    pub fn groups_of(&self, id: u32) -> Vec<u32> {
        let has = |group: &&u32| {
            self.get(**group).is_some_and(|group| group.members().iter().any(|(member, _)| *member == id))
        };
        self.groups.iter().rev().filter(has).copied().collect()
    }
    /// Removes an object, also from its groups. Returns the previous state of each of these groups, and true
    /// if the group still exists.
    pub fn remove(&mut self, id: u32) -> Vec<(u32, NextHopObject, bool)> {
        let mut changed = Vec::new();
        for group in self.groups_of(id) {
            let Some(object) = self.objects.get(&group).cloned() else { continue };
            let mut members = object.members().to_vec();
            members.retain(|(member, _)| *member != id);
            let left = !members.is_empty();
            match left {
                true => {
                    self.insert(group, NextHopObject { kind: NextHopKind::Group(members), ..object.clone() });
                }
                false => self.forget(group),
            }
            changed.push((group, object, left));
        }
        self.forget(id);
        changed
    }
    /// Removes the objects of an interface. True if there were any.
    pub fn remove_of(&mut self, number: usize) -> bool {
        let leaves = |object: &NextHopObject| matches!(object.kind, NextHopKind::Hop { interface, .. } if interface == number);
        let gone: Vec<u32> = self.iter().filter(|(_, object)| leaves(object)).map(|(id, _)| id).collect();
        for id in &gone {
            self.remove(*id);
        }
        !gone.is_empty()
    }
    fn forget(&mut self, id: u32) {
        self.objects.remove(&id);
        self.groups.retain(|group| *group != id);
    }

    /// The route that an object expands to: its kind and its next hops, with a hop of weight n repeated n
    /// times (weights whose sum exceeds 1,024 are scaled down). `None` if the object does not exist or does
    /// not suit routes of the family.
    pub fn expand<A: Family>(&self, id: u32) -> Option<(RouteKind, Vec<NextHop<A>>)> {
        let object = self.get(id)?;
        match &object.kind {
            NextHopKind::Blackhole { .. } if i32::from(object.family) == A::AF || A::AF == c::AF_INET => {
                Some((RouteKind::Blackhole, Vec::new()))
            }
            NextHopKind::Blackhole { .. } => None,
            NextHopKind::Hop { interface, gateway, on_link, scope } => {
                let (gateway, gateway6) = match gateway {
                    Some(ip) if A::of(*ip).is_some() => (A::of(*ip), None),
                    Some(IpAddr::V6(ip)) => (None, Some(*ip)),
                    Some(IpAddr::V4(_)) => return None,
                    None if A::AF == c::AF_INET6 && i32::from(object.family) != A::AF => return None,
                    None => (None, None),
                };
                let (on_link, scope) = (*on_link, *scope);
                let hop = NextHop {
                    interface: *interface,
                    gateway,
                    gateway6,
                    on_link,
                    entry: 0,
                    scope,
                    dead: false,
                };
                Some((RouteKind::Unicast, vec![hop]))
            }
            NextHopKind::Group(members) => {
                let all: u64 = members.iter().map(|(_, weight)| u64::from(*weight)).sum();
                let entries = |weight: u16| match u64::from(weight) {
                    weight if all > MOST_ENTRIES => (weight * MOST_ENTRIES / all).max(1) as usize,
                    weight => weight as usize,
                };
                let mut hops = Vec::new();
                for (member, weight) in members {
                    match self.expand::<A>(*member)? {
                        (RouteKind::Unicast, one) => {
                            hops.extend(one.into_iter().map(|hop| (hop, entries(*weight))));
                        }
                        // A blackhole is the only member of its group.
                        blackhole => return Some(blackhole),
                    }
                }
                Some((RouteKind::Unicast, NextHop::repeated(hops)))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{Ipv4Addr, Ipv6Addr};

    fn hop(last: u8) -> NextHopObject {
        let gateway = Some(IpAddr::V4(Ipv4Addr::new(10, 0, 0, last)));
        NextHopObject {
            family: c::AF_INET as u8,
            protocol: 4,
            kind: NextHopKind::Hop { interface: 1, gateway, on_link: false, scope: 253 },
        }
    }

    #[test]
    fn groups_shrink_and_go_with_their_members() {
        let mut all = NextHops::default();
        all.insert(1, hop(1));
        all.insert(2, hop(2));
        let group = |members: &[(u32, u16)]| NextHopObject {
            family: 0,
            protocol: 4,
            kind: NextHopKind::Group(members.to_vec()),
        };
        all.insert(10, group(&[(1, 1), (2, 3)]));
        all.insert(11, group(&[(2, 1)]));
        assert_eq!(all.unused(), 3);
        let (kind, hops) = all.expand::<Ipv4Addr>(10).unwrap();
        assert_eq!(
            (kind, hops.len(), hops[0] == hops[1], hops[1] == hops[3]),
            (RouteKind::Unicast, 4, false, true)
        );
        assert!(all.expand::<Ipv6Addr>(10).is_none());
        assert_eq!(all.groups_of(2), [11, 10]);
        let changed = all.remove(2);
        assert_eq!(
            changed.iter().map(|(id, _, left)| (*id, *left)).collect::<Vec<_>>(),
            [(11, false), (10, true)]
        );
        assert_eq!(all.iter().map(|(id, _)| id).collect::<Vec<_>>(), [1, 10]);
        assert_eq!(all.get(10).unwrap().members(), [(1, 1)]);
    }
}
