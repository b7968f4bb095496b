//! AODV, Ad hoc On-Demand Distance Vector routing (RFC 3561): reactive, for IPv4.
//!
//! A node starts a route discovery when a packet has no route. A request (RREQ) floods the network in an
//! expanding ring, the destination or a node with a recent route replies (RREP) along the reverse path, and
//! sequence numbers keep the routes loop-free. Unused routes expire; broken ones are repaired near the break,
//! or reported (RERR) to the nodes that use them.
//!
//! The data plane takes part: packets without a route are passed in as [`DataPlaneEvent::NoRoute`] and held,
//! the use of routes as [`DataPlaneEvent::Used`], and held packets leave through
//! [`poll_released`](Protocol::poll_released) after [`poll_route`](Protocol::poll_route) has returned their
//! route.
//!
//! Sections of the RFC by module: message formats 5 ([`packet`]), sequence numbers and route table 6.1 and
//! 6.2 (`table`), discovery 6.3 and 6.4 (`discovery`), RREQs 6.5 and 6.6 (`rreq`), RREPs, unidirectional
//! links and Hello 6.7 to 6.10 (`rrep`), RERRs 6.11 (`rerr`), local repair 6.12 (`rerr`, `discovery`), reboot
//! 6.13.

mod config;
mod discovery;
pub mod packet;
mod rerr;
mod rrep;
mod rreq;
mod status;
mod table;
#[cfg(test)]
mod tests;

pub use config::Config;
pub use status::{Counts, RouteStatus};
pub use table::State;

use crate::contract::{
    DataPlaneEvent, DecodeError, Interface, InterfaceEvent, InterfaceId, Protocol, Received, Released,
    RouteChange, RouteLog, Transmit,
};
use crate::outbox::{Delayed, Outbox, earliest};
use crate::{Prefix, Time};
use belljar_base::{Map, Stream};
use discovery::{Discovery, RateLimit};
use packet::Message;
use rrep::Heard;
use std::collections::VecDeque;
use std::net::Ipv4Addr;
use std::time::Duration;
use table::Entry;

/// The UDP port that IANA assigns to AODV.
pub const PORT: u16 = 654;
/// Upper bound on the RREQs queued for forwarding.
const MOST_DELAYED: usize = 8192;
/// Minimum interval between sweeps of remembered requests.
const SWEEP: Duration = Duration::from_secs(1);

/// An interface with the time of the last broadcast on it.
#[derive(Debug)]
struct Port {
    at: Interface<Ipv4Addr>,
    said: Time,
}

/// The AODV state machine of one node. See the crate's documentation for the order of calls.
#[derive(Debug)]
pub struct Aodv {
    config: Config,
    dice: Stream,
    interfaces: Map<InterfaceId, Port>,
    sequence: u32,
    request_id: u32,
    table: Map<Ipv4Addr, Entry>,
    seen: Map<(Ipv4Addr, u32), Time>,
    discoveries: Map<Ipv4Addr, Discovery>,
    heard: Map<(InterfaceId, Ipv4Addr), Heard>,
    unacknowledged: Map<Ipv4Addr, Time>,
    blacklist: Map<Ipv4Addr, Time>,
    rreq_limit: RateLimit,
    rerr_limit: RateLimit,
    /// End of the waiting period after a reboot, during which the node does not route.
    quiet_until: Time,
    hello_at: Time,
    /// RREQs queued for forwarding, with their TTL.
    delayed: Vec<(u8, Delayed)>,
    outbox: Outbox<Ipv4Addr>,
    routes: RouteLog<Prefix, Ipv4Addr>,
    released: VecDeque<Released>,
    /// Lower bound on the expiry times of all entries.
    expire_at: Time,
    sweep_at: Time,
    counts: Counts,
}

impl Aodv {
    /// A node without interfaces that starts at `now`.
    pub fn new(now: Time, config: Config) -> Aodv {
        let quiet_until = if config.after_reboot { now + config.delete_period() } else { Time::ZERO };
        Aodv {
            dice: config.seed.stream(&["aodv", &config.main_address.to_string()]),
            interfaces: Map::new(),
            sequence: config.sequence,
            request_id: 0,
            table: Map::new(),
            seen: Map::new(),
            discoveries: Map::new(),
            heard: Map::new(),
            unacknowledged: Map::new(),
            blacklist: Map::new(),
            rreq_limit: RateLimit::default(),
            rerr_limit: RateLimit::default(),
            quiet_until,
            hello_at: now,
            delayed: Vec::new(),
            outbox: Outbox::new(),
            routes: RouteLog::new(),
            released: VecDeque::new(),
            expire_at: Time::MAX,
            sweep_at: Time::ZERO,
            counts: Counts::default(),
            config,
        }
    }

    fn broadcast(&mut self, now: Time, ttl: u8, message: &Message) {
        let payload = message.encode();
        for (id, port) in &mut self.interfaces {
            port.said = now;
            self.outbox.push(Transmit { interface: *id, destination: None, ttl, payload: payload.clone() });
        }
    }

    fn interface_down(&mut self, now: Time, id: InterfaceId) {
        if self.interfaces.remove(&id).is_none() {
            return;
        }
        self.delayed.retain(|(_, message)| message.interface != id);
        self.heard.retain(|(interface, _), _| *interface != id);
        let by_it = self.table.values().filter(|entry| entry.interface == id && entry.state == State::Valid);
        let neighbors: belljar_base::Set<Ipv4Addr> = by_it.map(|entry| entry.next_hop).collect();
        neighbors.into_iter().for_each(|neighbor| self.link_broken(now, id, neighbor));
    }

    /// Performs all actions that are due.
    fn turn(&mut self, now: Time) {
        if now >= self.expire_at {
            let routes = self.expire_routes(now);
            if now >= self.sweep_at {
                self.seen.retain(|_, until| *until > now);
                self.sweep_at = now + SWEEP;
            }
            let seen = self.seen.values().min().map_or(Time::MAX, |first| (*first).max(self.sweep_at));
            self.expire_at = routes.min(seen);
        }
        self.expire_acknowledgments(now);
        self.expire_hellos(now);
        let due: Vec<_> =
            self.discoveries.iter().filter(|(_, d)| d.deadline <= now).map(|(to, _)| *to).collect();
        due.into_iter().for_each(|destination| self.step(now, destination));
        self.say_hello(now);
        let (going, staying): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.delayed).into_iter().partition(|(_, message)| message.at <= now);
        self.delayed = staying;
        for (ttl, Delayed { interface, message, .. }) in going {
            if let Some(port) = self.interfaces.get_mut(&interface) {
                port.said = now;
            }
            self.outbox.push(Transmit { interface, destination: None, ttl, payload: message });
        }
    }
}

/// True for addresses that can belong to a node.
fn is_node(address: Ipv4Addr) -> bool {
    !(address.is_unspecified() || address.is_broadcast() || address.is_multicast() || address.is_loopback())
}

impl Protocol for Aodv {
    type Address = Ipv4Addr;
    type Destination = Prefix;

    fn on_interface(&mut self, now: Time, event: InterfaceEvent<Ipv4Addr>) {
        match event {
            InterfaceEvent::Up(interface) => {
                self.interfaces.insert(interface.id, Port { at: interface, said: Time::ZERO });
                // The address may have belonged to a neighbour before.
                if self.table.remove(&interface.address).is_some() {
                    self.settle(now, interface.address);
                }
            }
            InterfaceEvent::Down(id) => self.interface_down(now, id),
        }
        self.turn(now);
    }

    fn on_packet(&mut self, now: Time, received: Received<'_, Ipv4Addr>) -> Result<(), DecodeError> {
        let Received { interface, source, ttl, payload } = received;
        if !self.interfaces.contains_key(&interface) {
            return Err(DecodeError::Interface);
        }
        if self.is_own(source) || !is_node(source) {
            return Ok(());
        }
        let message = Message::decode(payload).inspect_err(|_| self.counts.malformed += 1)?;
        self.heard(now, interface, source);
        match message {
            Message::Rreq(rreq) => self.on_rreq(now, interface, source, ttl, rreq),
            Message::Rrep(rrep) => self.on_rrep(now, interface, source, rrep),
            Message::Rerr(rerr) => self.on_rerr(now, interface, source, rerr),
            Message::RrepAck => self.on_acknowledgment(now, interface, source),
        }
        self.turn(now);
        Ok(())
    }

    fn on_timer(&mut self, now: Time) {
        self.turn(now);
    }

    fn on_data_plane(&mut self, now: Time, event: DataPlaneEvent<'_, Ipv4Addr>) {
        self.data_plane(now, event);
        self.turn(now);
    }

    fn poll_transmit(&mut self) -> Option<Transmit<Ipv4Addr>> {
        self.outbox.pop()
    }
    fn poll_route(&mut self) -> Option<RouteChange<Prefix, Ipv4Addr>> {
        self.routes.poll()
    }
    fn poll_released(&mut self) -> Option<Released> {
        self.released.pop_front()
    }
    fn next_timer(&self) -> Option<Time> {
        let expiry = (self.expire_at < Time::MAX).then_some(self.expire_at);
        let hello = self.config.hello_interval.map(|_| self.hello_at).filter(|_| !self.table.is_empty());
        earliest([
            expiry,
            hello,
            self.discoveries.values().map(|discovery| discovery.deadline).min(),
            self.heard.values().map(|heard| heard.until).min(),
            self.unacknowledged.values().copied().min(),
            self.blacklist.values().copied().min(),
            self.delayed.iter().map(|(_, message)| message.at).min(),
        ])
    }
}
