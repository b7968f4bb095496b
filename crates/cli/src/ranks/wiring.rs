//! Connections between ranks: shared memory for ranks of one machine, a TCP stream for each other pair.

use super::line::{LOOK, notice_loss};
use super::rendezvous::connect;
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

/// Stream to each rank without shared memory, by rank.
type Streams = Vec<Option<TcpStream>>;

impl Ranks {
    /// Creates the exchange with all other ranks. `workers` is the number of workers of all ranks together.
    pub fn wire(&self, workers: usize) -> Result<Arc<CellExchange>, Failure> {
        let me = self.place.rank;
        let mesh = self.share_memory()?;
        let streams = self.connect_streams(mesh.is_some());
        let ways = streams.map_err(Failure::run).and_then(|streams| {
            let Some(mut streams) = streams else { return Ok(None) };
            let neighbours = if mesh.is_some() { self.roster.neighbours(me) } else { Vec::new() };
            let ways = (0..self.place.count).map(|rank| match streams.get_mut(rank).and_then(Option::take) {
                Some(stream) => Way::Stream(stream),
                None if rank == me => Way::Own,
                None => Way::Memory(neighbours.iter().position(|other| *other == rank).unwrap_or(usize::MAX)),
            });
            CellExchange::between(ways.collect(), mesh, workers).map(Some).map_err(Failure::run)
        });
        let (exchange, mine) = match ways {
            Ok(exchange) => {
                let has_ways = exchange.is_some();
                (exchange, Ok(has_ways))
            }
            Err(failure) => {
                // The others are notified at once, so that they do not wait.
                match self.is_first() {
                    true => self.events.happen(Event::Part),
                    false => self.lines[0].tell(Event::Part),
                }
                (None, Err(failure))
            }
        };
        self.step(mine, |all| match all.iter().all(|has_ways| *has_ways) {
            true => Ok(()),
            false => Err(Failure::run("a rank has gone before the run began")),
        })?;
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

    /// Creates or opens the memory shared with ranks of this machine; `None` if any of them cannot open it.
    fn share_memory(&self) -> Result<Option<Mesh>, Failure> {
        let me = self.place.rank;
        let neighbours = self.roster.neighbours(me);
        let wanted = self.roster.in_memory && neighbours.len() > 1;
        let is_keeper = self.roster.keeper(me) == me;
        let mut mesh = None;
        // The first rank of a machine creates the memory; the others open it by that process's descriptor.
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
        // If one rank cannot open it, such as in a container of its own, no rank of the machine uses it.
        let has = self.step(Ok(mesh.is_some()), Ok)?;
        Ok(mesh.filter(|_| neighbours.iter().all(|rank| has[*rank])))
    }

    /// Creates the streams to ranks without shared memory: connects to those with lower ranks, and accepts
    /// connections of those with higher ranks. Returns `None` after the loss of a rank, which is reported
    /// elsewhere.
    fn connect_streams(&self, in_memory: bool) -> io::Result<Option<Streams>> {
        let me = self.place.rank;
        let neighbours = if in_memory { self.roster.neighbours(me) } else { vec![me] };
        let mut streams: Streams = (0..self.place.count).map(|_| None).collect();
        // A connecting rank has the shorter timeout: it knows the cause of its failure, and reports first.
        let (answer, come) = (now() + self.patience * 3 / 4, now() + self.patience);
        let all_are_there = || !self.events.lost.load(SeqCst);
        for rank in (0..me).filter(|rank| !neighbours.contains(rank)) {
            let failed = |error: io::Error| {
                io::Error::other(format!("{} cannot be connected to: {error}", self.roster.label(rank)))
            };
            let address = self.roster.members[rank]
                .address
                .ok_or_else(|| failed(io::ErrorKind::AddrNotAvailable.into()))?;
            let stream = match connect(address, &self.token, &self.place, answer, all_are_there) {
                Err(_) if !all_are_there() => return Ok(None),
                connected => connected.map_err(failed)?,
            };
            notice_loss(&stream)?;
            streams[rank] = Some(stream);
        }
        let later = |rank: &usize| *rank > me && !neighbours.contains(rank);
        let missing = |streams: &Streams| -> Vec<usize> {
            (0..streams.len()).filter(later).filter(|rank| streams[*rank].is_none()).collect()
        };
        while let [first, ..] = missing(&streams)[..] {
            if !all_are_there() {
                return Ok(None);
            }
            match self.arrivals.packets(now() + LOOK) {
                Some((rank, stream)) if later(&rank) && rank < streams.len() => {
                    notice_loss(&stream)?;
                    // A second connection of a rank replaces its lost first one.
                    streams[rank] = Some(stream);
                }
                Some(_) => {}
                None if now() >= come => {
                    return Err(io::Error::other(format!(
                        "{} has not connected to {} within {} s ({} ranks are missing): --rendezvous-timeout gives them longer",
                        self.roster.label(first),
                        self.roster.label(me),
                        self.patience.as_secs(),
                        missing(&streams).len()
                    )));
                }
                None => {}
            }
        }
        Ok(Some(streams))
    }
}

#[cfg(test)]
mod tests {
    use super::super::Ranks;
    use super::super::launcher::Place;
    use super::super::rendezvous::{Arrivals, Met};
    use super::super::roster::Member;
    use rustix::net::{AddressFamily, SocketType, bind, getsockname, socket};
    use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, TcpListener, TcpStream};
    use std::thread;
    use std::time::Duration;

    const TOKEN: &str = "a token that nobody guesses";
    const PATIENCE: Duration = Duration::from_secs(60);

    fn listener() -> TcpListener {
        TcpListener::bind("127.0.0.1:0").unwrap()
    }

    /// Member `rank` of three, with `address` as known to the others.
    fn member(rank: usize, address: SocketAddr) -> Member {
        let host = format!("m{rank}");
        Member {
            machine: host.clone(),
            host,
            cpus: "0".into(),
            processor: String::new(),
            address: Some(address),
        }
    }

    /// Results of the wiring at three ranks, where the others connect to rank 1 at `address`, or at its own
    /// address.
    fn wire(address: Option<SocketAddr>) -> Vec<Result<(), String>> {
        let door = listener();
        let arrivals: Vec<Arrivals> = (0..3).map(|_| Arrivals::at(listener(), TOKEN).unwrap()).collect();
        let members: Vec<Member> = (0..3).map(|rank| member(rank, arrivals[rank].address)).collect();
        let told = vec![
            Member { address: Some(address.unwrap_or(arrivals[1].address)), ..members[1].clone() },
            members[2].clone(),
        ];
        let mut first = Vec::new();
        let mut others = Vec::new();
        for _ in 0..2 {
            others.push(TcpStream::connect(door.local_addr().unwrap()).unwrap());
            first.push(door.accept().unwrap().0);
        }
        let mut lines = [first, vec![others.remove(0)], vec![others.remove(0)]];
        let ranks = arrivals.into_iter().enumerate().map(|(rank, arrivals)| {
            let place = Place { rank, count: 3, job: None, on_one_machine: None, pmi: None };
            let lines = std::mem::take(&mut lines[rank]);
            let told = if rank == 0 { told.clone() } else { Vec::new() };
            let (me, met) =
                (members[rank].clone(), Met { lines, members: told, arrivals, token: TOKEN.into() });
            thread::spawn(move || {
                let ranks = Ranks::new(place, me, met, false, PATIENCE).unwrap();
                let wired = ranks.wire(3);
                let said = wired.as_ref().map(|_| ()).map_err(ToString::to_string);
                // Notifies the others of the end.
                let _ = ranks.end(wired.map(|_| 0));
                said
            })
        });
        let ranks: Vec<_> = ranks.collect();
        ranks.into_iter().map(|rank| rank.join().unwrap()).collect()
    }

    #[test]
    fn a_rank_that_cannot_connect_says_so() {
        assert_eq!(wire(None), vec![Ok(()), Ok(()), Ok(())]);
        // Bound but not listening, so that the port stays closed.
        let closed = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
        bind(&closed, &SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0)).unwrap();
        let nobody = getsockname(&closed).unwrap().try_into().unwrap();
        let said = wire(Some(nobody));
        let first = said[0].as_ref().unwrap_err();
        assert!(
            first.contains("rank 2 (m2): rank 1 (m1) cannot be connected to: Connection refused"),
            "{first}"
        );
        assert_eq!(said[1..], [Err(String::new()), Err(String::new())]);
    }
}
