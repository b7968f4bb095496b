//! Rewriting of call sites: `syscall` instructions that jump to the platform instead of trapping.
//!
//! **Problem.** Syscall User Dispatch turns each `syscall` of a guest into a SIGSYS: Linux builds a signal
//! frame and the platform takes it apart, at many times the cost of the simulated call. The site has two
//! bytes; a jump has five. Overwritten bytes may be the target of other branches, or not an instruction at
//! all.
//!
//! **Insight.** Most sites have enough bytes. In `mov $nr, %eax; syscall` the `mov` alone has five, and a
//! jump straight to the `syscall` still traps, which is correct if slow. Elsewhere the instructions behind
//! the `syscall` can move to a stub, provided that no direct branch of the image leads into them. Guessing is
//! unnecessary: a site that has trapped is an instruction, with a number in RAX that the `mov` must match.
//!
//! **Algorithm.** A site in private, file-backed text is considered at its second trap
//! ([`Rewriter::trapped`]): most sites of a starting program run once, and copying a page costs more than a
//! trap. [`analyse`] finds its form, per file, offset and length, once for all guests of the process:
//!
//! * **A**: the `mov $nr` before the `syscall` becomes a jump to a stub. Nothing is displaced.
//! * **B**: the `syscall` and the instructions behind it become a jump to a stub, which ends with the
//!   displaced instructions and a jump back.
//!
//! [`stub`] generates the code, which enters the platform through GS and so serves near and far guests alike.
//! Stubs lie in chunks at the ends of the slot, or near images with fixed addresses, within reach of a 32-bit
//! jump. Stubs are invisible to the kernel: an address in a stub is reported as the corresponding address of
//! the unmodified code ([`Rewriter::visible`]) and translated back at the next resume ([`Rewriter::native`]).
//! Sites in pages that are mapped over or discarded are forgotten ([`Rewriter::content_gone`]); text that
//! becomes writable is rewritten no further; the original code is restored for a debugger
//! ([`Rewriter::undo`]). Images that many guests map are rewritten once, before they run: see [`shared`]. The
//! sites of the synthetic vDSO answer from the worker block if possible ([`clock`]), sites of calls that
//! return ids from the context ([`ids`]).
//!
//! Instructions that read the machine and cannot trap are replaced by [`TRAP`] when an image is mapped
//! ([`reads`]): RDRAND, RDSEED and RDPID; `cpuid` if the CPU lacks CPUID faulting, and in virtual machines,
//! where a trap costs a fifth of a `cpuid`; RDTSC and RDTSCP where Linux does not make them trap.
//!
//! **Limits.** Anonymous, shared and writable memory is never rewritten, so code of JIT compilers keeps
//! trapping. So do sites for which neither form applies, such as those with a branch into the bytes to be
//! displaced, sites that need form B in texts longer than 128 MiB, and `rt_sigreturn`, which unwinders
//! recognise by its bytes. Indirect jumps into displaced instructions are not detected: compilers emit none
//! behind a `syscall`. A program that reads its own text sees the jumps.
//!
//! Instructions that read the machine and lie in other memory, or are not proven, keep their native results;
//! [`Rewriter::native_reads`] lists those in text, `Space::native_reads` the others.

mod analyse;
mod clock;
mod cpuid_sites;
mod ids;
mod read_sites;
pub(crate) mod reads;
mod shared;
mod sites;
mod stub;

use crate::layout::{self, PAGE, Slot};
use crate::native::Native;
use crate::registry;
pub use analyse::FileKey;
use analyse::Form;
use belljar_base::Set;
use belljar_linux_abi::Errno;
use belljar_machine::{ImageRoom, NativeRead};
pub(crate) use read_sites::Read;
use reads::HardwareReads;
pub use shared::SharedText;
use sites::{Sites, Visible};
use std::ops::Range;
use std::sync::Arc;

/// `hlt`: raises a general-protection exception in user code. `ud2` is unsuitable: hypervisors intercept its
/// exception, which then costs as much as `cpuid` itself.
const TRAP: u8 = 0xf4;
/// Bytes of the longest instruction (Intel SDM, volume 2, 2.3.11).
pub(crate) const LONGEST_INSTRUCTION: usize = 15;
const SYS_RT_SIGRETURN: u64 = 15;
/// Size of a chunk of stubs in bytes; a stub takes 32 to 144.
const CHUNK: u64 = 64 << 10;
/// Distance within which a 32-bit jump connects every address of a stub with every address of a site.
const REACH: u64 = (1 << 31) - 2 * CHUNK;
/// Addresses for chunks near fixed addresses, searched downwards: above the addresses that images and the
/// heaps behind them usually occupy, and within reach of all of them.
const LOW_CHUNKS: Range<u64> = 0x1000_0000..0x7ff0_0000;

/// The stub at `at` for the `syscall` at `site`, which makes call `nr` if it is of form A.
fn stub_of(form: &Form, at: u64, site: u64, nr: u64) -> Option<stub::Stub> {
    match form {
        Form::A { mov } => ids::stub(at, site, mov, nr).or_else(|| stub::form_a(at, site, mov)),
        Form::B { displaced } => stub::form_b(at, site, displaced),
    }
}

/// The rewritten sites of one address space.
#[derive(Clone, Debug, Default)]
pub struct Rewriter {
    text: Vec<Text>,
    /// Sites rewritten in this space alone.
    own: Sites,
    /// Windows of shared images, whose sites were rewritten before they were mapped.
    windows: Vec<SharedText>,
    /// Addresses of `syscall` instructions that have trapped at least once (`seen`), and of those never to be
    /// rewritten (`refused`).
    seen: Set<u64>,
    refused: Set<u64>,
    chunks: Vec<Chunk>,
    /// Starts of mappings with replaced instructions, and these. Never removed: a program may copy its text,
    /// to huge pages for instance.
    reads: Vec<(u64, Arc<HardwareReads>)>,
    /// Generation, incremented by changes that invalidate remembered addresses in stubs.
    pub generation: u32,
    /// True if rewriting has ended.
    retired: bool,
}

/// A mapping whose sites may be rewritten.
#[derive(Clone, Debug)]
struct Text {
    range: Range<u64>,
    file: FileKey,
    /// Offset of `range` in the file.
    offset: u64,
    /// Instructions that read the machine, and the address to which their offsets relate.
    reads: Arc<HardwareReads>,
    base: u64,
    /// True if replacing some of them failed.
    kept: bool,
    /// True if the content may differ from the file's: nothing further is rewritten.
    changed: bool,
}

#[derive(Clone, Debug)]
struct Chunk {
    start: u64,
    used: u64,
    /// True if the chunk lies outside the slot and must be unmapped separately.
    low: bool,
}

impl Rewriter {
    /// Records that `range` is now private file-backed text. `fd` is the file.
    pub fn text_mapped(&mut self, range: Range<u64>, fd: i32, offset: u64, native: &Native) {
        let Some(file) = FileKey::of(fd) else { return };
        let reads = analyse::hardware_reads(&file, fd, offset, range.end - range.start);
        let kept = !replace(range.start, &reads, &range, native);
        if let Native::Far(shim) = native {
            shim.answer_cpuids(reads.cpuids().map(|at| range.start + at));
        }
        let base = range.start;
        self.add_reads(base, &reads);
        self.text.push(Text { range, file, offset, reads, base, kept, changed: false });
    }

    /// True if code of the file open as `fd` is mapped.
    pub fn has_text_of(&self, fd: i32) -> bool {
        FileKey::of(fd).is_some_and(|file| self.text.iter().any(|text| text.file == file))
    }

    /// The preferred placement in `slot` of the image in the file open as `fd`.
    pub fn room(fd: i32, slot: &Slot) -> ImageRoom {
        let known = slot.index.and_then(|index| shared::layout(fd, index));
        known.map_or(ImageRoom::ANY, |(_, layout)| layout.room)
    }

    /// The window of a shared image that can be mapped instead of `range`, the text of the file's image.
    pub fn window(&self, range: &Range<u64>, fd: i32, offset: u64, slot: &Slot) -> Option<SharedText> {
        if self.retired {
            return None;
        }
        let window = SharedText::over(range, fd, offset, slot.index?)?;
        layout::contains(&slot.usable, &window.range()).then_some(window)
    }

    /// Records that a window has been mapped.
    pub fn window_mapped(&mut self, window: SharedText) {
        let (range, reads) = (window.text(), window.reads());
        let base = range.start;
        self.add_reads(base, &reads);
        let (file, offset) = (window.file, window.text_offset());
        self.text.push(Text { range, file, offset, reads, base, kept: false, changed: false });
        self.windows.push(window);
    }

    /// True if `range` already maps the file open as `fd` from `offset`, as part of a window, and has not
    /// changed since.
    pub fn shows(&self, range: &Range<u64>, fd: i32, offset: u64) -> bool {
        let found = self.windows.iter().find(|window| window.shows(range, offset));
        found.is_some_and(|window| FileKey::of(fd) == Some(window.file))
    }

    /// The mapped windows of shared images.
    pub fn windows(&self) -> &[SharedText] {
        &self.windows
    }

    /// Records that `range` is about to be mapped over or get another protection.
    pub fn window_changes(&mut self, range: &Range<u64>) {
        self.windows.iter_mut().for_each(|window| window.changes(range));
    }

    /// Records that `range` has been mapped over or unmapped. Returns the stub ranges of windows whose text
    /// is all gone.
    fn window_gone(&mut self, range: &Range<u64>, native: &Native) -> Vec<Range<u64>> {
        let (before, mut useless) = (self.windows.len(), Vec::new());
        self.windows.retain_mut(|window| {
            if layout::contains(range, &window.text()) {
                useless.push(window.below());
                return false;
            }
            window.outlives(range, native)
        });
        if self.windows.len() < before {
            self.generation = self.generation.wrapping_add(1);
        }
        useless
    }

    /// Records that `range` becomes writable.
    pub fn text_writable(&mut self, range: &Range<u64>) {
        self.text.iter_mut().filter(|t| layout::overlap(&t.range, range)).for_each(|t| t.changed = true);
    }

    fn add_reads(&mut self, start: u64, reads: &Arc<HardwareReads>) {
        if !reads.is_empty() {
            self.reads.push((start, reads.clone()));
        }
    }

    /// Addresses of all replaced `cpuid` instructions.
    pub fn cpuids(&self) -> impl Iterator<Item = u64> {
        self.reads.iter().flat_map(|(start, reads)| reads.cpuids().map(move |at| start + at))
    }

    /// The instruction that the trapping one at `rip` replaces.
    pub fn replaced(&self, rip: u64) -> Option<&Read> {
        self.reads.iter().find_map(|(start, reads)| reads.at(rip.checked_sub(*start)?))
    }

    /// Replaces instructions again in pages that have their original content.
    pub fn replace_again(&mut self, range: &Range<u64>, native: &Native) {
        for text in self.text.iter_mut().filter(|text| layout::overlap(&text.range, range)) {
            let part = text.range.start.max(range.start)..text.range.end.min(range.end);
            text.kept |= !replace(text.base, &text.reads, &part, native);
        }
    }

    /// True if `range` is text whose instructions have been searched, or belongs to a window.
    pub fn has_searched(&self, range: &Range<u64>) -> bool {
        let text = self.text.iter().filter(|text| !text.changed).map(|text| text.range.clone());
        text.chain(self.windows.iter().map(SharedText::range)).any(|known| layout::contains(&known, range))
    }

    /// Instructions in mapped text that read the machine and have not been replaced.
    pub fn native_reads(&self) -> impl Iterator<Item = NativeRead> {
        self.text.iter().filter(|text| !text.changed).flat_map(|text| {
            text.reads.native(text.base, text.kept).filter(|read| text.range.contains(&read.addr))
        })
    }

    /// Records that `range` has been mapped over or unmapped. Returns the stub ranges of windows whose text
    /// is all gone.
    pub fn text_gone(&mut self, range: &Range<u64>, native: &Native) -> Vec<Range<u64>> {
        let useless = self.window_gone(range, native);
        if !self.text.iter().any(|t| layout::overlap(&t.range, range)) {
            return useless;
        }
        self.content_gone(range);
        let mut kept = Vec::new();
        for text in self.text.drain(..) {
            if !layout::overlap(&text.range, range) {
                kept.push(text);
                continue;
            }
            for part in [text.range.start..range.start, range.end..text.range.end] {
                if part.start < part.end {
                    let offset = text.offset + (part.start - text.range.start);
                    kept.push(Text { range: part, offset, ..text.clone() });
                }
            }
        }
        self.text = kept;
        useless
    }

    /// Records that the pages of `range` have their original content again.
    pub fn content_gone(&mut self, range: &Range<u64>) {
        self.own.forget(range);
        self.seen.retain(|site| !range.contains(site));
        self.refused.retain(|site| !range.contains(site));
        self.generation = self.generation.wrapping_add(1);
    }

    /// Restores the original code of every site and ends rewriting. A thread stopped in a stub resumes at the
    /// address that the kernel sees.
    pub fn undo(&mut self, native: &Native) {
        self.retired = true;
        // On failure the jump stays, and so does its stub.
        self.own.retain(|site, patch| native.poke(site, &patch.original).is_err());
        self.windows.retain(|window| !window.give_back(native, &(0..0)));
        self.generation = self.generation.wrapping_add(1);
    }

    /// Native address at which a thread resumes that the kernel sees at `rip`.
    pub fn native(&self, rip: u64) -> u64 {
        self.own
            .native(rip)
            .or_else(|| self.windows.iter().find_map(|window| window.native(rip)))
            .unwrap_or(rip)
    }

    /// Address visible to the kernel of a thread that exited at `rip`, if `rip` is in a stub.
    pub fn visible(&self, rip: u64) -> Option<Visible> {
        if self.chunks.iter().any(|c| (c.start..c.start + c.used).contains(&rip)) {
            return self.own.visible(rip);
        }
        self.windows.iter().find_map(|window| window.visible(rip))
    }

    /// Considers rewriting the site whose trap left the thread at `rip`, behind the `syscall`, with `nr` in
    /// RAX.
    pub fn trapped(&mut self, rip: u64, nr: u64, slot: &Slot, native: &Native) {
        let site = rip - 2;
        if self.retired || nr == SYS_RT_SIGRETURN || self.refused.contains(&site) || self.seen.insert(site) {
            return;
        }
        if self.windows.iter().any(|window| window.has(site)) {
            self.refused.insert(site);
            return;
        }
        if self.rewrite(site, nr, slot, native).is_none() {
            self.refused.insert(site);
        }
    }

    fn rewrite(&mut self, site: u64, nr: u64, slot: &Slot, native: &Native) -> Option<()> {
        let within = |t: &&Text| !t.changed && layout::contains(&t.range, &(site..site + 2));
        let text = self.text.iter().find(within)?.clone();
        let form = analyse::form(&text.file, text.offset, &text.range, site, nr, native)?;
        let stub_at = self.room_for_stub(site, slot, native)?;
        let stub = match form {
            Form::A { ref mov } if crate::vdso::is(&text.file) => clock::stub(stub_at, site, mov, nr)?,
            _ => stub_of(&form, stub_at, site, nr)?,
        };
        let code = stub.jump_to(stub_at, &form)?;
        let mut original = vec![0; code.len()];
        native.read(stub.site, &mut original).ok()?;
        native.poke(stub_at, &stub.code).ok()?;
        native.poke(stub.site, &code).ok()?;
        let chunk = self.chunks.iter_mut().find(|c| c.start + c.used == stub_at)?;
        chunk.used += (stub.code.len() as u64).next_multiple_of(16);
        self.own.insert(stub, stub_at, original);
        // A jump straight to the `syscall` of form A keeps trapping.
        self.refused.insert(site);
        self.generation = self.generation.wrapping_add(1);
        Some(())
    }

    /// An address for a stub within reach of `site`.
    fn room_for_stub(&mut self, site: u64, slot: &Slot, native: &Native) -> Option<u64> {
        let reaches = |chunk: u64| chunk.abs_diff(site) < REACH;
        let free = |c: &&Chunk| c.used + stub::LONGEST <= CHUNK && reaches(c.start);
        if let Some(chunk) = self.chunks.iter().find(free) {
            return Some(chunk.start + chunk.used);
        }
        // All chunks of one end fill its room.
        for room in slot.stub_rooms().into_iter().filter(|room| reaches(room.start)) {
            let taken = self.chunks.iter().filter(|c| room.contains(&c.start));
            let start = room.start + taken.count() as u64 * CHUNK;
            if start + CHUNK <= room.end && map_chunk(start, native).is_ok() {
                self.chunks.push(Chunk { start, used: 0, low: false });
                return Some(start);
            }
        }
        if !layout::FIXED_AREA.contains(&site) {
            return None;
        }
        let start = match native {
            Native::Near => registry::claim_stubs(LOW_CHUNKS, CHUNK)?,
            Native::Far(_) => {
                let taken = self.low_chunks().map(|c| c.start).min().unwrap_or(LOW_CHUNKS.end);
                taken.checked_sub(CHUNK).filter(|start| *start >= LOW_CHUNKS.start)?
            }
        };
        if !reaches(start) || map_chunk(start, native).is_err() {
            if let Native::Near = native {
                registry::release_stubs(start);
            }
            return None;
        }
        self.chunks.push(Chunk { start, used: 0, low: true });
        Some(start)
    }

    /// Chunks outside the slot, which must be unmapped separately.
    pub fn low_chunks(&self) -> impl Iterator<Item = Range<u64>> {
        self.chunks.iter().filter(|c| c.low).map(|c| c.start..c.start + CHUNK)
    }
}

/// Replaces the instructions of the mapping at `start` that lie in `range`, a page at a time; false if a write
/// fails.
fn replace(start: u64, reads: &HardwareReads, range: &Range<u64>, native: &Native) -> bool {
    let within = |(first, code): &&(u64, Vec<u8>)| {
        layout::contains(range, &(start + first..start + first + code.len() as u64))
    };
    reads
        .pages()
        .iter()
        .filter(within)
        .fold(true, |done, (first, code)| native.poke(start + first, code).is_ok() && done)
}

fn map_chunk(start: u64, native: &Native) -> Result<(), Errno> {
    debug_assert_eq!(start % PAGE, 0);
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE;
    native.mmap(start, CHUNK, libc::PROT_READ | libc::PROT_EXEC, flags, -1, 0)
}
