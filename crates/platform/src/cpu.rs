//! What this CPU saves, and whether it has what switching guests needs.

use crate::InitError;
pub use belljar_shim::xstate::XsaveLayout;
use belljar_shim::xstate::{Component, KEPT, SHOWN, XSAVE_SIZE};
use std::arch::x86_64::{__cpuid, __cpuid_count, _xgetbv};
use std::sync::OnceLock;

static LAYOUT: OnceLock<XsaveLayout> = OnceLock::new();

/// The layout on this CPU. Only after [`check`].
pub fn xsave_layout() -> &'static XsaveLayout {
    LAYOUT.get().expect("belljar_platform::init has run")
}

/// Checks for the instructions that the entry code uses.
pub fn check() -> Result<(), InitError> {
    let missing = |what| Err(InitError::MissingFeature(what));
    let leaf1 = __cpuid(1);
    // OSXSAVE and AVX.
    if leaf1.ecx & (1 << 27) == 0 || leaf1.ecx & (1 << 28) == 0 {
        return missing("AVX with XSAVE");
    }
    let xsave = __cpuid_count(0xd, 1);
    if xsave.eax & 0b110 != 0b110 {
        return missing("XSAVEC with XGETBV(1)");
    }
    // SAFETY: getauxval has no preconditions.
    if unsafe { libc::getauxval(libc::AT_HWCAP2) } & 2 == 0 {
        return missing("FSGSBASE for user programs (Linux 5.9 or later on a CPU that has it)");
    }
    // SAFETY: OSXSAVE was checked above.
    let xcr0 = unsafe { read_xcr0() };
    if xcr0 & SHOWN != SHOWN {
        return missing("AVX enabled by the kernel");
    }
    LAYOUT.get_or_init(|| layout(xcr0));
    Ok(())
}

/// # Safety
/// The CPU must have OSXSAVE.
#[target_feature(enable = "xsave")]
unsafe fn read_xcr0() -> u64 {
    // SAFETY: passed on to the caller.
    unsafe { _xgetbv(0) }
}

fn layout(xcr0: u64) -> XsaveLayout {
    let mut layout = XsaveLayout { mask: xcr0 & KEPT, ..XsaveLayout::default() };
    let mut next = 576;
    let mut used = 0;
    for index in 2..8 {
        if layout.mask & (1 << index) == 0 {
            continue;
        }
        let leaf = __cpuid_count(0xd, index);
        if leaf.ecx & 2 != 0 {
            next = usize::next_multiple_of(next, 64);
        }
        let size = leaf.eax as usize;
        layout.components[used] =
            Component { bit: 1 << index, size, standard: leaf.ebx as usize, compacted: next };
        used += 1;
        next += size;
    }
    assert!(next <= XSAVE_SIZE, "architectural sizes of the saved components");
    layout
}
