//! Cells of a run, processes that simulate a part of its hosts each: their exchange over memory that they share, over
//! streams between machines, or both.

mod records;

use crate::message::Message;
use belljar_channel::Mesh;
use belljar_engine::{CellStatus, Exchange, Outgoing, PeersGone, Plan};
use records::{read_exchange, write_message, write_status};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::fmt;
use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Flags of the mesh.
const PARTED: u32 = 0;
const INTERRUPTED: u32 = 1;
/// Longest sleep of a cell before it looks whether the others are still there.
const LOOK: Duration = Duration::from_millis(50);
/// The same for one that sleeps by the mesh while streams have something for it: they fill up meanwhile, and no more.
const STREAMS_LOOK: Duration = Duration::from_millis(1);
/// Looks before sleeping: others are most often about to come.
const LOOKS: u32 = 200;
/// Bytes read from a stream at a time.
const CHUNK: u64 = 64 << 10;
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

/// A cell's way to another.
#[derive(Debug)]
pub enum Way {
    /// None: it is the cell itself.
    Own,
    /// Over the mesh, where the other has this number.
    Memory(usize),
    /// Over a stream.
    Stream(TcpStream),
}

/// Called once when hosts are to leave their windows at once, to tell cells that are not on the mesh.
type OnInterrupt = Box<dyn Fn() + Send + Sync>;

/// One cell's exchange with the others.
pub struct CellExchange {
    me: usize,
    workers: usize,
    mesh: Option<Mesh>,
    peers: Mutex<Vec<Peer>>,
    parted: AtomicBool,
    interrupted: AtomicBool,
    on_interrupt: Option<OnInterrupt>,
}

/// Data under way between this cell and another.
#[derive(Debug)]
struct Peer {
    way: Way,
    out: Vec<u8>,
    written: usize,
    /// Bytes that have come; the next exchange's may follow this one's.
    input: Vec<u8>,
    status: Option<CellStatus>,
}

impl CellExchange {
    /// Meets over `mesh` alone; all cells together have `workers`.
    pub fn new(mesh: Mesh, workers: usize) -> CellExchange {
        let me = mesh.me();
        let ways = (0..mesh.count()).map(|n| if n == me { Way::Own } else { Way::Memory(n) });
        let ways = ways.collect();
        CellExchange::over(ways, Some(mesh), workers)
    }

    /// Meets each of the others in its way.
    ///
    /// # Errors
    /// Those of sockets, which are made non-blocking.
    pub fn between(ways: Vec<Way>, mesh: Option<Mesh>, workers: usize) -> io::Result<CellExchange> {
        for way in &ways {
            if let Way::Stream(stream) = way {
                stream.set_nonblocking(true)?;
                stream.set_nodelay(true)?;
            }
        }
        Ok(CellExchange::over(ways, mesh, workers))
    }

    fn over(ways: Vec<Way>, mesh: Option<Mesh>, workers: usize) -> CellExchange {
        let me = ways.iter().position(|way| matches!(way, Way::Own)).expect("a cell is one of the cells");
        let peer = |way| Peer { way, out: Vec::new(), written: 0, input: Vec::new(), status: None };
        CellExchange {
            me,
            workers,
            mesh,
            peers: Mutex::new(ways.into_iter().map(peer).collect()),
            parted: AtomicBool::new(false),
            interrupted: AtomicBool::new(false),
            on_interrupt: None,
        }
    }

    /// The same, with what is called once when hosts are to leave their windows.
    pub fn on_interrupt(self, tell: impl Fn() + Send + Sync + 'static) -> CellExchange {
        CellExchange { on_interrupt: Some(Box::new(tell)), ..self }
    }

    /// This cell's number.
    pub fn me(&self) -> u32 {
        self.me as u32
    }
    /// Number of cells.
    pub fn count(&self) -> usize {
        self.peers.lock().unwrap_or_else(PoisonError::into_inner).len()
    }
    /// Number of workers that all cells have together.
    pub fn workers(&self) -> usize {
        self.workers
    }
    /// Ends all exchanges: one of the cells will not come any more.
    pub fn part(&self) {
        self.parted.store(true, SeqCst);
        if let Some(mesh) = &self.mesh {
            mesh.raise(PARTED);
        }
    }
    /// True if exchanges have ended.
    pub fn parted(&self) -> bool {
        self.parted.load(SeqCst) || self.mesh.as_ref().is_some_and(|mesh| mesh.raised(PARTED))
    }
    /// Tells all cells that hosts are to leave their windows at once.
    pub fn interrupt(&self) {
        if self.interrupted.swap(true, SeqCst) {
            return;
        }
        if let Some(mesh) = &self.mesh {
            mesh.raise(INTERRUPTED);
        }
        if let Some(tell) = &self.on_interrupt {
            tell();
        }
    }
    /// True if they have been told.
    pub fn interrupted(&self) -> bool {
        self.interrupted.load(SeqCst) || self.mesh.as_ref().is_some_and(|mesh| mesh.raised(INTERRUPTED))
    }

    /// Sleeps until one of `peers` may have come, or has room for more; for a moment at most. `rung` was taken from the mesh before
    /// looking.
    fn sleep(&self, peers: &[Peer], rung: u32) {
        let waited_for = || peers.iter().filter(|peer| peer.is_waited_for());
        let streams = waited_for().filter_map(|peer| match &peer.way {
            Way::Stream(stream) => {
                let write = if peer.has_output() { PollFlags::OUT } else { PollFlags::empty() };
                let read = if peer.status.is_none() { PollFlags::IN } else { PollFlags::empty() };
                Some(PollFd::new(stream, write | read))
            }
            _ => None,
        });
        let mut streams: Vec<PollFd<'_>> = streams.collect();
        let in_memory = waited_for().any(|peer| matches!(peer.way, Way::Memory(_)));
        match &self.mesh {
            Some(mesh) if in_memory => mesh.wait(rung, if streams.is_empty() { LOOK } else { STREAMS_LOOK }),
            _ => {
                let moment = Timespec { tv_sec: 0, tv_nsec: LOOK.as_nanos() as i64 };
                // An error is seen by whoever reads next.
                let _ = poll(&mut streams, Some(&moment));
            }
        }
    }
}

impl fmt::Debug for CellExchange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CellExchange").field("me", &self.me).field("mesh", &self.mesh).finish_non_exhaustive()
    }
}

impl Peer {
    fn has_output(&self) -> bool {
        self.written < self.out.len()
    }
    fn is_waited_for(&self) -> bool {
        !matches!(self.way, Way::Own) && (self.has_output() || self.status.is_none())
    }

    /// Moves what can be moved both ways; returns the number of bytes.
    fn transfer(&mut self, mesh: Option<&Mesh>, received: &mut Vec<Outgoing<Message>>) -> io::Result<usize> {
        let unwritten = &self.out[self.written..];
        let written = match (&self.way, mesh) {
            (Way::Memory(n), Some(mesh)) => mesh.write(*n, unwritten),
            (Way::Stream(stream), _) => write_some(stream, unwritten)?,
            _ => return Ok(0),
        };
        self.written += written;
        let mut read = 0;
        // What of this exchange came with the last one is in the input already.
        if self.status.is_none() && !self.input.is_empty() {
            self.status = read_exchange(&mut self.input, received);
        }
        if self.status.is_none() {
            read = match (&self.way, mesh) {
                (Way::Memory(n), Some(mesh)) => mesh.read(*n, &mut self.input),
                (Way::Stream(stream), _) => read_some(stream, &mut self.input)?,
                _ => 0,
            };
            if read > 0 {
                self.status = read_exchange(&mut self.input, received);
            }
        }
        Ok(written + read)
    }
}

/// Writes as many bytes as the stream takes.
fn write_some(mut stream: &TcpStream, bytes: &[u8]) -> io::Result<usize> {
    let mut written = 0;
    while written < bytes.len() {
        match stream.write(&bytes[written..]) {
            Ok(count) => written += count,
            Err(error) if error.kind() == ErrorKind::WouldBlock => break,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(written)
}

/// Appends what the stream has, a chunk at most.
fn read_some(stream: &TcpStream, input: &mut Vec<u8>) -> io::Result<usize> {
    let before = input.len();
    // It is looked for often, so nothing is cleared that mostly stays empty.
    match stream.take(CHUNK).read_to_end(input) {
        Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(input.len() - before),
        Ok(0) => Err(ErrorKind::UnexpectedEof.into()),
        read => read,
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
        let me = self.me;
        for (_, peer) in peers.iter_mut().enumerate().filter(|(n, _)| *n != me) {
            write_status(&mut peer.out, &mine);
        }
        let mut idle = 0;
        loop {
            let rung = self.mesh.as_ref().map_or(0, Mesh::rung);
            let mut moved = 0;
            for peer in peers.iter_mut().filter(|peer| peer.is_waited_for()) {
                match peer.transfer(self.mesh.as_ref(), received) {
                    Ok(bytes) => moved += bytes,
                    Err(_) => {
                        self.part();
                        return Err(PeersGone);
                    }
                }
            }
            if !peers.iter().any(Peer::is_waited_for) {
                break;
            }
            if self.parted() {
                return Err(PeersGone);
            }
            idle = if moved > 0 { 0 } else { idle + 1 };
            if idle >= LOOKS {
                self.sleep(peers, rung);
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

#[cfg(test)]
mod tests {
    use super::records::tests::{message, status};
    use super::*;
    use belljar_base::{HostId, SimDuration};
    use belljar_engine::Group;
    use std::net::TcpListener;

    /// The two ends of a stream.
    fn stream() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let one = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (one, listener.accept().unwrap().0)
    }

    fn join(first: &Mesh, me: usize) -> Mesh {
        Mesh::join(first.file().try_clone_to_owned().unwrap(), first.count(), me).unwrap()
    }

    /// Three cells exchange more than their ways hold at once, several times.
    fn exchange_much(cells: [&CellExchange; 3]) {
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
    fn three_cells_meet_over_more_than_their_rings_hold() {
        let first = Mesh::create(3).unwrap();
        let (second, third) = (join(&first, 1), join(&first, 2));
        let cell = |mesh| CellExchange::new(mesh, 3);
        exchange_much([&cell(second), &cell(third), &cell(first)]);
    }

    #[test]
    fn two_cells_in_memory_meet_a_third_over_streams() {
        let first = Mesh::create(2).unwrap();
        let second = join(&first, 1);
        let ((a, ca), (b, cb)) = (stream(), stream());
        let cell = |ways, mesh| CellExchange::between(ways, mesh, 3).unwrap();
        exchange_much([
            &cell(vec![Way::Own, Way::Memory(1), Way::Stream(a)], Some(first)),
            &cell(vec![Way::Memory(0), Way::Own, Way::Stream(b)], Some(second)),
            &cell(vec![Way::Stream(ca), Way::Stream(cb), Way::Own], None),
        ]);
    }

    #[test]
    fn a_cell_that_is_told_so_waits_no_longer() {
        let alone = CellExchange::new(Mesh::create(2).unwrap(), 2);
        alone.part();
        assert_eq!(alone.synchronize(status(1), &mut Vec::new()), Err(PeersGone));
    }

    #[test]
    fn a_stream_that_ends_ends_the_exchange() {
        let (here, there) = stream();
        let cell = CellExchange::between(vec![Way::Own, Way::Stream(here)], None, 2).unwrap();
        drop(there);
        assert_eq!(cell.synchronize(status(1), &mut Vec::new()), Err(PeersGone));
        assert!(cell.parted());
    }

    #[test]
    fn an_interruption_is_told_once() {
        let (told, tells) = std::sync::mpsc::channel();
        let ways = vec![Way::Own];
        let cell = CellExchange::between(ways, None, 1).unwrap().on_interrupt(move || told.send(()).unwrap());
        cell.interrupt();
        cell.interrupt();
        assert!(cell.interrupted());
        drop(cell);
        assert_eq!(tells.iter().count(), 1);
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
