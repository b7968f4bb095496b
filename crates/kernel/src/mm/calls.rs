//! Implementation of mmap(2) and mremap(2): choice of addresses.

use super::map::{MapRequest, MapSource};
use crate::call::Call;
use crate::credentials::capability;
use crate::host::Host;
use crate::ids::{MmKey, ProcessKey};
use belljar_linux_abi::{Errno, c};
use belljar_machine::{ImageRoom, NativeFile, Prot};
use belljar_objects::space::{Marks, PAGE, Vma, VmaKind, page_down};
use std::ops::Range;

/// Flags accepted with `MAP_SHARED_VALIDATE`: those older than it (`LEGACY_MAP_MASK`).
const VALIDATED: i32 = c::MAP_SHARED_VALIDATE
    | c::MAP_FIXED
    | c::MAP_ANONYMOUS
    | c::MAP_GROWSDOWN
    | c::MAP_DENYWRITE
    | c::MAP_EXECUTABLE
    | c::MAP_LOCKED
    | c::MAP_NORESERVE
    | c::MAP_POPULATE
    | c::MAP_NONBLOCK
    | c::MAP_STACK
    | c::MAP_HUGETLB
    | c::MAP_32BIT
    | c::MAP_HUGE_MASK << c::MAP_HUGE_SHIFT;
/// Room kept free below memory that grows downwards, `stack_guard_gap`.
const BELOW_STACKS: ImageRoom = ImageRoom { below: 256 * PAGE, ..ImageRoom::ANY };
/// Upper bound of 32-bit addresses.
const LOW: u64 = 1 << 32;

/// Residency of the pages in a range, a byte each. File pages are always resident; anonymous pages once they
/// are touched or locked.
pub(crate) fn presence(host: &mut Host, key: MmKey, range: &Range<u64>) -> Result<Vec<u8>, Errno> {
    let mut found = vec![0; ((range.end - range.start) / PAGE) as usize];
    let (space, mm) = (host.spaces[key.0].space, &host.spaces[key.0]);
    for vma in mm.overlapping(range) {
        let part = vma.part_in(range);
        let [from, to] = [part.start, part.end].map(|at| ((at - range.start) / PAGE) as usize);
        let locked = vma.marks.contains(Marks::LOCKED) && !vma.marks.contains(Marks::ON_FAULT);
        if vma.is_anonymous() && !locked {
            host.machine.resident(space, part.start, &mut found[from..to])?;
        } else {
            found[from..to].fill(1);
        }
    }
    Ok(found)
}

/// Revokes access to missing pages in ranges registered with `userfaultfd(2)`.
pub(crate) fn arm_missing(host: &mut Host, key: MmKey, range: &Range<u64>) -> Result<(), Errno> {
    let space = host.spaces[key.0].space;
    let watched = |vma: &&Vma| vma.marks.contains(Marks::WATCHED);
    let parts = host.spaces[key.0].overlapping(range).filter(watched);
    let parts: Vec<Range<u64>> = parts.map(|vma| vma.part_in(range)).collect();
    for part in parts {
        let mut present = vec![0; ((part.end - part.start) / PAGE) as usize];
        host.machine.resident(space, part.start, &mut present)?;
        let mut at = part.start;
        for run in present.chunk_by(|a, b| (a ^ b) & 1 == 0) {
            let len = run.len() as u64 * PAGE;
            if run[0] & 1 == 0 {
                host.machine.protect(space, at, len, Prot::empty())?;
            }
            at += len;
        }
    }
    Ok(())
}

impl Call<'_> {
    /// Address space of the caller.
    pub(crate) fn mm(&self) -> MmKey {
        self.host.processes[self.process.0].mm.expect("a running process has memory")
    }

    /// `ENOMEM` unless all of `range` is mapped.
    pub(crate) fn require_mapped(&mut self, range: &Range<u64>) -> Result<(), Errno> {
        let mm = self.mm();
        let mut at = range.start;
        for vma in self.host.mm(mm).overlapping(range) {
            if vma.start > at {
                return Err(Errno::ENOMEM);
            }
            at = vma.end;
        }
        if at < range.end { Err(Errno::ENOMEM) } else { Ok(()) }
    }

    /// mmap(2) of `len` bytes (whole pages); returns the address.
    pub(crate) fn mmap(
        &mut self,
        hint: u64,
        len: u64,
        prot: Prot,
        flags: i32,
        fd: i32,
        offset: u64,
    ) -> Result<u64, Errno> {
        let shared = match flags & c::MAP_TYPE {
            c::MAP_PRIVATE => false,
            c::MAP_SHARED => true,
            c::MAP_SHARED_VALIDATE if flags & !VALIDATED != 0 => return Err(Errno::EOPNOTSUPP),
            c::MAP_SHARED_VALIDATE if flags & c::MAP_ANONYMOUS == 0 => true,
            _ => return Err(Errno::EINVAL),
        };
        // Shared mappings do not grow.
        let grows = flags & c::MAP_GROWSDOWN != 0;
        if grows && shared {
            return Err(Errno::EINVAL);
        }
        if flags & c::MAP_HUGETLB != 0 {
            // The pool of huge pages is empty.
            return Err(Errno::ENOMEM);
        }
        let (source, may_write) = if flags & c::MAP_ANONYMOUS != 0 {
            (None, true)
        } else {
            // `/dev/zero` has no file behind it: its pages are anonymous.
            let source = self.host.map_source(self.process, fd, (offset, len), prot, shared)?;
            let file = self.host.file_of(self.process, fd)?;
            (source, self.host.files.open(file).is_writable())
        };
        let mm = self.mm();
        if flags & c::MAP_LOCKED != 0 {
            let over = |errno| if errno == Errno::ENOMEM { Errno::EAGAIN } else { errno };
            self.check_lock_limit(len).map_err(over)?;
        }
        let over = if flags & c::MAP_FIXED != 0 { hint..hint.saturating_add(len) } else { 0..0 };
        self.check_unsealed(&over)?;
        self.check_address_limit(len, &over)?;
        // Loaders first map the start of an image, then map the other segments over it.
        let may_be_image = !shared && offset == 0 && !prot.contains(Prot::WRITE);
        let image = source.as_ref().filter(|_| may_be_image).map(|source| source.native);
        let (at, room) = self.host.place_image(mm, hint, len, flags, image)?;
        let request = MapRequest { prot, shared, source, may_write, label: "" };
        self.host.map_pages(mm, at..at + len, request)?;
        self.host.mm(mm).keep_room(at, &room);
        if flags & c::MAP_LOCKED != 0 {
            self.host.mark_pages(mm, &(at..at + len), Marks::LOCKED, Marks::empty());
        }
        if grows {
            self.host.mark_pages(mm, &(at..at + len), Marks::GROWS_DOWN, Marks::empty());
            self.host.mm(mm).keep_room(at, &BELOW_STACKS);
        }
        if flags & (c::MAP_POPULATE | c::MAP_NONBLOCK) == c::MAP_POPULATE && !prot.is_empty() {
            let writes = !shared && prot.contains(Prot::WRITE);
            let how = if writes { c::MADV_POPULATE_WRITE } else { c::MADV_POPULATE_READ };
            self.populate(&(at..at + len), how);
        }
        Ok(at)
    }

    /// `EPERM` if a part of `range` is sealed.
    pub(crate) fn check_unsealed(&mut self, range: &Range<u64>) -> Result<(), Errno> {
        let mm = self.mm();
        let sealed = self.host.mm(mm).overlapping(range).any(|vma| vma.marks.contains(Marks::SEALED));
        if sealed { Err(Errno::EPERM) } else { Ok(()) }
    }

    /// `RLIMIT_MEMLOCK`: `EPERM` if the process may not lock memory, `ENOMEM` if `added` more bytes exceed
    /// the limit.
    pub(crate) fn check_lock_limit(&mut self, added: u64) -> Result<(), Errno> {
        if self.host.processes.is_capable(self.process, capability::IPC_LOCK) {
            return Ok(());
        }
        let limit = self.host.processes[self.process.0].rlimits[c::RLIMIT_MEMLOCK as usize].soft;
        if limit == 0 {
            return Err(Errno::EPERM);
        }
        let mm = self.mm();
        let total = self.host.mm(mm).locked_bytes().saturating_add(added);
        if total <= limit { Ok(()) } else { Err(Errno::ENOMEM) }
    }

    /// `ENOMEM` if `added` more bytes exceed `RLIMIT_AS`; mappings in `over` are replaced and do not count.
    pub(crate) fn check_address_limit(&mut self, added: u64, over: &Range<u64>) -> Result<(), Errno> {
        let limit = self.host.processes[self.process.0].rlimits[c::RLIMIT_AS as usize].soft;
        if limit == u64::MAX {
            return Ok(());
        }
        let mm = self.mm();
        let mapped: u64 = self.host.mm(mm).vmas().map(Vma::counted).sum();
        let replaced = |vma: &Vma| vma.end.min(over.end).saturating_sub(vma.start.max(over.start));
        let replaced: u64 = self.host.mm(mm).overlapping(over).map(replaced).sum();
        let total = (mapped - replaced.min(mapped)).checked_add(added);
        if total.is_some_and(|total| total <= limit) { Ok(()) } else { Err(Errno::ENOMEM) }
    }

    /// Populates the anonymous pages in `range` as by `MADV_POPULATE_*`; failures are ignored.
    pub(crate) fn populate(&mut self, range: &Range<u64>, advice: i32) {
        let mm = self.mm();
        let space = self.host.mm(mm).space;
        let anonymous = self.host.mm(mm).overlapping(range).filter(|vma| vma.is_anonymous());
        let parts: Vec<Range<u64>> = anonymous.map(|vma| vma.part_in(range)).collect();
        for part in parts {
            let _ = self.host.machine.advise(space, part.start, part.end - part.start, advice);
        }
    }
    /// Source for mapping the file behind a shared mapping from `offset` on; `None` for memory without a
    /// file.
    pub(crate) fn source_behind(&mut self, vma: &Vma, offset: u64) -> Option<MapSource> {
        let VmaKind::File { path, identity, file, .. } = &vma.kind else { return None };
        let inode = self.host.files.open((*file)?).kind.inode()?;
        let native = self.host.native_of(inode).ok()?;
        let (path, identity, file, may_write) = (path.clone(), *identity, *file, vma.may_write);
        Some(MapSource { native, offset, path, identity, file, may_write })
    }
    /// `MADV_GUARD_INSTALL` and `MADV_GUARD_REMOVE`: installs or removes guard pages in `range`.
    pub(crate) fn guard_pages(&mut self, range: &Range<u64>, guards: bool) -> Result<(), Errno> {
        let mm = self.mm();
        let space = self.host.mm(mm).space;
        let changes = |vma: &&Vma| vma.marks.contains(Marks::GUARD) != guards;
        let parts: Vec<Vma> = self.host.mm(mm).overlapping(range).filter(changes).cloned().collect();
        for vma in parts {
            let part = vma.part_in(range);
            let len = part.end - part.start;
            if guards && !vma.shared {
                self.host.machine.advise(space, part.start, len, c::MADV_DONTNEED)?;
            }
            let prot = if guards { Prot::empty() } else { vma.prot };
            self.host.machine.protect(space, part.start, len, prot)?;
            let (set, clear) =
                if guards { (Marks::GUARD, Marks::empty()) } else { (Marks::empty(), Marks::GUARD) };
            self.host.mark_pages(mm, &part, set, clear);
        }
        Ok(())
    }
    /// mremap(2) of whole pages; returns the address.
    pub(crate) fn mremap(
        &mut self,
        old: Range<u64>,
        new_len: u64,
        flags: i32,
        target: u64,
    ) -> Result<u64, Errno> {
        let may_move = flags & c::MREMAP_MAYMOVE != 0;
        let fixed = flags & c::MREMAP_FIXED != 0;
        let keeps = flags & c::MREMAP_DONTUNMAP != 0;
        let old_len = old.end - old.start;
        if (fixed || keeps) && !may_move || keeps && old_len != new_len {
            return Err(Errno::EINVAL);
        }
        let mm = self.mm();
        let vma = self.host.mm(mm).find(old.start).cloned().ok_or(Errno::EFAULT)?;
        // An old length of 0 maps shared pages a second time.
        if old.is_empty() && !vma.shared {
            return Err(Errno::EINVAL);
        }
        // Only a mapping that shrinks in place may consist of several mappings.
        let shrinks = !fixed && new_len <= old_len && !keeps;
        if vma.end < old.end && !shrinks {
            return Err(Errno::EFAULT);
        }
        let anonymous = vma.is_private_anonymous();
        if keeps && !anonymous {
            self.host.warn(
                "mremap with MREMAP_DONTUNMAP of what is not private anonymous memory is not supported",
            );
            return Err(Errno::EINVAL);
        }
        if shrinks {
            if new_len < old_len {
                self.host.unmap_pages(mm, old.start + new_len..old.end)?;
            }
            return Ok(old.start);
        }
        let added = if keeps { new_len } else { new_len.saturating_sub(old_len) };
        self.check_address_limit(added, &(0..0))?;
        if !fixed && !keeps && !old.is_empty() && self.host.grow_in_place(mm, &vma, &old, new_len)? {
            return Ok(old.start);
        }
        if !may_move {
            return Err(Errno::ENOMEM);
        }
        let to = if fixed || keeps {
            let range = target..target.checked_add(new_len).ok_or(Errno::EINVAL)?;
            if !target.is_multiple_of(PAGE) || (range.start < old.end && old.start < range.end) {
                return Err(Errno::EINVAL);
            }
            self.host.place_mapping(mm, target, new_len, if fixed { c::MAP_FIXED } else { 0 })?
        } else {
            self.host.find_room(mm, new_len, &ImageRoom::ANY)?
        };
        let (prot, marks) = (vma.prot, vma.marks.difference(Marks::LOCKED | Marks::ON_FAULT));
        let label = if let VmaKind::Anonymous(label) = vma.kind { label } else { "" };
        self.host.move_mapping(mm, vma, old.clone(), to, new_len)?;
        if keeps {
            self.host.map_pages(mm, old.clone(), MapRequest::anonymous(prot, label))?;
            self.host.mark_pages(mm, &old, marks, Marks::all());
            arm_missing(self.host, mm, &old)?;
        }
        Ok(to)
    }
}

impl Host {
    /// Chooses the address of a mapping of `len` bytes.
    pub(crate) fn place_mapping(&mut self, mm: MmKey, hint: u64, len: u64, flags: i32) -> Result<u64, Errno> {
        Ok(self.place_image(mm, hint, len, flags, None)?.0)
    }

    /// Chooses the address, and the room to keep free below it. `image` is the file if it may be an
    /// executable image.
    fn place_image(
        &mut self,
        mm: MmKey,
        hint: u64,
        len: u64,
        flags: i32,
        image: Option<NativeFile>,
    ) -> Result<(u64, ImageRoom), Errno> {
        let range = self.mm(mm).range.clone();
        let wanted = hint..hint.checked_add(len).ok_or(Errno::ENOMEM)?;
        let inside = range.start <= wanted.start && wanted.end <= range.end;
        let fixed = flags & (c::MAP_FIXED | c::MAP_FIXED_NOREPLACE) != 0;
        if !fixed {
            let aligned = hint.is_multiple_of(PAGE);
            if hint != 0 && aligned && self.mm(mm).is_free(&wanted) {
                let (space, as_on_linux) = (self.mm(mm).space, self.mm(mm).as_on_linux);
                // Programs that request low addresses mostly depend on them.
                let claims = as_on_linux || wanted.end <= LOW;
                if inside || claims && self.machine.claim_fixed(space, wanted.clone()).is_ok() {
                    return Ok((hint, ImageRoom::ANY));
                }
            }
            if flags & c::MAP_32BIT != 0 {
                // Linux searches the second gigabyte.
                let at = self.mm(mm).free_between(LOW / 4, LOW / 2, len, &ImageRoom::ANY)?;
                let space = self.mm(mm).space;
                self.machine.claim_fixed(space, at..at + len).map_err(|_| Errno::ENOMEM)?;
                return Ok((at, ImageRoom::ANY));
            }
            let space = self.mm(mm).space;
            let room = image.map_or(ImageRoom::ANY, |image| self.machine.room_of_image(space, image));
            return Ok((self.find_room(mm, len, &room)?, room));
        }
        if !hint.is_multiple_of(PAGE) {
            return Err(Errno::EINVAL);
        }
        if flags & c::MAP_FIXED_NOREPLACE == c::MAP_FIXED_NOREPLACE && !self.mm(mm).is_free(&wanted) {
            return Err(Errno::EEXIST);
        }
        if !inside && !self.mm(mm).covers(&wanted) {
            let space = self.mm(mm).space;
            self.machine.claim_fixed(space, wanted).map_err(|_| {
                self.warn("mmap with MAP_FIXED outside the process's own addresses is not supported");
                Errno::ENOMEM
            })?;
        }
        Ok((hint, ImageRoom::ANY))
    }

    /// Finds addresses for `len` bytes: in the slot or, if it is too small, in the part of the address space
    /// that only far processes have to themselves.
    fn find_room(&mut self, mm: MmKey, len: u64, room: &ImageRoom) -> Result<u64, Errno> {
        if let Ok(at) = self.mm(mm).free_below_top(len, room) {
            return Ok(at);
        }
        let beyond = self.machine.beyond_slots();
        let at = self.mm(mm).free_between(beyond.start, beyond.end, len, &ImageRoom::ANY)?;
        let space = self.mm(mm).space;
        self.machine.claim_fixed(space, at..at + len).map_err(|_| Errno::ENOMEM)?;
        Ok(at)
    }

    /// Extends an anonymous private mapping over the free addresses after it.
    fn grow_in_place(&mut self, mm: MmKey, vma: &Vma, old: &Range<u64>, new_len: u64) -> Result<bool, Errno> {
        let VmaKind::Anonymous(label) = vma.kind else { return Ok(false) };
        let added = old.end..old.start.checked_add(new_len).ok_or(Errno::ENOMEM)?;
        let space = self.mm(mm);
        if vma.shared || vma.end != old.end || added.end > space.mmap_top || !space.is_free(&added) {
            return Ok(false);
        }
        let marks = vma.marks;
        self.map_pages(mm, added.clone(), MapRequest::anonymous(vma.prot, label))?;
        self.mark_pages(mm, &added, marks, Marks::all());
        Ok(true)
    }

    /// Handles a fault below memory that grows downwards by extending it; false if there is no such memory,
    /// or a limit forbids it.
    pub(crate) fn grow_down(&mut self, process: ProcessKey, addr: u64) -> bool {
        let Some(key) = self.processes[process.0].mm else { return false };
        let limit = |which: usize| self.processes[process.0].rlimits[which].soft;
        let (stack, all) = (limit(c::RLIMIT_STACK as usize), limit(c::RLIMIT_AS as usize));
        let (start, mm) = (page_down(addr), &self.spaces[key.0]);
        let grows = |vma: &&Vma| vma.marks.contains(Marks::GROWS_DOWN);
        let Some(vma) = mm.above(start).filter(grows).filter(|_| mm.find(start).is_none()) else {
            return false;
        };
        let added = start..vma.start;
        let near = start.saturating_sub(BELOW_STACKS.below)..start;
        let in_the_way = |vma: &Vma| !vma.prot.is_empty() && !vma.marks.contains(Marks::GROWS_DOWN);
        let mapped: u64 = mm.vmas().map(Vma::counted).sum();
        if vma.end - start > stack
            || mapped.saturating_add(added.end - added.start) > all
            || mm.overlapping(&near).any(in_the_way)
        {
            return false;
        }
        let VmaKind::Anonymous(label) = vma.kind else { return false };
        let (prot, marks, space) = (vma.prot, vma.marks.difference(Marks::GUARD), mm.space);
        let inside = mm.range.start <= added.start && added.end <= mm.range.end;
        if !inside && self.machine.claim_fixed(space, added.clone()).is_err() {
            return false;
        }
        if self.map_pages(key, added.clone(), MapRequest::anonymous(prot, label)).is_err() {
            return false;
        }
        self.mark_pages(key, &added, marks, Marks::all());
        self.mm(key).keep_room(added.start, &BELOW_STACKS);
        true
    }

    /// Moves the pages `old` of `vma` to `to`.
    fn move_mapping(
        &mut self,
        mm: MmKey,
        vma: Vma,
        old: Range<u64>,
        to: u64,
        new_len: u64,
    ) -> Result<(), Errno> {
        let target = to..to.checked_add(new_len).ok_or(Errno::ENOMEM)?;
        self.unmap_pages(mm, target.clone())?;
        let space = self.mm(mm).space;
        self.machine.relocate(space, old.start, old.end - old.start, to, new_len)?;
        let mut kind = vma.kind;
        if let VmaKind::File { offset, file, .. } = &mut kind {
            *offset += old.start - vma.start;
            if let Some(file) = file {
                self.files.retain_file(*file);
            }
        }
        if !old.is_empty() {
            self.forget_vmas(mm, &old);
        }
        self.mm(mm).insert(Vma {
            start: target.start,
            end: target.end,
            kept_below: 0,
            prot: vma.prot,
            shared: vma.shared,
            may_write: vma.may_write,
            marks: vma.marks.difference(Marks::WATCHED),
            kind,
        });
        // The userfaultfd registration does not follow the moved pages.
        if vma.marks.contains(Marks::WATCHED) {
            self.machine.protect(space, target.start, new_len, vma.prot)?;
        }
        Ok(())
    }

    /// `MADV_DONTNEED`: private pages in `range` get their original content back.
    pub(crate) fn discard_pages(&mut self, mm: MmKey, range: Range<u64>, advice: i32) -> Result<(), Errno> {
        let space = self.mm(mm).space;
        let parts: Vec<Range<u64>> = self.mm(mm).overlapping(&range).map(|vma| vma.part_in(&range)).collect();
        let covered: u64 = parts.iter().map(|part| part.end - part.start).sum();
        for part in parts {
            self.machine.advise(space, part.start, part.end - part.start, advice)?;
        }
        arm_missing(self, mm, &range)?;
        if covered < range.end - range.start { Err(Errno::ENOMEM) } else { Ok(()) }
    }
}
