//! Ranks: one simulation in several processes, on one machine or several, started by a launcher such as
//! `mpirun -n 8 belljar run exp.yaml` or `srun`.
//!
//! A rank is a cell ([`belljar_sim::CellExchange`]): it runs part of the hosts. Between two windows of
//! simulated time it exchanges packets and the bound of the next window with all others: over shared memory
//! with ranks of the same machine, over TCP with others.
//!
//! A launcher is used only to start processes on many machines. MPI itself is not linked, for these reasons:
//!
//! - A program linked with one MPI library runs under no other, and not without it: the ABIs of Open MPI and
//!   MPICH differ, and no distribution has a common one yet. One binary, that of the wheel, has to run
//!   everywhere.
//! - `MPI_Init` starts threads, registers memory with devices and forbids forks that copy it. Guests live in
//!   this process's memory, and a guest's fork is a raw clone of it; near guests' system calls, FS, GS and
//!   signals belong to the platform.
//! - The loss is small. Between two windows each rank sends one message to each other rank, and continues
//!   when it has received all of theirs. In memory this is the cells' exchange; over TCP one all-to-all
//!   message costs less than an allreduce and an exchange by MPI over TCP. Only RDMA would be faster; on such
//!   networks TCP runs over the device (IPoIB), or over Ethernet beside it.
//!
//! Sequence of a run: `launcher` reads the environment; `rendezvous` connects each rank to rank 0 by a
//! `line`. The ranks then proceed in steps ([`Ranks::step`]): in each step every rank sends its value or its
//! failure, and rank 0 derives one answer for all. So rank 0 alone prints a message, and all ranks exit with
//! the same status. `agreement` compares program, experiment and files of machines, `wiring` connects the
//! ranks, and `folder` collects the results.

mod agreement;
mod folder;
mod inputs;
mod launcher;
mod line;
mod pmi;
mod rendezvous;
mod roster;
mod wiring;

use crate::failure::Failure;
use belljar_sim::CellExchange;
use clap::builder::FalseyValueParser;
use launcher::Place;
use line::{Event, Gone, Line};
use rendezvous::{Arrivals, Met};
use roster::{Member, Roster};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// Ways between ranks of one machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Transport {
    /// Memory that ranks of one machine share, TCP between machines
    Auto,
    /// TCP between all
    Tcp,
}

/// Options of a run by ranks.
#[derive(clap::Args)]
#[group(skip)]
pub struct Arguments {
    /// Run alone even where mpirun or srun has started this process as one of several
    #[arg(long, env = "BELLJAR_NO_RANKS", value_parser = FalseyValueParser::new())]
    no_ranks: bool,
    /// Address of rank 0's machine at which ranks that mpirun or srun has started meet [default: loopback on one machine, else that of
    /// the machine's name]. With a port, and a secret in BELLJAR_RENDEZVOUS_TOKEN, no file is needed
    #[arg(long, value_name = "HOST[:PORT]", env = "BELLJAR_RENDEZVOUS")]
    rendezvous: Option<String>,
    /// File by which ranks find rank 0, in a folder that all machines share [default: beside the results of -o, or in the current
    /// folder]
    #[arg(long, value_name = "FILE", env = "BELLJAR_RENDEZVOUS_FILE")]
    rendezvous_file: Option<PathBuf>,
    /// Seconds that ranks wait for each other at the start
    #[arg(long, value_name = "SECONDS", env = "BELLJAR_RENDEZVOUS_TIMEOUT", default_value_t = 60,
          value_parser = clap::value_parser!(u64).range(..=1_000_000))]
    rendezvous_timeout: u64,
    /// Exchange packets between ranks by these ways
    #[arg(long, value_enum, env = "BELLJAR_RANK_TRANSPORT", default_value = "auto")]
    rank_transport: Transport,
}

/// Reply of rank 0 to the others.
#[derive(Debug, Serialize, Deserialize)]
enum Reply<A> {
    /// Continue with this answer.
    GoOn(A),
    /// The run has ended with this exit status.
    End(u8),
}

/// Failure in the form in which it is sent to rank 0.
#[derive(Debug, Serialize, Deserialize)]
struct Refusal {
    text: String,
    status: u8,
}

/// Membership of this process in a run of several ranks.
pub struct Ranks {
    place: Place,
    roster: Roster,
    /// At rank 0 the lines to all others, from rank 1 on; at any other rank the line to rank 0.
    lines: Vec<Arc<Line>>,
    events: Arc<Events>,
    arrivals: Arrivals,
    token: String,
    /// Timeout for connections of other ranks.
    patience: Duration,
    /// Marks of results folders, and temporary folders on other machines.
    folders: folder::Folders,
}

/// Handler of the events of all lines.
#[derive(Default)]
struct Events {
    exchange: OnceLock<Arc<CellExchange>>,
    /// Lines that the loss of a rank is forwarded on; set at rank 0 only.
    lines: OnceLock<Vec<Arc<Line>>>,
    /// True after the loss of a rank.
    lost: AtomicBool,
}

impl Events {
    fn happen(&self, event: Event) {
        let exchange = self.exchange.get();
        if event == Event::Part {
            if !self.lost.swap(true, SeqCst) {
                self.lines.get().into_iter().flatten().for_each(|line| line.tell(Event::Part));
            }
            exchange.iter().for_each(|exchange| exchange.part());
        }
        exchange.iter().for_each(|exchange| exchange.interrupt());
    }
}

impl Arguments {
    /// Timeout for the connections between ranks.
    fn patience(&self) -> Duration {
        Duration::from_secs(self.rendezvous_timeout)
    }

    /// Connects to the other ranks, if a launcher has started this process as one of several. `output` is the
    /// results folder, if an option names it.
    pub fn meet(&self, file: &Path, output: Option<&Path>) -> Result<Option<Ranks>, Failure> {
        if self.no_ranks {
            return Ok(None);
        }
        let place = launcher::place(|name| std::env::var(name).ok()).map_err(Failure::usage)?;
        let Some(place) = place else { return Ok(None) };
        if file == Path::new("-") {
            let quiet = place.rank > 0;
            let failure = Failure::usage("ranks read the experiment each: name a file instead of '-'");
            return Err(if quiet { Failure::quiet(failure.status()) } else { failure });
        }
        let me = Member::this();
        let met = rendezvous::meet(self, &place, output, me.clone())?;
        let in_memory = self.rank_transport == Transport::Auto;
        Ranks::new(place, me, met, in_memory, self.patience()).map(Some)
    }
}

impl Ranks {
    fn new(
        place: Place,
        me: Member,
        met: Met,
        in_memory: bool,
        patience: Duration,
    ) -> Result<Ranks, Failure> {
        let Met { lines, members, arrivals, token } = met;
        let events = Arc::new(Events::default());
        let lines = lines.into_iter().map(|stream| {
            let events = events.clone();
            Line::new(stream, move |event| events.happen(event)).map(Arc::new)
        });
        let lines: Vec<Arc<Line>> = lines.collect::<Result<_, _>>().map_err(Failure::run)?;
        // The other ranks receive the roster from rank 0.
        let first = (place.rank == 0).then_some(Member { address: Some(arrivals.address), ..me });
        let roster = Roster { members: first.into_iter().chain(members).collect(), in_memory };
        let folders = folder::Folders::default();
        let mut ranks = Ranks { place, roster, lines, events, arrivals, token, patience, folders };
        if ranks.is_first() {
            let _ = ranks.events.lines.set(ranks.lines.clone());
        }
        let roster = ranks.roster.clone();
        ranks.roster = ranks.step(Ok(()), |_| Ok(roster))?;
        Ok(ranks)
    }

    /// True for rank 0, which reports for all ranks.
    pub fn is_first(&self) -> bool {
        self.place.rank == 0
    }
    /// Number of all ranks.
    pub fn count(&self) -> usize {
        self.place.count
    }
    /// Number of ranks on this machine.
    pub fn here(&self) -> usize {
        self.roster.neighbours(self.place.rank).len()
    }
    /// Number of ranks on this machine with the same processors, this one included.
    pub fn sharers(&self) -> usize {
        self.roster.sharers(self.place.rank)
    }

    /// Performs a step: collects the value or failure of every rank at rank 0, where `judge` derives the
    /// answer. Returns the answer at every rank.
    fn step<T: Serialize + DeserializeOwned, A: Serialize + DeserializeOwned>(
        &self,
        mine: Result<T, Failure>,
        judge: impl FnOnce(Vec<T>) -> Result<A, Failure>,
    ) -> Result<A, Failure> {
        if !self.is_first() {
            self.say(mine);
            return self.hear();
        }
        let mut all = vec![mine?];
        for (rank, line) in (1..).zip(&self.lines) {
            match line.hear::<Result<T, Refusal>>() {
                Ok(Ok(value)) => all.push(value),
                Ok(Err(refusal)) => return Err(self.refused(rank, refusal)),
                Err(Gone) => {
                    let label = self.roster.label(rank);
                    return Err(Failure::run(format!("{label} has gone before the run began")));
                }
            }
        }
        let answer = judge(all)?;
        for line in &self.lines {
            // A lost rank is detected in the next step.
            let _ = line.say(&Reply::GoOn(&answer));
        }
        Ok(answer)
    }

    /// Labels the failure of another rank for rank 0's message.
    fn refused(&self, rank: usize, Refusal { text, status }: Refusal) -> Failure {
        let text = text.strip_prefix("error: ").unwrap_or(&text);
        Failure::other(format!("error: {}: {text}", self.roster.label(rank)), status)
    }

    /// Sends this rank's value or failure to rank 0.
    fn say<T: Serialize>(&self, mine: Result<T, Failure>) {
        let said = mine.map_err(|failure| Refusal { text: failure.to_string(), status: failure.status() });
        // If rank 0 has gone, its last reply may still be queued.
        let _ = self.lines[0].say(&said);
    }
    /// Receives rank 0's answer. If rank 0 has ended the run, fails without a message.
    fn hear<A: DeserializeOwned>(&self) -> Result<A, Failure> {
        match self.lines[0].hear() {
            Ok(Reply::GoOn(answer)) => Ok(answer),
            Ok(Reply::End(status)) => Err(Failure::quiet(status)),
            Err(Gone) => Err(self.first_has_gone()),
        }
    }
    /// Failure for the loss of rank 0: rank 1 reports it, all others exit without a message.
    fn first_has_gone(&self) -> Failure {
        if self.place.rank > 1 {
            return Failure::quiet(1);
        }
        let label = self.roster.label(0);
        Failure::run(format!(
            "{label} has gone, and with it the results: all other ranks have stopped{}",
            self.left_behind()
        ))
    }

    /// Ends the run of all ranks with this rank's `result`. Rank 0 prints its message before it notifies the
    /// others: launchers kill all ranks when one has failed.
    pub fn end(self, result: Result<u8, Failure>) -> Result<u8, Failure> {
        self.folders.leave();
        if !self.is_first() {
            return result;
        }
        let status = match &result {
            Ok(status) => *status,
            Err(failure) => {
                eprintln!("{failure}{}", self.left_behind());
                failure.status()
            }
        };
        for line in &self.lines {
            if result.is_err() {
                line.tell(Event::Part);
            }
            let _ = line.say(&Reply::<()>::End(status));
        }
        result.map_err(|failure| Failure::quiet(failure.status()))
    }
}
