//! Preemption of threads within their own code, at drawn points (`belljar_tasks::priorities`).
//!
//! A thread is single-stepped from its last call to the point, so that the same instruction is reached near and far, with any workers. Code of
//! hosts that preempt is not rewritten: a stub in place of a call has other instructions than the program, and which calls have one depends on
//! what else runs in the simulator. Their calls trap, which takes some microseconds each.

use crate::host::Host;
use crate::ids::ThreadKey;
use belljar_machine::{ContextId, Exit, SpaceId};
use belljar_tasks::strategy::Order;
use std::sync::atomic::Ordering::Relaxed;

/// Runs a thread to the point at which it is preempted ([`Exit::Stepped`]), or to its exit before; `None` if there is no
/// point before its next call.
#[cold]
#[inline(never)]
pub(crate) fn run_to_point(host: &mut Host, key: ThreadKey, context: ContextId) -> Option<Exit> {
    let mut left = host.scheduler.begin_run(key)?;
    while left > 0 {
        match host.machine.step(context) {
            Exit::Stepped => left -= 1,
            // A tick of the native timer.
            Exit::Preempted if host.machine.can_step(context) => {
                if host.config.interrupt.load(Relaxed) {
                    break;
                }
            }
            Exit::Preempted => break,
            exit => {
                host.scheduler.end_run(key);
                host.threads[key.0].computes = false;
                return Some(exit);
            }
        }
    }
    host.scheduler.preempt(key);
    Some(Exit::Stepped)
}

/// Keeps the code of a new address space as it is, if threads of this host are preempted within it.
pub(crate) fn keep_code(host: &mut Host, space: SpaceId) {
    if matches!(host.config.scheduling, Order::Priorities(_)) {
        host.machine.show_original_code(space);
    }
}
