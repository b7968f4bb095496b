//! Merges the captures of several hosts into one pcapng file, whose interfaces are named after host and
//! interface.

use crate::read::files;
use crate::read::{ReadError, Results};
use belljar_net::Filter;
use pcap_file::pcap::PcapReader;
use pcap_file::pcapng::PcapNgWriter;
use pcap_file::pcapng::blocks::enhanced_packet::EnhancedPacketBlock;
use pcap_file::pcapng::blocks::interface_description::{
    InterfaceDescriptionBlock, InterfaceDescriptionOption,
};
use pcap_file::{DataLink, PcapError};
use std::borrow::Cow;
use std::io::{BufReader, Write};
use std::path::Path;
use std::time::Duration;

/// Timestamp resolution of the merged file: nanoseconds, 10^-9.
const NANOSECONDS: u8 = 9;

/// Reason why captures cannot be merged.
#[derive(Debug, thiserror::Error)]
pub enum MergeError {
    /// A capture cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// None of the requested hosts has a capture.
    #[error("there are no captures in {0}: run with --pcap")]
    None(std::path::PathBuf),
    /// The merged capture cannot be written.
    #[error("the capture cannot be written: {0}")]
    Write(PcapError),
}

/// A packet that matches the filter.
struct Wanted {
    at: Duration,
    interface: u32,
    len: u32,
    data: Vec<u8>,
}

/// Writes the packets that match `filter`, of the hosts, switches and routers accepted by `node`, to `out` in
/// the order of time; returns their number. A packet between two captured hosts appears twice, once at each.
pub fn merge(
    results: &Results,
    node: impl Fn(&str) -> bool,
    filter: &Filter,
    out: impl Write,
) -> Result<usize, MergeError> {
    let mut interfaces = Vec::new();
    let mut packets = Vec::new();
    for (name, folder) in results.nodes().into_iter().filter(|(name, _)| node(name)) {
        for (interface, path) in files(&folder, "pcap") {
            let number = interfaces.len() as u32;
            let link = read(&path, number, filter, &mut packets)?;
            let options = vec![
                InterfaceDescriptionOption::IfName(Cow::Owned(format!("{name} {interface}"))),
                InterfaceDescriptionOption::IfTsResol(NANOSECONDS),
            ];
            interfaces.push(InterfaceDescriptionBlock { linktype: link, snaplen: 0, options });
        }
    }
    if interfaces.is_empty() {
        return Err(MergeError::None(results.path().to_owned()));
    }
    // The sort is stable: the packets of each interface keep their order.
    packets.sort_by_key(|packet| (packet.at, packet.interface));
    let mut writer = PcapNgWriter::new(out).map_err(MergeError::Write)?;
    for interface in interfaces {
        writer.write_pcapng_block(interface).map_err(MergeError::Write)?;
    }
    let count = packets.len();
    for packet in packets {
        let block = EnhancedPacketBlock {
            interface_id: packet.interface,
            timestamp: packet.at,
            original_len: packet.len,
            data: Cow::Owned(packet.data),
            options: Vec::new(),
        };
        writer.write_pcapng_block(block).map_err(MergeError::Write)?;
    }
    writer.into_inner().flush().map_err(|error| MergeError::Write(PcapError::IoError(error)))?;
    Ok(count)
}

/// Reads the matching packets of one capture; returns their link type.
fn read(
    path: &Path,
    interface: u32,
    filter: &Filter,
    packets: &mut Vec<Wanted>,
) -> Result<DataLink, ReadError> {
    let bad = |error: PcapError| ReadError::File { path: path.to_owned(), reason: error.to_string() };
    let file = belljar_inputs::open(path).map_err(|error| ReadError::io(path, &error))?;
    let mut reader = PcapReader::new(BufReader::new(file)).map_err(bad)?;
    let link = reader.header().datalink;
    while let Some(packet) = reader.next_packet() {
        let packet = packet.map_err(bad)?;
        if filter.matches_captured(&packet.data, link == DataLink::ETHERNET) {
            let (at, len) = (packet.timestamp, packet.orig_len);
            packets.push(Wanted { at, interface, len, data: packet.data.into_owned() });
        }
    }
    Ok(link)
}
