//! Effects of a clock change on deadlines: a step of the wall clock moves those that name an absolute wall-clock
//! time, like Linux's `clock_was_set`; a change of the clock's rate moves all.

use crate::outcome::CallState;
use crate::thread::{Thread, ThreadState};
use belljar_base::{SimDuration, SimTime};
use belljar_linux_abi::c;
use belljar_machine::Regs;
use belljar_netstack::clock::Clock;

/// Adjustment of deadlines.
pub enum ClockShift {
    /// The wall clock was stepped, forward if `sooner`: absolute deadlines come sooner.
    Step {
        /// Length of the step in simulated time.
        amount: SimDuration,
        /// True for a step forward.
        sooner: bool,
        /// Current time.
        now: SimTime,
    },
    /// The rate of the clock changed, from the first clock to the second.
    Rate(Box<Clock>, Box<Clock>),
}

impl ClockShift {
    /// Adjusted deadline, not before the current time.
    pub fn of(&self, deadline: SimTime) -> SimTime {
        match self {
            ClockShift::Step { amount, sooner: true, now } => {
                SimTime::from_picos(deadline.as_picos().saturating_sub(amount.as_picos())).max(*now)
            }
            ClockShift::Step { amount, sooner: false, now } => deadline.saturating_add(*amount).max(*now),
            ClockShift::Rate(before, after) => after.at_local(before.local_at(deadline)).max(after.now()),
        }
    }
    /// True if the adjustment applies to a timer of `clock`, set to an absolute time if `absolute`.
    pub fn concerns(&self, clock: i32, absolute: bool) -> bool {
        matches!(self, ClockShift::Rate(..)) || (absolute && is_wall_clock(clock))
    }
}

/// True if a `CLOCK_*` is set together with the wall clock.
pub fn is_wall_clock(id: i32) -> bool {
    matches!(id, c::CLOCK_REALTIME | c::CLOCK_REALTIME_COARSE | c::CLOCK_REALTIME_ALARM | c::CLOCK_TAI)
}

impl Thread {
    /// True if the thread is blocked in a call with an absolute wall-clock deadline; `regs` are its registers.
    pub fn waits_for_wall_clock(&self, regs: &Regs) -> bool {
        if !matches!(&self.state, ThreadState::Blocked(blocked) if blocked.deadline.is_some()) {
            return false;
        }
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
}

impl CallState {
    /// Changes the deadline of a call that has one.
    pub fn set_deadline(&mut self, at: SimTime) {
        match self {
            CallState::Timed { deadline, .. }
            | CallState::Deadline(deadline)
            | CallState::ProgressUntil(_, deadline)
            | CallState::ReceivingUntil(_, deadline, _)
            | CallState::Messages(_, _, deadline) => *deadline = Some(at),
            CallState::Futex(wait) => wait.deadline = Some(at),
            _ => {}
        }
    }
}
