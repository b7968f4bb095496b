//! Control overhead: packets of routing protocols in the captures of their senders.

use crate::read::{ReadError, Results, files, packets};
use belljar_base::{Map, Set};
use belljar_wire::ethernet;
use serde::Serialize;
use std::net::IpAddr;

/// Packets of a protocol sent by a host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Sent {
    /// Number of packets.
    pub packets: u64,
    /// Bytes of their frames.
    pub bytes: u64,
}

/// Protocols with their IP protocol and port.
const PORTS: [(u8, u16, &str); 7] = [
    (17, 698, "OLSR"),
    (17, 654, "AODV"),
    (17, 520, "RIP"),
    (17, 521, "RIPng"),
    (17, 6696, "Babel"),
    (17, 3784, "BFD"),
    (6, 179, "BGP"),
];
/// Protocols with their IP protocol number.
const NUMBERS: [(u8, &str); 2] = [(89, "OSPF"), (103, "PIM")];

/// Packets sent by a host, by protocol; empty without captures. `ports` are additional UDP ports.
pub(super) fn sent(
    results: &Results,
    host: &str,
    own: &Set<IpAddr>,
    epoch_secs: u64,
    ports: &[u16],
) -> Result<Map<String, Sent>, ReadError> {
    let mut all: Map<String, Sent> = Map::new();
    for (interface, path) in files(&results.host(host), "pcap") {
        if interface == "lo" {
            continue;
        }
        for packet in packets(&path, epoch_secs)? {
            let bytes = match packet.ethernet {
                true => ethernet::Frame::new_checked(&packet.bytes[..])
                    .ok()
                    .map(|_| &packet.bytes[ethernet::HEADER_LEN..]),
                false => Some(&packet.bytes[..]),
            };
            let Some((from, number, ports_of)) = bytes.and_then(head) else { continue };
            let is_own = own.contains(&from) || matches!(from, IpAddr::V6(ip) if ip.is_unicast_link_local());
            let name = protocol(number, ports_of, ports).filter(|_| is_own);
            if let Some(name) = name {
                let sent = all.entry(name).or_default();
                sent.packets += 1;
                sent.bytes += u64::from(packet.len);
            }
        }
    }
    Ok(all)
}

fn protocol(number: u8, ports: Option<(u16, u16)>, further: &[u16]) -> Option<String> {
    if let Some((_, name)) = NUMBERS.iter().find(|(own, _)| *own == number) {
        return Some((*name).to_owned());
    }
    let (source, destination) = ports?;
    let is = |port: u16| source == port || destination == port;
    let known = PORTS.iter().find(|(own, port, _)| *own == number && is(*port));
    let further = further.iter().find(|port| number == 17 && is(**port)).map(|port| format!("UDP {port}"));
    known.map(|(_, _, name)| (*name).to_owned()).or(further)
}

/// Source address, protocol and ports of an IP packet.
type Head = (IpAddr, u8, Option<(u16, u16)>);

fn head(packet: &[u8]) -> Option<Head> {
    let ports = |payload: &[u8]| match payload {
        [a, b, c, d, ..] => Some((u16::from_be_bytes([*a, *b]), u16::from_be_bytes([*c, *d]))),
        _ => None,
    };
    match packet.first()? >> 4 {
        4 => {
            let source: [u8; 4] = packet.get(12..16)?.try_into().ok()?;
            let payload = packet.get(usize::from(packet[0] & 0xf) * 4..)?;
            Some((source.into(), packet[9], ports(payload)))
        }
        6 => {
            let source: [u8; 16] = packet.get(8..24)?.try_into().ok()?;
            Some((source.into(), packet[6], ports(packet.get(40..)?)))
        }
        _ => None,
    }
}
