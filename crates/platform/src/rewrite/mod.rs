//! Call sites that jump to the platform instead of trapping.
//!
//! A site in the private, file-backed text of an image is rewritten at its second trap (most sites
//! of a program that starts run once, and a copied page costs more than a trap) in one of two forms:
//!
//! * **A**: the `mov $nr, %eax` before the `syscall` becomes a jump to a stub. Nothing is displaced,
//!   and a jump straight to the `syscall` still traps.
//! * **B**: the `syscall` and the instructions behind it become a jump to a stub, which ends with
//!   the displaced instructions. Only where no direct branch of the image leads into them.
//!
//! The kernel never sees a stub: an address in one is told as that of the unmodified code
//! ([`Rewriter::visible`]) and translated back on the way in ([`Rewriter::native`]). Sites that
//! return from signals stay as they are, because unwinders recognise them by their bytes.
//!
//! The synthetic vDSO's sites answer from the worker block where they may ([`clock`]), those that ask for ids from the
//! context ([`ids`]).
//!
//! Where the CPU cannot make `cpuid` trap, and in virtual machines, the instruction becomes one that does when
//! an image is mapped; a trap costs a fifth of what `cpuid` costs in a virtual machine.

mod analyse;
mod clock;
mod cpuid_sites;
mod ids;
mod stub;

use crate::layout::{self, PAGE, Slot};
use crate::native::Native;
use crate::{cpuid, registry};
pub use analyse::FileKey;
use analyse::{Cpuids, Form};
use belljar_base::{Map, Set};
use belljar_linux_abi::Errno;
use std::ops::Range;
use std::sync::Arc;

/// `hlt; nop`: a general-protection exception in user code. `ud2` would not do: hypervisors intercept
/// its exception, which then costs as much as `cpuid` itself.
const TRAP: [u8; 2] = [0xf4, 0x90];
/// Bytes of the longest instruction (Intel SDM, volume 2, 2.3.11).
pub(crate) const LONGEST_INSTRUCTION: usize = 15;
const SYS_RT_SIGRETURN: u64 = 15;
/// Bytes of stubs in one chunk; a stub takes 32 to 144.
const CHUNK: u64 = 64 << 10;
/// How far a 32-bit jump reaches from anywhere in a stub to anywhere in a site.
const REACH: u64 = (1 << 31) - 2 * CHUNK;
/// Where the search for a chunk near fixed addresses begins, downwards: above what images,
/// and the heaps behind them, usually take, and within reach of all of it.
const LOW_CHUNKS: Range<u64> = 0x1000_0000..0x7ff0_0000;

/// The rewritten sites of one address space.
#[derive(Clone, Debug, Default)]
pub struct Rewriter {
    text: Vec<Text>,
    /// By the first rewritten byte.
    patches: Map<u64, Patch>,
    /// The start of each stub's site by the start of the stub.
    stubs: Map<u64, u64>,
    /// Addresses of `syscall` instructions: trapped once; never to be rewritten.
    seen: Set<u64>,
    refused: Set<u64>,
    chunks: Vec<Chunk>,
    /// Where mappings with rewritten `cpuid` instructions started, and where these are in it.
    /// Never forgotten: a program may copy its text, to huge pages for instance.
    cpuids: Vec<(u64, Arc<Cpuids>)>,
    /// Counts changes that make remembered places in stubs stale.
    pub generation: u32,
    /// Whether nothing is rewritten any more.
    retired: bool,
}

/// A mapping whose sites may be rewritten.
#[derive(Clone, Debug)]
struct Text {
    range: Range<u64>,
    file: FileKey,
    /// Where `range` starts in the file.
    offset: u64,
    /// It may not be what the file holds any more: nothing further is rewritten.
    changed: bool,
}

#[derive(Clone, Debug)]
struct Patch {
    len: u64,
    /// What was there before.
    original: Vec<u8>,
    stub: u64,
    stub_len: u64,
    /// Pairs of (offset in the stub, address that the kernel sees), ascending: each holds until
    /// the next one.
    places: Vec<(u64, u64)>,
    /// The addresses among them, behind the `syscall`, at which a thread may go on in the stub.
    displaced: Range<u64>,
}

/// A place in a stub as the kernel sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Visible {
    /// The address in unmodified code.
    pub rip: u64,
    /// Whether the call is still to be made (or, at a stub's end, the stub is just being left).
    pub before_call: bool,
    /// Whether nothing of the site has been done yet.
    pub at_start: bool,
}

#[derive(Clone, Debug)]
struct Chunk {
    start: u64,
    used: u64,
    /// Whether it lies outside the slot and must be given back by itself.
    low: bool,
}

impl Rewriter {
    /// Notes that `range` is now private file-backed text. `fd` is the file.
    pub fn text_mapped(&mut self, range: Range<u64>, fd: i32, offset: u64, native: &Native) {
        let Some(file) = FileKey::of(fd) else { return };
        if cpuid::is_better_replaced() {
            self.replace_cpuids(range.start, analyse::cpuids(&file, offset, &range, native), native);
        }
        self.text.push(Text { range, file, offset, changed: false });
    }

    /// Whether code of the file that `fd` is open on is mapped.
    pub fn has_text_of(&self, fd: i32) -> bool {
        FileKey::of(fd).is_some_and(|file| self.text.iter().any(|text| text.file == file))
    }

    /// Notes that `range` becomes writable.
    pub fn text_writable(&mut self, range: &Range<u64>) {
        self.text.iter_mut().filter(|t| layout::overlap(&t.range, range)).for_each(|t| t.changed = true);
    }

    /// Writes [`TRAP`] over the `cpuid` instructions of the mapping at `start`, a page at a time.
    fn replace_cpuids(&mut self, start: u64, cpuids: Arc<Cpuids>, native: &Native) {
        for (first, code) in &cpuids.replaced {
            // Where that fails they give native answers.
            let _ = native.poke(start + first, code);
        }
        if let Native::Far(shim) = native {
            shim.answer_cpuids(cpuids.places.iter().map(|place| start + place));
        }
        if !cpuids.places.is_empty() {
            self.cpuids.push((start, cpuids));
        }
    }

    /// The places of all of them.
    pub fn cpuids(&self) -> impl Iterator<Item = u64> {
        self.cpuids.iter().flat_map(|(start, cpuids)| cpuids.places.iter().map(move |place| start + place))
    }

    /// Whether the trap at `rip` stands for `cpuid`.
    pub fn is_cpuid(&self, rip: u64) -> bool {
        let at = |start: &u64| rip.checked_sub(*start);
        self.cpuids
            .iter()
            .any(|(start, cpuids)| at(start).is_some_and(|at| cpuids.places.binary_search(&at).is_ok()))
    }

    /// Notes that `range` no longer is what it was.
    pub fn text_gone(&mut self, range: &Range<u64>) {
        if !self.text.iter().any(|t| layout::overlap(&t.range, range)) {
            return;
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
                    kept.push(Text { range: part, offset, ..text });
                }
            }
        }
        self.text = kept;
    }

    /// Notes that the pages of `range` have their original content again.
    pub fn content_gone(&mut self, range: &Range<u64>) {
        // A site may begin before the range and reach into it.
        let sites: Vec<u64> = self
            .patches
            .range(range.start.saturating_sub(32)..range.end)
            .filter(|(start, patch)| *start + patch.len > range.start)
            .map(|(&start, _)| start)
            .collect();
        for start in sites {
            let patch = self.patches.remove(&start).expect("just found");
            self.stubs.remove(&patch.stub);
        }
        self.seen.retain(|site| !range.contains(site));
        self.refused.retain(|site| !range.contains(site));
        self.generation = self.generation.wrapping_add(1);
    }

    /// Gives every site its own code back and rewrites none any more. A thread that is on its way
    /// through a stub goes on at the address that the kernel sees of it.
    pub fn undo(&mut self, native: &Native) {
        self.retired = true;
        for (site, patch) in std::mem::take(&mut self.patches) {
            // Where that fails the jump stays, and with it the stub that it leads to.
            if native.poke(site, &patch.original).is_err() {
                self.patches.insert(site, patch);
            } else {
                self.stubs.remove(&patch.stub);
            }
        }
        self.generation = self.generation.wrapping_add(1);
    }

    /// Where a thread that the kernel sees at `rip` goes on.
    pub fn native(&self, rip: u64) -> u64 {
        match self.patches.range(..rip).next_back() {
            Some((_, patch)) if patch.displaced.contains(&rip) => {
                // The last match: several places of a stub's head stand for the site's start.
                match patch.places.iter().rev().find(|place| place.1 == rip) {
                    Some(place) => patch.stub + place.0,
                    None => rip,
                }
            }
            _ => rip,
        }
    }

    /// What the kernel is to see of a thread that left the guest at `rip`, if that is in a stub.
    pub fn visible(&self, rip: u64) -> Option<Visible> {
        if !self.chunks.iter().any(|c| (c.start..c.start + c.used).contains(&rip)) {
            return None;
        }
        let (&stub, site) = self.stubs.range(..=rip).next_back()?;
        let patch = &self.patches[site];
        if rip >= stub + patch.stub_len {
            return None;
        }
        let place = patch.places.iter().rev().find(|place| stub + place.0 <= rip)?;
        let before_call = !patch.displaced.contains(&place.1);
        Some(Visible { rip: place.1, before_call, at_start: place.1 == *site })
    }

    /// Considers rewriting the site whose trap left the thread at `rip` (behind the `syscall`) with
    /// `nr` in RAX.
    pub fn trapped(&mut self, rip: u64, nr: u64, slot: &Slot, native: &Native) {
        let site = rip - 2;
        if self.retired || nr == SYS_RT_SIGRETURN || self.refused.contains(&site) || self.seen.insert(site) {
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
            Form::A { ref mov } => match ids::stub(stub_at, site, mov, nr) {
                Some(answers) => answers,
                None => stub::form_a(stub_at, site, mov)?,
            },
            Form::B { ref displaced } => stub::form_b(stub_at, site, displaced)?,
        };
        let jump = stub::jump(stub.site, stub_at)?;
        let mut code = jump.to_vec();
        // What is left of displaced instructions must not run.
        code.resize(stub.patched.max(5) as usize, 0xcc);
        if let Form::A { ref mov } = form {
            code.truncate(5);
            code.extend_from_slice(&mov[5..]);
        }
        let mut original = vec![0; code.len()];
        native.read(stub.site, &mut original).ok()?;
        native.poke(stub_at, &stub.code).ok()?;
        native.poke(stub.site, &code).ok()?;
        let chunk = self.chunks.iter_mut().find(|c| c.start + c.used == stub_at)?;
        chunk.used += (stub.code.len() as u64).next_multiple_of(16);
        self.stubs.insert(stub_at, stub.site);
        let patch = Patch {
            len: code.len() as u64,
            original,
            stub: stub_at,
            stub_len: stub.code.len() as u64,
            places: stub.places,
            displaced: stub.displaced,
        };
        self.patches.insert(stub.site, patch);
        // What still reaches the `syscall` of form A by a jump keeps trapping.
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

    /// Room for stubs outside the slot, which must be given back by itself.
    pub fn low_chunks(&self) -> impl Iterator<Item = Range<u64>> {
        self.chunks.iter().filter(|c| c.low).map(|c| c.start..c.start + CHUNK)
    }
}

fn map_chunk(start: u64, native: &Native) -> Result<(), Errno> {
    debug_assert_eq!(start % PAGE, 0);
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE;
    native.mmap(start, CHUNK, libc::PROT_READ | libc::PROT_EXEC, flags, -1, 0)
}
