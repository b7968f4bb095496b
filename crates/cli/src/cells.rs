//! `belljar run --cells N`: one simulation in several processes. The first process writes the results of all
//! cells; the others are forked from it after the experiment is loaded.

use crate::failure::Failure;
use crate::log::Log;
use crate::progress::Display;
use crate::session;
use crate::workers::Workers;
use belljar_channel::{Mesh, fork};
use belljar_config::Experiment;
use belljar_results::ResultsFolder;
use belljar_sim::{CellExchange, Part, RunOptions};
use rustix::process::{
    Pid, Signal, WaitOptions, WaitStatus, getpid, getppid, set_parent_process_death_signal, setpgid, waitpid,
};
use std::fs::File;
use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::sync::Arc;
use std::thread::{self, JoinHandle};

/// Upper bound on the number of cells.
pub const MOST: u32 = 64;

/// Role of this process in the run.
pub enum Cell {
    /// The first cell, the parent of all others.
    First(Cells),
    /// A forked cell.
    Other(Other),
}

/// Handle of the first cell to all others.
pub struct Cells {
    /// Exchange between this cell and the others.
    pub exchange: Arc<CellExchange>,
    others: Vec<JoinHandle<Result<Part, String>>>,
}

/// Link of a forked cell to the first one.
pub struct Other {
    exchange: CellExchange,
    /// Pipe over which the cell sends its part at the end.
    result: PipeWriter,
}

/// Forks `count - 1` cells from this process, which must have no other threads. `workers` is the number of
/// workers of all cells together.
pub fn split(count: usize, workers: usize) -> Result<Cell, Failure> {
    let failed = |error| Failure::run(format!("cells cannot be started: {error}"));
    let mesh = Mesh::create(count).map_err(failed)?;
    let first = getpid();
    io::stdout().flush().map_err(failed)?;
    let mut others = Vec::new();
    for me in 1..count {
        let (results, result) = io::pipe().map_err(failed)?;
        match fork().map_err(failed)? {
            Some(child) => others.push((me, child, results)),
            None => {
                drop(others);
                return Other::begin(first, &mesh, me, workers, result).map(Cell::Other).map_err(failed);
            }
        }
    }
    let exchange = Arc::new(CellExchange::new(mesh, workers));
    let watch = |(me, child, results)| {
        let exchange = exchange.clone();
        thread::spawn(move || {
            let part = part_of(me, child, results);
            if part.is_err() {
                exchange.part();
            }
            part
        })
    };
    let others = others.into_iter().map(watch).collect();
    Ok(Cell::First(Cells { exchange, others }))
}

impl Cells {
    /// Waits until the other cells have ended. Returns their parts, and the error of the first cell that
    /// failed.
    pub fn finish(self) -> (Vec<Part>, Option<Failure>) {
        let (mut parts, mut failure) = (Vec::new(), None);
        for other in self.others {
            match other.join().unwrap_or_else(|_| Err("a cell's watcher has failed".to_owned())) {
                Ok(part) => parts.push(part),
                Err(error) => {
                    failure.get_or_insert(Failure::run(error));
                }
            }
        }
        (parts, failure)
    }
}

/// Waits until a cell ends and parses the part that it has written to its pipe.
fn part_of(me: usize, child: i32, mut results: PipeReader) -> Result<Part, String> {
    let mut text = String::new();
    let read = results.read_to_string(&mut text);
    let status = loop {
        match waitpid(Pid::from_raw(child), WaitOptions::empty()) {
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(format!("cell {me} cannot be waited for: {error}")),
            Ok(ended) => break ended.map(|(_, status)| status),
        }
    };
    let succeeded = status.is_some_and(|status| status.exit_status() == Some(0));
    match (read, serde_json::from_str(&text)) {
        (Ok(_), Ok(part)) if succeeded => Ok(part),
        _ => Err(format!(
            "cell {me} {}: the results of its hosts are incomplete, and the others stop where it did",
            status.map_or_else(|| "has gone".to_owned(), ended)
        )),
    }
}

fn ended(status: WaitStatus) -> String {
    match status.terminating_signal() {
        Some(signal) => format!("was killed by signal {signal}"),
        None => format!("has failed with status {}", status.exit_status().unwrap_or(-1)),
    }
}

impl Other {
    /// Turns this process, just forked from `first`, into cell `me`.
    fn begin(first: Pid, mesh: &Mesh, me: usize, workers: usize, result: PipeWriter) -> io::Result<Other> {
        set_parent_process_death_signal(Some(Signal::KILL))?;
        if getppid() != Some(first) {
            return Err(io::Error::other("the run that this cell belongs to has ended"));
        }
        // A process group of its own: the terminal's Ctrl-C reaches the first cell alone, which notifies the
        // others.
        setpgid(None, None)?;
        rustix::stdio::dup2_stdin(File::open("/dev/null")?)?;
        let file = mesh.file().try_clone_to_owned()?;
        let exchange = CellExchange::new(Mesh::join(file, mesh.count(), me)?, workers);
        Ok(Other { exchange, result })
    }

    /// Runs this cell's hosts and sends its part to the first cell.
    pub fn run(
        mut self,
        experiment: &Experiment,
        folder: &ResultsFolder,
        options: &RunOptions,
        workers: &Workers,
    ) -> Result<u8, Failure> {
        let workers = Workers::some(workers.count, workers.stealing);
        let log = Log::new(false, experiment);
        let (part, _) =
            session::run(experiment, folder, options, &workers, &log, Display::Notes, Some(&self.exchange))?;
        let text = serde_json::to_vec(&part).map_err(Failure::run)?;
        self.result.write_all(&text).map_err(Failure::run)?;
        Ok(0)
    }
}
