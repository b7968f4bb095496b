//! The frame that a handler finds on its stack, and the return from it: `struct rt_sigframe` as
//! `arch/x86/kernel/signal_64.c` of Linux lays it out.

use super::altstack::{SS_AUTODISARM, is_on_stack, state_flags};
use crate::host::Host;
use crate::ids::ThreadKey;
use belljar_linux_abi::signal::{
    FP_SW_OFFSET, FP_XSTATE_MAGIC1, FP_XSTATE_MAGIC2, FpSoftwareBytes, KernelSigaction, RtSigFrame,
    SigContext, SigInfo, SigStack, UC_FP_XSTATE, UC_SIGCONTEXT_SS, UC_STRICT_RESTORE_SS, UContext,
};
use belljar_linux_abi::{Errno, c};
use belljar_machine::{Regs, USER_END};
use zerocopy::{FromBytes, FromZeros, IntoBytes};

/// Below the stack pointer a function may keep data without moving it.
const RED_ZONE: u64 = 128;
/// The handler has a restorer (`SA_RESTORER`); x86-64 has no other way back.
const SA_RESTORER: u64 = 0x0400_0000;
/// `__USER_CS` and `__USER_DS`.
const SELECTORS: (u16, u16) = (0x33, 0x2b);
/// The flags that `rt_sigreturn` restores: AC, OF, DF, TF, SF, ZF, AF, PF, CF and RF.
const RESTORED_FLAGS: u64 = 0x5_0dd5;
/// DF, TF and RF are clear when a handler starts.
const CLEARED_FLAGS: u64 = 0x1_0500;
/// FXSAVE image and XSAVE header.
const XSAVE_HEADER_END: usize = 576;
const FXSAVE_SIZE: usize = 512;

impl Host {
    /// Builds the frame and points the thread at the handler. `EFAULT` if the stack cannot hold it.
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

    /// `rt_sigreturn`: back to what the frame at the stack pointer says. `EFAULT` if there is no
    /// proper one.
    pub(crate) fn pop_frame(&mut self, thread: ThreadKey) -> Result<(), Errno> {
        let (process, context) = (self.threads[thread.0].process, self.threads[thread.0].context);
        // The handler's `ret` has taken `pretcode` off the stack.
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
        // As Linux, a stack that cannot be set is no error here.
        let _ = self.set_alternate_stack(thread, frame.uc.stack);
        Ok(())
    }

    /// The extended state at `at`; only its FXSAVE part if what says that there is more is damaged.
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

/// Where the extended state and the frame go.
fn place(regs: &Regs, stack: &SigStack, flags: u64, xstate_len: usize) -> Result<(u64, u64), Errno> {
    let mut sp = regs.rsp.wrapping_sub(RED_ZONE);
    let nested = stack.size != 0 && stack.flags & SS_AUTODISARM == 0 && is_on_stack(stack, regs.rsp);
    let entering = flags & c::SA_ONSTACK as u64 != 0 && state_flags(stack, sp) == 0;
    if entering {
        sp = stack.sp + stack.size;
    }
    let fpstate = sp.wrapping_sub(xstate_len as u64 + 4) & !63;
    let frame = (fpstate.wrapping_sub(size_of::<RtSigFrame>() as u64) & !15).wrapping_sub(8);
    // Off the end of the alternate stack there is somebody else's memory.
    if (nested || entering) && !is_on_stack(stack, frame) {
        return Err(Errno::EFAULT);
    }
    Ok((fpstate, frame))
}

fn save_registers(regs: &Regs, fault: (u64, u64, u64), blocked: u64, fpstate: u64) -> SigContext {
    let (trapno, err, cr2) = fault;
    SigContext {
        r8: regs.r8,
        r9: regs.r9,
        r10: regs.r10,
        r11: regs.r11,
        r12: regs.r12,
        r13: regs.r13,
        r14: regs.r14,
        r15: regs.r15,
        rdi: regs.rdi,
        rsi: regs.rsi,
        rbp: regs.rbp,
        rbx: regs.rbx,
        rdx: regs.rdx,
        rax: regs.rax,
        rcx: regs.rcx,
        rsp: regs.rsp,
        rip: regs.rip,
        eflags: regs.rflags,
        cs: SELECTORS.0,
        gs: 0,
        fs: 0,
        ss: SELECTORS.1,
        err,
        trapno,
        oldmask: blocked,
        cr2,
        fpstate,
        reserved: [0; 8],
    }
}

/// Selectors stay as they are; of the flags only those that user code may set are taken.
fn restore_registers(regs: &mut Regs, saved: &SigContext) {
    (regs.r8, regs.r9, regs.r10, regs.r11) = (saved.r8, saved.r9, saved.r10, saved.r11);
    (regs.r12, regs.r13, regs.r14, regs.r15) = (saved.r12, saved.r13, saved.r14, saved.r15);
    (regs.rdi, regs.rsi, regs.rbp, regs.rbx) = (saved.rdi, saved.rsi, saved.rbp, saved.rbx);
    (regs.rdx, regs.rax, regs.rcx) = (saved.rdx, saved.rax, saved.rcx);
    (regs.rsp, regs.rip) = (saved.rsp, saved.rip);
    regs.rflags = (regs.rflags & !RESTORED_FLAGS) | (saved.eflags & RESTORED_FLAGS);
}

/// Says in the software-reserved bytes what the image holds and ends it with the second magic
/// number.
fn describe_xstate(xstate: &mut Vec<u8>) {
    let size = xstate.len() as u32;
    let software = FpSoftwareBytes {
        magic1: FP_XSTATE_MAGIC1,
        extended_size: size + 4,
        xfeatures: features_of_size(xstate.len()),
        xstate_size: size,
        padding: [0; 7],
    };
    xstate[FP_SW_OFFSET..FP_SW_OFFSET + size_of::<FpSoftwareBytes>()].copy_from_slice(software.as_bytes());
    xstate.extend_from_slice(&FP_XSTATE_MAGIC2.to_le_bytes());
}

/// The components that an image of this size holds: x87 and SSE, then AVX, then AVX-512.
fn features_of_size(size: usize) -> u64 {
    match size {
        ..=576 => 0b11,
        577..=832 => 0b111,
        _ => 0b1110_0111,
    }
}

/// The state of a new process: everything initial, exceptions masked.
fn initial_xstate(size: usize) -> Vec<u8> {
    let mut image = vec![0; size];
    image[..2].copy_from_slice(&0x37fu16.to_le_bytes());
    image[24..28].copy_from_slice(&0x1f80u32.to_le_bytes());
    image
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_keeps_the_red_zone_and_the_alignment_of_the_abi() {
        let regs = Regs { rsp: 0x7000_1234, ..Regs::default() };
        let (fpstate, frame) = place(&regs, &SigStack::default(), 0, 832).unwrap();
        assert!(fpstate + 836 <= regs.rsp - RED_ZONE && fpstate % 64 == 0);
        assert!(frame + 440 <= fpstate && frame % 16 == 8);
    }

    #[test]
    fn the_alternate_stack_is_entered_once_and_never_overrun() {
        let stack = SigStack { sp: 0x10_0000, flags: 0, pad: 0, size: 0x4000 };
        let outside = Regs { rsp: 0x7000_0000, ..Regs::default() };
        let (_, frame) = place(&outside, &stack, c::SA_ONSTACK as u64, 832).unwrap();
        assert!(is_on_stack(&stack, frame));
        let inside = Regs { rsp: frame, ..Regs::default() };
        let (_, second) = place(&inside, &stack, c::SA_ONSTACK as u64, 832).unwrap();
        assert!(second < frame && is_on_stack(&stack, second));
        let nearly_full = Regs { rsp: 0x10_0200, ..Regs::default() };
        assert_eq!(place(&nearly_full, &stack, c::SA_ONSTACK as u64, 832), Err(Errno::EFAULT));
    }

    #[test]
    fn registers_survive_and_privileged_flags_do_not() {
        let regs = Regs { r8: 1, rdi: 2, rax: 3, rip: 4, rsp: 5, rflags: 0x246, ..Regs::default() };
        let mut saved = save_registers(&regs, (0, 0, 0), 0, 0);
        saved.eflags |= 0x3000;
        let mut back = Regs { rflags: 0x202, ..Regs::default() };
        restore_registers(&mut back, &saved);
        assert_eq!(Regs { rflags: 0x246, ..regs }, back);
    }
}
