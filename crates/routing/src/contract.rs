//! Contract between a protocol and its environment: [`Protocol`] and the values that its methods exchange.

use crate::{Prefix, Time};
use std::collections::VecDeque;
use thiserror::Error;

/// Interface number assigned by the caller, for example its index in Linux.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct InterfaceId(pub u32);

/// An interface on which a protocol runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interface<A> {
    /// Number of the interface.
    pub id: InterfaceId,
    /// The node's address on the interface.
    pub address: A,
    /// Largest payload of a packet that the protocol may send on the interface.
    pub mtu: usize,
}

/// Change of an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InterfaceEvent<A> {
    /// The interface is usable, or has a new address or MTU.
    Up(Interface<A>),
    /// The interface is no longer usable: its neighbours are lost.
    Down(InterfaceId),
}

/// A received packet of the protocol.
#[derive(Clone, Copy, Debug)]
pub struct Received<'a, A> {
    /// Interface on which the packet arrived.
    pub interface: InterfaceId,
    /// Address of the neighbour's interface that sent the packet.
    pub source: A,
    /// TTL of the packet on arrival; 255 if the caller does not know it.
    pub ttl: u8,
    /// Payload of the UDP datagram, or of the Ethernet frame.
    pub payload: &'a [u8],
}

/// A packet of the protocol to be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transmit<A> {
    /// Interface on which to send the packet.
    pub interface: InterfaceId,
    /// Address of the neighbour; `None` for all neighbours (broadcast).
    pub destination: Option<A>,
    /// TTL of the packet.
    pub ttl: u8,
    /// The payload.
    pub payload: Vec<u8>,
}

/// A route.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Route<D, A> {
    /// The destination.
    pub destination: D,
    /// Address of the neighbour's interface to which packets are forwarded. Equal to the destination's
    /// address if the destination is that interface.
    pub next_hop: A,
    /// Interface to the next hop.
    pub interface: InterfaceId,
    /// Number of hops.
    pub distance: u32,
}

/// Change of the forwarding table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RouteChange<D, A> {
    /// Adds a route, or replaces the one to the same destination.
    Set(Route<D, A>),
    /// Removes the route to this destination.
    Remove(D),
}

/// Event in the data plane that may affect a protocol.
#[derive(Clone, Copy, Debug)]
pub enum DataPlaneEvent<'a, A> {
    /// The link layer reports that a neighbour's interface is unreachable (no acknowledgment, ARP failure).
    LinkLost {
        /// Interface of this node.
        interface: InterfaceId,
        /// Address of the neighbour.
        neighbor: A,
    },
    /// The link layer reports that a neighbour's interface is reachable.
    LinkAlive {
        /// Interface of this node.
        interface: InterfaceId,
        /// Address of the neighbour.
        neighbor: A,
    },
    /// An IP packet without a route, originated or forwarded by this node.
    NoRoute {
        /// The packet, from its IP header on.
        packet: &'a [u8],
    },
    /// Packets between these two addresses passed this node since the last such event.
    Used {
        /// Source address of the packets.
        source: A,
        /// Destination address of the packets.
        destination: A,
    },
}

/// Disposition of a packet that a protocol held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// A route was found: send the packet.
    Send,
    /// No route was found: report to the sender that its destination is unreachable.
    Unreachable,
    /// The protocol's buffer was full: drop the packet.
    Dropped,
}

/// A packet that a protocol held and releases.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Released {
    /// The packet as passed in.
    pub packet: Vec<u8>,
    /// Disposition of the packet.
    pub verdict: Verdict,
}

/// Reason why a packet, or the rest of it, was ignored. The protocol counts such packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum DecodeError {
    /// The packet ends within a field.
    #[error("the packet ends within a field")]
    Truncated,
    /// A length field contradicts the length of the packet.
    #[error("a length field does not fit the packet")]
    Length,
    /// A field has a value that the protocol forbids.
    #[error("a field has a value that is not allowed")]
    Value,
    /// Unknown message type or version.
    #[error("unknown message type or version")]
    Unknown,
    /// The packet arrived on an interface that the protocol does not use.
    #[error("the interface is not one of the protocol's")]
    Interface,
}

/// Routing protocol of one node. The crate's documentation defines the order of calls.
pub trait Protocol {
    /// Addresses of nodes' interfaces.
    type Address: Copy + Ord + std::fmt::Debug;
    /// Destinations of routes.
    type Destination: Copy + Ord + std::fmt::Debug;

    /// Handles a change of an interface.
    fn on_interface(&mut self, now: Time, event: InterfaceEvent<Self::Address>);
    /// Handles a received packet of the protocol. The error is the reason why the packet, or the rest of it,
    /// was ignored.
    fn on_packet(&mut self, now: Time, packet: Received<'_, Self::Address>) -> Result<(), DecodeError>;
    /// Handles the expiry of the timer set from [`next_timer`](Protocol::next_timer).
    fn on_timer(&mut self, now: Time);
    /// Handles an event in the data plane. Protocols ignore events that do not affect them.
    fn on_data_plane(&mut self, now: Time, event: DataPlaneEvent<'_, Self::Address>);
    /// The next packet to send.
    fn poll_transmit(&mut self) -> Option<Transmit<Self::Address>>;
    /// The next change of the forwarding table.
    fn poll_route(&mut self) -> Option<RouteChange<Self::Destination, Self::Address>>;
    /// The next packet that the protocol releases.
    fn poll_released(&mut self) -> Option<Released>;
    /// Time at which [`on_timer`](Protocol::on_timer) is to be called; `None` if no timer is armed.
    fn next_timer(&self) -> Option<Time>;
}

/// Route of a protocol over IPv4.
pub type Ipv4Route = Route<Prefix, std::net::Ipv4Addr>;

/// Queue of changes that `poll_route` drains, and the table after all of them.
#[derive(Debug)]
pub(crate) struct RouteLog<D, A> {
    table: belljar_base::Map<D, Route<D, A>>,
    changes: VecDeque<RouteChange<D, A>>,
}

impl<D: Copy + Ord, A: Copy + Ord> RouteLog<D, A> {
    pub fn new() -> RouteLog<D, A> {
        RouteLog { table: belljar_base::Map::new(), changes: VecDeque::new() }
    }
    /// The table.
    pub fn table(&self) -> &belljar_base::Map<D, Route<D, A>> {
        &self.table
    }
    /// Sets one route, and queues the change if there is one.
    pub fn set(&mut self, route: Route<D, A>) {
        if self.table.insert(route.destination, route) != Some(route) {
            self.changes.push_back(RouteChange::Set(route));
        }
    }
    /// Removes one route, and queues the change if there is one.
    pub fn remove(&mut self, destination: D) {
        if self.table.remove(&destination).is_some() {
            self.changes.push_back(RouteChange::Remove(destination));
        }
    }
    /// Replaces the table by `next`, sorted by destination. Removals are queued first, then new and changed
    /// routes, nearest first, so that a next hop is reachable before a route uses it.
    pub fn replace(&mut self, next: Vec<Route<D, A>>) {
        debug_assert!(next.is_sorted_by(|a, b| a.destination < b.destination));
        let (mut gone, mut changed) = (Vec::new(), Vec::new());
        let mut before = self.table.values().peekable();
        for route in next {
            while let Some(old) = before.next_if(|old| old.destination < route.destination) {
                gone.push(old.destination);
            }
            if before.next_if(|old| old.destination == route.destination) != Some(&route) {
                changed.push(route);
            }
        }
        gone.extend(before.map(|old| old.destination));
        for destination in gone {
            self.remove(destination);
        }
        changed.sort_by_key(|route| (route.distance, route.destination));
        for route in changed {
            self.set(route);
        }
    }
    pub fn poll(&mut self) -> Option<RouteChange<D, A>> {
        self.changes.pop_front()
    }
}
