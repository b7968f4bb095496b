//! Control overhead: packets of routing protocols in the captures of their senders.

use super::control;
use crate::connectivity::Connectivity;
use crate::read::{CapturedPacket, ReadError, Results, files, packets};
use belljar_base::{Map, Set};
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

/// Addresses by which the sender of a captured packet is found.
pub(super) struct Senders {
    /// Node of each IP address.
    owners: Map<IpAddr, String>,
    /// Hardware addresses of each node.
    hardware: Map<String, Set<String>>,
}

impl Senders {
    pub(super) fn new(connectivity: &Connectivity) -> Senders {
        let nodes = &connectivity.nodes;
        let owners = nodes.iter().flat_map(|node| {
            let own = node.addresses.iter().filter_map(|address| address.parse::<IpAddr>().ok());
            own.map(|address| (address, node.name.clone()))
        });
        let hardware = nodes
            .iter()
            .map(|node| (node.name.clone(), node.hardware_addresses.iter().cloned().collect()))
            .collect();
        Senders { owners: owners.collect(), hardware }
    }

    /// True if a host has sent a packet in its capture, rather than received or forwarded it.
    ///
    /// An address of the experiment names the sender. Other source addresses are those that programs have
    /// assigned, link-local ones and none at all: there the hardware address decides, and a packet that has
    /// passed a router, where the time to live is not one that programs choose, is not the host's own.
    fn has_sent(&self, host: &str, packet: &CapturedPacket, source: Option<(IpAddr, u8)>) -> bool {
        if let Some(owner) = source.and_then(|(address, _)| self.owners.get(&address)) {
            return owner == host;
        }
        let is_fresh = source.is_none_or(|(_, left)| matches!(left, 1 | 2 | 64 | 128 | 255));
        match packet.ethernet {
            true => {
                let from = belljar_wire::ethernet::Frame::new_checked(&packet.bytes[..]);
                let own = from.is_ok_and(|frame| {
                    let address = frame.src().to_string();
                    self.hardware.get(host).is_some_and(|own| own.contains(&address))
                });
                own && is_fresh
            }
            false => matches!(source, Some((IpAddr::V6(ip), _)) if ip.is_unicast_link_local()),
        }
    }
}

/// Packets sent by a host, by protocol; empty without captures. `ports` are additional UDP ports.
pub(super) fn sent(
    results: &Results,
    host: &str,
    senders: &Senders,
    epoch_secs: u64,
    ports: &[u16],
) -> Result<Map<String, Sent>, ReadError> {
    let mut all: Map<String, Sent> = Map::new();
    for (interface, path) in files(&results.host(host), "pcap") {
        if interface == "lo" {
            continue;
        }
        for mut packet in packets(&path, epoch_secs)? {
            // A packet that was cut short by `pcap_capture_size` still has its headers.
            let len = packet.bytes.len().max(packet.len as usize);
            packet.bytes.resize(len, 0);
            let control = match packet.ethernet {
                true => control::of_frame(&packet.bytes, ports),
                false => control::of_packet(&packet.bytes, ports),
            };
            let Some(control) = control.filter(|found| senders.has_sent(host, &packet, found.source)) else {
                continue;
            };
            let sent = all.entry(control.protocol).or_default();
            sent.packets += 1;
            sent.bytes += u64::from(packet.len);
        }
    }
    Ok(all)
}
