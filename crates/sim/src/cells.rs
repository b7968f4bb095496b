//! Cells of a run, processes that simulate a part of its hosts each: their exchange over shared memory.

use crate::message::Message;
use belljar_base::{EventClass, EventKey, HostId, SimTime};
use belljar_channel::Mesh;
use belljar_engine::{CellStatus, Exchange, Outgoing, PeersGone, Plan};
use belljar_net::{ChecksumState, Packet};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Flags of the mesh.
const PARTED: u32 = 0;
const INTERRUPTED: u32 = 1;
/// Longest sleep of a cell before it looks whether the others are still there.
const LOOK: Duration = Duration::from_millis(50);
/// Looks before sleeping: others are most often about to come.
const LOOKS: u32 = 200;
/// Neighbours in name, which are often alike, are dealt out in runs of at most this many hosts.
const RUN: usize = 16;

/// The cell of each group of the plan: as many hosts in each as groups allow. It follows from the
/// experiment and the number of cells alone.
pub fn deal(plan: &Plan, cells: usize) -> Vec<u32> {
    let run = (plan.node_count() / (4 * cells)).clamp(1, RUN);
    let mut before = 0;
    let cell_of = plan.groups().iter().map(|group| {
        let cell = before / run % cells;
        before += group.members.len();
        cell as u32
    });
    cell_of.collect()
}

/// One cell's way to the others.
#[derive(Debug)]
pub struct CellExchange {
    mesh: Mesh,
    peers: Mutex<Vec<Peer>>,
}

/// Data under way between this cell and another.
#[derive(Debug, Default)]
struct Peer {
    out: Vec<u8>,
    written: usize,
    /// Bytes that have come; the next exchange's may follow this one's.
    input: Vec<u8>,
    status: Option<CellStatus>,
}

impl CellExchange {
    /// Meets over `mesh`.
    pub fn new(mesh: Mesh) -> CellExchange {
        let peers = (0..mesh.count()).map(|_| Peer::default()).collect();
        CellExchange { mesh, peers: Mutex::new(peers) }
    }
    /// This cell's number.
    pub fn me(&self) -> u32 {
        self.mesh.me() as u32
    }
    /// Number of cells.
    pub fn count(&self) -> usize {
        self.mesh.count()
    }
    /// The memory by which other processes take part.
    pub fn mesh(&self) -> &Mesh {
        &self.mesh
    }
    /// Ends all exchanges: one of the cells will not come any more.
    pub fn part(&self) {
        self.mesh.raise(PARTED);
    }
    /// True if exchanges have ended.
    pub fn parted(&self) -> bool {
        self.mesh.raised(PARTED)
    }
    /// Tells all cells that hosts are to leave their windows at once.
    pub fn interrupt(&self) {
        self.mesh.raise(INTERRUPTED);
    }
    /// True if they have been told.
    pub fn interrupted(&self) -> bool {
        self.mesh.raised(INTERRUPTED)
    }
}

impl Exchange<Message> for CellExchange {
    fn send(&self, sent: &mut Vec<(u32, Outgoing<Message>)>) {
        let mut peers = self.peers.lock().unwrap_or_else(PoisonError::into_inner);
        for (to, message) in sent.drain(..) {
            write_message(&mut peers[to as usize].out, &message);
        }
    }

    fn synchronize(
        &self,
        mine: CellStatus,
        received: &mut Vec<Outgoing<Message>>,
    ) -> Result<CellStatus, PeersGone> {
        let peers = &mut *self.peers.lock().unwrap_or_else(PoisonError::into_inner);
        let me = self.mesh.me();
        for (_, peer) in peers.iter_mut().enumerate().filter(|(n, _)| *n != me) {
            write_status(&mut peer.out, &mine);
        }
        let mut idle = 0;
        loop {
            let rung = self.mesh.rung();
            let (mut moved, mut waiting) = (0, false);
            for (n, peer) in peers.iter_mut().enumerate().filter(|(n, _)| *n != me) {
                let written = self.mesh.write(n, &peer.out[peer.written..]);
                peer.written += written;
                moved += written;
                if peer.status.is_none() {
                    moved += self.mesh.read(n, &mut peer.input);
                    peer.status = read_exchange(&mut peer.input, received);
                }
                waiting |= peer.written < peer.out.len() || peer.status.is_none();
            }
            if !waiting {
                break;
            }
            if self.parted() {
                return Err(PeersGone);
            }
            idle = if moved > 0 { 0 } else { idle + 1 };
            if idle >= LOOKS {
                self.mesh.wait(rung, LOOK);
            } else if idle > 0 {
                std::thread::yield_now();
            }
        }
        let mut all = mine;
        for (_, peer) in peers.iter_mut().enumerate().filter(|(n, _)| *n != me) {
            peer.out.clear();
            peer.written = 0;
            all = all.with(peer.status.take().expect("it has come"));
        }
        Ok(all)
    }
}

/// Before each record stands its length in bytes, 32 bits; the record of 0 bytes is followed by the
/// status and ends the exchange. All numbers are little-endian.
const LENGTH: usize = 4;
/// Receiver, time, class, source, sequence, port.
const KEY: usize = 4 + 8 + 1 + 4 + 8 + 4;
/// In place of a port, for what comes over the graph.
const GRAPH: u32 = u32::MAX;
/// State of a packet's checksum, which stands beside the class.
const INTACT: u8 = 2;
const OPEN: u8 = 4;
const UNDELIVERED: u8 = 8;
/// First, lbts, unfinished, last finish, stop.
const STANDING: usize = 4 * 8 + 1;

fn write_message(out: &mut Vec<u8>, message: &Outgoing<Message>) {
    let bytes = message.message.packet.open_bytes();
    out.extend(((KEY + bytes.len()) as u32).to_le_bytes());
    out.extend(message.to.0.to_le_bytes());
    out.extend(message.key.time.as_picos().to_le_bytes());
    let checksum = match message.message.packet.checksum() {
        ChecksumState::Untested => 0,
        ChecksumState::Intact => INTACT,
        ChecksumState::Open => OPEN,
    };
    let undelivered = if message.message.packet.is_undelivered() { UNDELIVERED } else { 0 };
    out.push(u8::from(message.key.class == EventClass::Timer) | checksum | undelivered);
    out.extend(message.key.source.0.to_le_bytes());
    out.extend(message.key.sequence.to_le_bytes());
    out.extend(message.message.port.map_or(GRAPH, |port| port as u32).to_le_bytes());
    out.extend(bytes);
}

fn write_status(out: &mut Vec<u8>, status: &CellStatus) {
    out.extend(0_u32.to_le_bytes());
    out.extend(status.first.as_picos().to_le_bytes());
    out.extend(status.lbts.as_picos().to_le_bytes());
    out.extend(status.unfinished.to_le_bytes());
    out.extend(status.last_finish.as_picos().to_le_bytes());
    out.push(u8::from(status.stop));
}

/// Takes whole records from the front of `input`, up to a status.
fn read_exchange(input: &mut Vec<u8>, received: &mut Vec<Outgoing<Message>>) -> Option<CellStatus> {
    let mut rest = &input[..];
    let mut status = None;
    while let Some((length, after)) = rest.split_first_chunk::<LENGTH>() {
        let length = u32::from_le_bytes(*length) as usize;
        if length == 0 {
            let Some((record, after)) = after.split_at_checked(STANDING) else { break };
            status = Some(read_status(record));
            rest = after;
            break;
        }
        let Some((record, after)) = after.split_at_checked(length) else { break };
        received.push(read_message(record));
        rest = after;
    }
    let used = input.len() - rest.len();
    input.drain(..used);
    status
}

fn read_message(record: &[u8]) -> Outgoing<Message> {
    let (key, bytes) = record.split_at(KEY);
    let checksum = match key[12] & (INTACT | OPEN) {
        0 => ChecksumState::Untested,
        INTACT => ChecksumState::Intact,
        _ => ChecksumState::Open,
    };
    let key = EventKey {
        time: SimTime::from_picos(u64_at(key, 4)),
        class: if key[12] & 1 == 0 { EventClass::Arrival } else { EventClass::Timer },
        source: HostId(u32_at(key, 13)),
        sequence: u64_at(key, 17),
    };
    let port = Some(u32_at(record, 25)).filter(|port| *port != GRAPH).map(|port| port as usize);
    let packet = Packet::new(bytes.to_vec()).with_checksum(checksum);
    let packet = if record[12] & UNDELIVERED != 0 { packet.undelivered() } else { packet };
    Outgoing { to: HostId(u32_at(record, 0)), key, message: Message { port, packet } }
}

fn read_status(record: &[u8]) -> CellStatus {
    CellStatus {
        first: SimTime::from_picos(u64_at(record, 0)),
        lbts: SimTime::from_picos(u64_at(record, 8)),
        unfinished: u64_at(record, 16),
        last_finish: SimTime::from_picos(u64_at(record, 24)),
        stop: record[32] != 0,
    }
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}
fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use belljar_base::SimDuration;
    use belljar_engine::Group;

    fn message(sequence: u64, len: usize) -> Outgoing<Message> {
        let key = EventKey {
            time: SimTime::from_picos(u64::MAX - sequence),
            class: EventClass::Arrival,
            source: HostId(7),
            sequence,
        };
        let port = (sequence > 0).then_some(sequence as usize);
        let known = [ChecksumState::Untested, ChecksumState::Intact, ChecksumState::Open];
        let packet = Packet::new(vec![sequence as u8; len]).with_checksum(known[sequence as usize % 3]);
        let packet = if sequence == 2 { packet.undelivered() } else { packet };
        let message = Message { port, packet };
        Outgoing { to: HostId(3), key, message }
    }

    fn status(first: u64) -> CellStatus {
        let at = SimTime::from_picos(first);
        CellStatus { first: at, lbts: at, unfinished: first, last_finish: at, stop: first == 2 }
    }

    #[test]
    fn records_are_read_as_they_were_written_wherever_the_pieces_end() {
        let mut stream = Vec::new();
        for sequence in 0..3 {
            write_message(&mut stream, &message(sequence, 40 * sequence as usize));
        }
        write_status(&mut stream, &status(2));
        let end = stream.len();
        write_message(&mut stream, &message(9, 1));
        for cut in 0..end {
            let (mut input, mut received) = (stream[..cut].to_vec(), Vec::new());
            assert_eq!(read_exchange(&mut input, &mut received), None, "{cut}");
            input.extend(&stream[cut..]);
            assert_eq!(read_exchange(&mut input, &mut received), Some(status(2)));
            let parts = |m: &Outgoing<Message>| (m.to, m.key, m.message.port, m.message.packet.clone());
            let sent = (0..3).map(|n| parts(&message(n, 40 * n as usize)));
            assert_eq!(received.iter().map(parts).collect::<Vec<_>>(), sent.collect::<Vec<_>>());
            assert_eq!(read_exchange(&mut input, &mut received), None);
            assert_eq!(received.last().unwrap().key.sequence, 9);
        }
    }

    #[test]
    fn three_cells_meet_over_more_than_their_rings_hold() {
        let first = CellExchange::new(Mesh::create(3).unwrap());
        let join = |me| {
            let file = first.mesh().file().try_clone_to_owned().unwrap();
            CellExchange::new(Mesh::join(file, 3, me).unwrap())
        };
        let cells = [&join(1), &join(2), &first];
        std::thread::scope(|scope| {
            for cell in cells {
                scope.spawn(move || {
                    for round in 1..20 {
                        let mut sent = Vec::new();
                        for to in (0..3).filter(|to| *to != cell.me()) {
                            sent.extend((0..400).map(|n| (to, message(n, 1_500))));
                        }
                        cell.send(&mut sent);
                        let mut received = Vec::new();
                        let mine = status(round * 10 + u64::from(cell.me()));
                        let all = cell.synchronize(mine, &mut received).unwrap();
                        assert_eq!((all.first.as_picos(), all.unfinished), (round * 10, round * 30 + 3));
                        assert_eq!((received.len(), sent.len()), (800, 0));
                    }
                });
            }
        });
    }

    #[test]
    fn a_cell_that_is_told_so_waits_no_longer() {
        let alone = CellExchange::new(Mesh::create(2).unwrap());
        alone.part();
        assert_eq!(alone.synchronize(status(1), &mut Vec::new()), Err(PeersGone));
    }

    #[test]
    fn hosts_are_dealt_evenly_and_groups_stay_whole() {
        for (hosts, cells) in [(3, 2), (10, 3), (1_000, 4), (30_000, 7)] {
            let of_group = deal(&Plan::uniform(hosts, SimDuration::from_millis(1)), cells);
            let counts = (0..cells as u32).map(|cell| of_group.iter().filter(|of| **of == cell).count());
            let (least, most) = counts.fold((usize::MAX, 0), |(l, m), n| (l.min(n), m.max(n)));
            assert!(least > 0 && most - least <= RUN, "{hosts} hosts in {cells}: {least} to {most}");
        }
        let whole = Group {
            members: (0..5).map(HostId).collect(),
            inner: SimDuration::MAX,
            lookahead: SimDuration::from_millis(1),
        };
        assert_eq!(deal(&Plan::new(vec![whole]), 2), [0]);
    }
}
