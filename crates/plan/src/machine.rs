//! Whole machines: the network set-up of QEMU and of the Linux in it.

use crate::{PlannedRoute, ProcessPlan, RoutingState, mac};
use belljar_base::HostId;
use belljar_config::{Experiment, Host};
use belljar_net::routes::Ip;
use belljar_qemu::{Cable, Route, Setup};
use std::net::IpAddr;

/// The set-up of a host's whole machine, derived from the experiment and from the routes at the start; `None`
/// for other hosts.
pub fn machine<'a>(experiment: &'a Experiment, id: HostId, first: &RoutingState) -> Option<Setup<'a>> {
    let host = &experiment.hosts[id.index()];
    let machine = host.machine.as_ref()?;
    let v4 = first.routes[id.index()].iter().map(|planned| route(host, planned));
    let v6 = first.routes6[id.index()].iter().map(|planned| route(host, planned));
    Some(Setup {
        host,
        machine,
        start_date: experiment.belljar.start_date,
        cables: cables(experiment, host),
        routes: v4.chain(v6).flatten().collect(),
    })
}

/// Names and addresses for the hosts file of a machine's Linux.
pub fn machine_names(experiment: &Experiment) -> Vec<(String, IpAddr)> {
    let v4 = experiment.names().map(|(name, address)| (name.to_owned(), IpAddr::V4(address)));
    let v6 = experiment.names6().map(|(name, address)| (name.to_owned(), IpAddr::V6(address)));
    v4.chain(v6).collect()
}

fn cables(experiment: &Experiment, host: &Host) -> Vec<Cable> {
    let cable = |interface: &belljar_config::topology::Interface| Cable {
        name: interface.name.clone(),
        mac: mac(experiment, &host.name, interface),
        mtu: experiment.topology.links[interface.link].mtu,
        addresses: (interface.addresses.iter().map(|own| (IpAddr::V4(own.ip), own.len)))
            .chain(interface.addresses6.iter().map(|own| (IpAddr::V6(own.ip), own.len)))
            .collect(),
    };
    host.interfaces.iter().map(cable).collect()
}

/// A route with next hops; `None` for a route without any, which discards packets.
fn route<A: Ip>(host: &Host, (prefix, metric, route): &PlannedRoute<A>) -> Option<Route> {
    let hop = |hop: &belljar_net::routes::NextHop<A>| {
        let router = hop.gateway.map(|gateway| gateway.to_string());
        let router = router.or_else(|| hop.gateway6.map(|gateway| gateway.to_string()));
        Some((router, host.interfaces.get(hop.interface)?.name.clone()))
    };
    let hops: Vec<_> = route.hops.iter().filter_map(hop).collect();
    (!hops.is_empty()).then(|| Route { to: prefix.to_string(), hops, metric: *metric })
}

/// QEMU as the process of a machine's host.
pub fn machine_process(setup: &Setup<'_>) -> ProcessPlan {
    let mut plan = ProcessPlan::new(&setup.host.processes[0]);
    plan.args.extend(setup.arguments());
    let own = setup.environment().map(|(name, value)| (name.to_owned(), value));
    plan.environment.extend(own);
    plan.environment.sort();
    plan
}
