//! The simulated network's name server, from the point of view of a host. Packets to it are answered after
//! the latency of the experiment's network, without involving another host.

mod delivery;
mod streams;

use belljar_base::SimDuration;
use belljar_net::Packet;
use belljar_net::dns::{self, DnsFaults, Zone};
use belljar_wire::{ipv4, protocol, udp};
use std::net::IpAddr;
use std::sync::Arc;
pub use streams::{Serving, Streams};

/// The name server of a host.
#[derive(Clone, Debug)]
pub struct Resolver {
    /// The zone, which contains all names.
    pub zone: Arc<Zone>,
    /// One-way latency between the host and the name server.
    pub latency: SimDuration,
    /// True while the name server does not respond to this host.
    pub down: bool,
    /// Wrong answers to this host.
    pub faults: DnsFaults,
}

impl Resolver {
    /// True if a packet to an address is for the name server. Completes the checksum of such a packet.
    pub(crate) fn is_for(&self, to: Option<IpAddr>, packet: &mut Packet) -> bool {
        if to != Some(self.zone.address.into()) {
            return false;
        }
        packet.fill_checksum();
        ipv4::Packet::new_checked(packet.bytes()).is_ok()
    }

    /// The packet that answers a query over UDP; `None` for other packets.
    fn answer(&self, query: &ipv4::Packet<&[u8]>) -> Option<Vec<u8>> {
        if query.protocol() != protocol::UDP || ipv4::Repr::parse(query).is_fragment() {
            return None;
        }
        let datagram = udp::Packet::new_checked(query.payload()).ok()?;
        if datagram.dst_port() != dns::PORT {
            return None;
        }
        let (server, client) = (query.dst(), query.src());
        let mut payload = Vec::new();
        let reply = self.zone.faulty_answer(datagram.payload(), false, &self.faults)?;
        let ends = ((IpAddr::V4(server), dns::PORT), (IpAddr::V4(client), datagram.src_port()));
        udp::Repr::append(ends.0, ends.1, &reply, &mut payload);
        let header = ipv4::Repr::new(server, client, protocol::UDP, payload.len());
        let mut bytes = vec![0; ipv4::HEADER_LEN];
        header.emit(&mut bytes);
        bytes.extend_from_slice(&payload);
        Some(bytes)
    }
}

/// Pseudo link number for the name server's responses on a host that is not attached to the graph.
pub const SERVICE: usize = usize::MAX;
