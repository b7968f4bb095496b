//! Initialisation: checks and sets up the requirements of guests, once per process.

use crate::far;
use crate::near::{patch_memory, signals, worker};
use crate::{cpu, layout};
use std::os::unix::process::CommandExt;
use std::sync::Mutex;

/// The reason why this machine, or the environment of this process, cannot run near guests.
#[derive(Debug, thiserror::Error)]
pub enum InitError {
    /// The kernel lacks Syscall User Dispatch.
    #[error("this Linux kernel lacks Syscall User Dispatch (needs Linux 5.11 or later): {0}")]
    NoSyscallUserDispatch(std::io::Error),
    /// The CPU or the kernel lacks an instruction that switching guests needs.
    #[error("this machine cannot run guests: {0} is missing")]
    MissingFeature(&'static str),
    /// Linux mapped the simulator's own memory into the guests' area.
    #[error(
        "the simulator's own memory lies where guests belong ({what} at {address:#x}); \
         vm.legacy_va_layout or a personality flag is probably set"
    )]
    Layout {
        /// The offending mapping.
        what: String,
        /// Start address of the mapping.
        address: u64,
    },
    /// A native call failed.
    #[error("{what}: {error}")]
    Native {
        /// The attempted operation.
        what: &'static str,
        /// The system's error.
        error: std::io::Error,
    },
}

/// The last native error as an [`InitError`].
pub(crate) fn native(what: &'static str) -> InitError {
    InitError::Native { what, error: std::io::Error::last_os_error() }
}

static READY: Mutex<bool> = Mutex::new(false);

/// Prepares the process for guests: checks the address layout, the CPU and the kernel, and installs the
/// signal handlers. Call it early in `main`, before threads exist; further calls have no effect. Under
/// `ulimit -s unlimited` Linux maps libraries into the guests' area; the process then executes itself again
/// with a bounded stack, and this function does not return.
pub fn init() -> Result<(), InitError> {
    let mut ready = READY.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    if *ready {
        return Ok(());
    }
    if let Err(error) = layout::check() {
        return Err(relayout().unwrap_or(error));
    }
    cpu::check()?;
    patch_memory::open()?;
    worker::reserve()?;
    signals::install()?;
    // After the spawner starts: its children keep the original limit.
    far::spawner::start()?;
    crate::files::descriptor_limit();
    *ready = true;
    Ok(())
}

/// Executes this program again with a bounded stack if an unbounded one explains the layout. Returns the
/// error that prevented it; `None` if the stack is bounded.
fn relayout() -> Option<InitError> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` outlives the call.
    if unsafe { libc::getrlimit(libc::RLIMIT_STACK, &mut limit) } != 0
        || limit.rlim_cur != libc::RLIM_INFINITY
    {
        return None;
    }
    limit.rlim_cur = 8 << 20;
    // SAFETY: `limit` is initialised.
    if unsafe { libc::setrlimit(libc::RLIMIT_STACK, &limit) } != 0 {
        return Some(native("bounding the stack (ulimit -s)"));
    }
    let mut args = std::env::args_os();
    let name = args.next().unwrap_or_default();
    let error = std::process::Command::new("/proc/self/exe").arg0(name).args(args).exec();
    Some(InitError::Native { what: "executing the simulator again with a bounded stack", error })
}
