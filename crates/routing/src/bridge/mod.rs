//! Routing bridge: Ethernet between the client ports of many bridges, over shortest paths, without IP.
//!
//! The protocol has the role of WMRP (the Wireless Metropolitan Routing Protocol) in mesh networks, and of
//! TRILL in wired ones: proactive, below IP, with frames forwarded by the addresses of bridges. **It is a
//! protocol of Belljar's own**, designed to be small, and does not interoperate with other implementations;
//! [`packet`] defines its formats.
//!
//! * Bridges discover their neighbours by HELLO. A link is used if both sides hear each other.
//! * Each bridge floods its *link state*: its neighbours and the stations at its client ports. A new
//!   neighbour is sent the whole database.
//! * A client's frame for a known station is forwarded along the shortest path from the bridge that received
//!   it (*ingress*) to the station's bridge (*egress*), with a hop limit. All other frames are flooded: each
//!   bridge forwards a frame once, identified by ingress and sequence number.
//!
//! A client's frame is encapsulated in a header of up to [`packet::ENCAPSULATION`] bytes, behind which it
//! keeps its own Ethernet header: the links between bridges need an MTU that exceeds the clients' by 29
//! bytes. Longer frames are dropped and counted.

mod adjacency;
mod database;
mod forwarding;
pub mod packet;
#[cfg(test)]
mod tests;

use crate::Time;
use crate::contract::{
    DataPlaneEvent, DecodeError, Interface, InterfaceEvent, InterfaceId, Protocol, Received, Released, Route,
    RouteChange, RouteLog, Transmit,
};
use crate::outbox::{Outbox, earliest};
use adjacency::Neighbor;
use belljar_base::{Map, Seed, Set, Stream};
use belljar_wire::ethernet::Address;
use database::Part;
use forwarding::{Place, Window};
use packet::Frame;
use std::collections::VecDeque;
use std::time::Duration;

/// Parameters of one bridge.
#[derive(Clone, Debug)]
pub struct Config {
    /// Address of the bridge: one of its interfaces' addresses.
    pub address: Address,
    /// HELLO interval; a neighbour is lost after three intervals of silence.
    pub hello_interval: Duration,
    /// Interval between announcements of unchanged link state.
    pub refresh_interval: Duration,
    /// Lifetime of link state.
    pub lifetime: Duration,
    /// Lifetime of a silent station's entry.
    pub station_lifetime: Duration,
    /// Random seed of the jitter.
    pub seed: Seed,
}

impl Config {
    /// The default parameters for a bridge with this address.
    pub fn new(address: Address, seed: Seed) -> Config {
        let seconds = Duration::from_secs;
        Config {
            address,
            hello_interval: seconds(1),
            refresh_interval: seconds(10),
            lifetime: seconds(40),
            station_lifetime: seconds(300),
            seed,
        }
    }
}

/// Minimum interval between computations of routes.
const ROUTES_GAP: Duration = Duration::from_millis(20);

/// Event counters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Frames that could not be parsed.
    pub malformed: u64,
    /// Clients' frames forwarded for other bridges.
    pub forwarded: u64,
    /// Clients' frames that exceed the MTU with their header.
    pub oversize: u64,
    /// Clients' frames to a bridge without a route.
    pub unroutable: u64,
    /// Entries refused because their set was full.
    pub refused: u64,
}

/// A frame for a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// The client port.
    pub port: InterfaceId,
    /// The frame.
    pub frame: Vec<u8>,
}

#[derive(Debug)]
struct Port {
    at: Interface<Address>,
    hello_at: Time,
    said_hello: Time,
}

/// One bridge. The interfaces of [`Protocol`] are those to other bridges. Clients' frames are passed in by
/// [`on_client_frame`](Bridge::on_client_frame) and returned by [`poll_delivery`](Bridge::poll_delivery),
/// which is to be called, like the other `poll_...` methods, after every `on_...` method.
#[derive(Debug)]
pub struct Bridge {
    config: Config,
    dice: Stream,
    interfaces: Map<InterfaceId, Port>,
    clients: Set<InterfaceId>,
    neighbors: Map<(InterfaceId, Address), Neighbor>,
    database: Map<(Address, u8), Part>,
    sequence: u32,
    said_parts: u8,
    link_state_at: Time,
    said_link_state: Time,
    stations: Map<Address, (Place, Time)>,
    floods: Map<Address, Window>,
    flood_sequence: u32,
    outbox: Outbox<Address>,
    deliveries: VecDeque<Delivery>,
    routes: RouteLog<Address, Address>,
    /// True if the database has changed since the routes were computed.
    dirty: bool,
    /// Earliest time of the next computation of routes.
    routes_at: Time,
    expire_at: Time,
    counts: Counts,
}

impl Bridge {
    /// A bridge with these client ports, and no interfaces to other bridges yet.
    pub fn new(config: Config, clients: impl IntoIterator<Item = InterfaceId>) -> Bridge {
        let mut dice = config.seed.stream(&["bridge", &config.address.to_string()]);
        let flood_sequence = dice.next_u32();
        Bridge {
            dice,
            interfaces: Map::new(),
            clients: clients.into_iter().collect(),
            neighbors: Map::new(),
            database: Map::new(),
            sequence: 0,
            said_parts: 0,
            link_state_at: Time::ZERO,
            said_link_state: Time::ZERO,
            stations: Map::new(),
            floods: Map::new(),
            flood_sequence,
            outbox: Outbox::new(),
            deliveries: VecDeque::new(),
            routes: RouteLog::new(),
            dirty: false,
            routes_at: Time::ZERO,
            expire_at: Time::MAX,
            counts: Counts::default(),
            config,
        }
    }

    /// The next frame for a client.
    pub fn poll_delivery(&mut self) -> Option<Delivery> {
        self.deliveries.pop_front()
    }
    /// Neighbours: the local interface, the neighbour's address on it, its bridge's address, and whether it
    /// hears this bridge.
    pub fn neighbors(&self) -> impl Iterator<Item = (InterfaceId, Address, Address, bool)> + '_ {
        self.neighbors
            .iter()
            .map(|((interface, at), neighbor)| (*interface, *at, neighbor.bridge, neighbor.symmetric))
    }
    /// Routes to other bridges.
    pub fn routes(&self) -> impl Iterator<Item = &Route<Address, Address>> {
        self.routes.table().values()
    }
    /// Stations, each with its bridge; `None` for those at this bridge's ports.
    pub fn stations(&self) -> impl Iterator<Item = (Address, Option<Address>)> + '_ {
        self.stations.iter().map(|(station, (place, _))| match place {
            Place::Port(_) => (*station, None),
            Place::Bridge(bridge) => (*station, Some(*bridge)),
        })
    }
    /// Event counters.
    pub fn counts(&self) -> Counts {
        self.counts
    }
    /// Number of entries in all sets.
    pub fn footprint(&self) -> usize {
        self.neighbors.len() + self.database.len() + self.stations.len() + self.floods.len()
    }

    fn turn(&mut self, now: Time) {
        if now >= self.expire_at {
            let next = [self.expire_neighbors(now), self.expire_database(now), self.expire_stations(now)];
            self.expire_at = next.into_iter().fold(Time::MAX, Time::min);
        }
        if self.dirty && now >= self.routes_at {
            (self.dirty, self.routes_at) = (false, now + ROUTES_GAP);
            self.compute_routes();
        }
        self.say_hello(now);
        self.say_link_state(now);
    }
}

impl Protocol for Bridge {
    type Address = Address;
    type Destination = Address;

    fn on_interface(&mut self, now: Time, event: InterfaceEvent<Address>) {
        match event {
            InterfaceEvent::Up(at) => {
                self.interfaces.insert(at.id, Port { at, hello_at: now, said_hello: Time::ZERO });
                self.hurry_link_state(now);
            }
            InterfaceEvent::Down(id) => {
                self.interfaces.remove(&id);
                self.neighbors.retain(|(interface, _), _| *interface != id);
                self.adjacency_changed(now);
            }
        }
        self.turn(now);
    }

    fn on_packet(&mut self, now: Time, received: Received<'_, Address>) -> Result<(), DecodeError> {
        let Received { interface, source, payload, .. } = received;
        if !self.interfaces.contains_key(&interface) {
            return Err(DecodeError::Interface);
        }
        let own = self.interfaces.values().any(|port| port.at.address == source);
        if own || source.is_multicast() {
            return Ok(());
        }
        let frame = Frame::decode(payload).inspect_err(|_| self.counts.malformed += 1)?;
        // A neighbour sends its database as soon as it knows that this bridge hears it, possibly before its
        // next HELLO.
        let neighbor = self.neighbors.get(&(interface, source)).map(|neighbor| neighbor.symmetric);
        match frame {
            Frame::Hello(hello) => self.on_hello(now, interface, source, hello),
            Frame::LinkState(_) if neighbor.is_none() => {}
            Frame::Unicast { .. } | Frame::Flood { .. } if neighbor != Some(true) => {}
            Frame::LinkState(state) => self.on_link_state(now, state),
            Frame::Unicast { egress, hop_limit, ingress, frame } => {
                self.on_unicast(now, egress, hop_limit, ingress, frame)
            }
            Frame::Flood { ingress, sequence, hop_limit, frame } => {
                self.on_flood(now, ingress, sequence, hop_limit, frame)
            }
        }
        self.turn(now);
        Ok(())
    }

    fn on_timer(&mut self, now: Time) {
        self.turn(now);
    }

    fn on_data_plane(&mut self, now: Time, event: DataPlaneEvent<'_, Address>) {
        if let DataPlaneEvent::LinkLost { interface, neighbor } = event {
            self.lose(now, (interface, neighbor));
        }
        self.turn(now);
    }

    fn poll_transmit(&mut self) -> Option<Transmit<Address>> {
        self.outbox.pop()
    }
    fn poll_route(&mut self) -> Option<RouteChange<Address, Address>> {
        self.routes.poll()
    }
    fn poll_released(&mut self) -> Option<Released> {
        None
    }
    fn next_timer(&self) -> Option<Time> {
        let link_state = (!self.interfaces.is_empty()).then_some(self.link_state_at);
        let expiry = (self.expire_at < Time::MAX).then_some(self.expire_at);
        let routes = self.dirty.then_some(self.routes_at);
        earliest([link_state, expiry, routes, self.interfaces.values().map(|port| port.hello_at).min()])
    }
}
