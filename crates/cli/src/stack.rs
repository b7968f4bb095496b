//! Bounds this process's stack.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::os::unix::process::CommandExt;

/// Linux's own default, in bytes.
const BOUND: u64 = 8 << 20;

/// Starts this program over with a bounded stack, where it is unbounded (`ulimit -s unlimited`, as on many clusters): Linux lays
/// libraries out from below then, in the guests' area. Before anything else, since what has been done would be done again. Where that
/// cannot be, the platform says what is wrong.
pub fn bound() {
    let limit = getrlimit(Resource::Stack);
    if limit.current.is_some()
        || setrlimit(Resource::Stack, Rlimit { current: Some(BOUND), ..limit }).is_err()
    {
        return;
    }
    let mut arguments = std::env::args_os();
    let name = arguments.next().unwrap_or_default();
    // Gives an error or does not come back.
    let _ = std::process::Command::new("/proc/self/exe").arg0(name).args(arguments).exec();
}
