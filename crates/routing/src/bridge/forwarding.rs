//! Clients' frames: learning of the stations behind each bridge, unicast by bridge addresses, and loop-free
//! flooding.

use super::packet::{ENCAPSULATION, Frame};
use super::{Bridge, Delivery};
use crate::contract::Transmit;
use crate::{InterfaceId, Time};
use belljar_wire::ethernet::{self, Address};

/// Upper bound on the known stations.
const MOST_STATIONS: usize = 65_536;
/// Upper bound on the bridges whose flooded frames are tracked.
const MOST_FLOODERS: usize = 16_384;
/// Hop limit of a client's frame.
const HOP_LIMIT: u8 = 64;
/// Upper bound on the deliveries waiting to be polled.
const MOST_DELIVERIES: usize = 4096;

/// Location of a station.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// A client port of this bridge.
    Port(InterfaceId),
    /// Another bridge.
    Bridge(Address),
}

/// Duplicate detection for one bridge's flooded frames: the highest sequence number, and the 64 up to it as a
/// bitmap.
#[derive(Clone, Copy, Debug)]
pub(super) struct Window {
    highest: u32,
    seen: u64,
    until: Time,
}

impl Window {
    /// True if the sequence number is new.
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
    /// Handles a client's frame: learns the sender, and sends the frame to the bridge of the destination, or
    /// to all bridges.
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
            // The station is not at this bridge any more: deliver to all ports.
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

    /// True if a frame with its header fits the interface's MTU; counts it as oversize otherwise.
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

    /// Learns stations that another bridge announced, or whose frames it sent.
    pub(super) fn learn_stations(&mut self, now: Time, bridge: Address, stations: &[Address], until: Time) {
        for station in stations.iter().filter(|station| !station.is_multicast()) {
            if bridge != self.config.address && self.place(now, *station, Place::Bridge(bridge), until) {
                // A station that was at this bridge before has moved: announce it.
                self.hurry_link_state(now);
            }
        }
    }

    /// Records the location of a station. Returns whether the set of stations at this bridge changes.
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
