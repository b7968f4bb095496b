use belljar_base::SimTime;
use pcap_file::pcap::{PcapHeader, PcapPacket, PcapWriter};
use pcap_file::{DataLink, TsResolution};
use std::borrow::Cow;
use std::fs::File;
use std::io::{self, Write};
use std::time::Duration;

/// Bytes that are written at once, at multiples of as many: file systems keep whole large blocks in half the time.
const BLOCK: usize = 64 << 10;

/// Collects blocks of a file.
struct Blocks {
    file: File,
    waiting: Vec<u8>,
}

impl Write for Blocks {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        let taken = data.len().min(BLOCK - self.waiting.len());
        self.waiting.extend_from_slice(&data[..taken]);
        if self.waiting.len() == BLOCK {
            self.flush()?;
        }
        Ok(taken)
    }

    /// What is left behind by an error stays lost: the next packet is not written in its place.
    fn flush(&mut self) -> io::Result<()> {
        let written = self.file.write_all(&self.waiting);
        self.waiting.clear();
        written
    }
}

/// Writes the packets of one interface as a capture file: pcap with nanoseconds, raw IP packets or
/// Ethernet frames, times on the hosts' wall clock.
pub struct CaptureWriter {
    writer: PcapWriter<Blocks>,
    epoch: Duration,
    keep: usize,
}

impl CaptureWriter {
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
        let blocks = Blocks { file, waiting: Vec::new() };
        let writer = PcapWriter::with_header(blocks, header).map_err(into_io)?;
        Ok(CaptureWriter { writer, epoch: Duration::from_secs(epoch_secs), keep })
    }

    /// Appends a packet.
    pub fn write(&mut self, at: SimTime, packet: &[u8]) -> io::Result<()> {
        let kept = &packet[..packet.len().min(self.keep)];
        let packet = PcapPacket {
            timestamp: self.epoch + Duration::from_nanos(at.as_nanos()),
            orig_len: packet.len() as u32,
            data: Cow::Borrowed(kept),
        };
        self.writer.write_packet(&packet).map(|_| ()).map_err(into_io)
    }

    /// Writes out what is still buffered.
    pub fn finish(self) -> io::Result<()> {
        self.writer.into_writer().flush()
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
        for packet in &packets {
            capture.write(SimTime::ZERO, packet).unwrap();
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
