//! Saved state of a guest thread: see [`belljar_shim::context`]. Several crates that do not depend on each
//! other define the general registers and those of signal frames; this module checks these definitions
//! against each other.

use crate::cpu;
use belljar_linux_abi::signal;
use belljar_machine::SpaceId;
pub use belljar_shim::context::{Context, LOOK_UP, NO_IDS, Regs};
use belljar_shim::frame::{FrameRegs, UContext};
use std::mem::offset_of;

/// A context with the vector state of a new process.
pub fn new(space: SpaceId, regs: &belljar_machine::Regs) -> Context {
    let mut context = Context::new(space.0, &Regs::default(), cpu::xsave_layout());
    *kernel_regs_mut(&mut context) = *regs;
    context
}

macro_rules! same_layout {
    ($($field:ident)*) => {
        const _: () = assert!(
            size_of::<Regs>() == size_of::<belljar_machine::Regs>()
                && align_of::<Regs>() == align_of::<belljar_machine::Regs>()
                $(&& offset_of!(Regs, $field) == offset_of!(belljar_machine::Regs, $field))*
        );
    };
}
same_layout!(r15 r14 r13 r12 rbp rbx r11 r10 r9 r8 rax rcx rdx rsi rdi rip rflags rsp fs_base gs_base);

macro_rules! as_in_frames {
    ($($ours:ident is $theirs:ident),*) => {
        const _: () = assert!(
            size_of::<FrameRegs>() == offset_of!(signal::SigContext, fpstate)
                $(&& offset_of!(FrameRegs, $ours) == offset_of!(signal::SigContext, $theirs))*
                && offset_of!(UContext, regs) == offset_of!(signal::UContext, mcontext)
                && offset_of!(UContext, xstate)
                    == offset_of!(signal::UContext, mcontext) + offset_of!(signal::SigContext, fpstate)
        );
    };
}
as_in_frames!(
    r8 is r8, r9 is r9, r10 is r10, r11 is r11, r12 is r12, r13 is r13, r14 is r14, r15 is r15, rdi is rdi,
    rsi is rsi, rbp is rbp, rbx is rbx, rdx is rdx, rax is rax, rcx is rcx, rsp is rsp, rip is rip,
    rflags is eflags, selectors is cs, error_code is err, trapno is trapno, oldmask is oldmask, cr2 is cr2
);

/// A context's registers as the kernel's type.
pub fn kernel_regs(context: &Context) -> &belljar_machine::Regs {
    // SAFETY: both types are plain words of identical layout, asserted above.
    unsafe { &*(&raw const context.regs).cast() }
}
/// A context's registers as the kernel's type, mutable.
pub fn kernel_regs_mut(context: &mut Context) -> &mut belljar_machine::Regs {
    // SAFETY: as above.
    unsafe { &mut *(&raw mut context.regs).cast() }
}
