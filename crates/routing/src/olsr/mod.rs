//! OLSR, the Optimized Link State Routing protocol (RFC 3626): proactive, for IPv4.
//!
//! Nodes discover their neighbours by HELLO messages, and select among them *multipoint relays* (MPRs) that
//! cover all 2-hop neighbours. Only MPRs forward flooded messages, and only they advertise, in TC messages,
//! the neighbours for which they relay; from these messages each node computes shortest paths to all others.
//!
//! Sections of the RFC by module: packets and message headers 3.3 ([`packet`]), processing and forwarding 3.4
//! (`forwarding`), MID 5, HELLO 6, link sensing 7 (`links`), neighbours and MPRs 8 (`neighbors`, `mpr`), TC 9
//! (`topology`, `emission`), routes 10 (`table`), HNA 12, link-layer notifications 13, hysteresis 14, TC
//! redundancy 15.

mod config;
mod emission;
mod forwarding;
mod links;
mod mpr;
mod neighbors;
mod nodes;
pub mod packet;
mod status;
mod table;
#[cfg(test)]
mod tests;
mod topology;
mod tree;

pub use config::{Config, Hysteresis};
pub use status::{Counts, LinkStatus};

use crate::contract::{
    DataPlaneEvent, DecodeError, Interface, InterfaceEvent, InterfaceId, Protocol, Received, Released,
    RouteChange, RouteLog, Transmit,
};
use crate::outbox::{Delayed, Outbox, earliest};
use crate::{Prefix, Time};
use belljar_base::{Map, Set, Stream};
use forwarding::Duplicate;
use links::Link;
use neighbors::{Neighbor, TwoHop};
use nodes::Nodes;
use packet::{Hello, Message, kind};
use std::net::Ipv4Addr;
use table::Near;
use topology::Topology;
use tree::Tree;

/// The UDP port that IANA assigns to OLSR.
pub const PORT: u16 = 698;

/// An interface with the times of its HELLO messages.
#[derive(Debug)]
struct Port {
    at: Interface<Ipv4Addr>,
    packet_seq: u16,
    hello_at: Time,
    said_hello: Time,
}

/// Flags of the derived state that must be recomputed.
#[derive(Debug, Default)]
struct Dirty {
    neighborhood: bool,
    relays: bool,
    advertised: bool,
    /// True if the routes of one and two hops must be recomputed.
    near: bool,
    routes: bool,
    hello: bool,
}

/// The OLSR state machine of one node. See the crate's documentation for the order of calls.
#[derive(Debug)]
pub struct Olsr {
    config: Config,
    dice: Stream,
    interfaces: Map<InterfaceId, Port>,
    links: Map<(InterfaceId, Ipv4Addr), Link>,
    /// Last advertised willingness of each HELLO originator.
    willingness: Map<Ipv4Addr, u8>,
    neighbors: Map<Ipv4Addr, Neighbor>,
    /// Keyed by neighbour and 2-hop neighbour.
    two_hop: Map<(Ipv4Addr, Ipv4Addr), TwoHop>,
    relays: Set<Ipv4Addr>,
    selectors: Map<Ipv4Addr, Time>,
    /// Keyed by `tuple_key`.
    topology: Map<u64, Topology>,
    /// Nodes named by topology tuples.
    nodes: Nodes,
    associations: Map<Ipv4Addr, (Ipv4Addr, Time)>,
    networks: Map<(Ipv4Addr, Prefix), Time>,
    /// Keyed by `duplicate_key`.
    duplicates: Map<u64, Duplicate>,
    advertised: Set<Ipv4Addr>,
    ansn: u16,
    message_seq: u16,
    tc_at: Time,
    said_tc: Time,
    /// Time until which an empty advertised set is still announced.
    withdraw_until: Time,
    mid_at: Time,
    hna_at: Time,
    delayed: Vec<Delayed>,
    outbox: Outbox<Ipv4Addr>,
    routes: RouteLog<Prefix, Ipv4Addr>,
    /// Tree of shortest paths of the current routes.
    tree: Tree,
    /// Routes of one and two hops.
    near: Near,
    dirty: Dirty,
    /// Lower bound on the expiry times of all tuples.
    expire_at: Time,
    sweep_at: Time,
    counts: Counts,
}

impl Olsr {
    /// A node without interfaces.
    pub fn new(config: Config) -> Olsr {
        let mut dice = config.seed.stream(&["olsr", &config.main_address.to_string()]);
        let (ansn, message_seq) = (dice.next_u32() as u16, dice.next_u32() as u16);
        Olsr {
            dice,
            interfaces: Map::new(),
            links: Map::new(),
            willingness: Map::new(),
            neighbors: Map::new(),
            two_hop: Map::new(),
            relays: Set::new(),
            selectors: Map::new(),
            topology: Map::new(),
            nodes: Nodes::new(),
            associations: Map::new(),
            networks: Map::new(),
            duplicates: Map::new(),
            advertised: Set::new(),
            ansn,
            message_seq,
            tc_at: Time::MAX,
            said_tc: Time::ZERO,
            withdraw_until: Time::ZERO,
            mid_at: Time::MAX,
            hna_at: Time::MAX,
            delayed: Vec::new(),
            outbox: Outbox::new(),
            routes: RouteLog::new(),
            tree: Tree::default(),
            near: Near::default(),
            dirty: Dirty::default(),
            expire_at: Time::MAX,
            sweep_at: Time::ZERO,
            counts: Counts::default(),
            config,
        }
    }

    fn interface_up(&mut self, now: Time, interface: Interface<Ipv4Addr>) {
        let hello_at = now + self.jitter();
        if !self.interfaces.contains_key(&interface.id) {
            // Links of an earlier interface with this id must be sensed again.
            self.links.retain(|(id, _), _| *id != interface.id);
            self.dirty.neighborhood = true;
        }
        if self.interfaces.is_empty() {
            (self.tc_at, self.mid_at, self.hna_at) = (hello_at, hello_at, hello_at);
        }
        if let Some(port) = self.interfaces.get_mut(&interface.id) {
            port.at = interface;
            port.hello_at = port.hello_at.min(hello_at);
        } else {
            let packet_seq = self.dice.next_u32() as u16;
            self.interfaces
                .insert(interface.id, Port { at: interface, packet_seq, hello_at, said_hello: Time::ZERO });
            // Announce the additional interface at once.
            self.mid_at = self.mid_at.min(hello_at);
        }
        (self.dirty.near, self.dirty.routes) = (true, true);
    }

    /// Marks the links of a removed interface as lost and advertises the loss on the other interfaces, so
    /// that neighbours remove the affected 2-hop tuples at once.
    fn interface_down(&mut self, now: Time, id: InterfaceId) {
        if self.interfaces.remove(&id).is_none() {
            return;
        }
        let until = now + self.config.neighbor_hold;
        for (_, link) in self.links.range_mut((id, Ipv4Addr::UNSPECIFIED)..=(id, Ipv4Addr::BROADCAST)) {
            (link.sym_until, link.asym_until, link.lost_until, link.until) =
                (Time::ZERO, Time::ZERO, until, until);
        }
        self.expire_at = self.expire_at.min(until);
        self.delayed.retain(|message| message.interface != id);
        (self.dirty.neighborhood, self.dirty.relays, self.dirty.hello) = (true, true, true);
        (self.dirty.near, self.dirty.routes) = (true, true);
    }

    /// Section 3.4: processes one message.
    fn on_message(
        &mut self,
        now: Time,
        packet: &Received<'_, Ipv4Addr>,
        message: &Message<'_>,
    ) -> Result<(), DecodeError> {
        // "if the time to live of the message is less than or equal to '0' (zero), or if the message was sent by the
        // receiving node, then the message MUST silently be dropped"
        if message.ttl == 0 || message.originator == self.config.main_address || !is_node(message.originator)
        {
            return Ok(());
        }
        if message.kind == kind::HELLO {
            return self.on_hello(now, packet, message);
        }
        // Most messages in a large network are duplicates.
        if self.is_spent(now, message, packet.interface) {
            return Ok(());
        }
        // All messages except HELLO are accepted only from symmetric neighbours (sections 5.4, 9.5 and 12.5).
        let counts = self.is_symmetric_sender(now, packet.source);
        let done = match message.kind {
            _ if !counts || self.is_duplicate(now, message) => Ok(()),
            kind::TC => self.on_tc(now, message),
            kind::MID => self.on_mid(now, message),
            kind::HNA => self.on_hna(now, message),
            _ => Ok(()),
        };
        self.forward(now, message, packet.interface, packet.source);
        done
    }

    fn on_hello(
        &mut self,
        now: Time,
        packet: &Received<'_, Ipv4Addr>,
        message: &Message<'_>,
    ) -> Result<(), DecodeError> {
        let hello = Hello::decode(message.body)?;
        let (key, main) = ((packet.interface, packet.source), message.originator);
        self.sense_link(now, key, main, message.validity, &hello);
        if !self.links.contains_key(&key) {
            return Ok(());
        }
        self.note_neighbor(now, main, message.validity, &hello);
        // The neighbour may have become symmetric by this HELLO: then the neighbours listed in it count
        // already.
        if std::mem::take(&mut self.dirty.neighborhood) {
            self.update_neighbors(now);
            self.note_neighbor(now, main, message.validity, &hello);
        }
        self.note_two_hop(now, main, message.validity, &hello);
        Ok(())
    }

    fn expire(&mut self, now: Time) {
        if now < self.expire_at {
            return;
        }
        let next = [
            self.expire_links(now),
            self.expire_neighbors(now),
            self.expire_topology(now),
            self.expire_duplicates(now),
        ];
        self.expire_at = next.into_iter().fold(Time::MAX, Time::min);
    }

    fn turn(&mut self, now: Time) {
        self.settle(now);
        self.emit(now);
        self.flush(now);
    }
}

/// True for addresses that can belong to a node.
fn is_node(address: Ipv4Addr) -> bool {
    !(address.is_unspecified() || address.is_broadcast() || address.is_multicast() || address.is_loopback())
}

impl Protocol for Olsr {
    type Address = Ipv4Addr;
    type Destination = Prefix;

    fn on_interface(&mut self, now: Time, event: InterfaceEvent<Ipv4Addr>) {
        self.expire(now);
        match event {
            InterfaceEvent::Up(interface) => self.interface_up(now, interface),
            InterfaceEvent::Down(id) => self.interface_down(now, id),
        }
        self.turn(now);
    }

    fn on_packet(&mut self, now: Time, received: Received<'_, Ipv4Addr>) -> Result<(), DecodeError> {
        self.expire(now);
        if !self.interfaces.contains_key(&received.interface) {
            return Err(DecodeError::Interface);
        }
        let own = self.interfaces.values().any(|port| port.at.address == received.source);
        if own || !is_node(received.source) {
            return Ok(());
        }
        let decoded = packet::decode_packet(received.payload);
        let Ok((packet_seq, messages)) = decoded else {
            self.counts.malformed += 1;
            return decoded.map(|_| ());
        };
        self.measure_link(now, (received.interface, received.source), packet_seq);
        let mut result = Ok(());
        for message in messages {
            let done = message.and_then(|message| self.on_message(now, &received, &message));
            if done.is_err() {
                self.counts.malformed += 1;
                result = done;
            }
        }
        self.turn(now);
        result
    }

    fn on_timer(&mut self, now: Time) {
        self.expire(now);
        self.turn(now);
    }

    fn on_data_plane(&mut self, now: Time, event: DataPlaneEvent<'_, Ipv4Addr>) {
        self.expire(now);
        match event {
            DataPlaneEvent::LinkLost { interface, neighbor } => {
                self.link_layer(now, (interface, neighbor), false)
            }
            DataPlaneEvent::LinkAlive { interface, neighbor } => {
                self.link_layer(now, (interface, neighbor), true)
            }
            DataPlaneEvent::NoRoute { .. } | DataPlaneEvent::Used { .. } => {}
        }
        self.turn(now);
    }

    fn poll_transmit(&mut self) -> Option<Transmit<Ipv4Addr>> {
        self.outbox.pop()
    }
    fn poll_route(&mut self) -> Option<RouteChange<Prefix, Ipv4Addr>> {
        self.routes.poll()
    }
    fn poll_released(&mut self) -> Option<Released> {
        None
    }
    fn next_timer(&self) -> Option<Time> {
        let emission = [self.tc_at, self.mid_at, self.hna_at];
        let periodic = emission.into_iter().chain(self.interfaces.values().map(|port| port.hello_at));
        let periodic = if self.interfaces.is_empty() { None } else { periodic.min() };
        let expiry = (self.expire_at < Time::MAX).then_some(self.expire_at);
        earliest([periodic, expiry, self.delayed.iter().map(|message| message.at).min()])
    }
}
