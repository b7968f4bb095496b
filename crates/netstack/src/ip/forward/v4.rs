//! Forwarding of IPv4 packets.

use crate::Stack;
use crate::account::{DropCause, PacketDisposition};
use crate::buffers;
use crate::conf::v4;
use crate::family::{FlowKey, RouteQuery};
use crate::ip::{Onward, icmp};
use belljar_net::Packet;
use belljar_net::forward::{self, ForwardError};
use belljar_net::policy::Action;
use belljar_net::routes::NextHop;
use belljar_net::routes::RouteKind;

impl Stack {
    /// Forwards a packet for another host.
    pub(in crate::ip) fn ip_forward(&mut self, interface: usize, packet: Packet) -> PacketDisposition {
        let (mark, tracking) = (packet.mark(), packet.tracking());
        let mut bytes = packet.into_bytes();
        let total = usize::from(u16::from_be_bytes([bytes[2], bytes[3]]));
        bytes.truncate(total);
        let (from, to) = (forward::source(&bytes), forward::destination(&bytes));
        let no_host =
            from.is_unspecified() || from.is_loopback() || from.is_multicast() || from.is_broadcast();
        if no_host || to.is_loopback() || !self.arrived_as_one {
            self.counters.not_for_us += 1;
            self.counters.ip[0].in_address_errors += 1;
            buffers::recycle(bytes);
            return PacketDisposition::dropped(DropCause::Martian);
        }
        if bytes[8] <= 1 {
            self.counters.ip[0].in_header_errors += 1;
            self.counters.forwarding.expired += 1;
            self.refuse(&bytes, ForwardError::TimeExceeded);
            buffers::recycle(bytes);
            return PacketDisposition::dropped(DropCause::TtlExpired);
        }
        let sender = match self.policy.is_plain() {
            true => FlowKey::default(),
            false => flow_key(&bytes),
        };
        let asked =
            RouteQuery { arrived: interface, mark, tos: bytes[1], sender, ..RouteQuery::own(to, Some(from)) };
        let hash = || match self.sysctls.multipath_hash {
            0 => crate::flow_hash::flow_hash_of(self.flow_key, from, to),
            _ => forward::flow_hash(self.flow_key, &bytes),
        };
        let found = self.lookup(&asked, hash);
        let found = found.map(|f| f.map(|found| (found.hop, found.route.kind, found.route.metrics.mtu)));
        let refusal = match found {
            Ok(Some((Some(hop), _, of_route))) => {
                // `ip_dst_mtu_maybe_forward`: the MTU metric of a route applies to forwarded packets too.
                let mtu =
                    self.interfaces.mtu(hop.interface).min(of_route.map_or(usize::MAX, |mtu| mtu as usize));
                if bytes.len() <= mtu || forward::may_fragment(&bytes) {
                    forward::count_hop(&mut bytes);
                    if hop.interface == interface {
                        self.tell_better_router(interface, &hop, &bytes);
                    }
                    if let Some(clamp) = self.config.clamp_mss {
                        self.clamp_mss(clamp, from, mtu, &mut bytes);
                    }
                    let onward = Onward { mtu, ..Onward::by(hop.interface, hop.next()) };
                    return self.ip_forward_finish(
                        interface,
                        Packet::new(bytes).with_mark(mark).with_tracking(tracking),
                        &onward,
                    );
                }
                self.counters.ip[0].not_cut += 1;
                self.refuse(&bytes, ForwardError::FragmentationNeeded(mtu as u16));
                buffers::recycle(bytes);
                return PacketDisposition::dropped(DropCause::TooBig);
            }
            Ok(Some((None, RouteKind::Blackhole, _))) | Err(Action::Blackhole) => None,
            Ok(Some((None, RouteKind::Prohibit, _))) | Err(Action::Prohibit) => {
                Some(ForwardError::Prohibited)
            }
            Ok(Some((None, ..))) => Some(ForwardError::HostUnreachable),
            Ok(None) | Err(_) => {
                self.counters.ip[0].in_no_routes += 1;
                Some(ForwardError::NetworkUnreachable)
            }
        };
        self.counters.forwarding.no_route += 1;
        if let Some(why) = refusal {
            self.refuse(&bytes, why);
        }
        buffers::recycle(bytes);
        PacketDisposition::dropped(DropCause::NoRoute)
    }

    /// Sends an ICMP error to the source of a packet, which may be this host.
    pub fn refuse(&mut self, packet: &[u8], why: ForwardError) {
        let Some(mut message) = forward::refusal_message(packet, why) else { return };
        let to = forward::source(packet).into();
        let Ok(mut route) = self.route(to, None, None) else { return };
        if route.source.is_unspecified() {
            route.source = forward::NO_ADDRESS.into();
        }
        self.send_icmp_by(route, false, icmp::ERROR_TOS, &mut message);
    }

    /// Sends a redirect to the source of a packet that is forwarded on the link of its arrival.
    pub fn tell_better_router(&mut self, interface: usize, hop: &NextHop, packet: &[u8]) {
        let from = forward::source(packet);
        let on_link = self.interfaces[interface].addresses.iter().any(|own| own.network().contains(from));
        if hop.gateway6.is_some()
            || !on_link
            || !self.interface_settings.either(v4::SEND_REDIRECTS, interface)
            || !self.redirects.is_due(from, self.clock.now())
        {
            return;
        }
        let better = hop.gateway.unwrap_or_else(|| forward::destination(packet));
        let Some(mut message) = forward::redirect_message(packet, better) else { return };
        let Ok(route) = self.route(from.into(), None, None) else { return };
        self.send_icmp_by(route, false, icmp::ERROR_TOS, &mut message);
    }
}

/// The selector by which policy rules match a packet, apart from its addresses.
#[cold]
fn flow_key(packet: &[u8]) -> FlowKey {
    let payload = packet.get(usize::from(packet[0] & 0xf) * 4..).unwrap_or_default();
    // Fragments other than the first have no port numbers.
    let whole = u16::from_be_bytes([packet[6], packet[7]]) & 0x1fff == 0;
    FlowKey::of_forwarded(packet[9], if whole { payload } else { &[] })
}
