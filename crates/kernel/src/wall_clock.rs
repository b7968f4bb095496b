//! What a step of the wall clock does to those who wait for a point of it, as Linux's
//! `clock_was_set`: their deadlines come nearer or move away.

use crate::call::CallState;
use crate::host::Host;
use crate::ids::{ProcessKey, ThreadKey};
use crate::thread::ThreadState;
use crate::timer::TimerAction;
use belljar_base::{SimDuration, SimTime};
use belljar_linux_abi::c;

/// How the deadlines move.
#[derive(Clone, Copy)]
pub(crate) struct Shift {
    amount: SimDuration,
    /// The clock was set forward: what it will show comes sooner.
    sooner: bool,
    now: SimTime,
}

impl Shift {
    /// Where a deadline has moved to; the past is over at once.
    pub(crate) fn of(self, deadline: SimTime) -> SimTime {
        let moved = match self.sooner {
            true => SimTime::from_picos(deadline.as_picos().saturating_sub(self.amount.as_picos())),
            false => deadline.saturating_add(self.amount),
        };
        moved.max(self.now)
    }
}

impl Host {
    /// The wall clock has been set forward by so many nanoseconds, or back.
    pub(crate) fn wall_clock_stepped(&mut self, ns: i64) {
        let amount = self.clock.simulated(SimDuration::from_nanos(ns.unsigned_abs()));
        let shift = Shift { amount, sooner: ns > 0, now: self.clock.now() };
        let threads: Vec<ThreadKey> = self.threads.iter().map(|(key, _)| ThreadKey(key)).collect();
        for thread in threads {
            if self.waits_for_wall_clock(thread) {
                self.shift_deadline(thread, shift);
            }
        }
        let timers: Vec<usize> = self.files.timerfds.iter().map(|(n, _)| n).collect();
        for n in timers {
            self.shift_timerfd(n, shift);
        }
        let processes: Vec<ProcessKey> = self.processes.iter().map(|(key, _)| ProcessKey(key)).collect();
        for process in processes {
            self.shift_posix_timers(process, shift);
        }
    }

    /// Whether a thread is blocked in a call that names a point of the wall clock.
    fn waits_for_wall_clock(&self, thread: ThreadKey) -> bool {
        let thread = &self.threads[thread.0];
        if !matches!(&thread.state, ThreadState::Blocked(blocked) if blocked.deadline.is_some()) {
            return false;
        }
        let regs = self.machine.regs(thread.context);
        match regs.rax as i64 {
            c::SYS_clock_nanosleep => regs.rsi & 1 != 0 && is_wall_clock(regs.rdi as i32),
            c::SYS_futex => {
                let operation = regs.rsi as i32;
                match operation & c::FUTEX_CMD_MASK {
                    c::FUTEX_LOCK_PI => true,
                    c::FUTEX_WAIT => false,
                    _ => operation & c::FUTEX_CLOCK_REALTIME != 0,
                }
            }
            _ => false,
        }
    }

    fn shift_deadline(&mut self, key: ThreadKey, shift: Shift) {
        let ThreadState::Blocked(blocked) = &mut self.threads[key.0].state else { return };
        let Some(timer) = blocked.deadline else { return };
        let at = shift.of(timer.at());
        match &mut blocked.state {
            CallState::Timed { deadline, .. } | CallState::Deadline(deadline) => *deadline = Some(at),
            CallState::Futex(wait) => wait.deadline = Some(at),
            _ => {}
        }
        self.timers.cancel(timer);
        blocked.deadline = Some(self.timers.add(at, TimerAction::Deadline(key)));
    }
}

/// Whether a `CLOCK_*` is set with the wall clock.
pub(crate) fn is_wall_clock(id: i32) -> bool {
    matches!(id, c::CLOCK_REALTIME | c::CLOCK_REALTIME_COARSE | c::CLOCK_REALTIME_ALARM | c::CLOCK_TAI)
}
