//! Entry into the namespaces of an emulation.
//!
//! `belljar emulate` executes itself as a hidden command, which moves to new namespaces and executes itself
//! a third time, as the first process of a PID namespace. That process runs the experiment (`world`), and
//! every process of every host is in a namespace below it. When it ends, for whatever reason, the kernel
//! kills all of them. It also ends with the command: it is killed with its parent, which is killed with the
//! command, and it exits at the end of its standard input.

use crate::error::{Doing, Error, Result};
use crate::ids::{self, Mapper};
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use nix::unistd::{getegid, geteuid};
use rustix::process::{Signal, getppid, set_parent_process_death_signal};
use std::ffi::OsString;
use std::fs;
use std::process::{Command, ExitCode};

/// Remedy where namespaces are refused.
pub const REMEDY: &str = "run as root with CAP_SYS_ADMIN and CAP_NET_ADMIN (docker run --privileged), or allow user \
    namespaces (as root: sysctl user.max_user_namespaces=10000 kernel.apparmor_restrict_unprivileged_userns=0)";

/// True if this process may make namespaces without a user namespace.
pub fn is_privileged() -> bool {
    const SYS_ADMIN: u64 = 1 << 21;
    const NET_ADMIN: u64 = 1 << 12;
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let held = line.and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok()).unwrap_or(0);
    geteuid().is_root() && held & SYS_ADMIN != 0 && held & NET_ADMIN != 0
}

/// True if emulations of this user have the machine's users.
pub fn has_users() -> bool {
    is_privileged() || ids::are_several()
}

/// Makes the kernel kill this process with its parent. Fails if the parent is not `parent`; `None` skips
/// the check.
pub fn end_with_parent(parent: Option<i32>) -> Result<()> {
    set_parent_process_death_signal(Some(Signal::KILL)).doing("asking to end with the parent")?;
    let now = getppid().map(|pid| pid.as_raw_nonzero().get());
    match parent {
        // The parent may have ended before the request.
        Some(parent) if now != Some(parent) => Err(Error::new("the command has ended")),
        _ => Ok(()),
    }
}

/// Moves to new namespaces of these kinds. Without root, they are below a new user namespace in which this
/// user is root; other users exist there if the machine lends subordinate ids.
pub fn leave(flags: CloneFlags) -> Result<()> {
    if is_privileged() {
        return unshare(flags)
            .map_err(|e| Error::new(format!("namespaces cannot be made: {}: {REMEDY}", e.desc())));
    }
    let (user, group, mapper) = (geteuid(), getegid(), Mapper::start());
    unshare(CloneFlags::CLONE_NEWUSER)
        .map_err(|e| Error::new(format!("user namespaces cannot be made: {}: {REMEDY}", e.desc())))?;
    mapper.map(user, group)?;
    unshare(flags).map_err(|e| Error::new(format!("namespaces cannot be made: {}: {REMEDY}", e.desc())))
}

/// Moves to new namespaces and runs this program there with these arguments. Returns its exit status.
pub fn run(arguments: &[OsString], parent: i32) -> Result<ExitCode> {
    end_with_parent(Some(parent))?;
    leave(
        CloneFlags::CLONE_NEWNS
            | CloneFlags::CLONE_NEWNET
            | CloneFlags::CLONE_NEWPID
            | CloneFlags::CLONE_NEWUTS
            | CloneFlags::CLONE_NEWIPC,
    )?;
    // The kernel clears the parent-death signal when credentials change.
    end_with_parent(Some(parent))?;
    let program = std::env::current_exe().doing("finding this program")?;
    let status = Command::new(program).args(arguments).status().doing("starting the emulation")?;
    Ok(ExitCode::from(status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1)))
}

/// Prepares the calling process as the first of its PID namespace: it is killed with its parent, its mounts
/// are private, and `/proc` shows its namespace.
pub fn settle() -> Result<()> {
    end_with_parent(None)?;
    mount(None::<&str>, "/", None::<&str>, MsFlags::MS_REC | MsFlags::MS_PRIVATE, None::<&str>)
        .map_err(|e| Error::new(format!("mounts cannot be made private: {}: {REMEDY}", e.desc())))?;
    let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC;
    mount(Some("proc"), "/proc", Some("proc"), flags, None::<&str>).map_err(|e| {
        Error::new(format!(
            "/proc cannot be mounted: {}: a container that hides parts of /proc does not allow it \
             (docker run --security-opt systempaths=unconfined)",
            e.desc()
        ))
    })
}
