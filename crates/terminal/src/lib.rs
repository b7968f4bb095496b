//! Pseudo-terminals as state machines, `pty(7)`: a pair of a master, held by a terminal emulator or `sshd`,
//! and a slave, which programs use as their terminal, connected by the line discipline. Sessions, process
//! groups and waiters are managed by the caller.
//!
//! # Contract
//!
//! **Master.** [`Pair::read_master`] reads the output of the slave's programs. [`Pair::feed`] accepts typed
//! bytes, at most [`Pair::typing_room`]; afterwards [`Pair::pump`] must be called until it returns `None`,
//! and each [`Event`] that it returns must be processed before the next call.
//!
//! **Slave.** [`Pair::take`] reads up to [`Pair::available`] bytes; afterwards `pump` must be called.
//! [`Pair::write`] accepts at most [`Pair::writing_room`] bytes.
//!
//! **Settings.** [`Pair::set_termios`], [`Pair::set_stopped`], [`Pair::flush`] and the public fields.
//! [`Pair::set_termios`] and [`Pair::set_stopped`] report whether output was stopped or restarted.
//!
//! After each of these calls the caller wakes the waiters of both ends.

#![forbid(unsafe_code)]

mod line;

use belljar_linux_abi::terminal::{Termios, Winsize};
use belljar_linux_abi::{c, terminal};
use line::{Effect, LINE_LIMIT, Line};
use std::collections::VecDeque;

/// Maximum number of bytes in transit between the ends: Linux's buffer limit for pseudo-terminals.
const FLIGHT_LIMIT: usize = 8_192;

/// Pair of master and slave.
#[derive(Debug)]
pub struct Pair {
    /// Terminal settings of the slave.
    pub termios: Termios,
    /// Window size.
    pub size: Winsize,
    /// True until the master is closed.
    pub master_open: bool,
    /// Number of open slaves.
    slaves: u32,
    /// True if the last slave was closed and none opened since: the master reads end of file.
    slave_closed: bool,
    /// Lock of the slave (`TIOCSPTLCK`): it cannot be opened.
    pub locked: bool,
    /// `TIOCEXCL`.
    pub exclusive: bool,
    line: Line,
    /// Bytes written by the master and not yet processed by the line discipline.
    typed: VecDeque<u8>,
    /// Bytes written by the slave, or echoed, and not yet read by the master.
    shown: VecDeque<u8>,
    /// True while output is stopped (`^S` or `TCOOFF`).
    stopped: bool,
    /// Packet mode (`TIOCPKT`), and the status bits of the next control packet.
    packet: bool,
    packet_state: u8,
}

/// Result of a read from the master.
#[derive(Debug, PartialEq, Eq)]
pub enum MasterRead {
    /// Control packet in packet mode: changed status bits.
    State(u8),
    /// Data; in packet mode after a byte `TIOCPKT_DATA`.
    Data(Vec<u8>),
    /// No data is available yet.
    Nothing,
    /// No data is available, and no slave is open.
    Closed,
}

/// Effect of typed bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// True if output was stopped or restarted: the waiters of both ends must be woken.
    pub stopped_or_started: bool,
    /// Signal to send to the foreground process group afterwards.
    pub signal: Option<i32>,
}

impl Default for Pair {
    fn default() -> Pair {
        Pair {
            termios: Termios::default(),
            size: Winsize::default(),
            master_open: true,
            slaves: 0,
            slave_closed: false,
            locked: true,
            exclusive: false,
            line: Line::default(),
            typed: VecDeque::new(),
            shown: VecDeque::new(),
            stopped: false,
            packet: false,
            packet_state: 0,
        }
    }
}

impl Pair {
    /// True if both ends are closed.
    pub fn is_unused(&self) -> bool {
        !self.master_open && self.slaves == 0
    }
    /// Readiness of the master as `EPOLL*` bits.
    pub fn master_readiness(&self) -> u32 {
        let mut events = 0;
        if !self.shown.is_empty() && !self.stopped {
            events |= READABLE;
        }
        if self.packet && self.packet_state != 0 {
            events |= READABLE | c::EPOLLPRI as u32;
        }
        if self.slave_closed {
            events |= c::EPOLLHUP as u32;
        }
        if self.typed.len() < FLIGHT_LIMIT {
            events |= WRITABLE;
        }
        events
    }
    /// Readiness of the slave as `EPOLL*` bits.
    pub fn slave_readiness(&self) -> u32 {
        if !self.master_open {
            return READABLE | WRITABLE | (c::EPOLLERR | c::EPOLLHUP) as u32;
        }
        let canonical = self.is_canonical();
        let (minimum, time) = self.least_read();
        let wanted = if !canonical && time == 0 { minimum.max(1) } else { 1 };
        let mut events = 0;
        if self.available() >= wanted {
            events |= READABLE;
        }
        if self.writing_room() > 0 && !self.stopped {
            events |= WRITABLE;
        }
        events
    }

    /// Counts an opened slave.
    pub fn slave_opened(&mut self) {
        self.slaves += 1;
        self.slave_closed = false;
    }
    /// Counts a closed slave. Returns true if it was the last, after which the master reads end of file.
    pub fn slave_closed(&mut self) -> bool {
        self.slaves -= 1;
        if self.slaves == 0 {
            self.slave_closed = true;
            self.exclusive = false;
            self.line.flush();
        }
        self.slaves == 0
    }

    /// Reads up to `room` bytes of the output of the slave's programs.
    pub fn read_master(&mut self, room: usize) -> MasterRead {
        if self.packet && self.packet_state != 0 {
            return MasterRead::State(std::mem::take(&mut self.packet_state));
        }
        if self.shown.is_empty() || self.stopped {
            return if self.slave_closed { MasterRead::Closed } else { MasterRead::Nothing };
        }
        let header = usize::from(self.packet);
        let len = self.shown.len().min(room - header);
        let header = std::iter::repeat_n(terminal::TIOCPKT_DATA, header);
        MasterRead::Data(header.chain(self.shown.drain(..len)).collect())
    }
    /// Number of bytes available to [`read_master`](Self::read_master).
    pub fn shown_len(&self) -> usize {
        self.shown.len()
    }
    /// Number of bytes that [`feed`](Self::feed) accepts now.
    pub fn typing_room(&self) -> usize {
        FLIGHT_LIMIT.saturating_sub(self.typed.len())
    }
    /// Accepts typed bytes; [`pump`](Self::pump) must be called afterwards.
    pub fn feed(&mut self, data: &[u8]) {
        self.typed.extend(data);
    }
    /// Passes typed bytes through the line discipline as far as there is room, or up to the next event.
    pub fn pump(&mut self) -> Option<Event> {
        loop {
            if self.typed.is_empty() || self.line.room(&self.termios) == 0 {
                return None;
            }
            let byte = self.typed.pop_front()?;
            let (stopped_or_started, signal) = match self.line.receive(byte, &self.termios, &mut self.shown) {
                Effect::None => {
                    let any = self.stopped && self.termios.input(c::IXANY) && self.termios.input(c::IXON);
                    (any && self.set_stopped(false), None)
                }
                Effect::Stop => (self.set_stopped(true), None),
                Effect::Start => (self.set_stopped(false), None),
                Effect::Signal(signal) => {
                    if !self.termios.local(c::NOFLSH) {
                        self.packet_state |= terminal::TIOCPKT_FLUSHREAD | terminal::TIOCPKT_FLUSHWRITE;
                    }
                    (self.termios.input(c::IXON) && self.set_stopped(false), Some(signal))
                }
            };
            if stopped_or_started || signal.is_some() {
                return Some(Event { stopped_or_started, signal });
            }
        }
    }

    /// True in canonical mode (`ICANON`), in which whole lines are read.
    pub fn is_canonical(&self) -> bool {
        self.termios.local(c::ICANON)
    }
    /// Minimum number of bytes of a non-canonical read (`VMIN`), and its time-out in tenths of a second
    /// (`VTIME`).
    pub fn least_read(&self) -> (usize, u8) {
        (usize::from(self.termios.cc[c::VMIN]), self.termios.cc[c::VTIME])
    }
    /// Number of bytes available to a read of the slave.
    pub fn available(&self) -> usize {
        self.line.available(&self.termios)
    }
    /// Reads up to `room` bytes, in canonical mode at most one line; [`pump`](Self::pump) must be called
    /// afterwards.
    pub fn take(&mut self, room: usize) -> Vec<u8> {
        self.line.take(room, &self.termios)
    }
    /// Number of bytes that [`write`](Self::write) accepts now, unless output is [stopped](Self::is_stopped).
    pub fn writing_room(&self) -> usize {
        (FLIGHT_LIMIT + LINE_LIMIT).saturating_sub(self.shown.len())
    }
    /// Accepts output of a program on the slave.
    pub fn write(&mut self, data: &[u8]) {
        for byte in data {
            self.line.put(*byte, &self.termios, &mut self.shown);
        }
    }

    /// Implements `tcsetattr(3)`; discards unread input if `discard`. Returns true if this restarts output.
    pub fn set_termios(&mut self, new: Termios, discard: bool) -> bool {
        let current = self.termios;
        if discard {
            self.line.flush();
            self.typed.clear();
        }
        // A pseudo-terminal always has eight bits and no parity.
        self.termios = Termios { cflag: new.cflag & !(c::CSIZE | c::PARENB) | c::CS8 | c::CREAD, ..new };
        self.line.mode_changed(current.local(c::ICANON), new.local(c::ICANON));
        current.input(c::IXON) && !new.input(c::IXON) && self.set_stopped(false)
    }
    /// True if output is stopped.
    pub fn is_stopped(&self) -> bool {
        self.stopped
    }
    /// Stops or restarts output. Returns true if the state changed.
    pub fn set_stopped(&mut self, stopped: bool) -> bool {
        if self.stopped == stopped {
            return false;
        }
        self.stopped = stopped;
        let (now, before) = if stopped {
            (terminal::TIOCPKT_STOP, terminal::TIOCPKT_START)
        } else {
            (terminal::TIOCPKT_START, terminal::TIOCPKT_STOP)
        };
        self.packet_state = self.packet_state & !before | now;
        true
    }
    /// Discards unread input (`typed`) and unread output (`shown`), `tcflush(3)`.
    pub fn flush(&mut self, typed: bool, shown: bool) {
        if typed {
            self.line.flush();
            self.typed.clear();
            self.packet_state |= terminal::TIOCPKT_FLUSHREAD;
        }
        if shown {
            self.shown.clear();
            self.packet_state |= terminal::TIOCPKT_FLUSHWRITE;
        }
    }
    /// True in packet mode (`TIOCPKT`).
    pub fn is_packet_mode(&self) -> bool {
        self.packet
    }
    /// Enables or disables packet mode.
    pub fn set_packet_mode(&mut self, on: bool) {
        if on != self.packet {
            (self.packet, self.packet_state) = (on, 0);
        }
    }
}

const READABLE: u32 = (c::EPOLLIN | c::EPOLLRDNORM) as u32;
const WRITABLE: u32 = (c::EPOLLOUT | c::EPOLLWRNORM) as u32;

#[cfg(test)]
mod tests {
    use super::*;

    /// Creates a pair with an open slave.
    fn pair() -> Pair {
        let mut pair = Pair::default();
        pair.slave_opened();
        pair
    }
    fn type_all(pair: &mut Pair, data: &[u8]) -> Vec<Event> {
        pair.feed(data);
        std::iter::from_fn(|| pair.pump()).collect()
    }

    #[test]
    fn a_line_goes_through_and_is_echoed() {
        let mut pair = pair();
        assert_eq!(type_all(&mut pair, b"ls"), []);
        assert_eq!((pair.available(), pair.slave_readiness() & READABLE), (0, 0));
        assert_eq!(type_all(&mut pair, b"\r"), []);
        assert_eq!(pair.take(100), b"ls\n");
        assert_eq!(pair.read_master(100), MasterRead::Data(b"ls\r\n".to_vec()));
        assert_eq!(pair.read_master(100), MasterRead::Nothing);
        assert!(pair.slave_closed());
        assert_eq!(pair.read_master(100), MasterRead::Closed);
    }

    #[test]
    fn output_stops_and_goes_on_and_an_interrupt_is_told_after_that() {
        let mut pair = pair();
        let stop = Event { stopped_or_started: true, signal: None };
        assert_eq!(type_all(&mut pair, b"\x13\x13"), [stop], "the second changes nothing");
        pair.write(b"unseen");
        assert_eq!(pair.read_master(100), MasterRead::Nothing);
        let interrupt = Event { stopped_or_started: true, signal: Some(c::SIGINT) };
        assert_eq!(type_all(&mut pair, b"a\x03b"), [interrupt]);
        assert_eq!(pair.take(100), b"", "the line is flushed, and the rest is no line yet");
        let raw = Termios { iflag: 0, ..pair.termios };
        assert!(
            pair.set_stopped(true) && pair.set_termios(raw, false),
            "without IXON nothing would start it again"
        );
    }

    #[test]
    fn packets_tell_states_before_data() {
        let mut pair = pair();
        pair.set_packet_mode(true);
        pair.write(b"x");
        pair.flush(true, false);
        assert_eq!(pair.read_master(9), MasterRead::State(terminal::TIOCPKT_FLUSHREAD));
        assert_eq!(pair.read_master(9), MasterRead::Data(vec![terminal::TIOCPKT_DATA, b'x']));
    }
}
