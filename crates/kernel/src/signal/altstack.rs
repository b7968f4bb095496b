//! The alternate signal stack, `sigaltstack(2)`.

use crate::host::Host;
use crate::ids::ThreadKey;
use belljar_linux_abi::signal::SigStack;
use belljar_linux_abi::{Errno, c};

/// The stack is forgotten when a handler starts on it.
pub(super) const SS_AUTODISARM: i32 = 1 << 31;
/// `MINSIGSTKSZ` of x86-64.
const MIN_SIZE: u64 = 2_048;

/// True if `sp` lies on the alternate stack.
pub(super) fn is_on_stack(stack: &SigStack, sp: u64) -> bool {
    sp > stack.sp && sp - stack.sp <= stack.size
}

/// The value of `ss_flags` for a thread whose stack pointer is `sp`.
pub(super) fn state_flags(stack: &SigStack, sp: u64) -> i32 {
    if stack.size == 0 {
        c::SS_DISABLE
    } else if stack.flags & SS_AUTODISARM == 0 && is_on_stack(stack, sp) {
        c::SS_ONSTACK
    } else {
        0
    }
}

impl Host {
    /// The thread's alternate stack as `sigaltstack` shows it.
    pub(crate) fn alternate_stack(&self, thread: ThreadKey) -> SigStack {
        let thread = &self.threads[thread.0];
        let stack = thread.signals.alternate;
        let sp = self.machine.regs(thread.context).rsp;
        SigStack { flags: state_flags(&stack, sp) | (stack.flags & SS_AUTODISARM), ..stack }
    }

    /// Sets the thread's alternate stack. `EPERM` while it runs on it, `EINVAL` for unknown flags,
    /// `ENOMEM` for one that is too small.
    pub(crate) fn set_alternate_stack(&mut self, thread: ThreadKey, new: SigStack) -> Result<(), Errno> {
        let sp = self.machine.regs(self.threads[thread.0].context).rsp;
        let signals = &mut self.thread(thread).signals;
        if state_flags(&signals.alternate, sp) == c::SS_ONSTACK {
            return Err(Errno::EPERM);
        }
        let mode = new.flags & !SS_AUTODISARM;
        if ![0, c::SS_DISABLE, c::SS_ONSTACK].contains(&mode) {
            return Err(Errno::EINVAL);
        }
        if mode == c::SS_DISABLE {
            signals.alternate = SigStack { flags: new.flags, ..SigStack::default() };
            return Ok(());
        }
        if new.size < MIN_SIZE {
            return Err(Errno::ENOMEM);
        }
        signals.alternate = SigStack { pad: 0, ..new };
        Ok(())
    }
}
