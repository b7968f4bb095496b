//! ARP (`net/ipv4/arp.c` of Linux): processing of requests and replies, and the source address of requests.

use crate::account::{DropCause, Origin, PacketDisposition, Receiver};
use crate::conf::v4;
use crate::devices::vrf;
use crate::family::RouteQuery;
use crate::{LO, Stack};
use belljar_linux_abi::c;
use belljar_net::frame::{arp_frame, arp_reply, arp_request};
use belljar_net::routes::RouteKind;
use belljar_wire::arp;
use belljar_wire::ethernet::Address;
use std::net::Ipv4Addr;

impl Stack {
    /// Sends an ARP request for `target` (`arp_solicit`). `source` is the source address of a queued packet.
    pub fn ask(&mut self, interface: usize, target: Ipv4Addr, to: Option<Address>, source: Option<Ipv4Addr>) {
        let Some(source) = question_source(self, interface, target, source) else { return };
        let own = Address(self.interfaces[interface].mac);
        let question = arp_request(own, source, target);
        let frame = arp_frame(to.unwrap_or(Address::BROADCAST), &question);
        self.transmit_frame(Origin::Arp, interface, frame);
    }

    /// Processes a received ARP packet (`arp_process`).
    pub(crate) fn arp_input(&mut self, interface: usize, payload: &[u8]) -> PacketDisposition {
        let consumed = PacketDisposition::consumed(Receiver::Arp);
        if !self.interfaces[interface].asks_neighbours() {
            return consumed;
        }
        let heard = arp::Packet::new_checked(payload).ok().and_then(|packet| arp::Repr::parse(&packet).ok());
        let Some(heard) = heard else {
            self.counters.malformed += 1;
            return PacketDisposition::dropped(DropCause::Malformed);
        };
        let (ip, mac, target) = (heard.sender_protocol, heard.sender_hardware, heard.target_protocol);
        let own = match self.interfaces.has_vrfs {
            true => vrf::is_local_within(self, interface, target.into()),
            false => self.interfaces.with_address(target).is_some() || self.is_of_local_network(target),
        };
        let for_us = own && !target.is_loopback();
        let reply = heard.operation == arp::Operation::Reply;
        let answers = !reply
            && match for_us {
                true => self.answers_for_own(interface, ip, target),
                false => self.answers_for_others(interface, target),
            };
        if for_us && !reply && !answers {
            return consumed;
        }
        let now = self.clock.now();
        if !ip.is_unspecified() {
            let accepted = ip == target && self.interface_settings.either(v4::ARP_ACCEPT, interface);
            // A broadcast reply does not confirm reachability.
            self.neighbours.learn(now, interface, ip, mac, reply && for_us, answers || accepted);
        }
        if answers {
            let answer = arp_reply(&heard, Address(self.interfaces[interface].mac));
            self.transmit_frame(Origin::Arp, interface, arp_frame(mac, &answer));
        }
        consumed
    }

    /// True if a request for an address of this host is answered under `arp_ignore` and `arp_filter`.
    fn answers_for_own(&self, interface: usize, asker: Ipv4Addr, target: Ipv4Addr) -> bool {
        let own = &self.interfaces[interface].addresses;
        let heeded = match self.interface_settings.greatest(v4::ARP_IGNORE, interface) {
            1 => own.iter().any(|own| own.ip == target),
            2 => own.iter().any(|own| own.ip == target && own.network().contains(asker)),
            3 => self.interfaces.with_address(target) != Some(LO),
            8 => false,
            _ => true,
        };
        if !heeded || !self.interface_settings.either(v4::ARP_FILTER, interface) {
            return heeded;
        }
        let route = self.route(asker.into(), Some(target.into()), None);
        route.is_ok_and(|route| route.interface == interface)
    }

    /// True if this host answers as a proxy (`proxy_arp`): it forwards to `target` by another interface.
    fn answers_for_others(&self, interface: usize, target: Ipv4Addr) -> bool {
        if !self.interface_settings.either(v4::PROXY_ARP, interface)
            || !self.interface_settings.forwards(&self.sysctls, false, interface)
        {
            return false;
        }
        let asked = RouteQuery { arrived: interface, ..RouteQuery::own(target, None) };
        let found = self.lookup(&asked, || 0).ok().flatten();
        found.is_some_and(|found| {
            found.route.kind == RouteKind::Unicast && found.hop.is_some_and(|hop| hop.interface != interface)
        })
    }
}

/// Source address of a request under `arp_announce`: that of the packet, or one in the target's network.
fn question_source(
    net: &Stack,
    interface: usize,
    target: Ipv4Addr,
    packet: Option<Ipv4Addr>,
) -> Option<Ipv4Addr> {
    let own = packet.filter(|source| net.interfaces.with_address(*source).is_some());
    let together = |source: &Ipv4Addr| {
        let addresses = &net.interfaces[interface].addresses;
        addresses.iter().any(|own| own.network().contains(*source) && own.network().contains(target))
    };
    let own = match net.interface_settings.greatest(v4::ARP_ANNOUNCE, interface) {
        0 => own,
        1 => own.filter(together),
        _ => None,
    };
    own.or_else(|| net.interfaces.source_on(interface, Some(target), c::RT_SCOPE_LINK))
}
