//! Programs that a user adds to a host while the emulation runs, `belljar attach`.
//!
//! The first process of each host listens on a socket in its scratch folder, with mode 0600: the user who runs the
//! emulation, and root. A client sends an [`Order`], with its standard streams as descriptors unless it has a
//! terminal. The answer is [`Answer::Started`], with the master of a new pseudo-terminal if there is to be one,
//! and [`Answer::Ended`] after the program. The program gets SIGHUP when the client closes the connection.

use crate::clock::monotonic_ns;
use crate::error::{Doing, Error, Result};
use nix::sys::signal::{Signal, kill};
use nix::sys::stat::{Mode, umask};
use nix::unistd::Pid;
use rustix::fs::OFlags;
use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, sendmsg,
};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// Name of the socket in the scratch folder of a host.
pub const SOCKET: &str = "attach.sock";
/// Hidden subcommand that becomes an attached program.
pub const ENTER_COMMAND: &str = "emulate-enter";
/// Upper bound on the length of an order, in bytes.
const LONGEST: usize = 1 << 20;
/// Length of the header of a message, its length in native byte order.
const HEADER: usize = 4;
/// Time limit for the first process to move a program to the host's control group, in nanoseconds.
const PATIENCE_NS: u64 = 5_000_000_000;
/// Time between SIGHUP and SIGKILL after the client has gone, in nanoseconds.
const GRACE_NS: u64 = 1_000_000_000;

/// Program to start.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Order {
    /// Program and arguments. The host's shell finds the program.
    pub command: Vec<String>,
    /// Text for the results.
    pub title: String,
    /// Variables beside those that every program of the emulation has.
    pub environment: Vec<(String, String)>,
    /// Rows and columns of the terminal; `None` if the program has the client's standard streams.
    pub terminal: Option<(u16, u16)>,
}

/// Message to a client.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Answer {
    /// The program was started.
    Started,
    /// The program could not be started, for this reason.
    Failed(String),
    /// The program ended: exit status or number of the signal.
    Ended {
        /// Exit status, if the program exited.
        exited: Option<i32>,
        /// Number of the signal that killed it, if any.
        signaled: Option<i32>,
    },
}

/// Sends a message with descriptors.
pub fn send<T: Serialize>(mut stream: &UnixStream, message: &T, fds: &[BorrowedFd<'_>]) -> io::Result<()> {
    let body = serde_json::to_vec(message)?;
    let header = u32::try_from(body.len()).map_err(io::Error::other)?.to_ne_bytes();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(3))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !fds.is_empty() {
        control.push(SendAncillaryMessage::ScmRights(fds));
    }
    sendmsg(stream, &[IoSlice::new(&header)], &mut control, SendFlags::NOSIGNAL)?;
    stream.write_all(&body)
}

/// Receives a message with its descriptors; `None` at the end of the stream.
pub fn receive<T: DeserializeOwned>(mut stream: &UnixStream) -> io::Result<Option<(T, Vec<OwnedFd>)>> {
    let mut header = [0; HEADER];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(3))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut parts = [IoSliceMut::new(&mut header)];
    let got = loop {
        match recvmsg(stream, &mut parts, &mut control, RecvFlags::CMSG_CLOEXEC | RecvFlags::WAITALL) {
            Err(Errno::INTR) => {}
            got => break got?.bytes,
        }
    };
    if got != HEADER {
        return Ok(None);
    }
    let rights = control.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(fds) => Some(fds),
        _ => None,
    });
    let fds = rights.flatten().collect();
    let len = u32::from_ne_bytes(header) as usize;
    if len > LONGEST {
        return Err(io::Error::other("the message is too long"));
    }
    let mut body = vec![0; len];
    stream.read_exact(&mut body)?;
    Ok(Some((serde_json::from_slice(&body)?, fds)))
}

/// Opens the socket of a host. Called while the process has a single thread.
pub(crate) fn listen(scratch: &Path) -> Result<UnixListener> {
    let path = scratch.join(SOCKET);
    let doing = || format!("making '{}'", path.display());
    let before = umask(Mode::from_bits_truncate(0o177));
    let listener = belljar_channel::with_socket_path(&path, |path| UnixListener::bind(path));
    umask(before);
    listener.doing(doing())
}

/// Streams of a program.
pub(crate) struct Streams {
    /// Standard input, output and error.
    pub standard: [OwnedFd; 3],
    /// Master of the terminal, if there is one.
    pub master: Option<OwnedFd>,
}

impl Streams {
    /// Makes a terminal for an order, or takes the streams of the client.
    pub fn new(order: &Order, fds: Vec<OwnedFd>) -> Result<Streams> {
        let Some((rows, columns)) = order.terminal else {
            let standard = fds.try_into().map_err(|_| Error::new("three streams are needed"))?;
            return Ok(Streams { standard, master: None });
        };
        let doing = "making a terminal";
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        let master = openpt(flags).doing(doing)?;
        grantpt(&master).doing(doing)?;
        unlockpt(&master).doing(doing)?;
        set_size(&master, rows, columns).doing(doing)?;
        let name = ptsname(&master, Vec::new()).doing(doing)?;
        let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
        let slave = rustix::fs::open(&*name, flags, rustix::fs::Mode::empty()).doing(doing)?;
        let copy = || slave.try_clone().doing(doing);
        Ok(Streams { standard: [copy()?, copy()?, copy()?], master: Some(master) })
    }
}

/// Sets the window size of a terminal.
pub fn set_size(terminal: impl AsFd, rows: u16, columns: u16) -> io::Result<()> {
    let size = Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
    Ok(tcsetwinsize(terminal, size)?)
}

/// Waits for the end of a client's connection, and then ends its program: first by SIGHUP.
pub(crate) fn end_with(mut client: UnixStream, pid: i32, is_running: impl Fn() -> bool) {
    let mut byte = [0];
    while matches!(client.read(&mut byte), Ok(1)) {}
    let group = Pid::from_raw(-pid);
    if is_running() {
        let _ = kill(group, Signal::SIGHUP);
        let _ = kill(group, Signal::SIGCONT);
    }
    let until = monotonic_ns() + GRACE_NS;
    while is_running() && monotonic_ns() < until {
        std::thread::sleep(Duration::from_millis(20));
    }
    if is_running() {
        let _ = kill(group, Signal::SIGKILL);
    }
}

/// Becomes an attached program: leads a session, takes the terminal on its standard input, if any, and waits until
/// it is in the host's control group, if any. Returns only on failure.
pub fn enter(has_terminal: bool, in_group: bool, command: &[OsString]) -> Error {
    let prepare = || -> Result<()> {
        rustix::process::setsid().doing("starting a session")?;
        if has_terminal {
            rustix::process::ioctl_tiocsctty(std::io::stdin()).doing("taking the terminal")?;
        }
        if in_group {
            wait_for_group()?;
        }
        Ok(())
    };
    if let Err(error) = prepare() {
        return error;
    }
    let [program, arguments @ ..] = command else { return Error::new("no program is given") };
    let error = Command::new(program).args(arguments).exec();
    Error::new(format!("executing '{}': {error}", program.display()))
}

/// Waits until this process is in another control group than the first one of the host.
fn wait_for_group() -> Result<()> {
    let until = monotonic_ns() + PATIENCE_NS;
    let group = |process: &str| std::fs::read_to_string(format!("/proc/{process}/cgroup"));
    let of_first = group("1").doing("reading the control group")?;
    while group("self").doing("reading the control group")? == of_first {
        if monotonic_ns() > until {
            return Err(Error::new("the control group of the host could not be entered"));
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}

/// Moves a process to a control group.
pub(crate) fn move_to(mut group: &File, pid: u32) -> io::Result<()> {
    group.write_all(pid.to_string().as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order() -> Order {
        Order { command: vec!["date".into()], title: "date".into(), environment: Vec::new(), terminal: None }
    }

    #[test]
    fn messages_carry_descriptors() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let (mut reader, writer) = std::io::pipe().unwrap();
        let order = order();
        send(&ours, &order, &[writer.as_fd()]).unwrap();
        drop(writer);
        let (got, fds) = receive::<Order>(&theirs).unwrap().unwrap();
        assert_eq!((got.command, fds.len()), (vec!["date".to_owned()], 1));
        File::from(fds.into_iter().next().unwrap()).write_all(b"seen").unwrap();
        let mut text = String::new();
        reader.read_to_string(&mut text).unwrap();
        assert_eq!(text, "seen");
        drop(ours);
        assert!(receive::<Order>(&theirs).unwrap().is_none());
    }

    #[test]
    fn messages_that_are_no_orders_are_refused() {
        let (mut ours, theirs) = UnixStream::pair().unwrap();
        ours.write_all(&u32::MAX.to_ne_bytes()).unwrap();
        assert!(receive::<Order>(&theirs).is_err());
    }

    #[test]
    fn the_socket_is_for_its_user() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let _listener = listen(folder.path()).unwrap();
        let mode = std::fs::metadata(folder.path().join(SOCKET)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }

    #[test]
    fn a_terminal_has_the_size_of_the_clients() {
        let order = Order { terminal: Some((30, 90)), ..order() };
        let streams = Streams::new(&order, Vec::new()).unwrap();
        let size = rustix::termios::tcgetwinsize(&streams.standard[0]).unwrap();
        assert_eq!((size.ws_row, size.ws_col, streams.master.is_some()), (30, 90, true));
        let no_streams = Order { terminal: None, ..order };
        assert!(Streams::new(&no_streams, Vec::new()).is_err());
    }
}
