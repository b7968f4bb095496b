//! Address spaces: mappings, free address ranges and access checks.

use crate::aio::AioContexts;
use crate::ids::FileKey;
use belljar_base::Footprint;
use belljar_base::Map;
use belljar_linux_abi::Errno;
use belljar_machine::{ImageRoom, Prot, SpaceId};
use slab::Slab;
use std::cell::Cell;
use std::ops::Range;

/// The page size of x86-64.
pub const PAGE: u64 = 4_096;

/// `addr` rounded down to a page.
pub fn page_down(addr: u64) -> u64 {
    addr & !(PAGE - 1)
}
/// `len` rounded up to whole pages; `ENOMEM` if that overflows.
pub fn page_up(len: u64) -> Result<u64, Errno> {
    Ok(len.checked_add(PAGE - 1).ok_or(Errno::ENOMEM)? & !(PAGE - 1))
}

/// Kind of access to memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// `PROT_READ`.
    Read,
    /// `PROT_WRITE`.
    Write,
}

/// Virtual memory area: one mapping.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Vma {
    /// Start address.
    pub start: u64,
    /// End address, exclusive.
    pub end: u64,
    /// Bytes below the mapping that are kept free: an image's [`ImageRoom`].
    pub kept_below: u64,
    /// Protection.
    pub prot: Prot,
    /// `MAP_SHARED`.
    pub shared: bool,
    /// True if `mprotect` can make it writable (`VM_MAYWRITE`).
    pub may_write: bool,
    /// Marks set by system calls.
    pub marks: Marks,
    /// Backing object.
    pub kind: VmaKind,
}

bitflags::bitflags! {
    /// Marks that `madvise(2)`, `mlock(2)` and `mseal(2)` set on a mapping.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct Marks: u8 {
        /// `MADV_WIPEONFORK`: zeroed in a child.
        const WIPE_ON_FORK = 1;
        /// `MADV_DONTFORK`: not mapped in a child.
        const LEFT_BY_FORK = 2;
        /// `mlock(2)`.
        const LOCKED = 4;
        /// `mseal(2)`.
        const SEALED = 8;
        /// `mlock2(2)` with `MLOCK_ONFAULT`: pages are locked once touched.
        const ON_FAULT = 16;
        /// `MADV_GUARD_INSTALL`: any access faults, whatever the protection.
        const GUARD = 32;
        /// `MAP_GROWSDOWN`: an access below extends the mapping.
        const GROWS_DOWN = 64;
        /// `userfaultfd(2)`: an access to a missing page waits for it.
        const WATCHED = 128;
    }
}

/// Backing object of a mapping.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum VmaKind {
    /// Zero-filled memory; the label appears in `/proc/.../maps` (`[heap]`, `[stack]`, empty).
    Anonymous(&'static str),
    /// A file.
    File {
        /// Path shown in `/proc/.../maps`.
        path: std::sync::Arc<[u8]>,
        /// Device and inode number; with the offset they identify a shared page.
        identity: (u64, u64),
        /// File offset of the mapping.
        offset: u64,
        /// File held open by a shared mapping.
        file: Option<FileKey>,
    },
}

/// Start, end and protection of a mapping.
type Recent = (u64, u64, Prot);

/// Address space of a process.
#[derive(Debug)]
pub struct AddressSpace {
    /// Platform's handle of the space.
    pub space: SpaceId,
    /// Slot on the host.
    pub slot: u32,
    /// Number of processes that share it (two between `vfork` and `execve`).
    pub users: u32,
    /// True if the layout is that of Linux: see [`Placement::Linux`](belljar_machine::Placement).
    pub as_on_linux: bool,
    /// Addresses available for mappings.
    pub range: Range<u64>,
    /// Start and current end of the heap.
    pub brk: Range<u64>,
    /// Top address of the downward search for free ranges.
    pub mmap_top: u64,
    /// Initial stack, for `/proc/.../stat` and growth checks.
    pub stack: Range<u64>,
    /// Address of the vDSO.
    pub vdso: u64,
    /// Executable, which cannot be opened for writing meanwhile: device and inode number.
    pub executes: Option<(u64, u64)>,
    /// Asynchronous I/O contexts, `io_setup(2)`.
    pub aio: AioContexts,
    /// Auxiliary vector passed to the program.
    pub auxv: Vec<u8>,
    /// Marks of future mappings: `mlockall(2)` with `MCL_FUTURE`.
    pub marks_of_new: Marks,
    vmas: Map<u64, Vma>,
    /// Last two mappings hit by accesses, mostly the stack and another one.
    recent: Cell<[Recent; 2]>,
}

/// Mappings of a file, by device and inode number, in all address spaces.
pub fn mappings_of(spaces: &Slab<AddressSpace>, file: (u64, u64)) -> impl Iterator<Item = &Vma> {
    let all = spaces.iter().flat_map(|(_, space)| space.vmas());
    all.filter(move |vma| matches!(vma.kind, VmaKind::File { identity, .. } if identity == file))
}

impl AddressSpace {
    /// Reports the fields used in every access to guest memory.
    pub fn footprint(&self, footprint: &mut Footprint) {
        footprint.object(&self.space);
        footprint.object(&self.recent);
    }

    /// Creates an empty space over `range`.
    pub fn new(space: SpaceId, slot: u32, range: Range<u64>) -> AddressSpace {
        AddressSpace {
            space,
            slot,
            users: 1,
            as_on_linux: false,
            brk: range.start..range.start,
            mmap_top: range.end,
            stack: range.end..range.end,
            vdso: 0,
            executes: None,
            aio: AioContexts::new(),
            auxv: Vec::new(),
            marks_of_new: Marks::empty(),
            range,
            vmas: Map::new(),
            recent: Cell::default(),
        }
    }

    /// Copy of the mappings for another space, with one user.
    pub fn copy(&self, space: SpaceId) -> AddressSpace {
        AddressSpace {
            space,
            users: 1,
            range: self.range.clone(),
            brk: self.brk.clone(),
            stack: self.stack.clone(),
            auxv: self.auxv.clone(),
            marks_of_new: Marks::empty(),
            aio: AioContexts::new(),
            vmas: self.vmas.clone(),
            recent: self.recent.clone(),
            ..*self
        }
    }

    /// Mappings in address order.
    pub fn vmas(&self) -> impl Iterator<Item = &Vma> {
        self.vmas.values()
    }
    /// Locked bytes, `mlock(2)`.
    pub fn locked_bytes(&self) -> u64 {
        let locked = self.vmas().filter(|vma| vma.marks.contains(Marks::LOCKED));
        locked.map(|vma| vma.end - vma.start).sum()
    }
    /// Mapping that contains `addr`.
    pub fn find(&self, addr: u64) -> Option<&Vma> {
        let (_, vma) = self.vmas.range(..=addr).next_back()?;
        (addr < vma.end).then_some(vma)
    }
    /// True if the address is in a guard page.
    pub fn is_guarded(&self, addr: u64) -> bool {
        self.find(addr).is_some_and(|vma| vma.marks.contains(Marks::GUARD))
    }
    /// First mapping that starts at or above `addr`.
    pub fn above(&self, addr: u64) -> Option<&Vma> {
        self.vmas.range(addr..).next().map(|(_, vma)| vma)
    }
    /// True if every page of `range` is mapped.
    pub fn covers(&self, range: &Range<u64>) -> bool {
        let mut at = range.start;
        for vma in self.overlapping(range) {
            if vma.start > at {
                return false;
            }
            at = vma.end;
        }
        at >= range.end
    }
    /// True if `range` is neither mapped nor kept free.
    pub fn is_free(&self, range: &Range<u64>) -> bool {
        let next = self.vmas.range(range.end..).next();
        let is_kept = next.is_some_and(|(start, vma)| start - vma.kept_below < range.end);
        !is_kept && self.overlapping(range).next().is_none()
    }
    /// Keeps the room below the image mapped at `at` free.
    pub fn keep_room(&mut self, at: u64, room: &ImageRoom) {
        if let Some(vma) = self.vmas.get_mut(&at) {
            vma.kept_below = room.below;
        }
    }
    /// Mappings that overlap `range`, in address order.
    pub fn overlapping(&self, range: &Range<u64>) -> impl Iterator<Item = &Vma> {
        let first = self.find(range.start).map_or(range.start, |vma| vma.start);
        let end = range.end.max(first);
        self.vmas.range(first..end).map(|(_, vma)| vma)
    }
    /// Checks that all of `addr..addr+len` permits the access; `EFAULT` otherwise.
    #[inline]
    pub fn check(&self, addr: u64, len: u64, access: Access) -> Result<(), Errno> {
        let need = if access == Access::Read { Prot::READ } else { Prot::WRITE };
        let end = addr.checked_add(len).ok_or(Errno::EFAULT)?;
        let covers =
            |(start, recent_end, prot): &Recent| *start <= addr && end <= *recent_end && prot.contains(need);
        if self.recent.get().iter().any(covers) {
            return Ok(());
        }
        self.look_up(addr, end, need)
    }
    /// Slow path of [`check`](Self::check): searches the mappings.
    fn look_up(&self, addr: u64, end: u64, need: Prot) -> Result<(), Errno> {
        let mut at = addr;
        loop {
            let vma = self.find(at).ok_or(Errno::EFAULT)?;
            // On x86, writable pages are readable.
            let readable = need == Prot::READ && vma.prot.intersects(Prot::READ | Prot::WRITE);
            if !vma.prot.contains(need) && !readable || vma.marks.contains(Marks::GUARD) {
                return Err(Errno::EFAULT);
            }
            if end <= vma.end {
                self.recent.set([(vma.start, vma.end, vma.prot), self.recent.get()[0]]);
                return Ok(());
            }
            at = vma.end;
        }
    }
    /// Highest free range of `len` bytes below the mapping top; `ENOMEM` if there is none.
    pub fn free_below_top(&self, len: u64, room: &ImageRoom) -> Result<u64, Errno> {
        let floor = self.brk.end.max(self.range.start);
        self.free_between(floor + HEAP_ROOM, self.mmap_top, len, room)
    }
    /// Highest free range of `len` bytes between `floor` and `top`, with an image's `room`; `ENOMEM` if there
    /// is none.
    pub fn free_between(&self, floor: u64, top: u64, len: u64, room: &ImageRoom) -> Result<u64, Errno> {
        let fits = |floor: u64, top: u64| {
            room.below(top, len).filter(|at| at.checked_sub(room.below).is_some_and(|low| low >= floor))
        };
        let mut end = top;
        for vma in self.vmas.range(..top).rev().map(|(_, vma)| vma) {
            if fits(vma.end.saturating_add(PAGE), end).is_some() {
                break;
            }
            end = end.min(vma.start - vma.kept_below);
        }
        fits(floor, end).ok_or(Errno::ENOMEM)
    }
    /// Adds a mapping to a range cleared by [`forget`](Self::forget), merging it with equal anonymous
    /// neighbours.
    pub fn insert(&mut self, mut vma: Vma) {
        self.recent.take();
        if let Some((_, before)) = self.vmas.range(..vma.start).next_back()
            && before.end == vma.start
            && before.can_merge(&vma)
        {
            vma.start = before.start;
        }
        if let Some(after) = self.vmas.get(&vma.end)
            && vma.can_merge(after)
        {
            let start = after.start;
            vma.end = after.end;
            self.vmas.remove(&start);
        }
        self.vmas.insert(vma.start, vma);
    }
    /// Removes the mappings in `range`, splitting those that cross its ends; returns the removed parts.
    pub fn forget(&mut self, range: &Range<u64>) -> Vec<Vma> {
        self.recent.take();
        let hit: Vec<u64> = self.overlapping(range).map(|vma| vma.start).collect();
        let mut removed = Vec::with_capacity(hit.len());
        for start in hit {
            let Some(vma) = self.vmas.remove(&start) else { continue };
            let (before, rest) = vma.split(range.start);
            let (inside, after) = match rest {
                Some(rest) => rest.split(range.end),
                None => (None, None),
            };
            for part in [before, after].into_iter().flatten() {
                self.vmas.insert(part.start, part);
            }
            removed.extend(inside);
        }
        removed
    }
}

/// Bytes kept free above the heap for its growth.
const HEAP_ROOM: u64 = 16 << 20;

/// Bytes of a stack that Linux maps initially; the rest grows on demand.
const STACK_AT_FIRST: u64 = 132 << 10;

impl Vma {
    /// True for memory without a backing file.
    pub fn is_anonymous(&self) -> bool {
        match self.kind {
            VmaKind::Anonymous(_) => true,
            VmaKind::File { file, .. } => self.shared && file.is_none(),
        }
    }
    /// True for private memory without a backing file.
    pub fn is_private_anonymous(&self) -> bool {
        !self.shared && self.is_anonymous()
    }
    /// Intersection with a range that overlaps the mapping.
    pub fn part_in(&self, range: &Range<u64>) -> Range<u64> {
        self.start.max(range.start)..self.end.min(range.end)
    }
    /// Bytes counted as mapped. Linux maps a stack on demand, this kernel maps it whole.
    pub fn counted(&self) -> u64 {
        let len = self.end - self.start;
        if self.kind == VmaKind::Anonymous("[stack]") { len.min(STACK_AT_FIRST) } else { len }
    }
    fn can_merge(&self, next: &Vma) -> bool {
        self.prot == next.prot
            && self.marks == next.marks
            && !self.shared
            && !next.shared
            && matches!((&self.kind, &next.kind), (VmaKind::Anonymous(a), VmaKind::Anonymous(b)) if a == b)
    }
    /// Splits the mapping at `at` into the parts below and above.
    fn split(self, at: u64) -> (Option<Vma>, Option<Vma>) {
        if at <= self.start {
            return (None, Some(self));
        }
        if at >= self.end {
            return (Some(self), None);
        }
        let mut upper = Vma { start: at, kept_below: 0, ..self.clone() };
        if let VmaKind::File { offset, .. } = &mut upper.kind {
            *offset += at - self.start;
        }
        (Some(Vma { end: at, ..self }), Some(upper))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HUGE: u64 = 512 * PAGE;

    fn mapped(start: u64, end: u64) -> Vma {
        let (prot, kind) = (Prot::READ, VmaKind::Anonymous(""));
        Vma { start, end, kept_below: 0, prot, shared: false, may_write: true, marks: Marks::empty(), kind }
    }

    #[test]
    fn images_lie_where_their_room_says_and_nothing_in_it() {
        let room = ImageRoom { below: 3 * PAGE, align: HUGE, remainder: 2 * PAGE };
        assert_eq!(room.above(HUGE), HUGE + room.remainder + HUGE);
        assert_eq!(room.above(HUGE - PAGE), HUGE + room.remainder);
        assert_eq!(room.below(2 * HUGE, HUGE - PAGE), Some(room.remainder));
        assert_eq!(room.below(PAGE, PAGE), None);

        let top = 8 * HUGE;
        let mut space = AddressSpace::new(SpaceId(0), 0, PAGE..1 << 30);
        let at = space.free_between(PAGE, top, 10 * PAGE, &room).unwrap();
        assert_eq!(at, 7 * HUGE + room.remainder);
        space.insert(mapped(at, at + 10 * PAGE));
        space.keep_room(at, &room);
        let any = ImageRoom::ANY;
        // Above the image if there is enough space, otherwise below its room.
        assert_eq!(space.free_between(PAGE, top, 10 * PAGE, &any), Ok(top - 10 * PAGE));
        assert_eq!(space.free_between(PAGE, top, HUGE, &any), Ok(at - room.below - HUGE));
        assert!(!space.is_free(&(at - PAGE..at)) && !space.is_free(&(at - 9 * PAGE..at - 2 * PAGE)));
        assert!(space.is_free(&(at - 9 * PAGE..at - room.below)));
        assert_eq!(space.overlapping(&(at - PAGE..at)).count(), 0, "it is not mapped");
        // An image that has lost its first page has no room.
        space.forget(&(at..at + PAGE));
        assert!(space.is_free(&(at - PAGE..at + PAGE)));
        assert_eq!(space.free_between(PAGE, 2 * PAGE, 10 * PAGE, &room), Err(Errno::ENOMEM));
    }
}
