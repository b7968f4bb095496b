//! Layout of vector and floating-point state in memory.

/// Offsets inside an XSAVE image (Intel SDM volume 1, 13.4).
pub mod offset {
    /// x87 control word.
    pub const FCW: usize = 0;
    /// MXCSR.
    pub const MXCSR: usize = 24;
    /// Mask of the MXCSR bits that the CPU supports.
    pub const MXCSR_MASK: usize = 28;
    /// ST0 to ST7.
    pub const ST: usize = 32;
    /// XMM0 to XMM15.
    pub const XMM: usize = 160;
    /// Bytes that FXSAVE leaves to software.
    pub const SOFTWARE: usize = 464;
    /// XSTATE_BV: the components that are not in their initial state.
    pub const XSTATE_BV: usize = 512;
    /// XCOMP_BV: format and components of a compacted image.
    pub const XCOMP_BV: usize = 520;
    /// End of the header and start of the extended area.
    pub const EXTENDED: usize = 576;
    /// K0 to K7 in compacted form with all of AVX-512.
    pub const OPMASK: usize = 832;
    /// ZMM16 to ZMM31 in compacted form with all of AVX-512.
    pub const HI16_ZMM: usize = 1408;
}

/// Component of the x87 registers.
pub const X87: u64 = 1;
/// Component of XMM0 to XMM15.
pub const SSE: u64 = 1 << 1;
/// Component of the upper halves of YMM0 to YMM15.
pub const AVX: u64 = 1 << 2;
/// Component of K0 to K7.
pub const OPMASK: u64 = 1 << 5;
/// Component of ZMM16 to ZMM31.
pub const HI16_ZMM: u64 = 1 << 7;
/// Components visible to guests: x87, SSE and AVX.
pub const SHOWN: u64 = X87 | SSE | AVX;
/// Components saved for guests: x87, SSE, AVX and AVX-512. AVX-512 cannot be hidden on every CPU, so programs
/// may use it nevertheless.
pub const KEPT: u64 = 0b1110_0111;

/// Size in bytes of the state visible to guests, in standard form.
pub const SHOWN_SIZE: usize = 832;
/// Size in bytes of an image of all components in [`KEPT`], in compacted form.
pub const XSAVE_SIZE: usize = 2496;

/// The x87 control word after `execve`.
pub const DEFAULT_FCW: u16 = 0x37f;
/// MXCSR after `execve`: all exceptions masked, round to nearest.
pub const DEFAULT_MXCSR: u32 = 0x1f80;

/// One XSAVE state component beyond x87 and SSE.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct Component {
    /// Bit in XSTATE_BV.
    pub bit: u64,
    /// Size in bytes.
    pub size: usize,
    /// Offset in the standard form, as in Linux's signal frames.
    pub standard: usize,
    /// Offset in the compacted form that `xsavec` with [`XsaveLayout::mask`] writes.
    pub compacted: usize,
}

/// Layout of the images that `xsavec` writes.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct XsaveLayout {
    /// Components that are saved and restored.
    pub mask: u64,
    /// Components beyond x87 and SSE; unused entries have `bit` 0.
    pub components: [Component; 6],
}

impl XsaveLayout {
    /// Components that the entry code can load only by `xrstor`: x87 and the upper halves of ZMM0 to ZMM15,
    /// and those of AVX-512 that do not lie at the entry code's fixed offsets.
    pub fn not_by_hand(&self) -> u32 {
        let expected = |c: &Component| match c.bit {
            AVX => c.compacted == offset::EXTENDED,
            OPMASK => c.compacted == offset::OPMASK,
            HI16_ZMM => c.compacted == offset::HI16_ZMM,
            _ => false,
        };
        let by_hand: u64 = self.components.iter().filter(|c| expected(c)).map(|c| c.bit).sum();
        (self.mask & !(by_hand | SSE)) as u32
    }

    /// Components that stay in use after `vzeroupper` although the entry code loads them by moves.
    pub fn not_cleared(&self) -> u32 {
        (self.mask & (OPMASK | HI16_ZMM)) as u32
    }
}
