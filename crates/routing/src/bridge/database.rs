//! Link-state database: the announcements of all bridges, and the routes computed from them.

use super::Bridge;
use super::packet::{Frame, LinkState};
use crate::contract::{Route, Transmit};
use crate::{InterfaceId, Time};
use belljar_base::{Map, Set};
use belljar_wire::ethernet::Address;
use std::time::Duration;

/// Upper bound on the parts of link state in the database.
const MOST_PARTS: usize = 16_384;
/// Minimum interval between link-state announcements of this bridge.
const LINK_STATE_GAP: Duration = Duration::from_millis(200);

/// A part of a bridge's announced link state.
#[derive(Clone, Debug)]
pub(super) struct Part {
    pub state: LinkState,
    pub until: Time,
}

/// True if sequence number `a` is more recent than `b`, across the wrap.
fn newer(a: u32, b: u32) -> bool {
    a.wrapping_sub(b) as i32 > 0
}

impl Bridge {
    pub(super) fn on_link_state(&mut self, now: Time, state: LinkState) {
        if state.originator == self.config.address {
            // Sent by this bridge before it restarted: the next announcement must be more recent.
            if !newer(self.sequence, state.sequence) && state.sequence != self.sequence {
                self.sequence = state.sequence;
                self.hurry_link_state(now);
            }
            return;
        }
        let key = (state.originator, state.part);
        let known = self.database.get(&key);
        if known.is_some_and(|part| !newer(state.sequence, part.state.sequence)) {
            return;
        }
        if self.database.len() >= MOST_PARTS && known.is_none() {
            self.counts.refused += 1;
            return;
        }
        let same = known.is_some_and(|part| part.state.neighbors == state.neighbors);
        let until = now + state.lifetime.min(self.config.lifetime * 2);
        self.learn_stations(now, state.originator, &state.stations, until);
        self.database.insert(key, Part { state: state.clone(), until });
        self.expire_at = self.expire_at.min(until);
        self.dirty |= !same;
        self.flood_link_state(&state);
    }

    fn flood_link_state(&mut self, state: &LinkState) {
        let payload = Frame::LinkState(state.clone()).encode();
        for id in self.interfaces.keys() {
            self.outbox.push(Transmit {
                interface: *id,
                destination: None,
                ttl: 1,
                payload: payload.clone(),
            });
        }
    }

    /// Sends the whole database to a new neighbour.
    pub(super) fn send_database(&mut self, now: Time, interface: InterfaceId, to: Address) {
        for part in self.database.values() {
            let state = LinkState { lifetime: part.until.since(now), ..part.state.clone() };
            let payload = Frame::LinkState(state).encode();
            self.outbox.push(Transmit { interface, destination: Some(to), ttl: 1, payload });
        }
    }

    pub(super) fn hurry_link_state(&mut self, now: Time) {
        self.link_state_at = self.link_state_at.min(now.max(self.said_link_state + LINK_STATE_GAP));
    }

    /// Floods this bridge's neighbours and stations, in as many parts as the MTU requires.
    pub(super) fn say_link_state(&mut self, now: Time) {
        if now < self.link_state_at || self.interfaces.is_empty() {
            return;
        }
        (self.said_link_state, self.link_state_at) = (now, now + self.config.refresh_interval);
        self.sequence = self.sequence.wrapping_add(1);
        let mtu = self.interfaces.values().map(|port| port.at.mtu).min().unwrap_or(1500);
        let most = (mtu.saturating_sub(21) / 6).max(8);
        let stations = self.local_stations();
        let all: Vec<(bool, Address)> = self
            .adjacent()
            .into_iter()
            .map(|n| (true, n))
            .chain(stations.into_iter().map(|s| (false, s)))
            .collect();
        // An empty part replaces an earlier one with content.
        let parts = all.len().div_ceil(most).max(usize::from(self.said_parts)).clamp(1, 255);
        self.said_parts = all.len().div_ceil(most).clamp(1, 255) as u8;
        for part in 0..parts {
            let of = |neighbor| {
                let mine = all.iter().skip(part * most).take(most).filter(move |(is, _)| *is == neighbor);
                mine.map(|(_, address)| *address).collect()
            };
            let state = LinkState {
                originator: self.config.address,
                sequence: self.sequence,
                lifetime: self.config.lifetime,
                part: part as u8,
                neighbors: of(true),
                stations: of(false),
            };
            self.flood_link_state(&state);
        }
    }

    pub(super) fn expire_database(&mut self, now: Time) -> Time {
        let before = self.database.len();
        self.database.retain(|_, part| part.until > now);
        self.dirty |= self.database.len() != before;
        self.database.values().map(|part| part.until).min().unwrap_or(Time::MAX)
    }

    /// Computes shortest paths over links that both sides announce. Of equal paths, the one over the bridge
    /// with the lower address is used.
    pub(super) fn compute_routes(&mut self) {
        let mut edges: Map<Address, Set<Address>> = Map::new();
        for ((originator, _), part) in &self.database {
            edges.entry(*originator).or_default().extend(&part.state.neighbors);
        }
        let own = self.config.address;
        let adjacent = self.adjacent();
        let joined = |from: Address, to: Address| edges.get(&to).is_some_and(|theirs| theirs.contains(&from));
        let mut ways: Map<Address, (InterfaceId, Address, u32)> = Map::new();
        for ((interface, address), neighbor) in
            self.neighbors.iter().filter(|(_, neighbor)| neighbor.symmetric)
        {
            ways.entry(neighbor.bridge).or_insert((*interface, *address, 1));
        }
        let mut frontier: Vec<Address> = adjacent.into_iter().collect();
        let mut distance = 1;
        while !frontier.is_empty() {
            distance += 1;
            let mut next = Vec::new();
            for from in frontier {
                let Some(&(interface, next_hop, _)) = ways.get(&from) else { continue };
                for to in edges.get(&from).into_iter().flatten().copied() {
                    if to != own && !ways.contains_key(&to) && joined(from, to) {
                        ways.insert(to, (interface, next_hop, distance));
                        next.push(to);
                    }
                }
            }
            frontier = next;
        }
        let route = |(destination, (interface, next_hop, distance))| Route {
            destination,
            next_hop,
            interface,
            distance,
        };
        self.routes.replace(ways.into_iter().map(route).collect());
    }
}
