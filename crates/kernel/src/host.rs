//! One host: everything its kernel keeps.

use crate::clock::{Clock, CpuModel};
use crate::files::Files;
use crate::ids::{FileKey, MmKey, ProcessKey, ThreadKey};
use crate::mm::AddressSpace;
use crate::net::networks::Networks;
use crate::net::own::OwnSockets;
use crate::process::{Process, Processes, WaitStatus};
use crate::thread::Thread;
use crate::timer::{TimerAction, TimerId, TimerQueue};
use belljar_base::activity::Board;
use belljar_base::{Map, SimTime, Stream};
use belljar_machine::{Machine, Placement};
use belljar_model_host::{ModelSpec, Models};
use belljar_netstack::{Effect, Stack, StackConfig};
use belljar_objects::call_counts::CallCounts;
use belljar_objects::discipline::Discipline;
use belljar_objects::keys::KeyTable;
use belljar_objects::namespaces::NamespaceKind;
use belljar_objects::sysv::SysvIpc;
use belljar_strace::Strace;
use belljar_tasks::futexes::FutexTable;
use belljar_tasks::scheduler::Scheduler;
use belljar_tasks::threads::Threads;
use belljar_tasks::waits::WaitTable;
use belljar_uring::instance::Urings;
use slab::Slab;
use std::cell::RefCell;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Configuration that a host is made from.
#[derive(Clone, Debug)]
#[repr(C)] // What is read often comes first: see `belljar_base::Footprint`.
pub struct HostConfig {
    /// Processes to run.
    pub processes: Vec<ProcessSpec>,
    /// Once set, [`Host::run_until`] returns early: the run is being given up.
    pub interrupt: Arc<AtomicBool>,
    /// Set from outside, it makes [`Host::run_until`] return early: somebody wants something of the
    /// host. Whoever runs it takes it back before running it on.
    pub attention: Arc<AtomicBool>,
    /// Where to say what is being done, for who looks on.
    pub watched: Option<Arc<Board>>,
    /// True if to write each process's system calls next to its output.
    pub strace: bool,
    /// Its clock's reading at the start, in seconds since 1970.
    pub epoch_secs: u64,
    /// Its clock's offset from that, in nanoseconds, and its drift against simulated time, in parts per billion.
    pub clock_error: (i64, i64),
    /// Absolute native path of `hosts/<name>` in the results: the place of its writable layer and
    /// of its processes' output. Reads and writes below it pass through.
    pub directory: PathBuf,
    /// The directory that its processes start in, usually the same.
    pub working_directory: PathBuf,
    /// Native paths that guests see even where they lie below a directory that starts empty, such
    /// as `/tmp`.
    pub exposed: Vec<PathBuf>,
    /// Directories that the host shares with the machine, and so with other hosts: reads and writes
    /// below them pass through.
    pub shared: Vec<PathBuf>,
    /// The native directory that is its root: `/`, unless the host has files of its own instead of the machine's.
    pub root: PathBuf,
    /// IPv6 names and addresses of all hosts, shown in `/etc/hosts`.
    pub names6: Arc<Vec<(String, std::net::Ipv6Addr)>>,
    /// Simulated time that computation takes.
    pub cpu: CpuModel,
    /// Names and addresses of all hosts, shown in `/etc/hosts`.
    pub names: Arc<Vec<(String, Ipv4Addr)>>,
    /// Traffic models to run besides.
    pub models: Vec<ModelSpec>,
}

/// A process that the experiment starts.
#[derive(Clone, Debug)]
pub struct ProcessSpec {
    /// The image, an absolute guest path.
    pub path: String,
    /// Its arguments, `argv[0]` included.
    pub args: Vec<String>,
    /// Its environment.
    pub environment: Vec<(String, String)>,
    /// The user that it runs as, a name of the host's `/etc/passwd` or a number; `None`: root.
    pub user: Option<String>,
    /// When it starts.
    pub start: SimTime,
    /// When it is sent `shutdown_signal`.
    pub shutdown: Option<SimTime>,
    /// The number of that signal.
    pub shutdown_signal: i32,
    /// Where its standard streams lead.
    pub output: Output,
    /// Where its code and that of its children runs; `None`: near where that is possible.
    pub placement: Option<Placement>,
    /// True if it stops before its first instruction until a debugger lets it go on.
    pub wait_for_debugger: bool,
}

/// Where the standard streams of a process lead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output {
    /// To `<program>.<pid>.stdout` and `.stderr` in the host's directory; nothing to read.
    Files,
    /// To those of the simulator: what `belljar exec` does.
    PassedThrough,
}

/// A report on a process of the experiment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProcessReport {
    /// It started with this process id.
    Started {
        /// Its number among the host's processes.
        spec: usize,
        /// Its process id.
        pid: i32,
        /// When.
        at: SimTime,
    },
    /// It could not be started; the text says why.
    Failed {
        /// Its number among the host's processes.
        spec: usize,
        /// The fault, and what to do about it.
        reason: String,
        /// When.
        at: SimTime,
    },
    /// It ended.
    Ended {
        /// Its number among the host's processes.
        spec: usize,
        /// Its wait status.
        status: WaitStatus,
        /// When.
        at: SimTime,
    },
    /// It was gone when its host stopped.
    Crashed {
        /// Its number among the host's processes.
        spec: usize,
        /// When.
        at: SimTime,
    },
}

/// One simulated host: its processes, files, network and clock. It runs to a limit when it is told to, and never
/// waits.
///
/// Its owner, a node of the engine, calls by kinds:
///
/// **In.** [`deliver`](Stack::deliver) of its stack takes a packet before the limit of the run in which it
/// arrives. The order of calls makes no difference: arrivals are ordered by their keys.
///
/// **Time.** [`next_event`](Self::next_event) gives the next time at which something is due; ask again after every
/// other call. [`run_until`](Self::run_until) runs everything strictly before a limit. [`advance`](Self::advance)
/// moves the clock on to a time before which everything has been run: call it before a change of that time.
///
/// **Changes by the experiment**, once the clock is at their time: [`crash`](Self::crash) and
/// [`restart`](Self::restart), [`start_again`](Self::start_again) and [`signal_program`](Self::signal_program) for
/// processes, [`Models::start`] and [`Models::stop`] for traffic models, [`step_clock`](Self::step_clock) and
/// [`set_clock_drift`](Self::set_clock_drift), and for the network [`set_bandwidths`](Self::set_bandwidths),
/// [`set_carrier`](Self::set_carrier), [`change_nic`](Self::change_nic), and those of its stack that leave nothing to be done:
/// [`set_routes`](Stack::set_routes), [`set_routes6`](Stack::set_routes6), [`set_resolver_down`](Stack::set_resolver_down).
///
/// **Out**, after each run and each change: [`take_departures`](Stack::take_departures) of its stack gives packets that have
/// left, [`take_reports`](Self::take_reports) starts and ends of the experiment's processes. Where
/// [`has_logged`](Self::has_logged), [`drain_captured`](Stack::drain_captured) and
/// [`drain_strace`](Self::drain_strace) give captures and logs.
///
/// **Observers**, at any time between runs: counters, warnings, [`finished_at`](Self::finished_at), its stack and models
/// ([`Owner`](belljar_model_host::Owner)). The methods that begin with `debug_` serve a debugger; while one holds the host
/// ([`is_held`](Self::is_held)) `run_until` returns early.
///
/// **The end of the simulation**: [`Models::finish`], then
/// [`finish_processes`](Self::finish_processes), the last departures and logs, then
/// [`finish_files`](Self::finish_files).
///
/// Inside the crate there are besides: *handlers* (`syscall/`), which are functions over a [`Call`](crate::call::Call) and end in
/// an [`Outcome`](crate::outcome::Outcome); *subsystems*, methods in the folder of what they are about, which validate nothing
/// that the handler has; and *notification* (`wait.rs`): whoever changes what somebody can wait for calls
/// [`notify_events`](Host::notify_events). Methods that need files, rings, futexes or sockets of the host's own families alone are
/// methods of those fields, and those of the stack are the stack's. Whoever has used the stack calls `carry_out_effects` before
/// anybody begins to wait.
#[repr(C)] // What is read often comes first: see `belljar_base::Footprint`.
pub struct Host {
    pub(crate) scheduler: Scheduler,
    /// The descriptors that its call has looked up, and the open files behind them: see `Thread::held`.
    pub(crate) looked_up: RefCell<Vec<(i32, FileKey)>>,
    /// The thread whose call is being made, and its process.
    pub(crate) caller: Option<(ThreadKey, ProcessKey)>,
    pub(crate) machine: Box<dyn Machine>,
    /// Counts calls of `run_until`.
    pub(crate) windows: u64,
    /// When a process last ended.
    pub(crate) last_end: SimTime,
    pub(crate) specs_started: usize,
    pub(crate) next_pid: i32,
    /// True if it has network namespaces besides the first.
    pub(crate) has_networks: bool,
    /// The number of the stack beside the first whose turn it is; 0 if none has it: see `net::networks`.
    pub(crate) turn: u32,
    pub(crate) timers: TimerQueue<TimerAction>,
    pub(crate) threads: Threads,
    pub(crate) processes: Processes,
    pub(crate) spaces: Slab<AddressSpace>,
    pub(crate) waits: WaitTable,
    pub(crate) reports: Vec<ProcessReport>,
    /// System calls made, by number.
    pub(crate) call_counts: CallCounts,
    pub(crate) urings: Urings,
    pub(crate) models: Models,
    pub(crate) strace: Strace,
    pub(crate) debuggers: crate::debug::Debuggers,
    pub(crate) files: Files,
    /// The stack of its first network namespace; its clock is the host's.
    pub(crate) net: Stack,
    /// The stacks of the others.
    pub(crate) networks: Networks,
    /// Sockets of families that are not the stack's.
    pub(crate) own: OwnSockets,
    pub(crate) config: HostConfig,
    /// Number of address spaces in each slot: a forked child is in its parent's until it executes.
    pub(crate) slots_in_use: Map<u32, u32>,
    pub(crate) futexes: FutexTable,
    /// System V shared memory and semaphores.
    pub(crate) ipc: SysvIpc,
    /// Keys and keyrings.
    pub(crate) keys: KeyTable,
    /// The last reading of the processor's counter.
    pub(crate) last_counter: u64,
    /// What programs have done to the wall clock's rate.
    pub(crate) discipline: Discipline,
    /// `getrandom`, `/dev/random`, `AT_RANDOM`.
    pub(crate) random: Stream,
    /// Room for what the stack leaves to be done.
    pub(crate) spare_effects: Vec<Effect>,
    pub(crate) warnings: Map<String, u64>,
    pub(crate) preempted: Map<String, u64>,
    /// Traced threads that have ended, until their tracers have heard of it.
    pub(crate) ended_tracees: Vec<crate::trace::EndedTracee>,
}

/// Number of processes that never start by themselves.
pub(crate) fn unscheduled(config: &HostConfig) -> usize {
    config.processes.iter().filter(|spec| spec.start == SimTime::MAX).count()
}

/// The first process id of an experiment, as Shadow's.
const FIRST_PID: i32 = 1_000;

impl Host {
    /// A host at the start of the simulation. Nothing has run yet.
    pub fn new(mut config: HostConfig, mut network: StackConfig, mut machine: Box<dyn Machine>) -> Host {
        network.prefetch = machine.prefetcher();
        let unscheduled = unscheduled(&config);
        let clock = Clock::with_error(config.epoch_secs, config.cpu, config.clock_error);
        let mut host = Host {
            random: network.seed.stream(&["host", &network.name, "random"]),
            keys: KeyTable::new(network.seed.stream(&["host", &network.name, "keys"])),
            files: Files::new(&config, &network, &mut *machine),
            net: Stack::new(network, clock),
            networks: Networks::default(),
            has_networks: false,
            turn: 0,
            own: OwnSockets::default(),
            models: Models::new(std::mem::take(&mut config.models)),
            urings: Urings::default(),
            last_counter: 0,
            discipline: Discipline::default(),
            strace: Strace::new(config.strace),
            debuggers: Default::default(),
            ended_tracees: Vec::new(),
            config,
            machine,
            timers: TimerQueue::default(),
            waits: WaitTable::default(),
            threads: Threads::default(),
            processes: Processes::default(),
            spaces: Slab::new(),
            next_pid: FIRST_PID,
            slots_in_use: Default::default(),
            scheduler: Scheduler::default(),
            caller: None,
            looked_up: RefCell::default(),
            windows: 0,
            last_end: SimTime::ZERO,
            futexes: FutexTable::default(),
            ipc: Default::default(),
            reports: Vec::new(),
            specs_started: unscheduled,
            warnings: Map::new(),
            spare_effects: Vec::new(),
            preempted: Map::new(),
            call_counts: CallCounts::default(),
        };
        host.schedule_processes(SimTime::ZERO);
        host.net.begin_bootstrap();
        Models::schedule(&mut host, SimTime::ZERO);
        if let Err(errno) = host.restore_files() {
            host.warn(format!("the files of the host's folder could not be read: {errno:?}"));
        }
        host
    }

    /// Sets the timers of the experiment's processes, on a host that starts at `now`.
    pub(crate) fn schedule_processes(&mut self, now: SimTime) {
        for n in 0..self.config.processes.len() {
            let spec = &self.config.processes[n];
            let (start, shutdown) = (spec.start, spec.shutdown);
            if start == SimTime::MAX {
                continue;
            }
            self.set_timer(start.max(now), TimerAction::StartProcess(n));
            if let Some(at) = shutdown.filter(|at| *at > now) {
                self.set_timer(at, TimerAction::ShutdownProcess(n));
            }
        }
    }
    /// Sets a timer, which fires in turn with those of the stack.
    #[inline]
    pub(crate) fn set_timer(&mut self, at: SimTime, action: TimerAction) -> TimerId {
        if self.turn != 0 {
            self.end_turn();
        }
        let id = self.net.timers.name(at);
        self.timers.insert(id, action)
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.net.config.name
    }
    /// The node and domain name of `uname(2)` for the present caller: the host's own unless a program of its namespace has set others.
    pub(crate) fn node_names(&self) -> [Vec<u8>; 2] {
        let uts = self.caller.map_or(0, |(_, process)| self.processes.namespace(process, NamespaceKind::Uts));
        let [node, domain] = self.processes.namespaces.plain.get(NamespaceKind::Uts, uts).names.clone();
        let own = || self.net.config.name.clone().into_bytes();
        [node.unwrap_or_else(own), domain.unwrap_or_else(|| b"(none)".to_vec())]
    }
    /// True if its stack's [`drain_captured`](Stack::drain_captured) or [`take_route_log`](Stack::take_route_log), or
    /// [`drain_strace`](Self::drain_strace), has anything to give.
    pub fn has_logged(&self) -> bool {
        !self.net.captured.is_empty() || !self.net.route_log.is_empty() || self.has_strace()
    }
    /// Takes the reports on the experiment's processes since the last call.
    pub fn take_reports(&mut self) -> Vec<ProcessReport> {
        std::mem::take(&mut self.reports)
    }
    /// Warnings and their counts: of calls that are not supported, for instance.
    pub fn warnings(&self) -> &Map<String, u64> {
        &self.warnings
    }
    /// Programs that had to be preempted natively, with how often; the run is not deterministic
    /// from the first on.
    pub fn preempted(&self) -> &Map<String, u64> {
        &self.preempted
    }
    /// System calls made so far, by number.
    pub fn call_counts(&self) -> Map<u32, u64> {
        self.call_counts.by_number()
    }
    /// Experiment processes that have not ended, by their number on this host.
    pub fn running_specs(&self) -> Vec<usize> {
        self.processes.iter().filter(|(_, p)| p.ended.is_none()).filter_map(|(_, p)| p.spec).collect()
    }
    /// The machine's files that it has read, each once, sorted.
    pub fn files_read(&self) -> Vec<PathBuf> {
        self.machine.files_read()
    }
    /// Its clock.
    pub fn now(&self) -> SimTime {
        self.net.clock.now()
    }
    /// When the last process of the experiment, or of those they left behind, ended; `None` while one
    /// runs or has not started.
    pub fn finished_at(&self) -> Option<SimTime> {
        let all_started = self.specs_started == self.config.processes.len();
        let finished = all_started && self.processes.iter().all(|(_, process)| process.ended.is_some());
        let models = self.models.finished_at()?;
        finished.then_some(self.last_end.max(models))
    }

    /// Counts something that a program asked for and did not fully get.
    pub(crate) fn warn(&mut self, what: impl Into<String>) {
        *self.warnings.entry(what.into()).or_default() += 1;
    }
    pub(crate) fn allocate_pid(&mut self) -> i32 {
        while self.processes.by_pid.contains_key(&self.next_pid)
            || self.threads.by_tid.contains_key(&self.next_pid)
        {
            self.next_pid += 1;
        }
        let pid = self.next_pid;
        self.next_pid += 1;
        pid
    }
    pub(crate) fn mm(&mut self, key: MmKey) -> &mut AddressSpace {
        &mut self.spaces[key.0]
    }
    pub(crate) fn process(&mut self, key: ProcessKey) -> &mut Process {
        &mut self.processes[key.0]
    }
    pub(crate) fn thread(&mut self, key: ThreadKey) -> &mut Thread {
        &mut self.threads[key.0]
    }
}
