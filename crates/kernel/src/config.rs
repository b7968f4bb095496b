//! Configuration of a host: its processes, files, processors and traffic models.

use crate::host_names::HostNames;
use belljar_base::SimTime;
use belljar_base::activity::Board;
use belljar_linux_abi::terminal::Winsize;
use belljar_machine::Placement;
use belljar_model_host::ModelSpec;
use belljar_netstack::clock::CpuModel;
use belljar_objects::processors::Processors;
use belljar_objects::sdk::SdkFiles;
use belljar_tasks::strategy::Order;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Configuration of a host.
#[derive(Clone, Debug)]
#[repr(C)] // Frequently read fields come first: see `belljar_base::Footprint`.
pub struct HostConfig {
    /// Processes of the experiment on this host.
    pub processes: Vec<ProcessSpec>,
    /// Makes [`Host::run_until`](crate::Host::run_until) return early once set: the run is being aborted.
    pub interrupt: Arc<AtomicBool>,
    /// Makes [`Host::run_until`](crate::Host::run_until) return early while set: an outside request for the host is pending. The
    /// owner of the host clears it before running on.
    pub attention: Arc<AtomicBool>,
    /// Board on which the current activity is posted for observers.
    pub watched: Option<Arc<Board>>,
    /// True if each process's system calls are logged next to its output.
    pub strace: bool,
    /// Wall-clock time at the start, in seconds since 1970.
    pub epoch_secs: u64,
    /// Offset of the wall clock from `epoch_secs` in nanoseconds, and its drift against simulated time in
    /// parts per billion.
    pub clock_error: (i64, i64),
    /// Absolute native path of `hosts/<name>` in the results, which holds the writable layer and the output
    /// of processes. Reads and writes below it pass through.
    pub directory: PathBuf,
    /// Initial working directory of processes, usually `directory`.
    pub working_directory: PathBuf,
    /// Native paths visible to guests even below a directory that starts empty, such as `/tmp`.
    pub exposed: Vec<PathBuf>,
    /// Directories shared with the machine, and so with other hosts: reads and writes below them pass
    /// through.
    pub shared: Vec<PathBuf>,
    /// Native directory that serves as the host's root: `/`, unless the host has an image of its own.
    pub root: PathBuf,
    /// Model of the simulated time that computation takes.
    pub cpu: CpuModel,
    /// Order of runnable threads and of waiters.
    pub scheduling: Order,
    /// Memory in bytes; `None` for no limit.
    pub memory: Option<u64>,
    /// Processors that programs see.
    pub processors: Processors,
    /// Names of all hosts, shown in `/etc/hosts`.
    pub names: Arc<HostNames>,
    /// Traffic models that run on the host.
    pub models: Vec<ModelSpec>,
    /// Files for Antithesis' SDKs, if the host has them.
    pub sdk: Option<SdkFiles>,
}

/// Process started by the experiment.
#[derive(Clone, Debug)]
pub struct ProcessSpec {
    /// Absolute guest path of the program.
    pub path: String,
    /// Arguments, `argv[0]` included.
    pub args: Vec<String>,
    /// Environment variables.
    pub environment: Vec<(String, String)>,
    /// User, by name in the host's `/etc/passwd` or by number; `None` for root.
    pub user: Option<String>,
    /// Start time; [`SimTime::MAX`] for a process that does not start by itself.
    pub start: SimTime,
    /// Time at which `shutdown_signal` is sent.
    pub shutdown: Option<SimTime>,
    /// Signal number sent at shutdown.
    pub shutdown_signal: i32,
    /// Destination of the standard streams.
    pub output: Output,
    /// Placement of the code of the process and its children; `None`: near where that is possible.
    pub placement: Option<Placement>,
    /// True if the process stops before its first instruction until a debugger resumes it.
    pub wait_for_debugger: bool,
    /// True for the host's setup: other processes, and traffic models, start once it has exited with status 0.
    pub is_setup: bool,
}

/// Destination of a process's standard streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output {
    /// Files `<program>.<pid>.stdout` and `.stderr` in the host's directory; standard input is empty.
    Files,
    /// Standard streams of the simulator, as for `belljar exec`.
    PassedThrough,
    /// Terminal whose other end is outside of the simulation, with its window size: see [`crate::attended`].
    Terminal(Winsize),
    /// Pipes whose other ends are outside of the simulation: see [`crate::attended`].
    Pipes,
}

impl ProcessSpec {
    /// Name of the files with its output, without pid: the file name of the program, or `setup`.
    pub(crate) fn output_name(&self) -> &str {
        match self.is_setup {
            true => "setup",
            false => self.path.rsplit('/').next().unwrap_or("process"),
        }
    }
}

impl HostConfig {
    /// Index of the host's setup among its processes.
    pub(crate) fn setup(&self) -> Option<usize> {
        self.processes.iter().position(|spec| spec.is_setup)
    }
    /// Number of processes that do not start by themselves.
    pub(crate) fn unscheduled(&self) -> usize {
        self.processes.iter().filter(|spec| spec.start == SimTime::MAX).count()
    }
}
