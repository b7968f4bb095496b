//! The saved state of a guest thread.

use super::cpu::{self, SHOWN, SHOWN_SIZE, XSAVE_SIZE, XsaveLayout};
use belljar_kernel::machine::{Regs, SpaceId};

/// Offsets inside an XSAVE image (Intel SDM volume 1, 13.4).
pub mod xsave {
    /// x87 control word.
    pub const FCW: usize = 0;
    /// MXCSR.
    pub const MXCSR: usize = 24;
    /// The MXCSR bits that the CPU has.
    pub const MXCSR_MASK: usize = 28;
    /// ST0 to ST7.
    pub const ST: usize = 32;
    /// XMM0 to XMM15.
    pub const XMM: usize = 160;
    /// What FXSAVE leaves to software.
    pub const SOFTWARE: usize = 464;
    /// XSTATE_BV, the components that are not in their initial state.
    pub const XSTATE_BV: usize = 512;
    /// XCOMP_BV, the form and contents of a compacted image.
    pub const XCOMP_BV: usize = 520;
    /// The header's end: the extended area.
    pub const EXTENDED: usize = 576;
    /// K0 to K7 in compacted form with all of AVX-512.
    pub const OPMASK: usize = 832;
    /// ZMM16 to ZMM31 in compacted form with all of AVX-512.
    pub const HI16_ZMM: usize = 1408;
}

const X87: u64 = 1;
const SSE: u64 = 2;
const AVX: u64 = 4;
const DEFAULT_FCW: u16 = 0x37f;
/// MXCSR after `execve`: all exceptions masked, round to nearest.
pub const DEFAULT_MXCSR: u32 = 0x1f80;
/// The MXCSR bits of the baseline; AMD has one more, which is not shown.
const SHOWN_MXCSR: u32 = 0xffff;

/// `exit_rip` of a context whose way on must be looked up.
pub const LOOK_UP: u64 = u64::MAX;

/// General registers and vector state; the entry code reads and writes it by fixed offsets.
#[repr(C, align(64))]
#[derive(Clone)]
pub struct Context {
    /// As the kernel sees them.
    pub regs: Regs,
    /// RIP at the last exit if `resume_at` belongs to it, else [`LOOK_UP`].
    pub exit_rip: u64,
    /// Where to go on natively while `regs.rip` is still `exit_rip`: in a stub, perhaps.
    pub resume_at: u64,
    /// The generation of the space's patches that `resume_at` comes from.
    pub generation: u32,
    /// Where it runs.
    pub space: u32,
    /// Vector state in compacted form.
    pub xsave: Xsave,
}

/// An XSAVE image with room for the largest layout.
#[repr(C, align(64))]
#[derive(Clone)]
pub struct Xsave(pub [u8; XSAVE_SIZE]);

impl Xsave {
    fn u64_at(&self, offset: usize) -> u64 {
        u64::from_le_bytes(self.0[offset..offset + 8].try_into().expect("8 bytes"))
    }
    fn put(&mut self, offset: usize, bytes: &[u8]) {
        self.0[offset..offset + bytes.len()].copy_from_slice(bytes);
    }
    /// The components not in their initial state.
    pub fn in_use(&self) -> u64 {
        self.u64_at(xsave::XSTATE_BV)
    }
    /// Declares which components are not in their initial state.
    pub fn set_in_use(&mut self, components: u64) {
        self.put(xsave::XSTATE_BV, &components.to_le_bytes());
    }

    /// The state of a new process.
    fn initial(layout: &XsaveLayout) -> Xsave {
        let mut area = Xsave([0; XSAVE_SIZE]);
        area.put(xsave::FCW, &DEFAULT_FCW.to_le_bytes());
        area.put(xsave::MXCSR, &DEFAULT_MXCSR.to_le_bytes());
        area.set_in_use(SSE);
        area.put(xsave::XCOMP_BV, &(layout.mask | 1 << 63).to_le_bytes());
        area
    }

    /// Takes over the image in standard form that Linux puts into a signal frame. Async-signal-safe.
    ///
    /// # Safety
    /// `frame` must point to such an image with everything of `layout` in it.
    pub unsafe fn load_frame(&mut self, frame: *const u8, layout: &XsaveLayout) {
        // SAFETY: passed on to the caller.
        let at = |offset, len| unsafe { std::slice::from_raw_parts(frame.add(offset), len) };
        let mut in_use =
            u64::from_le_bytes(at(xsave::XSTATE_BV, 8).try_into().expect("8 bytes")) & layout.mask;
        self.put(0, at(0, xsave::ST));
        // Linux always reports x87 as in use: looking saves the next resume an `xrstor`.
        if is_initial_x87(at(0, xsave::XMM)) {
            in_use &= !X87;
        } else {
            self.put(xsave::ST, at(xsave::ST, xsave::XMM - xsave::ST));
        }
        self.put(xsave::XMM, at(xsave::XMM, 256));
        for component in layout.components.iter().filter(|c| c.bit & in_use != 0) {
            self.put(component.compacted, at(component.standard, component.size));
        }
        self.set_in_use(in_use | SSE);
    }

    /// The image that guests are shown: standard form, the baseline's components.
    fn shown(&self, out: &mut Vec<u8>) {
        let in_use = self.in_use();
        out.clear();
        out.resize(SHOWN_SIZE, 0);
        out[xsave::MXCSR..xsave::MXCSR + 4].copy_from_slice(&DEFAULT_MXCSR.to_le_bytes());
        out[xsave::FCW..xsave::FCW + 2].copy_from_slice(&DEFAULT_FCW.to_le_bytes());
        if in_use & X87 != 0 {
            out[..xsave::MXCSR].copy_from_slice(&self.0[..xsave::MXCSR]);
            out[xsave::ST..xsave::XMM].copy_from_slice(&self.0[xsave::ST..xsave::XMM]);
        }
        if in_use & SSE != 0 {
            out[xsave::MXCSR..xsave::MXCSR_MASK].copy_from_slice(&self.0[xsave::MXCSR..xsave::MXCSR_MASK]);
            out[xsave::XMM..xsave::XMM + 256].copy_from_slice(&self.0[xsave::XMM..xsave::XMM + 256]);
        }
        out[xsave::MXCSR_MASK..xsave::ST].copy_from_slice(&SHOWN_MXCSR.to_le_bytes());
        // Whether the CPU still tracks an all-zero upper half as in use differs between CPUs.
        let upper = &self.0[xsave::EXTENDED..SHOWN_SIZE];
        let mut shown = X87 | SSE;
        if in_use & AVX != 0 && upper.iter().any(|&b| b != 0) {
            out[xsave::EXTENDED..].copy_from_slice(upper);
            shown |= AVX;
        }
        out[xsave::XSTATE_BV..xsave::XSTATE_BV + 8].copy_from_slice(&shown.to_le_bytes());
    }

    /// Loads what [`shown`](Self::shown) gave and a guest may have changed. Whatever the CPU would
    /// refuse is repaired; components outside the baseline return to their initial state.
    fn load_shown(&mut self, state: &[u8], layout: &XsaveLayout) {
        *self = Xsave::initial(layout);
        let legacy = state.len().min(xsave::SOFTWARE);
        self.0[..legacy].copy_from_slice(&state[..legacy]);
        let mxcsr = self.u64_at(xsave::MXCSR) as u32 & SHOWN_MXCSR;
        self.put(xsave::MXCSR, &mxcsr.to_le_bytes());
        let mut in_use = X87 | SSE;
        if state.len() >= SHOWN_SIZE {
            let header = &state[xsave::XSTATE_BV..xsave::XSTATE_BV + 8];
            in_use = u64::from_le_bytes(header.try_into().expect("8 bytes")) & SHOWN;
            self.put(xsave::EXTENDED, &state[xsave::EXTENDED..SHOWN_SIZE]);
        }
        if in_use & SSE == 0 {
            self.put(xsave::MXCSR, &DEFAULT_MXCSR.to_le_bytes());
            self.0[xsave::XMM..xsave::XMM + 256].fill(0);
        }
        if is_initial_x87(&self.0[..xsave::XMM]) {
            in_use &= !X87;
        }
        self.set_in_use(in_use | SSE);
    }
}

/// Whether the x87 part of an image is what `fninit` leaves, with all registers zero.
fn is_initial_x87(image: &[u8]) -> bool {
    image[..2] == DEFAULT_FCW.to_le_bytes()
        && image[2..xsave::MXCSR].iter().all(|&b| b == 0)
        && image[xsave::ST..xsave::XMM].iter().all(|&b| b == 0)
}

impl Context {
    /// A context with the vector state of a new process.
    pub fn new(space: SpaceId, regs: &Regs) -> Context {
        let xsave = Xsave::initial(cpu::xsave_layout());
        Context { regs: *regs, exit_rip: LOOK_UP, resume_at: 0, generation: 0, space: space.0, xsave }
    }
    /// See `Platform::xstate`.
    pub fn xstate(&self, out: &mut Vec<u8>) {
        self.xsave.shown(out);
    }
    /// See `Platform::set_xstate`.
    pub fn set_xstate(&mut self, state: &[u8]) {
        self.xsave.load_shown(state, cpu::xsave_layout());
    }
}
