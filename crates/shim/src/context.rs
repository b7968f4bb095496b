//! Saved state of a guest thread.

use crate::xstate::{
    AVX, DEFAULT_FCW, DEFAULT_MXCSR, SHOWN, SHOWN_SIZE, SSE, X87, XSAVE_SIZE, XsaveLayout, offset,
};

/// MXCSR bits of the baseline; AMD processors have one more, which is hidden.
const SHOWN_MXCSR: u32 = 0xffff;

/// General registers of a guest thread, in the order of the kernel's `struct user_regs_struct` as far as it
/// contains them; same layout as the simulated kernel's type.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Regs {
    pub r15: u64,
    pub r14: u64,
    pub r13: u64,
    pub r12: u64,
    pub rbp: u64,
    pub rbx: u64,
    pub r11: u64,
    pub r10: u64,
    pub r9: u64,
    pub r8: u64,
    pub rax: u64,
    pub rcx: u64,
    pub rdx: u64,
    pub rsi: u64,
    pub rdi: u64,
    pub rip: u64,
    pub rflags: u64,
    pub rsp: u64,
    pub fs_base: u64,
    pub gs_base: u64,
}

/// Value of `exit_rip` that requires a lookup of the native resume address.
pub const LOOK_UP: u64 = u64::MAX;

/// General registers and vector state of a guest thread; the entry code accesses it by fixed offsets.
#[repr(C, align(64))]
#[derive(Clone)]
pub struct Context {
    /// General registers as visible to the kernel.
    pub regs: Regs,
    /// RIP at the last exit if `resume_at` corresponds to it, else [`LOOK_UP`].
    pub exit_rip: u64,
    /// Native address to resume at if `regs.rip` still equals `exit_rip`: it may be in a stub.
    pub resume_at: u64,
    /// Generation of the space's patches at which `resume_at` was determined.
    pub generation: u32,
    /// Index of its address space.
    pub space: u32,
    /// Serial number among all contexts of its host; 0 until assigned.
    pub number: u64,
    /// Ids returned by stubs, in the order of [`crate::worker::ANSWERED`] after the clocks; negative if the
    /// system call must be made.
    pub ids: [i64; IDS],
    /// Vector state in compacted form.
    pub xsave: Xsave,
}

/// Number of id calls that stubs answer.
pub const IDS: usize = 8;
/// Value of [`Context::ids`] for which stubs answer no id call.
pub const NO_IDS: [i64; IDS] = [-1; IDS];

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
    /// The components that are not in their initial state (XSTATE_BV).
    pub fn in_use(&self) -> u64 {
        self.u64_at(offset::XSTATE_BV)
    }
    /// Sets the components that are not in their initial state (XSTATE_BV).
    pub fn set_in_use(&mut self, components: u64) {
        self.put(offset::XSTATE_BV, &components.to_le_bytes());
    }

    /// Vector state of a new process.
    pub fn initial(layout: &XsaveLayout) -> Xsave {
        let mut area = Xsave([0; XSAVE_SIZE]);
        area.put(offset::FCW, &DEFAULT_FCW.to_le_bytes());
        area.put(offset::MXCSR, &DEFAULT_MXCSR.to_le_bytes());
        area.set_in_use(SSE);
        area.put(offset::XCOMP_BV, &(layout.mask | 1 << 63).to_le_bytes());
        area
    }

    /// Loads the image in standard form that Linux stores in a signal frame. Async-signal-safe.
    ///
    /// # Safety
    /// `frame` must point to such an image that contains all components of `layout`.
    pub unsafe fn load_frame(&mut self, frame: *const u8, layout: &XsaveLayout) {
        // SAFETY: the caller's obligation.
        let at = |offset, len| unsafe { core::slice::from_raw_parts(frame.add(offset), len) };
        let mut in_use =
            u64::from_le_bytes(at(offset::XSTATE_BV, 8).try_into().expect("8 bytes")) & layout.mask;
        self.put(0, at(0, offset::ST));
        // Linux always marks x87 as in use: this check saves the next resume an `xrstor`.
        if is_initial_x87(at(0, offset::XMM)) {
            in_use &= !X87;
        } else {
            self.put(offset::ST, at(offset::ST, offset::XMM - offset::ST));
        }
        self.put(offset::XMM, at(offset::XMM, 256));
        for component in layout.components.iter().filter(|c| c.bit & in_use != 0) {
            self.put(component.compacted, at(component.standard, component.size));
        }
        self.set_in_use(in_use | SSE);
    }

    /// The image visible to guests: standard form, components of the baseline.
    pub fn shown(&self) -> [u8; SHOWN_SIZE] {
        let in_use = self.in_use();
        let mut out = [0; SHOWN_SIZE];
        out[offset::MXCSR..offset::MXCSR + 4].copy_from_slice(&DEFAULT_MXCSR.to_le_bytes());
        out[offset::FCW..offset::FCW + 2].copy_from_slice(&DEFAULT_FCW.to_le_bytes());
        if in_use & X87 != 0 {
            out[..offset::MXCSR].copy_from_slice(&self.0[..offset::MXCSR]);
            out[offset::ST..offset::XMM].copy_from_slice(&self.0[offset::ST..offset::XMM]);
        }
        if in_use & SSE != 0 {
            out[offset::MXCSR..offset::MXCSR_MASK]
                .copy_from_slice(&self.0[offset::MXCSR..offset::MXCSR_MASK]);
            out[offset::XMM..offset::XMM + 256].copy_from_slice(&self.0[offset::XMM..offset::XMM + 256]);
        }
        out[offset::MXCSR_MASK..offset::ST].copy_from_slice(&SHOWN_MXCSR.to_le_bytes());
        // CPUs differ in whether an all-zero upper half counts as in use.
        let upper = &self.0[offset::EXTENDED..SHOWN_SIZE];
        let mut shown = X87 | SSE;
        if in_use & AVX != 0 && upper.iter().any(|&b| b != 0) {
            out[offset::EXTENDED..].copy_from_slice(upper);
            shown |= AVX;
        }
        out[offset::XSTATE_BV..offset::XSTATE_BV + 8].copy_from_slice(&shown.to_le_bytes());
        out
    }

    /// Loads an image from [`shown`](Self::shown) that a guest may have changed. Invalid content that the CPU
    /// would refuse is repaired; components outside the baseline return to their initial state.
    pub fn load_shown(&mut self, state: &[u8], layout: &XsaveLayout) {
        *self = Xsave::initial(layout);
        let legacy = state.len().min(offset::SOFTWARE);
        self.0[..legacy].copy_from_slice(&state[..legacy]);
        let mxcsr = self.u64_at(offset::MXCSR) as u32 & SHOWN_MXCSR;
        self.put(offset::MXCSR, &mxcsr.to_le_bytes());
        let mut in_use = X87 | SSE;
        if state.len() >= SHOWN_SIZE {
            let header = &state[offset::XSTATE_BV..offset::XSTATE_BV + 8];
            in_use = u64::from_le_bytes(header.try_into().expect("8 bytes")) & SHOWN;
            self.put(offset::EXTENDED, &state[offset::EXTENDED..SHOWN_SIZE]);
        }
        if in_use & SSE == 0 {
            self.put(offset::MXCSR, &DEFAULT_MXCSR.to_le_bytes());
            self.0[offset::XMM..offset::XMM + 256].fill(0);
        }
        if is_initial_x87(&self.0[..offset::XMM]) {
            in_use &= !X87;
        }
        self.set_in_use(in_use | SSE);
    }
}

/// True if the x87 part of an image equals the state after `fninit`, with all registers zero.
fn is_initial_x87(image: &[u8]) -> bool {
    image[..2] == DEFAULT_FCW.to_le_bytes()
        && image[2..offset::MXCSR].iter().all(|&b| b == 0)
        && image[offset::ST..offset::XMM].iter().all(|&b| b == 0)
}

impl Context {
    /// A context of `space` with the vector state of a new process.
    pub fn new(space: u32, regs: &Regs, layout: &XsaveLayout) -> Context {
        let xsave = Xsave::initial(layout);
        Context {
            regs: *regs,
            exit_rip: LOOK_UP,
            resume_at: 0,
            generation: 0,
            space,
            number: 0,
            ids: NO_IDS,
            xsave,
        }
    }
}
