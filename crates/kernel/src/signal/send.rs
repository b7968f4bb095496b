//! Sending signals: discarding, queueing and selection of the thread that takes the signal.

use crate::host::Host;
use crate::ids::{ProcessKey, ThreadKey};
use crate::outcome::Wake;
use crate::suspension;
use crate::thread::ThreadState;
use crate::upgrade;
use belljar_linux_abi::c;
use belljar_linux_abi::signal::{SigInfo, sig_bit};
use belljar_objects::signals::STOPPING;

impl Host {
    /// Sends a signal to a process: any thread that does not block it takes it. False if the signal was
    /// discarded.
    pub(crate) fn send_signal(&mut self, process: ProcessKey, info: SigInfo) -> bool {
        self.post_signal(process, None, info)
    }

    /// Sends a signal to one thread. False if the signal was discarded.
    pub(crate) fn send_signal_to_thread(&mut self, thread: ThreadKey, info: SigInfo) -> bool {
        self.post_signal(self.threads[thread.0].process, Some(thread), info)
    }

    fn post_signal(&mut self, process: ProcessKey, thread: Option<ThreadKey>, info: SigInfo) -> bool {
        let signal = info.signo;
        if self.processes[process.0].ended.is_some() {
            return false;
        }
        let info = self.processes.info_for(process, info);
        self.prepare_stop_or_continue(process, signal);
        let signals = &self.processes[process.0].signals;
        let receiver = thread.or_else(|| self.processes[process.0].threads.first().copied());
        let blocked = receiver.is_some_and(|t| {
            let t = &self.threads[t.0].signals;
            (t.blocked | t.awaited) & sig_bit(signal) != 0
        });
        let traced = self.threads.is_traced(&self.processes, process);
        let ignored = signals.ignores(signal) || self.processes.spares_init(process, &info);
        if ignored && !blocked && !traced {
            return false;
        }
        let taker = match thread {
            Some(thread) => Some(thread).filter(|t| self.threads.wants_signal(&self.processes, *t, signal)),
            None => self.processes[process.0]
                .threads
                .iter()
                .copied()
                .find(|t| self.threads.wants_signal(&self.processes, *t, signal)),
        };
        let stops = sig_bit(signal) & STOPPING != 0
            && !traced
            && signals.action(signal).handler == c::SIG_DFL as u64
            && taker.is_some_and(|t| self.threads[t.0].signals.awaited & sig_bit(signal) == 0);
        if stops {
            // Threads blocked in a call stay blocked: a stop does not interrupt calls.
            self.stop_process(process, signal);
            return false;
        }
        let queued = match thread {
            Some(thread) => self.thread(thread).signals.pending.push(info),
            None => self.process(process).signals.pending.push(info),
        };
        // A signal that is already pending causes no further notification.
        if queued {
            self.notify(self.processes[process.0].signals.arrived);
            if let Some(taker) = taker {
                self.wake_for_signal(taker, info);
            }
        }
        queued
    }

    fn wake_for_signal(&mut self, thread: ThreadKey, info: SigInfo) {
        let process = self.threads[thread.0].process;
        if self.threads[thread.0].signals.awaited & sig_bit(info.signo) != 0 {
            self.continue_call(thread, Wake::Notified);
            return;
        }
        let reported = info.signo != c::SIGKILL
            && (self.is_debugged(process) || self.threads.is_traced(&self.processes, process));
        if self.processes[process.0].signals.is_fatal(info.signo) && !reported {
            self.condemn(process, info);
        }
        self.thread(thread).signals.attention = true;
        self.interrupt(thread);
    }

    /// Marks the process to be killed by a signal as soon as one of its threads runs; stopped threads are
    /// resumed for it.
    pub(crate) fn condemn(&mut self, process: ProcessKey, info: SigInfo) {
        if info.signo == c::SIGKILL {
            suspension::killed(self, self.processes[process.0].pid);
        }
        let target = self.process(process);
        if target.signals.fatal.is_some() {
            return;
        }
        target.signals.fatal = Some(info);
        target.signals.job.stopped_by = None;
        for thread in target.threads.clone() {
            self.thread(thread).signals.attention = true;
            if matches!(self.threads[thread.0].state, ThreadState::Stopped | ThreadState::Traced) {
                self.unpark(thread);
            }
        }
    }

    /// Wakes threads that can take the signals pending for their process, after the thread selected for them
    /// blocked them or ended.
    pub(crate) fn retarget_pending(&mut self, process: ProcessKey) {
        let pending = self.processes[process.0].signals.pending.set;
        if pending == 0 {
            return;
        }
        for thread in self.processes[process.0].threads.clone() {
            if pending & !self.threads[thread.0].signals.blocked != 0 {
                self.thread(thread).signals.attention = true;
                self.interrupt(thread);
            }
        }
    }

    /// Sends the shutdown signal to the experiment's process with index `spec`, as from pid 1.
    #[cold]
    pub(crate) fn shutdown_process(&mut self, spec: usize) {
        let spec = upgrade::current(self, spec);
        self.signal_program(spec, self.config.processes[spec].shutdown_signal);
    }

    /// Sends a signal to the experiment's process with index `spec`, if it runs.
    pub fn signal_program(&mut self, spec: usize, signal: i32) {
        let process = self.processes.iter().find(|(_, p)| p.spec == Some(spec) && p.ended.is_none());
        if let Some((key, _)) = process {
            self.send_signal(ProcessKey(key), SigInfo::user(signal, c::SI_USER, 1, 0));
        }
    }
}
