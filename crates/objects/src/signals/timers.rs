//! Timers that send signals: `alarm`, `setitimer`, `timer_create`. CPU-time timers (`ITIMER_VIRTUAL`,
//! `ITIMER_PROF` and some of `timer_create`) count in microseconds.

use belljar_base::{Map, SimDuration, SimTime};
use belljar_linux_abi::c;
use belljar_linux_abi::signal::SigInfo;
use belljar_netstack::TimerId;
use belljar_netstack::clock::Clock;

/// Timers of a process.
#[derive(Clone, Debug, Default)]
#[repr(C)] // Frequently read fields first: see `belljar_base::Footprint`.
pub struct ProcessTimers {
    /// True if a timer or resource limit depends on CPU time.
    pub count_processor_time: bool,
    /// `ITIMER_REAL`, also set by `alarm`.
    pub real: Alarm,
    /// Expiration of `real` on the monotonic clock in nanoseconds, whose range exceeds that of simulated
    /// time: a program may set the timer 136 years ahead and read the remaining time.
    pub real_at: Option<u64>,
    /// Interval of `real` in nanoseconds; 0 for a one-shot timer.
    pub real_interval: u64,
    /// `ITIMER_VIRTUAL` and `ITIMER_PROF`.
    pub processor: [ProcessorAlarm; 2],
    /// Number of alarms that the process computed for without calls (`kernel/src/spin.rs`).
    pub computed_for: u32,
    /// Timers of `timer_create`, by id.
    pub posix: Map<i32, PosixTimer>,
    next_id: i32,
}

/// Expiration and interval of a timer.
#[derive(Clone, Copy, Debug, Default)]
pub struct Alarm {
    /// Host timer, while armed.
    pub timer: Option<TimerId>,
    /// Interval; zero for a one-shot timer.
    pub interval: SimDuration,
}

impl Alarm {
    /// Time to expiration; `None` if not armed.
    pub fn left(&self, now: SimTime) -> Option<SimDuration> {
        self.timer.map(|timer| timer.at().since(now))
    }
    /// Next expiration of a timer that fires now, and the number of expirations skipped before it.
    pub fn next_expiration(&self, clock: &Clock) -> (Option<SimTime>, u64) {
        let interval = clock.simulated(self.interval);
        let Some(fired) = self.timer.filter(|_| !interval.is_zero()) else { return (None, 0) };
        let skipped = clock.now().since(fired.at()).as_picos() / interval.as_picos();
        (Some(fired.at() + interval.saturating_mul(skipped + 1)), skipped)
    }
}

/// Notification of a POSIX timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimerNotice {
    /// `SIGEV_NONE`.
    None,
    /// `SIGEV_SIGNAL`: this signal, sent to the process.
    Signal(i32),
    /// `SIGEV_THREAD_ID`: this signal, sent to the thread with this id.
    Thread(i32, i32),
}

/// POSIX timer, `timer_create(2)`.
#[derive(Clone, Copy, Debug)]
pub struct PosixTimer {
    /// Clock of absolute times, `CLOCK_*`.
    pub clock: i32,
    /// True if it was set to an absolute time.
    pub absolute: bool,
    /// Notification.
    pub notice: TimerNotice,
    /// `sigev_value`.
    pub value: u64,
    /// Expiration on a clock of time.
    pub alarm: Alarm,
    /// CPU-time clock, if it uses one.
    pub processor: Option<ProcessorClock>,
    /// Expiration on the CPU-time clock.
    pub processor_alarm: ProcessorAlarm,
    /// True if the signal is queued and not taken.
    pub pending: bool,
    /// Expirations since the signal was queued.
    pub missed: u64,
    /// Overrun count of the signal delivered last, `timer_getoverrun`.
    pub overrun: i32,
}

impl ProcessTimers {
    /// Host timer of the first alarm in simulated time.
    pub fn next_alarm(&self) -> Option<TimerId> {
        let posix = self.posix.values().filter_map(|timer| timer.alarm.timer);
        self.real.timer.into_iter().chain(posix).min()
    }
    /// Text of `/proc/<pid>/timers`: the timers of `timer_create`.
    pub fn text(&self, pid: i32) -> String {
        let timer = |(id, timer): (&i32, &PosixTimer)| {
            let (signal, how, target) = match timer.notice {
                TimerNotice::None => (0, "none/pid", pid),
                TimerNotice::Signal(signal) => (signal, "signal/pid", pid),
                TimerNotice::Thread(signal, tid) => (signal, "signal/tid", tid),
            };
            let (value, clock) = (timer.value, timer.clock);
            format!("ID: {id}\nsignal: {signal}/{value:016x}\nnotify: {how}.{target}\nClockID: {clock}\n")
        };
        self.posix.iter().map(timer).collect()
    }
    /// Adds a disarmed timer of `timer_create`; returns its id.
    pub fn create(
        &mut self,
        clock: i32,
        processor: Option<ProcessorClock>,
        notice: Option<TimerNotice>,
        value: Option<u64>,
    ) -> i32 {
        let id = self.next_id;
        self.next_id += 1;
        let timer = PosixTimer {
            clock,
            absolute: false,
            notice: notice.unwrap_or(TimerNotice::Signal(c::SIGALRM)),
            value: value.unwrap_or(id as u64),
            alarm: Alarm::default(),
            processor,
            processor_alarm: ProcessorAlarm::default(),
            pending: false,
            missed: 0,
            overrun: 0,
        };
        self.posix.insert(id, timer);
        id
    }
    /// Fills in the overrun count of a timer signal that leaves the queue.
    pub fn signal_taken(&mut self, info: &mut SigInfo) {
        if info.code != c::SI_TIMER {
            return;
        }
        let id = info.fields[0] as i32;
        let Some(timer) = self.posix.get_mut(&id) else { return };
        timer.overrun = i32::try_from(std::mem::take(&mut timer.missed)).unwrap_or(i32::MAX);
        timer.pending = false;
        *info = SigInfo::timer(info.signo, id, timer.overrun, timer.value);
    }
}

/// CPU-time clock of a POSIX timer. Both kinds refer to the process that created the timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProcessorClock {
    /// CPU time of all threads.
    Process,
    /// CPU time of the thread with this id.
    Thread(i32),
}

/// Expiration and interval of a CPU-time timer, in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProcessorAlarm {
    /// Expiration; 0 if disarmed.
    pub at: u64,
    /// Interval; 0 for a one-shot timer.
    pub interval: u64,
}

impl ProcessorAlarm {
    /// Timer that expires when the clock, now at `now` microseconds, has advanced by `left` nanoseconds, and
    /// then every `interval` nanoseconds.
    pub fn after(now: u64, left: u64, interval: u64) -> ProcessorAlarm {
        let at = if left == 0 { 0 } else { now.saturating_add(left.div_ceil(1_000)) };
        ProcessorAlarm { at, interval: interval.div_ceil(1_000) }
    }
    /// Nanoseconds to expiration; 0 if disarmed.
    pub fn left(&self, now: u64) -> u64 {
        if self.at == 0 { 0 } else { self.at.saturating_sub(now).max(1) * 1_000 }
    }
    /// If the timer has expired, rearms it and returns the number of expirations missed.
    pub fn expire(&mut self, now: u64) -> Option<u64> {
        if self.at == 0 || now < self.at {
            return None;
        }
        if self.interval == 0 {
            self.at = 0;
            return Some(0);
        }
        let skipped = (now - self.at) / self.interval;
        self.at += self.interval * (skipped + 1);
        Some(skipped)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_alarm_counts_what_it_passes_over() {
        let mut alarm = ProcessorAlarm::after(10, 5_000, 3_000);
        assert_eq!((alarm.left(10), alarm.expire(14)), (5_000, None));
        assert_eq!((alarm.expire(15), alarm.left(15)), (Some(0), 3_000));
        assert_eq!((alarm.expire(25), alarm.at), (Some(2), 27));
        let mut once = ProcessorAlarm::after(0, 1, 0);
        assert_eq!((once.expire(1), once.expire(2), once.left(2)), (Some(0), None, 0));
    }
}
