//! Binary of the far processes, in a memory file: executing it from there requires no file system.

use std::fs::File;
use std::io::{Error, Result, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

/// The program, an ELF image.
pub const PROGRAM: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/far"));
/// Process name, as `ps` shows it.
const NAME: &str = "belljar-far";
const MFD_EXEC: u32 = 0x10;

/// A memory file that contains the program.
pub fn file() -> Result<OwnedFd> {
    // Kernels before 6.3 don't know the flag; later ones may insist on it.
    let mut file = memfd(libc::MFD_CLOEXEC | MFD_EXEC).or_else(|_| memfd(libc::MFD_CLOEXEC))?;
    file.write_all(PROGRAM)?;
    // A file that is open for writing cannot be executed.
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    Ok(File::open(path)?.into())
}

fn memfd(flags: u32) -> Result<File> {
    // SAFETY: the name is a C string; the fresh descriptor has no other owner.
    unsafe {
        match libc::memfd_create(c"belljar-far".as_ptr(), flags) {
            -1 => Err(Error::last_os_error()),
            fd => Ok(File::from_raw_fd(fd)),
        }
    }
}

/// Starts the program with the channel's memory and a socket; returns its process id. `posix_spawn` keeps
/// this process's pages out of it.
pub fn start(program: &OwnedFd, channel: OwnedFd, socket: OwnedFd) -> Result<i32> {
    let mut command = Command::new(format!("/proc/self/fd/{}", program.as_raw_fd()));
    command.arg0(NAME).env_clear().stdin(Stdio::from(channel)).stdout(Stdio::from(socket));
    Ok(command.stderr(Stdio::null()).spawn()?.id() as i32)
}
