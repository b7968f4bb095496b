//! Forwarding of IPv6 packets.

use crate::LO;
use crate::Stack;
use crate::account::{DropCause, PacketDisposition};
use crate::buffers;
use crate::devices::vrf;
use crate::family::{FlowKey, RouteQuery};
use crate::ip::{Onward, icmp};
use belljar_net::Packet;
use belljar_net::forward::ForwardError;
use belljar_net::forward6;
use belljar_net::policy::Action;
use belljar_net::routes::RouteKind;
use belljar_wire::ipv6;
use std::net::IpAddr;

impl Stack {
    /// Forwards a packet for another host.
    pub(in crate::ip) fn ip_forward6(&mut self, interface: usize, packet: Packet) -> PacketDisposition {
        let (mark, tracking) = (packet.mark(), packet.tracking());
        let mut bytes = packet.into_bytes();
        let Ok(header) = ipv6::Repr::parse(&bytes) else {
            buffers::recycle(bytes);
            return PacketDisposition::dropped(DropCause::Malformed);
        };
        bytes.truncate(ipv6::HEADER_LEN + header.payload_len);
        let (from, to) = (header.src, header.dst);
        let no_host = from.is_unspecified() || from.is_loopback() || from.is_multicast();
        if no_host || to.is_loopback() || to.is_multicast() || !self.arrived_as_one {
            self.counters.ip[1].in_address_errors += 1;
            buffers::recycle(bytes);
            return PacketDisposition::dropped(DropCause::Martian);
        }
        // Link-scope packets are not forwarded.
        let stays = ipv6::is_link_scope(from) || ipv6::is_link_scope(to);
        if header.hop_limit <= 1 {
            self.counters.ip[1].in_header_errors += 1;
            self.counters.forwarding.expired += 1;
            self.refuse6(interface, &bytes, ForwardError::TimeExceeded);
            buffers::recycle(bytes);
            return PacketDisposition::dropped(DropCause::TtlExpired);
        }
        let refusal = if stays {
            None
        } else {
            let hash = forward6::flow_hash(self.flow_key, &bytes);
            let sender = match ipv6::upper(&bytes) {
                Ok(upper) => FlowKey::of_forwarded(upper.protocol, &bytes[upper.payload]),
                Err(_) => FlowKey::default(),
            };
            let tos = header.traffic_class;
            let asked =
                RouteQuery { arrived: interface, mark, tos, sender, ..RouteQuery::own(to, Some(from)) };
            let found = self.lookup(&asked, || hash);
            let found = found.map(|f| f.map(|found| (found.hop, found.route.kind, found.route.metrics)));
            match found {
                Ok(Some((Some(hop), _, metrics))) => {
                    // `ip6_dst_mtu_maybe_forward`: unlike for IPv4, only a locked MTU metric applies.
                    let of_route =
                        metrics.mtu.filter(|_| metrics.mtu_locked).map_or(usize::MAX, |mtu| mtu as usize);
                    let mtu = self.interfaces.mtu(hop.interface).min(of_route);
                    if bytes.len() <= mtu {
                        ipv6::decrement_hop_limit(&mut bytes);
                        if let Some(clamp) = self.config.clamp_mss {
                            self.clamp_mss(clamp, from, mtu, &mut bytes);
                        }
                        let onward = Onward::by(hop.interface, hop.gateway.map(IpAddr::V6));
                        let packet = Packet::new(bytes).with_mark(mark).with_tracking(tracking);
                        return self.ip_forward_finish(interface, packet, &onward);
                    }
                    self.refuse6(interface, &bytes, ForwardError::FragmentationNeeded(mtu as u16));
                    buffers::recycle(bytes);
                    return PacketDisposition::dropped(DropCause::TooBig);
                }
                Ok(Some((None, RouteKind::Blackhole, _))) | Err(Action::Blackhole) => None,
                Ok(Some((None, RouteKind::Prohibit, _))) | Err(Action::Prohibit) => {
                    Some(ForwardError::Prohibited)
                }
                Ok(_) | Err(_) => Some(ForwardError::NetworkUnreachable),
            }
        };
        self.counters.forwarding.no_route += 1;
        if let Some(why) = refusal {
            self.refuse6(interface, &bytes, why);
        }
        buffers::recycle(bytes);
        PacketDisposition::dropped(DropCause::NoRoute)
    }

    /// Sends an ICMPv6 error to the source of a packet, which may be this host.
    pub fn refuse6(&mut self, interface: usize, packet: &[u8], why: ForwardError) {
        let Some(mut message) = forward6::refusal_message(packet, why) else { return };
        let to: IpAddr = ipv6::source(packet).into();
        let Ok(route) = self.route(to, None, vrf::answer_device(self, to, interface)) else { return };
        self.send_icmp_by(route, interface == LO, icmp::ERROR_TOS_V6, &mut message);
    }
}
