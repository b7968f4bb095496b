//! Trails: the pages of code and the memory that a guest accesses when it runs, for [`Footprint`]s.
//!
//! Each guest has page tables of its own, even for code shared by all guests of a kind. A program that runs
//! for a fraction of a microsecond at a time spends most of that time on the first access to each page.
//! Single-stepping it once shows which pages these are; guests that wait at the same instruction of the same
//! program access the same ones.

use crate::layout::{HUGE_PAGE, PAGE};
use crate::rewrite::{LONGEST_INSTRUCTION, SharedText};
use crate::space::Space;
use belljar_base::{CACHE_LINE, Footprint, Map};
use belljar_shim::context::Regs;
use iced_x86::{Decoder, DecoderOptions, InstructionInfoFactory, Register};
use std::sync::{Arc, Mutex, PoisonError};

/// Upper bound on the addresses of a trail.
const PLACES: usize = 64;
/// Number of resumes recorded for a trail.
pub const RESUMES: u32 = 6;
/// Upper bound on the instructions recorded for each resume.
pub const STEPS: u32 = 500;
/// Upper bound on the number of origins with a trail; guests that wait at further origins are not recorded.
const ORIGINS: usize = 1024;
/// Distance below the stack pointer within which an address is on the stack.
const STACK_BELOW: u64 = 16 << 10;
/// Distance above the stack pointer within which an address is on the stack.
const STACK_ABOVE: u64 = 64 << 10;
/// Distance behind an image within which an address is its data.
const DATA: u64 = 16 << 20;

/// An address relative to a base that moves with the guest, so that it is valid in another guest of the same
/// kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Place {
    Stack(i64),
    /// Offset from the start of a window's image.
    Image(usize, i64),
    FromStart(u64),
    FromEnd(u64),
}

impl Place {
    fn of(address: u64, stack: u64, space: &Space) -> Option<Place> {
        let slot = &space.slot;
        let at = address.wrapping_sub(stack) as i64;
        if -(STACK_BELOW as i64) < at && at < STACK_ABOVE as i64 {
            return Some(Place::Stack(at));
        }
        if !slot.whole.contains(&address) {
            return None;
        }
        let near = |window: &SharedText| (window.range().start..window.range().end + DATA).contains(&address);
        let windows = space.rewriter.windows().iter().enumerate().filter(|(_, window)| near(window));
        if let Some((n, window)) = windows.max_by_key(|(_, window)| window.range().start) {
            return Some(Place::Image(n, address.wrapping_sub(window.below().end) as i64));
        }
        let middle = slot.whole.start + (slot.whole.end - slot.whole.start) / 2;
        Some(match address < middle {
            true => Place::FromStart(address.wrapping_sub(slot.usable.start)),
            false => Place::FromEnd(slot.usable.end.wrapping_sub(address)),
        })
    }

    fn address(self, stack: u64, space: &Space) -> Option<u64> {
        let slot = &space.slot;
        Some(match self {
            Place::Stack(at) => stack.wrapping_add_signed(at),
            Place::Image(n, at) => space.rewriter.windows().get(n)?.below().end.wrapping_add_signed(at),
            Place::FromStart(at) => slot.usable.start.wrapping_add(at),
            Place::FromEnd(at) => slot.usable.end.wrapping_sub(at),
        })
    }
}

/// The instruction at which a guest waits: the key of its trail.
type Origin = Place;

/// State of the trail of an origin.
enum Known {
    /// The slot's start of the only guest that has waited there. It is recorded once a second guest waits
    /// there.
    One(u64),
    /// A trail is being recorded.
    BeingFollowed,
    Trail(Arc<[Place]>),
}

static KNOWN: Mutex<Map<Origin, Known>> = Mutex::new(Map::new());

/// Adds the trail of a waiting guest to a footprint. If the trail is unknown and another guest waits at the
/// same origin, returns a recording to be started.
pub fn tell(regs: &Regs, space: &Space, may_follow: bool, footprint: &mut Footprint) -> Option<Follower> {
    let origin = Place::of(regs.rip, regs.rsp, space)?;
    let mut all = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    match all.get(&origin) {
        Some(Known::Trail(trail)) => {
            let trail = trail.clone();
            drop(all);
            let addresses = trail.iter().filter_map(|place| place.address(regs.rsp, space));
            addresses.for_each(|address| footprint.bytes(address as usize, 1));
            return None;
        }
        Some(Known::One(slot)) if *slot != space.slot.whole.start && may_follow => {
            all.insert(origin, Known::BeingFollowed);
        }
        None if may_follow && all.len() < ORIGINS => {
            all.insert(origin, Known::One(space.slot.whole.start));
            return None;
        }
        _ => return None,
    }
    Some(Follower {
        origin,
        stack: regs.rsp,
        resumes: RESUMES,
        places: Vec::new(),
        info: InstructionInfoFactory::new(),
    })
}

/// The recording of a guest's trail.
pub struct Follower {
    origin: Origin,
    stack: u64,
    resumes: u32,
    places: Vec<Place>,
    info: InstructionInfoFactory,
}

impl Follower {
    /// Records the accesses of the instruction at `regs.rip`, which executes natively at `at`.
    pub fn steps(&mut self, regs: &Regs, at: u64, space: &Space) {
        self.goes_to_page(regs.rip, space);
        self.goes_to_page(at, space);
        let mut code = [0; LONGEST_INSTRUCTION];
        let code = space.bytes_at(regs.rip, &mut code);
        let instruction = Decoder::with_ip(64, code, regs.rip, DecoderOptions::NONE).decode();
        let used = self.info.info(&instruction).used_memory().iter();
        let used: Vec<u64> = used
            .filter_map(|memory| memory.virtual_address(0, |register, _, _| value(register, regs)))
            .collect();
        for address in used {
            self.goes_to(address & !(CACHE_LINE as u64 - 1), space);
        }
    }

    fn goes_to(&mut self, address: u64, space: &Space) {
        let mut windows = space.rewriter.windows().iter();
        let is_huge = windows.any(|window| window.huge().contains(&address));
        // One address stands for the whole huge page: its content is shared by all guests that run it, and
        // thus cached.
        let address = if is_huge { address & !(HUGE_PAGE - 1) } else { address };
        let Some(place) = Place::of(address, self.stack, space) else { return };
        if self.places.len() < PLACES && !self.places.contains(&place) {
            self.places.push(place);
        }
    }
    /// Records one address of code for each page: the cache lines of code are shared by all guests that run
    /// it, and thus cached.
    fn goes_to_page(&mut self, address: u64, space: &Space) {
        self.goes_to(address & !(PAGE - 1), space);
    }

    /// Counts a resume. True if the recording is complete.
    pub fn came_back(&mut self) -> bool {
        self.resumes -= 1;
        if self.resumes > 0 {
            return false;
        }
        let mut all = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        all.insert(self.origin, Known::Trail(self.places.as_slice().into()));
        true
    }
}

fn value(register: Register, regs: &Regs) -> Option<u64> {
    Some(match register {
        Register::RAX => regs.rax,
        Register::RBX => regs.rbx,
        Register::RCX => regs.rcx,
        Register::RDX => regs.rdx,
        Register::RSI => regs.rsi,
        Register::RDI => regs.rdi,
        Register::RBP => regs.rbp,
        Register::RSP => regs.rsp,
        Register::R8 => regs.r8,
        Register::R9 => regs.r9,
        Register::R10 => regs.r10,
        Register::R11 => regs.r11,
        Register::R12 => regs.r12,
        Register::R13 => regs.r13,
        Register::R14 => regs.r14,
        Register::R15 => regs.r15,
        Register::FS => regs.fs_base,
        Register::GS => regs.gs_base,
        // The other segments start at 0.
        Register::CS | Register::DS | Register::ES | Register::SS => 0,
        _ => return None,
    })
}
