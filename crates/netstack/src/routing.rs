//! Routing tables, policy rules and route lookup of a host, generic in the address family.

use crate::devices::vrf;
use crate::family::{Family, RouteQuery};
use crate::{Stack, conf};
use belljar_linux_abi::{Errno, c};
use belljar_net::policy::{Action, FoundRoute, Policy, RuleSelector};
use belljar_net::routes::{NextHop, Route, RouteKind, RouteTable};
use std::net::{Ipv4Addr, Ipv6Addr};

/// An address family that a host routes.
pub trait Routed: Family {
    /// The main routing table.
    fn routes(net: &Stack) -> &RouteTable<Self>;
    /// The main routing table, mutable.
    fn routes_mut(net: &mut Stack) -> &mut RouteTable<Self>;
    /// The policy rules and the other routing tables.
    fn policy(net: &Stack) -> &Policy<Self>;
    /// The policy rules and the other routing tables, mutable.
    fn policy_mut(net: &mut Stack) -> &mut Policy<Self>;
    /// Validates a next hop: its gateway must be on a link of this host (`fib_check_nh` and
    /// `ip6_route_check_nh` of Linux).
    fn hop(net: &Stack, gateway: Option<Self>, device: Option<usize>) -> Result<NextHop<Self>, Errno>;
}

impl Routed for Ipv4Addr {
    fn routes(net: &Stack) -> &RouteTable {
        &net.routes
    }
    fn routes_mut(net: &mut Stack) -> &mut RouteTable {
        &mut net.routes
    }
    fn policy(net: &Stack) -> &Policy {
        &net.policy
    }
    fn policy_mut(net: &mut Stack) -> &mut Policy {
        &mut net.policy
    }
    fn hop(net: &Stack, gateway: Option<Ipv4Addr>, device: Option<usize>) -> Result<NextHop, Errno> {
        net.hop(gateway, device)
    }
}

impl Routed for Ipv6Addr {
    fn routes(net: &Stack) -> &RouteTable<Ipv6Addr> {
        &net.v6.routes
    }
    fn routes_mut(net: &mut Stack) -> &mut RouteTable<Ipv6Addr> {
        &mut net.v6.routes
    }
    fn policy(net: &Stack) -> &Policy<Ipv6Addr> {
        &net.v6.policy
    }
    fn policy_mut(net: &mut Stack) -> &mut Policy<Ipv6Addr> {
        &mut net.v6.policy
    }
    fn hop(
        net: &Stack,
        gateway: Option<Ipv6Addr>,
        device: Option<usize>,
    ) -> Result<NextHop<Ipv6Addr>, Errno> {
        net.v6.hop(&net.interfaces, gateway, device)
    }
}

/// Handles next hops whose interface went down or lost its addresses: routes without another next hop are removed, others
/// keep it, unused (`fib_sync_down_dev`, `fib6_ifdown`).
pub fn rest_hops<A: Routed>(net: &mut Stack, down: impl Fn(&NextHop<A>) -> bool) {
    net.retain_routes(|route: &mut Route<A>| {
        if route.object.is_some() || !route.hops.iter().any(&down) {
            return true;
        }
        for hop in &mut route.hops {
            hop.dead |= down(hop);
        }
        route.hops.iter().any(|hop| !hop.dead)
    });
}

/// Lets routes use next hops over an interface again that is up (`fib_sync_up`, `rt6_sync_up`).
pub fn wake_hops<A: Routed>(net: &mut Stack, interface: usize) {
    net.retain_routes(|route: &mut Route<A>| {
        route.hops.iter_mut().filter(|hop| hop.interface == interface).for_each(|hop| hop.dead = false);
        true
    });
}

impl Stack {
    /// Looks up the best route over interfaces that are up. Fails with the action of a policy rule that
    /// rejects the packet.
    pub fn lookup<A: Routed>(
        &self,
        asked: &RouteQuery<A>,
        hash: impl Fn() -> u64,
    ) -> Result<Option<FoundRoute<'_, A>>, Action> {
        let name = |number: usize| self.interfaces.get(number).map_or("", |interface| &*interface.name);
        let flow = || RuleSelector {
            destination: asked.to,
            source: asked.source,
            arrived: name(asked.arrived),
            device: asked.device.map(name),
            mark: asked.mark,
            tos: asked.tos,
            protocol: asked.sender.protocol,
            ports: asked.sender.ports,
            uid: asked.sender.uid,
            l3mdev: vrf::table(self, asked.device.unwrap_or(asked.arrived)),
        };
        let heeds_carrier = !self.interface_settings.is_plain();
        let usable = |hop: &NextHop<A>| {
            self.interfaces.get(hop.interface).is_some_and(|i| i.up)
                && !(heeds_carrier && self.is_passed_over::<A>(hop.interface))
                && asked.device.is_none_or(|device| {
                    device == hop.interface || vrf::of_interface(self, device) == Some(device)
                })
        };
        A::policy(self).lookup(A::routes(self), flow, asked.to, asked.tos, hash, usable)
    }

    /// True if next hops over an interface without a carrier are ignored (`ignore_routes_with_linkdown`).
    #[cold]
    fn is_passed_over<A: Routed>(&self, interface: usize) -> bool {
        let settings = &self.interface_settings;
        let ignored = match A::AF {
            c::AF_INET6 => settings.of6(conf::v6::IGNORE_LINKDOWN, interface) != 0,
            _ => settings.either(conf::v4::IGNORE_LINKDOWN, interface),
        };
        ignored && !self.interfaces[interface].carrier
    }

    /// Removes the routes for which `keep` is false from all tables.
    pub fn retain_routes<A: Routed>(&mut self, mut keep: impl FnMut(&mut Route<A>) -> bool) {
        A::routes_mut(self).retain(|_, _, route| keep(route));
        if A::policy(self).tables().next().is_some() {
            A::policy_mut(self).retain(keep);
        }
    }

    /// Removes next hops, and routes left without one, from all tables. Next-hop objects are not changed.
    pub fn drop_hops<A: Routed>(&mut self, gone: impl Fn(&NextHop<A>) -> bool) {
        self.retain_routes(|route: &mut Route<A>| {
            if route.object.is_some() {
                return true;
            }
            let had = !route.hops.is_empty();
            route.hops.retain(|hop| !gone(hop));
            !had || !route.hops.is_empty()
        });
    }

    /// True if both families use their main table alone.
    pub fn is_plainly_routed(&self) -> bool {
        self.policy.is_plain() && self.v6.policy.is_plain()
    }

    /// Updates the routes that reference changed objects, and removes those whose object was deleted.
    pub fn apply_nexthops(&mut self) {
        self.apply_nexthops_of::<Ipv4Addr>();
        self.apply_nexthops_of::<Ipv6Addr>();
    }

    fn apply_nexthops_of<A: Routed>(&mut self) {
        let objects = std::mem::take(&mut self.nexthops);
        self.retain_routes::<A>(|route| {
            if let Some(id) = route.object {
                let Some((kind, hops)) = objects.expand::<A>(id) else { return false };
                // A route that refuses packets by itself has the next hops of its object, too.
                let refuses = route.kind != RouteKind::Unicast && !route.hops.is_empty();
                if !refuses || kind == RouteKind::Blackhole {
                    route.kind = kind;
                }
                route.hops = hops;
            }
            true
        });
        self.nexthops = objects;
    }

    /// Deletes the next-hop objects of an interface that went down or lost its carrier.
    pub fn flush_nexthops(&mut self, number: usize) {
        if self.nexthops.remove_of(number) {
            self.apply_nexthops();
        }
    }

    /// Logs the changes of the main routing tables. The caller invokes it at the time of the change, after every
    /// operation that may have changed routes.
    pub fn log_routes(&mut self) {
        if self.route_log.is_on() {
            let (now, interfaces) = (self.clock.now(), &self.interfaces);
            self.route_log.routes(now, interfaces, &self.routes.take_changes());
            self.route_log.routes(now, interfaces, &self.v6.routes.take_changes());
        }
    }
}
