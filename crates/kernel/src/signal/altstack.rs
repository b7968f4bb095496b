//! Alternate signal stack, `sigaltstack(2)`.

use crate::host::Host;
use crate::ids::ThreadKey;
use belljar_linux_abi::signal::SigStack;
use belljar_linux_abi::{Errno, c};
use belljar_objects::signals::frame::{SS_AUTODISARM, state_flags};

/// `MINSIGSTKSZ` of x86-64.
const MIN_SIZE: u64 = 2_048;

impl Host {
    /// Alternate stack of the thread as `sigaltstack` returns it.
    pub(crate) fn alternate_stack(&self, thread: ThreadKey) -> SigStack {
        let thread = &self.threads[thread.0];
        let stack = thread.signals.alternate;
        let sp = self.machine.regs(thread.context).rsp;
        SigStack { flags: state_flags(&stack, sp) | (stack.flags & SS_AUTODISARM), ..stack }
    }

    /// Sets the thread's alternate stack. `EPERM` while the thread runs on the current one, `EINVAL` for
    /// unknown flags, `ENOMEM` if the new one is too small.
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
