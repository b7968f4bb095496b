//! The user's terminal, joined to that of a program on a host.

use crate::progress;
use belljar_sim::Frame;
use nix::sys::termios::{SetArg, Termios, cfmakeraw, tcgetattr, tcsetattr};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io::{self, IsTerminal, Write};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Interval at which the window size is looked at, in nanoseconds.
const REFRESH_NS: i64 = 100_000_000;
/// Bytes read from the terminal at a time.
const CHUNK: usize = 4_096;
/// Key that leaves a program when it is pressed several times in quick succession: Ctrl-].
const LEAVE: u8 = 0x1d;
const LEAVE_TIMES: usize = 3;
const LEAVE_WITHIN: Duration = Duration::from_secs(1);
/// Exit status after leaving, or after the end of the run.
pub const LEFT: u8 = 130;

/// True while a command of a prompt runs.
pub static RUNNING: AtomicBool = AtomicBool::new(false);
/// Set by a handler of SIGINT: the program that is running is to be left.
pub static INTERRUPTED: AtomicBool = AtomicBool::new(false);
/// Original settings of the terminal while it is in raw mode.
static BEFORE: Mutex<Option<Termios>> = Mutex::new(None);

/// Restores the terminal's original settings.
pub fn restore() {
    if let Some(before) = BEFORE.lock().unwrap_or_else(PoisonError::into_inner).take() {
        let _ = tcsetattr(io::stdin(), SetArg::TCSADRAIN, &before);
    }
}

/// True if standard input and output are a terminal.
pub fn is_here() -> bool {
    io::stdin().is_terminal() && io::stdout().is_terminal()
}

/// Rows and columns of the terminal.
pub fn size() -> (u16, u16) {
    match rustix::termios::tcgetwinsize(io::stdin()) {
        Ok(size) if size.ws_row > 0 && size.ws_col > 0 => (size.ws_row, size.ws_col),
        _ => (24, 80),
    }
}

/// Terminal in raw mode. Dropping the value restores it.
pub struct Raw;

impl Raw {
    /// Puts the terminal into raw mode.
    pub fn enter() -> io::Result<Raw> {
        let before = tcgetattr(io::stdin())?;
        let mut raw = before.clone();
        cfmakeraw(&mut raw);
        *BEFORE.lock().unwrap_or_else(PoisonError::into_inner) = Some(before);
        tcsetattr(io::stdin(), SetArg::TCSADRAIN, &raw)?;
        Ok(Raw)
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        restore();
    }
}

/// Source of a program's input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Input {
    /// The terminal in raw mode.
    Terminal,
    /// Standard input.
    Standard,
    /// Nothing.
    Nothing,
}

/// Presses of the key that leaves a program.
#[derive(Default)]
pub struct Leave(Vec<Instant>);

impl Leave {
    /// True if the user has asked to leave.
    pub fn is_asked(&mut self, typed: &[u8], now: Instant) -> bool {
        for byte in typed {
            match *byte {
                LEAVE => self.0.push(now),
                _ => self.0.clear(),
            }
        }
        self.0.retain(|at| now.duration_since(*at) <= LEAVE_WITHIN);
        self.0.len() >= LEAVE_TIMES
    }
}

/// Waits for either descriptor to be readable, or for a while.
pub fn wait(first: impl std::os::fd::AsFd, stdin: bool) -> (bool, bool) {
    let input = io::stdin();
    let mut all = vec![PollFd::from_borrowed_fd(first.as_fd(), PollFlags::IN)];
    if stdin {
        all.push(PollFd::new(&input, PollFlags::IN));
    }
    let _ = poll(&mut all, Some(&Timespec { tv_sec: 0, tv_nsec: REFRESH_NS }));
    let is_ready = |number: usize| all.get(number).is_some_and(|fd| !fd.revents().is_empty());
    (is_ready(0), is_ready(1))
}

/// Reads what has been typed; empty at the end of the input.
pub fn read_input() -> Vec<u8> {
    let mut bytes = vec![0; CHUNK];
    let len = nix::unistd::read(io::stdin(), &mut bytes).unwrap_or(0);
    bytes.truncate(len);
    bytes
}

/// Writes all of it to a standard stream at once. False if its reader is gone.
pub fn show(mut to: impl Write, data: &[u8]) -> bool {
    to.write_all(data).and_then(|()| to.flush()).is_ok()
}

/// Passes input and output of a program on a simulated host on, until it ends. Returns its exit status and a remark;
/// `None` if the run has ended first.
pub fn relay(stream: &UnixStream, input: Input) -> Option<(u8, String)> {
    let (mut is_open, mut shown, mut leave) = (input != Input::Nothing, size(), Leave::default());
    // A program may have ended, and its connection with it: what it has written is read all the same.
    if !is_open {
        let _ = Frame::EndOfInput.write(stream);
    }
    loop {
        let (has_output, has_input) = wait(stream, is_open);
        if INTERRUPTED.swap(false, Relaxed) {
            return Some((LEFT, String::new()));
        }
        if has_output {
            let is_read = match Frame::read(stream).ok().flatten()? {
                Frame::Output(data) => show(io::stdout(), &data),
                Frame::Error(data) => show(io::stderr(), &data),
                Frame::Ended(status, remark) => return Some((status, remark)),
                _ => true,
            };
            if !is_read {
                return Some((LEFT, String::new()));
            }
        }
        if has_input {
            let typed = read_input();
            if input == Input::Terminal && leave.is_asked(&typed, progress::now()) {
                return Some((LEFT, "left by Ctrl-]".to_owned()));
            }
            is_open = !typed.is_empty();
            let frame = if is_open { Frame::Input(typed) } else { Frame::EndOfInput };
            let _ = frame.write(stream);
        }
        if input == Input::Terminal && shown != size() {
            shown = size();
            let _ = Frame::Size(shown.0, shown.1).write(stream);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_quick_presses_leave() {
        let now = progress::now();
        let mut leave = Leave::default();
        assert!(!leave.is_asked(b"\x1d\x1d", now));
        assert!(!leave.is_asked(b"a\x1d\x1d", now), "another key begins anew");
        assert!(leave.is_asked(b"\x1d", now));
        let mut slow = Leave::default();
        assert!(!slow.is_asked(b"\x1d\x1d", now));
        assert!(!slow.is_asked(b"\x1d", now + LEAVE_WITHIN + Duration::from_millis(1)));
    }
}
