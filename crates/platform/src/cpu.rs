//! CPU features: the layout of the saved vector state, and the instructions that switching guests needs.

use crate::InitError;
pub use belljar_shim::xstate::XsaveLayout;
use belljar_shim::xstate::{Component, KEPT, SHOWN, XSAVE_SIZE};
use std::arch::x86_64::{__cpuid, __cpuid_count, _xgetbv, _xrstor64};
use std::hint::black_box;
use std::sync::OnceLock;

static LAYOUT: OnceLock<XsaveLayout> = OnceLock::new();

/// The XSAVE layout of this CPU. Panics before [`check`] has succeeded.
pub fn xsave_layout() -> &'static XsaveLayout {
    LAYOUT.get().expect("belljar_platform::init has run")
}

/// Checks that the CPU and the kernel provide the instructions of the entry code, and records the XSAVE
/// layout.
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

/// State components that the kernel has enabled (XCR0). Call only after [`check`].
pub fn enabled() -> u64 {
    // SAFETY: `check` has verified OSXSAVE.
    unsafe { read_xcr0() }
}

/// # Safety
/// The CPU must have OSXSAVE.
#[target_feature(enable = "xsave")]
unsafe fn read_xcr0() -> u64 {
    // SAFETY: the caller's obligation.
    unsafe { _xgetbv(0) }
}

/// The state components among `of` that are in use after this thread has called the C library's memory and
/// string functions, as any compiled code may. The registers used by these functions depend on the CPU and on
/// the library's tunables. No other code in this program uses registers that `vzeroupper` does not clear,
/// unless it is compiled for AVX-512. Call only after [`check`].
pub fn left_by_library(of: u32) -> u32 {
    if cfg!(target_feature = "avx512f") {
        return of;
    }
    #[repr(align(64))]
    struct Image([u8; 4096]);
    let initial = Image([0; 4096]);
    // SAFETY: an image whose header names no component resets the requested ones to their initial state;
    // compiled code keeps nothing in them across this call.
    unsafe { initialise(&initial.0, of) };
    let (mut to, mut from) = ([0_u8; 8192], [1_u8; 8192]);
    for len in [1, 7, 16, 31, 33, 64, 100, 255, 500, 1_500, 4_096, 8_191] {
        from[len] = 0;
        // SAFETY: all lengths are within the buffers, and all strings end in them.
        unsafe {
            let (to, from) = (black_box(to.as_mut_ptr()), black_box(from.as_ptr()));
            libc::memset(to.cast(), 2, len);
            libc::memcpy(to.cast(), from.cast(), len);
            libc::memmove(to.add(1).cast(), to.cast_const().cast(), len);
            black_box(libc::memcmp(to.cast_const().cast(), from.cast(), len));
            black_box(libc::memchr(from.cast(), 3, len));
            black_box(libc::strlen(from.cast()));
            black_box(libc::strchr(from.cast(), 3));
            libc::strncpy(to.cast(), from.cast(), len + 1);
            black_box(libc::strcmp(to.cast_const().cast(), from.cast()));
            black_box(libc::strncmp(to.cast_const().cast(), from.cast(), len));
        }
        from[len] = 1;
    }
    // SAFETY: `check` has verified XGETBV(1).
    unsafe { read_in_use() & of }
}

/// # Safety
/// `image` must be valid for `xrstor` and aligned to 64 bytes, and `components` must exclude those that
/// compiled code uses.
#[target_feature(enable = "xsave")]
unsafe fn initialise(image: &[u8; 4096], components: u32) {
    // SAFETY: the caller's obligation.
    unsafe { _xrstor64(image.as_ptr(), components.into()) }
}

/// # Safety
/// The CPU must have XGETBV with ECX = 1.
#[target_feature(enable = "xsave")]
unsafe fn read_in_use() -> u32 {
    // SAFETY: the caller's obligation.
    unsafe { _xgetbv(1) as u32 }
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
