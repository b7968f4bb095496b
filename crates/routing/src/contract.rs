//! The contract between a protocol and the world around it: [`Protocol`] and the values that pass through it.

use crate::{Prefix, Time};
use std::collections::VecDeque;
use thiserror::Error;

/// The caller's number of an interface, for example its index in Linux.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct InterfaceId(pub u32);

/// An interface that a protocol speaks on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interface<A> {
    /// The caller's number of it.
    pub id: InterfaceId,
    /// The node's address there.
    pub address: A,
    /// The largest payload of a packet that the protocol may send there.
    pub mtu: usize,
}

/// A change of the interfaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InterfaceEvent<A> {
    /// An interface can be used, or its address or MTU is another.
    Up(Interface<A>),
    /// An interface cannot be used any more: its neighbours are lost.
    Down(InterfaceId),
}

/// A packet of the protocol that arrived.
#[derive(Clone, Copy, Debug)]
pub struct Received<'a, A> {
    /// The interface it came in by.
    pub interface: InterfaceId,
    /// The address of the neighbour's interface that sent it.
    pub source: A,
    /// The TTL that it arrived with; 255 where the caller cannot tell.
    pub ttl: u8,
    /// The payload: of the UDP datagram, or of the Ethernet frame.
    pub payload: &'a [u8],
}

/// A packet of the protocol to send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transmit<A> {
    /// The interface to send it on.
    pub interface: InterfaceId,
    /// The neighbour that it is for; `None` for all of them (broadcast).
    pub destination: Option<A>,
    /// The TTL to send it with.
    pub ttl: u8,
    /// The payload.
    pub payload: Vec<u8>,
}

/// A route.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Route<D, A> {
    /// The destination.
    pub destination: D,
    /// The address of the neighbour's interface that packets are handed to. Equal to the destination's address when the
    /// destination is that interface.
    pub next_hop: A,
    /// The interface by which the next hop is reached.
    pub interface: InterfaceId,
    /// The number of hops.
    pub distance: u32,
}

/// A change of the forwarding table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RouteChange<D, A> {
    /// A route is new or replaces the one to the same destination.
    Set(Route<D, A>),
    /// The route to this destination is gone.
    Remove(D),
}

/// An event in the data plane that a protocol may want to know of.
#[derive(Clone, Copy, Debug)]
pub enum DataPlaneEvent<'a, A> {
    /// The link layer says that a neighbour's interface cannot be reached (no acknowledgment, ARP failed).
    LinkLost {
        /// The interface of this node.
        interface: InterfaceId,
        /// The neighbour's address.
        neighbor: A,
    },
    /// The link layer says that a neighbour's interface can be reached.
    LinkAlive {
        /// The interface of this node.
        interface: InterfaceId,
        /// The neighbour's address.
        neighbor: A,
    },
    /// A packet found no route. It is a whole IP packet, sent by this node or to be forwarded by it.
    NoRoute {
        /// The packet, from its IP header on.
        packet: &'a [u8],
    },
    /// Packets between these two addresses passed this node since the last such event.
    Used {
        /// Their source.
        source: A,
        /// Their destination.
        destination: A,
    },
}

/// The fate of a packet that a protocol held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// There is a route now: send it.
    Send,
    /// No route was found: the sender is told that its destination cannot be reached.
    Unreachable,
    /// The protocol's buffer had no room for it: drop it.
    Dropped,
}

/// A packet that a protocol held and lets go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Released {
    /// The packet as it was given.
    pub packet: Vec<u8>,
    /// Its fate.
    pub verdict: Verdict,
}

/// The reason why a packet was not understood. The rest of it is ignored; the protocol counts them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum DecodeError {
    /// The packet ends within a field.
    #[error("the packet ends within a field")]
    Truncated,
    /// A length field does not fit the bytes that are there.
    #[error("a length field does not fit the packet")]
    Length,
    /// A field has a value that the protocol forbids.
    #[error("a field has a value that is not allowed")]
    Value,
    /// A message type or version that the protocol does not have.
    #[error("unknown message type or version")]
    Unknown,
    /// The packet came in by an interface that the protocol does not use.
    #[error("the interface is not one of the protocol's")]
    Interface,
}

/// A routing protocol of one node. The crate's documentation says in which order the methods are to be called.
pub trait Protocol {
    /// Addresses of nodes' interfaces.
    type Address: Copy + Ord + std::fmt::Debug;
    /// Destinations of routes.
    type Destination: Copy + Ord + std::fmt::Debug;

    /// An interface came or went.
    fn on_interface(&mut self, now: Time, event: InterfaceEvent<Self::Address>);
    /// A packet of the protocol arrived. An error says why the packet, or the rest of it, was ignored.
    fn on_packet(&mut self, now: Time, packet: Received<'_, Self::Address>) -> Result<(), DecodeError>;
    /// The time given by [`next_timer`](Protocol::next_timer) has come.
    fn on_timer(&mut self, now: Time);
    /// Something happened in the data plane. Protocols ignore what is of no use to them.
    fn on_data_plane(&mut self, now: Time, event: DataPlaneEvent<'_, Self::Address>);
    /// The next packet to send.
    fn poll_transmit(&mut self) -> Option<Transmit<Self::Address>>;
    /// The next change of the forwarding table.
    fn poll_route(&mut self) -> Option<RouteChange<Self::Destination, Self::Address>>;
    /// The next packet that the protocol lets go.
    fn poll_released(&mut self) -> Option<Released>;
    /// The time at which [`on_timer`](Protocol::on_timer) is to be called; none if nothing is waited for.
    fn next_timer(&self) -> Option<Time>;
}

/// Routes of a protocol over IPv4.
pub type Ipv4Route = Route<Prefix, std::net::Ipv4Addr>;

/// The queue of changes that `poll_route` drains, over the table as it is after them.
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
    /// Sets one route, with a change if it is not there already.
    pub fn set(&mut self, route: Route<D, A>) {
        if self.table.insert(route.destination, route) != Some(route) {
            self.changes.push_back(RouteChange::Set(route));
        }
    }
    /// Removes one route, with a change if it is there.
    pub fn remove(&mut self, destination: D) {
        if self.table.remove(&destination).is_some() {
            self.changes.push_back(RouteChange::Remove(destination));
        }
    }
    /// Makes the table equal to `next`, which is in the order of destinations: first what is gone, then what is new or
    /// changed, nearest first, so that a next hop is reachable before a route goes through it.
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
