//! Timers that send signals: `alarm`, `setitimer`, `timer_create`. Those of processor time, `ITIMER_VIRTUAL`, `ITIMER_PROF` and
//! some of `timer_create`, count it in microseconds.

use belljar_base::{Map, SimDuration, SimTime};
use belljar_linux_abi::c;
use belljar_linux_abi::signal::SigInfo;
use belljar_netstack::TimerId;

/// The timers of a process.
#[derive(Clone, Debug, Default)]
#[repr(C)] // What is read often comes first: see `belljar_base::Footprint`.
pub struct ProcessTimers {
    /// True if some timer or limit waits for processor time.
    pub count_processor_time: bool,
    /// `ITIMER_REAL`, which `alarm` sets too.
    pub real: Alarm,
    /// When it fires by the monotonic clock, in nanoseconds, which reach further than simulated time: a program may set it
    /// for 136 years and ask what is left.
    pub real_at: Option<u64>,
    /// Its interval in nanoseconds; 0 for one that fires once.
    pub real_interval: u64,
    /// `ITIMER_VIRTUAL` and `ITIMER_PROF`.
    pub processor: [ProcessorAlarm; 2],
    /// By the number that `timer_create` gave.
    pub posix: Map<i32, PosixTimer>,
    next_id: i32,
}

/// When a timer fires, and how often.
#[derive(Clone, Copy, Debug, Default)]
pub struct Alarm {
    /// The timer of its host, while it is set.
    pub timer: Option<TimerId>,
    /// Zero for a timer that fires once.
    pub interval: SimDuration,
}

impl Alarm {
    /// Time until it fires; `None` if it is not set.
    pub fn left(&self, now: SimTime) -> Option<SimDuration> {
        self.timer.map(|timer| timer.at().since(now))
    }
}

/// Notification by a timer of `timer_create`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimerNotice {
    /// `SIGEV_NONE`.
    None,
    /// `SIGEV_SIGNAL`: this signal to the process.
    Signal(i32),
    /// `SIGEV_THREAD_ID`: this signal to the thread with this number.
    Thread(i32, i32),
}

/// A timer of `timer_create(2)`.
#[derive(Clone, Copy, Debug)]
pub struct PosixTimer {
    /// The clock of absolute times.
    pub clock: i32,
    /// True if it was set to a point of its clock.
    pub absolute: bool,
    /// Its notification.
    pub notice: TimerNotice,
    /// `sigev_value`.
    pub value: u64,
    /// When it fires.
    pub alarm: Alarm,
    /// The processor time that its clock counts, if it does.
    pub processor: Option<ProcessorClock>,
    /// When it fires by that clock.
    pub processor_alarm: ProcessorAlarm,
    /// Its signal has been sent and not taken yet.
    pub pending: bool,
    /// Expirations since that signal was sent.
    pub missed: u64,
    /// Expirations that the signal delivered last stood for, beyond its own.
    pub overrun: i32,
}

impl ProcessTimers {
    /// Adds a timer of `timer_create`, not set; gives its number.
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
    /// A timer's signal leaves the queue: it says how many expirations it stands for.
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

/// The processor time that a timer of `timer_create` counts. Both kinds belong to the process that made the timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProcessorClock {
    /// The time of all its threads.
    Process,
    /// The time of the thread with this number.
    Thread(i32),
}

/// When a timer of processor time fires, and how often, in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProcessorAlarm {
    /// At which count; 0: never.
    pub at: u64,
    /// 0 for a timer that fires once.
    pub interval: u64,
}

impl ProcessorAlarm {
    /// One that fires when `left` nanoseconds have been added to the count `now`, and then every `interval`
    /// nanoseconds.
    pub fn after(now: u64, left: u64, interval: u64) -> ProcessorAlarm {
        let at = if left == 0 { 0 } else { now.saturating_add(left.div_ceil(1_000)) };
        ProcessorAlarm { at, interval: interval.div_ceil(1_000) }
    }
    /// Nanoseconds until it fires; 0 if it does not.
    pub fn left(&self, now: u64) -> u64 {
        if self.at == 0 { 0 } else { self.at.saturating_sub(now).max(1) * 1_000 }
    }
    /// If it is due, sets it to when it fires next and says how many expirations have been passed over.
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
