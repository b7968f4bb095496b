//! Frames as delivered to packet sockets; interfaces without Ethernet headers get synthetic ones.

use crate::PacketDirection;
use crate::interface::Attachment;
use crate::interfaces::Interfaces;
use belljar_wire::ethernet::{HEADER_LEN, ethertype};
use std::net::Ipv4Addr;

/// The synthetic hardware address of a host on the graph.
pub fn graph_mac(station: Ipv4Addr) -> [u8; 6] {
    let [a, b, c, d] = station.octets();
    [0x02, 0x42, a, b, c, d]
}

impl Interfaces {
    /// The link header of a frame at an interface, synthetic if the interface has none, and the bytes that
    /// follow it; `None` if the frame is truncated.
    pub fn frame_parts<'a>(
        &self,
        interface: usize,
        bytes: &'a [u8],
        direction: PacketDirection,
    ) -> Option<([u8; HEADER_LEN], &'a [u8])> {
        let interface = &self[interface];
        if interface.is_link() {
            return bytes.split_first_chunk().map(|(header, payload)| (*header, payload));
        }
        let mut header = [0; HEADER_LEN];
        if matches!(interface.attachment, Attachment::Graph) {
            let is_out = direction == PacketDirection::Out;
            let station: [u8; 4] = bytes.get(if is_out { 16..20 } else { 12..16 })?.try_into().ok()?;
            let (peer, own) = (graph_mac(station.into()), interface.mac);
            let (to, from) = if is_out { (peer, own) } else { (own, peer) };
            header[..6].copy_from_slice(&to);
            header[6..12].copy_from_slice(&from);
        }
        let protocol = match bytes.first().map(|first| first >> 4) {
            Some(6) => ethertype::IPV6,
            _ => ethertype::IPV4,
        };
        header[12..].copy_from_slice(&protocol.to_be_bytes());
        Some((header, bytes))
    }
}
