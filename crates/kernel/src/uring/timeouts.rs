//! `IORING_OP_TIMEOUT`, `IORING_OP_LINK_TIMEOUT` and their updates.

use super::Step;
use crate::host::Host;
use crate::outcome::{Block, Wake};
use crate::timer::TimerAction;
use belljar_base::{SimDuration, SimTime};
use belljar_linux_abi::Errno;
use belljar_linux_abi::time::Timespec;
use belljar_uring::entry::{LINK_TIMEOUT, MORE, SubmissionEntry, TIMEOUT, failure};
use belljar_uring::instance::{Held, WaitingRequest};
use belljar_uring::memory::Completion;
use belljar_uring::timeouts::{ABSOLUTE, LINK_UPDATE, REALTIME};
use std::collections::VecDeque;

impl Host {
    /// Validates a timeout or link timeout before it starts.
    pub(super) fn check_timeout(&self, entry: &SubmissionEntry) -> Result<(), Errno> {
        entry.check_timeout_flags()?;
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
            // `off` is the number of repetitions, 0 for unlimited.
            let last = entry.repeats() && entry.off == 1;
            if !entry.repeats() || last {
                return Step::failed(Errno::ETIME);
            }
            entry.off = entry.off.saturating_sub(1);
            let (user_data, result) = (entry.user_data, failure(Errno::ETIME));
            if !self.urings.instances[n].has_room(&*self.machine) {
                return Step::failed(Errno::ETIME);
            }
            self.put_completion(n, Completion::new(user_data, result, MORE));
        }
        match self.point_in_time(entry, entry.addr) {
            Ok(at) => Step::Waits(Block::until(Some(at))),
            Err(errno) => Step::failed(errno),
        }
    }

    fn point_in_time(&mut self, entry: &SubmissionEntry, addr: u64) -> Result<SimTime, Errno> {
        let nanos = match entry.addr3 {
            period if entry.repeats() && period != 0 => period,
            _ => self.nanoseconds_at(entry, addr)?,
        };
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
        let wanted = |other: &WaitingRequest| other.entry.op == op && !other.queued;
        let number = self.urings.instances[n].find(entry.addr, wanted).ok_or(Errno::ENOENT)?;
        let request = &self.urings.instances[n].requests[number];
        let action = TimerAction::Uring { instance: n, request: number, serial: request.serial };
        let timer = self.set_timer(at, action);
        let period = self.nanoseconds_at(entry, entry.off)?;
        let request = &mut self.urings.instances[n].requests[number];
        if request.entry.repeats() {
            request.entry.addr3 = period;
        }
        if let Some(old) = request.deadline.replace(timer) {
            self.timers.cancel(old);
        }
        Ok(0)
    }

    /// Starts the timer of `IORING_OP_LINK_TIMEOUT`.
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
