//! Effects of clock changes on waits. A step of the wall clock moves the deadlines of waits for an absolute
//! wall-clock time, like Linux's `clock_was_set`; a change of the clock's rate moves all deadlines.

use crate::clock::Clock;
use crate::host::Host;
use crate::ids::{ProcessKey, ThreadKey};
use crate::thread::ThreadState;
use crate::timer::TimerAction;
use belljar_base::SimDuration;
use belljar_tasks::clock_shift::ClockShift;

impl Host {
    /// Adjusts waits after the wall clock was stepped by `ns` nanoseconds.
    pub(crate) fn wall_clock_stepped(&mut self, ns: i64) {
        let amount = self.net.clock.simulated(SimDuration::from_nanos(ns.unsigned_abs()));
        self.shift_timers(&ClockShift::Step { amount, sooner: ns > 0, now: self.net.clock.now() });
        self.cancel_timerfds();
    }

    /// Adjusts all waits after the clock's rate changed; `before` is the clock at the old rate.
    pub(crate) fn clock_rate_changed(&mut self, before: Clock) {
        self.shift_timers(&ClockShift::Rate(Box::new(before), Box::new(self.net.clock.clone())));
        self.net.tcp_set_timers_anew();
        let further: Vec<u32> = self.networks.further.keys().copied().collect();
        further.into_iter().for_each(|number| self.stack_mut(number).tcp_set_timers_anew());
        self.end_turn();
    }

    fn shift_timers(&mut self, shift: &ClockShift) {
        let threads: Vec<ThreadKey> = self.threads.iter().map(|(key, _)| ThreadKey(key)).collect();
        for thread in threads {
            if matches!(shift, ClockShift::Rate(..))
                || self.threads[thread.0]
                    .waits_for_wall_clock(self.machine.regs(self.threads[thread.0].context))
            {
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
            self.shift_real_timer(process, shift);
        }
    }

    fn shift_deadline(&mut self, key: ThreadKey, shift: &ClockShift) {
        let ThreadState::Blocked(blocked) = &mut self.threads[key.0].state else { return };
        let Some(timer) = blocked.deadline else { return };
        let at = shift.of(timer.at());
        blocked.state.set_deadline(at);
        self.timers.cancel(timer);
        let timer = self.set_timer(at, TimerAction::Deadline(key));
        if let ThreadState::Blocked(blocked) = &mut self.threads[key.0].state {
            blocked.deadline = Some(timer);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::clock::DEFAULT_EPOCH_SECS;
    use crate::testing::{Answer, TestHost};
    use belljar_base::{SimDuration, SimTime};
    use belljar_linux_abi::process::Timex;
    use belljar_linux_abi::{Errno, c};
    use zerocopy::IntoBytes;

    const ABSOLUTE: u64 = 1;

    /// True if thread `n` is still blocked.
    fn sleeps(guest: &mut TestHost, n: usize) -> bool {
        guest.go_on(n) == Answer::Blocked
    }

    #[test]
    fn a_step_moves_the_deadlines_that_name_a_point_of_the_wall_clock() {
        let mut guest = TestHost::new(4);
        let until = |seconds: u64| [seconds.to_le_bytes(), [0; 8]].concat();
        // Each sleeps for a hundred seconds, two of them by the wall clock.
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

        // A step back lengthens the wait of the new sleeper.
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
    fn another_rate_moves_everything_that_waits_for_time_to_pass() {
        let mut guest = TestHost::new(2);
        let relative = guest.put(0, &[100u64.to_le_bytes(), [0; 8]].concat());
        guest.attempt(0, c::SYS_clock_nanosleep, &[c::CLOCK_MONOTONIC as u64, 0, relative, 0]);
        let timer = guest.call_by(1, c::SYS_timerfd_create, &[c::CLOCK_MONOTONIC as u64, 0]);
        let setting =
            guest.put(32, &[[0; 16], [100u64.to_le_bytes(), [0; 8]].concat().try_into().unwrap()].concat());
        guest.call_by(1, c::SYS_timerfd_settime, &[timer, 0, setting, 0]);
        guest.attempt(1, c::SYS_read, &[timer, setting, 8]);
        guest.pass(SimDuration::from_secs(50));
        // From here on the clock runs 10 % fast: its remaining fifty seconds take 45.45 simulated seconds.
        guest.host.set_clock_drift(100_000_000);
        guest.fire_until(SimTime::from_nanos(95_454_000_000));
        assert!(sleeps(&mut guest, 0) && sleeps(&mut guest, 1));
        guest.fire_until(SimTime::from_nanos(95_455_000_000));
        assert!(!sleeps(&mut guest, 0) && !sleeps(&mut guest, 1));
    }

    #[test]
    fn a_step_cancels_the_timers_that_ask_for_it() {
        const CANCEL: u64 = (c::TFD_TIMER_ABSTIME | c::TFD_TIMER_CANCEL_ON_SET) as u64;
        let mut guest = TestHost::new(1);
        let timer = guest.call_by(0, c::SYS_timerfd_create, &[c::CLOCK_REALTIME as u64, 0]);
        let setting = guest.put(
            0,
            &[[0; 16], [(DEFAULT_EPOCH_SECS + 100).to_le_bytes(), [0; 8]].concat().try_into().unwrap()]
                .concat(),
        );
        guest.call_by(0, c::SYS_timerfd_settime, &[timer, CANCEL, setting, 0]);
        let read = [timer, setting + 64, 8];
        assert_eq!(guest.attempt(0, c::SYS_read, &read), Answer::Blocked);
        guest.host.step_clock(10_000_000_000);
        assert_eq!(guest.go_on(0), Answer::Ended(Err(Errno::ECANCELED)));
        // The read has been cancelled once, and the timer runs on to its absolute time.
        assert_eq!(guest.attempt(0, c::SYS_read, &read), Answer::Blocked);
        guest.pass(SimDuration::from_secs(91));
        assert_eq!(guest.go_on(0), Answer::Ended(Ok(8)));
        // No read since the step: setting the timer again returns the error, and sets it.
        guest.call_by(0, c::SYS_timerfd_settime, &[timer, CANCEL, setting, 0]);
        guest.host.step_clock(-1_000_000_000_000);
        let set = guest.attempt(0, c::SYS_timerfd_settime, &[timer, CANCEL, setting, 0]);
        assert_eq!(set, Answer::Ended(Err(Errno::ECANCELED)));
        assert_eq!(guest.attempt(0, c::SYS_read, &read), Answer::Blocked);
    }

    #[test]
    fn a_program_sets_the_clock_and_its_rate() {
        const SECOND: u64 = 1_000_000_000;
        let mut guest = TestHost::new(1);
        let start = DEFAULT_EPOCH_SECS + 1_000;
        let time = guest.put(0, &[start.to_le_bytes(), [0; 8]].concat());
        guest.call_by(0, c::SYS_clock_settime, &[c::CLOCK_REALTIME as u64, time]);
        assert_eq!(guest.host.net.clock.realtime_ns() / SECOND, start);
        // A tick of 11 ms instead of 10, in addition to the experiment's drift.
        let faster = Timex { modes: 0x4000, tick: 11_000, ..Timex::default() };
        let at = guest.put(64, faster.as_bytes());
        guest.call_by(0, c::SYS_adjtimex, &[at]);
        let before = guest.host.net.clock.realtime_ns();
        guest.pass(SimDuration::from_secs(10));
        assert_eq!((guest.host.net.clock.realtime_ns() - before).div_ceil(SECOND / 10), 110);
        guest.host.set_clock_drift(-100_000_000);
        let before = guest.host.net.clock.realtime_ns();
        guest.pass(SimDuration::from_secs(10));
        assert_eq!((guest.host.net.clock.realtime_ns() - before).div_ceil(SECOND / 10), 100);
        // A time of day earlier than the host's uptime is refused.
        let early = guest.put(0, &[[1, 0, 0, 0, 0, 0, 0, 0], [0; 8]].concat());
        let set = guest.attempt(0, c::SYS_clock_settime, &[c::CLOCK_REALTIME as u64, early]);
        assert_eq!(set, Answer::Ended(Err(Errno::EINVAL)));
    }

    #[test]
    fn a_crashed_host_runs_nothing_and_starts_again() {
        let mut guest = TestHost::new(2);
        guest.attempt(0, c::SYS_pause, &[]);
        guest.host.crash(belljar_machine::CrashFiles::Kept);
        assert!(guest.host.threads.is_empty() && guest.host.processes.is_empty());
        assert_eq!((guest.host.next_event(), guest.host.scheduler.ready_count()), (None, 0));
        guest.host.advance(SimTime::from_secs(5));
        guest.host.restart();
        assert_eq!(guest.host.net.clock.monotonic_ns(), 3_600_000_000_000);
        assert_eq!(guest.host.net.clock.realtime_ns(), (DEFAULT_EPOCH_SECS + 5) * 1_000_000_000);
    }
}
