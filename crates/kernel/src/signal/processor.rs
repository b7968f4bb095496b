//! Timers of processor time: `ITIMER_VIRTUAL`, `ITIMER_PROF`, `RLIMIT_CPU`, and those of `timer_create` on the clock
//! of a process or thread. They are looked at whenever a thread of a process that has one makes a call: processor
//! time does not pass otherwise.

use crate::host::Host;
use crate::ids::ProcessKey;
use belljar_linux_abi::c;
use belljar_linux_abi::signal::SigInfo;

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

/// Half of a process's processor time counts as spent in its own code: what `getrusage(2)` shows.
pub(crate) fn user_part(calls: u64) -> u64 {
    calls - calls / 2
}

impl Host {
    /// Notes whether a process has timers of processor time, after one has been set or cleared.
    pub(crate) fn processor_timers_changed(&mut self, process: ProcessKey) {
        let limited = self.processes[process.0].rlimits[c::RLIMIT_CPU as usize].soft != u64::MAX;
        let timers = &mut self.process(process).signals.timers;
        timers.count_processor_time = limited
            || timers.processor.iter().any(|alarm| alarm.at != 0)
            || timers.posix.values().any(|timer| timer.processor_alarm.at != 0);
    }

    /// The count that a timer of `clock` waits on; `None` if its thread has ended.
    pub(crate) fn processor_count(&self, process: ProcessKey, clock: ProcessorClock) -> Option<u64> {
        match clock {
            ProcessorClock::Process => Some(self.calls_of(process)),
            ProcessorClock::Thread(tid) => self.tids.get(&tid).map(|thread| self.threads[thread.0].calls),
        }
    }

    /// Fires what is due of a process's timers of processor time.
    #[cold]
    pub(crate) fn fire_processor_timers(&mut self, process: ProcessKey) {
        let calls = self.calls_of(process);
        let counts = [user_part(calls), calls];
        for (which, signal) in [c::SIGVTALRM, c::SIGPROF].into_iter().enumerate() {
            if self.process(process).signals.timers.processor[which].expire(counts[which]).is_some() {
                self.send_signal(process, SigInfo::kernel(signal));
            }
        }
        let posix = &self.processes[process.0].signals.timers.posix;
        let clocks: Vec<_> = posix.iter().filter_map(|(id, timer)| Some((*id, timer.processor?))).collect();
        for (id, clock) in clocks {
            let Some(count) = self.processor_count(process, clock) else { continue };
            let timer = self.process(process).signals.timers.posix.get_mut(&id);
            if let Some(skipped) = timer.and_then(|timer| timer.processor_alarm.expire(count)) {
                self.posix_timer_fires(process, id, skipped);
            }
        }
        self.enforce_processor_limit(process, calls);
        self.processor_timers_changed(process);
    }

    /// `RLIMIT_CPU`: `SIGXCPU` at the soft limit and each second from there on, `SIGKILL` at the hard one.
    fn enforce_processor_limit(&mut self, process: ProcessKey, calls: u64) {
        const SECOND: u64 = 1_000_000;
        let limit = self.processes[process.0].rlimits[c::RLIMIT_CPU as usize];
        if calls >= limit.hard.saturating_mul(SECOND) {
            self.kill_process(process, c::SIGKILL);
        } else if calls >= limit.soft.saturating_mul(SECOND) {
            self.send_signal(process, SigInfo::kernel(c::SIGXCPU));
            self.process(process).rlimits[c::RLIMIT_CPU as usize].soft += 1;
        }
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
