//! Entry to and exit from guest code, see [`belljar_shim::entry`].

use crate::layout::HOST_AREA;
pub use belljar_shim::entry::*;

/// Turns Syscall User Dispatch for this thread on or off. While it is on, every system call from outside the
/// simulator's own range raises SIGSYS.
pub fn dispatch_system_calls(on: bool) -> std::io::Result<()> {
    const PR_SET_SYSCALL_USER_DISPATCH: i32 = 59;
    let (mode, start, len) =
        if on { (1, HOST_AREA.start, HOST_AREA.end - HOST_AREA.start) } else { (0, 0, 0) };
    // SAFETY: plain numbers; no selector byte is used.
    match unsafe { libc::prctl(PR_SET_SYSCALL_USER_DISPATCH, mode, start, len, 0) } {
        0 => Ok(()),
        _ => Err(std::io::Error::last_os_error()),
    }
}
