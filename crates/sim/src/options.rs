//! Options of a run, beyond the experiment.

use crate::attach::AttachHub;
use crate::debug::DebugHub;
use crate::gateways::RealClock;
use crate::live::Live;
use crate::simulators::SimulatorOptions;
use belljar_base::activity::Board;
#[cfg(doc)]
use belljar_engine::Verdict;
use belljar_kernel::Output;
use belljar_p4::servers::CreateServers;
use belljar_results::PacketPipe;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Options of a run, beyond the experiment.
#[derive(Clone, Debug)]
pub struct RunOptions {
    /// Destination of the standard streams of processes.
    pub output: Output,
    /// Working directory of all processes, if not their host's folder in the results.
    pub working_directory: Option<PathBuf>,
    /// Paths of the machine that remain visible to guests below a directory that starts empty on a host,
    /// such as `/tmp`: the folder of the experiment file.
    pub exposed: Vec<PathBuf>,
    /// Flag that makes hosts leave their window at once instead of finishing it. The observer must then
    /// return [`Verdict::Stop`].
    pub interrupt: Arc<AtomicBool>,
    /// Hub for the connections of debuggers to hosts.
    pub debug: Arc<DebugHub>,
    /// Hub through which users add programs to hosts.
    pub attach: Arc<AttachHub>,
    /// Client of the terminal of the first host's first process, and its command, if its output is one.
    pub console: Option<Arc<(UnixStream, String)>>,
    /// Board on which workers publish their activity for an observer.
    pub watched: Option<Arc<Board>>,
    /// Options of external simulators.
    pub simulators: SimulatorOptions,
    /// Function that creates the servers of P4 switches with a management interface; `None` only if no switch
    /// of the experiment has one.
    pub control_servers: Option<CreateServers>,
    /// Clock of the machine; `None` if no part of the run depends on real time.
    pub real_clock: Option<RealClock>,
    /// True if simulated time never exceeds real time by more than a window.
    pub paced: bool,
    /// True if the machine has a processor that no worker uses.
    pub idle_processor: bool,
    /// Live view of the run, which may pause it. Only for runs of one cell that do not depend on real time.
    pub live: Option<Arc<Live>>,
    /// Stream of the packets of an interface while the run goes on. Only for runs of one cell.
    pub packet_pipe: Option<Arc<PacketPipe>>,
    /// Host and program (file name) of the processes that wait for a debugger before their first
    /// instruction.
    pub wait_for_debugger: Vec<(String, String)>,
}
