//! Exchange with a process: a line to its standard input, a line from its standard output, within a time.
//!
//! The process may do neither: not read, not write, or end. So nothing here waits for one pipe alone.
#![expect(clippy::disallowed_methods, reason = "the process runs in real time, after the simulation")]

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::process::{Pid, Signal, kill_process_group};
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// Longest line of an answer, in bytes.
const LONGEST: usize = 16 << 20;
/// Number of bytes of standard error that are kept.
const KEPT: usize = 8 << 10;
/// Time in which a process whose output has ended ends itself.
const GRACE: Duration = Duration::from_secs(1);

/// Failure of an exchange.
pub(crate) enum Trouble {
    /// No answer came within the time.
    Late,
    /// The process ended, or closed its output: its status, unless it had to be killed, and the last line of its errors.
    Ended(Option<ExitStatus>, String),
    /// An answer came without a question.
    Unasked(Vec<u8>),
    /// The answer is longer than [`LONGEST`].
    Long,
    /// Failure of the machine.
    Io(io::Error),
}

impl From<io::Error> for Trouble {
    fn from(error: io::Error) -> Trouble {
        Trouble::Io(error)
    }
}

impl From<rustix::io::Errno> for Trouble {
    fn from(error: rustix::io::Errno) -> Trouble {
        Trouble::Io(error.into())
    }
}

/// Process that answers lines. It is killed, with those that it has started, when this is dropped.
pub(crate) struct Exchange {
    child: Child,
    input: ChildStdin,
    output: ChildStdout,
    errors: ChildStderr,
    /// Output that is not yet taken.
    read: Vec<u8>,
    /// Number of bytes of it that have no end of a line.
    searched: usize,
    /// End of standard error.
    noted: Vec<u8>,
}

impl Exchange {
    pub fn start(command: &mut Command) -> io::Result<Exchange> {
        let pipes = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = pipes.process_group(0).spawn()?;
        let (Some(input), Some(output), Some(errors)) =
            (child.stdin.take(), child.stdout.take(), child.stderr.take())
        else {
            return Err(io::Error::other("there are no pipes"));
        };
        let exchange =
            Exchange { child, input, output, errors, read: Vec::new(), searched: 0, noted: Vec::new() };
        for pipe in [exchange.input.as_fd(), exchange.output.as_fd(), exchange.errors.as_fd()] {
            fcntl_setfl(pipe, fcntl_getfl(pipe)? | OFlags::NONBLOCK)?;
        }
        Ok(exchange)
    }

    /// Writes a line, and returns the line that answers it, without its end.
    pub fn ask(&mut self, question: &str, within: Duration) -> Result<Vec<u8>, Trouble> {
        if !self.read.is_empty() {
            return Err(Trouble::Unasked(std::mem::take(&mut self.read)));
        }
        let deadline = Instant::now() + within;
        let question = format!("{question}\n").into_bytes();
        let (mut written, mut is_closed) = (0, false);
        loop {
            if !is_closed && written < question.len() {
                match self.input.write(&question[written..]) {
                    Ok(count) => written += count,
                    // The process may have answered before it closed its input, and says why in its errors.
                    Err(error) if error.kind() == ErrorKind::BrokenPipe => is_closed = true,
                    Err(error) if is_transient(&error) => {}
                    Err(error) => return Err(error.into()),
                }
            }
            if let Some(line) = self.take_line()? {
                return Ok(line);
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(Trouble::Late);
            }
            self.wait(!is_closed && written < question.len(), left)?;
        }
    }

    /// First whole line of the output, which is read as far as it is there.
    fn take_line(&mut self) -> Result<Option<Vec<u8>>, Trouble> {
        drain(&mut self.errors, &mut self.noted)?;
        self.noted.drain(..self.noted.len().saturating_sub(KEPT));
        let is_over = drain(&mut self.output, &mut self.read)?;
        let new = self.read[self.searched..].iter().position(|&byte| byte == b'\n');
        if let Some(end) = new.map(|at| self.searched + at) {
            self.searched = 0;
            let rest = self.read.split_off(end + 1);
            let mut line = std::mem::replace(&mut self.read, rest);
            line.pop();
            return Ok(Some(line));
        }
        self.searched = self.read.len();
        if self.read.len() > LONGEST {
            return Err(Trouble::Long);
        }
        if is_over {
            return Err(self.ended());
        }
        Ok(None)
    }

    /// Waits until something can be read or, if so wanted, written.
    fn wait(&self, writes: bool, at_most: Duration) -> Result<(), Trouble> {
        let mut pipes = vec![PollFd::new(&self.output, PollFlags::IN)];
        if writes {
            pipes.push(PollFd::new(&self.input, PollFlags::OUT));
        }
        // Standard error may be closed, and would then be ready all the time: it is looked at now and then.
        let slice = at_most.min(Duration::from_millis(50));
        let slice = Timespec { tv_sec: 0, tv_nsec: i64::from(slice.subsec_nanos()).max(1) };
        match poll(&mut pipes, Some(&slice)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// End of the process, whose output is at its end.
    fn ended(&mut self) -> Trouble {
        let deadline = Instant::now() + GRACE;
        let mut status = None;
        while status.is_none() && Instant::now() < deadline {
            status = self.child.try_wait().ok().flatten();
            std::thread::sleep(Duration::from_millis(1));
        }
        let _ = drain(&mut self.errors, &mut self.noted);
        let noted = String::from_utf8_lossy(&self.noted).into_owned();
        let last = noted.lines().map(str::trim).rfind(|line| !line.is_empty()).unwrap_or_default();
        Trouble::Ended(status, last.to_owned())
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        // The number of a process that was waited for may be another's.
        if let (Ok(None), Some(group)) = (self.child.try_wait(), Pid::from_raw(self.child.id().cast_signed()))
        {
            let _ = kill_process_group(group, Signal::KILL);
        }
        let _ = self.child.wait();
    }
}

fn is_transient(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}

/// Reads what a pipe has. Returns true at its end.
fn drain(pipe: &mut impl Read, into: &mut Vec<u8>) -> io::Result<bool> {
    let mut buffer = [0; 4 << 10];
    loop {
        match pipe.read(&mut buffer) {
            Ok(0) => return Ok(true),
            Ok(count) => {
                into.extend_from_slice(&buffer[..count]);
                if into.len() > LONGEST {
                    return Ok(false);
                }
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
            Err(error) => return Err(error),
        }
    }
}
