//! Data packets forwarded through a network of IPv4 nodes.

use super::Network;
use crate::{DataPlaneEvent, InterfaceId, Prefix, Protocol, Verdict};
use belljar_wire::{ipv4, protocol};
use std::net::Ipv4Addr;

/// An IPv4 packet with a payload of four bytes.
pub(crate) fn ip_packet(src: Ipv4Addr, dst: Ipv4Addr) -> Vec<u8> {
    let mut packet = vec![0; 24];
    packet[0] = 0x45;
    packet[3] = 24;
    packet[8] = 64;
    packet[9] = protocol::UDP;
    packet[12..16].copy_from_slice(&src.octets());
    packet[16..20].copy_from_slice(&dst.octets());
    assert!(ipv4::Packet::new_checked(&packet[..]).is_ok());
    packet
}

impl<P: Protocol<Address = Ipv4Addr, Destination = Prefix>> Network<P> {
    /// The interface and address of the next hop, by longest-prefix match.
    fn lookup(&self, node: usize, to: Ipv4Addr) -> Option<(InterfaceId, Ipv4Addr)> {
        let fits = self.nodes[node].table.values().filter(|route| route.destination.contains(to));
        fits.max_by_key(|route| route.destination.bits()).map(|route| (route.interface, route.next_hop))
    }
    fn owns(&self, node: usize, address: Ipv4Addr) -> bool {
        self.nodes[node].addresses.values().any(|own| *own == address)
    }

    /// The nodes on a packet's path, including the first and last; `None` if it does not arrive.
    pub fn trace(&self, from: usize, to: Ipv4Addr) -> Option<Vec<usize>> {
        let mut path = vec![from];
        let mut at = from;
        while !self.owns(at, to) {
            let (interface, next_hop) = self.lookup(at, to)?;
            at = self.neighbor((at, interface.0), next_hop)?.0;
            path.push(at);
            if path.len() > self.nodes.len() {
                return None;
            }
        }
        Some(path)
    }

    /// Sends a packet from a node and reports data-plane events to each node on its path. True if the packet
    /// arrives.
    pub fn send(&mut self, from: usize, packet: &[u8]) -> bool {
        let header = ipv4::Packet::new_checked(packet).expect("a sound packet");
        let (source, destination) = (header.src(), header.dst());
        let mut at = from;
        for _ in 0..=self.nodes.len() {
            self.call(at, |p, now| p.on_data_plane(now, DataPlaneEvent::Used { source, destination }));
            if self.owns(at, destination) {
                return true;
            }
            let Some((interface, neighbor)) = self.lookup(at, destination) else {
                self.call(at, |p, now| p.on_data_plane(now, DataPlaneEvent::NoRoute { packet }));
                return false;
            };
            match self.neighbor((at, interface.0), neighbor) {
                Some(next) => at = next.0,
                None => {
                    self.call(at, |p, now| {
                        p.on_data_plane(now, DataPlaneEvent::LinkLost { interface, neighbor })
                    });
                    return false;
                }
            }
        }
        false
    }

    /// Sends the packets that a node has released. Returns the number of packets that arrive.
    pub fn send_released(&mut self, node: usize) -> usize {
        let released = std::mem::take(&mut self.nodes[node].released);
        let going: Vec<_> = released.into_iter().filter(|r| r.verdict == Verdict::Send).collect();
        going.iter().filter(|released| self.send(node, &released.packet)).count()
    }
}
