//! Delivery of signals before a thread returns to guest code.

use crate::host::Host;
use crate::ids::ThreadKey;
use crate::outcome::{CallState, IfInterrupted, done};
use crate::process::WaitStatus;
use crate::run::interrupted_result;
use crate::thread::ThreadState;
use belljar_linux_abi::signal::{KernelSigaction, SigInfo, sig_bit};
use belljar_linux_abi::{Errno, c};
use belljar_objects::signals::STOPPING;

/// Next step of a thread after its signals have been checked.
#[derive(Debug)]
pub(crate) enum Delivery {
    /// The thread returns to guest code, possibly into a handler.
    ToGuest,
    /// No handler ran: the interrupted call continues from this state.
    CallGoesOn(CallState),
    /// The thread is stopped; its interrupted call is kept until it is continued.
    Parked(Option<(IfInterrupted, CallState)>),
    /// The debugger holds the thread; its interrupted call is kept.
    Held(Option<(IfInterrupted, CallState)>),
    /// The thread has ended.
    Gone,
}

impl Host {
    /// Ends or parks the thread if its process has a fatal signal or is stopped; `None` if it may run.
    #[inline(never)]
    pub(crate) fn end_or_park(&mut self, thread: ThreadKey) -> Option<Delivery> {
        let process = self.threads[thread.0].process;
        let signals = &self.processes[process.0].signals;
        if let Some(info) = signals.fatal {
            self.warn_of_fault(thread, &info);
            self.end_process(process, WaitStatus::Signaled(info.signo));
            return Some(Delivery::Gone);
        }
        if let Some(signal) = signals.job.stopped_by {
            if self.threads[thread.0].trace.is_none() {
                self.thread(thread).state = ThreadState::Stopped;
            } else if self.trace_group_stop(thread, signal) {
                return None;
            }
            return Some(Delivery::Parked(None));
        }
        None
    }

    /// Delivers all deliverable signals. `interrupted` is the call whose wait a signal ended: its result is
    /// settled before the frame of the first handler is built.
    #[inline(never)]
    pub(crate) fn deliver_signals(
        &mut self,
        thread: ThreadKey,
        mut interrupted: Option<(IfInterrupted, CallState)>,
    ) -> Delivery {
        let process = self.threads[thread.0].process;
        loop {
            match self.end_or_park(thread) {
                Some(Delivery::Parked(_)) => return Delivery::Parked(interrupted),
                Some(ended) => return ended,
                None => {}
            }
            let allowed = !self.threads[thread.0].signals.blocked;
            let own = self.thread(thread).signals.pending.take(allowed);
            let Some(mut info) = own.or_else(|| self.process(process).signals.pending.take(allowed)) else {
                break;
            };
            if !self.debuggers.is_empty() && self.debug_signal(thread, &info) {
                return Delivery::Held(interrupted);
            }
            if self.threads[thread.0].trace.is_some() && self.trace_signal(thread, &info) {
                return Delivery::Parked(interrupted);
            }
            self.process(process).signals.timers.signal_taken(&mut info);
            self.strace_signal(thread, info.signo);
            let signals = &self.processes[process.0].signals;
            if signals.ignores(info.signo) || self.processes.spares_init(process, &info) {
                continue;
            }
            if !signals.catches(info.signo) {
                if sig_bit(info.signo) & STOPPING != 0 {
                    self.stop_process(process, info.signo);
                } else {
                    self.condemn(process, info);
                }
                continue;
            }
            let action = *signals.action(info.signo);
            if let Some((how, state)) = interrupted.take() {
                self.settle_interrupted(thread, how, &state, action.flags & c::SA_RESTART as u64 != 0);
            }
            self.run_handler(thread, &action, &info);
        }
        self.thread(thread).signals.attention = false;
        match interrupted {
            Some((IfInterrupted::Value(value), _)) => {
                self.machine.regs_mut(self.threads[thread.0].context).rax = value;
            }
            Some((_, state)) => return Delivery::CallGoesOn(state),
            None => {}
        }
        self.restore_mask(thread);
        Delivery::ToGuest
    }

    /// Stores the result of an interrupted call, or rewinds RIP to the two-byte system call instruction, with
    /// the call number still in RAX, to restart the call.
    fn settle_interrupted(
        &mut self,
        thread: ThreadKey,
        how: IfInterrupted,
        state: &CallState,
        restarts: bool,
    ) {
        let context = self.threads[thread.0].context;
        let regs = self.machine.regs_mut(context);
        let Some(value) = interrupted_result(how, restarts) else {
            regs.rip -= 2;
            return;
        };
        let number = regs.rax as u32;
        let args = [regs.rdi, regs.rsi, regs.rdx, regs.r10, regs.r8, regs.r9];
        regs.rax = value;
        let sleeps = matches!(i64::from(number), c::SYS_nanosleep | c::SYS_clock_nanosleep);
        if self.store_remaining_time(thread, state).is_err() && sleeps {
            self.machine.regs_mut(context).rax = Errno::EFAULT.as_return();
        }
        if self.strace.is_enabled() {
            let traced = self.strace_begin(thread, number, args);
            let interrupted = if value == Errno::EINTR.as_return() { Err(Errno::EINTR) } else { done(value) };
            self.strace_end(&traced, &interrupted);
        }
    }

    fn run_handler(&mut self, thread: ThreadKey, action: &KernelSigaction, info: &SigInfo) {
        let process = self.threads[thread.0].process;
        let bit = sig_bit(info.signo);
        if action.flags & c::SA_RESETHAND as u64 != 0 {
            self.process(process).signals.action_mut(info.signo).handler = c::SIG_DFL as u64;
        }
        if self.push_frame(thread, action, info).is_err() {
            if self.native_has_ended(process) {
                return self.kill_process(process, c::SIGKILL);
            }
            // As on Linux: if the signal was SIGSEGV itself, its handler cannot run either.
            if info.signo == c::SIGSEGV {
                *self.process(process).signals.action_mut(c::SIGSEGV) = KernelSigaction::default();
            }
            self.threads.force_signal(&mut self.processes, thread, SigInfo::kernel(c::SIGSEGV));
            return;
        }
        let signals = &mut self.thread(thread).signals;
        signals.saved_mask = None;
        let own = if action.flags & c::SA_NODEFER as u64 == 0 { bit } else { 0 };
        let mask = signals.blocked | action.mask | own;
        self.set_blocked(thread, mask);
    }

    /// Warns of a process that is killed by its own fault, with the program and the fault.
    fn warn_of_fault(&mut self, thread: ThreadKey, info: &SigInfo) {
        const FAULTS: [i32; 5] = [c::SIGSEGV, c::SIGBUS, c::SIGFPE, c::SIGILL, c::SIGTRAP];
        if info.code <= 0 || !FAULTS.contains(&info.signo) {
            return;
        }
        let process = &self.processes[self.threads[thread.0].process.0];
        let program = String::from_utf8_lossy(&process.exe).into_owned();
        let name = signal_name(info.signo);
        let rip = self.machine.regs(self.threads[thread.0].context).rip;
        let what = match info.signo {
            c::SIGSEGV | c::SIGBUS => format!("it touched address {:#x} at {rip:#x}", info.addr()),
            _ => format!("at {rip:#x}"),
        };
        let text = format!("{program} (pid {}) was killed by {name}: {what}", process.pid);
        self.warn(text);
    }
}

/// Name of a signal that reports a CPU exception.
fn signal_name(signal: i32) -> &'static str {
    match signal {
        c::SIGSEGV => "SIGSEGV",
        c::SIGBUS => "SIGBUS",
        c::SIGFPE => "SIGFPE",
        c::SIGILL => "SIGILL",
        _ => "SIGTRAP",
    }
}
