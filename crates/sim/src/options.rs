//! Options of a run, beyond the experiment.

use crate::debug::DebugHub;
use crate::gateways::RealClock;
use crate::live::Live;
use crate::simulators::SimulatorOptions;
use belljar_base::activity::Board;
#[cfg(doc)]
use belljar_engine::Verdict;
use belljar_kernel::Output;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Options of a run, beyond the experiment.
#[derive(Clone, Debug)]
pub struct RunOptions {
    /// Destination of the standard streams of processes.
    pub output: Output,
    /// The working directory of all processes, if not their host's folder in the results.
    pub working_directory: Option<PathBuf>,
    /// Paths of this machine that guests see although they lie below a directory that starts empty
    /// on a host, such as `/tmp`: the folder of the experiment file.
    pub exposed: Vec<PathBuf>,
    /// When set, hosts leave their window at once instead of finishing it. The observer must answer [`Verdict::Stop`] then.
    pub interrupt: Arc<AtomicBool>,
    /// Connections of debuggers to hosts.
    pub debug: Arc<DebugHub>,
    /// Board on which workers note their activity, for an observer.
    pub watched: Option<Arc<Board>>,
    /// Other simulators.
    pub simulators: SimulatorOptions,
    /// This machine's clock; `None`: nothing is tied to real time.
    pub real_clock: Option<RealClock>,
    /// True if simulated time never goes ahead of real time, by more than a window.
    pub paced: bool,
    /// True if this machine has a processor that no worker uses.
    pub idle_processor: bool,
    /// Live view of the run, which may pause it: of a run that is neither tied to real time nor has several cells.
    pub live: Option<Arc<Live>>,
    /// Host and program (the name of its file) of processes that wait for a debugger
    /// before their first instruction.
    pub wait_for_debugger: Vec<(String, String)>,
}
