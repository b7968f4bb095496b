//! Spin detection: threads that wait in a loop without a system call.
//!
//! **Problem.** A thread that polls a word of memory until another thread, or a signal handler, has written
//! it makes no call. On Linux the other thread runs on another processor, or the scheduler preempts this one.
//! Here a thread keeps the processor until it makes a call, so a spin lock would hang its host. A native
//! timer (every 50 ms of processor time) shows that a thread has computed for long, but the instruction at
//! which it fires is not part of the experiment: a thread preempted there may hold a lock for which the next
//! one then waits, and the run would depend on the machine's load.
//!
//! **Insight.** A loop that only waits repeats its state. If all registers return to the same values again
//! and again, nothing that the thread itself does will end the loop, and the number of rounds makes no
//! difference. So the thread can be left in a state of the round that depends on the round alone: the least
//! one in a fixed order ([`rank`]). From then on the run is the same wherever the timer fired.
//!
//! **Algorithm.** At the first, fourth and sixteenth tick in a row the thread is single-stepped
//! ([`find_loop`](Host::find_loop)). Brent's algorithm searches for a period of the general registers, of up
//! to about 2,000, 10,000 and 40,000 instructions. A candidate is confirmed by at least 8 rounds and 256
//! instructions, with the same general registers and vector state at the end and the same hash of all
//! intermediate states. The thread is then stepped to the least state and leaves the processor
//! ([`Step::Waits`]) with a [`Spin`]. The scheduler runs other threads first. The loop is due again after 200
//! calls and events of its host, twice as many after each unsuccessful check, 12,800 at most; or as soon as
//! anything has happened while all runnable threads wait in loops. A check ([`go_round`](Host::go_round))
//! steps through one more round. If the registers differ at its end the thread continues at full speed from
//! there. A thread whose registers do not repeat computes, and keeps the processor.
//!
//! **Computation until an alarm.** A program that computes until a signal of its own timer (`alarm`, `setitimer`,
//! `timer_create`) would never get there, as computation takes no simulated time. So at each tick the native time that
//! the threads of the host have computed since simulated time last passed is compared with the time left to the
//! alarm. Once it is as long, and half a second at least, the thread leaves the processor until the alarm
//! ([`awaits_alarm`]); it goes on when the signal comes or the time has passed. The alarm comes at its exact time, and
//! nothing before it: the run does not depend on the instruction at which the thread was left, unless the program
//! shows it. A program whose computation would end before the alarm natively ends before it here. Cost: the native time
//! of the first alarm; for later ones of the same process the half second is divided by four each time.
//!
//! **Limits.** A loop that counts in registers, has rounds of more than 40,000 instructions or polls a clock
//! that is not simulated is taken for computation. After 60 ticks without a call, and the 15 of a host
//! that has had such a thread, such a thread is preempted natively, the summary names its program and the run is not deterministic from there. Memory is
//! not compared: a counter in memory is noticed only as it passes through registers or flags, within the
//! rounds that are checked. Clock readings through the vDSO count as calls, so a loop that polls the clock
//! ends by the cost of its readings. A thread that waits for a timer of its own processor time is charged for
//! each check and woken by that timer.

use crate::host::Host;
use crate::ids::{ProcessKey, ThreadKey};
use crate::preemption::run_to_point;
use crate::run::Step;
use belljar_base::SimDuration;
use belljar_machine::Machine;
use belljar_machine::{ContextId, Exit, Regs};
use belljar_tasks::spin::{Spin, TICK};
use std::sync::atomic::Ordering::Relaxed;

/// Longest period to search for, in instructions, by the number of the tick at which the thread is found
/// computing. The first searches must be short, as most threads only compute. `None`: no search.
fn longest_round(tick: u32) -> Option<u32> {
    match tick {
        1 => Some(2_000),
        4 => Some(10_000),
        16 => Some(40_000),
        _ => None,
    }
}
/// Minimum number of rounds that confirm a period: counters in memory show in the flags long before.
const REPEATS: u32 = 8;
/// Minimum number of instructions that confirm a period.
const LEAST_STEPS: u32 = 256;

/// Result of single-stepping a thread.
enum Stepped {
    /// The thread waits in a loop.
    Waits(Box<Spin>),
    /// No loop was found: the thread computes.
    Computes,
    /// The thread left guest code.
    Left(Exit),
}

/// Sort key of states: the least state of a round has the least rank.
fn rank(regs: &Regs) -> [u64; 18] {
    let r = regs;
    [
        r.rip, r.rflags, r.rsp, r.rax, r.rbx, r.rcx, r.rdx, r.rsi, r.rdi, r.rbp, r.r8, r.r9, r.r10, r.r11,
        r.r12, r.r13, r.r14, r.r15,
    ]
}

/// Adds a state to the hash of a round.
fn add_to_hash(hash: u64, regs: &Regs) -> u64 {
    rank(regs)
        .iter()
        .fold(hash, |hash, word| (hash.rotate_left(5) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

impl Host {
    /// Runs a thread until it leaves guest code; `None` if it only waits in a loop.
    ///
    /// A thread that computes for longer than the patience of the host is preempted at its current instruction. The run
    /// is not deterministic from there on.
    #[inline(always)]
    pub(crate) fn run_guest(&mut self, key: ThreadKey, context: ContextId) -> Option<Exit> {
        if self.threads[key.0].spin.is_some() {
            match self.go_round(key, context) {
                Some(Stepped::Waits(spin)) => {
                    self.threads[key.0].spin = Some(spin);
                    return None;
                }
                Some(Stepped::Left(exit)) => return Some(exit),
                Some(Stepped::Computes) | None => {}
            }
        }
        if self.scheduler.preempts()
            && let Some(exit) = run_to_point(self, key, context)
        {
            return Some(exit);
        }
        let (exit, has_read) = self.resume_with_clocks(key, context);
        if exit != Exit::Preempted {
            self.threads[key.0].computes = false;
            return Some(exit);
        }
        self.ran_long(key, context, has_read)
    }

    /// Continues a thread that was found computing; `has_read` is true if its stubs have answered
    /// calls meanwhile.
    #[cold]
    #[inline(never)]
    fn ran_long(&mut self, key: ThreadKey, context: ContextId, mut has_read: bool) -> Option<Exit> {
        let process = self.threads[key.0].process;
        let mut tick = 0;
        loop {
            let computes = std::mem::take(&mut self.threads[key.0].computes);
            if has_read && !self.config.interrupt.load(Relaxed) {
                tick = 0;
            } else {
                tick += 1;
                self.scheduler.computing.count(self.net.clock.now());
                if let Some(spin) = awaits_alarm(self, process, context, tick) {
                    self.threads[key.0].spin = Some(spin);
                    return None;
                }
                if computes || tick > self.scheduler.computing.patience() {
                    if !computes {
                        self.scheduler.computing.lose_patience();
                    }
                    self.threads[key.0].computes = true;
                    return Some(Exit::Preempted);
                }
                if self.config.interrupt.load(Relaxed) {
                    return None;
                }
                match longest_round(tick).map(|longest| self.find_loop(context, longest)) {
                    Some(Stepped::Waits(spin)) => {
                        self.net.clock.charge();
                        self.threads[key.0].spin = Some(spin);
                        return None;
                    }
                    Some(Stepped::Left(exit)) => return Some(exit),
                    Some(Stepped::Computes) | None => {}
                }
            }
            let exit;
            (exit, has_read) = self.resume_with_clocks(key, context);
            if exit != Exit::Preempted {
                self.threads[key.0].computes = false;
                return Some(exit);
            }
        }
    }

    /// Runs a thread; returns its exit, and true if its stubs have answered calls meanwhile.
    #[inline(always)]
    fn resume_with_clocks(&mut self, key: ThreadKey, context: ContextId) -> (Exit, bool) {
        let mut clocks = self.clocks_for(key);
        let exit = self.machine.resume_with_clocks(context, &mut clocks);
        (exit, self.clocks_read(key, &clocks))
    }

    /// Charges a thread that only waits in a loop, if its process has timers of processor time.
    #[cold]
    pub(crate) fn spun(&mut self, key: ThreadKey) -> Step {
        let process = self.threads[key.0].process;
        let until_alarm = self.threads[key.0].spin.as_ref().is_some_and(|spin| spin.alarm().is_some());
        if until_alarm || !self.processes[process.0].signals.timers.count_processor_time {
            return Step::Waits;
        }
        self.charge_preemption(key);
        self.fire_processor_timers(process);
        Step::Yield
    }

    /// Accounts for a tick of native time in a thread without a call.
    #[cold]
    pub(crate) fn charge_preemption(&mut self, key: ThreadKey) {
        // If an alarm is to come next, simulated time passes as natively.
        let next = self.timers.next_id();
        let is_alarm = next.is_some()
            && self.processes.iter().any(|(_, process)| process.signals.timers.next_alarm() == next);
        let spent = self.net.clock.charge_preemption(if is_alarm { TICK } else { SimDuration::ZERO });
        self.threads[key.0].calls += spent.as_nanos() / 1_000;
    }

    /// Steps a thread through one more round of its loop; `None` if it is not known to wait in one.
    fn go_round(&mut self, key: ThreadKey, context: ContextId) -> Option<Stepped> {
        let mut spin = self.threads[key.0].spin.take()?;
        if let Some((left, alarm)) = spin.alarm()
            && (self.net.clock.now() >= alarm || *self.machine.regs(context) != *spin.state())
        {
            let computed = self.net.clock.now().min(alarm).since(left);
            self.threads[key.0].calls += computed.as_nanos() / 1_000;
            return Some(Stepped::Computes);
        }
        if let Err(left) = step_round(&mut *self.machine, context, spin.period(), |_| {}) {
            return Some(left);
        }
        if *self.machine.regs(context) != *spin.state() {
            return Some(Stepped::Computes);
        }
        spin.went_round(self.scheduler.progress());
        Some(Stepped::Waits(spin))
    }

    /// Searches for a loop of at most `longest` instructions.
    #[cold]
    fn find_loop(&mut self, context: ContextId, longest: u32) -> Stepped {
        match self.try_to_find_loop(context, longest) {
            Ok(Some(spin)) => Stepped::Waits(spin),
            Ok(None) => Stepped::Computes,
            Err(left) => left,
        }
    }

    fn try_to_find_loop(&mut self, context: ContextId, longest: u32) -> Result<Option<Box<Spin>>, Stepped> {
        let Some(period) = find_period(&mut *self.machine, context, longest)? else { return Ok(None) };
        let state = *self.machine.regs(context);
        let (mut vectors, mut now) = (Vec::new(), Vec::new());
        self.machine.xstate(context, &mut vectors);
        let mut first = None;
        for _ in 0..REPEATS.max(LEAST_STEPS.div_ceil(period)) {
            // Registers may be equal at the end of each round while a counter lies in memory; within the
            // round the counter passes through a register or shows in the flags.
            let mut hash = 0;
            step_round(&mut *self.machine, context, period, |regs| hash = add_to_hash(hash, regs))?;
            self.machine.xstate(context, &mut now);
            if *self.machine.regs(context) != state || now != vectors || *first.get_or_insert(hash) != hash {
                return Ok(None);
            }
        }
        let (mut least, mut least_at, mut at) = (state, 0, 0);
        step_round(&mut *self.machine, context, period, |regs| {
            at += 1;
            if rank(regs) < rank(&least) {
                (least, least_at) = (*regs, at);
            }
        })?;
        step_round(&mut *self.machine, context, least_at, |_| {})?;
        Ok(Some(Box::new(Spin::new(least, period, self.scheduler.progress()))))
    }
}

/// Wait of a thread that computes until an alarm of its process, if it has computed for long enough.
fn awaits_alarm(host: &mut Host, process: ProcessKey, context: ContextId, tick: u32) -> Option<Box<Spin>> {
    let now = host.net.clock.now();
    let timers = &host.processes[process.0].signals.timers;
    let alarm = timers.next_alarm()?.at();
    if alarm <= now || !host.scheduler.computing.reaches(alarm, tick, timers.computed_for) {
        return None;
    }
    host.process(process).signals.timers.computed_for += 1;
    let state = *host.machine.regs(context);
    Some(Box::new(Spin::until(alarm, now, state, host.scheduler.progress())))
}

fn step_round(
    machine: &mut dyn Machine,
    context: ContextId,
    steps: u32,
    mut seen: impl FnMut(&Regs),
) -> Result<(), Stepped> {
    for _ in 0..steps {
        match machine.step(context) {
            Exit::Stepped => seen(machine.regs(context)),
            Exit::Preempted => return Err(Stepped::Computes),
            exit => return Err(Stepped::Left(exit)),
        }
    }
    Ok(())
}

/// Number of instructions after which the registers repeat, by Brent's algorithm: the current state is
/// compared with a reference state replaced after 1, 2, 4, ... steps.
fn find_period(machine: &mut dyn Machine, context: ContextId, longest: u32) -> Result<Option<u32>, Stepped> {
    let mut power = 1;
    while power <= longest {
        let state = *machine.regs(context);
        for steps in 1..=power {
            step_round(machine, context, 1, |_| {})?;
            if *machine.regs(context) == state {
                return Ok(Some(steps));
            }
        }
        power *= 2;
    }
    Ok(None)
}
