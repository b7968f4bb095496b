//! A native fork of this process.

use std::fs;
use std::io::{Error, Result};

/// Forks this process, fork(2). Returns the child's process id, and `None` in the child.
///
/// # Errors
/// If this process has more than one thread: the child would have none of the others, and locks that they hold would never
/// be released. Else those of fork(2).
pub fn fork() -> Result<Option<i32>> {
    if fs::read_dir("/proc/self/task")?.count() != 1 {
        return Err(Error::other("a process with several threads cannot be split"));
    }
    // SAFETY: there is no other thread that could be in the middle of anything.
    match unsafe { libc::fork() } {
        -1 => Err(Error::last_os_error()),
        0 => Ok(None),
        child => Ok(Some(child)),
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_process_with_several_threads_is_not_split() {
        let (end, ended) = std::sync::mpsc::channel::<()>();
        let thread = std::thread::spawn(move || ended.recv());
        assert!(super::fork().is_err());
        drop(end);
        assert!(thread.join().unwrap().is_err());
    }
}
