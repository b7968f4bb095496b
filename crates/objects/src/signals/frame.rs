//! Signal frames: their address on the stack, registers and extended state, laid out as in Linux's
//! `arch/x86/kernel/signal_64.c`.

use belljar_linux_abi::signal::{
    FP_SW_OFFSET, FP_XSTATE_MAGIC1, FP_XSTATE_MAGIC2, FpSoftwareBytes, RtSigFrame, SigContext, SigStack,
};
use belljar_linux_abi::{Errno, c};
use belljar_machine::Regs;
use zerocopy::IntoBytes;

/// `SS_AUTODISARM`: the alternate stack is cleared when a handler starts on it.
pub const SS_AUTODISARM: i32 = 1 << 31;
/// Red zone: bytes below the stack pointer that a leaf function may use.
const RED_ZONE: u64 = 128;
/// `__USER_CS` and `__USER_DS`.
const SELECTORS: (u16, u16) = (0x33, 0x2b);
/// Flags that `rt_sigreturn` restores: AC, OF, DF, TF, SF, ZF, AF, PF, CF and RF.
const RESTORED_FLAGS: u64 = 0x5_0dd5;
/// Flags cleared for a handler: DF, TF and RF.
pub const CLEARED_FLAGS: u64 = 0x1_0500;

/// True if `sp` is within the alternate stack.
pub fn is_on_stack(stack: &SigStack, sp: u64) -> bool {
    sp > stack.sp && sp - stack.sp <= stack.size
}

/// `ss_flags` reported to a thread with the stack pointer `sp`.
pub fn state_flags(stack: &SigStack, sp: u64) -> i32 {
    if stack.size == 0 {
        c::SS_DISABLE
    } else if stack.flags & SS_AUTODISARM == 0 && is_on_stack(stack, sp) {
        c::SS_ONSTACK
    } else {
        0
    }
}

/// Addresses of the extended state and of the frame. `EFAULT` if the alternate stack overflows.
pub fn place(regs: &Regs, stack: &SigStack, flags: u64, xstate_len: usize) -> Result<(u64, u64), Errno> {
    let mut sp = regs.rsp.wrapping_sub(RED_ZONE);
    let nested = stack.size != 0 && stack.flags & SS_AUTODISARM == 0 && is_on_stack(stack, regs.rsp);
    let entering = flags & c::SA_ONSTACK as u64 != 0 && state_flags(stack, sp) == 0;
    if entering {
        sp = stack.sp + stack.size;
    }
    let fpstate = sp.wrapping_sub(xstate_len as u64 + 4) & !63;
    let frame = (fpstate.wrapping_sub(size_of::<RtSigFrame>() as u64) & !15).wrapping_sub(8);
    // Memory below the alternate stack belongs to other data.
    if (nested || entering) && !is_on_stack(stack, frame) {
        return Err(Errno::EFAULT);
    }
    Ok((fpstate, frame))
}

/// Saves the registers, the last fault, the signal mask and the address of the extended state in a frame's
/// context.
pub fn save_registers(regs: &Regs, fault: (u64, u64, u64), blocked: u64, fpstate: u64) -> SigContext {
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

/// Restores the registers. Segment selectors stay, and only the flags that user code may set are taken.
pub fn restore_registers(regs: &mut Regs, saved: &SigContext) {
    (regs.r8, regs.r9, regs.r10, regs.r11) = (saved.r8, saved.r9, saved.r10, saved.r11);
    (regs.r12, regs.r13, regs.r14, regs.r15) = (saved.r12, saved.r13, saved.r14, saved.r15);
    (regs.rdi, regs.rsi, regs.rbp, regs.rbx) = (saved.rdi, saved.rsi, saved.rbp, saved.rbx);
    (regs.rdx, regs.rax, regs.rcx) = (saved.rdx, saved.rax, saved.rcx);
    (regs.rsp, regs.rip) = (saved.rsp, saved.rip);
    regs.rflags = (regs.rflags & !RESTORED_FLAGS) | (saved.eflags & RESTORED_FLAGS);
}

/// Fills in the software-reserved bytes of an XSAVE image and appends the second magic number.
pub fn describe_xstate(xstate: &mut Vec<u8>) {
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

/// Components of an image by size: x87 and SSE, then AVX, then AVX-512.
fn features_of_size(size: usize) -> u64 {
    match size {
        ..=576 => 0b11,
        577..=832 => 0b111,
        _ => 0b1110_0111,
    }
}

/// Extended state of a new process: initial values, exceptions masked.
pub fn initial_xstate(size: usize) -> Vec<u8> {
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
