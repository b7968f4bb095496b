//! Pseudo-terminals as state machines, `pty(7)`: a pair of a master, which a terminal emulator or `sshd` holds, and a slave,
//! which is a terminal to programs, with the line discipline between them. Sessions, process groups and those who wait are the
//! caller's.
//!
//! # Contract
//!
//! **Master's end.** [`Pair::read_master`] takes what the slave's programs have written. [`Pair::feed`] takes typed bytes, at
//! most [`Pair::typing_room`] of them; then [`Pair::pump`] is to be called until it gives `None`: each [`Event`] that it gives is
//! carried out before the next call.
//!
//! **Slave's end.** [`Pair::available`] bytes can be read by [`Pair::take`], after which `pump` is due again;
//! [`Pair::write`] takes at most [`Pair::writing_room`] bytes.
//!
//! **Settings.** [`Pair::set_termios`], [`Pair::set_stopped`], [`Pair::flush`] and the public fields. [`Pair::set_termios`] and
//! [`Pair::set_stopped`] say whether output stops or goes on by them.
//!
//! Whoever waits for either end is woken by the caller after each of these.

#![forbid(unsafe_code)]

mod line;

use belljar_linux_abi::terminal::{Termios, Winsize};
use belljar_linux_abi::{c, terminal};
use line::{Effect, LINE_LIMIT, Line};
use std::collections::VecDeque;

/// Bytes that lie between the ends and have not reached the reader's buffer, at most: the limit that
/// Linux gives the buffer of a pseudo-terminal.
const FLIGHT_LIMIT: usize = 8_192;

/// A pair of master and slave.
#[derive(Debug)]
pub struct Pair {
    /// Settings of the slave.
    pub termios: Termios,
    /// The size of its window.
    pub size: Winsize,
    /// True until the master is closed.
    pub master_open: bool,
    /// Number of open slaves.
    slaves: u32,
    /// The last slave has been closed (and none opened since): the master reads no more.
    slave_closed: bool,
    /// `TIOCSPTLCK`: slaves cannot be opened.
    pub locked: bool,
    /// `TIOCEXCL`.
    pub exclusive: bool,
    line: Line,
    /// Written by the master and not yet taken by the line discipline.
    typed: VecDeque<u8>,
    /// Written by the slave (or echoed) and not yet read by the master.
    shown: VecDeque<u8>,
    /// `^S` or `TCOOFF`.
    stopped: bool,
    /// `TIOCPKT` and the states that a packet will tell.
    packet: bool,
    packet_state: u8,
}

/// The result of a read from the master.
#[derive(Debug, PartialEq, Eq)]
pub enum MasterRead {
    /// In packet mode, the states that have changed.
    State(u8),
    /// Bytes; in packet mode behind a byte that says so.
    Data(Vec<u8>),
    /// There is nothing yet.
    Nothing,
    /// There is nothing, and no slave is open.
    Closed,
}

/// A consequence of typed bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// True if output stops, or goes on: those who wait for either end are woken.
    pub stopped_or_started: bool,
    /// A signal for the foreground process group, after that.
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
    /// `EPOLL*` bits that hold at the master.
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
    /// `EPOLL*` bits that hold at the slave.
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

    /// One more slave is open.
    pub fn slave_opened(&mut self) {
        self.slaves += 1;
        self.slave_closed = false;
    }
    /// A slave is closed. True if it was the last, which ends what the master can read.
    pub fn slave_closed(&mut self) -> bool {
        self.slaves -= 1;
        if self.slaves == 0 {
            self.slave_closed = true;
            self.exclusive = false;
            self.line.flush();
        }
        self.slaves == 0
    }

    /// Takes up to `room` bytes of what the slave's programs have written.
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
    /// Bytes that [`read_master`](Self::read_master) could take.
    pub fn shown_len(&self) -> usize {
        self.shown.len()
    }
    /// Bytes that can be typed now.
    pub fn typing_room(&self) -> usize {
        FLIGHT_LIMIT.saturating_sub(self.typed.len())
    }
    /// Takes typed bytes; [`pump`](Self::pump) is due.
    pub fn feed(&mut self, data: &[u8]) {
        self.typed.extend(data);
    }
    /// Moves what has been typed through the line discipline as far as there is room, or up to the next event.
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

    /// True if lines are read as wholes (`ICANON`).
    pub fn is_canonical(&self) -> bool {
        self.termios.local(c::ICANON)
    }
    /// Number of bytes that a read outside canonical mode waits for (`VMIN`), and for how long, in tenths of a second
    /// (`VTIME`).
    pub fn least_read(&self) -> (usize, u8) {
        (usize::from(self.termios.cc[c::VMIN]), self.termios.cc[c::VTIME])
    }
    /// Number of bytes that a read of the slave could take now.
    pub fn available(&self) -> usize {
        self.line.available(&self.termios)
    }
    /// Takes up to `room` bytes, those of one line at most in canonical mode; [`pump`](Self::pump) is due.
    pub fn take(&mut self, room: usize) -> Vec<u8> {
        self.line.take(room, &self.termios)
    }
    /// Bytes that can be written to the slave now, unless output is [stopped](Self::is_stopped).
    pub fn writing_room(&self) -> usize {
        (FLIGHT_LIMIT + LINE_LIMIT).saturating_sub(self.shown.len())
    }
    /// Takes bytes that a program has written to the slave.
    pub fn write(&mut self, data: &[u8]) {
        for byte in data {
            self.line.put(*byte, &self.termios, &mut self.shown);
        }
    }

    /// Sets what `tcsetattr(3)` does; what has not been read is discarded if `discard`. True if output goes on by it.
    pub fn set_termios(&mut self, new: Termios, discard: bool) -> bool {
        let current = self.termios;
        if discard {
            self.line.flush();
            self.typed.clear();
        }
        // A pseudo-terminal has eight bits and no parity, whatever it is told.
        self.termios = Termios { cflag: new.cflag & !(c::CSIZE | c::PARENB) | c::CS8 | c::CREAD, ..new };
        self.line.mode_changed(current.local(c::ICANON), new.local(c::ICANON));
        current.input(c::IXON) && !new.input(c::IXON) && self.set_stopped(false)
    }
    /// True if output is stopped.
    pub fn is_stopped(&self) -> bool {
        self.stopped
    }
    /// Output stops or goes on. True if it did not stand so before.
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
    /// Discards what has been typed and not read, and what has been written and not shown (`tcflush(3)`).
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
    /// Enters or leaves packet mode.
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

    /// A pair with an open slave.
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
