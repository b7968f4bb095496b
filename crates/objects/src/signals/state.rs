//! Signal state: per thread the mask and the thread-directed pending signals, per process the dispositions
//! and the process-directed pending signals.

use super::timers::ProcessTimers;
use crate::ids::WaitQueueId;
use belljar_linux_abi::c;
use belljar_linux_abi::signal::{KernelSigaction, NSIG, SigInfo, SigSet, SigStack, sig_bit};
use std::collections::VecDeque;

/// Signals that cannot be blocked, caught or ignored.
pub const UNBLOCKABLE: SigSet = sig_bit(c::SIGKILL) | sig_bit(c::SIGSTOP);
/// Signals whose default action stops the process.
pub const STOPPING: SigSet =
    sig_bit(c::SIGSTOP) | sig_bit(c::SIGTSTP) | sig_bit(c::SIGTTIN) | sig_bit(c::SIGTTOU);
/// Signals whose default action is to be ignored.
pub const IGNORED_BY_DEFAULT: SigSet =
    sig_bit(c::SIGCHLD) | sig_bit(c::SIGURG) | sig_bit(c::SIGWINCH) | sig_bit(c::SIGCONT);
/// Synchronous signals, caused by an instruction of the thread; they are delivered first.
const SYNCHRONOUS: SigSet = sig_bit(c::SIGSEGV)
    | sig_bit(c::SIGBUS)
    | sig_bit(c::SIGILL)
    | sig_bit(c::SIGTRAP)
    | sig_bit(c::SIGFPE)
    | sig_bit(c::SIGSYS);
/// First real-time signal; from here on, every instance is queued.
const FIRST_REAL_TIME: i32 = 32;

/// Pending signals.
#[derive(Clone, Debug, Default)]
pub struct PendingSignals {
    /// Set of pending signals.
    pub set: SigSet,
    queue: VecDeque<SigInfo>,
}

impl PendingSignals {
    /// Queues a signal. False if a standard signal is pending already and the new instance is dropped, as in
    /// Linux.
    pub fn push(&mut self, info: SigInfo) -> bool {
        let bit = sig_bit(info.signo);
        if info.signo < FIRST_REAL_TIME && self.set & bit != 0 {
            return false;
        }
        self.set |= bit;
        self.queue.push_back(info);
        true
    }
    /// Requeues a signal just taken as the first of its number.
    pub fn put_back(&mut self, info: SigInfo) {
        self.set |= sig_bit(info.signo);
        self.queue.push_front(info);
    }
    /// Takes the next signal in `allowed`: synchronous ones first, then the lowest number, then the oldest.
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
    /// Discards the pending signals in `which`.
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
    /// True if no signal is queued.
    pub fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }
}

/// Signal mask, pending signals and alternate stack of a thread.
#[derive(Clone, Debug, Default)]
pub struct ThreadSignals {
    /// Blocked signals.
    pub blocked: SigSet,
    /// Thread-directed pending signals.
    pub pending: PendingSignals,
    /// Mask to restore when the current call has ended (`rt_sigsuspend`, `ppoll`, ...); a signal frame saves
    /// it instead of `blocked`. Set by `Host::set_temporary_mask`.
    pub saved_mask: Option<SigSet>,
    /// Blocked signals for which `rt_sigtimedwait` waits.
    pub awaited: SigSet,
    /// Alternate stack; size 0 means none.
    pub alternate: SigStack,
    /// True if signals must be checked before the thread returns to guest code (`TIF_SIGPENDING`).
    pub attention: bool,
    /// Trap number, error code and CR2 of the last CPU exception, for the frame.
    pub last_fault: (u64, u64, u64),
}

/// Job control state of a process: stops, and events that `wait(2)` has not reported.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct JobControl {
    /// Signal that stopped the process, while it is stopped.
    pub stopped_by: Option<i32>,
    /// True if a wait has not reported the stop.
    pub stop_unreported: bool,
    /// True if the process was continued and a wait has not reported it.
    pub continue_unreported: bool,
}

/// Signal state shared by the threads of a process: dispositions, pending signals, timers.
#[derive(Clone, Debug)]
#[repr(C)] // Frequently read fields first: see `belljar_base::Footprint`.
pub struct ProcessSignals {
    /// Timers of `setitimer` and `timer_create`.
    pub timers: ProcessTimers,
    /// Dispositions, indexed by signal number - 1.
    pub actions: [KernelSigaction; NSIG as usize],
    /// Process-directed pending signals.
    pub pending: PendingSignals,
    /// Job control state.
    pub job: JobControl,
    /// Fatal signal that ends the process when its threads next run.
    pub fatal: Option<SigInfo>,
    /// Wait queue, notified when a signal is sent to the process or one of its threads (`signalfd`).
    pub arrived: WaitQueueId,
}

impl ProcessSignals {
    /// Creates the default state.
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
    /// State of a child process: the parent's dispositions, no pending signals or timers.
    pub fn for_child(&self, arrived: WaitQueueId) -> ProcessSignals {
        ProcessSignals { actions: self.actions, ..ProcessSignals::new(arrived) }
    }
    /// Resets caught signals to their default; ignored ones stay ignored.
    pub fn reset_handlers(&mut self) {
        for action in &mut self.actions {
            let ignored = action.handler == c::SIG_IGN as u64;
            *action = KernelSigaction {
                handler: if ignored { c::SIG_IGN as u64 } else { c::SIG_DFL as u64 },
                ..KernelSigaction::default()
            };
        }
    }
    /// Disposition of a signal.
    pub fn action(&self, signal: i32) -> &KernelSigaction {
        &self.actions[(signal - 1) as usize]
    }
    /// Mutable disposition of a signal.
    pub fn action_mut(&mut self, signal: i32) -> &mut KernelSigaction {
        &mut self.actions[(signal - 1) as usize]
    }
    /// True if the signal is ignored, explicitly or by default.
    pub fn ignores(&self, signal: i32) -> bool {
        let handler = self.action(signal).handler;
        handler == c::SIG_IGN as u64
            || (handler == c::SIG_DFL as u64 && sig_bit(signal) & IGNORED_BY_DEFAULT != 0)
    }
    /// True if the signal has a handler.
    pub fn catches(&self, signal: i32) -> bool {
        let handler = self.action(signal).handler;
        handler != c::SIG_IGN as u64 && handler != c::SIG_DFL as u64
    }
    /// True if the default action is in force and ends the process.
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
