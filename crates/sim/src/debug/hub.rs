//! Hub through which debuggers reach the hosts of a run.

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

/// Time limit for a host's answer. A host whose guest computes answers at the guest's next system call; a
/// host that is stopped by another debugger does not answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// Text of [`DebugError::Elsewhere`].
pub const ELSEWHERE: &str = "the host belongs to another cell";

/// Process that a debugger can attach to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Debuggee {
    /// Process id.
    pub pid: i32,
    /// Path of the executable on the machine.
    pub executable: Option<PathBuf>,
}

/// Reason for which a process cannot be debugged.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DebugError {
    /// No host has this name.
    #[error("there is no host {name}; there are: {}", there_are.join(", "))]
    NoHost {
        /// Name given.
        name: String,
        /// Names of all hosts.
        there_are: Vec<String>,
    },
    /// The host belongs to another cell of the run.
    #[error("{ELSEWHERE}")]
    Elsewhere,
    /// The host has no such process, or several of them.
    #[error("{}", no_process(host, who, there_are))]
    NoProcess {
        /// Name of the host.
        host: String,
        /// Process id or program name given.
        who: String,
        /// Processes of the host.
        there_are: Vec<DebugProcess>,
    },
    /// Another debugger is attached to the process.
    #[error("process {pid} of {host} is being debugged already")]
    Busy {
        /// Name of the host.
        host: String,
        /// Process id.
        pid: i32,
    },
    /// The host did not answer in time.
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

/// Request to a host.
pub(crate) enum Request {
    /// Return the host's name and processes.
    List(Sender<(String, Vec<DebugProcess>)>),
    /// Find a process by its id or program name.
    Find(String, Sender<Result<Debuggee, DebugError>>),
    /// Debug a process over this stream; the answer is the number of the session.
    Attach(String, UnixStream, Sender<Result<u64, DebugError>>),
    /// Process data from a debugger.
    Bytes(u64, Vec<u8>),
    /// End the session of a debugger that has disconnected.
    Closed(u64),
}

/// Hub's end of the connection to a host.
struct Line {
    attention: Arc<AtomicBool>,
    requests: Mutex<Sender<Request>>,
}

/// Host's end of the connection to the hub.
pub(crate) struct Port {
    /// True if there are requests.
    pub attention: Arc<AtomicBool>,
    pub requests: Receiver<Request>,
    hub: Arc<DebugHub>,
}

impl Port {
    /// Notifies the user that a process waits for its debugger.
    pub fn hub_calls(&self, host: &str, pid: i32) {
        (self.hub.on_wait)(host, pid);
    }
}

/// Hub through which debuggers reach the hosts of a run.
pub struct DebugHub {
    lines: Mutex<Map<String, Line>>,
    /// Names of all hosts of the experiment.
    hosts: Vec<String>,
    /// True if a host has requests that it may not notice within its window.
    wanted: AtomicBool,
    on_wait: Box<OnWait>,
}

/// Callback with host name and id of a process that waits for its debugger.
type OnWait = dyn Fn(&str, i32) + Send + Sync;

impl std::fmt::Debug for DebugHub {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DebugHub").finish_non_exhaustive()
    }
}

impl DebugHub {
    /// Creates a hub for some or all of the experiment's `hosts`. `on_wait` is called with host name and id
    /// of each process that waits for its debugger.
    pub fn new(hosts: Vec<String>, on_wait: impl Fn(&str, i32) + Send + Sync + 'static) -> Arc<DebugHub> {
        let (lines, wanted) = (Mutex::default(), AtomicBool::new(false));
        Arc::new(DebugHub { lines, hosts, wanted, on_wait: Box::new(on_wait) })
    }

    /// Connects a new host to the hub.
    pub(crate) fn connect(self: &Arc<DebugHub>, host: &str) -> Port {
        let (sender, requests) = channel();
        let attention = Arc::new(AtomicBool::new(false));
        let line = Line { attention: attention.clone(), requests: Mutex::new(sender) };
        self.lines().insert(host.to_owned(), line);
        Port { attention, requests, hub: self.clone() }
    }

    /// True if hosts must serve requests between two windows.
    pub(crate) fn is_wanted(&self) -> bool {
        self.wanted.load(Relaxed)
    }

    /// True if hosts must serve requests between two windows; resets the flag.
    pub(crate) fn take_wanted(&self) -> bool {
        self.is_wanted() && self.wanted.swap(false, Relaxed)
    }

    /// Lists the processes of all hosts that answer, by host.
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

    /// Finds a process of a host by its id or program name.
    pub fn find(&self, host: &str, who: &str) -> Result<Debuggee, DebugError> {
        let (sender, answer) = channel();
        self.ask(host, Request::Find(who.to_owned(), sender))?;
        answer.recv_timeout(PATIENCE).map_err(|_| DebugError::NoAnswer(host.to_owned()))?
    }

    /// Stops a host's process and speaks gdb's remote serial protocol over `stream` until either side
    /// disconnects; `on_start` is called when the session begins.
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
