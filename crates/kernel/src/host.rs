//! Host: the complete kernel state of one simulated machine.

use crate::clock::Clock;
use crate::config::HostConfig;
use crate::files::Files;
use crate::ids::{FileKey, MmKey, ProcessKey, ThreadKey};
use crate::net::own::OwnSockets;
use crate::process::{Process, Processes, WaitStatus};
use crate::thread::Thread;
use crate::timer::{TimerAction, TimerId, TimerQueue};
use belljar_base::{Map, Setup, SimTime, Stream};
use belljar_machine::Machine;
use belljar_model_host::Models;
use belljar_netstack::{Effect, Stack, StackConfig};
use belljar_objects::call_counts::CallCounts;
use belljar_objects::call_faults::CallFaults;
use belljar_objects::discipline::Discipline;
use belljar_objects::disk_faults::DiskFaults;
use belljar_objects::kernel_log::KernelLog;
use belljar_objects::keys::KeyTable;
use belljar_objects::memory_limit::MemoryLimit;
use belljar_objects::namespaces::NamespaceKind;
use belljar_objects::networks::Networks;
use belljar_objects::outside::OutsideEnds;
use belljar_objects::space::AddressSpace;
use belljar_objects::sysv::SysvIpc;
use belljar_objects::tracees::EndedTracee;
use belljar_objects::upgrades::Upgrades;
use belljar_objects::write_log::WriteLog;
use belljar_strace::Strace;
use belljar_tasks::debuggers::Debuggers;
use belljar_tasks::futexes::FutexTable;
use belljar_tasks::scheduler::Scheduler;
use belljar_tasks::strategy::HostStrategy;
use belljar_tasks::suspension::Suspension;
use belljar_tasks::threads::Threads;
use belljar_tasks::waits::WaitTable;
use belljar_uring::instance::Urings;
use slab::Slab;
use std::cell::RefCell;
use std::path::PathBuf;

/// Report on a process of the experiment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProcessReport {
    /// The process started.
    Started {
        /// Index in the host's processes.
        spec: usize,
        /// Process id.
        pid: i32,
        /// Time of the start.
        at: SimTime,
    },
    /// The process could not be started.
    Failed {
        /// Index in the host's processes.
        spec: usize,
        /// Description of the fault and its remedy.
        reason: String,
        /// Time of the attempt.
        at: SimTime,
    },
    /// The process ended.
    Ended {
        /// Index in the host's processes.
        spec: usize,
        /// Wait status.
        status: WaitStatus,
        /// Time of the end.
        at: SimTime,
    },
    /// The process was lost in a crash of its host.
    Crashed {
        /// Index in the host's processes.
        spec: usize,
        /// Time of the crash.
        at: SimTime,
    },
}

/// One simulated host: its processes, files, network and clock. The host runs up to a limit when its owner, a
/// node of the engine, calls it, and never blocks.
///
/// The owner's calls fall into these kinds:
///
/// **In.** [`deliver`](Stack::deliver) of the stack takes a packet before the limit of the run in which it
/// arrives. The order of calls makes no difference: arrivals are ordered by their keys.
///
/// **Time.** [`next_event`](Self::next_event) gives the time of the next event; query it again after every
/// other call. [`run_until`](Self::run_until) runs everything strictly before a limit.
/// [`advance`](Self::advance) moves the clock to a time up to which everything has been run: call it before a
/// change at that time.
///
/// **Changes by the experiment**, once the clock has reached their time: for processes
/// [`crash`](Self::crash), [`restart`](Self::restart), [`start_again`](Self::start_again) and
/// [`signal_program`](Self::signal_program); for traffic models [`Models::start`] and [`Models::stop`]; for
/// the clock [`step_clock`](Self::step_clock) and [`set_clock_drift`](Self::set_clock_drift); for the network
/// [`set_bandwidths`](Self::set_bandwidths), [`set_carrier`](Self::set_carrier),
/// [`change_nic`](Self::change_nic), and the calls of the stack that queue no effects:
/// [`set_routes`](Stack::set_routes), [`set_routes6`](Stack::set_routes6), and whether the
/// [`Resolver`](belljar_netstack::Resolver) of its configuration is down.
///
/// **Out**, after each run and each change: [`take_departures`](Stack::take_departures) of the stack gives
/// packets sent, [`take_reports`](Self::take_reports) starts and ends of the experiment's processes. If
/// [`has_logged`](Self::has_logged), [`drain_captured`](Stack::drain_captured) and
/// [`drain_strace`](Self::drain_strace) give captures and logs.
///
/// **Observers**, at any time between runs: counters, warnings, [`finished_at`](Self::finished_at), the stack
/// and the models ([`Owner`](belljar_model_host::Owner)). Methods that begin with `debug_` serve a debugger;
/// while a debugger holds the host ([`is_held`](Self::is_held)) `run_until` returns early.
///
/// **The end of the simulation**: [`Models::finish`], then
/// [`finish_processes`](Self::finish_processes), the last departures and logs, then
/// [`finish_files`](Self::finish_files).
///
/// The crate's own code has three more kinds. *Handlers* (`syscall/`) are functions over a
/// [`Call`](crate::call::Call) that return an [`Outcome`](crate::outcome::Outcome). *Subsystems* are methods
/// in the folder of their subject; they do not repeat the handler's validation. *Notification* (`wait.rs`):
/// code that changes the readiness of an object calls [`notify_events`](Host::notify_events). Methods that
/// need only files, rings, futexes or sockets of the host's own families are methods of those fields, and
/// methods of the stack are the stack's. Code that has used the stack calls `carry_out_effects` before any
/// thread begins to wait.
#[repr(C)] // Frequently read fields come first: see `belljar_base::Footprint`.
pub struct Host {
    pub(crate) scheduler: Scheduler,
    /// Descriptors that the current call has looked up, with their open files: see `Thread::held`.
    pub(crate) looked_up: RefCell<Vec<(i32, FileKey)>>,
    /// Thread of the current call, and its process.
    pub(crate) caller: Option<(ThreadKey, ProcessKey)>,
    pub(crate) machine: Box<dyn Machine>,
    /// Number of calls of `run_until`.
    pub(crate) windows: u64,
    /// Time at which a process last ended.
    pub(crate) last_end: SimTime,
    pub(crate) specs_started: usize,
    /// State of the commands that run before processes start.
    pub(crate) setup: Setup,
    pub(crate) next_pid: i32,
    /// True if network namespaces other than the first exist.
    pub(crate) has_networks: bool,
    /// Number of the further stack in use; 0 if none: see `net::networks`.
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
    /// Debuggers of the host's processes.
    pub debuggers: Debuggers,
    pub(crate) files: Files,
    /// Stack of the first network namespace; its clock is the host's.
    pub(crate) net: Stack,
    /// Stacks of the further network namespaces.
    pub networks: Networks,
    /// Sockets of families outside the stack.
    pub(crate) own: OwnSockets,
    /// The kernel's log.
    pub(crate) log: KernelLog,
    pub(crate) config: HostConfig,
    /// Number of address spaces in each slot: a forked child shares its parent's slot until it calls
    /// `execve(2)`.
    pub(crate) slots_in_use: Map<u32, u32>,
    pub(crate) futexes: FutexTable,
    /// System V shared memory and semaphores.
    pub(crate) ipc: SysvIpc,
    /// Keys and keyrings.
    pub(crate) keys: KeyTable,
    /// Last reading of the time-stamp counter.
    pub(crate) last_counter: u64,
    /// Adjustments of the wall clock's rate by programs.
    pub(crate) discipline: Discipline,
    /// Random stream of `getrandom`, `/dev/random`, `AT_RANDOM` and `rdrand`.
    pub(crate) random: Stream,
    /// Random stream of Antithesis' SDKs, if the host has their library.
    pub(crate) sdk: Option<Stream>,
    /// Spare buffer for the stack's effects.
    pub(crate) spare_effects: Vec<Effect>,
    pub(crate) warnings: Map<String, u64>,
    pub(crate) preempted: Map<String, u64>,
    /// Traced threads that have ended and whose end has not been reported to their tracers.
    pub(crate) ended_tracees: Vec<EndedTracee>,
    /// Log of writes to files, if there is to be one; [`finish_files`](Self::finish_files) settles it.
    pub write_log: Option<Box<WriteLog>>,
    /// Faults of the disk, if there were any.
    pub(crate) disk_faults: Option<Box<DiskFaults>>,
    /// Faults of system calls, if there were any.
    pub(crate) call_faults: Option<Box<CallFaults>>,
    /// Streams of programs that users have added, by the index of the process.
    pub(crate) attended: Map<usize, OutsideEnds>,
    /// Processes that have replaced others; `None` if there was no upgrade.
    pub(crate) upgrades: Option<Box<Upgrades>>,
    /// Limits of the memory; hosts that have one have `call_faults` as well.
    pub(crate) memory: Option<Box<MemoryLimit>>,
    /// Suspended processes; `None` if there were none.
    pub(crate) suspension: Option<Box<Suspension>>,
}

/// First process id of an experiment, as in Shadow.
const FIRST_PID: i32 = 1_000;

impl Host {
    /// Creates a host at the start of the simulation. Nothing has run yet.
    pub fn new(mut config: HostConfig, mut network: StackConfig, mut machine: Box<dyn Machine>) -> Host {
        network.prefetch = machine.prefetcher();
        let unscheduled = config.unscheduled();
        let clock = Clock::with_error(config.epoch_secs, config.cpu, config.clock_error);
        let owner = ["host", &network.name, "scheduling"];
        let strategy =
            HostStrategy::new(config.scheduling, |purposes| network.seed.stream_for(&owner, purposes));
        let mut host = Host {
            random: network.seed.stream(&["host", &network.name, "random"]),
            sdk: config.sdk.as_ref().map(|_| network.seed.stream(&["host", &network.name, "sdk"])),
            keys: KeyTable::new(network.seed.stream(&["host", &network.name, "keys"])),
            files: Files::new(&config, &network, &mut *machine),
            net: Stack::new(network, clock),
            networks: Networks::default(),
            has_networks: false,
            turn: 0,
            own: OwnSockets::default(),
            log: KernelLog::default(),
            models: Models::new(std::mem::take(&mut config.models)),
            urings: Urings::default(),
            last_counter: 0,
            discipline: Discipline::new(config.clock_error.1),
            strace: Strace::new(config.strace),
            debuggers: Default::default(),
            ended_tracees: Vec::new(),
            write_log: None,
            disk_faults: None,
            // Calls of hosts with faults take the longer path, on which memory is counted.
            call_faults: config.memory.map(|_| Box::default()),
            memory: config.memory.map(|bytes| Box::new(MemoryLimit::of_host(bytes))),
            upgrades: None,
            suspension: None,
            config,
            machine,
            timers: TimerQueue::default(),
            waits: WaitTable::default(),
            threads: Threads::default(),
            processes: Processes::default(),
            spaces: Slab::new(),
            next_pid: FIRST_PID,
            slots_in_use: Default::default(),
            scheduler: Scheduler::of_host(strategy),
            caller: None,
            looked_up: RefCell::default(),
            windows: 0,
            last_end: SimTime::ZERO,
            futexes: FutexTable::default(),
            ipc: Default::default(),
            reports: Vec::new(),
            specs_started: unscheduled,
            setup: Setup::Done,
            warnings: Map::new(),
            spare_effects: Vec::new(),
            preempted: Map::new(),
            call_counts: CallCounts::default(),
            attended: Map::new(),
        };
        host.schedule_start(SimTime::ZERO);
        host.net.begin_bootstrap();
        if let Err(errno) = host.restore_files() {
            host.warn(format!("the files of the host's folder could not be read: {errno:?}"));
        }
        host
    }

    /// Sets a timer, which is ordered among the timers of the stack.
    #[inline]
    pub(crate) fn set_timer(&mut self, at: SimTime, action: TimerAction) -> TimerId {
        if self.turn != 0 {
            self.end_turn();
        }
        let id = self.net.timers.name(at);
        self.timers.insert(id, action)
    }

    /// Host name in the configuration.
    pub fn name(&self) -> &str {
        &self.net.config.name
    }
    /// Node and domain name of `uname(2)` for the current caller: the host's own unless set in its UTS
    /// namespace.
    pub(crate) fn node_names(&self) -> [Vec<u8>; 2] {
        let uts = self.caller.map_or(0, |(_, process)| self.processes.namespace(process, NamespaceKind::Uts));
        let [node, domain] = self.processes.namespaces.plain.get(NamespaceKind::Uts, uts).names.clone();
        let own = || self.net.config.name.clone().into_bytes();
        [node.unwrap_or_else(own), domain.unwrap_or_else(|| b"(none)".to_vec())]
    }
    /// True if [`drain_captured`](Stack::drain_captured) or the [`route_log`](Stack::route_log) of the
    /// stack, or [`drain_strace`](Self::drain_strace), has output.
    pub fn has_logged(&self) -> bool {
        !self.net.captured.is_empty() || !self.net.route_log.is_empty() || self.has_strace()
    }
    /// Takes the reports on the experiment's processes since the last call.
    pub fn take_reports(&mut self) -> Vec<ProcessReport> {
        std::mem::take(&mut self.reports)
    }
    /// Warnings and their counts, for instance of unsupported calls.
    pub fn warnings(&self) -> &Map<String, u64> {
        &self.warnings
    }
    /// Programs that were preempted natively, with counts; the run is not deterministic after the first
    /// preemption.
    pub fn preempted(&self) -> &Map<String, u64> {
        &self.preempted
    }
    /// System calls made so far, by number.
    pub fn call_counts(&self) -> Map<u32, u64> {
        self.call_counts.by_number()
    }
    /// Indices of the experiment's processes that have not ended.
    pub fn running_specs(&self) -> Vec<usize> {
        self.processes.iter().filter(|(_, p)| p.ended.is_none()).filter_map(|(_, p)| p.spec).collect()
    }
    /// Files of the machine that the host has read, each once, sorted.
    pub fn files_read(&self) -> Vec<PathBuf> {
        self.machine.files_read()
    }
    /// Current time of the host's clock.
    pub fn now(&self) -> SimTime {
        self.net.clock.now()
    }
    /// Time at which the last process or traffic model ended; `None` while one runs or has not started.
    pub fn finished_at(&self) -> Option<SimTime> {
        let all_started = self.specs_started == self.config.processes.len();
        let finished = all_started && self.processes.iter().all(|(_, process)| process.ended.is_some());
        let models = self.models.finished_at()?;
        finished.then_some(self.last_end.max(models))
    }

    /// Counts a warning: a request that is not fully supported.
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
