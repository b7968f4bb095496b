//! Capture files of packets.

use crate::writer::Growing;
use belljar_base::SimTime;
use pcap_file::pcap::{PcapHeader, PcapWriter};
use pcap_file::{DataLink, TsResolution};
use std::io;
use std::sync::Arc;
use std::time::Duration;

/// Writer of one interface's capture file: pcap with nanosecond timestamps, raw IP packets or Ethernet
/// frames, times on the hosts' wall clock.
pub struct CaptureWriter {
    file: Arc<Growing>,
    epoch: Duration,
    keep: usize,
}

impl CaptureWriter {
    /// Length of the record header before each packet.
    pub const HEADER: usize = 16;

    /// Starts a capture in an empty file. Simulated time 0 is `epoch_secs` after 1970, and at most `keep`
    /// bytes of each packet are written.
    pub fn new(file: Arc<Growing>, epoch_secs: u64, keep: usize, ethernet: bool) -> CaptureWriter {
        file.add(&file_header(keep, ethernet));
        CaptureWriter { file, epoch: Duration::from_secs(epoch_secs), keep }
    }

    /// Appends a packet.
    pub fn write(&mut self, at: SimTime, packet: &[u8]) {
        self.file.add(&self.header(at, packet.len()));
        self.file.add(&packet[..packet.len().min(self.keep)]);
    }

    /// Appends consecutive packets in `bytes`, each preceded by [`HEADER`](Self::HEADER) reserved bytes;
    /// `packets` holds the time and length of each. Packets that are not `wanted` are skipped.
    pub fn write_run(
        &mut self,
        packets: &[(SimTime, usize)],
        bytes: &mut [u8],
        wanted: impl Fn(&[u8]) -> bool,
    ) {
        // The bytes to be written lie in `begin..end`.
        let (mut begin, mut end, mut record) = (0, 0, 0);
        for &(at, len) in packets {
            let packet = record + Self::HEADER;
            if wanted(&bytes[packet..packet + len]) {
                bytes[record..packet].copy_from_slice(&self.header(at, len));
                if end < record {
                    self.file.add(&bytes[begin..end]);
                    begin = record;
                }
                end = packet + len.min(self.keep);
            }
            record = packet + len;
        }
        self.file.add(&bytes[begin..end]);
    }

    /// Writes all buffered bytes to the file.
    ///
    /// # Errors
    /// The first error of a write.
    pub fn finish(self) -> io::Result<()> {
        self.file.finish()
    }

    fn header(&self, at: SimTime, len: usize) -> [u8; Self::HEADER] {
        record_header(self.epoch, self.keep, at, len)
    }
}

/// Header of a capture that keeps at most `keep` bytes of each packet.
pub(crate) fn file_header(keep: usize, ethernet: bool) -> Vec<u8> {
    let header = PcapHeader {
        snaplen: keep as u32,
        datalink: if ethernet { DataLink::ETHERNET } else { DataLink::RAW },
        ts_resolution: TsResolution::NanoSecond,
        endianness: pcap_file::Endianness::Little,
        ..PcapHeader::default()
    };
    let begun = PcapWriter::with_header(Vec::new(), header).expect("a vector takes all that is written");
    begun.into_writer()
}

/// Record header of a packet of `len` bytes (draft-ietf-opsawg-pcap, section 5).
pub(crate) fn record_header(
    epoch: Duration,
    keep: usize,
    at: SimTime,
    len: usize,
) -> [u8; CaptureWriter::HEADER] {
    let time = epoch + Duration::from_nanos(at.as_nanos());
    let words = [time.as_secs() as u32, time.subsec_nanos(), len.min(keep) as u32, len as u32];
    let mut header = [0; CaptureWriter::HEADER];
    for (place, word) in header.chunks_exact_mut(4).zip(words) {
        place.copy_from_slice(&word.to_le_bytes());
    }
    header
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Writer;
    use std::io::Read;

    #[test]
    fn packets_that_lie_across_blocks_are_whole() {
        let file = tempfile::tempfile().unwrap();
        let mut capture =
            CaptureWriter::new(Writer::new(false).file(file.try_clone().unwrap()), 0, 65_535, false);
        let packets: Vec<Vec<u8>> = (0..200_usize).map(|n| vec![n as u8; 1 + n * 131 % 4_099]).collect();
        // Single packets, small runs and large runs.
        for (n, some) in packets.chunks(50).enumerate() {
            let lengths: Vec<(SimTime, usize)> = some.iter().map(|p| (SimTime::ZERO, p.len())).collect();
            let mut bytes: Vec<u8> = some.iter().flat_map(|p| [&[0; 16], &p[..]].concat()).collect();
            match n {
                0 => some.iter().for_each(|p| capture.write(SimTime::ZERO, p)),
                1 => {
                    for packet in some {
                        let mut bytes = [&[0; 16], &packet[..]].concat();
                        capture.write_run(&[(SimTime::ZERO, packet.len())], &mut bytes, |_| true);
                    }
                }
                _ => capture.write_run(&lengths, &mut bytes, |_| true),
            }
        }
        capture.finish().unwrap();
        let mut file = file;
        io::Seek::rewind(&mut file).unwrap();
        let mut reader = pcap_file::pcap::PcapReader::new(io::BufReader::new(file)).unwrap();
        for packet in &packets {
            assert_eq!(reader.next_packet().unwrap().unwrap().data[..], packet[..]);
        }
        assert!(reader.next_packet().is_none());
    }

    #[test]
    fn a_run_is_written_as_its_wanted_packets_are() {
        let written = |write: &dyn Fn(&mut CaptureWriter)| {
            let mut file = tempfile::tempfile().unwrap();
            let mut capture =
                CaptureWriter::new(Writer::new(false).file(file.try_clone().unwrap()), 7, 100, true);
            write(&mut capture);
            capture.finish().unwrap();
            io::Seek::rewind(&mut file).unwrap();
            let mut bytes = Vec::new();
            file.read_to_end(&mut bytes).unwrap();
            bytes
        };
        let packets: Vec<Vec<u8>> = (0..2_000_usize).map(|n| vec![n as u8; n * 37 % 190]).collect();
        let at = |n: usize| SimTime::from_nanos(n as u64 * 1_000_000_001);
        let wanted = |packet: &[u8]| packet.first().is_some_and(|byte| byte % 5 != 0);
        let single = written(&|capture| {
            for (n, packet) in packets.iter().enumerate().filter(|(_, packet)| wanted(packet)) {
                capture.write(at(n), packet);
            }
        });
        let run = written(&|capture| {
            let lengths: Vec<(SimTime, usize)> =
                packets.iter().enumerate().map(|(n, p)| (at(n), p.len())).collect();
            let mut bytes = packets.iter().flat_map(|p| [&[0; 16], &p[..]].concat()).collect::<Vec<u8>>();
            capture.write_run(&lengths, &mut bytes, wanted);
        });
        assert_eq!(single, run);
        let kept: usize = packets.iter().filter(|p| wanted(p)).map(|p| 16 + p.len().min(100)).sum();
        assert_eq!(run.len(), 24 + kept);
    }

    #[test]
    fn writes_what_the_format_says() {
        let mut file = tempfile::tempfile().unwrap();
        let mut capture =
            CaptureWriter::new(Writer::new(false).file(file.try_clone().unwrap()), 946_684_800, 4, false);
        capture.write(SimTime::from_nanos(1_000_000_007), &[0x45, 1, 2, 3, 4, 5]);
        capture.finish().unwrap();
        io::Seek::rewind(&mut file).unwrap();
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).unwrap();
        let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
        assert_eq!((word(0), word(16), word(20)), (0xa1b2_3c4d, 4, 101));
        assert_eq!([word(24), word(28), word(32), word(36)], [946_684_801, 7, 4, 6]);
        assert_eq!(&bytes[40..], &[0x45, 1, 2, 3]);
    }
}
