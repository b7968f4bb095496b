//! Network namespaces: sockets are opened inside a namespace and used from any thread.

use crate::{Error, Result};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};

/// Network namespace in which ports are opened.
///
/// A descriptor belongs permanently to the namespace of the thread that opened it. [`Namespace::run`]
/// therefore opens ports on a temporary thread that enters the namespace; the ports work on any thread.
#[derive(Clone, Debug)]
pub enum Namespace<'a> {
    /// The namespace of the calling thread.
    Current,
    /// A named namespace created by `ip netns add`.
    Name(String),
    /// A file such as `/run/netns/NAME` or `/proc/PID/ns/net`.
    Path(PathBuf),
    /// The namespace of a process.
    Process(u32),
    /// An open namespace file.
    Fd(BorrowedFd<'a>),
}

impl Namespace<'_> {
    /// Runs `open` inside the namespace and returns its result.
    ///
    /// Requires `CAP_SYS_ADMIN` in the user namespace that owns the network namespace and in the caller's
    /// own.
    pub fn run<T: Send>(&self, open: impl FnOnce() -> Result<T> + Send) -> Result<T> {
        let path = match self {
            Namespace::Current => return open(),
            Namespace::Fd(fd) => return inside(*fd, "the namespace of a descriptor", open),
            Namespace::Name(name) => Path::new("/run/netns").join(name),
            Namespace::Path(path) => path.clone(),
            Namespace::Process(pid) => PathBuf::from(format!("/proc/{pid}/ns/net")),
        };
        let shown = path.display().to_string();
        let file = File::open(&path)
            .map_err(|e| Error::system(format!("cannot open the network namespace '{shown}'"), e))?;
        inside(file.as_fd(), &shown, open)
    }
}

/// Runs `open` on a thread that has entered the namespace of `fd`.
fn inside<T: Send>(fd: BorrowedFd<'_>, shown: &str, open: impl FnOnce() -> Result<T> + Send) -> Result<T> {
    let enter_and_open = || {
        move_into_link_name_space(fd, Some(LinkNameSpaceType::Network)).map_err(|e| {
            Error::privileged(
                format!("entering the network namespace '{shown}'"),
                "CAP_SYS_ADMIN",
                "run as root, or enter the user namespace first (`nsenter --user --net`)",
                e,
            )
        })?;
        open()
    };
    std::thread::scope(|scope| match scope.spawn(enter_and_open).join() {
        Ok(result) => result,
        Err(panic) => std::panic::resume_unwind(panic),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_namespace_is_named() {
        let error = Namespace::Name("no-such-namespace".into()).run(|| Ok(())).unwrap_err();
        assert!(error.to_string().contains("/run/netns/no-such-namespace"), "{error}");
        let error = Namespace::Process(u32::MAX).run(|| Ok(())).unwrap_err();
        assert!(error.to_string().contains("/proc/4294967295/ns/net"), "{error}");
    }

    #[test]
    fn a_file_that_is_no_namespace_is_refused() {
        let error = Namespace::Path("/dev/null".into()).run(|| Ok(())).unwrap_err();
        assert!(error.to_string().contains("'/dev/null'"), "{error}");
    }

    #[test]
    fn the_current_namespace_needs_no_thread() {
        let here = std::thread::current().id();
        assert_eq!(Namespace::Current.run(|| Ok(std::thread::current().id())).unwrap(), here);
    }
}
