//! The simulated network's name server, as a host meets it: what the host sends there is answered
//! after the time that the experiment's network takes, without another host.

mod streams;

use crate::Stack;
use belljar_base::{EventClass, EventKey, SimDuration, SimTime};
use belljar_net::Packet;
use belljar_net::dns::{self, Zone};
use belljar_wire::{ipv4, protocol, udp};
use std::net::IpAddr;
use std::sync::Arc;
pub use streams::Streams;

/// Where the name server is for a host, and what it knows.
#[derive(Clone, Debug)]
pub struct Resolver {
    /// All names.
    pub zone: Arc<Zone>,
    /// The time from the host to the name server, and back again.
    pub latency: SimDuration,
    /// It does not answer this host at present.
    pub down: bool,
}

/// Stands for the link by which the name server's answers come on a host without the graph.
pub const SERVICE: usize = usize::MAX;
/// Keeps the name server's packets apart from those that come over the network.
const SEQUENCE: u64 = 1 << 63;

impl Stack {
    /// True if a packet to an address is for the name server; then its checksum is filled in.
    pub(crate) fn is_for_resolver(&self, to: Option<IpAddr>, packet: &mut Packet) -> bool {
        let Some(resolver) = &self.config.resolver else { return false };
        if to != Some(resolver.zone.address.into()) {
            return false;
        }
        packet.fill_checksum();
        ipv4::Packet::new_checked(packet.bytes()).is_ok()
    }

    /// The name server gets a packet whose last bit leaves at `departs`. What is no query over UDP and no segment of TCP is
    /// lost there.
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

    /// A packet of the name server will arrive at `time`.
    fn deliver_from_resolver(&mut self, time: SimTime, packet: Vec<u8>) {
        let sequence = SEQUENCE | self.resolved;
        self.resolved += 1;
        let key = EventKey { time, class: EventClass::Arrival, source: self.config.id, sequence };
        let packet = Packet::with_cookie(packet, 0);
        // On a host without the graph the name server is as near as the host itself.
        self.deliver(key, self.service.map(|_| SERVICE), packet);
    }

    /// The name server answers this host no longer, or again. What is on its way arrives.
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
