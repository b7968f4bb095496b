//! Nodes, the links between them, and the packets in transit.

use super::Medium;
use crate::{
    Interface, InterfaceEvent, InterfaceId, Protocol, Received, Released, Route, RouteChange, Time, Transmit,
};
use belljar_base::{Map, Seed, Stream};
use std::hash::Hasher;
use std::time::Duration;

/// An interface: the node's index and the interface's number.
pub(crate) type End = (usize, u32);

pub(crate) struct Node<P: Protocol> {
    pub protocol: P,
    pub addresses: Map<InterfaceId, P::Address>,
    pub table: Map<P::Destination, Route<P::Destination, P::Address>>,
    pub released: Vec<Released>,
}

struct Flight<A> {
    to: End,
    source: A,
    ttl: u8,
    payload: Vec<u8>,
}

pub(crate) struct Network<P: Protocol> {
    pub now: Time,
    pub nodes: Vec<Node<P>>,
    links: Map<(End, End), Medium>,
    flights: Map<(Time, u64), Flight<P::Address>>,
    sequence: u64,
    dice: Stream,
    /// Number of packets sent so far, and a digest of all packets and route changes.
    pub sent: u64,
    digest: std::hash::DefaultHasher,
}

impl<P: Protocol> Network<P> {
    pub fn new(seed: u64) -> Network<P> {
        Network {
            now: Time::ZERO,
            nodes: Vec::new(),
            links: Map::new(),
            flights: Map::new(),
            sequence: 0,
            dice: Seed(seed).stream(&["medium"]),
            sent: 0,
            digest: std::hash::DefaultHasher::new(),
        }
    }

    /// Adds a node whose interfaces 1, 2, ... have these addresses. Returns its index.
    pub fn add(&mut self, protocol: P, addresses: &[P::Address]) -> usize {
        let index = self.nodes.len();
        let numbered = addresses.iter().zip(1..).map(|(address, id)| (InterfaceId(id), *address)).collect();
        self.nodes.push(Node { protocol, addresses: numbered, table: Map::new(), released: Vec::new() });
        for (id, address) in addresses.iter().zip(1..).map(|(address, id)| (InterfaceId(id), *address)) {
            let interface = Interface { id, address, mtu: 1500 };
            self.nodes[index].protocol.on_interface(self.now, InterfaceEvent::Up(interface));
        }
        self.drain(index);
        index
    }

    /// Connects two interfaces in both directions.
    pub fn join(&mut self, a: End, b: End, medium: Medium) {
        self.links.insert((a, b), medium);
        self.links.insert((b, a), medium);
    }
    /// Connects two interfaces in one direction.
    pub fn join_one_way(&mut self, from: End, to: End, medium: Medium) {
        self.links.insert((from, to), medium);
    }
    /// Disconnects two interfaces.
    pub fn cut(&mut self, a: End, b: End) {
        self.links.remove(&(a, b));
        self.links.remove(&(b, a));
    }
    /// Connects exactly the nodes in range of each other, by their interface 1.
    pub fn place(&mut self, positions: &[(f64, f64)], range: f64) {
        self.links.clear();
        for (a, p) in positions.iter().enumerate() {
            for (b, q) in positions.iter().enumerate().skip(a + 1) {
                if (p.0 - q.0).hypot(p.1 - q.1) <= range {
                    self.join((a, 1), (b, 1), Medium::GOOD);
                }
            }
        }
    }
    pub fn is_joined(&self, from: End, to: End) -> bool {
        self.links.contains_key(&(from, to))
    }
    /// The interface with this address that is connected to `from`.
    pub fn neighbor(&self, from: End, address: P::Address) -> Option<End> {
        let near = self.links.range((from, (0, 0))..=(from, (usize::MAX, u32::MAX)));
        near.map(|((_, to), _)| *to)
            .find(|to| self.nodes[to.0].addresses.get(&InterfaceId(to.1)) == Some(&address))
    }

    /// Calls a node, and processes its output.
    pub fn call<R>(&mut self, node: usize, call: impl FnOnce(&mut P, Time) -> R) -> R {
        let result = call(&mut self.nodes[node].protocol, self.now);
        self.drain(node);
        result
    }

    fn drain(&mut self, node: usize) {
        while let Some(packet) = self.nodes[node].protocol.poll_transmit() {
            self.transmit(node, packet);
        }
        while let Some(change) = self.nodes[node].protocol.poll_route() {
            self.digest.write(format!("{} {node} {change:?}", self.now.as_nanos()).as_bytes());
            let table = &mut self.nodes[node].table;
            match change {
                RouteChange::Set(route) => table.insert(route.destination, route),
                RouteChange::Remove(destination) => table.remove(&destination),
            };
        }
        while let Some(released) = self.nodes[node].protocol.poll_released() {
            self.nodes[node].released.push(released);
        }
    }

    fn transmit(&mut self, node: usize, packet: Transmit<P::Address>) {
        self.sent += 1;
        self.digest.write(format!("{} {node} {packet:?}", self.now.as_nanos()).as_bytes());
        let from = (node, packet.interface.0);
        let source = self.nodes[node].addresses[&packet.interface];
        let near: Vec<_> = self
            .links
            .range((from, (0, 0))..=(from, (usize::MAX, u32::MAX)))
            .map(|(k, m)| (k.1, *m))
            .collect();
        for (to, medium) in near {
            let address = self.nodes[to.0].addresses[&InterfaceId(to.1)];
            if packet.destination.is_some_and(|d| d != address) || self.dice.chance(medium.loss) {
                continue;
            }
            let extra = Duration::from_nanos(self.dice.below(medium.jitter.as_nanos() as u64));
            self.sequence += 1;
            let flight = Flight { to, source, ttl: packet.ttl, payload: packet.payload.clone() };
            self.flights.insert((self.now + medium.delay + extra, self.sequence), flight);
        }
    }

    /// Runs all events up to `end`.
    pub fn run_until(&mut self, end: Time) {
        loop {
            let timer = |(index, node): (usize, &Node<P>)| node.protocol.next_timer().map(|at| (at, index));
            let timer = self.nodes.iter().enumerate().filter_map(timer).min();
            let arrival = self.flights.keys().next().copied();
            let next = timer.map(|(at, _)| at).into_iter().chain(arrival.map(|(at, _)| at)).min();
            let Some(at) = next.filter(|at| *at <= end) else { break };
            self.now = self.now.max(at);
            match (arrival, timer) {
                (Some(key), _) if key.0 <= at => {
                    let flight = self.flights.remove(&key).expect("it is the first");
                    let (node, interface) = (flight.to.0, InterfaceId(flight.to.1));
                    let Flight { source, ttl, payload, .. } = flight;
                    self.call(node, |p, now| {
                        let _ = p.on_packet(now, Received { interface, source, ttl, payload: &payload });
                    });
                }
                (_, Some((_, node))) => {
                    self.call(node, |p, now| p.on_timer(now));
                    let later = self.nodes[node].protocol.next_timer();
                    assert!(
                        later.is_none_or(|later| later > self.now),
                        "the timer of node {node} stands still at {:?}",
                        self.now
                    );
                }
                _ => unreachable!("one of them was the minimum"),
            }
        }
        self.now = self.now.max(end);
    }
    pub fn run_for(&mut self, span: Duration) {
        self.run_until(self.now + span);
    }
    /// Runs until `done` holds, checked every 10 ms. Returns the time; panics after `most`.
    pub fn run_until_done(&mut self, most: Duration, mut done: impl FnMut(&Network<P>) -> bool) -> Time {
        let end = self.now + most;
        while !done(self) {
            assert!(self.now < end, "not done after {most:?}");
            self.run_for(Duration::from_millis(10));
        }
        self.now
    }
    /// A digest of all packets and route changes so far.
    pub fn digest(&self) -> u64 {
        self.digest.finish()
    }
}
