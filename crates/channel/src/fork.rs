//! A native fork of this process.

use std::fs;
use std::io::{Error, Result};

/// Forks this process, fork(2). Returns the child's process id in the parent and `None` in the child.
///
/// # Errors
/// If this process has more than one thread: the child would lack the other threads, and locks held by them
/// would never be released. Otherwise the errors of fork(2).
pub fn fork() -> Result<Option<i32>> {
    if fs::read_dir("/proc/self/task")?.count() != 1 {
        return Err(Error::other("a process with several threads cannot be split"));
    }
    // SAFETY: no other thread exists that could be inside a critical section.
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
