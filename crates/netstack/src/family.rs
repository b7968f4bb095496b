//! Code shared by IPv4 and IPv6, generic in the address type: routing tables, policy rules and route lookup.

use super::{LO, Stack, conf};
use belljar_linux_abi::{Errno, c};
use belljar_net::policy::{Action, FoundRoute, Policy, RuleSelector};
use belljar_net::routes::{Ip, NextHop, Route, RouteTable};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// An address family that a host routes.
pub trait Family: Ip {
    /// `AF_INET` or `AF_INET6`.
    const AF: i32;
    /// Metric of routes added without one.
    const METRIC: u32;
    /// Converts an address of this family; `None` for one of the other family.
    fn of(ip: IpAddr) -> Option<Self>;
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

impl Family for Ipv4Addr {
    const AF: i32 = c::AF_INET;
    const METRIC: u32 = 0;
    fn of(ip: IpAddr) -> Option<Ipv4Addr> {
        if let IpAddr::V4(ip) = ip { Some(ip) } else { None }
    }
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

impl Family for Ipv6Addr {
    const AF: i32 = c::AF_INET6;
    const METRIC: u32 = super::v6::USER_METRIC;
    fn of(ip: IpAddr) -> Option<Ipv6Addr> {
        if let IpAddr::V6(ip) = ip { Some(ip) } else { None }
    }
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

/// Route lookup key: the packet attributes that determine the route.
#[derive(Clone, Copy, Debug)]
pub struct RouteQuery<A> {
    /// Destination address.
    pub to: A,
    /// Source address, if it is already chosen.
    pub source: Option<A>,
    /// Number of the input interface; [`LO`] for the host's own packets.
    pub arrived: usize,
    /// Number of the only permitted output interface, if any.
    pub device: Option<usize>,
    /// Mark of the socket.
    pub mark: u32,
    /// Type of service.
    pub tos: u8,
    /// Protocol, ports and socket owner.
    pub sender: FlowKey,
}

/// Selector: the packet attributes other than its addresses that a policy rule matches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlowKey {
    /// The IP protocol number.
    pub protocol: u8,
    /// Source and destination port; 0 for protocols without ports.
    pub ports: (u16, u16),
    /// UID of the socket's owner; 0 for packets without a socket.
    pub uid: u32,
}

impl FlowKey {
    /// The selector of a forwarded packet; `payload` is the beginning of its IP payload, of `protocol`.
    pub fn of_forwarded(protocol: u8, payload: &[u8]) -> FlowKey {
        let ports = match (i32::from(protocol), payload) {
            (c::IPPROTO_TCP | c::IPPROTO_UDP | c::IPPROTO_UDPLITE, [a, b, x, y, ..]) => {
                (u16::from_be_bytes([*a, *b]), u16::from_be_bytes([*x, *y]))
            }
            _ => (0, 0),
        };
        FlowKey { protocol, ports, uid: 0 }
    }
}

impl<A> RouteQuery<A> {
    /// The query for a packet of this host.
    pub fn own(to: A, source: Option<A>) -> RouteQuery<A> {
        RouteQuery { to, source, arrived: LO, device: None, mark: 0, tos: 0, sender: FlowKey::default() }
    }
}

impl Stack {
    /// Looks up the best route over interfaces that are up. Fails with the action of a policy rule that
    /// rejects the packet.
    pub fn lookup<A: Family>(
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
        };
        let heeds_carrier = !self.interface_settings.is_plain();
        let usable = |hop: &NextHop<A>| {
            self.interfaces.get(hop.interface).is_some_and(|i| i.up)
                && !(heeds_carrier && self.is_passed_over::<A>(hop.interface))
                && asked.device.is_none_or(|device| device == hop.interface)
        };
        A::policy(self).lookup(A::routes(self), flow, asked.to, asked.tos, hash, usable)
    }

    /// True if next hops over an interface without a carrier are ignored (`ignore_routes_with_linkdown`).
    #[cold]
    fn is_passed_over<A: Family>(&self, interface: usize) -> bool {
        let settings = &self.interface_settings;
        let ignored = match A::AF {
            c::AF_INET6 => settings.of6(conf::v6::IGNORE_LINKDOWN, interface) != 0,
            _ => settings.either(conf::v4::IGNORE_LINKDOWN, interface),
        };
        ignored && !self.interfaces[interface].carrier
    }

    /// Removes the routes for which `keep` is false from all tables.
    pub fn retain_routes<A: Family>(&mut self, mut keep: impl FnMut(&mut Route<A>) -> bool) {
        A::routes_mut(self).retain(|_, _, route| keep(route));
        if A::policy(self).tables().next().is_some() {
            A::policy_mut(self).retain(keep);
        }
    }

    /// Removes next hops, and routes left without one, from all tables. Next-hop objects are not changed.
    pub fn drop_hops<A: Family>(&mut self, gone: impl Fn(&NextHop<A>) -> bool) {
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
}

/// The errno for a packet that a policy rule rejects.
pub fn refused(action: Action) -> Errno {
    match action {
        Action::Blackhole | Action::Other(_) => Errno::EINVAL,
        Action::Prohibit => Errno::EACCES,
        _ => Errno::ENETUNREACH,
    }
}
