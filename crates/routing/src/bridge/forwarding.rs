//! Clients' frames: the stations behind each bridge, unicast by bridge addresses, and flooding without loops.

use super::packet::{ENCAPSULATION, Frame};
use super::{Bridge, Delivery};
use crate::contract::Transmit;
use crate::{InterfaceId, Time};
use belljar_wire::ethernet::{self, Address};

/// Stations that a bridge keeps.
const MOST_STATIONS: usize = 65_536;
/// Bridges whose flooded frames are recognised.
const MOST_FLOODERS: usize = 16_384;
/// Bridges that a frame may pass.
const HOP_LIMIT: u8 = 64;
/// Deliveries that may wait to be polled.
const MOST_DELIVERIES: usize = 4096;

/// The place of a station.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// At a client port of this bridge.
    Port(InterfaceId),
    /// At another bridge.
    Bridge(Address),
}

/// The flooded frames of one bridge that were seen: the highest number, and the 64 before it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Window {
    highest: u32,
    seen: u64,
    until: Time,
}

impl Window {
    /// True if the number is seen for the first time.
    fn admit(&mut self, sequence: u32) -> bool {
        let ahead = sequence.wrapping_sub(self.highest);
        if ahead != 0 && ahead < 0x8000_0000 {
            self.seen = self.seen.checked_shl(ahead).unwrap_or(0) | 1;
            self.highest = sequence;
            return true;
        }
        let behind = self.highest.wrapping_sub(sequence);
        let bit = 1u64.checked_shl(behind).unwrap_or(0);
        let first = bit != 0 && self.seen & bit == 0;
        self.seen |= bit;
        first
    }
}

impl Bridge {
    /// A frame came from a client. Its sender is learnt; it goes to the bridge of its receiver, or to all.
    pub fn on_client_frame(&mut self, now: Time, port: InterfaceId, bytes: &[u8]) {
        let Ok(frame) = ethernet::Frame::new_checked(bytes) else {
            self.counts.malformed += 1;
            return;
        };
        if !self.clients.contains(&port) {
            return;
        }
        let until = now + self.config.station_lifetime;
        if !frame.src().is_multicast() && self.place(now, frame.src(), Place::Port(port), until) {
            self.hurry_link_state(now);
        }
        match self.stations.get(&frame.dst()).map(|(place, _)| *place).filter(|_| !frame.dst().is_multicast())
        {
            Some(Place::Port(to)) if to == port => {}
            Some(Place::Port(to)) => self.deliver(Some(to), None, bytes),
            Some(Place::Bridge(egress)) if self.routes.table().contains_key(&egress) => {
                self.send_unicast(egress, HOP_LIMIT, self.config.address, bytes);
            }
            _ => {
                self.deliver(None, Some(port), bytes);
                self.flood_sequence = self.flood_sequence.wrapping_add(1);
                self.send_flood(self.config.address, self.flood_sequence, HOP_LIMIT, bytes);
            }
        }
        self.turn(now);
    }

    pub(super) fn on_unicast(
        &mut self,
        now: Time,
        egress: Address,
        hop_limit: u8,
        ingress: Address,
        bytes: &[u8],
    ) {
        if egress != self.config.address {
            if hop_limit > 1 {
                self.counts.forwarded += 1;
                self.send_unicast(egress, hop_limit - 1, ingress, bytes);
            }
            return;
        }
        let Ok(frame) = ethernet::Frame::new_checked(bytes) else {
            self.counts.malformed += 1;
            return;
        };
        self.learn_stations(now, ingress, &[frame.src()], now + self.config.station_lifetime);
        match self.stations.get(&frame.dst()) {
            Some((Place::Port(port), _)) => self.deliver(Some(*port), None, bytes),
            // It is no longer known here: all ports, as a bridge does.
            _ => self.deliver(None, None, bytes),
        }
    }

    pub(super) fn on_flood(
        &mut self,
        now: Time,
        ingress: Address,
        sequence: u32,
        hop_limit: u8,
        bytes: &[u8],
    ) {
        if ingress == self.config.address {
            return;
        }
        let until = now + self.config.lifetime;
        let known = self.floods.len();
        let window = match self.floods.get_mut(&ingress) {
            Some(window) => window,
            None if known >= MOST_FLOODERS => {
                self.counts.refused += 1;
                return;
            }
            None => self.floods.entry(ingress).or_insert(Window {
                highest: sequence.wrapping_sub(1),
                seen: 0,
                until,
            }),
        };
        window.until = until;
        self.expire_at = self.expire_at.min(until);
        if !window.admit(sequence) {
            return;
        }
        let Ok(frame) = ethernet::Frame::new_checked(bytes) else {
            self.counts.malformed += 1;
            return;
        };
        self.learn_stations(now, ingress, &[frame.src()], now + self.config.station_lifetime);
        self.deliver(None, None, bytes);
        if hop_limit > 1 {
            self.counts.forwarded += 1;
            self.send_flood(ingress, sequence, hop_limit - 1, bytes);
        }
    }

    /// True if a frame fits behind a header on every interface. A caller can ask before it hands in a frame.
    fn fits(&mut self, interface: InterfaceId, frame: &[u8]) -> bool {
        let fits =
            self.interfaces.get(&interface).is_some_and(|port| frame.len() + ENCAPSULATION <= port.at.mtu);
        self.counts.oversize += u64::from(!fits);
        fits
    }

    fn send_unicast(&mut self, egress: Address, hop_limit: u8, ingress: Address, frame: &[u8]) {
        let Some(route) = self.routes.table().get(&egress).copied() else {
            self.counts.unroutable += 1;
            return;
        };
        if self.fits(route.interface, frame) {
            let payload = Frame::Unicast { egress, hop_limit, ingress, frame }.encode();
            let (interface, destination) = (route.interface, Some(route.next_hop));
            self.outbox.push(Transmit { interface, destination, ttl: 1, payload });
        }
    }

    fn send_flood(&mut self, ingress: Address, sequence: u32, hop_limit: u8, frame: &[u8]) {
        let interfaces: Vec<_> = self.interfaces.keys().copied().collect();
        let payload = Frame::Flood { ingress, sequence, hop_limit, frame }.encode();
        for interface in interfaces {
            if self.fits(interface, frame) {
                self.outbox.push(Transmit { interface, destination: None, ttl: 1, payload: payload.clone() });
            }
        }
    }

    fn deliver(&mut self, port: Option<InterfaceId>, except: Option<InterfaceId>, frame: &[u8]) {
        let ports = self
            .clients
            .iter()
            .filter(|client| port.is_none_or(|port| port == **client) && except != Some(**client));
        for port in ports {
            if self.deliveries.len() < MOST_DELIVERIES {
                self.deliveries.push_back(Delivery { port: *port, frame: frame.to_vec() });
            }
        }
    }

    /// Stations were told of, or seen to send, by another bridge.
    pub(super) fn learn_stations(&mut self, now: Time, bridge: Address, stations: &[Address], until: Time) {
        for station in stations.iter().filter(|station| !station.is_multicast()) {
            if bridge != self.config.address && self.place(now, *station, Place::Bridge(bridge), until) {
                // If it was at this bridge before, the others are told that it has moved.
                self.hurry_link_state(now);
            }
        }
    }

    /// Notes the place of a station. Returns whether this changes which stations are at this bridge.
    fn place(&mut self, now: Time, station: Address, place: Place, until: Time) -> bool {
        let until = until.max(now);
        let before = self.stations.get(&station).map(|(place, _)| *place);
        if before.is_none() && self.stations.len() >= MOST_STATIONS {
            self.counts.refused += 1;
            return false;
        }
        self.stations.insert(station, (place, until));
        self.expire_at = self.expire_at.min(until);
        let local = |place: Option<Place>| matches!(place, Some(Place::Port(_)));
        local(before) != local(Some(place))
    }

    pub(super) fn local_stations(&self) -> Vec<Address> {
        let local = self.stations.iter().filter(|(_, (place, _))| matches!(place, Place::Port(_)));
        local.map(|(station, _)| *station).collect()
    }

    pub(super) fn expire_stations(&mut self, now: Time) -> Time {
        self.stations.retain(|_, (_, until)| *until > now);
        self.floods.retain(|_, window| window.until > now);
        let stations = self.stations.values().map(|(_, until)| *until);
        stations.chain(self.floods.values().map(|window| window.until)).min().unwrap_or(Time::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_admits_each_number_once_across_the_wrap() {
        let mut window = Window { highest: u32::MAX - 3, seen: 0, until: Time::MAX };
        for sequence in [u32::MAX - 2, u32::MAX, u32::MAX - 1, 1, 0, 40] {
            assert!(window.admit(sequence), "{sequence}");
            assert!(!window.admit(sequence), "{sequence} again");
        }
        assert!(window.admit(200) && !window.admit(100), "too old to be sure");
    }
}
