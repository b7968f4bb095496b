//! Interfaces that the administrator makes while a host runs: dummies, which swallow what they are given, and VLANs (IEEE 802.1Q) of
//! interfaces that carry frames.

use crate::interface::{Attachment, Interface};
use crate::interfaces::Interfaces;
use crate::tun::TunCounters;
use crate::{PacketDirection, Stack};
use belljar_net::Packet;
use belljar_wire::ethernet::HEADER_LEN;

/// The EtherType of a tag, and the length of one.
pub const TAGGED: u16 = 0x8100;
const TAG_LEN: usize = 4;
/// The VLAN's number within a tag.
const VLAN_ID: u16 = 0xfff;

impl Stack {
    /// Makes an interface of this name and gives its number; a VLAN has its hardware address, MTU and carrier from the interface
    /// below unless others are given.
    pub fn add_virtual(
        &mut self,
        name: &str,
        attachment: Attachment,
        mac: Option<[u8; 6]>,
        mtu: Option<usize>,
    ) -> usize {
        let below = match attachment {
            Attachment::Vlan { below, .. } => Some(&self.interfaces[below]),
            _ => None,
        };
        let inherited = below.map(|below| (below.mac, below.mtu, below.carrier));
        let mac = mac.or(inherited.map(|(mac, ..)| mac)).unwrap_or_else(|| self.random_mac());
        let mut interface = Interface::program(name, mac, attachment);
        if let Some((_, mtu, carrier)) = inherited {
            (interface.mtu, interface.carrier) = (mtu, carrier);
        }
        interface.mtu = mtu.unwrap_or(interface.mtu);
        self.has_pairs |= matches!(attachment, Attachment::Veth { .. });
        let number = self.interfaces.len();
        self.interfaces.push(interface);
        self.interface_settings.begin(number);
        number
    }

    /// A hardware address of the host's own.
    pub fn random_mac(&mut self) -> [u8; 6] {
        let mut mac = [0; 6];
        self.tun_addresses.fill(&mut mac);
        mac[0] = mac[0] & 0xfc | 0x02;
        mac
    }

    /// A dummy is given a packet, or a frame: it is sent, and nobody receives it.
    #[inline(never)]
    pub(crate) fn dummy_output(&mut self, interface: usize, packet: Packet) -> bool {
        self.interfaces.count_virtual(interface, packet.len(), PacketDirection::Out);
        let (cookie, len) = (packet.cookie(), packet.len());
        if cookie != 0 {
            self.taken_over.push_back((cookie, len));
        }
        self.recycle_buffer(packet.into_bytes());
        true
    }

    /// Sends a frame over a VLAN: with a tag, over the interface below.
    #[inline(never)]
    pub(crate) fn vlan_output(&mut self, interface: usize, below: usize, id: u16, mut frame: Packet) -> bool {
        if !self.interfaces[below].up {
            return false;
        }
        self.seen(self.clock.now(), interface, &mut frame, PacketDirection::Out);
        self.interfaces.count_virtual(interface, frame.len(), PacketDirection::Out);
        let (cookie, checksum, mark) = (frame.cookie(), frame.checksum(), frame.mark());
        let mut bytes = frame.into_bytes();
        let [a, b] = TAGGED.to_be_bytes();
        let [c, d] = id.to_be_bytes();
        bytes.splice(HEADER_LEN - 2..HEADER_LEN - 2, [a, b, c, d]);
        self.send_framed(below, Packet::with_cookie(bytes, cookie).with_checksum(checksum).with_mark(mark))
    }

    /// A tagged frame is received by the interface below.
    #[inline(never)]
    pub(crate) fn vlan_input(&mut self, below: usize, frame: Packet) {
        let (checksum, mark) = (frame.checksum(), frame.mark());
        let mut bytes = frame.into_bytes();
        let tag = bytes.get(HEADER_LEN..HEADER_LEN + 2).map(|tag| u16::from_be_bytes([tag[0], tag[1]]));
        let vlan = tag.and_then(|tag| self.interfaces.vlan(below, tag & VLAN_ID));
        match vlan.filter(|vlan| self.interfaces[*vlan].up && bytes.len() >= HEADER_LEN + TAG_LEN) {
            None => self.recycle_buffer(bytes),
            Some(vlan) => {
                bytes.drain(HEADER_LEN - 2..HEADER_LEN - 2 + TAG_LEN);
                self.interfaces.count_virtual(vlan, bytes.len(), PacketDirection::In);
                self.frame_input(vlan, Packet::new(bytes).with_checksum(checksum).with_mark(mark));
            }
        }
    }
}

impl Interfaces {
    /// The VLANs of an interface, by number.
    pub fn vlans_of(&self, interface: usize) -> Vec<usize> {
        let all = self.iter().enumerate();
        all.filter(
            |(_, other)| matches!(other.attachment, Attachment::Vlan { below, .. } if below == interface),
        )
        .map(|(number, _)| number)
        .collect()
    }

    /// The VLAN of an interface with this number.
    pub fn vlan(&self, below: usize, id: u16) -> Option<usize> {
        self.iter().position(|other| other.attachment == Attachment::Vlan { below, id })
    }

    /// What has passed an interface that the administrator has made.
    pub fn virtual_counters(&self, interface: usize) -> TunCounters {
        self.counters.get(&interface).copied().unwrap_or_default()
    }

    pub(crate) fn count_virtual(&mut self, interface: usize, len: usize, direction: PacketDirection) {
        let counters = self.counters.entry(interface).or_default();
        let (packets, octets) = match direction {
            PacketDirection::In => &mut counters.received,
            PacketDirection::Out => &mut counters.sent,
        };
        (*packets, *octets) = (*packets + 1, *octets + len as u64);
    }
}
