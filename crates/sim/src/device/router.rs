//! The router.

use super::Device;
use crate::fabric::Fabric;
use crate::live::{ROUTE_COLUMNS, Rows, Table, add_routes};
use belljar_base::{HostId, Seed, SimTime};
use belljar_config::Experiment;
use belljar_config::topology::{self, Interface};
use belljar_net::router::{Router, RouterInterface};
use belljar_net::switch::EgressFrame;
use belljar_net::{Counters, Packet};
use belljar_plan::{LinkChange, link_nic};
use belljar_results::{RouterStatistics, Statistics};
use belljar_wire::ethernet::Address;

/// Builds the router that these settings describe, with the routes that it has at the start.
pub fn new(
    experiment: &Experiment,
    id: HostId,
    device: &topology::Device,
    settings: &topology::Router,
    fabric: &Fabric,
) -> Box<dyn Device> {
    let seed = Seed(experiment.general.seed);
    let interface = |i: &Interface| RouterInterface {
        mac: Address(belljar_plan::mac(experiment, &device.name, i)),
        mtu: experiment.topology.links[i.link].mtu,
        addresses: i.addresses.clone(),
        addresses6: i.addresses6.clone(),
        advertise: i.advertise,
        nic: link_nic(experiment, i),
    };
    let mut stream = seed.stream(&["router", &device.name]);
    let mut router = Router::new(device.interfaces.iter().map(interface).collect(), &mut stream);
    router.clamp_mss(settings.clamp_mss);
    if experiment.belljar.ipv6 {
        router.start_v6(&mut seed.stream(&["router", &device.name, "ipv6"]));
    }
    for (prefix, metric, route) in &fabric.first().routes[id.index()] {
        router.routes_mut().insert(*prefix, *metric, route.clone());
    }
    for (prefix, metric, route) in &fabric.first().routes6[id.index()] {
        router.routes6_mut().insert(*prefix, *metric, route.clone());
    }
    Box::new(router)
}

impl Device for Router {
    fn receive(&mut self, now: SimTime, port: usize, frame: Packet) {
        self.receive(now, port, frame);
    }
    fn on_timeout(&mut self, now: SimTime) {
        self.on_timeout(now);
    }
    fn change(&mut self, now: SimTime, change: LinkChange) {
        match change {
            LinkChange::Carrier(port, on) => self.set_carrier(now, port, on),
            LinkChange::Nic(port, change) => self.change_port(now, port, &change),
            LinkChange::Routes(routes) => self.routes_mut().replace_computed(routes),
            LinkChange::Routes6(routes) => self.routes6_mut().replace_computed(routes),
            LinkChange::Blocked(_) => {}
        }
    }
    fn poll(&mut self, now: SimTime) -> Option<EgressFrame> {
        self.poll(now)
    }
    fn next_event(&self) -> Option<SimTime> {
        self.next_event()
    }
    fn counters(&self, port: usize) -> Counters {
        *self.port_counters(port)
    }
    fn queue_len(&self, port: usize) -> usize {
        self.queue_len(port)
    }
    fn tables(&self, _now: SimTime) -> Vec<Table> {
        let mut rows = Rows::new("routes", ROUTE_COLUMNS);
        add_routes(&mut rows, self.routes(), |port| format!("port {port}"));
        add_routes(&mut rows, self.routes6(), |port| format!("port {port}"));
        rows.finish().into_iter().collect()
    }
    fn add_statistics(&self, name: &str, statistics: &mut Statistics) {
        let counters = self.counters();
        let router = RouterStatistics {
            forwarded: counters.forwarded,
            expired: counters.expired,
            no_route: counters.no_route,
            unanswered: counters.unanswered,
            malformed: counters.malformed,
        };
        statistics.routers.insert(name.to_owned(), router);
    }
}
