//! Timers of processor time: `ITIMER_VIRTUAL`, `ITIMER_PROF`, `RLIMIT_CPU`, and timers of `timer_create` on
//! the clock of a process or thread. Processor time is counted in system calls, so these timers are checked
//! whenever a thread of a process that has one makes a call.

use crate::host::Host;
use crate::ids::ProcessKey;
use belljar_linux_abi::c;
use belljar_linux_abi::signal::SigInfo;
pub use belljar_objects::signals::{ProcessorAlarm, ProcessorClock};

/// User part of a process's processor time as `getrusage(2)` shows it: half of its calls.
pub(crate) fn user_part(calls: u64) -> u64 {
    calls - calls / 2
}

impl Host {
    /// Fires the processor timers of a process that are due.
    #[cold]
    pub(crate) fn fire_processor_timers(&mut self, process: ProcessKey) {
        let calls = self.threads.calls_of(&self.processes, process);
        let counts = [user_part(calls), calls];
        for (which, signal) in [c::SIGVTALRM, c::SIGPROF].into_iter().enumerate() {
            if self.process(process).signals.timers.processor[which].expire(counts[which]).is_some() {
                self.send_signal(process, SigInfo::kernel(signal));
            }
        }
        let posix = &self.processes[process.0].signals.timers.posix;
        let clocks: Vec<_> = posix.iter().filter_map(|(id, timer)| Some((*id, timer.processor?))).collect();
        for (id, clock) in clocks {
            let Some(count) = self.threads.processor_count(&self.processes, process, clock) else {
                continue;
            };
            let timer = self.process(process).signals.timers.posix.get_mut(&id);
            if let Some(skipped) = timer.and_then(|timer| timer.processor_alarm.expire(count)) {
                self.posix_timer_fires(process, id, skipped);
            }
        }
        self.enforce_processor_limit(process, calls);
        self.processes.processor_timers_changed(process);
    }

    /// `RLIMIT_CPU`: `SIGXCPU` at the soft limit and each second after it, `SIGKILL` at the hard limit.
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
