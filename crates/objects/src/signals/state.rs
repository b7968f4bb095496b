//! State of signals: per thread the mask and the signals pending for it alone, per process the dispositions and the
//! signals pending for any of its threads.

use super::timers::ProcessTimers;
use crate::ids::WaitQueueId;
use belljar_linux_abi::c;
use belljar_linux_abi::signal::{KernelSigaction, NSIG, SigInfo, SigSet, SigStack, sig_bit};
use std::collections::VecDeque;

/// The signals that nothing blocks, catches or ignores.
pub const UNBLOCKABLE: SigSet = sig_bit(c::SIGKILL) | sig_bit(c::SIGSTOP);
/// The signals whose default action is to stop the process.
pub const STOPPING: SigSet =
    sig_bit(c::SIGSTOP) | sig_bit(c::SIGTSTP) | sig_bit(c::SIGTTIN) | sig_bit(c::SIGTTOU);
/// The signals whose default action is to do nothing.
pub const IGNORED_BY_DEFAULT: SigSet =
    sig_bit(c::SIGCHLD) | sig_bit(c::SIGURG) | sig_bit(c::SIGWINCH) | sig_bit(c::SIGCONT);
/// The signals that the thread's own instructions cause; they are delivered before all others.
const SYNCHRONOUS: SigSet = sig_bit(c::SIGSEGV)
    | sig_bit(c::SIGBUS)
    | sig_bit(c::SIGILL)
    | sig_bit(c::SIGTRAP)
    | sig_bit(c::SIGFPE)
    | sig_bit(c::SIGSYS);
/// The first real-time signal: from here on each one sent is queued.
const FIRST_REAL_TIME: i32 = 32;

/// Signals that have been sent and not yet delivered.
#[derive(Clone, Debug, Default)]
pub struct PendingSignals {
    /// The set of them.
    pub set: SigSet,
    queue: VecDeque<SigInfo>,
}

impl PendingSignals {
    /// Appends a signal. A standard signal that is pending already is lost, as on Linux: false.
    pub fn push(&mut self, info: SigInfo) -> bool {
        let bit = sig_bit(info.signo);
        if info.signo < FIRST_REAL_TIME && self.set & bit != 0 {
            return false;
        }
        self.set |= bit;
        self.queue.push_back(info);
        true
    }
    /// Gives back a signal that was just taken: it is the next of its number again.
    pub fn put_back(&mut self, info: SigInfo) {
        self.set |= sig_bit(info.signo);
        self.queue.push_front(info);
    }
    /// Takes the next signal of `allowed`: those of the thread's own instructions first, then the
    /// lowest number, then the oldest.
    pub fn take(&mut self, allowed: SigSet) -> Option<SigInfo> {
        let candidates = self.set & allowed;
        let first = if candidates & SYNCHRONOUS != 0 { candidates & SYNCHRONOUS } else { candidates };
        if first == 0 {
            return None;
        }
        let signo = first.trailing_zeros() as i32 + 1;
        let at = self.queue.iter().position(|info| info.signo == signo)?;
        let info = self.queue.remove(at);
        if !self.queue.iter().any(|info| info.signo == signo) {
            self.set &= !sig_bit(signo);
        }
        info
    }
    /// Forgets all signals of `which`.
    pub fn discard(&mut self, which: SigSet) {
        if self.set & which != 0 {
            self.set &= !which;
            self.queue.retain(|info| sig_bit(info.signo) & which == 0);
        }
    }
    /// Number of queued signals.
    pub fn len(&self) -> usize {
        self.queue.len()
    }
    /// True if none is queued.
    pub fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }
}

/// A thread's signal mask, pending signals and alternate stack.
#[derive(Clone, Debug, Default)]
pub struct ThreadSignals {
    /// Blocked signals.
    pub blocked: SigSet,
    /// Pending for this thread alone.
    pub pending: PendingSignals,
    /// The mask to go back to when the call under way has ended (`rt_sigsuspend`, `ppoll`, ...);
    /// a handler's frame saves it instead of `blocked`. Set by `Host::set_temporary_mask`.
    pub saved_mask: Option<SigSet>,
    /// The blocked signals that `rt_sigtimedwait` waits for.
    pub awaited: SigSet,
    /// The alternate stack; a size of 0 means none.
    pub alternate: SigStack,
    /// True if there may be something to deliver before the thread returns to guest code
    /// (`TIF_SIGPENDING`).
    pub attention: bool,
    /// Trap number, error code and CR2 of the last CPU exception, for the frame.
    pub last_fault: (u64, u64, u64),
}

/// Job control of a process: its stops, and what `wait(2)` may still learn of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct JobControl {
    /// The signal that stopped it, while it is stopped.
    pub stopped_by: Option<i32>,
    /// The stop has not been reported by a wait.
    pub stop_unreported: bool,
    /// It was continued and that has not been reported by a wait.
    pub continue_unreported: bool,
}

/// State of signals that the threads of a process share: dispositions, pending signals, timers.
#[derive(Clone, Debug)]
#[repr(C)] // What is read often comes first: see `belljar_base::Footprint`.
pub struct ProcessSignals {
    /// `setitimer`, `timer_create`.
    pub timers: ProcessTimers,
    /// By signal number - 1.
    pub actions: [KernelSigaction; NSIG as usize],
    /// Pending for any thread that does not block them.
    pub pending: PendingSignals,
    /// Stopped or not.
    pub job: JobControl,
    /// The fatal signal that will end the process at its threads' next step.
    pub fatal: Option<SigInfo>,
    /// Notified when a signal has been sent to the process or one of its threads (`signalfd`).
    pub arrived: WaitQueueId,
}

impl ProcessSignals {
    /// Everything at its default.
    pub fn new(arrived: WaitQueueId) -> ProcessSignals {
        ProcessSignals {
            actions: [KernelSigaction::default(); NSIG as usize],
            pending: PendingSignals::default(),
            job: JobControl::default(),
            fatal: None,
            arrived,
            timers: ProcessTimers::default(),
        }
    }
    /// The dispositions of a child process: those of the parent; nothing pending, no timers.
    pub fn for_child(&self, arrived: WaitQueueId) -> ProcessSignals {
        ProcessSignals { actions: self.actions, ..ProcessSignals::new(arrived) }
    }
    /// Caught signals go back to their defaults; ignored ones stay ignored.
    pub fn reset_handlers(&mut self) {
        for action in &mut self.actions {
            let ignored = action.handler == c::SIG_IGN as u64;
            *action = KernelSigaction {
                handler: if ignored { c::SIG_IGN as u64 } else { c::SIG_DFL as u64 },
                ..KernelSigaction::default()
            };
        }
    }
    /// The disposition of a signal.
    pub fn action(&self, signal: i32) -> &KernelSigaction {
        &self.actions[(signal - 1) as usize]
    }
    /// The same to change.
    pub fn action_mut(&mut self, signal: i32) -> &mut KernelSigaction {
        &mut self.actions[(signal - 1) as usize]
    }
    /// True if the signal is thrown away: ignored explicitly or by default.
    pub fn ignores(&self, signal: i32) -> bool {
        let handler = self.action(signal).handler;
        handler == c::SIG_IGN as u64
            || (handler == c::SIG_DFL as u64 && sig_bit(signal) & IGNORED_BY_DEFAULT != 0)
    }
    /// True if a handler runs for the signal.
    pub fn catches(&self, signal: i32) -> bool {
        let handler = self.action(signal).handler;
        handler != c::SIG_IGN as u64 && handler != c::SIG_DFL as u64
    }
    /// True if its default action, which is in force, ends the process.
    pub fn is_fatal(&self, signal: i32) -> bool {
        self.action(signal).handler == c::SIG_DFL as u64
            && sig_bit(signal) & (IGNORED_BY_DEFAULT | STOPPING) == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn standard_signals_are_lost_and_real_time_ones_are_queued() {
        let mut pending = PendingSignals::default();
        for signal in [c::SIGUSR2, c::SIGUSR1, c::SIGUSR1, 40, 40, 34, c::SIGSEGV] {
            pending.push(SigInfo::kernel(signal));
        }
        let order: Vec<i32> = std::iter::from_fn(|| pending.take(SigSet::MAX)).map(|i| i.signo).collect();
        assert_eq!(order, [c::SIGSEGV, c::SIGUSR1, c::SIGUSR2, 34, 40, 40]);
        assert_eq!(pending.set, 0);
    }

    #[test]
    fn only_allowed_signals_are_taken() {
        let mut pending = PendingSignals::default();
        pending.push(SigInfo::kernel(c::SIGUSR1));
        pending.push(SigInfo::kernel(c::SIGTERM));
        assert_eq!(pending.take(!sig_bit(c::SIGUSR1)).map(|i| i.signo), Some(c::SIGTERM));
        assert!(pending.take(!sig_bit(c::SIGUSR1)).is_none());
        pending.discard(sig_bit(c::SIGUSR1));
        assert_eq!((pending.set, pending.len()), (0, 0));
    }
}
