//! Router: a TCP/IP stack that forwards packets, like a Linux host with `net.ipv4.ip_forward`. Its interfaces
//! are the ends of links. It runs no programs; [`advertise`] sends its router advertisements.

mod advertise;
#[cfg(test)]
mod tests;

use super::{Device, DeviceAccount};
use crate::accounts;
use crate::fabric::Fabric;
use crate::host_config::link_of_node;
use crate::live::{ROUTE_COLUMNS, Rows, Table, add_routes};
use advertise::Advertiser;
use belljar_base::{HostId, SimTime};
use belljar_config::Experiment;
use belljar_config::topology;
use belljar_net::neighbour::Neighbours;
use belljar_net::routes::Ip;
use belljar_net::switch::EgressFrame;
use belljar_net::{Counters, Packet};
use belljar_netstack::clock::{Clock, CpuModel};
use belljar_netstack::sysctl::Sysctl;
use belljar_netstack::{Departure, Effect, Stack, StackConfig};
use belljar_plan::{LinkChange, PlannedRoute};
use belljar_results::{RouterStatistics, Statistics};
use std::net::{Ipv4Addr, Ipv6Addr};

/// Interface number of the first port in the stack, after `lo`.
const FIRST_INTERFACE: usize = 1;

/// Router device.
struct Router {
    stack: Stack,
    advertiser: Option<Advertiser>,
    /// Frames in transmission, the next one to leave last.
    leaving: Vec<Departure>,
    /// Buffer for effects of the stack, which are discarded: a router runs no programs.
    effects: Vec<Effect>,
}

/// Settings of a router.
struct RouterConfig {
    stack: StackConfig,
    /// Ports on which the router sends router advertisements.
    advertise: Vec<usize>,
    /// Start of the experiment in seconds since 1970.
    epoch_secs: u64,
}

/// Builds the router described by `settings`, with its initial routes.
pub fn new(
    experiment: &Experiment,
    id: HostId,
    device: &topology::Device,
    settings: &topology::Router,
    fabric: &Fabric,
) -> Box<dyn Device> {
    let first = fabric.first();
    let links = device.interfaces.iter().map(|interface| link_of_node(experiment, &device.name, interface));
    let advertising = device.interfaces.iter().enumerate().filter(|(_, interface)| interface.advertise);
    let stack = StackConfig {
        address: device
            .interfaces
            .iter()
            .find_map(|interface| interface.addresses.first())
            .map_or(Ipv4Addr::UNSPECIFIED, |own| own.ip),
        ipv6: experiment.belljar.ipv6,
        links: links.collect(),
        bootstrap_end: experiment.general.bootstrap_end_time,
        clamp_mss: settings.clamp_mss,
        ..StackConfig::new(id, &device.name, experiment.seed())
    };
    let mut router = Router::new(RouterConfig {
        stack,
        advertise: advertising.map(|(port, _)| port).collect(),
        epoch_secs: experiment.belljar.start_date,
    });
    router.set_routes(&first.routes[id.index()]);
    router.set_routes6(&first.routes6[id.index()]);
    Box::new(router)
}

/// Converts port numbers of a route to interface numbers of the stack.
fn numbered<A: Ip>(planned: &PlannedRoute<A>) -> PlannedRoute<A> {
    let mut planned = planned.clone();
    planned.2.hops.iter_mut().for_each(|hop| hop.interface += FIRST_INTERFACE);
    planned
}

impl Router {
    fn new(config: RouterConfig) -> Router {
        let RouterConfig { stack: mut config, advertise, epoch_secs } = config;
        let (seed, name) = (config.seed, config.name.clone());
        let (mut stream, mut stream6) =
            (seed.stream(&["router", &name]), seed.stream(&["router", &name, "ipv6"]));
        config.forwarding = true;
        // Flows of one pair of hosts spread over next hops of equal cost.
        config.sysctls.push((Sysctl::FibMultipathHashPolicy, "1".to_owned()));
        let mut stack = Stack::new(config, Clock::new(epoch_secs, CpuModel::default()));
        stack.neighbours = Neighbours::new(&mut stream);
        stack.flow_key = stream.next_u64();
        let mut advertiser = None;
        if stack.v6.on {
            stack.v6.neighbours = Neighbours::new(&mut stream6);
            if !advertise.is_empty() {
                advertiser = Some(Advertiser::new(&mut stack, &advertise, stream6));
            }
        }
        Router { stack, advertiser, leaving: Vec::new(), effects: Vec::new() }
    }

    /// Replaces the routes computed by the experiment. Unlike the stack of a host, which may restart, this
    /// one keeps no second copy.
    fn set_routes(&mut self, routes: &[PlannedRoute]) {
        self.stack.routes.replace_computed(routes.iter().map(numbered));
    }
    fn set_routes6(&mut self, routes: &[PlannedRoute<Ipv6Addr>]) {
        self.stack.v6.routes.replace_computed(routes.iter().map(numbered));
    }

    /// Handles received solicitations and discards the effects of the stack.
    fn settle(&mut self) {
        if let Some(advertiser) = &mut self.advertiser {
            advertiser.hear(&mut self.stack);
        }
        if self.stack.has_effects() {
            self.stack.take_effects(&mut self.effects);
            self.effects.clear();
        }
    }
}

impl Device for Router {
    fn receive(&mut self, now: SimTime, port: usize, frame: Packet) {
        self.stack.clock.advance(now);
        self.stack.frame_arrived(port, frame);
        self.settle();
    }
    fn on_timeout(&mut self, now: SimTime) {
        self.stack.pass_until(now);
        if let Some(advertiser) = &mut self.advertiser {
            advertiser.announce(&mut self.stack);
        }
        self.settle();
    }
    fn change(&mut self, now: SimTime, change: LinkChange) {
        self.stack.clock.advance(now);
        match change {
            LinkChange::Carrier(port, on) => {
                self.stack.set_carrier(port, on);
                self.stack.flush_network();
            }
            LinkChange::Nic(port, change) => self.stack.change_nic(port, &change),
            LinkChange::Routes(routes) => self.set_routes(&routes),
            LinkChange::Routes6(routes) => self.set_routes6(&routes),
            LinkChange::Blocked(_) => {}
        }
        self.settle();
    }
    fn poll(&mut self, now: SimTime) -> Option<EgressFrame> {
        if self.leaving.is_empty() && !self.stack.departures.is_empty() {
            self.stack.take_departures(&mut self.leaving);
            self.leaving.reverse();
        }
        let Departure { at: departs, link, packet, .. } = self.leaving.pop()?;
        let port = link.expect("a router is at no graph");
        Some(EgressFrame { port, at: now, departs, packet })
    }
    fn next_event(&self) -> Option<SimTime> {
        let of_stack = self.stack.next_event();
        match self.advertiser.as_ref().and_then(Advertiser::next_event) {
            Some(announcement) => Some(of_stack.map_or(announcement, |at| at.min(announcement))),
            None => of_stack,
        }
    }
    fn counters(&self, port: usize) -> Counters {
        *self.stack.links[port].nic.counters()
    }
    fn queue_len(&self, port: usize) -> usize {
        self.stack.links[port].nic.egress_queue_len()
    }
    fn packet_accounts(&self) -> Vec<DeviceAccount> {
        let links = self.stack.links.iter().enumerate();
        let interfaces = links.map(|(port, link)| DeviceAccount::interface(port, &link.nic));
        interfaces
            .chain([DeviceAccount::inside(None, accounts::stacks(std::iter::once(&self.stack)))])
            .collect()
    }
    fn tables(&self, _now: SimTime) -> Vec<Table> {
        let mut rows = Rows::new("routes", ROUTE_COLUMNS);
        let port = |interface: usize| format!("port {}", interface - FIRST_INTERFACE);
        add_routes(&mut rows, &self.stack.routes, port);
        add_routes(&mut rows, &self.stack.v6.routes, port);
        rows.finish().into_iter().collect()
    }
    fn add_statistics(&self, name: &str, statistics: &mut Statistics) {
        let counters = &self.stack.counters;
        let router = RouterStatistics {
            forwarded: counters.ip.iter().map(|version| version.forwarded).sum(),
            expired: counters.forwarding.expired,
            no_route: counters.forwarding.no_route,
            unanswered: counters.forwarding.unanswered,
            malformed: counters.malformed,
        };
        statistics.routers.insert(name.to_owned(), router);
    }
}
