//! Run loop of a host: events and turns of threads in order, and for each step of a thread the handling of
//! its exit and of its call's result.

use crate::call::Call;
use crate::call_faults;
use crate::clock::CallKind;
use crate::files::userfault;
use crate::host::Host;
use crate::ids::{ProcessKey, ThreadKey};
use crate::outcome::{IfInterrupted, Outcome, Resumed, SysResult, Wake};
use crate::signal::delivery::Delivery;
use crate::suspension;
use crate::syscall::{seccomp, table};
use crate::thread::Continuation;
use crate::trace::{breakpoints, end_step};
use belljar_base::SimTime;
use belljar_base::activity::Phase;
use belljar_linux_abi::{Errno, c, compat};
use belljar_machine::{Exit, Fault};
use belljar_netstack::event_loop::EventLoop;
use belljar_objects::namespaces::{NamespaceMembership, translated};
use belljar_objects::seccomp::{ARCH_I386, ARCH_X86_64};

/// Number of windows between two searches for guests whose native process was killed: a killed guest that is
/// not resumed goes unnoticed otherwise.
const REAP_INTERVAL: u64 = 256;
/// Length in bytes of `rdtsc`.
const RDTSC_LEN: u64 = 2;
const RDTSCP_LEN: u64 = 3;
/// Exception vector of a page fault.
const PAGE_FAULT: u64 = 14;
/// `si_code` of an unmapped address, and of guard pages.
const SEGV_MAPERR: i32 = 1;

impl Host {
    /// Ends the guests whose native process was killed without being noticed by the end of the simulation.
    pub fn finish_processes(&mut self) {
        for thread in self.reap_killed() {
            if self.threads.contains(thread.0) {
                let _ = self.step(thread);
            }
        }
        self.report_all_spaces();
    }

    /// Runs everything that happens strictly before `limit`.
    pub fn run_until(&mut self, limit: SimTime) {
        self.windows += 1;
        if self.windows.is_multiple_of(REAP_INTERVAL) {
            self.reap_killed();
        }
        self.run_events(limit);
        self.net.take_arrivals(limit);
        self.net.plan_arrivals();
        self.files.rest_natives(&mut *self.machine);
    }

    /// Runs the next thread's turn, or continues the turn that the last limit interrupted: limits must not
    /// affect the result.
    #[inline]
    pub(crate) fn run_next_thread(&mut self, limit: SimTime) {
        let Some(thread) = self.scheduler.start_turn(&self.threads) else { return };
        if self.scheduler.selects && suspension::keeps_waiting(self, thread) {
            return;
        }
        while self.scheduler.take_call() {
            let step = self.step(thread);
            self.carry_out_effects();
            if !matches!(step, Step::Waits | Step::Held) {
                self.scheduler.made_progress();
            }
            match step {
                Step::Continue => {}
                Step::Yield | Step::Waits => break,
                Step::Left => return,
                Step::Held => {
                    self.scheduler.pause_turn_before_call(thread);
                    return;
                }
            }
            // Work that a call queued for io_uring is done before the program continues.
            while self.urings.has_uring_work() {
                self.run_next_request();
            }
            // Charging calls has moved the clock past an event: the event comes first.
            if self.next_due().is_some_and(|at| at <= self.net.clock.now()) {
                break;
            }
            if self.net.clock.now() >= limit || self.debuggers.stopped() {
                self.scheduler.pause_turn(thread);
                return;
            }
        }
        self.scheduler.ready(thread);
    }

    /// Runs a thread up to the end of its next call.
    fn step(&mut self, key: ThreadKey) -> Step {
        match self.threads[key.0].trace.is_some() || !self.debuggers.is_empty() {
            true => self.step_watched(key),
            false => self.step_as::<false>(key),
        }
    }

    /// Runs a step that `ptrace(2)` or a debugger may observe.
    #[cold]
    #[inline(never)]
    fn step_watched(&mut self, key: ThreadKey) -> Step {
        self.step_as::<true>(key)
    }

    /// Runs one step. Code for observers is kept out of the code for unobserved hosts.
    #[inline(always)]
    fn step_as<const WATCHED: bool>(&mut self, key: ThreadKey) -> Step {
        if WATCHED && self.threads[key.0].trace.is_some() && self.trace_before_step(key) {
            return Step::Left;
        }
        let thread = &self.threads[key.0];
        if (thread.signals.attention || thread.continuation.is_some())
            && let Some(step) = self.go_on(key)
        {
            return step;
        }
        let debugged = WATCHED && !self.debuggers.is_empty();
        if debugged && self.debug_before_step(key) {
            return Step::Held;
        }
        let (context, process) = (self.threads[key.0].context, self.threads[key.0].process);
        let traced = WATCHED && self.threads[key.0].trace.is_some();
        if traced {
            self.trace_arm_step(key);
        }
        self.doing_for(Phase::Guest, process, 0);
        let ran = if traced && breakpoints::are_enabled(self, key) {
            Some(breakpoints::run(self, key, context))
        } else {
            self.run_guest(key, context)
        };
        self.doing_for(Phase::Kernel, process, 0);
        let Some(mut exit) = ran else {
            if debugged || traced {
                end_step(&mut *self.machine, context);
            }
            return self.spun(key);
        };
        if traced {
            self.trace_disarm_step(key, &exit);
        }
        if debugged && self.debug_exit(key, &mut exit) {
            return Step::Held;
        }
        match exit {
            Exit::Syscall => self.call_as(key, None),
            other => self.came_otherwise(key, other),
        }
    }

    /// Handles an exit other than a system call.
    #[inline(never)]
    fn came_otherwise(&mut self, key: ThreadKey, exit: Exit) -> Step {
        match exit {
            Exit::Syscall => self.call(key, None),
            Exit::CompatSyscall => self.compat_call(key),
            Exit::ReadTsc { aux }
                if self.processes[self.threads[key.0].process.0].attributes.counter_faults =>
            {
                let regs = self.machine.regs_mut(self.threads[key.0].context);
                regs.rip -= if aux { RDTSCP_LEN } else { RDTSC_LEN };
                self.threads.raise_fault(&mut self.processes, key, Fault::PROTECTION);
                Step::Continue
            }
            Exit::ReadTsc { aux } => {
                self.net.clock.charge_reading();
                // One tick per nanosecond, as CPUID reports, and strictly increasing.
                let ticks = self.net.clock.monotonic_ns().max(self.last_counter + 1);
                self.last_counter = ticks;
                let thread = &self.threads[key.0];
                let processor = aux.then(|| thread.processor());
                self.machine.regs_mut(thread.context).load_counter(ticks, processor);
                Step::Continue
            }
            Exit::ReadProcessor { register } => {
                let thread = &self.threads[key.0];
                let processor = thread.processor();
                *self.machine.regs_mut(thread.context).general_mut(register) = processor.into();
                Step::Continue
            }
            Exit::ReadRandom(read) => {
                self.net.clock.charge();
                let value = self.random.next_u64();
                read.load(self.machine.regs_mut(self.threads[key.0].context), value);
                Step::Continue
            }
            Exit::Fault(mut fault) => {
                let process = self.threads[key.0].process;
                let of_page = fault.signal == c::SIGSEGV && fault.trapno == PAGE_FAULT;
                if of_page && self.grow_down(process, fault.addr) {
                    return Step::Continue;
                }
                if of_page && userfault::fault(self, key, fault.addr, fault.error_code) {
                    return Step::Waits;
                }
                let mm = self.processes[process.0].mm;
                if of_page && mm.is_some_and(|mm| self.spaces[mm.0].is_guarded(fault.addr)) {
                    fault.code = SEGV_MAPERR;
                }
                self.threads.raise_fault(&mut self.processes, key, fault);
                Step::Continue
            }
            Exit::Preempted => {
                let process = self.threads[key.0].process;
                let name = String::from_utf8_lossy(&self.processes[process.0].exe).into_owned();
                *self.preempted.entry(name).or_default() += 1;
                self.charge_preemption(key);
                Step::Yield
            }
            Exit::Killed => {
                let process = self.threads[key.0].process;
                self.kill_process(process, belljar_linux_abi::c::SIGKILL);
                Step::Continue
            }
            // It was preempted at a drawn point.
            Exit::Stepped => Step::Yield,
        }
    }

    /// Continues a thread's pending call and delivers signals; `None` if its program is to run next.
    fn go_on(&mut self, key: ThreadKey) -> Option<Step> {
        let thread = &mut self.threads[key.0];
        let attention = thread.signals.attention;
        match thread.continuation.take() {
            None if !attention => None,
            Some(Continuation::Resume(resumed)) if !attention => Some(self.call(key, Some(resumed))),
            continuation => self.go_on_attentive(key, continuation, attention),
        }
    }

    /// Does the same where signals may be pending, or a call was interrupted or not begun.
    #[inline(never)]
    fn go_on_attentive(
        &mut self,
        key: ThreadKey,
        continuation: Option<Continuation>,
        attention: bool,
    ) -> Option<Step> {
        match continuation {
            Some(Continuation::Resume(resumed)) => {
                // The call is retried first: if it blocks again, the signal interrupts it.
                if attention && let Some(delivery) = self.end_or_park(key) {
                    if matches!(delivery, Delivery::Parked(_)) {
                        self.threads[key.0].continuation = Some(Continuation::Resume(resumed));
                    }
                    return Some(Step::Left);
                }
                Some(self.call(key, Some(resumed)))
            }
            Some(Continuation::Enter) => {
                if attention && let Some(delivery) = self.end_or_park(key) {
                    if matches!(delivery, Delivery::Parked(_)) {
                        self.threads[key.0].continuation = Some(Continuation::Enter);
                    }
                    return Some(Step::Left);
                }
                Some(self.call(key, None))
            }
            interrupted => match self.deliver_signals(key, interrupted.and_then(Continuation::interrupted)) {
                Delivery::ToGuest => None,
                Delivery::CallGoesOn(state) => {
                    let resumed = Resumed { state, wake: Wake::Notified };
                    if self.threads[key.0].trace.is_some() && self.trace_call_again(key) {
                        self.threads[key.0].continuation = Some(Continuation::Resume(resumed));
                        return Some(Step::Left);
                    }
                    Some(self.call(key, Some(resumed)))
                }
                Delivery::Parked(interrupted) => {
                    self.threads[key.0].continuation =
                        interrupted.map(|(how, state)| Continuation::Interrupted { how, state });
                    Some(Step::Left)
                }
                Delivery::Held(interrupted) => {
                    self.threads[key.0].continuation =
                        interrupted.map(|(how, state)| Continuation::Interrupted { how, state });
                    Some(Step::Held)
                }
                Delivery::Gone => Some(Step::Left),
            },
        }
    }

    /// Makes or continues the call that the thread's registers describe.
    #[inline(never)]
    fn call(&mut self, key: ThreadKey, resumed: Option<Resumed>) -> Step {
        self.call_as(key, resumed)
    }

    /// Inlined form of [`call`](Self::call) for calls that a thread has just made, the most frequent case.
    #[inline(always)]
    fn call_as(&mut self, key: ThreadKey, resumed: Option<Resumed>) -> Step {
        if resumed.is_none() && self.threads[key.0].trace.is_some() && self.trace_call_entry(key) {
            return Step::Left;
        }
        let thread = &mut self.threads[key.0];
        let (context, process) = (thread.context, thread.process);
        let regs = self.machine.regs(context);
        let number = u32::try_from(regs.rax).unwrap_or(u32::MAX);
        self.net.clock.charge_call(|| kind_of(number));
        let args = [regs.rdi, regs.rsi, regs.rdx, regs.r10, regs.r8, regs.r9];
        if resumed.is_none() {
            thread.calls += 1;
            let holds = !thread.held.is_empty();
            self.count_call(number);
            if self.processes[process.0].signals.timers.count_processor_time {
                self.fire_processor_timers(process);
            }
            if holds {
                self.let_files_go(key);
            }
            if self.threads[key.0].seccomp.is_some()
                && let Err(refused) = seccomp::refuse(self, key, number, ARCH_X86_64, args)
            {
                return self.call_refused(key, refused);
            }
        }
        let outcome = match self.strace.is_enabled() {
            true => self.make_logged(key, (number, args), resumed),
            false => self.make(key, (number, args), resumed),
        };
        let value = match outcome {
            Ok(Outcome::Done(value)) => value,
            Err(errno) => errno.as_return(),
            Ok(Outcome::Replaced) if self.threads[key.0].trace.is_some() => {
                return if self.trace_call_exit(key) { Step::Left } else { Step::Continue };
            }
            Ok(Outcome::Replaced) => return Step::Continue,
            Ok(Outcome::Gone) => return Step::Left,
            Ok(Outcome::Block(block)) => {
                if self.shares_descriptors(process) {
                    self.hold_files(key);
                }
                self.block(key, *block);
                return Step::Left;
            }
        };
        self.machine.regs_mut(context).rax = value;
        let thread = &self.threads[key.0];
        let leaves_something = !thread.held.is_empty() || thread.signals.saved_mask.is_some();
        if (leaves_something || thread.trace.is_some()) && self.call_leaves(key) {
            return Step::Left;
        }
        if number == belljar_linux_abi::c::SYS_sched_yield as u32 { Step::Yield } else { Step::Continue }
    }

    /// Ends a call that was not made: returns `value`, or, if there is none, leaves the result to a signal.
    #[cold]
    fn call_refused(&mut self, key: ThreadKey, value: Option<u64>) -> Step {
        let Some(value) = value else {
            return if self.threads.contains(key.0) { Step::Continue } else { Step::Left };
        };
        let context = self.threads[key.0].context;
        self.machine.regs_mut(context).rax = value;
        if self.threads[key.0].trace.is_some() && self.trace_call_exit(key) {
            Step::Left
        } else {
            Step::Continue
        }
    }

    /// Makes or continues a call.
    #[inline(always)]
    fn make(
        &mut self,
        key: ThreadKey,
        (number, args): (u32, [u64; 6]),
        resumed: Option<Resumed>,
    ) -> SysResult {
        let process = self.threads[key.0].process;
        self.looked_up.get_mut().clear();
        self.doing_for(Phase::Call, process, number);
        self.use_descriptors_of(key, process);
        self.caller = Some((key, process));
        let outcome = match self.call_faults.is_some() {
            false => self.dispatch(key, number, args, resumed),
            true => call_faults::dispatch(self, key, (number, args), resumed),
        };
        self.caller = None;
        self.doing(Phase::Kernel);
        outcome
    }

    /// Makes or continues a call and logs it.
    #[inline(never)]
    fn make_logged(&mut self, key: ThreadKey, call: (u32, [u64; 6]), resumed: Option<Resumed>) -> SysResult {
        let traced = self.strace_begin(key, call.0, call.1);
        let outcome = self.make(key, call, resumed);
        self.strace_end(&traced, &outcome);
        outcome
    }

    /// Releases the descriptors of a call and restores the signal mask; returns true if the thread now waits
    /// for its tracer.
    #[cold]
    fn call_leaves(&mut self, key: ThreadKey) -> bool {
        self.let_files_go(key);
        self.restore_mask(key);
        self.threads[key.0].trace.is_some() && self.trace_call_exit(key)
    }

    /// Makes a call, translating process ids in its arguments and result to the caller's PID namespace.
    #[inline(always)]
    pub(crate) fn dispatch(
        &mut self,
        key: ThreadKey,
        number: u32,
        args: [u64; 6],
        resumed: Option<Resumed>,
    ) -> SysResult {
        let process = self.threads[key.0].process;
        if self.processes[process.0].parted {
            return self.dispatch_inside((key, process), number, args, resumed);
        }
        let mut call = Call { host: self, thread: key, process, number, args, resumed, staged: None };
        let outcome = table::dispatch(&mut call);
        if self.has_networks {
            self.leave_networks();
        }
        outcome
    }

    /// Makes a call of a process in namespaces of its own.
    #[inline(never)]
    fn dispatch_inside(
        &mut self,
        (thread, process): (ThreadKey, ProcessKey),
        number: u32,
        args: [u64; 6],
        resumed: Option<Resumed>,
    ) -> SysResult {
        let NamespaceMembership { pid: inside, .. } = self.processes[process.0].attributes.namespaces;
        let (args, is_pid) = match inside {
            0 => (args, false),
            _ => translated(&self.processes.namespaces.pids, inside, number, args),
        };
        let mut call = Call { host: self, thread, process, number, args, resumed, staged: None };
        let mut outcome = table::dispatch(&mut call);
        if is_pid && let Ok(Outcome::Done(pid)) = &mut outcome {
            *pid = self.processes.namespaces.pids.shown(inside, *pid as i32) as u64;
        }
        self.leave_networks();
        outcome
    }

    /// Makes a call of the 32-bit interface, as far as it is meaningful for 64-bit code.
    #[cold]
    fn compat_call(&mut self, key: ThreadKey) -> Step {
        let thread = &self.threads[key.0];
        let context = thread.context;
        let regs = self.machine.regs(context);
        let args = [regs.rbx, regs.rcx, regs.rdx, regs.rsi, regs.rdi, regs.rbp].map(|arg| arg & 0xffff_ffff);
        let number = regs.rax as u32;
        if self.threads[key.0].seccomp.is_some()
            && let Err(refused) = seccomp::refuse(self, key, number, ARCH_I386, args)
        {
            return self.call_refused(key, refused);
        }
        let Some(number) = compat::translate(number) else {
            self.warn(format!("call {number} of the 32-bit interface (int 0x80) is not supported"));
            self.machine.regs_mut(context).rax = Errno::ENOSYS.as_return();
            return Step::Continue;
        };
        self.net.clock.charge_call(|| kind_of(number));
        self.count_call(number);
        let value = match self.dispatch(key, number, args, None) {
            Ok(Outcome::Done(value)) => value,
            Err(errno) => errno.as_return(),
            Ok(Outcome::Gone) => return Step::Left,
            Ok(other) => unreachable!("a call that never waits ended as {other:?}"),
        };
        self.machine.regs_mut(context).rax = value;
        Step::Continue
    }

    /// Runs a thread up to the end of its next call, for tests; false if the thread left the CPU.
    #[cfg(any(test, feature = "testing"))]
    pub(crate) fn step_once(&mut self, key: ThreadKey) -> bool {
        !matches!(self.step(key), Step::Left | Step::Held)
    }

    fn count_call(&mut self, number: u32) {
        self.call_counts.add(number, 1);
    }
}

/// Next action of the run loop after a step.
pub(crate) enum Step {
    /// The thread continues.
    Continue,
    /// The next thread has its turn.
    Yield,
    /// The thread spins in a loop without calls.
    Waits,
    /// The thread is blocked or gone.
    Left,
    /// The thread keeps its turn; its debugger holds it.
    Held,
}

/// Kind of a call by its number.
fn kind_of(number: u32) -> CallKind {
    match i64::from(number) {
        c::SYS_clock_gettime | c::SYS_gettimeofday | c::SYS_time => CallKind::Reading,
        c::SYS_getcpu => CallKind::Vdso,
        _ => CallKind::Kernel,
    }
}

/// Return value of an interrupted call when a handler runs, with `SA_RESTART` if `restarts`; `None` if the
/// call is restarted.
pub(crate) fn interrupted_result(how: IfInterrupted, restarts: bool) -> Option<u64> {
    match how {
        IfInterrupted::Value(value) => Some(value),
        IfInterrupted::Restart if restarts => None,
        IfInterrupted::RestartAlways => None,
        _ => Some(Errno::EINTR.as_return()),
    }
}
