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

#[cfg(test)]
mod tests {
    use crate::clock::DEFAULT_EPOCH_SECS;
    use crate::testing::{Answer, TestHost};
    use belljar_base::{SimDuration, SimTime};
    use belljar_linux_abi::c;

    const ABSOLUTE: u64 = 1;

    /// Whether thread `n` sleeps on.
    fn sleeps(guest: &mut TestHost, n: usize) -> bool {
        guest.go_on(n) == Answer::Blocked
    }

    #[test]
    fn a_step_moves_the_deadlines_that_name_a_point_of_the_wall_clock() {
        let mut guest = TestHost::new(4);
        let until = |seconds: u64| [seconds.to_le_bytes(), [0; 8]].concat();
        // Each for a hundred seconds, two of them by the wall clock.
        let wall = guest.put(0, &until(DEFAULT_EPOCH_SECS + 100));
        let monotonic = guest.put(16, &until(3_700));
        let relative = guest.put(32, &until(100));
        let word = guest.put(64, &[0; 4]);
        let futex = (c::FUTEX_WAIT_BITSET | c::FUTEX_PRIVATE_FLAG | c::FUTEX_CLOCK_REALTIME) as u64;
        let sleep = |clock: i32, flags, at| [clock as u64, flags, at, 0];
        guest.attempt(0, c::SYS_clock_nanosleep, &sleep(c::CLOCK_REALTIME, ABSOLUTE, wall));
        guest.attempt(1, c::SYS_futex, &[word, futex, 0, wall, 0, 0xffff_ffff]);
        guest.attempt(2, c::SYS_clock_nanosleep, &sleep(c::CLOCK_MONOTONIC, ABSOLUTE, monotonic));
        guest.attempt(3, c::SYS_clock_nanosleep, &sleep(c::CLOCK_REALTIME, 0, relative));

        guest.pass(SimDuration::from_secs(10));
        guest.host.step_clock(60_000_000_000);
        guest.fire_until(SimTime::from_secs(39));
        assert!((0..4).all(|n| sleeps(&mut guest, n)));
        guest.fire_until(SimTime::from_secs(41));
        assert!(!sleeps(&mut guest, 0) && !sleeps(&mut guest, 1), "the wall clock shows 100 s");
        assert!(sleeps(&mut guest, 2) && sleeps(&mut guest, 3));

        // Back again: who waits now waits longer than it seemed.
        let wall = guest.put(0, &until(DEFAULT_EPOCH_SECS + 110));
        guest.attempt(0, c::SYS_clock_nanosleep, &sleep(c::CLOCK_REALTIME, ABSOLUTE, wall));
        guest.host.step_clock(-50_000_000_000);
        guest.fire_until(SimTime::from_secs(99));
        assert!(sleeps(&mut guest, 0) && sleeps(&mut guest, 2) && sleeps(&mut guest, 3));
        guest.fire_until(SimTime::from_secs(101));
        assert!(!sleeps(&mut guest, 0) && !sleeps(&mut guest, 2) && !sleeps(&mut guest, 3));
    }

    #[test]
    fn a_step_beyond_the_deadline_ends_the_wait_at_once() {
        let mut guest = TestHost::new(1);
        let wall = guest.put(0, &[(DEFAULT_EPOCH_SECS + 100).to_le_bytes(), [0; 8]].concat());
        guest.attempt(0, c::SYS_clock_nanosleep, &[c::CLOCK_REALTIME as u64, ABSOLUTE, wall, 0]);
        guest.host.step_clock(3_600_000_000_000);
        guest.pass(SimDuration::ZERO);
        assert_eq!(guest.go_on(0), Answer::Ended(Ok(0)));
    }

    #[test]
    fn a_crashed_host_runs_nothing_and_starts_again() {
        let mut guest = TestHost::new(2);
        guest.attempt(0, c::SYS_pause, &[]);
        guest.host.crash(false);
        assert!(guest.host.threads.is_empty() && guest.host.processes.is_empty());
        assert_eq!((guest.host.next_event(), guest.host.run_queue.len()), (None, 0));
        guest.host.advance(SimTime::from_secs(5));
        guest.host.restart();
        assert_eq!(guest.host.clock.monotonic_ns(), 3_600_000_000_000);
        assert_eq!(guest.host.clock.realtime_ns(), (DEFAULT_EPOCH_SECS + 5) * 1_000_000_000);
    }
}
