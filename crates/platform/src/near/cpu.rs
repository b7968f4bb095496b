//! What this CPU saves, and whether it has what switching guests needs.

use super::context::xsave;
use crate::InitError;
use std::arch::x86_64::{__cpuid, __cpuid_count, _xgetbv};
use std::sync::OnceLock;

/// x87, SSE and AVX: what guests are shown.
pub const SHOWN: u64 = 0b111;
/// The same and AVX-512: what is kept for guests that use it all the same, because not every CPU
/// can be made to hide it.
const KEPT: u64 = 0b1110_0111;

const AVX: u64 = 1 << 2;
const OPMASK: u64 = 1 << 5;
const HI16_ZMM: u64 = 1 << 7;

/// Size of the state that guests are shown, in bytes, in standard form.
pub const SHOWN_SIZE: usize = 832;
/// Room for everything in [`KEPT`] in compacted form.
pub const XSAVE_SIZE: usize = 2496;

/// One XSAVE state component beyond x87 and SSE.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct Component {
    /// Its bit in XSTATE_BV.
    pub bit: u64,
    /// Its size in bytes.
    pub size: usize,
    /// Its offset in the standard form, as in Linux's signal frames.
    pub standard: usize,
    /// Its offset in the compacted form that `xsavec` with [`XsaveLayout::mask`] writes.
    pub compacted: usize,
}

/// Where `xsavec` puts what.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct XsaveLayout {
    /// The components that are saved and restored.
    pub mask: u64,
    /// Those beyond x87 and SSE; unused entries have `bit` 0.
    pub components: [Component; 6],
}

impl XsaveLayout {
    /// The components that the entry code cannot load without `xrstor`: x87 and the upper halves
    /// of ZMM0 to ZMM15, and those of AVX-512 where they do not lie at its fixed offsets.
    pub fn not_by_hand(&self) -> u32 {
        let expected = |c: &Component| match c.bit {
            AVX => c.compacted == xsave::EXTENDED,
            OPMASK => c.compacted == xsave::OPMASK,
            HI16_ZMM => c.compacted == xsave::HI16_ZMM,
            _ => false,
        };
        let by_hand: u64 = self.components.iter().filter(|c| expected(c)).map(|c| c.bit).sum();
        (self.mask & !(by_hand | 2)) as u32
    }

    /// The components that compiled code may leave in use and `vzeroupper` does not clear.
    pub fn left_behind(&self) -> u32 {
        (self.mask & (OPMASK | HI16_ZMM)) as u32
    }
}

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
