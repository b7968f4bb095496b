//! Captures of packets as files.

use belljar_base::SimTime;
use pcap_file::pcap::{PcapHeader, PcapWriter};
use pcap_file::{DataLink, TsResolution};
use std::fs::File;
use std::io::{self, IoSlice, Write};
use std::time::Duration;

/// Bytes that wait before they are written, at multiples of [`PAGE`]: file systems keep whole large blocks in half the time.
const BLOCK: usize = 64 << 10;
/// As many bytes at once do not wait: they are written from where they lie.
const LARGE: usize = 16 << 10;
const PAGE: usize = 4096;

/// Collects blocks of a file.
struct Blocks {
    file: File,
    waiting: Vec<u8>,
}

impl Blocks {
    /// Adds to the file, sooner or later. What is left behind by an error stays lost: what comes next is not written in
    /// its place.
    fn add(&mut self, data: &[u8]) -> io::Result<()> {
        let all = self.waiting.len() + data.len();
        let part = all % PAGE;
        if (all < BLOCK && data.len() < LARGE) || data.len() < part {
            self.waiting.extend_from_slice(data);
            return Ok(());
        }
        let (now, later) = data.split_at(data.len() - part);
        let written = write_both(&mut self.file, &self.waiting, now);
        self.waiting.clear();
        self.waiting.extend_from_slice(later);
        written
    }
}

/// Writes all of two pieces.
fn write_both(file: &mut File, first: &[u8], second: &[u8]) -> io::Result<()> {
    let pieces = &mut [IoSlice::new(first), IoSlice::new(second)][..];
    let written = loop {
        match file.write_vectored(pieces) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            written => break written?,
        }
    };
    file.write_all(first.get(written..).unwrap_or_default())?;
    file.write_all(second.get(written.saturating_sub(first.len())..).unwrap_or_default())
}

/// Writes the packets of one interface as a capture file: pcap with nanoseconds, raw IP packets or
/// Ethernet frames, times on the hosts' wall clock.
pub struct CaptureWriter {
    blocks: Blocks,
    epoch: Duration,
    keep: usize,
}

impl CaptureWriter {
    /// Bytes of the header in front of each packet.
    pub const HEADER: usize = 16;

    /// Starts a capture in an empty file; the clock starts `epoch_secs` after 1970 and at most
    /// `keep` bytes of each packet are written.
    pub fn new(file: File, epoch_secs: u64, keep: usize, ethernet: bool) -> io::Result<CaptureWriter> {
        let header = PcapHeader {
            snaplen: keep as u32,
            datalink: if ethernet { DataLink::ETHERNET } else { DataLink::RAW },
            ts_resolution: TsResolution::NanoSecond,
            endianness: pcap_file::Endianness::Little,
            ..PcapHeader::default()
        };
        let begun = PcapWriter::with_header(Vec::new(), header).map_err(into_io)?;
        let blocks = Blocks { file, waiting: begun.into_writer() };
        Ok(CaptureWriter { blocks, epoch: Duration::from_secs(epoch_secs), keep })
    }

    /// Appends a packet.
    pub fn write(&mut self, at: SimTime, packet: &[u8]) -> io::Result<()> {
        self.blocks.add(&self.header(at, packet.len()))?;
        self.blocks.add(&packet[..packet.len().min(self.keep)])
    }

    /// Appends packets that lie one behind the other in `bytes`, each behind [`HEADER`](Self::HEADER) bytes of room;
    /// `packets` are when each passed and its length. Only those that are `wanted`.
    pub fn write_run(
        &mut self,
        packets: &[(SimTime, usize)],
        bytes: &mut [u8],
        wanted: impl Fn(&[u8]) -> bool,
    ) -> io::Result<()> {
        // What is to be written lies from `begin` to `end`.
        let (mut begin, mut end, mut record) = (0, 0, 0);
        for &(at, len) in packets {
            let packet = record + Self::HEADER;
            if wanted(&bytes[packet..packet + len]) {
                bytes[record..packet].copy_from_slice(&self.header(at, len));
                if end < record {
                    self.blocks.add(&bytes[begin..end])?;
                    begin = record;
                }
                end = packet + len.min(self.keep);
            }
            record = packet + len;
        }
        self.blocks.add(&bytes[begin..end])
    }

    /// Writes out what is still buffered.
    pub fn finish(mut self) -> io::Result<()> {
        self.blocks.file.write_all(&self.blocks.waiting)
    }

    /// What is in front of a packet of `len` bytes (draft-ietf-opsawg-pcap, section 5).
    fn header(&self, at: SimTime, len: usize) -> [u8; Self::HEADER] {
        let time = self.epoch + Duration::from_nanos(at.as_nanos());
        let words = [time.as_secs() as u32, time.subsec_nanos(), len.min(self.keep) as u32, len as u32];
        let mut header = [0; Self::HEADER];
        for (place, word) in header.chunks_exact_mut(4).zip(words) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        header
    }
}

fn into_io(error: pcap_file::PcapError) -> io::Error {
    match error {
        pcap_file::PcapError::IoError(error) => error,
        other => io::Error::other(other.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    #[test]
    fn packets_that_lie_across_blocks_are_whole() {
        let file = tempfile::tempfile().unwrap();
        let mut capture = CaptureWriter::new(file.try_clone().unwrap(), 0, 65_535, false).unwrap();
        let packets: Vec<Vec<u8>> = (0..200_usize).map(|n| vec![n as u8; 1 + n * 131 % 4_099]).collect();
        // One by one, in small runs and in large ones.
        for (n, some) in packets.chunks(50).enumerate() {
            let lengths: Vec<(SimTime, usize)> = some.iter().map(|p| (SimTime::ZERO, p.len())).collect();
            let mut bytes: Vec<u8> = some.iter().flat_map(|p| [&[0; 16], &p[..]].concat()).collect();
            match n {
                0 => some.iter().for_each(|p| capture.write(SimTime::ZERO, p).unwrap()),
                1 => {
                    for packet in some {
                        let mut bytes = [&[0; 16], &packet[..]].concat();
                        capture.write_run(&[(SimTime::ZERO, packet.len())], &mut bytes, |_| true).unwrap();
                    }
                }
                _ => capture.write_run(&lengths, &mut bytes, |_| true).unwrap(),
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
            let mut capture = CaptureWriter::new(file.try_clone().unwrap(), 7, 100, true).unwrap();
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
                capture.write(at(n), packet).unwrap();
            }
        });
        let run = written(&|capture| {
            let lengths: Vec<(SimTime, usize)> =
                packets.iter().enumerate().map(|(n, p)| (at(n), p.len())).collect();
            let mut bytes = packets.iter().flat_map(|p| [&[0; 16], &p[..]].concat()).collect::<Vec<u8>>();
            capture.write_run(&lengths, &mut bytes, wanted).unwrap();
        });
        assert_eq!(single, run);
        let kept: usize = packets.iter().filter(|p| wanted(p)).map(|p| 16 + p.len().min(100)).sum();
        assert_eq!(run.len(), 24 + kept);
    }

    #[test]
    fn writes_what_the_format_says() {
        let mut file = tempfile::tempfile().unwrap();
        let mut capture = CaptureWriter::new(file.try_clone().unwrap(), 946_684_800, 4, false).unwrap();
        capture.write(SimTime::from_nanos(1_000_000_007), &[0x45, 1, 2, 3, 4, 5]).unwrap();
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
