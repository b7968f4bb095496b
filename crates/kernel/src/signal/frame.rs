//! Signal frame on the handler's stack, and the return from it: `struct rt_sigframe` as laid out in
//! `arch/x86/kernel/signal_64.c` of Linux.

use crate::host::Host;
use crate::ids::ThreadKey;
use belljar_linux_abi::Errno;
use belljar_linux_abi::signal::{
    FP_SW_OFFSET, FP_XSTATE_MAGIC1, FP_XSTATE_MAGIC2, FpSoftwareBytes, KernelSigaction, RtSigFrame, SigInfo,
    SigStack, UC_FP_XSTATE, UC_SIGCONTEXT_SS, UC_STRICT_RESTORE_SS, UContext,
};
use belljar_machine::USER_END;
use belljar_objects::signals::frame::{
    CLEARED_FLAGS, SS_AUTODISARM, describe_xstate, initial_xstate, place, restore_registers, save_registers,
};
use zerocopy::{FromBytes, FromZeros, IntoBytes};

/// The handler has a restorer (`SA_RESTORER`), which x86-64 requires.
const SA_RESTORER: u64 = 0x0400_0000;
/// End of the XSAVE header and size of the FXSAVE image before it, in bytes.
const XSAVE_HEADER_END: usize = 576;
const FXSAVE_SIZE: usize = 512;

impl Host {
    /// Builds the frame and points the thread at the handler. `EFAULT` if the handler has no restorer or the
    /// stack cannot hold the frame.
    pub(super) fn push_frame(
        &mut self,
        thread: ThreadKey,
        action: &KernelSigaction,
        info: &SigInfo,
    ) -> Result<(), Errno> {
        if action.flags & SA_RESTORER == 0 {
            return Err(Errno::EFAULT);
        }
        let (process, context) = (self.threads[thread.0].process, self.threads[thread.0].context);
        let regs = *self.machine.regs(context);
        let signals = &self.threads[thread.0].signals;
        let stack = signals.alternate;
        let mut xstate = Vec::new();
        self.machine.xstate(context, &mut xstate);
        let (fpstate, frame_at) = place(&regs, &stack, action.flags, xstate.len())?;

        let frame = RtSigFrame {
            pretcode: action.restorer,
            uc: UContext {
                flags: UC_FP_XSTATE | UC_SIGCONTEXT_SS | UC_STRICT_RESTORE_SS,
                link: 0,
                stack,
                mcontext: save_registers(&regs, signals.last_fault, signals.blocked, fpstate),
                sigmask: signals.saved_mask.unwrap_or(signals.blocked),
            },
            info: *info,
        };
        let initial = initial_xstate(xstate.len());
        describe_xstate(&mut xstate);
        self.write_guest(process, fpstate, &xstate)?;
        self.write_guest(process, frame_at, frame.as_bytes())?;

        self.machine.set_xstate(context, &initial);
        let uc_at = frame_at + std::mem::offset_of!(RtSigFrame, uc) as u64;
        let info_at = frame_at + std::mem::offset_of!(RtSigFrame, info) as u64;
        let regs = self.machine.regs_mut(context);
        (regs.rdi, regs.rsi, regs.rdx, regs.rax) = (info.signo as u64, info_at, uc_at, 0);
        (regs.rip, regs.rsp) = (action.handler, frame_at);
        regs.rflags &= !CLEARED_FLAGS;
        if stack.flags & SS_AUTODISARM != 0 {
            self.thread(thread).signals.alternate = SigStack::default();
        }
        Ok(())
    }

    /// `rt_sigreturn`: restores the thread from the frame at the stack pointer. `EFAULT` if the frame is
    /// invalid.
    pub(crate) fn pop_frame(&mut self, thread: ThreadKey) -> Result<(), Errno> {
        let (process, context) = (self.threads[thread.0].process, self.threads[thread.0].context);
        // The handler's `ret` has popped `pretcode`.
        let at = self.machine.regs(context).rsp.wrapping_sub(8);
        let mut frame = RtSigFrame::new_zeroed();
        let head = std::mem::offset_of!(RtSigFrame, info);
        self.read_guest(process, at, &mut frame.as_mut_bytes()[..head])?;
        let saved = frame.uc.mcontext;
        if saved.rip >= USER_END {
            return Err(Errno::EFAULT);
        }
        let xstate = match saved.fpstate {
            0 => {
                let mut now = Vec::new();
                self.machine.xstate(context, &mut now);
                initial_xstate(now.len())
            }
            at => self.read_fpstate(thread, at)?,
        };
        self.machine.set_xstate(context, &xstate);
        restore_registers(self.machine.regs_mut(context), &saved);
        self.set_blocked(thread, frame.uc.sigmask);
        // As on Linux, an alternate stack that cannot be restored is not an error.
        let _ = self.set_alternate_stack(thread, frame.uc.stack);
        Ok(())
    }

    /// Extended state at `at`; only its FXSAVE part if the software bytes that describe the rest are invalid.
    fn read_fpstate(&self, thread: ThreadKey, at: u64) -> Result<Vec<u8>, Errno> {
        let (process, context) = (self.threads[thread.0].process, self.threads[thread.0].context);
        let mut xstate = Vec::new();
        self.machine.xstate(context, &mut xstate);
        let largest = xstate.len();
        let mut image = vec![0; FXSAVE_SIZE];
        self.read_guest(process, at, &mut image)?;
        let software = FpSoftwareBytes::read_from_prefix(&image[FP_SW_OFFSET..]).map(|(bytes, _)| bytes);
        let Ok(software) = software else { return Ok(image) };
        let size = software.xstate_size as usize;
        if software.magic1 != FP_XSTATE_MAGIC1
            || size < XSAVE_HEADER_END
            || size > largest
            || software.extended_size <= software.xstate_size
        {
            return Ok(image);
        }
        let mut magic2 = [0; 4];
        self.read_guest(process, at + size as u64, &mut magic2)?;
        if u32::from_le_bytes(magic2) != FP_XSTATE_MAGIC2 {
            return Ok(image);
        }
        image.resize(size, 0);
        self.read_guest(process, at, &mut image)?;
        Ok(image)
    }
}
