//! Timers that send signals: `alarm`, `setitimer`, `timer_create`.

use crate::host::Host;
use crate::ids::ProcessKey;
use crate::timer::TimerAction;
use belljar_base::{SimDuration, SimTime};
use belljar_linux_abi::c;
use belljar_linux_abi::signal::SigInfo;
pub use belljar_objects::signals::{Alarm, PosixTimer, TimerNotice};
use belljar_tasks::clock_shift::ClockShift;

/// Timer number of `ITIMER_REAL` in [`TimerAction::PosixTimer`].
const REAL: u32 = u32::MAX;

impl Host {
    /// Sets a timer of `timer_create`, or disarms it if `at` is `None`.
    pub(crate) fn set_posix_timer(
        &mut self,
        process: ProcessKey,
        id: i32,
        at: Option<SimTime>,
        interval: SimDuration,
    ) {
        let Some(timer) = self.processes[process.0].signals.timers.posix.get(&id) else { return };
        let alarm = self.rearm_alarm(timer.alarm, at, interval, TimerAction::PosixTimer(process, id as u32));
        if let Some(timer) = self.process(process).signals.timers.posix.get_mut(&id) {
            (timer.alarm, timer.missed, timer.overrun) = (alarm, 0, 0);
        }
    }

    /// Sets `ITIMER_REAL` to fire in `value_ns`, and then every `interval_ns` unless that is 0; a value of 0
    /// disarms it.
    pub(crate) fn set_real_timer(&mut self, process: ProcessKey, value_ns: u64, interval_ns: u64) {
        let clock = &self.net.clock;
        let at = (value_ns > 0).then(|| clock.after(SimDuration::from_nanos(value_ns)));
        let real_at = at.map(|_| clock.monotonic_ns().saturating_add(value_ns));
        self.arm_real_timer(process, at, SimDuration::from_nanos(interval_ns));
        let timers = &mut self.process(process).signals.timers;
        (timers.real_at, timers.real_interval) = (real_at, interval_ns);
    }
    fn arm_real_timer(&mut self, process: ProcessKey, at: Option<SimTime>, interval: SimDuration) {
        let old = self.processes[process.0].signals.timers.real;
        let at = at.filter(|at| *at < SimTime::MAX);
        let alarm = self.rearm_alarm(old, at, interval, TimerAction::PosixTimer(process, REAL));
        self.process(process).signals.timers.real = alarm;
    }

    /// Nanoseconds until `ITIMER_REAL` fires; `None` if it is not armed.
    pub(crate) fn real_timer_left(&self, process: ProcessKey) -> Option<u64> {
        let at = self.processes[process.0].signals.timers.real_at?;
        Some(at.saturating_sub(self.net.clock.monotonic_ns()).max(1_000))
    }

    /// Deletes a timer of `timer_create`; false if there is no timer with this id.
    pub(crate) fn delete_posix_timer(&mut self, process: ProcessKey, id: i32) -> bool {
        self.set_posix_timer(process, id, None, SimDuration::ZERO);
        self.process(process).signals.timers.posix.remove(&id).is_some()
    }

    /// Deletes all timers of `timer_create`.
    pub(crate) fn delete_posix_timers(&mut self, process: ProcessKey) {
        let ids: Vec<i32> = self.processes[process.0].signals.timers.posix.keys().copied().collect();
        for id in ids {
            self.delete_posix_timer(process, id);
        }
    }

    /// Cancels all timers of a process.
    pub(crate) fn cancel_process_timers(&mut self, process: ProcessKey) {
        self.delete_posix_timers(process);
        self.set_real_timer(process, 0, 0);
    }

    /// Adjusts the timers of `timer_create` to a clock change.
    pub(crate) fn shift_posix_timers(&mut self, process: ProcessKey, shift: &ClockShift) {
        let timers = self.processes[process.0].signals.timers.posix.clone();
        for (id, timer) in timers {
            let Some(at) = timer.alarm.timer.filter(|_| shift.concerns(timer.clock, timer.absolute)) else {
                continue;
            };
            let action = TimerAction::PosixTimer(process, id as u32);
            let alarm = self.rearm_alarm(timer.alarm, Some(shift.of(at.at())), timer.alarm.interval, action);
            if let Some(timer) = self.process(process).signals.timers.posix.get_mut(&id) {
                timer.alarm = alarm;
            }
        }
    }

    /// Adjusts the timer of `setitimer` and `alarm` to a clock change.
    pub(crate) fn shift_real_timer(&mut self, process: ProcessKey, shift: &ClockShift) {
        let real = self.processes[process.0].signals.timers.real;
        if let Some(at) = real.timer.filter(|_| shift.concerns(c::CLOCK_MONOTONIC, false)) {
            let action = TimerAction::PosixTimer(process, REAL);
            let real = self.rearm_alarm(real, Some(shift.of(at.at())), real.interval, action);
            self.process(process).signals.timers.real = real;
        }
    }

    fn rearm_alarm(
        &mut self,
        old: Alarm,
        at: Option<SimTime>,
        interval: SimDuration,
        action: TimerAction,
    ) -> Alarm {
        if let Some(timer) = old.timer {
            self.timers.cancel(timer);
        }
        Alarm { timer: at.map(|at| self.set_timer(at, action)), interval }
    }

    /// Handles the expiration of a timer of `timer_create`, `setitimer` or `alarm`.
    pub(crate) fn posix_timer_expired(&mut self, process: ProcessKey, timer: u32) {
        if timer == REAL {
            let alarm = self.processes[process.0].signals.timers.real;
            let (next, skipped) = alarm.next_expiration(&self.net.clock);
            self.arm_real_timer(process, next, alarm.interval);
            let timers = &mut self.process(process).signals.timers;
            let passed = timers.real_interval.saturating_mul(skipped + 1);
            timers.real_at = timers.real_at.filter(|_| next.is_some()).map(|at| at.saturating_add(passed));
            self.send_signal(process, SigInfo::kernel(c::SIGALRM));
            return;
        }
        let id = timer as i32;
        let Some(posix) = self.processes[process.0].signals.timers.posix.get(&id).copied() else { return };
        let (next, skipped) = posix.alarm.next_expiration(&self.net.clock);
        let alarm = self.rearm_alarm(
            posix.alarm,
            next,
            posix.alarm.interval,
            TimerAction::PosixTimer(process, timer),
        );
        if let Some(posix) = self.process(process).signals.timers.posix.get_mut(&id) {
            posix.alarm = alarm;
        }
        self.posix_timer_fires(process, id, skipped);
    }

    /// Fires a timer of `timer_create` that was late for `skipped` further expirations.
    pub(crate) fn posix_timer_fires(&mut self, process: ProcessKey, id: i32, skipped: u64) {
        let Some(posix) = self.processes[process.0].signals.timers.posix.get(&id).copied() else { return };
        let sent = !posix.pending && self.send_timer_signal(process, id, &posix);
        if let Some(posix) = self.process(process).signals.timers.posix.get_mut(&id) {
            posix.missed += skipped + u64::from(posix.pending);
            posix.pending |= sent;
        }
    }

    fn send_timer_signal(&mut self, process: ProcessKey, id: i32, timer: &PosixTimer) -> bool {
        match timer.notice {
            TimerNotice::None => false,
            TimerNotice::Signal(signal) => {
                self.send_signal(process, SigInfo::timer(signal, id, 0, timer.value))
            }
            TimerNotice::Thread(signal, tid) => {
                let Some(thread) = self.threads.by_tid.get(&tid).copied() else { return false };
                self.send_signal_to_thread(thread, SigInfo::timer(signal, id, 0, timer.value))
            }
        }
    }
}
