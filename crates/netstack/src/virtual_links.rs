//! Interfaces that the administrator creates while a host runs: dummies, which discard all packets, VLANs
//! (IEEE 802.1Q) on Ethernet interfaces, and TUN and TAP interfaces.

use crate::account::{DropCause, Origin, PacketDisposition, Receiver};
use crate::interface::{Attachment, Interface};
use crate::interfaces::Interfaces;
use crate::readiness::READABLE;
use crate::stamping;
use crate::timestamps::is_stamped;
use crate::traffic;
use crate::tun::TunCounters;
use crate::{Effect, PacketDirection, Stack, buffers};
use belljar_base::Stream;
use belljar_linux_abi::Errno;
use belljar_net::Packet;
use belljar_wire::ethernet;
use belljar_wire::ethernet::HEADER_LEN;

/// The EtherType of a VLAN tag, and below it the length of a tag in bytes.
pub const TAGGED: u16 = 0x8100;
const TAG_LEN: usize = 4;
/// Mask of the VLAN ID in a tag.
const VLAN_ID: u16 = 0xfff;

impl Stack {
    /// Creates an interface of this name and returns its number. A VLAN inherits the hardware address, MTU
    /// and carrier of its lower interface unless others are given.
    pub fn add_virtual(
        &mut self,
        name: &str,
        attachment: Attachment,
        mac: Option<[u8; 6]>,
        mtu: Option<usize>,
    ) -> usize {
        let number = self.interfaces.unused();
        add_virtual_at(self, number, name, attachment, (mac, mtu));
        number
    }

    /// Transmits a packet or frame on a dummy, which discards it.
    #[inline(never)]
    pub(crate) fn dummy_output(&mut self, interface: usize, packet: Packet) -> PacketDisposition {
        self.interfaces.count_virtual(interface, packet.len(), PacketDirection::Out);
        let (cookie, len) = (packet.cookie(), packet.len());
        if is_stamped(cookie) {
            stamping::sent(self, self.clock.now(), interface, &packet);
        }
        if cookie != 0 {
            self.taken_over.push_back((cookie, len));
        }
        buffers::recycle(packet.into_bytes());
        PacketDisposition::consumed(Receiver::Dummy)
    }

    /// Transmits a frame on a VLAN: adds the tag and passes it to the lower interface.
    #[inline(never)]
    pub(crate) fn vlan_output(
        &mut self,
        interface: usize,
        below: usize,
        id: u16,
        mut frame: Packet,
    ) -> PacketDisposition {
        if !self.interfaces[below].up {
            return PacketDisposition::dropped(DropCause::InterfaceDown);
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

    /// Passes a tagged frame received by a lower interface to its VLAN.
    #[inline(never)]
    pub(crate) fn vlan_input(&mut self, below: usize, frame: Packet) -> PacketDisposition {
        let (checksum, mark) = (frame.checksum(), frame.mark());
        let mut bytes = frame.into_bytes();
        let tag = bytes.get(HEADER_LEN..HEADER_LEN + 2).map(|tag| u16::from_be_bytes([tag[0], tag[1]]));
        let vlan = tag.and_then(|tag| self.interfaces.vlan(below, tag & VLAN_ID));
        match vlan.filter(|vlan| self.interfaces[*vlan].up && bytes.len() >= HEADER_LEN + TAG_LEN) {
            None => {
                let long = bytes.len() >= HEADER_LEN + TAG_LEN;
                buffers::recycle(bytes);
                match vlan {
                    _ if !long => PacketDisposition::dropped(DropCause::Malformed),
                    Some(_) => PacketDisposition::dropped(DropCause::InterfaceDown),
                    None => PacketDisposition::consumed(Receiver::OtherAddress),
                }
            }
            Some(vlan) => {
                bytes.drain(HEADER_LEN - 2..HEADER_LEN - 2 + TAG_LEN);
                self.interfaces.count_virtual(vlan, bytes.len(), PacketDirection::In);
                self.frame_input(vlan, Packet::new(bytes).with_checksum(checksum).with_mark(mark))
            }
        }
    }

    /// Queues a packet, or for a TAP interface a frame, for the program.
    #[inline(never)]
    pub(crate) fn tun_output(&mut self, n: usize, mut packet: Packet) -> PacketDisposition {
        let now = self.clock.now();
        let Some(interface) = self.tuns[n].interface else {
            return PacketDisposition::dropped(DropCause::InterfaceDown);
        };
        self.seen(now, interface, &mut packet, PacketDirection::Out);
        if is_stamped(packet.cookie()) {
            stamping::sent(self, now, interface, &packet);
        }
        let (cookie, bytes) = (packet.cookie(), packet.into_bytes());
        let len = bytes.len();
        if !self.tuns[n].push(bytes) {
            return PacketDisposition::dropped(DropCause::TunQueueFull);
        }
        self.effects.push(Effect::ProgramReady(n, READABLE));
        if cookie != 0 {
            // The sender must not be notified within its own call.
            self.taken_over.push_back((cookie, len));
        }
        PacketDisposition::consumed(Receiver::Tun)
    }

    /// Receives a packet written by a program. Fails with `EBADFD` if no interface is attached, and with
    /// `EINVAL` if a frame is shorter than its header.
    pub fn tun_input(&mut self, n: usize, bytes: Vec<u8>) -> Result<(), Errno> {
        let tun = &mut self.tuns[n];
        let interface = tun.interface.ok_or(Errno::EBADFD)?;
        tun.counters.count(PacketDirection::In, bytes.len());
        let end = if tun.is_tap() {
            if bytes.len() < ethernet::HEADER_LEN {
                return Err(Errno::EINVAL);
            }
            self.frame_input(interface, Packet::new(bytes))
        } else {
            let mut packet = Packet::new(bytes);
            self.seen(self.clock.now(), interface, &mut packet, PacketDirection::In);
            self.arrived_as_one = true;
            traffic::packet_input(self, interface, packet)
        };
        self.account.originate(Origin::Tun, end);
        Ok(())
    }
}

/// Draws a random, locally administered hardware address.
pub fn random_mac(stream: &mut Stream) -> [u8; 6] {
    let mut mac = [0; 6];
    stream.fill(&mut mac);
    mac[0] = mac[0] & 0xfc | 0x02;
    mac
}

/// Creates an interface of an unused number, with this hardware address and MTU if they are given.
pub fn add_virtual_at(
    net: &mut Stack,
    number: usize,
    name: &str,
    attachment: Attachment,
    (mac, mtu): (Option<[u8; 6]>, Option<usize>),
) {
    let below = match attachment {
        Attachment::Vlan { below, .. } => Some(&net.interfaces[below]),
        _ => None,
    };
    let inherited = below.map(|below| (below.mac, below.mtu, below.carrier));
    let mac = mac.or(inherited.map(|(mac, ..)| mac)).unwrap_or_else(|| random_mac(&mut net.tun_addresses));
    let mut interface = Interface::program(name, mac, attachment);
    if let Some((_, mtu, carrier)) = inherited {
        (interface.mtu, interface.carrier) = (mtu, carrier);
    }
    interface.mtu = mtu.unwrap_or(interface.mtu);
    net.interfaces.has_pairs |= matches!(attachment, Attachment::Veth { .. });
    net.interfaces.put(number, interface);
    net.interface_settings.begin(number);
}

impl Interfaces {
    /// The numbers of the VLANs on an interface.
    pub fn vlans_of(&self, interface: usize) -> Vec<usize> {
        let all = self.iter().enumerate();
        all.filter(
            |(_, other)| matches!(other.attachment, Attachment::Vlan { below, .. } if below == interface),
        )
        .map(|(number, _)| number)
        .collect()
    }

    /// The numbers of the ports of a device.
    pub fn ports_of(&self, device: usize) -> Vec<usize> {
        let all = self.iter().enumerate();
        all.filter(|(_, other)| other.master == Some(device)).map(|(number, _)| number).collect()
    }

    /// The VLAN with this ID on an interface.
    pub fn vlan(&self, below: usize, id: u16) -> Option<usize> {
        self.iter().position(|other| other.attachment == Attachment::Vlan { below, id })
    }

    /// Traffic counters of an interface created by the administrator.
    pub fn virtual_counters(&self, interface: usize) -> TunCounters {
        self.counters.get(&interface).copied().unwrap_or_default()
    }

    pub(crate) fn count_virtual(&mut self, interface: usize, len: usize, direction: PacketDirection) {
        self.counters.entry(interface).or_default().count(direction, len);
    }
}
