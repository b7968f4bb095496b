//! Hub through which users add programs to the hosts of a run.

use super::frames::Frame;
use crate::gateways::PacedClock;
use crate::live::{Goal, Live};
use belljar_base::{Map, SimDuration, SimTime};
use serde::{Deserialize, Serialize};
use std::io::{self, Write};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// Program that a user adds to a host.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct AttachedProgram {
    /// Program and arguments. The host's shell finds the program.
    pub command: Vec<String>,
    /// Text for the results.
    pub title: String,
    /// Variables beside those that every program of the experiment has.
    pub environment: Vec<(String, String)>,
    /// Rows and columns of its terminal; `None` if its streams are pipes.
    pub terminal: Option<(u16, u16)>,
    /// True if simulated time need not go on for it.
    pub background: bool,
}

/// Reason for which a program cannot be added.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AttachError {
    /// No host has this name.
    #[error("there is no host {name}; there are: {}", there_are.join(", "))]
    NoHost {
        /// Name given.
        name: String,
        /// Names of all hosts.
        there_are: Vec<String>,
    },
    /// The host has traffic models and no programs.
    #[error("host {0} has traffic models only: programs cannot run there")]
    NoPrograms(String),
    /// The run goes on at full speed.
    #[error(
        "the run is neither paused nor paced: pause it in its live view, or start it with --real-time or by \
         'belljar prompt'"
    )]
    Running,
    /// The run is over.
    #[error("the simulation has ended")]
    Over,
}

/// Request to a host, of a session by its number.
pub(crate) enum Request {
    /// Start a program, whose output is written to this stream.
    Open(u64, AttachedProgram, UnixStream),
    /// Frame from the client.
    Frame(u64, Frame),
    /// The client has closed its connection.
    Closed(u64),
}

/// How time passes in a run to which programs can be added.
#[derive(Clone, Debug, Default)]
pub enum Course {
    /// At full speed.
    #[default]
    Free,
    /// By the machine's clock.
    Paced,
    /// As the live view says, which may have paused it.
    Live(Arc<Live>),
}

/// Hub through which users add programs to the hosts of a run.
pub struct AttachHub {
    lines: Mutex<Map<String, Sender<Request>>>,
    /// Other ends of lines to hosts that do not exist yet.
    early: Mutex<Map<String, Receiver<Request>>>,
    /// True once all hosts of the run are connected.
    is_complete: Mutex<bool>,
    completed: Condvar,
    /// Names of all hosts.
    hosts: Vec<String>,
    course: Course,
    /// True in a run that goes on while programs that were added run, and only then.
    stands: bool,
    /// True if a host has requests that it has not served.
    wanted: AtomicBool,
    /// Number of hosts on which added programs do something.
    busy: AtomicUsize,
    /// Simulated time at which requests take effect, if no host has run beyond it.
    now_ps: AtomicU64,
    sessions: AtomicU64,
    /// Time of an event that only keeps the run from ending, in picoseconds.
    kept_until: AtomicU64,
}

impl std::fmt::Debug for AttachHub {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AttachHub").finish_non_exhaustive()
    }
}

impl AttachHub {
    /// Creates a hub for the experiment's `hosts`.
    pub fn new(hosts: Vec<String>, course: Course) -> Arc<AttachHub> {
        Arc::new(AttachHub::with(hosts, course, false))
    }

    /// Creates a hub for a run whose time passes while programs that were added run, and only then.
    pub fn standing(hosts: Vec<String>) -> (Arc<AttachHub>, Arc<Live>) {
        let live = Live::standing();
        (Arc::new(AttachHub::with(hosts, Course::Live(live.clone()), true)), live)
    }

    fn with(hosts: Vec<String>, course: Course, stands: bool) -> AttachHub {
        AttachHub {
            lines: Mutex::default(),
            early: Mutex::default(),
            is_complete: Mutex::new(false),
            completed: Condvar::new(),
            hosts,
            course,
            stands,
            wanted: AtomicBool::new(false),
            busy: AtomicUsize::new(0),
            now_ps: AtomicU64::new(0),
            sessions: AtomicU64::new(0),
            kept_until: AtomicU64::new(u64::MAX),
        }
    }

    /// True if the run goes on only while added programs do something.
    pub fn stands(&self) -> bool {
        self.stands
    }

    /// Connects a new host with programs.
    pub(crate) fn connect(&self, host: &str) -> Receiver<Request> {
        if let Some(requests) = self.early.lock().unwrap_or_else(PoisonError::into_inner).remove(host) {
            return requests;
        }
        let (sender, requests) = channel();
        self.lines().insert(host.to_owned(), sender);
        requests
    }

    /// Notes that all hosts with programs are connected.
    pub(crate) fn complete(&self) {
        *self.is_complete.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.completed.notify_all();
    }

    /// Waits until all hosts with programs are connected: users can connect to a run that still builds its hosts.
    fn wait_until_complete(&self) {
        let is_complete = self.is_complete.lock().unwrap_or_else(PoisonError::into_inner);
        drop(self.completed.wait_while(is_complete, |is_complete| !*is_complete));
    }

    /// Prepares the line to a host, whose requests wait until the host is there.
    fn connect_early(&self, host: &str) {
        let mut lines = self.lines();
        if !lines.contains_key(host) {
            let (sender, requests) = channel();
            self.early.lock().unwrap_or_else(PoisonError::into_inner).insert(host.to_owned(), requests);
            lines.insert(host.to_owned(), sender);
        }
    }

    /// Adds a program to a host and serves its client until the client closes the connection; `begin` answers the
    /// client that it has been accepted.
    pub fn serve(
        &self,
        host: &str,
        program: AttachedProgram,
        mut stream: UnixStream,
        begin: impl FnOnce(&mut UnixStream) -> io::Result<()>,
    ) -> Result<(), AttachError> {
        self.admit(host)?;
        self.wait_until_complete();
        let writer = stream.try_clone().map_err(|_| AttachError::Over)?;
        let session = self.sessions.fetch_add(1, Relaxed);
        {
            // A client that has its answer may begin a second program at once, which does not overtake this one.
            let lines = self.lines();
            let line = lines.get(host).ok_or_else(|| AttachError::NoPrograms(host.to_owned()))?;
            begin(&mut stream).map_err(|_| AttachError::Over)?;
            self.send(line, Request::Open(session, program, writer))?;
        }
        while let Ok(Some(frame)) = Frame::read(&stream) {
            self.ask(host, Request::Frame(session, frame))?;
        }
        self.ask(host, Request::Closed(session))
    }

    /// Serves the terminal of the experiment's first process on a host, whose session has begun with the run.
    pub fn serve_console(&self, host: &str, stream: &UnixStream) {
        self.connect_early(host);
        while let Ok(Some(frame)) = Frame::read(stream) {
            if self.ask(host, Request::Frame(CONSOLE, frame)).is_err() {
                return;
            }
        }
        let _ = self.ask(host, Request::Closed(CONSOLE));
    }

    /// Checks that a program can be added to a host now.
    fn admit(&self, host: &str) -> Result<(), AttachError> {
        if !self.hosts.iter().any(|name| name == host) {
            return Err(AttachError::NoHost { name: host.to_owned(), there_are: self.hosts.clone() });
        }
        let Course::Live(live) = &self.course else {
            return if matches!(self.course, Course::Paced) { Ok(()) } else { Err(AttachError::Running) };
        };
        if self.stands || self.is_busy() {
            return if live.position().0.is_over { Err(AttachError::Over) } else { Ok(()) };
        }
        // A run that has gone on for another program pauses after a moment.
        match live.settled() {
            position if position.is_over => Err(AttachError::Over),
            position if position.is_paused => Ok(()),
            _ => Err(AttachError::Running),
        }
    }

    fn ask(&self, host: &str, request: Request) -> Result<(), AttachError> {
        let lines = self.lines();
        let line = lines.get(host).ok_or_else(|| AttachError::NoPrograms(host.to_owned()))?;
        self.send(line, request)
    }

    fn send(&self, line: &Sender<Request>, request: Request) -> Result<(), AttachError> {
        line.send(request).map_err(|_| AttachError::Over)?;
        self.wanted.store(true, Relaxed);
        if let Course::Live(live) = &self.course {
            live.wake();
        }
        Ok(())
    }

    fn lines(&self) -> MutexGuard<'_, Map<String, Sender<Request>>> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// True if hosts must serve requests between two windows.
    pub(crate) fn is_wanted(&self) -> bool {
        self.wanted.load(Relaxed)
    }

    /// True if hosts must serve requests between two windows, as of now; resets the flag. The run has reached
    /// `committed`, the time of the next event.
    pub(crate) fn take_wanted(&self, committed: SimTime, pace: Option<&PacedClock>) -> bool {
        if !self.is_wanted() || !self.wanted.swap(false, Relaxed) {
            return false;
        }
        let now = match (&self.course, pace) {
            (Course::Live(live), _) => live.position().0.committed,
            (_, Some(clock)) => clock.now().min(committed),
            _ => committed,
        };
        self.now_ps.store(now.as_picos(), Relaxed);
        true
    }

    /// Simulated time at which requests that are served now take effect, if no host has run beyond it.
    pub(crate) fn now(&self) -> SimTime {
        SimTime::from_picos(self.now_ps.load(Relaxed))
    }

    /// True if an added program does something.
    pub(crate) fn is_busy(&self) -> bool {
        self.busy.load(Relaxed) > 0
    }

    /// True if the run is to go on at the next event, at `next`, because an added program does something. A program
    /// that waits while nothing happens any more does not make the run end: its user may.
    pub(crate) fn is_busy_at(&self, next: SimTime) -> bool {
        self.is_busy() && next.as_picos() < self.kept_until.load(Relaxed)
    }

    /// Notes the time of the event that only keeps the run from ending.
    pub(crate) fn keep_until(&self, at: SimTime) {
        self.kept_until.store(at.as_picos(), Relaxed);
    }

    /// Notes that added programs on a host begin or cease to do something.
    pub(crate) fn set_busy(&self, was: bool, is: bool) {
        match (was, is) {
            (false, true) => drop(self.busy.fetch_add(1, Relaxed)),
            (true, false) => drop(self.busy.fetch_sub(1, Relaxed)),
            _ => {}
        }
    }

    /// Lets simulated time go on for `duration` in a run that stands. Returns the time reached, which is earlier if the
    /// run has ended.
    pub fn advance(&self, duration: SimDuration) -> Result<SimTime, AttachError> {
        let Course::Live(live) = &self.course else { return Err(AttachError::Running) };
        if !self.stands {
            return Err(AttachError::Running);
        }
        let to = live.position().0.committed + duration;
        live.set_goal(Goal::Before(to));
        live.wait_until_paused();
        Ok(live.position().0.committed)
    }

    /// Ends a run that stands.
    pub fn finish(&self) {
        if let (Course::Live(live), true) = (&self.course, self.stands) {
            live.set_goal(Goal::Finish);
        }
    }

    /// True if the user has ended the run.
    pub fn is_finished(&self) -> bool {
        matches!(&self.course, Course::Live(live) if live.position().1 == Goal::Finish)
    }

    /// Lets a run that stands go on to its end, after its console has ended.
    pub(crate) fn release(&self) {
        if let Course::Live(live) = &self.course {
            live.set_goal(Goal::End);
        }
    }
}

/// Number of the session that begins with the run.
pub(crate) const CONSOLE: u64 = u64::MAX;
/// Simulated time after which input is offered again to a program that had no room for it.
pub(crate) const STEP: SimDuration = SimDuration::from_millis(1);

/// Writes to a client, while simulated time stands. False if the client does not read any more.
pub(crate) fn write(stream: &mut UnixStream, frame: &Frame, is_over: impl Fn() -> bool) -> bool {
    let bytes = frame.to_bytes();
    let mut rest = &bytes[..];
    while !rest.is_empty() {
        match stream.write(rest) {
            Ok(0) => return false,
            Ok(len) => rest = &rest[len..],
            Err(error) if is_temporary(&error) && !is_over() => {}
            Err(_) => return false,
        }
    }
    true
}

/// True for errors after which a write is repeated: the client has not read for a while.
fn is_temporary(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut | io::ErrorKind::Interrupted)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::thread;

    fn program() -> AttachedProgram {
        AttachedProgram {
            command: vec!["true".into()],
            title: "true".into(),
            environment: Vec::new(),
            terminal: None,
            background: false,
        }
    }

    /// Serves a client that asks for a program on `host`, and returns its end of the connection.
    fn ask_for(
        hub: &Arc<AttachHub>,
        host: &'static str,
    ) -> (UnixStream, thread::JoinHandle<Result<(), AttachError>>) {
        let (client, stream) = UnixStream::pair().unwrap();
        let hub = hub.clone();
        let served =
            thread::spawn(move || hub.serve(host, program(), stream, |stream| stream.write_all(b"ok\n")));
        (client, served)
    }

    #[test]
    fn a_request_waits_until_the_hosts_are_built() {
        let (hub, _live) = AttachHub::standing(vec!["a".into(), "models".into()]);
        let (mut client, served) = ask_for(&hub, "a");
        let (mut refused, refusal) = ask_for(&hub, "models");
        thread::yield_now();
        let requests = hub.connect("a");
        hub.complete();
        let mut answer = [0; 3];
        client.read_exact(&mut answer).unwrap();
        assert_eq!(&answer, b"ok\n");
        drop(client);
        assert!(served.join().unwrap().is_ok());
        let taken: Vec<Request> = requests.try_iter().collect();
        assert!(matches!(taken[..], [Request::Open(..), Request::Closed(_)]));
        // A client that is refused gets no `ok` before the reason.
        assert_eq!(refusal.join().unwrap(), Err(AttachError::NoPrograms("models".into())));
        let mut rest = Vec::new();
        refused.read_to_end(&mut rest).unwrap();
        assert!(rest.is_empty());
    }
}
