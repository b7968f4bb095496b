//! The way from outside to the hosts of a run.

use belljar_base::Map;
use belljar_kernel::DebugProcess;
use std::fmt::Write as _;
use std::io::Read;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Time that a host may take to answer: one whose guest computes answers at its next call, one that
/// is stopped for another debugger not at all.
const PATIENCE: Duration = Duration::from_secs(10);

/// Text of [`DebugError::Elsewhere`].
pub const ELSEWHERE: &str = "the host belongs to another cell";

/// A process that a debugger can attach to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Debuggee {
    /// Its process id.
    pub pid: i32,
    /// The file that it runs, on this machine.
    pub executable: Option<PathBuf>,
}

/// Why a process cannot be debugged.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DebugError {
    /// No host has this name.
    #[error("there is no host {name}; there are: {}", there_are.join(", "))]
    NoHost {
        /// The name given.
        name: String,
        /// All names.
        there_are: Vec<String>,
    },
    /// The host belongs to another cell of the run.
    #[error("{ELSEWHERE}")]
    Elsewhere,
    /// The host has no such process, or several.
    #[error("{}", no_process(host, who, there_are))]
    NoProcess {
        /// The host.
        host: String,
        /// The text given for the process.
        who: String,
        /// The host's processes.
        there_are: Vec<DebugProcess>,
    },
    /// Somebody debugs it already.
    #[error("process {pid} of {host} is being debugged already")]
    Busy {
        /// The host.
        host: String,
        /// The process.
        pid: i32,
    },
    /// The host does not answer.
    #[error(
        "host {0} does not answer: the simulation is stopped by another debugger, or a program computes without a \
         system call"
    )]
    NoAnswer(String),
    /// The run is over.
    #[error("the simulation has ended")]
    Over,
}

fn no_process(host: &str, who: &str, there_are: &[DebugProcess]) -> String {
    let program =
        |process: &&DebugProcess| process.command.split(' ').next().is_some_and(|p| p.ends_with(who));
    let several = there_are.iter().filter(program).count() > 1;
    let mut text = match several {
        true => format!("host {host} has several processes {who}: name one by its number"),
        false => format!("host {host} has no process {who}"),
    };
    match there_are {
        [] => text.push_str("; none runs there now"),
        _ => text.push_str("; there are:"),
    }
    for process in there_are {
        let _ = write!(text, "\n  {:>6}  {}", process.pid, process.command);
    }
    text
}

/// A request from outside to a host.
pub(crate) enum Request {
    /// The host's name and processes.
    List(Sender<(String, Vec<DebugProcess>)>),
    /// A process by its number or name.
    Find(String, Sender<Result<Debuggee, DebugError>>),
    /// To debug it over this stream; the answer is the session's number.
    Attach(String, UnixStream, Sender<Result<u64, DebugError>>),
    /// A debugger has sent something.
    Bytes(u64, Vec<u8>),
    /// A debugger has gone.
    Closed(u64),
}

/// The hub's side of one host.
struct Line {
    attention: Arc<AtomicBool>,
    requests: Mutex<Sender<Request>>,
}

/// A host's side of the hub.
pub(crate) struct Port {
    /// Set when there are requests.
    pub attention: Arc<AtomicBool>,
    pub requests: Receiver<Request>,
    hub: Arc<DebugHub>,
}

impl Port {
    /// Tells the user that a process waits for its debugger.
    pub fn hub_calls(&self, host: &str, pid: i32) {
        (self.hub.on_wait)(host, pid);
    }
}

/// Where debuggers come to the hosts of a run.
pub struct DebugHub {
    lines: Mutex<Map<String, Line>>,
    /// The names of all hosts of the experiment.
    hosts: Vec<String>,
    /// True if a host has requests that it may not see within its window.
    wanted: AtomicBool,
    on_wait: Box<OnWait>,
}

/// Told the host and number of a process that waits for its debugger.
type OnWait = dyn Fn(&str, i32) + Send + Sync;

impl std::fmt::Debug for DebugHub {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DebugHub").finish_non_exhaustive()
    }
}

impl DebugHub {
    /// A hub for some or all of the experiment's `hosts`. `on_wait` is told the host and number of each process that waits for its
    /// debugger.
    pub fn new(hosts: Vec<String>, on_wait: impl Fn(&str, i32) + Send + Sync + 'static) -> Arc<DebugHub> {
        let (lines, wanted) = (Mutex::default(), AtomicBool::new(false));
        Arc::new(DebugHub { lines, hosts, wanted, on_wait: Box::new(on_wait) })
    }

    /// A line to a new host.
    pub(crate) fn connect(self: &Arc<DebugHub>, host: &str) -> Port {
        let (sender, requests) = channel();
        let attention = Arc::new(AtomicBool::new(false));
        let line = Line { attention: attention.clone(), requests: Mutex::new(sender) };
        self.lines().insert(host.to_owned(), line);
        Port { attention, requests, hub: self.clone() }
    }

    /// True if hosts are to be asked between two windows.
    pub(crate) fn is_wanted(&self) -> bool {
        self.wanted.load(Relaxed)
    }

    /// True if hosts are to be asked between two windows; told once.
    pub(crate) fn take_wanted(&self) -> bool {
        self.is_wanted() && self.wanted.swap(false, Relaxed)
    }

    /// The processes of all hosts that answer, by host.
    pub fn list(&self) -> Vec<(String, Vec<DebugProcess>)> {
        let (sender, answers) = channel();
        let hosts: Vec<String> = self.lines().keys().cloned().collect();
        for host in hosts {
            let _ = self.ask(&host, Request::List(sender.clone()));
        }
        drop(sender);
        let mut all: Vec<_> = std::iter::from_fn(|| answers.recv_timeout(PATIENCE).ok()).collect();
        all.sort();
        all
    }

    /// A host's process by its number or the name of its program.
    pub fn find(&self, host: &str, who: &str) -> Result<Debuggee, DebugError> {
        let (sender, answer) = channel();
        self.ask(host, Request::Find(who.to_owned(), sender))?;
        answer.recv_timeout(PATIENCE).map_err(|_| DebugError::NoAnswer(host.to_owned()))?
    }

    /// Stops a host's process and speaks gdb's remote protocol over `stream` until one side has had
    /// enough; `on_start` is called when it begins.
    pub fn debug(
        &self,
        host: &str,
        who: &str,
        mut stream: UnixStream,
        on_start: impl FnOnce(&mut UnixStream),
    ) -> Result<(), DebugError> {
        let (sender, answer) = channel();
        let writer = stream.try_clone().map_err(|_| DebugError::Over)?;
        self.ask(host, Request::Attach(who.to_owned(), writer, sender))?;
        let session = answer.recv_timeout(PATIENCE).map_err(|_| DebugError::NoAnswer(host.to_owned()))??;
        on_start(&mut stream);
        let mut buffer = [0; 4096];
        while let Ok(len @ 1..) = stream.read(&mut buffer) {
            self.ask(host, Request::Bytes(session, buffer[..len].to_vec()))?;
        }
        self.ask(host, Request::Closed(session))
    }

    fn lines(&self) -> std::sync::MutexGuard<'_, Map<String, Line>> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn ask(&self, host: &str, request: Request) -> Result<(), DebugError> {
        let lines = self.lines();
        let Some(line) = lines.get(host) else {
            if self.hosts.iter().any(|name| name == host) {
                return Err(DebugError::Elsewhere);
            }
            return Err(DebugError::NoHost { name: host.to_owned(), there_are: self.hosts.clone() });
        };
        let sender = line.requests.lock().unwrap_or_else(PoisonError::into_inner);
        sender.send(request).map_err(|_| DebugError::Over)?;
        line.attention.store(true, Relaxed);
        self.wanted.store(true, Relaxed);
        Ok(())
    }
}
