//! The simulated network's name server, from the point of view of a host. Packets to it are answered after
//! the latency of the experiment's network, without involving another host.

mod streams;

use crate::Stack;
use belljar_base::{EventClass, EventKey, SimDuration, SimTime};
use belljar_net::Packet;
use belljar_net::dns::{self, Zone};
use belljar_wire::{ipv4, protocol, udp};
use std::net::IpAddr;
use std::sync::Arc;
pub use streams::Streams;

/// The name server of a host.
#[derive(Clone, Debug)]
pub struct Resolver {
    /// The zone, which contains all names.
    pub zone: Arc<Zone>,
    /// One-way latency between the host and the name server.
    pub latency: SimDuration,
    /// True while the name server does not respond to this host.
    pub down: bool,
}

/// Pseudo link number for the name server's responses on a host that is not attached to the graph.
pub const SERVICE: usize = usize::MAX;
/// Distinguishes the event keys of the name server's packets from those of packets from the network.
const SEQUENCE: u64 = 1 << 63;

impl Stack {
    /// True if a packet to an address is for the name server. Completes the checksum of such a packet.
    pub(crate) fn is_for_resolver(&self, to: Option<IpAddr>, packet: &mut Packet) -> bool {
        let Some(resolver) = &self.config.resolver else { return false };
        if to != Some(resolver.zone.address.into()) {
            return false;
        }
        packet.fill_checksum();
        ipv4::Packet::new_checked(packet.bytes()).is_ok()
    }

    /// Processes a packet to the name server whose last bit departs at `departs`. Packets other than UDP
    /// queries and TCP segments are dropped.
    pub(crate) fn resolver_input(&mut self, departs: SimTime, packet: &Packet) {
        let Some(resolver) = self.config.resolver.as_ref().filter(|resolver| !resolver.down) else { return };
        let Ok(query) = ipv4::Packet::new_checked(packet.bytes()) else { return };
        let arrives = departs + resolver.latency;
        if query.protocol() == protocol::TCP {
            self.segment_to_resolver(arrives, packet.bytes());
        } else if let Some(answer) = answer(&resolver.zone, &query) {
            let back = arrives + resolver.latency;
            self.deliver_from_resolver(back, answer);
        }
    }

    /// Schedules the arrival of a packet from the name server at `time`.
    fn deliver_from_resolver(&mut self, time: SimTime, packet: Vec<u8>) {
        let sequence = SEQUENCE | self.resolved;
        self.resolved += 1;
        let key = EventKey { time, class: EventClass::Arrival, source: self.config.id, sequence };
        let packet = Packet::with_cookie(packet, 0);
        self.account.from_resolver += u64::from(self.service.is_none());
        // A host that is not attached to the graph receives the packet as from itself.
        self.deliver(key, self.service.map(|_| SERVICE), packet);
    }

    /// Stops or restarts the responses of the name server to this host. Packets in transit still arrive.
    pub fn set_resolver_down(&mut self, down: bool) {
        if let Some(resolver) = &mut self.config.resolver {
            resolver.down = down;
        }
    }
}

fn answer(zone: &Zone, query: &ipv4::Packet<&[u8]>) -> Option<Vec<u8>> {
    if query.protocol() != protocol::UDP || ipv4::Repr::parse(query).is_fragment() {
        return None;
    }
    let datagram = udp::Packet::new_checked(query.payload()).ok()?;
    if datagram.dst_port() != dns::PORT {
        return None;
    }
    let (server, client) = (query.dst(), query.src());
    let mut payload = Vec::new();
    let reply = zone.answer(datagram.payload())?;
    let ends = ((IpAddr::V4(server), dns::PORT), (IpAddr::V4(client), datagram.src_port()));
    udp::Repr::append(ends.0, ends.1, &reply, &mut payload);
    let header = ipv4::Repr::new(server, client, protocol::UDP, payload.len());
    let mut bytes = vec![0; ipv4::HEADER_LEN];
    header.emit(&mut bytes);
    bytes.extend_from_slice(&payload);
    Some(bytes)
}
