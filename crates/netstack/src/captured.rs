//! Buffer of the packets captured at a host's interfaces, until they are written to files.

use belljar_base::{Footprint, SimTime};
use std::cell::Cell;
use std::sync::Arc;

/// Bytes reserved in front of each packet for the record header of the capture file, so that a run of packets
/// is written without a copy.
pub const CAPTURE_ROOM: usize = 16;

thread_local! {
    /// Packet buffer, reused by all hosts of a worker, of which one runs at a time.
    static SPARE: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// Captured packets of a host; see the [module](self).
#[derive(Debug, Default)]
#[repr(C)] // Frequently read fields come first: see `belljar_base::Footprint`.
pub struct Captured {
    /// Capture time and length in bytes of each packet.
    packets: Vec<(SimTime, usize)>,
    runs: Vec<Run>,
    /// The bytes of all packets, each preceded by [`CAPTURE_ROOM`] bytes.
    bytes: Vec<u8>,
}

/// Start of a sequence of packets of one interface, which extends to the start of the next run.
#[derive(Debug)]
struct Run {
    interface: Arc<str>,
    ethernet: bool,
    packet: usize,
    byte: usize,
}

/// A sequence of packets captured at one interface.
#[derive(Debug)]
pub struct CapturedRun<'a> {
    /// The interface's name.
    pub interface: &'a Arc<str>,
    /// True for Ethernet frames, false for IP datagrams.
    pub ethernet: bool,
    /// Capture time and length in bytes of each packet.
    pub packets: &'a [(SimTime, usize)],
    /// The bytes of the packets, each preceded by [`CAPTURE_ROOM`] bytes.
    pub bytes: &'a mut [u8],
}

impl CapturedRun<'_> {
    /// The packets with their capture times.
    pub fn iter(&self) -> impl Iterator<Item = (SimTime, &[u8])> {
        let mut rest = &*self.bytes;
        self.packets.iter().map(move |(at, len)| {
            let (record, others) = rest.split_at(CAPTURE_ROOM + len);
            rest = others;
            (*at, &record[CAPTURE_ROOM..])
        })
    }
}

impl Captured {
    /// Lists the memory that is read while nothing is captured.
    pub fn footprint(&self, footprint: &mut Footprint) {
        footprint.object(&self.packets);
    }
    /// True if no packet is captured.
    pub fn is_empty(&self) -> bool {
        self.packets.is_empty()
    }

    /// Number of captured packets.
    pub fn len(&self) -> usize {
        self.packets.len()
    }

    /// Captures a packet at an interface.
    pub fn push(&mut self, at: SimTime, interface: &Arc<str>, ethernet: bool, packet: &[u8]) {
        if self.bytes.capacity() == 0 {
            self.bytes = SPARE.take();
        }
        if !self.runs.last().is_some_and(|run| Arc::ptr_eq(&run.interface, interface)) {
            let (packet, byte) = (self.packets.len(), self.bytes.len());
            self.runs.push(Run { interface: interface.clone(), ethernet, packet, byte });
        }
        self.packets.push((at, packet.len()));
        self.bytes.reserve(CAPTURE_ROOM + packet.len());
        self.bytes.extend_from_slice(&[0; CAPTURE_ROOM]);
        self.bytes.extend_from_slice(packet);
    }

    /// Discards all packets but the first `len`.
    pub fn truncate(&mut self, len: usize) {
        let lost: usize = self.packets.drain(len..).map(|(_, bytes)| CAPTURE_ROOM + bytes).sum();
        self.bytes.truncate(self.bytes.len() - lost);
        self.runs.retain(|run| run.packet < len);
    }

    /// Passes all packets to `sink` and discards them.
    pub fn drain(&mut self, mut sink: impl FnMut(CapturedRun)) {
        for (n, run) in self.runs.iter().enumerate() {
            let next = self.runs.get(n + 1).map(|next| (next.packet, next.byte));
            let (packet, byte) = next.unwrap_or((self.packets.len(), self.bytes.len()));
            sink(CapturedRun {
                interface: &run.interface,
                ethernet: run.ethernet,
                packets: &self.packets[run.packet..packet],
                bytes: &mut self.bytes[run.byte..byte],
            });
        }
        self.runs.clear();
        self.packets.clear();
        let mut bytes = std::mem::take(&mut self.bytes);
        bytes.clear();
        SPARE.set(bytes);
    }
}
