//! Limit of this process's stack.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::os::unix::process::CommandExt;

/// Linux's default limit, in bytes.
const BOUND: u64 = 8 << 20;

/// Restarts this program with a limited stack, if it is unlimited (`ulimit -s unlimited`, as on many
/// clusters): Linux then places libraries bottom-up, in the guests' area. It must be called first, since
/// everything before it runs twice. If the restart fails, the platform reports the problem.
pub fn bound() {
    let limit = getrlimit(Resource::Stack);
    if limit.current.is_some()
        || setrlimit(Resource::Stack, Rlimit { current: Some(BOUND), ..limit }).is_err()
    {
        return;
    }
    let mut arguments = std::env::args_os();
    let name = arguments.next().unwrap_or_default();
    // Returns only on an error.
    let _ = std::process::Command::new("/proc/self/exe").arg0(name).args(arguments).exec();
}
