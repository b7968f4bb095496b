//! Cells of a run: processes that each simulate a part of its hosts. They exchange messages over shared
//! memory, over streams between machines, or both.

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

/// Flags of the mesh: a cell has left, and hosts must leave their windows.
const PARTED: u32 = 0;
const INTERRUPTED: u32 = 1;
/// Longest sleep of a cell before it checks that its peers still exist.
const LOOK: Duration = Duration::from_millis(50);
/// Longest sleep on the mesh while streams are expected to become ready: they can fill up at most
/// meanwhile.
const STREAMS_LOOK: Duration = Duration::from_millis(1);
/// Polls without progress before sleeping: peers usually arrive soon.
const LOOKS: u32 = 200;
/// Bytes read from a stream at a time.
const CHUNK: u64 = 64 << 10;
/// Longest run of hosts with consecutive names, which are often alike, that is assigned to one cell.
const RUN: usize = 16;

/// Assigns each group of the plan to a cell, and balances the number of hosts as far as the sizes of groups
/// permit. The assignment depends only on the experiment and the number of cells.
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

/// Transport from this cell to another.
#[derive(Debug)]
pub enum Way {
    /// No transport: the entry is the cell itself.
    Own,
    /// Shared memory, with the number of the other cell in the mesh.
    Memory(usize),
    /// Stream to a cell that is not on the mesh.
    Stream(TcpStream),
}

/// Callback, called once when hosts must leave their windows, to notify cells that are not on the mesh.
type OnInterrupt = Box<dyn Fn() + Send + Sync>;

/// Exchange of one cell with all others.
pub struct CellExchange {
    me: usize,
    workers: usize,
    mesh: Option<Mesh>,
    peers: Mutex<Vec<Peer>>,
    parted: AtomicBool,
    interrupted: AtomicBool,
    on_interrupt: Option<OnInterrupt>,
}

/// Data in transfer between this cell and another.
#[derive(Debug)]
struct Peer {
    way: Way,
    out: Vec<u8>,
    written: usize,
    /// Bytes received; those of the next exchange may follow those of the current one.
    input: Vec<u8>,
    status: Option<CellStatus>,
}

impl CellExchange {
    /// Creates an exchange over `mesh` alone; all cells together have `workers`.
    pub fn new(mesh: Mesh, workers: usize) -> CellExchange {
        let me = mesh.me();
        let ways = (0..mesh.count()).map(|n| if n == me { Way::Own } else { Way::Memory(n) });
        let ways = ways.collect();
        CellExchange::over(ways, Some(mesh), workers)
    }

    /// Creates an exchange with one transport for each cell.
    ///
    /// # Errors
    /// Errors of the sockets, which are made non-blocking.
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

    /// Sets a callback that is called once when hosts must leave their windows.
    pub fn on_interrupt(self, tell: impl Fn() + Send + Sync + 'static) -> CellExchange {
        CellExchange { on_interrupt: Some(Box::new(tell)), ..self }
    }

    /// Number of this cell.
    pub fn me(&self) -> u32 {
        self.me as u32
    }
    /// Number of cells.
    pub fn count(&self) -> usize {
        self.peers.lock().unwrap_or_else(PoisonError::into_inner).len()
    }
    /// Number of workers of all cells together.
    pub fn workers(&self) -> usize {
        self.workers
    }
    /// Ends all exchanges, because a cell will not take part any more.
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
    /// Requests all cells to make their hosts leave their windows at once.
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
    /// True if this has been requested.
    pub fn interrupted(&self) -> bool {
        self.interrupted.load(SeqCst) || self.mesh.as_ref().is_some_and(|mesh| mesh.raised(INTERRUPTED))
    }

    /// Sleeps until one of `peers` may have sent data or have room for more, but at most for a short time.
    /// `rung` is the state of the mesh before the last poll.
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
                // The next read reports an error of a stream.
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

    /// Transfers as much as possible in both directions; returns the number of bytes.
    fn transfer(&mut self, mesh: Option<&Mesh>, received: &mut Vec<Outgoing<Message>>) -> io::Result<usize> {
        let unwritten = &self.out[self.written..];
        let written = match (&self.way, mesh) {
            (Way::Memory(n), Some(mesh)) => mesh.write(*n, unwritten),
            (Way::Stream(stream), _) => write_some(stream, unwritten)?,
            _ => return Ok(0),
        };
        self.written += written;
        let mut read = 0;
        // Data of this exchange that arrived with the last one are in the input already.
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

/// Writes as many bytes as the stream accepts.
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

/// Appends the bytes available from the stream, at most one chunk.
fn read_some(stream: &TcpStream, input: &mut Vec<u8>) -> io::Result<usize> {
    let before = input.len();
    // Calls are frequent and mostly read nothing, so that no buffer is cleared.
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

    /// Both ends of a stream.
    fn stream() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let one = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (one, listener.accept().unwrap().0)
    }

    fn join(first: &Mesh, me: usize) -> Mesh {
        Mesh::join(first.file().try_clone_to_owned().unwrap(), first.count(), me).unwrap()
    }

    /// Exchanges more among three cells than their transports hold at once, several times.
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
