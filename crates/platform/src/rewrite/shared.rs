//! Shared images: programs and libraries that many guests map, with their call sites rewritten before anybody runs them.
//!
//! **Problem.** Rewriting site by site copies a page of text for each guest, after two traps for each site. With
//! thousands of guests that run the same libraries the copies cost memory, the same code lies in the caches under many
//! physical addresses, and each guest takes page tables and TLB entries of its own.
//!
//! **Insight.** The rewritten text depends on the file alone, if the distance between sites and stubs is fixed. So it
//! can be made once, in shared memory, with the stubs at a fixed distance before it, and be mapped instead of the file.
//! All guests map the same physical memory, which may lie in huge pages.
//!
//! **Algorithm.** [`layout`] finds, from the program headers, the pages of an image that are never written to. They and
//! the room for its stubs, which lies below them, are the *window*. When the kernel asks where an image is to be mapped
//! ([`Rewriter::room`](super::Rewriter::room)) the answer keeps that room free and puts the end of the window near the
//! border of a huge page. At the 17th mapping of the text [`Image::make`] copies the pages, rewrites all sites that are
//! proven safe without having trapped ([`analyse::certain`]) and the `cpuid` instructions, and asks Linux to collapse
//! the whole huge pages of the copy. From then on a mapping of the text maps the window ([`SharedText::over`]); the loader's
//! mappings of the other read-only parts find it there ([`SharedText::shows`]). Sites are known by addresses relative to
//! the window, and translated as those of one space are. When a part of a window is mapped over, its sites are given
//! up: [`SharedText::outlives`].
//!
//! A window ends where the image's data begins. Were that always at the border of a huge page, the data of all guests
//! would meet in the same sets of TLB and caches. So the end lies some pages behind the border, in eight *phases* that
//! change every 16 slots; there is an image for each phase.
//!
//! **Limits.** Only position-independent images of up to 32 MiB with one executable segment and no larger alignment than
//! a page are shared, 128 MiB of images in all, in slots and not at fixed addresses. Sites that are not certain trap
//! and are rewritten in one space as usual, which copies their page; the vDSO is made where it is mapped. The choice
//! depends on how often a file has been mapped in this process, so it changes time and never what guests see.

use super::analyse::{self, Cpuids, FileKey, ProvenSite};
use super::sites::{Sites, Visible};
use super::{SYS_RT_SIGRETURN, stub};
use crate::files;
use crate::layout::{self, HUGE_PAGE as HUGE, PAGE};
use crate::native::Native;
use crate::vdso;
use belljar_base::{Map, Set};
use belljar_linux_abi::Errno;
use belljar_machine::elf::{ElfHeader, HEADER_LEN, Layout as Elf};
use belljar_machine::{ImageRoom, NativeFile, Prot};
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

/// Images that are longer are left alone.
const LONGEST: u64 = 32 << 20;
/// Mappings of an image's text before it is shared.
const OFTEN: u32 = 16;
/// Consecutive slots with the same phase, more than a set of the TLB has entries.
const SAME_PHASE: u64 = 16;
const PHASES: u64 = 8;
/// Pages from phase to phase.
const PHASE_PAGES: u64 = 4;
/// Bytes of a stub, more than the average.
const ROOM_FOR_STUB: u64 = 64;
/// Bytes of shared images, at most.
const MOST: u64 = 128 << 20;
/// Address of a window while its sites are rewritten: they are known by addresses relative to it.
const NOWHERE: u64 = 1 << 40;

/// Layout of the pages of an image that are not written to.
#[derive(Debug)]
pub struct Layout {
    /// The requirement on the image's address.
    pub room: ImageRoom,
    /// Bytes of the window.
    window: u64,
    /// Parts: their ranges in the window and their offsets in the file.
    parts: Vec<(Range<u64>, u64)>,
    /// The part with the code.
    text: (Range<u64>, u64),
}

impl Layout {
    /// The layout of the image in a file; `stubs` is the room that its stubs take, once that is known.
    fn of(file: NativeFile, phase: u64, stubs: &mut Option<u64>) -> Option<Layout> {
        let mut start = [0; HEADER_LEN];
        let got = files::read_at(file, 0, &mut start).ok()?;
        let header = ElfHeader::parse(&start[..got]).ok().filter(|header| !header.fixed)?;
        let mut headers = vec![0; (header.program_headers.end - header.program_headers.start) as usize];
        let got = files::read_at(file, header.program_headers.start, &mut headers).ok()?;
        let elf = Elf::parse(headers.get(..got)?, files::stat_file(file).ok()?.size).ok()?;
        if elf.align() > PAGE {
            return None;
        }
        let first = elf.extent().start;
        let read_only = elf.segments.iter().take_while(|segment| !segment.prot.contains(Prot::WRITE));
        let mut parts: Vec<(Range<u64>, u64)> = Vec::new();
        let mut text = None;
        for segment in read_only {
            let start = (segment.vaddr & !(PAGE - 1)) - first;
            let end = (segment.vaddr + segment.file_size - first).next_multiple_of(PAGE);
            if segment.mem_size > segment.file_size
                || parts.last().is_some_and(|(before, _)| start < before.end)
            {
                return None;
            }
            let part = (start..end, segment.offset & !(PAGE - 1));
            if segment.prot.contains(Prot::EXEC) && text.replace(part.clone()).is_some() {
                return None;
            }
            parts.push(part);
        }
        let text: (Range<u64>, u64) = text?;
        let len = parts.last()?.0.end;
        if len > LONGEST {
            return None;
        }
        let stubs = match *stubs {
            Some(known) => known,
            None => {
                let sites = analyse::pairs(&bytes(file, &text)?).count() as u64;
                *stubs.insert((sites * ROOM_FOR_STUB).next_multiple_of(PAGE))
            }
        };
        if stubs == 0 {
            return None;
        }
        // All of the text lies in huge pages, even so.
        let behind = (phase * PHASE_PAGES * PAGE).min(len - text.0.end);
        let remainder = behind.wrapping_sub(len) & (HUGE - 1);
        let below = if remainder < stubs { remainder + HUGE } else { remainder };
        let moved = |part: (Range<u64>, u64)| (part.0.start + below..part.0.end + below, part.1);
        Some(Layout {
            room: ImageRoom { below, align: HUGE, remainder },
            window: below + len,
            parts: parts.into_iter().map(moved).collect(),
            text: moved(text),
        })
    }
}

/// Bytes of a part of an image in the file, with zeroes behind the file's end.
fn bytes(file: NativeFile, (range, offset): &(Range<u64>, u64)) -> Option<Vec<u8>> {
    let mut out = vec![0; (range.end - range.start) as usize];
    let mut filled = 0;
    while filled < out.len() {
        match files::read_at(file, offset + filled as u64, &mut out[filled..]).ok()? {
            0 => break,
            more => filled += more,
        }
    }
    Some(out)
}

/// Knowledge of a file.
#[derive(Default)]
struct Known {
    /// Mappings of its text so far.
    mapped: u32,
    /// Bytes for the stubs of its sites, `None` until needed.
    stubs: Option<u64>,
    /// `None` until it is needed.
    found: Option<Found>,
    phases: Map<u64, Phase>,
}

/// Knowledge of a file's image in one phase.
struct Phase {
    /// `None` if it is none, or none that can be treated so.
    layout: Option<Arc<Layout>>,
    /// `None` until it is needed; `Some(None)` if it cannot be made.
    image: Option<Option<Arc<Image>>>,
}

/// The sites and `cpuid` instructions of a text, which are the same in all phases.
type Found = Arc<(Vec<ProvenSite>, Arc<Cpuids>)>;

/// Finds the certain sites and `cpuid` instructions of a text.
fn found_in(text: &[u8]) -> Found {
    let certain = analyse::certain(text, NOWHERE).into_iter().filter(|site| site.nr != SYS_RT_SIGRETURN);
    Arc::new((certain.collect(), Arc::new(super::cpuids_to_replace(text))))
}

static KNOWN: Mutex<Map<FileKey, Known>> = Mutex::new(Map::new());

fn phase(slot: u64) -> u64 {
    slot / SAME_PHASE % PHASES
}

/// The image's layout for a slot, and its key.
pub fn layout(fd: i32, slot: u64) -> Option<(FileKey, Arc<Layout>)> {
    // The stubs of the vDSO answer by themselves, and are made where it is mapped.
    let file = FileKey::of(fd).filter(|file| !vdso::is(file))?;
    let phase = phase(slot);
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    let Known { stubs, phases, .. } = known.entry(file).or_default();
    let mut made = || Layout::of(NativeFile(fd), phase, stubs).map(Arc::new);
    let of_phase = phases.entry(phase).or_insert_with(|| Phase { layout: made(), image: None });
    Some((file, of_phase.layout.clone()?))
}

/// A copy of an image's pages that are not written to, with its sites rewritten and the stubs before it.
#[derive(Debug)]
struct Image {
    /// It is in memory.
    file: NativeFile,
    layout: Arc<Layout>,
    /// Bytes of stubs at the start of the window.
    stubs: u64,
    sites: Sites,
    /// The `syscall` of each site.
    syscalls: Set<u64>,
    cpuids: Arc<Cpuids>,
}

impl Image {
    /// The image of the file, once it has been mapped often enough.
    fn of(fd: i32, slot: u64) -> Option<(FileKey, Arc<Image>)> {
        static MADE: Mutex<u64> = Mutex::new(0);
        let (file, layout) = layout(fd, slot)?;
        let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        let Known { mapped, found, phases, .. } = known.get_mut(&file)?;
        *mapped = mapped.saturating_add(1);
        if *mapped <= OFTEN {
            return None;
        }
        let image = phases.get_mut(&phase(slot))?.image.get_or_insert_with(|| {
            let mut made = MADE.lock().unwrap_or_else(PoisonError::into_inner);
            let image =
                (*made + layout.window <= MOST).then(|| Image::make(fd, found, layout.clone())).flatten()?;
            *made += layout.window;
            Some(Arc::new(image))
        });
        Some((file, image.clone()?))
    }

    fn make(fd: i32, found: &mut Option<Found>, layout: Arc<Layout>) -> Option<Image> {
        let text_at = layout.text.0.start;
        let mut text = bytes(NativeFile(fd), &layout.text)?;
        let found = found.get_or_insert_with(|| found_in(&text));
        let (certain, cpuids) = (&found.0, found.1.clone());
        for (at, code) in &cpuids.replaced {
            text[*at as usize..][..code.len()].copy_from_slice(code);
        }
        let (mut stubs, mut sites, mut syscalls) = (Vec::new(), Sites::default(), Set::new());
        for site in certain {
            let stub_at = NOWHERE + stubs.len() as u64;
            if stubs.len() as u64 + stub::LONGEST > layout.room.below {
                break;
            }
            let syscall = NOWHERE + text_at + site.at;
            let Some(made) = super::stub_of(&site.form, stub_at, syscall, site.nr) else { continue };
            let Some(code) = made.jump_to(stub_at, &site.form) else { continue };
            let place = &mut text[(made.site - NOWHERE - text_at) as usize..][..code.len()];
            let original = place.to_vec();
            place.copy_from_slice(&code);
            stubs.extend_from_slice(&made.code);
            stubs.resize(stubs.len().next_multiple_of(16), 0xcc);
            syscalls.insert(syscall);
            sites.insert(made, stub_at, original);
        }
        if syscalls.is_empty() {
            return None;
        }
        let file = files::shared_memory(layout.window).ok()?;
        let image = Image { file, stubs: stubs.len() as u64, sites, syscalls, cpuids, layout };
        files::write_at(file, 0, &stubs).ok()?;
        for part in image.layout.parts.iter().filter(|part| **part != image.layout.text) {
            files::write_at(file, part.0.start, &bytes(NativeFile(fd), part)?).ok()?;
        }
        files::write_at(file, text_at, &text).ok()?;
        files::collapse(file, image.layout.window / HUGE * HUGE);
        Some(image)
    }
}

impl Drop for Image {
    fn drop(&mut self) {
        files::close(self.file);
    }
}

/// A window: an [`Image`] mapped in a space.
#[derive(Clone, Debug)]
pub struct SharedText {
    start: u64,
    /// The file of its image.
    pub file: FileKey,
    image: Arc<Image>,
    /// True if no part of it has been changed since it was mapped.
    whole: bool,
    /// Parts of the text that are no more.
    cut: Vec<Range<u64>>,
}

impl SharedText {
    /// The window whose text would be `range`.
    pub fn over(range: &Range<u64>, fd: i32, offset: u64, slot: u64) -> Option<SharedText> {
        let (file, image) = Image::of(fd, slot)?;
        let (text, text_offset) = &image.layout.text;
        let start = range.start.checked_sub(text.start)?;
        let room = &image.layout.room;
        let fits = *text_offset == offset
            && text.end - text.start == range.end - range.start
            && (start + room.below) % room.align == room.remainder;
        fits.then_some(SharedText { start, file, image, whole: true, cut: Vec::new() })
    }

    /// Its range.
    pub fn range(&self) -> Range<u64> {
        self.start..self.start + self.image.layout.window
    }
    /// The part below the image, with the stubs.
    pub fn below(&self) -> Range<u64> {
        self.start..self.start + self.image.layout.room.below
    }
    /// The part that may be in huge pages; all code is in it.
    pub fn huge(&self) -> Range<u64> {
        self.start..self.start + self.image.layout.window / HUGE * HUGE
    }
    /// Its text.
    pub fn text(&self) -> Range<u64> {
        let (text, _) = &self.image.layout.text;
        self.start + text.start..self.start + text.end
    }
    /// Offset of the text in the file.
    pub fn text_offset(&self) -> u64 {
        self.image.layout.text.1
    }
    /// Its `cpuid` instructions, by their places in the text.
    pub fn cpuids(&self) -> Arc<Cpuids> {
        self.image.cpuids.clone()
    }

    /// Maps it.
    pub fn map(&self, native: &Native) -> Result<(), Errno> {
        let flags = libc::MAP_PRIVATE | libc::MAP_NORESERVE | libc::MAP_FIXED;
        let (start, len) = (self.start, self.image.layout.window);
        native.mmap(start, len, libc::PROT_READ | libc::PROT_EXEC, flags, self.image.file.0, 0)
    }

    /// True if `range` shows the file from `offset` on and has not been changed.
    pub fn shows(&self, range: &Range<u64>, offset: u64) -> bool {
        let is = |(part, part_offset): &(Range<u64>, u64)| {
            let part = self.start + part.start..self.start + part.end;
            layout::contains(&part, range) && part_offset + (range.start - part.start) == offset
        };
        self.whole && self.image.layout.parts.iter().any(is)
    }

    /// Notes that `range` is not what it was.
    pub fn changes(&mut self, range: &Range<u64>) {
        self.whole &= !layout::overlap(&self.range(), range);
    }

    /// Notes that something else is mapped in `range` now, which is not all of the text. False if there may be stubs among
    /// that; the image has its own code again then.
    pub fn outlives(&mut self, range: &Range<u64>, native: &Native) -> bool {
        self.changes(range);
        if layout::overlap(&self.below(), range) {
            return self.give_back(native, range);
        }
        if layout::overlap(&self.text(), range) {
            self.cut.push(range.clone());
        }
        true
    }

    /// Gives every site outside `range` its own code back. True where that fails.
    pub fn give_back(&self, native: &Native, range: &Range<u64>) -> bool {
        let mut failed = false;
        for (site, patch) in self.image.sites.iter() {
            let at = self.here(site);
            if !self.is_cut(at, patch.len()) && !layout::overlap(&(at..at + patch.len()), range) {
                failed |= native.poke(at, &patch.original).is_err();
            }
        }
        failed
    }

    /// True if the `syscall` at `at` is a site's.
    pub fn has(&self, at: u64) -> bool {
        self.text().contains(&at) && self.image.syscalls.contains(&self.there(at))
    }

    /// See [`Sites::native`].
    pub fn native(&self, rip: u64) -> Option<u64> {
        if !self.text().contains(&rip) || self.is_cut(rip, 1) {
            return None;
        }
        self.image.sites.native(self.there(rip)).map(|at| self.here(at))
    }

    /// See [`Sites::visible`].
    pub fn visible(&self, rip: u64) -> Option<Visible> {
        if !(self.start..self.start + self.image.stubs).contains(&rip) {
            return None;
        }
        let found = self.image.sites.visible(self.there(rip))?;
        Some(Visible { rip: self.here(found.rip), ..found })
    }

    fn is_cut(&self, at: u64, len: u64) -> bool {
        self.cut.iter().any(|cut| layout::overlap(cut, &(at..at + len)))
    }
    fn here(&self, at: u64) -> u64 {
        at - NOWHERE + self.start
    }
    fn there(&self, at: u64) -> u64 {
        at - self.start + NOWHERE
    }
}
