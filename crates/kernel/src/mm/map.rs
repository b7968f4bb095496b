//! Mapping, unmapping and protection changes: the list of mappings is checked first, then the machine acts,
//! then the list is updated.

use crate::host::Host;
use crate::ids::{FileKey, MmKey, ProcessKey};
use belljar_linux_abi::Errno;
use belljar_machine::{Backing, NativeFile, Prot};
use belljar_objects::space::{Marks, PAGE, Vma, VmaKind, page_down, page_up};
use std::ops::Range;
use std::sync::Arc;

/// Request for [`Host::map_pages`].
#[derive(Clone, Debug)]
pub struct MapRequest {
    /// Protection.
    pub prot: Prot,
    /// `MAP_SHARED`.
    pub shared: bool,
    /// Mapped file; `None` for anonymous memory.
    pub source: Option<MapSource>,
    /// True if a shared mapping without a file can be made writable.
    pub may_write: bool,
    /// Label of anonymous memory.
    pub label: &'static str,
}

/// File to be mapped.
#[derive(Clone, Debug)]
pub struct MapSource {
    /// Native file.
    pub native: NativeFile,
    /// Offset of the mapping in the file in bytes, a multiple of the page size.
    pub offset: u64,
    /// Path as shown to guests.
    pub path: Arc<[u8]>,
    /// Device and inode number as shown to guests.
    pub identity: (u64, u64),
    /// Open file, to which a shared mapping holds a reference.
    pub file: Option<FileKey>,
    /// True if a shared mapping can be made writable.
    pub may_write: bool,
}

impl MapRequest {
    /// Private zeroed memory.
    pub fn anonymous(prot: Prot, label: &'static str) -> MapRequest {
        MapRequest { prot, shared: false, source: None, may_write: true, label }
    }
}

impl Host {
    /// Maps `range` (whole pages) of `mm`, replacing existing mappings.
    pub(crate) fn map_pages(
        &mut self,
        mm: MmKey,
        range: Range<u64>,
        request: MapRequest,
    ) -> Result<(), Errno> {
        let len = range.end - range.start;
        let space = self.mm(mm).space;
        let (backing, kind) = match &request.source {
            None if request.shared => {
                let file = self.machine.shared_memory(len)?;
                let identity = self.files.next_shared_identity();
                let path: Arc<[u8]> = Arc::from(&b"/dev/zero (deleted)"[..]);
                (
                    Backing::SharedFile { file, offset: 0 },
                    VmaKind::File { path, identity, offset: 0, file: None },
                )
            }
            None => (Backing::Anonymous, VmaKind::Anonymous(request.label)),
            Some(source) => {
                let (file, offset) = (source.native, source.offset);
                let backing = if request.shared {
                    Backing::SharedFile { file, offset }
                } else {
                    Backing::PrivateFile { file, offset }
                };
                let kept = source.file.filter(|_| request.shared);
                let kind = VmaKind::File {
                    path: source.path.clone(),
                    identity: source.identity,
                    offset,
                    file: kept,
                };
                (backing, kind)
            }
        };
        let mapped = self.machine.map(space, range.start, len, request.prot, backing);
        if let (Backing::SharedFile { file, .. }, None) = (backing, &request.source) {
            self.machine.close(file);
        }
        mapped?;
        if let VmaKind::File { file: Some(file), .. } = &kind {
            self.files.retain_file(*file);
        }
        self.forget_vmas(mm, &range);
        let may_write =
            request.source.as_ref().map_or(request.may_write, |source| source.may_write) || !request.shared;
        let MapRequest { prot, shared, .. } = request;
        let marks = self.mm(mm).marks_of_new;
        let vma =
            Vma { start: range.start, end: range.end, kept_below: 0, prot, shared, may_write, marks, kind };
        self.mm(mm).insert(vma);
        Ok(())
    }

    /// Unmaps `range` (whole pages).
    pub(crate) fn unmap_pages(&mut self, mm: MmKey, range: Range<u64>) -> Result<(), Errno> {
        if self.mm(mm).overlapping(&range).next().is_none() {
            return Ok(());
        }
        let space = self.mm(mm).space;
        self.machine.unmap(space, range.start, range.end - range.start)?;
        self.forget_vmas(mm, &range);
        Ok(())
    }

    /// Changes the protection of `range`. `ENOMEM` unless all of it is mapped; `EACCES` for writing to a
    /// mapping of a file that the program opened for reading only.
    pub(crate) fn protect_pages(&mut self, mm: MmKey, range: Range<u64>, prot: Prot) -> Result<(), Errno> {
        let mut at = range.start;
        for vma in self.mm(mm).overlapping(&range) {
            if vma.start > at {
                return Err(Errno::ENOMEM);
            }
            if prot.contains(Prot::WRITE) && !vma.may_write {
                return Err(Errno::EACCES);
            }
            at = vma.end;
        }
        if at < range.end {
            return Err(Errno::ENOMEM);
        }
        let space = self.mm(mm).space;
        self.machine.protect(space, range.start, range.end - range.start, prot)?;
        let guards = self.spaces[mm.0].overlapping(&range).filter(|vma| vma.marks.contains(Marks::GUARD));
        for guard in guards {
            let part = guard.part_in(&range);
            self.machine.protect(space, part.start, part.end - part.start, Prot::empty())?;
        }
        self.retain_split(mm, &range);
        for mut vma in self.mm(mm).forget(&range) {
            vma.prot = prot;
            self.mm(mm).insert(vma);
        }
        super::arm_missing(self, mm, &range)
    }

    /// Sets and clears marks of the mappings in `range`.
    pub(crate) fn mark_pages(&mut self, mm: MmKey, range: &Range<u64>, set: Marks, clear: Marks) {
        self.retain_split(mm, range);
        for mut vma in self.mm(mm).forget(range) {
            vma.marks = vma.marks.difference(clear).union(set);
            self.mm(mm).insert(vma);
        }
    }

    /// Moves the end of the heap, `brk(2)`; returns the new end, unchanged if it cannot be moved.
    pub(crate) fn move_brk(&mut self, mm: MmKey, to: u64) -> u64 {
        let space = self.mm(mm);
        let brk = space.brk.clone();
        let (Ok(old_end), Ok(new_end)) = (page_up(brk.end), page_up(to)) else { return brk.end };
        if to < brk.start || new_end > space.range.end {
            return brk.end;
        }
        let moved = if new_end > old_end {
            if !space.is_free(&(old_end..new_end + PAGE)) {
                return brk.end;
            }
            let request = MapRequest::anonymous(Prot::READ | Prot::WRITE, "[heap]");
            self.map_pages(mm, old_end..new_end, request)
        } else if new_end < old_end {
            self.unmap_pages(mm, new_end..old_end)
        } else {
            Ok(())
        };
        if moved.is_ok() {
            self.mm(mm).brk.end = to;
        }
        self.mm(mm).brk.end
    }

    /// Releases one use of an address space; destroys the space with its last use.
    pub(crate) fn release_mm(&mut self, process: ProcessKey, key: MmKey) {
        let mm = self.mm(key);
        mm.users -= 1;
        if mm.users > 0 {
            return;
        }
        self.report_space(process, key);
        self.memory.iter_mut().for_each(|memory| memory.released(key));
        let everything = page_down(0)..u64::MAX;
        self.forget_vmas(key, &everything);
        let mm = self.spaces.remove(key.0);
        for (_, told) in self.files.userfaults.iter_mut().filter(|(_, told)| told.space == Some(mm.space)) {
            told.space = None;
        }
        for context in mm.aio.values() {
            self.waits.destroy(context.queue);
        }
        if let Some(users) = self.slots_in_use.get_mut(&mm.slot) {
            *users -= 1;
            if *users == 0 {
                self.slots_in_use.remove(&mm.slot);
            }
        }
        self.machine.destroy_space(mm.space);
        self.sweep_segments();
    }

    /// Takes further references to mapped files before `range` is cut out: each remaining part of a mapping
    /// holds one.
    fn retain_split(&mut self, mm: MmKey, range: &Range<u64>) {
        let staying = |vma: &Vma| {
            let VmaKind::File { file: Some(file), .. } = vma.kind else { return None };
            Some((file, u32::from(vma.start < range.start) + u32::from(vma.end > range.end)))
        };
        let parts: Vec<(FileKey, u32)> = self.mm(mm).overlapping(range).filter_map(staying).collect();
        for (file, count) in parts {
            (0..count).for_each(|_| self.files.retain_file(file));
        }
    }

    /// Replaces the native file behind the shared mappings of file `identity` after a copy-up.
    pub(crate) fn remap_file(&mut self, identity: (u64, u64), native: NativeFile) -> Result<(), Errno> {
        for (_, mm) in &self.spaces {
            for vma in mm.vmas().filter(|vma| vma.shared) {
                if let VmaKind::File { identity: mapped, offset, .. } = vma.kind
                    && mapped == identity
                {
                    let backing = Backing::SharedFile { file: native, offset };
                    let prot = if vma.marks.contains(Marks::GUARD) { Prot::empty() } else { vma.prot };
                    self.machine.map(mm.space, vma.start, vma.end - vma.start, prot, backing)?;
                }
            }
        }
        Ok(())
    }

    pub(super) fn forget_vmas(&mut self, mm: MmKey, range: &Range<u64>) {
        self.retain_split(mm, range);
        for vma in self.mm(mm).forget(range) {
            if let VmaKind::File { file: Some(file), .. } = vma.kind {
                self.release_file(file);
            }
        }
    }
}
