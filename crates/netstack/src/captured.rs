//! Packets that passed a host's interfaces, until somebody writes them out.

use belljar_base::{Footprint, SimTime};
use std::cell::Cell;
use std::sync::Arc;

/// Bytes left free in front of each packet, for the header that the file it goes to wants there: a run of packets
/// can be written from where it lies.
pub const CAPTURE_ROOM: usize = 16;

thread_local! {
    /// Room for packets: a worker's hosts, of which one runs at a time, use the same again and again.
    static SPARE: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// See the [module](self).
#[derive(Debug, Default)]
#[repr(C)] // What is read often comes first: see `belljar_base::Footprint`.
pub struct Captured {
    /// When each packet passed, and its length.
    packets: Vec<(SimTime, usize)>,
    runs: Vec<Run>,
    /// All packets, each behind [`CAPTURE_ROOM`].
    bytes: Vec<u8>,
}

/// Where packets of one interface begin; they end where the next run begins.
#[derive(Debug)]
struct Run {
    interface: Arc<str>,
    ethernet: bool,
    packet: usize,
    byte: usize,
}

/// Packets that passed one interface, one after the other.
#[derive(Debug)]
pub struct CapturedRun<'a> {
    /// The interface's name.
    pub interface: &'a Arc<str>,
    /// True if they are Ethernet frames rather than IP datagrams.
    pub ethernet: bool,
    /// When each passed, and its length in bytes.
    pub packets: &'a [(SimTime, usize)],
    /// Their bytes, each packet's behind [`CAPTURE_ROOM`].
    pub bytes: &'a mut [u8],
}

impl CapturedRun<'_> {
    /// The packets, with the time at which each passed.
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
    /// Tells what is read of it where nothing is captured.
    pub fn footprint(&self, footprint: &mut Footprint) {
        footprint.object(&self.packets);
    }
    /// True if nothing has been captured.
    pub fn is_empty(&self) -> bool {
        self.packets.is_empty()
    }

    /// Number of packets that have been.
    pub fn len(&self) -> usize {
        self.packets.len()
    }

    /// Keeps a packet that passes an interface.
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

    /// Forgets all packets but the first `len`.
    pub fn truncate(&mut self, len: usize) {
        let lost: usize = self.packets.drain(len..).map(|(_, bytes)| CAPTURE_ROOM + bytes).sum();
        self.bytes.truncate(self.bytes.len() - lost);
        self.runs.retain(|run| run.packet < len);
    }

    /// Hands out all packets and forgets them.
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
