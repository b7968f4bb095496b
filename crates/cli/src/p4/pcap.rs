//! Captures as input and output of the switch.

use belljar_base::SimTime;
use pcap_file::pcap::{PcapHeader, PcapPacket, PcapReader, PcapWriter};
use pcap_file::{DataLink, TsResolution};
use std::fs::File;
use std::io::{BufReader, BufWriter};
use std::path::Path;
use std::time::Duration;

/// Timestamp and bytes of a captured packet.
pub type Packet = (Duration, Vec<u8>);

/// Reads the Ethernet frames of a capture.
pub fn read(path: &Path) -> Result<Vec<Packet>, String> {
    let wrong = |error: &dyn std::fmt::Display| {
        format!("{}: {error}; name a pcap file of Ethernet frames", path.display())
    };
    let file = belljar_inputs::open(path).map_err(|error| wrong(&error))?;
    let mut reader = PcapReader::new(BufReader::new(file)).map_err(|error| wrong(&error))?;
    let link = reader.header().datalink;
    if link != DataLink::ETHERNET {
        return Err(wrong(&format!("its packets are of link type {}", u32::from(link))));
    }
    let mut packets = Vec::new();
    while let Some(packet) = reader.next_packet() {
        let packet = packet.map_err(|error| wrong(&error))?;
        packets.push((packet.timestamp, packet.data.into_owned()));
    }
    Ok(packets)
}

/// Writes the packets of a port, with timestamps since the start.
pub fn write(path: &Path, packets: &[(SimTime, Vec<u8>)]) -> Result<(), String> {
    let wrong = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
    let file = File::create(path).map_err(|error| wrong(&error))?;
    let header = PcapHeader { ts_resolution: TsResolution::NanoSecond, ..PcapHeader::default() };
    let mut writer = PcapWriter::with_header(BufWriter::new(file), header).map_err(|error| wrong(&error))?;
    for (at, packet) in packets {
        let time = Duration::from_nanos(at.as_nanos());
        let packet = PcapPacket::new(time, packet.len() as u32, packet);
        writer.write_packet(&packet).map_err(|error| wrong(&error))?;
    }
    Ok(())
}
