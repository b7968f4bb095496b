//! Packets in the queues of an interface (`struct sk_buff`), with the fields that disciplines and filters use.

use belljar_base::SimTime;
use belljar_net::{Packet, ecn};
use belljar_wire::ethernet::{self, ethertype};

/// EtherType of a VLAN tag, and its length in bytes.
const VLAN: u16 = 0x8100;
const VLAN_TAG: usize = 4;

/// Origin of a packet that an action has moved to another interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Redirection {
    /// Number of the interface at which the packet was.
    pub interface: usize,
    /// True if the packet was being received there.
    pub ingress: bool,
}

/// Packet in the queue of an interface.
#[derive(Debug)]
pub struct Buffer {
    /// Packet: a frame if `framed`, else an IP packet.
    pub packet: Packet,
    /// True if the packet begins with an Ethernet header.
    pub framed: bool,
    /// `skb->priority`.
    pub priority: u32,
    /// Action that has moved the packet here, if one has.
    pub redirection: Option<Redirection>,
    /// True if the next filter with actions does not execute them, as the packet has passed an ifb
    /// (`skb_skip_tc_classify`).
    pub skips_actions: bool,
    /// True if the packet's sender waits for its departure even from a discipline that delays it.
    pub keeps_owner: bool,
    /// `qdisc_pkt_len`: length that disciplines account for.
    pub(crate) len: u32,
    /// Length of a header that Linux would count and the packet does not have.
    pub(crate) header: usize,
    /// Number of packets that the packet counts as.
    pub(crate) segments: u32,
    /// Time of queueing, for CoDel.
    pub(crate) queued: SimTime,
    /// Time before which netem keeps the packet.
    pub(crate) due: SimTime,
}

impl Buffer {
    /// Packet to queue. `header` is the length of a header that Linux would count and the packet does not have.
    pub fn new(packet: Packet, framed: bool, header: usize) -> Buffer {
        let mut buffer = Buffer {
            framed,
            priority: 0,
            redirection: None,
            skips_actions: false,
            keeps_owner: false,
            len: 0,
            header,
            segments: 1,
            queued: SimTime::ZERO,
            due: SimTime::ZERO,
            packet,
        };
        buffer.measure();
        buffer
    }
    /// Computes the length of the packet anew (`qdisc_pkt_len_init`).
    pub(crate) fn measure(&mut self) {
        let segment = usize::from(self.packet.segment());
        let own = self.packet.len() + self.header;
        self.len = own as u32;
        if segment > 0 {
            let headers = self.header + self.transport_offset().map_or(0, |at| at + 8);
            let payload = own.saturating_sub(headers);
            self.segments = payload.div_ceil(segment).max(1) as u32;
            self.len = (own + (self.segments as usize - 1) * headers) as u32;
        }
    }
    /// Copy of the packet without the account of its sender.
    pub(crate) fn copy(&self) -> Buffer {
        let packet = Packet::new(self.packet.open_bytes().to_vec())
            .with_checksum(self.packet.checksum())
            .with_mark(self.packet.mark())
            .with_segment(self.packet.segment());
        Buffer { packet, ..*self }
    }
    /// Releases the packet from its sender's account (`skb_orphan_partial`). Returns the cookie, if it had one, and
    /// the packet's length.
    pub(crate) fn orphan(&mut self) -> Option<(u64, usize)> {
        if self.keeps_owner { None } else { self.disown() }
    }
    /// Releases the packet from its sender's account and its timestamps, as a clone is (`skb_clone`). Returns the cookie,
    /// if it had one, and the packet's length.
    pub fn disown(&mut self) -> Option<(u64, usize)> {
        let (cookie, len) = (self.packet.cookie(), self.packet.len());
        if cookie == 0 {
            return None;
        }
        let packet = std::mem::replace(&mut self.packet, Packet::new(Vec::new()));
        let (checksum, mark, segment) = (packet.checksum(), packet.mark(), packet.segment());
        let made = Packet::new(packet.into_open_bytes()).with_checksum(checksum);
        self.packet = made.with_mark(mark).with_segment(segment);
        Some((cookie, len))
    }
    /// Bytes of the packet, with an open checksum left open.
    pub(crate) fn bytes(&self) -> &[u8] {
        self.packet.open_bytes()
    }
    /// `skb->protocol`: EtherType of the packet, or of its tag.
    pub(crate) fn protocol(&self) -> u16 {
        match self.framed {
            true => self.bytes().get(12..14).map_or(0, |kind| u16::from_be_bytes([kind[0], kind[1]])),
            false => match self.bytes().first().map(|first| first >> 4) {
                Some(4) => ethertype::IPV4,
                Some(6) => ethertype::IPV6,
                _ => 0,
            },
        }
    }
    /// EtherType behind a VLAN tag.
    pub(crate) fn inner_protocol(&self) -> u16 {
        match self.protocol() {
            VLAN => self.bytes().get(16..18).map_or(0, |kind| u16::from_be_bytes([kind[0], kind[1]])),
            protocol => protocol,
        }
    }
    /// Tag control information of a VLAN tag.
    pub(crate) fn vlan(&self) -> Option<u16> {
        let tag = self.bytes().get(14..16).filter(|_| self.framed && self.protocol() == VLAN)?;
        Some(u16::from_be_bytes([tag[0], tag[1]]))
    }
    /// Offset of the network header.
    pub(crate) fn network_offset(&self) -> usize {
        match (self.framed, self.protocol()) {
            (false, _) => 0,
            (true, VLAN) => ethernet::HEADER_LEN + VLAN_TAG,
            (true, _) => ethernet::HEADER_LEN,
        }
    }
    /// Bytes from the network header on.
    pub(crate) fn network(&self) -> &[u8] {
        self.bytes().get(self.network_offset()..).unwrap_or_default()
    }
    /// Offset of the transport header of an IP packet from its network header.
    pub(crate) fn transport_offset(&self) -> Option<usize> {
        let network = self.network();
        match network.first()? >> 4 {
            4 if self.inner_protocol() == ethertype::IPV4 => Some(usize::from(network[0] & 0xf) * 4),
            6 if self.inner_protocol() == ethertype::IPV6 => Some(40),
            _ => None,
        }
    }
    /// Protocol above IP.
    pub(crate) fn ip_protocol(&self) -> Option<u8> {
        let network = self.network();
        match network.first()? >> 4 {
            4 if self.inner_protocol() == ethertype::IPV4 => network.get(9).copied(),
            6 if self.inner_protocol() == ethertype::IPV6 => network.get(6).copied(),
            _ => None,
        }
    }
    /// Ports of a TCP, UDP, UDP-Lite or SCTP packet that is no later fragment.
    pub(crate) fn ports(&self) -> Option<(u16, u16)> {
        const WITH_PORTS: [u8; 4] = [6, 17, 132, 136];
        let network = self.network();
        let v4 = network.first()? >> 4 == 4;
        if v4 && u16::from_be_bytes([*network.get(6)?, *network.get(7)?]) & 0x1fff != 0 {
            return None;
        }
        self.ip_protocol().filter(|protocol| WITH_PORTS.contains(protocol))?;
        let at = self.transport_offset()?;
        let ports = network.get(at..at + 4)?;
        Some((u16::from_be_bytes([ports[0], ports[1]]), u16::from_be_bytes([ports[2], ports[3]])))
    }
    /// Traffic class of an IP packet: DSCP and ECN.
    pub(crate) fn traffic_class(&self) -> Option<u8> {
        let network = self.network();
        match network.first()? >> 4 {
            4 if self.inner_protocol() == ethertype::IPV4 => network.get(1).copied(),
            6 if self.inner_protocol() == ethertype::IPV6 => Some(network[0] << 4 | network.get(1)? >> 4),
            _ => None,
        }
    }
    /// Marks an ECN-capable packet as having experienced congestion (`INET_ECN_set_ce`). True if it is marked now.
    pub(crate) fn mark_congestion(&mut self) -> bool {
        if self.traffic_class().is_some_and(|class| class & 3 == 3) {
            return true;
        }
        ecn::mark(self.packet.bytes_mut(), self.framed)
    }
    /// Hash of the packet's flow under a key (`skb_get_hash_perturb`): addresses, protocol and ports. Other packets
    /// form one flow.
    pub(crate) fn flow_hash(&self, key: u64) -> u32 {
        use std::hash::Hasher;
        let mut hasher = siphasher::sip::SipHasher13::new_with_keys(key, 0);
        let network = self.network();
        let addresses = match self.inner_protocol() {
            ethertype::IPV4 => network.get(12..20),
            ethertype::IPV6 => network.get(8..40),
            _ => None,
        };
        hasher.write_u16(self.inner_protocol());
        hasher.write(addresses.unwrap_or_default());
        hasher.write_u8(self.ip_protocol().unwrap_or(0));
        let (source, destination) = self.ports().unwrap_or_default();
        hasher.write_u16(source);
        hasher.write_u16(destination);
        (hasher.finish() >> 32) as u32
    }
}

/// `reciprocal_scale`: maps a hash to `0..range`.
pub(crate) fn scale(hash: u32, range: u32) -> u32 {
    ((u64::from(hash) * u64::from(range)) >> 32) as u32
}
