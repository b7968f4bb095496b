//! `belljar run --cells N`: one simulation in several processes. This one is the first cell and writes the
//! results of all; the others are this program again, with the hidden command `cell`.

use crate::failure::Failure;
use crate::log::Log;
use crate::session;
use crate::workers::Workers;
use belljar_channel::Mesh;
use belljar_config::Experiment;
use belljar_results::ResultsFolder;
use belljar_sim::{Meeting, Output, Part, RunOptions};
use rustix::process::{Pid, Signal, getppid, set_parent_process_death_signal};
use std::ffi::OsString;
use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{Child, Command, ExitCode, ExitStatus, Stdio};
use std::sync::Arc;
use std::thread::{self, JoinHandle};

/// The most cells there can be.
pub const MOST: u32 = 64;
/// The file of a run's resolved experiment within its results.
pub const EXPERIMENT: &str = "processed-config.yaml";

/// The other cells of a run.
pub struct Cells {
    /// How this process meets them.
    pub meeting: Arc<Meeting>,
    others: Vec<JoinHandle<Result<Part, String>>>,
}

impl Cells {
    /// Starts all cells but this one, on the experiment that `folder` holds.
    pub fn start(
        count: usize,
        folder: &ResultsFolder,
        options: &RunOptions,
        workers: &Workers,
    ) -> Result<Cells, Failure> {
        let failed = |error| Failure::run(format!("cells cannot be started: {error}"));
        let meeting = Arc::new(Meeting::new(Mesh::create(count).map_err(failed)?));
        let mut cells = Cells { meeting, others: Vec::new() };
        for me in 1..count {
            let mut command = Command::new(std::env::current_exe().map_err(failed)?);
            command.arg("cell").arg("--folder").arg(folder.path());
            command.args(["--me", &me.to_string(), "--count", &count.to_string()]);
            command.args(["--parent", &std::process::id().to_string()]);
            command.args(["--workers", &workers.count.to_string()]);
            command.args(["--stealing", &workers.stealing.to_string()]);
            for path in &options.exposed {
                command.arg("--exposed").arg(path);
            }
            for (host, program) in &options.wait_for_debugger {
                command.arg("--gdb").arg(format!("{host}:{program}"));
            }
            let memory = cells.meeting.mesh().file().try_clone_to_owned().map_err(failed)?;
            // In a process group of its own: Ctrl-C is for this process, which tells the others.
            command.stdin(memory).stdout(Stdio::piped()).process_group(0);
            let child = command.spawn().map_err(failed)?;
            let meeting = cells.meeting.clone();
            cells.others.push(thread::spawn(move || {
                let part = part_of(me, child);
                if part.is_err() {
                    meeting.part();
                }
                part
            }));
        }
        Ok(cells)
    }

    /// What the others have, once they have ended, and what went wrong with the first that failed.
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

/// Waits for a cell to end and reads what it says at its end.
fn part_of(me: usize, mut child: Child) -> Result<Part, String> {
    let mut text = String::new();
    let read = child.stdout.take().map_or(Ok(0), |mut output| output.read_to_string(&mut text));
    let status = child.wait();
    let parsed = serde_json::from_str(&text);
    match (read, status, parsed) {
        (Ok(_), Ok(status), Ok(part)) if status.success() => Ok(part),
        (_, Ok(status), _) => Err(format!(
            "cell {me} {}: the results of its hosts are incomplete, and the others stop where it did",
            ended(status)
        )),
        (_, Err(error), _) => Err(format!("cell {me} cannot be waited for: {error}")),
    }
}

fn ended(status: ExitStatus) -> String {
    match (status.signal(), status.code()) {
        (Some(signal), _) => format!("was killed by signal {signal}"),
        (None, code) => format!("has failed with status {}", code.unwrap_or(-1)),
    }
}

/// What one cell of `belljar run --cells` is told; not for people.
#[derive(clap::Args)]
pub struct Arguments {
    #[arg(long)]
    folder: PathBuf,
    #[arg(long)]
    me: usize,
    #[arg(long)]
    count: usize,
    #[arg(long)]
    parent: i32,
    #[arg(long)]
    workers: usize,
    #[arg(long, action = clap::ArgAction::Set)]
    stealing: bool,
    #[arg(long)]
    exposed: Vec<OsString>,
    #[arg(long, value_parser = crate::run::parse_debuggee)]
    gdb: Vec<(String, String)>,
}

/// Runs a cell: the shared memory is standard input, and what it has in the end goes to standard output.
pub fn main(arguments: &Arguments) -> Result<ExitCode, Failure> {
    set_parent_process_death_signal(Some(Signal::KILL)).map_err(Failure::run)?;
    if getppid() != Pid::from_raw(arguments.parent) {
        return Err(Failure::run("the run that this cell belongs to has ended"));
    }
    let file = std::io::stdin().as_fd().try_clone_to_owned().map_err(Failure::run)?;
    let nothing = std::fs::File::open("/dev/null").map_err(Failure::run)?;
    rustix::stdio::dup2_stdin(nothing).map_err(Failure::run)?;
    let mesh = Mesh::join(file, arguments.count, arguments.me).map_err(Failure::run)?;
    let meeting = Meeting::new(mesh);
    let folder = ResultsFolder::open(&arguments.folder);
    let experiment = Experiment::load(&folder.path().join(EXPERIMENT)).map_err(Failure::input)?;
    let options = RunOptions {
        watched: None,
        output: Output::Files,
        working_directory: None,
        exposed: arguments.exposed.iter().map(PathBuf::from).collect(),
        interrupt: Default::default(),
        debug: crate::control::hub(&folder, &experiment),
        wait_for_debugger: arguments.gdb.clone(),
    };
    let workers = Workers::some(arguments.workers, arguments.stealing);
    let log = Log::new(false, &experiment);
    let (part, _) = session::run(&experiment, &folder, &options, &workers, &log, false, Some(&meeting))?;
    let text = serde_json::to_vec(&part).map_err(Failure::run)?;
    std::io::stdout().write_all(&text).map_err(Failure::run)?;
    Ok(ExitCode::SUCCESS)
}
