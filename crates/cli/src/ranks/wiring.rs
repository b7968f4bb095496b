//! The ways between ranks: memory for those of one machine, a stream for each other pair.

use super::line::notice_loss;
use super::rendezvous::{Purpose, connect};
use super::{Event, Ranks};
use crate::failure::Failure;
use crate::progress::now;
use belljar_channel::Mesh;
use belljar_sim::{CellExchange, Way};
use std::fs::OpenOptions;
use std::io;
use std::net::TcpStream;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

/// Longest wait for a rank that has not connected, before it is looked whether one has gone.
const LOOK: Duration = Duration::from_millis(200);
/// Looks for ranks that have not connected.
const LOOKS: u32 = 300;

impl Ranks {
    /// Makes this rank's exchange with all others, which together have `workers`.
    pub fn wire(&self, workers: usize) -> Result<Arc<CellExchange>, Failure> {
        let me = self.place.rank;
        let mesh = self.share_memory()?;
        let streams = self.connect_streams(mesh.is_some());
        let ways = streams.map_err(Failure::run).and_then(|mut streams| {
            let neighbours = if mesh.is_some() { self.roster.neighbours(me) } else { Vec::new() };
            let ways = (0..self.place.count).map(|rank| match streams.get_mut(rank).and_then(Option::take) {
                Some(stream) => Way::Stream(stream),
                None if rank == me => Way::Own,
                None => Way::Memory(neighbours.iter().position(|other| *other == rank).unwrap_or(usize::MAX)),
            });
            CellExchange::between(ways.collect(), mesh, workers).map_err(Failure::run)
        });
        let (exchange, mine) = match ways {
            Ok(exchange) => (Some(exchange), Ok(())),
            Err(failure) => (None, Err(failure)),
        };
        self.step(mine, |_| Ok(()))?;
        let exchange = exchange.expect("the others went on, so this rank has its ways");
        let lines = self.lines.clone();
        let tell = move || lines.iter().for_each(|line| line.tell(Event::Interrupt));
        let exchange = Arc::new(exchange.on_interrupt(tell));
        let _ = self.events.exchange.set(exchange.clone());
        if self.events.lost.load(SeqCst) {
            exchange.part();
        }
        Ok(exchange)
    }

    /// The memory that this rank shares with those of its machine; `None` if it has none with them.
    fn share_memory(&self) -> Result<Option<Mesh>, Failure> {
        let me = self.place.rank;
        let neighbours = self.roster.neighbours(me);
        let wanted = self.roster.in_memory && neighbours.len() > 1;
        let is_keeper = self.roster.keeper(me) == me;
        let mut mesh = None;
        // The first rank of a machine makes the memory; the others open it by the descriptor that it has there.
        let made = match wanted && is_keeper {
            true => Mesh::create(neighbours.len()).map(|made| {
                let place = (std::process::id(), made.file().as_raw_fd());
                mesh = Some(made);
                Some(place)
            }),
            false => Ok(None),
        };
        let made = made.map_err(|error| Failure::run(format!("no memory to share: {error}")));
        let places: Vec<Option<(u32, i32)>> = self.step(made, Ok)?;
        if let (true, false, Some((process, descriptor))) =
            (wanted, is_keeper, places[self.roster.keeper(me)])
        {
            let number = neighbours.iter().position(|other| *other == me).unwrap_or_default();
            let file = format!("/proc/{process}/fd/{descriptor}");
            let file = OpenOptions::new().read(true).write(true).open(file).map(OwnedFd::from);
            mesh = file.and_then(|file| Mesh::join(file, neighbours.len(), number)).ok();
        }
        // Where one may not open it, such as in a container of its own, all of the machine do without.
        let has = self.step(Ok(mesh.is_some()), Ok)?;
        Ok(mesh.filter(|_| neighbours.iter().all(|rank| has[*rank])))
    }

    /// Streams to the ranks that this one shares no memory with: it connects to those before it and is connected to by those after it.
    fn connect_streams(&self, in_memory: bool) -> io::Result<Vec<Option<TcpStream>>> {
        let me = self.place.rank;
        let neighbours = if in_memory { self.roster.neighbours(me) } else { vec![me] };
        let mut streams: Vec<Option<TcpStream>> = (0..self.place.count).map(|_| None).collect();
        for rank in (0..me).filter(|rank| !neighbours.contains(rank)) {
            let failed = |error: io::Error| {
                io::Error::other(format!("{} cannot be connected to: {error}", self.roster.label(rank)))
            };
            let address = self.roster.members[rank]
                .address
                .ok_or_else(|| failed(io::ErrorKind::AddrNotAvailable.into()))?;
            let stream = connect(address, &self.token, &self.place, Purpose::Packets).map_err(failed)?;
            notice_loss(&stream)?;
            streams[rank] = Some(stream);
        }
        let mut missing = (me + 1..self.place.count).filter(|rank| !neighbours.contains(rank)).count();
        let mut looks = 0;
        while missing > 0 {
            match self.arrivals.packets(now() + LOOK) {
                Some((rank, stream)) if rank > me && streams.get(rank).is_some_and(Option::is_none) => {
                    notice_loss(&stream)?;
                    streams[rank] = Some(stream);
                    missing -= 1;
                }
                Some(_) => {}
                None => {
                    looks += 1;
                    if self.events.lost.load(SeqCst) || looks >= LOOKS {
                        return Err(io::Error::other(format!("{missing} ranks have not connected")));
                    }
                }
            }
        }
        Ok(streams)
    }
}
