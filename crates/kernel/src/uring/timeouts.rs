//! `IORING_OP_TIMEOUT`, `IORING_OP_LINK_TIMEOUT` and what changes them.

use super::entry::{LINK_TIMEOUT, SubmissionEntry, TIMEOUT};
use super::requests::{Held, Step, failure};
use super::{Completion, MORE, Request};
use crate::host::Host;
use crate::outcome::{Block, Wake};
use crate::timer::TimerAction;
use belljar_base::{SimDuration, SimTime};
use belljar_linux_abi::Errno;
use belljar_linux_abi::time::Timespec;
use std::collections::VecDeque;

/// `IORING_TIMEOUT_*`; that a time-out is measured on `CLOCK_BOOTTIME` changes nothing here.
const ABSOLUTE: u32 = 1;
pub(super) const UPDATE: u32 = 2;
const BOOTTIME: u32 = 4;
const REALTIME: u32 = 8;
pub(super) const LINK_UPDATE: u32 = 16;
pub(super) const ETIME_SUCCESS: u32 = 32;
const MULTISHOT: u32 = 64;

/// Not two clocks at once.
fn check_clock(flags: u32) -> Result<(), Errno> {
    if flags & (BOOTTIME | REALTIME) == BOOTTIME | REALTIME { Err(Errno::EINVAL) } else { Ok(()) }
}

impl SubmissionEntry {
    /// True if a time-out goes on after its completion.
    fn repeats(&self) -> bool {
        self.op == TIMEOUT && self.op_flags & MULTISHOT != 0
    }
    /// The completions after which a time-out ends; 0 if it does not count them.
    pub(super) fn counted_completions(&self) -> u32 {
        if self.op != TIMEOUT || self.repeats() { 0 } else { self.off.min(u64::from(u32::MAX)) as u32 }
    }
    /// Checks `IORING_OP_TIMEOUT_REMOVE`.
    pub(super) fn check_timeout_remove(&self) -> Result<(), Errno> {
        let updates = self.op_flags & (UPDATE | LINK_UPDATE) != 0;
        let known = UPDATE | LINK_UPDATE | ABSOLUTE | BOOTTIME | REALTIME;
        check_clock(self.op_flags)?;
        if self.buffer != 0 || self.len != 0 || self.file_index != 0 || self.op_flags & !known != 0 {
            return Err(Errno::EINVAL);
        }
        if !updates && self.op_flags != 0 { Err(Errno::EINVAL) } else { Ok(()) }
    }
}

impl Host {
    /// Checks a time-out or a limit before it starts.
    pub(super) fn check_timeout(&self, entry: &SubmissionEntry) -> Result<(), Errno> {
        let known = ABSOLUTE | BOOTTIME | REALTIME | ETIME_SUCCESS | MULTISHOT;
        let wrong = entry.buffer != 0 || entry.len != 1 || entry.file_index != 0;
        if wrong || entry.op_flags & !known != 0 || (entry.op == LINK_TIMEOUT && entry.off != 0) {
            return Err(Errno::EINVAL);
        }
        if entry.op_flags & MULTISHOT != 0 && (entry.op == LINK_TIMEOUT || entry.op_flags & ABSOLUTE != 0) {
            return Err(Errno::EINVAL);
        }
        check_clock(entry.op_flags)?;
        self.nanoseconds_at(entry, entry.addr).map(|_| ())
    }
    fn nanoseconds_at(&self, entry: &SubmissionEntry, addr: u64) -> Result<u64, Errno> {
        let mut bytes = [0; 16];
        self.read_submitted(entry, addr, &mut bytes)?;
        let [sec, nsec] =
            [0, 8].map(|at| i64::from_ne_bytes(bytes[at..at + 8].try_into().expect("eight bytes")));
        Timespec { sec, nsec }.to_nanos().ok_or(Errno::EINVAL)
    }

    pub(super) fn advance_timeout(
        &mut self,
        n: usize,
        entry: &mut SubmissionEntry,
        wake: Option<Wake>,
    ) -> Step {
        if wake.is_some() {
            self.urings.instances[n].timeouts += 1;
            // `off` says how many times, 0 being for ever.
            let last = entry.repeats() && entry.off == 1;
            if !entry.repeats() || last {
                return Step::failed(Errno::ETIME);
            }
            entry.off = entry.off.saturating_sub(1);
            let (user_data, result) = (entry.user_data, failure(Errno::ETIME));
            if !self.has_room(n) {
                return Step::failed(Errno::ETIME);
            }
            self.put_completion(n, Completion { user_data, result, flags: MORE });
        }
        match self.point_in_time(entry, entry.addr) {
            Ok(at) => Step::Waits(Block::until(Some(at))),
            Err(errno) => Step::failed(errno),
        }
    }

    fn point_in_time(&mut self, entry: &SubmissionEntry, addr: u64) -> Result<SimTime, Errno> {
        let nanos = self.nanoseconds_at(entry, addr)?;
        Ok(match entry.op_flags & (ABSOLUTE | REALTIME) {
            0 | REALTIME => self.net.clock.after(SimDuration::from_nanos(nanos)),
            ABSOLUTE => self.net.clock.at_monotonic(nanos),
            _ => self.net.clock.at_realtime(nanos),
        })
    }

    /// `IORING_TIMEOUT_UPDATE` and `IORING_LINK_TIMEOUT_UPDATE`.
    pub(super) fn update_timeout(&mut self, n: usize, entry: &SubmissionEntry) -> Result<i32, Errno> {
        let at = self.point_in_time(entry, entry.off)?;
        let op = if entry.op_flags & LINK_UPDATE != 0 { LINK_TIMEOUT } else { TIMEOUT };
        let wanted = |other: &Request| other.entry.op == op && !other.queued;
        let number = self.urings.find_request(n, entry.addr, wanted).ok_or(Errno::ENOENT)?;
        let request = &self.urings.instances[n].requests[number];
        let action = TimerAction::Uring { instance: n, request: number, serial: request.serial };
        let timer = self.set_timer(at, action);
        if let Some(old) = self.urings.instances[n].requests[number].deadline.replace(timer) {
            self.timers.cancel(old);
        }
        Ok(0)
    }

    /// Starts the clock of `IORING_OP_LINK_TIMEOUT`.
    pub(super) fn start_limit(&mut self, n: usize, entry: SubmissionEntry) -> Option<u64> {
        match self.point_in_time(&entry, entry.addr) {
            Ok(at) => {
                let block = Block::until(Some(at));
                Some(self.wait_for(n, (entry, Held::default()), block, VecDeque::new(), None, None))
            }
            Err(errno) => {
                self.end(n, &entry, (failure(errno), 0), VecDeque::new(), None);
                None
            }
        }
    }
}
