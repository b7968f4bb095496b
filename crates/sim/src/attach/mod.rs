//! Programs that users add to the hosts of a run: `belljar attach`, `belljar prompt`, the terminal of `belljar exec`.
//!
//! A client is served on a thread of its own, which passes its [`Frame`]s through the [`AttachHub`] to the host's node.
//! The node takes them between two windows ([`belljar_engine::Node::attend`]) and makes an event of them: at the
//! time that the run has reached ([`HostNode::exchange`]). After a window in which a program has written something, has
//! ended or has begun to wait for input, an exchange follows at once. All that a session does to the simulation, it does in these events. Since their times and
//! contents come from outside, the run cannot be repeated, which its statistics say.
//!
//! `hub` connects clients to nodes, `frames` is their protocol.

mod frames;
mod hub;

pub use frames::Frame;
pub use hub::{AttachError, AttachHub, AttachedProgram, Course};

use crate::node::{Due, HostNode};
use belljar_base::SimTime;
use belljar_config::Experiment;
use belljar_kernel::{Host, Output, ProcessReport, ProcessSpec, WaitStatus, Winsize, attended};
use belljar_netstack::event_loop::EventLoop;
use belljar_plan::CLEAN_ENVIRONMENT;
use belljar_results::AttendedProgram;
use hub::{CONSOLE, Request, STEP};
use std::collections::VecDeque;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::Receiver;
use std::time::Duration;

/// Shell of every host, which finds programs.
const SHELL: &str = "/bin/sh";
/// Real time after which a write to a client that does not read looks whether the run is over.
const PATIENCE: Duration = Duration::from_millis(100);

/// Added programs of a node.
pub(crate) struct Attached {
    hub: Arc<AttachHub>,
    requests: Receiver<Request>,
    interrupt: Arc<AtomicBool>,
    /// Requests for the next exchange.
    pending: VecDeque<Request>,
    sessions: Vec<Session>,
    /// Time of the exchange that is among the node's changes.
    next: Option<SimTime>,
    /// True if the run is to go on without a session, because it stands.
    keeps: bool,
    was_busy: bool,
    /// Programs so far, for the statistics.
    pub log: Vec<AttendedProgram>,
}

/// Program with its client.
struct Session {
    id: u64,
    spec: usize,
    stream: UnixStream,
    /// Input that the program has had no room for.
    input: VecDeque<u8>,
    /// True once the client has closed the input, which is closed for the program when all of it has been passed on.
    is_input_over: bool,
    is_busy: bool,
    /// True if simulated time need not go on for it.
    is_in_background: bool,
    /// Index in the log.
    log: usize,
}

impl Attached {
    pub(crate) fn new(
        hub: &Arc<AttachHub>,
        host: &str,
        has_programs: bool,
        interrupt: Arc<AtomicBool>,
    ) -> Attached {
        // A host without programs has no line to the hub.
        let requests = if has_programs { hub.connect(host) } else { std::sync::mpsc::channel().1 };
        Attached {
            hub: hub.clone(),
            requests,
            interrupt,
            pending: VecDeque::new(),
            sessions: Vec::new(),
            next: None,
            keeps: false,
            was_busy: false,
            log: Vec::new(),
        }
    }

    /// True if programs that were added run here, or may be added at any time.
    pub(crate) fn is_open(&self) -> bool {
        self.keeps || !self.sessions.is_empty() || !self.pending.is_empty()
    }

    /// True if programs that were added run here.
    pub(crate) fn has_sessions(&self) -> bool {
        !self.sessions.is_empty()
    }

    /// Publishes whether anything goes on.
    fn note_busy(&mut self) {
        let is_busy = !self.pending.is_empty() || self.sessions.iter().any(|session| session.is_busy);
        self.hub.set_busy(std::mem::replace(&mut self.was_busy, is_busy), is_busy);
    }

    /// True if a program has had no room for its input yet, and may have some when it has read.
    fn has_input(&self) -> bool {
        self.sessions.iter().any(|session| !session.input.is_empty())
    }

    /// Lets the run end after its console has.
    fn end_console(&mut self) {
        self.keeps = false;
        self.hub.release();
    }

    fn session(&mut self, id: u64) -> Option<&mut Session> {
        self.sessions.iter_mut().find(|session| session.id == id)
    }
}

impl HostNode {
    /// Keeps a run that stands from ending before `last` while nothing happens: called for its first host.
    pub(crate) fn keep_running(&mut self, last: SimTime) {
        self.attached.keeps = true;
        self.plan_last(last, Due::Exchange);
    }

    /// Connects the terminal of the host's first process to a client.
    pub(crate) fn begin_console(&mut self, stream: UnixStream, command: String) {
        let log = AttendedProgram::new(self.host.name().to_owned(), command, 0.0);
        self.attached.log.push(log);
        self.attached.sessions.push(Session::new(CONSOLE, 0, stream, 0));
        self.attached.note_busy();
    }

    /// Takes requests between two windows. They take effect in an exchange, which is an event of the host.
    pub(crate) fn take_requests(&mut self, since: SimTime) {
        self.attached.pending.extend(self.attached.requests.try_iter());
        if self.attached.pending.is_empty() {
            return;
        }
        self.attached.note_busy();
        self.plan_exchange(since.max(self.attached.hub.now()));
    }

    /// Plans an exchange after a window up to `limit` if a session has something for its client.
    pub(crate) fn look_at_sessions(&mut self, limit: SimTime) {
        let Some(linux) = self.host.linux() else { return };
        let has_news = |session: &Session| {
            let waits = || attended::waits_for_input(linux, session.spec) && session.input.is_empty();
            !session.awaits_start(linux)
                && (attended::has_output(linux, session.spec)
                    || !attended::is_running(linux, session.spec)
                    || session.is_busy && waits())
        };
        if self.attached.sessions.iter().any(has_news) {
            self.plan_exchange(limit);
        }
    }

    /// Adds an exchange to the events of the host, before all others of the same time, instead of a later one.
    fn plan_exchange(&mut self, at: SimTime) {
        if self.attached.next.is_some_and(|next| next <= at) {
            return;
        }
        if let Some(next) = self.attached.next {
            self.changes.retain(|(at, due)| !matches!(due, Due::Exchange) || *at != next);
        }
        let later = self.changes.partition_point(|(other, _)| *other > at);
        let later = later + self.changes[later..].iter().take_while(|(other, _)| *other == at).count();
        self.changes.insert(later, (at, Due::Exchange));
        self.attached.next = Some(at);
    }

    /// Puts an exchange off while the host is paused by an event of the experiment.
    pub(crate) fn defer_exchange(&mut self, at: SimTime) {
        self.attached.next = None;
        self.plan_exchange(at + STEP);
    }

    /// Exchanges input and output with all clients. The host's clock shows `at`.
    pub(crate) fn exchange(&mut self, at: SimTime) {
        self.attached.next = None;
        while let Some(request) = self.attached.pending.pop_front() {
            match request {
                Request::Open(id, program, stream) => self.begin_attended(at, id, &program, stream),
                Request::Frame(id, frame) => self.receive(id, frame),
                Request::Closed(id) => self.hang_up(at, id),
            }
        }
        for number in (0..self.attached.sessions.len()).rev() {
            if !self.serve_session(at, number) {
                self.attached.sessions.remove(number);
            }
        }
        self.attached.note_busy();
        if self.attached.has_input() {
            self.plan_exchange(at + STEP);
        }
    }

    /// Starts a client's program.
    fn begin_attended(&mut self, at: SimTime, id: u64, program: &AttachedProgram, mut stream: UnixStream) {
        let _ = stream.set_write_timeout(Some(PATIENCE));
        let Some(linux) = self.host.linux_mut() else { return };
        let refuse = |stream: &mut UnixStream, reason: &str| {
            let _ = Frame::Ended(1, reason.to_owned()).write(stream);
        };
        if EventLoop::stack(linux).is_down {
            return refuse(&mut stream, "the host is down");
        }
        let spec = attended::start(linux, spec_of(program));
        let failed = attended::reports(linux).iter().rev().find_map(|report| match report {
            ProcessReport::Failed { spec: of, reason, .. } if *of == spec => Some(reason.clone()),
            _ => None,
        });
        if let Some(reason) = failed {
            return refuse(&mut stream, &reason);
        }
        let log = self.attached.log.len();
        let (name, title) = (self.host.name().to_owned(), program.title.clone());
        self.attached.log.push(AttendedProgram::new(name, title, at.as_secs_f64()));
        let session = Session::new(id, spec, stream, log);
        self.attached.sessions.push(Session { is_in_background: program.background, ..session });
    }

    /// Processes a frame of a client.
    fn receive(&mut self, id: u64, frame: Frame) {
        let Some(session) = self.attached.session(id) else { return };
        let spec = session.spec;
        match frame {
            Frame::Input(data) => session.input.extend(data),
            Frame::EndOfInput => session.is_input_over = true,
            Frame::Size(rows, columns) => {
                let size = Winsize { rows, columns, ..Winsize::default() };
                self.host.linux_mut().into_iter().for_each(|linux| attended::resize(linux, spec, size));
            }
            // Frames of the other direction mean nothing.
            Frame::Output(_) | Frame::Error(_) | Frame::Ended(..) => {}
        }
    }

    /// Ends the session of a client that has gone.
    fn hang_up(&mut self, at: SimTime, id: u64) {
        let Some(number) = self.attached.sessions.iter().position(|session| session.id == id) else { return };
        let session = self.attached.sessions.remove(number);
        self.attached.log[session.log].ended = Some(at.as_secs_f64());
        self.host.linux_mut().into_iter().for_each(|linux| attended::hang_up(linux, session.spec));
        if id == CONSOLE {
            self.attached.end_console();
        }
    }

    /// Passes input and output of a session on. False if it has ended.
    fn serve_session(&mut self, at: SimTime, number: usize) -> bool {
        let interrupt = self.attached.interrupt.clone();
        let session = &mut self.attached.sessions[number];
        let Some(linux) = self.host.linux_mut() else { return false };
        if session.awaits_start(linux) {
            return true;
        }
        let spec = session.spec;
        let taken = attended::type_in(linux, spec, session.input.make_contiguous());
        session.input.drain(..taken);
        if session.is_input_over && session.input.is_empty() {
            attended::close_input(linux, spec);
        }
        let [output, error] = attended::take_output(linux, spec);
        let has_output = !output.is_empty() || !error.is_empty();
        let frames = [Frame::Output(output), Frame::Error(error)];
        let mut is_there = true;
        for frame in
            frames.iter().filter(|f| !matches!(f, Frame::Output(d) | Frame::Error(d) if d.is_empty()))
        {
            is_there &= hub::write(&mut session.stream, frame, || interrupt.load(Relaxed));
        }
        if is_there && attended::is_running(linux, spec) {
            let is_idle = session.input.is_empty() && !has_output && attended::waits_for_input(linux, spec);
            session.is_busy = !is_idle && !session.is_in_background;
            return true;
        }
        attended::hang_up(linux, spec);
        let ended =
            attended::reports(linux).iter().chain(&self.reports).rev().find_map(|report| match report {
                ProcessReport::Ended { spec: of, status, .. } if *of == spec => Some(status_of(*status)),
                ProcessReport::Crashed { spec: of, .. } if *of == spec => {
                    Some((137, "the host has crashed".to_owned()))
                }
                _ => None,
            });
        let (status, remark) = ended.unwrap_or_default();
        hub::write(&mut session.stream, &Frame::Ended(status, remark), || interrupt.load(Relaxed));
        let _ = session.stream.shutdown(std::net::Shutdown::Both);
        self.attached.log[session.log].ended = Some(at.as_secs_f64());
        if session.id == CONSOLE {
            self.attached.end_console();
        }
        false
    }
}

impl Session {
    /// True for the console until the first process has been started.
    fn awaits_start(&self, linux: &Host) -> bool {
        self.id == CONSOLE && !attended::has_started(linux)
    }

    fn new(id: u64, spec: usize, stream: UnixStream, log: usize) -> Session {
        let _ = stream.set_write_timeout(Some(PATIENCE));
        Session {
            id,
            spec,
            stream,
            input: VecDeque::new(),
            is_input_over: false,
            is_busy: true,
            is_in_background: false,
            log,
        }
    }
}

/// Exit status of a program as shells have it, and a remark for the user.
fn status_of(status: WaitStatus) -> (u8, String) {
    match status {
        WaitStatus::Exited(code) => (code, String::new()),
        WaitStatus::Signaled(signal) => (128u8.saturating_add(signal as u8), String::new()),
    }
}

/// Process of a program that a user adds.
fn spec_of(program: &AttachedProgram) -> ProcessSpec {
    let own = CLEAN_ENVIRONMENT.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    let mut environment: belljar_base::Map<String, String> = own.collect();
    environment.extend(program.environment.iter().cloned());
    let args = ["sh", "-c", "exec \"$@\"", "sh"].map(str::to_owned);
    ProcessSpec {
        path: SHELL.to_owned(),
        args: args.into_iter().chain(program.command.iter().cloned()).collect(),
        environment: environment.into_iter().collect(),
        user: None,
        start: SimTime::MAX,
        shutdown: None,
        shutdown_signal: 15,
        output: match program.terminal {
            Some((rows, columns)) => Output::Terminal(Winsize { rows, columns, ..Winsize::default() }),
            None => Output::Pipes,
        },
        placement: None,
        wait_for_debugger: false,
        is_setup: false,
    }
}

/// Names of an experiment's hosts.
pub fn host_names(experiment: &Experiment) -> Vec<String> {
    experiment.hosts.iter().map(|host| host.name.clone()).collect()
}
