//! Ethernet frames of IP packets and of ARP messages (RFC 894, RFC 826).

use crate::Packet;
use belljar_wire::arp;
use belljar_wire::ethernet::{self, Address, ethertype};
use std::net::Ipv4Addr;

/// Prepends an Ethernet header to a packet.
pub fn framed(mut packet: Packet, dst: Address, src: Address, ethertype: u16) -> Packet {
    packet.fill_checksum();
    let (cookie, checksum, mark) = (packet.cookie(), packet.checksum(), packet.mark());
    let mut bytes = packet.into_bytes();
    let len = bytes.len();
    bytes.resize(len + ethernet::HEADER_LEN, 0);
    bytes.copy_within(..len, ethernet::HEADER_LEN);
    ethernet::Repr { dst, src, ethertype }.emit(&mut bytes);
    Packet::with_cookie(bytes, cookie).with_checksum(checksum).with_mark(mark)
}

/// Builds a frame with an ARP message, without padding, since links carry frames of any length.
pub fn arp_frame(to: Address, message: &arp::Repr) -> Vec<u8> {
    let mut frame = vec![0; ethernet::HEADER_LEN + arp::LEN];
    let header = ethernet::Repr { dst: to, src: message.sender_hardware, ethertype: ethertype::ARP };
    header.emit(&mut frame);
    message.emit(&mut frame[ethernet::HEADER_LEN..]);
    frame
}

/// Builds an ARP request for the hardware address of `target`.
pub fn arp_request(own: Address, source: Ipv4Addr, target: Ipv4Addr) -> arp::Repr {
    arp::Repr {
        operation: arp::Operation::Request,
        sender_hardware: own,
        sender_protocol: source,
        target_hardware: Address::default(),
        target_protocol: target,
    }
}

/// Builds the ARP reply of the station `own` to a request.
pub fn arp_reply(request: &arp::Repr, own: Address) -> arp::Repr {
    arp::Repr {
        operation: arp::Operation::Reply,
        sender_hardware: own,
        sender_protocol: request.target_protocol,
        target_hardware: request.sender_hardware,
        target_protocol: request.sender_protocol,
    }
}
