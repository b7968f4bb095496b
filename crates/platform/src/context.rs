//! The saved state of a guest thread: see [`belljar_shim::context`].

use crate::cpu;
use belljar_kernel::machine::{self, SpaceId};
pub use belljar_shim::context::{Context, LOOK_UP, Regs};
use std::mem::offset_of;

/// A context with the vector state of a new process.
pub fn new(space: SpaceId, regs: &machine::Regs) -> Context {
    let mut context = Context::new(space.0, &Regs::default(), cpu::xsave_layout());
    *kernel_regs_mut(&mut context) = *regs;
    context
}

macro_rules! same_layout {
    ($($field:ident)*) => {
        const _: () = assert!(
            size_of::<Regs>() == size_of::<machine::Regs>()
                && align_of::<Regs>() == align_of::<machine::Regs>()
                $(&& offset_of!(Regs, $field) == offset_of!(machine::Regs, $field))*
        );
    };
}
same_layout!(r15 r14 r13 r12 rbp rbx r11 r10 r9 r8 rax rcx rdx rsi rdi rip rflags rsp fs_base gs_base);

/// A context's registers as the kernel has them.
pub fn kernel_regs(context: &Context) -> &machine::Regs {
    // SAFETY: both are the same plain words in the same places.
    unsafe { &*(&raw const context.regs).cast() }
}
/// The same to change.
pub fn kernel_regs_mut(context: &mut Context) -> &mut machine::Regs {
    // SAFETY: as above.
    unsafe { &mut *(&raw mut context.regs).cast() }
}
