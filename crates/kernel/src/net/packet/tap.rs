//! Delivery of frames that pass an interface to packet sockets.

use super::LinkAddress;
use crate::host::Host;
use crate::ids::SocketKey;
use crate::net::own::OwnKind;
use crate::net::udp::charge;
use belljar_base::SimTime;
use belljar_linux_abi::c;
use belljar_net::frame::{arp_frame, arp_reply};
use belljar_netstack::filter::Metadata;
use belljar_netstack::interface::Attachment;
use belljar_netstack::readiness::READABLE;
use belljar_netstack::shown_frames::graph_mac;
use belljar_netstack::{PacketDirection, Passed, Stack, interface_index};
use belljar_objects::packet_sockets::Frame;
use belljar_wire::arp;
use belljar_wire::ethernet::{self, Address};

/// `ARPHRD_NONE`.
const NO_HARDWARE: u16 = 0xfffe;

/// Frame as delivered to packet sockets.
pub(super) struct TappedFrame<'a> {
    pub(super) direction: PacketDirection,
    pub(super) interface: usize,
    header: [u8; ethernet::HEADER_LEN],
    pub(super) payload: &'a [u8],
    pub(super) from: LinkAddress,
    /// True if the interface's frames have no link-layer header (TUN).
    bare: bool,
}

impl Host {
    /// Delivers a frame that passed an interface of a network to the packet sockets.
    pub(crate) fn show_frame(&mut self, network: u32, passed: &Passed) {
        let Passed { at, interface, direction, ref bytes, hardware } = *passed;
        let parts = self.stack(network).interfaces.frame_parts(interface, bytes, direction);
        let Some((header, payload)) = parts else { return };
        self.tap_frame((at, hardware), (network, interface), (header, payload), direction);
    }

    /// Delivers a frame given as header and payload.
    fn tap_frame(
        &mut self,
        at: (SimTime, i64),
        (network, interface): (u32, usize),
        (header, payload): ([u8; ethernet::HEADER_LEN], &[u8]),
        direction: PacketDirection,
    ) {
        let destination: [u8; 6] = header[..6].try_into().expect("six bytes");
        let tapped = &self.stack(network).interfaces[interface];
        let own = tapped.mac;
        let packet_type = match (direction, destination) {
            (PacketDirection::Out, _) => c::PACKET_OUTGOING,
            (_, [0xff, 0xff, 0xff, 0xff, 0xff, 0xff]) => c::PACKET_BROADCAST,
            (_, [first, ..]) if first & 1 != 0 => c::PACKET_MULTICAST,
            (_, to) if to != own => c::PACKET_OTHERHOST,
            _ => c::PACKET_HOST,
        };
        let mut from = LinkAddress {
            protocol: u16::from_be_bytes([header[12], header[13]]),
            index: interface_index(interface),
            hardware_type: tapped.hardware_type(),
            packet_type,
            ..LinkAddress::default()
        };
        if from.hardware_type != NO_HARDWARE {
            from.set_address(&header[6..12]);
        }
        let bare = matches!(tapped.attachment, Attachment::Tun(_));
        let seen = TappedFrame { direction, interface, header, payload, from, bare };
        for key in self.own.packets_in(&self.net, network) {
            if self.own.packet(key).fanout.is_none() {
                self.tap_socket(at, key, &seen);
            }
        }
        if !self.own.fanouts.groups.is_empty() {
            for key in self.chosen_of_groups(network, &seen) {
                self.tap_socket(at, key, &seen);
            }
        }
    }

    /// Sockets of a network that receive a frame on behalf of their fanout groups (`PACKET_FANOUT`), one for
    /// each group.
    fn chosen_of_groups(&mut self, network: u32, seen: &TappedFrame<'_>) -> Vec<SocketKey> {
        let outgoing = seen.from.packet_type == c::PACKET_OUTGOING;
        let mut fanouts = std::mem::take(&mut self.own.fanouts);
        let flow_key = self.stack(network).flow_key;
        let Host { own, net, networks, .. } = self;
        let Stack { sockets, filter_random, .. } = net;
        let random = match networks.further.get_mut(&network) {
            Some(stack) => &mut stack.filter_random,
            None => filter_random,
        };
        let hears = |key: SocketKey| match own.get(key) {
            Some(OwnKind::Packet(packet)) => packet.hears(seen.direction, seen.from.protocol, seen.interface),
            _ => false,
        };
        let mut chosen = Vec::new();
        for group in &mut fanouts.groups {
            if group.listener(network, outgoing).is_some_and(hears) {
                let room = |key| own.packet_has_room(sockets, key);
                chosen.push(group.choose(seen.payload, flow_key, random, room));
            }
        }
        self.own.fanouts = fanouts;
        chosen
    }

    /// Answers an ARP request sent as a frame on the graph's interface. The graph reaches every address, so
    /// all requests are answered except those for addresses of this network and those from the unspecified
    /// address.
    pub(super) fn answer_for_graph(&mut self, (network, interface): (u32, usize), frame: &[u8]) {
        let (now, own) = (self.net.clock.now(), self.stack(network).interfaces[interface].mac);
        let Some((head, payload)) = frame.split_first_chunk::<{ ethernet::HEADER_LEN }>() else { return };
        self.tap_frame((now, 0), (network, interface), (*head, payload), PacketDirection::Out);
        let asked = arp::Packet::new_checked(payload).ok().and_then(|packet| arp::Repr::parse(&packet).ok());
        let Some(asked) = asked.filter(|asked| asked.operation == arp::Operation::Request) else { return };
        let target = asked.target_protocol;
        if asked.sender_protocol.is_unspecified()
            || self.stack(network).interfaces.with_address(target).is_some()
        {
            return;
        }
        let answer = arp_frame(Address(own), &arp_reply(&asked, Address(graph_mac(target))));
        if let Some((head, payload)) = answer.split_first_chunk::<{ ethernet::HEADER_LEN }>() {
            self.tap_frame((now, 0), (network, interface), (*head, payload), PacketDirection::In);
        }
    }

    fn tap_socket(&mut self, (at, hardware): (SimTime, i64), key: SocketKey, seen: &TappedFrame<'_>) {
        let socket = &self.net.sockets[key.0];
        let Some(OwnKind::Packet(packet)) = self.own.get(key) else { return };
        if !packet.hears(seen.direction, seen.from.protocol, seen.interface) {
            return;
        }
        let cooked = socket.type_ == c::SOCK_DGRAM;
        // A `SOCK_DGRAM` socket receives the payload only; a filter sees the same bytes as its socket.
        let mut bytes = Vec::with_capacity(seen.header.len() + seen.payload.len());
        if !cooked && !seen.bare {
            bytes.extend_from_slice(&seen.header);
        }
        let network = bytes.len();
        bytes.extend_from_slice(seen.payload);
        let metadata = Metadata {
            protocol: seen.from.protocol,
            packet_type: seen.from.packet_type,
            interface: seen.from.index,
            hardware_type: seen.from.hardware_type,
            network_offset: network,
            random: 0,
        };
        let Some(kept) = self.net.sockets[key.0].filtered(&mut self.net.filter_random, &bytes, metadata)
        else {
            return;
        };
        let len = bytes.len();
        bytes.truncate(kept);
        let frame = Frame { bytes, len, network, from: seen.from, arrived: at, hardware };
        self.own.packet(key).packets += 1;
        let stamp = self.net.clock.realtime_ns() - self.net.clock.now().as_nanos() + at.as_nanos();
        if self.own.packet(key).rings.has_receiver() {
            return self.ring_receive(key, frame, stamp);
        }
        let room = self.net.socket(key).options.receive_buffer;
        let packet = self.own.packet(key);
        if packet.queued_charge > room {
            return packet.drop_one();
        }
        packet.queued_charge += charge(frame.bytes.len());
        packet.queue.push_back(frame);
        self.net.effects.notify_socket(key, READABLE);
    }
}
