//! Freezing of the processes of a host or a switch: by a control group of version 2 where one can be made,
//! else by signals.
//!
//! A control group freezes all its members at once, invisibly to them. Processes enter it by a hidden
//! command that then executes their program ([`join`]), so that no process runs outside. Control groups of
//! version 1 are not used: their frozen processes cannot be killed, and would outlive an emulation that is
//! killed.
//!
//! The first process of a host sends signals (`SIGSTOP`, `SIGCONT`) to all other processes of its namespace
//! in one call (`kill(-1)`), which the kernel also delivers to processes being forked. The shim hides them
//! from parents.

use crate::error::{Doing, Error, Result};
use belljar_results::lock_new;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use rustix::fs::{FlockOperation, Mode, OFlags, flock, open};
use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Hidden subcommand that enters the control group whose membership file is the standard input, and
/// executes a program.
pub const JOIN_COMMAND: &str = "emulate-join";
/// Mount points of control groups of version 2.
const MOUNTS: [&str; 2] = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"];
/// Files of a control group: members and freezer.
const MEMBERS: &str = "cgroup.procs";
const FREEZE: &str = "cgroup.freeze";
/// Start of the names of emulations' groups. The id of the command and a time follow.
const PREFIX: &str = "belljar-";
/// Orders to the first process of a host: stop and continue its processes.
const STOP: u8 = b's';
const GO_ON: u8 = b'g';

/// Number of attempts to make a group that other emulations remove before it is locked.
const ATTEMPTS: usize = 3;

/// Makes a group's directory and locks it. `None` if it cannot be made, or if another emulation has removed it before
/// it was locked.
fn make_locked(path: &Path) -> Option<File> {
    fs::create_dir(path).ok()?;
    lock_new(path).ok()?
}

/// Control groups of an emulation.
#[derive(Debug)]
pub struct Groups {
    path: PathBuf,
    /// The group's directory, with a lock as long as the emulation lives: see [`sweep`].
    _directory: File,
}

impl Groups {
    /// Makes the group of this emulation below that of this process, if this is permitted, and removes those
    /// of emulations that were killed.
    pub fn make(name: &str) -> Option<Groups> {
        let own = own_group()?;
        let parents = MOUNTS.iter().map(|mount| Path::new(mount).join(&own));
        parents.inspect(|parent| sweep(parent)).find_map(|parent| {
            let path = parent.join(name);
            let directory = (0..ATTEMPTS).find_map(|_| make_locked(&path))?;
            // A kernel before 5.2 has no freezer in version 2.
            if path.join(FREEZE).exists() {
                Some(Groups { path, _directory: directory })
            } else {
                let _ = fs::remove_dir(&path);
                None
            }
        })
    }

    /// Makes the group of a node. Returns its membership file and its freezer.
    pub fn add(&self, node: usize) -> Result<(PathBuf, Freezer)> {
        let path = self.path.join(node.to_string());
        let failed = || format!("making the control group '{}'", path.display());
        fs::create_dir(&path).doing(failed())?;
        let freeze = File::options().write(true).open(path.join(FREEZE)).doing(failed())?;
        Ok((path.join(MEMBERS), Freezer::Group(freeze)))
    }
}

/// Path of this process's group of version 2, relative to the mount point.
fn own_group() -> Option<PathBuf> {
    let text = fs::read_to_string("/proc/self/cgroup").ok()?;
    let path = text.lines().find_map(|line| line.strip_prefix("0::/"))?;
    Some(PathBuf::from(path))
}

/// Removes the groups of the emulation `name`, which has ended.
pub fn remove(name: &str) {
    let Some(own) = own_group() else { return };
    MOUNTS.iter().for_each(|mount| remove_group(&Path::new(mount).join(&own).join(name)));
}

fn remove_group(path: &Path) {
    for entry in fs::read_dir(path).into_iter().flatten().flatten() {
        // The kernel removes the files of a group with its directory.
        let _ = fs::remove_dir(entry.path());
    }
    let _ = fs::remove_dir(path);
}

/// Name of the group of an emulation that the process `command` has started at a time.
pub fn group_name(command: u32, began_ns: u64) -> String {
    format!("{PREFIX}{command}-{began_ns}")
}

/// Removes the groups in `parent` that killed emulations have left: they are empty, and their locks are free.
fn sweep(parent: &Path) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let numbers = name.to_str().and_then(|name| name.strip_prefix(PREFIX)?.split_once('-'));
        if !numbers.is_some_and(|(a, b)| [a, b].iter().all(|number| number.parse::<u64>().is_ok())) {
            continue;
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let Ok(directory) = open(entry.path(), flags, Mode::empty()) else { continue };
        if flock(&directory, FlockOperation::NonBlockingLockExclusive).is_ok() {
            // A group with processes is not removed.
            remove_group(&entry.path());
        }
    }
}

/// Freezer of one node.
#[derive(Debug)]
pub enum Freezer {
    /// Freezer file of the node's control group.
    Group(File),
    /// Connection to the first process of a host.
    Host(UnixStream),
    /// Process id, for `SIGSTOP` and `SIGCONT`.
    Process(u32),
}

impl Freezer {
    /// Freezes or thaws the node. The change takes effect asynchronously.
    pub fn set(&mut self, frozen: bool) -> Result<()> {
        match self {
            Freezer::Group(file) => {
                file.write_all_at(if frozen { b"1" } else { b"0" }, 0).doing("freezing a control group")
            }
            Freezer::Host(connection) => connection
                .write_all(&[if frozen { STOP } else { GO_ON }])
                .doing("telling a host to stop its processes"),
            Freezer::Process(pid) => {
                let signal = if frozen { Signal::SIGSTOP } else { Signal::SIGCONT };
                // The end of a process is detected elsewhere.
                let _ = kill(Pid::from_raw(*pid as i32), signal);
                Ok(())
            }
        }
    }
}

/// Stops and continues all other processes of this namespace as `orders` demand, until the connection is
/// closed. Run by the first process of a host.
pub fn obey(mut orders: UnixStream) {
    if !belljar_platform::go_before_programs() {
        crate::go_first();
    }
    let mut order = [0];
    while matches!(orders.read(&mut order), Ok(1)) {
        let signal = if order[0] == STOP { Signal::SIGSTOP } else { Signal::SIGCONT };
        // There may be no other process.
        let _ = kill(Pid::from_raw(-1), signal);
    }
}

/// Enters the control group whose membership file is the standard input, and executes a program with its
/// arguments. Returns only on failure.
pub fn join(arguments: &[std::ffi::OsString]) -> Error {
    let enter = || -> std::io::Result<()> {
        File::from(std::io::stdin().as_fd().try_clone_to_owned()?).write_all(b"0")
    };
    if let Err(error) = enter() {
        return Error::new(format!("entering the control group of a host: {error}"));
    }
    let [program, arguments @ ..] = arguments else { return Error::new("no program is given") };
    let error = Command::new(program).args(arguments).stdin(Stdio::null()).exec();
    Error::new(format!("executing '{}': {error}", program.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_are_one_byte_each() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let mut freezer = Freezer::Host(ours);
        freezer.set(true).unwrap();
        freezer.set(false).unwrap();
        drop(freezer);
        let mut got = Vec::new();
        { theirs }.read_to_end(&mut got).unwrap();
        assert_eq!(got, [STOP, GO_ON]);
    }

    #[test]
    fn groups_of_killed_emulations_are_swept_and_no_others() {
        let parent = tempfile::tempdir().unwrap();
        let make = |name: &str| {
            let path = parent.path().join(name);
            fs::create_dir_all(path.join("0")).unwrap();
            path
        };
        let (left, used, other) =
            (make("belljar-12-34"), make(&group_name(12, 35)), make("belljar-x.service"));
        let directory = File::open(&used).unwrap();
        flock(&directory, FlockOperation::NonBlockingLockExclusive).unwrap();
        sweep(parent.path());
        assert!(!left.exists() && used.join("0").exists() && other.join("0").exists());
        drop(directory);
        sweep(parent.path());
        assert!(!used.exists());
    }

    #[test]
    fn a_process_stops_and_goes_on() {
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        let state = || {
            let text = fs::read_to_string(format!("/proc/{}/stat", child.id())).unwrap();
            text.rsplit(") ").next().and_then(|rest| rest.chars().next()).unwrap()
        };
        let mut freezer = Freezer::Process(child.id());
        let reaches = |wanted: bool| {
            (0..1_000).any(|_| {
                std::thread::sleep(std::time::Duration::from_millis(10));
                (state() == 'T') == wanted
            })
        };
        freezer.set(true).unwrap();
        assert!(reaches(true));
        freezer.set(false).unwrap();
        assert!(reaches(false));
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
