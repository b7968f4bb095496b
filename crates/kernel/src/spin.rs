//! Threads that wait without a call: they read a word of memory in a loop until another thread, or a
//! signal's handler, has written it. On Linux other processors, or the scheduler, see to that; here a
//! thread runs until it calls, so such a loop has to be noticed from outside.
//!
//! A native timer says when a thread has computed for long, but where it finds the thread is nothing
//! that the experiment decides: stopped there, it might hold a lock that another one then waits for.
//! So the thread is stepped, instruction by instruction. If its registers come round to the same
//! values again and again, nothing that it does itself will ever end the loop. Of the states of one
//! round it is left in the least, which is the same one wherever the timer struck, and waits there for
//! anything else of its host to happen; then it is stepped through one more round. A thread whose
//! registers don't repeat computes, and is left alone.

use crate::host::Host;
use crate::ids::ThreadKey;
use crate::machine::{ContextId, Exit, Regs};
use crate::run::Step;
use std::sync::atomic::Ordering::Relaxed;

/// How many instructions a loop may have that is found out, by the number of the tick that finds
/// the thread computing: the first ones must not take long, as most threads only compute.
fn longest_round(tick: u32) -> Option<u32> {
    match tick {
        1 => Some(2_000),
        4 => Some(10_000),
        16 => Some(40_000),
        _ => None,
    }
}
/// How often a round must repeat with everything in registers the same: counters in memory show
/// in the flags long before.
const REPEATS: u32 = 8;
const LEAST_STEPS: u32 = 256;
/// Calls that other threads make before a loop is looked at again, while they make any: the first
/// time and at most.
const BACKOFF: u64 = 200;
const LONGEST_BACKOFF: u64 = 12_800;

/// A thread's loop.
#[derive(Clone, Debug)]
pub struct Spin {
    /// The least state of a round, in which it is.
    state: Regs,
    /// Instructions in a round.
    period: u32,
    /// [`Host::progress`] when it was last seen to go round.
    seen: u64,
    backoff: u64,
}

/// What stepping a thread has shown.
enum Stepped {
    /// It goes round in a loop.
    Waits(Box<Spin>),
    /// It does not, as far as that was tried.
    Computes,
    /// It came back.
    Left(Exit),
}

/// The order of states.
fn rank(regs: &Regs) -> [u64; 18] {
    let r = regs;
    [
        r.rip, r.rflags, r.rsp, r.rax, r.rbx, r.rcx, r.rdx, r.rsi, r.rdi, r.rbp, r.r8, r.r9, r.r10, r.r11,
        r.r12, r.r13, r.r14, r.r15,
    ]
}

/// What stands for a way through states, one state further on.
fn along(way: u64, regs: &Regs) -> u64 {
    rank(regs).iter().fold(way, |way, word| (way.rotate_left(5) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

impl Host {
    /// Runs a thread's code until it comes back; `None` if it does nothing but wait.
    ///
    /// One that only computes is left to it for long enough that what programs do is hardly ever
    /// disturbed; then it is preempted wherever it is, and what it does from there on is nothing that
    /// the experiment decides.
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
        let (exit, has_read) = self.resume_with_clocks(key, context);
        if exit != Exit::Preempted {
            self.threads[key.0].computes = false;
            return Some(exit);
        }
        self.ran_long(key, context, has_read)
    }

    /// Goes on with a thread that was found computing, having read a clock meanwhile or not.
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
                let patience = &mut self.processes[process.0].patience;
                if computes || tick == *patience {
                    if !computes {
                        *patience /= 4;
                    }
                    self.threads[key.0].computes = true;
                    return Some(Exit::Preempted);
                }
                if self.config.interrupt.load(Relaxed) {
                    return None;
                }
                tick += 1;
                match longest_round(tick).map(|longest| self.find_loop(context, longest)) {
                    Some(Stepped::Waits(spin)) => {
                        self.clock.charge();
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

    /// Lets a thread run; how it came back, and whether it has read a clock meanwhile, which is as good as
    /// a call.
    fn resume_with_clocks(&mut self, key: ThreadKey, context: ContextId) -> (Exit, bool) {
        let mut clocks = self.clocks_for(key);
        let exit = self.machine.resume_with_clocks(context, &mut clocks);
        (exit, self.clocks_read(key, &clocks))
    }

    /// A thread has done nothing but wait. What it waits for may be its own processor time.
    #[cold]
    pub(crate) fn spun(&mut self, key: ThreadKey) -> Step {
        let process = self.threads[key.0].process;
        if !self.processes[process.0].signals.timers.count_processor_time {
            return Step::Waits;
        }
        self.charge_preemption(key);
        self.fire_processor_timers(process);
        Step::Yield
    }

    /// Accounts for a tick of native time in a thread without a call.
    #[cold]
    pub(crate) fn charge_preemption(&mut self, key: ThreadKey) {
        let spent = self.clock.charge_preemption();
        self.threads[key.0].calls += spent.as_nanos() / 1_000;
    }

    /// The thread in the run queue whose turn it is, taken out of it.
    pub(crate) fn next_in_turn(&mut self) -> Option<ThreadKey> {
        match self.place_in_turn()? {
            0 => self.run_queue.pop_front(),
            at => self.run_queue.remove(at),
        }
    }

    /// Where it stands: the first that does not wait in a loop, or whose loop is due to be looked at;
    /// if all wait in loops, the first that may find something new.
    pub(crate) fn place_in_turn(&self) -> Option<usize> {
        // Hardly any thread waits in a loop.
        let first = self.run_queue.front()?;
        if self.threads[first.0].spin.is_none() {
            return Some(0);
        }
        let since_seen = |key: &ThreadKey| {
            let spin = self.threads[key.0].spin.as_ref()?;
            Some((self.progress - spin.seen, spin.backoff))
        };
        let in_turn = |key| since_seen(key).is_none_or(|(progress, backoff)| progress >= backoff);
        let queue = &self.run_queue;
        let something_new = |key| since_seen(key).is_some_and(|(progress, _)| progress > 0);
        queue.iter().position(in_turn).or_else(|| queue.iter().position(something_new))
    }

    /// Steps a thread that waited in a loop through one more round; `None` if it was in none.
    fn go_round(&mut self, key: ThreadKey, context: ContextId) -> Option<Stepped> {
        let mut spin = self.threads[key.0].spin.take()?;
        if let Err(left) = self.step_round(context, spin.period, |_| {}) {
            return Some(left);
        }
        if *self.machine.regs(context) != spin.state {
            return Some(Stepped::Computes);
        }
        spin.backoff = (spin.backoff * 2).min(LONGEST_BACKOFF);
        spin.seen = self.progress;
        Some(Stepped::Waits(spin))
    }

    /// Looks for a loop of at most `longest` instructions.
    #[cold]
    fn find_loop(&mut self, context: ContextId, longest: u32) -> Stepped {
        match self.try_to_find_loop(context, longest) {
            Ok(Some(spin)) => Stepped::Waits(spin),
            Ok(None) => Stepped::Computes,
            Err(left) => left,
        }
    }

    fn try_to_find_loop(&mut self, context: ContextId, longest: u32) -> Result<Option<Box<Spin>>, Stepped> {
        let Some(period) = self.find_period(context, longest)? else { return Ok(None) };
        let state = *self.machine.regs(context);
        let (mut vectors, mut now) = (Vec::new(), Vec::new());
        self.machine.xstate(context, &mut vectors);
        let mut first = None;
        for _ in 0..REPEATS.max(LEAST_STEPS.div_ceil(period)) {
            // Where it comes round everything may be the same, and what it counts by lie in memory: but on the
            // way there that passes through a register, or shows in the flags.
            let mut way = 0;
            self.step_round(context, period, |regs| way = along(way, regs))?;
            self.machine.xstate(context, &mut now);
            if *self.machine.regs(context) != state || now != vectors || *first.get_or_insert(way) != way {
                return Ok(None);
            }
        }
        let (mut least, mut least_at, mut at) = (state, 0, 0);
        self.step_round(context, period, |regs| {
            at += 1;
            if rank(regs) < rank(&least) {
                (least, least_at) = (*regs, at);
            }
        })?;
        self.step_round(context, least_at, |_| {})?;
        Ok(Some(Box::new(Spin { state: least, period, seen: self.progress, backoff: BACKOFF })))
    }

    /// After how many instructions the registers repeat, by Brent's algorithm: the thread's state is
    /// held against one that is taken anew after 1, 2, 4, ... steps.
    fn find_period(&mut self, context: ContextId, longest: u32) -> Result<Option<u32>, Stepped> {
        let mut power = 1;
        while power <= longest {
            let state = *self.machine.regs(context);
            for steps in 1..=power {
                self.step_round(context, 1, |_| {})?;
                if *self.machine.regs(context) == state {
                    return Ok(Some(steps));
                }
            }
            power *= 2;
        }
        Ok(None)
    }

    fn step_round(
        &mut self,
        context: ContextId,
        steps: u32,
        mut seen: impl FnMut(&Regs),
    ) -> Result<(), Stepped> {
        for _ in 0..steps {
            match self.machine.step(context) {
                Exit::Stepped => seen(self.machine.regs(context)),
                Exit::Preempted => return Err(Stepped::Computes),
                exit => return Err(Stepped::Left(exit)),
            }
        }
        Ok(())
    }
}
