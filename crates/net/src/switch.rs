//! Learning switch: forwards a frame to the port on which its destination was last seen, or floods it.
//!
//! After each call, take frames from [`Switch::poll`] until it returns `None`, then again at
//! [`Switch::next_event`].

use crate::nic::{Nic, NicChange, NicConfig};
use crate::ports::Ports;
use crate::{Counters, Packet};
use belljar_base::{Map, PacketAccount, SimDuration, SimTime};
use belljar_wire::ethernet::{Address, Frame};

/// Default ageing time of stations, `br_ageing_time` of Linux.
pub const AGEING: SimDuration = SimDuration::from_secs(300);

/// Learning switch. See the [module](self).
#[derive(Debug)]
pub struct Switch {
    ports: Ports,
    /// Ports that the spanning tree has blocked.
    blocked: Vec<bool>,
    stations: Map<Address, (usize, SimTime)>,
    ageing: SimDuration,
    /// Frames received, and the ends of those that no port sends.
    received: u64,
    malformed: u64,
    blocked_port: u64,
    same_port: u64,
    no_port: u64,
    /// Frames passed to ports, copies included, and the number of these copies.
    forwarded: u64,
    copies: u64,
}

/// Frame sent by a port.
#[derive(Debug)]
pub struct EgressFrame {
    /// Number of the port.
    pub port: usize,
    /// Departure time of the first bit.
    pub at: SimTime,
    /// Departure time of the last bit.
    pub departs: SimTime,
    /// Frame.
    pub packet: Packet,
}

impl Switch {
    /// Creates a switch with an empty forwarding database.
    pub fn new(ports: &[NicConfig], ageing: SimDuration) -> Switch {
        let blocked = vec![false; ports.len()];
        Switch {
            ports: Ports::new(ports.iter()),
            blocked,
            stations: Map::new(),
            ageing,
            received: 0,
            malformed: 0,
            blocked_port: 0,
            same_port: 0,
            no_port: 0,
            forwarded: 0,
            copies: 0,
        }
    }

    /// Processes a frame whose last bit has arrived.
    pub fn receive(&mut self, now: SimTime, port: usize, packet: Packet) {
        self.ports.count_received(port, packet.len());
        self.received += 1;
        let Ok(frame) = Frame::new_checked(packet.bytes()) else {
            self.malformed += 1;
            return;
        };
        let (src, dst) = (frame.src(), frame.dst());
        if self.blocked[port] {
            self.blocked_port += 1;
            return;
        }
        if !src.is_multicast() {
            self.stations.insert(src, (port, now));
        }
        let known = self.stations.get(&dst).filter(|(_, heard)| now.since(*heard) < self.ageing);
        let known = known.map(|(port, _)| *port);
        match known {
            Some(out) if out == port => self.same_port += 1,
            Some(out) => {
                self.forwarded += 1;
                self.ports.send(now, out, packet);
            }
            None => {
                self.stations.remove(&dst);
                let mut ports = 0;
                for other in 0..self.ports.len() {
                    if other != port && !self.blocked[other] {
                        ports += 1;
                        self.forwarded += 1;
                        self.ports.send(now, other, packet.clone());
                    }
                }
                match ports {
                    0 => self.no_port += 1,
                    _ => self.copies += ports - 1,
                }
            }
        }
    }

    /// Takes the next frame whose transmission begins by `now`, ordered by time, then by port.
    pub fn poll(&mut self, now: SimTime) -> Option<EgressFrame> {
        self.ports.poll(now)
    }

    /// Time of the next [`poll`](Self::poll), if no frame is received before.
    pub fn next_event(&self) -> Option<SimTime> {
        self.ports.next_event()
    }

    /// Sets the carrier of a port; the stations behind the port are removed.
    pub fn set_carrier(&mut self, now: SimTime, port: usize, carrier: bool) {
        self.ports.set_carrier(now, port, carrier);
        self.stations.retain(|_, (behind, _)| *behind != port);
    }
    /// Changes the egress of a port.
    pub fn change_port(&mut self, now: SimTime, port: usize, change: &NicChange) {
        self.ports.change(now, port, change);
    }
    /// Applies a change of the spanning tree: blocks exactly these ports, and clears the forwarding
    /// database.
    pub fn set_blocked(&mut self, blocked: &[usize]) {
        for (n, port) in self.blocked.iter_mut().enumerate() {
            *port = blocked.contains(&n);
        }
        self.stations.clear();
    }
    /// Stations known at `now`, each with its port and the time at which it was last seen.
    pub fn stations(&self, now: SimTime) -> impl Iterator<Item = (Address, usize, SimTime)> + '_ {
        let known = self.stations.iter().filter(move |(_, (_, heard))| now.since(*heard) < self.ageing);
        known.map(|(address, (port, heard))| (*address, *port, *heard))
    }
    /// Number of frames queued at a port.
    pub fn queue_len(&self, port: usize) -> usize {
        self.ports.queue_len(port)
    }
    /// Counters of the frames that a port has carried and dropped.
    pub fn counters(&self, port: usize) -> &Counters {
        self.ports.counters(port)
    }
    /// Interface at a port.
    pub fn port(&self, port: usize) -> &Nic {
        self.ports.nic(port)
    }
    /// Number of ports.
    pub fn port_count(&self) -> usize {
        self.ports.len()
    }
    /// Account of the frames between the interfaces at the ports. A frame for a station at the port of its
    /// arrival is filtered, as by any switch (IEEE 802.1Q, section 8.6.1), and not a drop.
    pub fn packet_account(&self) -> PacketAccount {
        let (received, sent) = (self.received, self.forwarded);
        let mut account = PacketAccount { received, sent, ..PacketAccount::default() };
        account.originate("flooded", self.copies);
        account.consume("same_port", self.same_port);
        account.consume("blocked_port", self.blocked_port);
        account.drop_for("malformed", self.malformed);
        account.drop_for("no_port", self.no_port);
        account
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(src: u8, dst: u8) -> Packet {
        let mut bytes = vec![0; 60];
        bytes[5] = dst;
        bytes[11] = src;
        Packet::new(bytes)
    }
    fn ports(switch: &mut Switch, now: SimTime) -> Vec<usize> {
        std::iter::from_fn(|| switch.poll(now)).map(|leaving| leaving.port).collect()
    }
    fn switch() -> Switch {
        Switch::new(&vec![NicConfig::default(); 4], AGEING)
    }
    fn s(n: u64) -> SimTime {
        SimTime::from_secs(n)
    }

    #[test]
    fn stations_are_learnt_and_forgotten() {
        let mut switch = switch();
        let mut send = |at, port, src, dst| {
            switch.receive(s(at), port, frame(src, dst));
            ports(&mut switch, s(at))
        };
        assert_eq!(send(0, 0, 1, 2), [1, 2, 3], "unknown: flooded");
        assert_eq!(send(1, 2, 2, 1), [0]);
        assert_eq!(send(2, 0, 1, 2), [2]);
        assert_eq!(send(3, 2, 2, 2), [], "on the same port");
        assert_eq!(send(300, 3, 4, 2), [2]);
        assert_eq!(send(301, 3, 4, 1), [0]);
        assert_eq!(send(302, 3, 4, 2), [2], "heard of at 3 s");
        assert_eq!(send(304, 3, 4, 1), [0, 1, 2], "not since 2 s");
        assert_eq!(send(305, 1, 2, 4), [3], "it has moved");
        assert_eq!(send(306, 3, 4, 2), [1]);
    }

    #[test]
    fn broadcasts_reach_all_and_blocked_ports_nobody() {
        let mut switch = switch();
        switch.set_blocked(&[3]);
        switch.receive(s(0), 0, frame(1, 0));
        let mut bytes = frame(1, 0).into_bytes();
        bytes[..6].fill(0xff);
        switch.receive(s(1), 0, Packet::new(bytes));
        switch.receive(s(2), 3, frame(2, 1));
        assert_eq!(ports(&mut switch, s(2)), [1, 2, 1, 2]);
        switch.receive(s(3), 1, frame(9, 2));
        assert_eq!(ports(&mut switch, s(3)), [0, 2], "nothing is learnt from a blocked port");
        switch.receive(s(3), 1, Packet::new(vec![0; 13]));
        assert_eq!(ports(&mut switch, s(3)), []);
    }

    #[test]
    fn ports_send_at_their_rate_in_the_order_of_time() {
        let slow = NicConfig { bandwidth_up: Some(480), ..NicConfig::default() };
        let mut switch = Switch::new(&[NicConfig::default(), slow, NicConfig::default()], AGEING);
        switch.receive(s(0), 0, frame(1, 2));
        switch.receive(s(0), 0, frame(1, 2));
        let left: Vec<_> =
            std::iter::from_fn(|| switch.poll(s(9))).map(|l| (l.port, l.at, l.departs)).collect();
        assert_eq!(left, [(1, s(0), s(1)), (2, s(0), s(0)), (2, s(0), s(0)), (1, s(1), s(2))]);
        assert_eq!(switch.next_event(), None);
    }
}
