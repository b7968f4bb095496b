//! Virtual routing and forwarding (VRF): interfaces whose packets are routed by a table of their own.
//!
//! A VRF is an interface; the interfaces that are its ports belong to it. Their connected routes are in its table, and the
//! addresses of the host on them are local within the VRF alone. A rule of priority 1000 leads packets of VRFs to their
//! table (`l3mdev`). A packet that the host sends to itself within a VRF passes the VRF's interface.
//!
//! Sockets that are bound to a VRF or to one of its interfaces send by its table, and receive its packets alone. Others
//! receive packets of all VRFs, as with `net.ipv4.tcp_l3mdev_accept` and `udp_l3mdev_accept` set.

use crate::endpoint::Ingress;
use crate::interface::{Attachment, DeviceKind};
use crate::routing::Routed;
use crate::v6::device_for;
use crate::{Stack, interface_index};
use belljar_net::policy::{Action, Rule};
use belljar_net::routes::{Prefix, Route};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Priority of the rule, `FIB_RULE_PREF` of `l3mdev`.
const RULE_PRIORITY: u32 = 1_000;

/// The VRF of an interface: itself, or the one of which it is a port.
#[inline]
pub fn of_interface(stack: &Stack, number: usize) -> Option<usize> {
    if !stack.interfaces.has_vrfs { None } else { find(stack, number) }
}

#[cold]
fn find(stack: &Stack, number: usize) -> Option<usize> {
    let is_vrf = |number: usize| {
        let interface = stack.interfaces.get(number);
        interface.is_some_and(|interface| interface.attachment == Attachment::Made(DeviceKind::Vrf))
    };
    if is_vrf(number) {
        return Some(number);
    }
    stack.interfaces.get(number)?.master.filter(|master| is_vrf(*master))
}

/// Ingress of packets received on an interface.
#[inline]
pub(crate) fn ingress(stack: &Stack, interface: usize) -> Ingress {
    Ingress { interface, vrf: of_interface(stack, interface) }
}

/// The table of the VRF of an interface.
pub fn table(stack: &Stack, number: usize) -> Option<u32> {
    let vrf = of_interface(stack, number)?;
    stack.devices.as_ref()?.vrfs.get(&vrf).copied()
}

/// True if an address is one of the host in the VRF `vrf`, or outside of all.
#[cold]
pub(crate) fn owns(stack: &Stack, ip: IpAddr, vrf: Option<usize>) -> bool {
    let has = |number: &usize| stack.interfaces.has_address(*number, ip);
    (0..stack.interfaces.len()).filter(has).any(|number| of_interface(stack, number) == vrf)
}

/// True if packets to `ip` received on `interface` are delivered locally: to an address of its VRF.
#[cold]
pub(crate) fn is_local_within(stack: &Stack, interface: usize, ip: IpAddr) -> bool {
    let vrf = of_interface(stack, interface);
    let of_host = matches!(ip, IpAddr::V4(v4) if v4.is_loopback() || stack.is_of_local_network(v4));
    owns(stack, ip, vrf) || vrf.is_none() && of_host
}

/// Index of the interface by which an answer to `ip` leaves, to a packet received on `interface`.
pub fn answer_device(stack: &Stack, ip: IpAddr, interface: usize) -> Option<u32> {
    device_for(ip, interface).or_else(|| of_interface(stack, interface).map(interface_index))
}

/// Sets the table of a new VRF, and adds the rules with the first one.
pub fn create(stack: &mut Stack, number: usize, table: u32) {
    super::of(stack).vrfs.insert(number, table);
    if !std::mem::replace(&mut stack.interfaces.has_vrfs, true) {
        Ipv4Addr::policy_mut(stack).add(Rule::all(RULE_PRIORITY, Action::L3mdev));
        Ipv6Addr::policy_mut(stack).add(Rule::all(RULE_PRIORITY, Action::L3mdev));
    }
}

/// Changes the VRF of an interface that is down.
pub fn enslave(stack: &mut Stack, number: usize, vrf: Option<usize>) {
    stack.interfaces[number].master = vrf;
    let table = table(stack, number);
    match table {
        Some(table) => stack.v6.vrf_tables.insert(number, table),
        None => stack.v6.vrf_tables.remove(&number),
    };
}

/// The routes of the table in which the connected routes of an interface are.
pub fn routes_by(stack: &Stack, number: usize) -> Vec<(Prefix, u32, Route)> {
    let own = table(stack, number).unwrap_or(belljar_net::policy::table::MAIN);
    let routes = stack.policy.table(&stack.routes, own);
    let all = routes.into_iter().flat_map(|routes| routes.iter());
    all.filter(|(_, _, route)| route.hops.iter().any(|hop| hop.interface == number))
        .map(|(prefix, metric, route)| (prefix, metric, route.clone()))
        .collect()
}

/// Removes a connected route of an interface.
pub fn remove_route(stack: &mut Stack, number: usize, (prefix, metric, route): (Prefix, u32, &Route)) {
    match table(stack, number) {
        Some(table) => {
            stack.policy.change(table, |routes| routes.remove_this(prefix, metric, route).is_some())
        }
        None => stack.routes.remove_this(prefix, metric, route).is_some(),
    };
}

/// Adds a connected route of an interface, unless it has it.
pub fn connect(stack: &mut Stack, number: usize, (prefix, metric, route): (Prefix, u32, Route)) {
    let add = |routes: &mut belljar_net::routes::RouteTable| {
        // Other interfaces may have routes to the network.
        if routes.all_alike(prefix, metric.into()).all(|old| *old != route) {
            routes.insert_beside(prefix, metric, route, true);
        }
    };
    match table(stack, number) {
        Some(table) => stack.policy.change(table, add),
        None => add(&mut stack.routes),
    }
}
