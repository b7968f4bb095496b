//! Registered files: a descriptor table of the instance, which requests use instead of that of the process.

use crate::entry::SubmissionEntry;
use crate::instance::Urings;
use belljar_linux_abi::Errno;
use belljar_objects::ids::FileKey;

/// `IORING_FILE_INDEX_ALLOC`: any free slot.
pub const ALLOC: u32 = u32::MAX;

/// Table of registered files.
#[derive(Debug, Default)]
pub struct Slots {
    /// Files by slot.
    pub files: Vec<Option<FileKey>>,
    /// Tags by slot, 0 for none; empty if no slot has one.
    pub tags: Vec<u64>,
    /// Start of the search for a free slot: after the last allocated one, or at a freed one.
    hint: usize,
    /// Range in which slots are allocated (`IORING_REGISTER_FILE_ALLOC_RANGE`).
    range: Option<(usize, usize)>,
}

impl Slots {
    fn free_place(&self) -> Result<usize, Errno> {
        let (start, end) = self.range.unwrap_or((0, self.files.len()));
        let hint = self.hint.clamp(start, end);
        (hint..end).chain(start..hint).find(|at| self.files[*at].is_none()).ok_or(Errno::ENFILE)
    }
    /// Slot for a new file: `index - 1`, or any free one ([`ALLOC`]).
    pub fn place_for(&self, index: u32) -> Result<usize, Errno> {
        match index {
            ALLOC => self.free_place(),
            _ if self.files.is_empty() => Err(Errno::ENXIO),
            _ if index as usize > self.files.len() => Err(Errno::EINVAL),
            _ => Ok(index as usize - 1),
        }
    }
    /// Removes the file that `IORING_OP_CLOSE` closes from its slot.
    pub fn close(&mut self, entry: &SubmissionEntry) -> Result<FileKey, Errno> {
        let place = entry.file_index as usize - 1;
        if entry.fd != 0 {
            return Err(Errno::EINVAL);
        }
        if self.files.is_empty() {
            return Err(Errno::ENXIO);
        }
        let file = self.files.get(place).ok_or(Errno::EINVAL)?.ok_or(Errno::EBADF)?;
        self.put(place, None);
        Ok(file)
    }
    /// Sets the tag of a slot; returns the previous one.
    pub fn put_tag(&mut self, at: usize, tag: u64) -> u64 {
        if tag != 0 && self.tags.is_empty() {
            self.tags = vec![0; self.files.len()];
        }
        self.tags.get_mut(at).map_or(0, |old| std::mem::replace(old, tag))
    }
    /// Sets a slot; returns its previous file.
    pub fn put(&mut self, at: usize, file: Option<FileKey>) -> Option<FileKey> {
        self.hint = if file.is_some() { at + 1 } else { at };
        std::mem::replace(&mut self.files[at], file)
    }
}

impl Urings {
    /// File in a slot.
    pub fn file_in_slot(&self, n: usize, slot: i32) -> Result<FileKey, Errno> {
        let files = &self.instances[n].slots.files;
        files.get(slot as usize).copied().flatten().ok_or(Errno::EBADF)
    }

    /// Creates a table of `count` empty slots.
    pub fn make_slots(&mut self, n: usize, count: usize) -> Result<(), Errno> {
        let slots = &mut self.instances[n].slots;
        if !slots.files.is_empty() {
            return Err(Errno::EBUSY);
        }
        if !(1..=32_768).contains(&count) {
            return Err(if count == 0 { Errno::EINVAL } else { Errno::EMFILE });
        }
        *slots = Slots { files: vec![None; count], ..Slots::default() };
        Ok(())
    }

    /// `IORING_REGISTER_FILE_ALLOC_RANGE`.
    pub fn limit_slots(&mut self, n: usize, start: u32, len: u32) -> Result<(), Errno> {
        let slots = &mut self.instances[n].slots;
        let end = start.checked_add(len).ok_or(Errno::EOVERFLOW)? as usize;
        if end > slots.files.len() {
            return Err(Errno::EINVAL);
        }
        slots.range = Some((start as usize, end));
        slots.hint = start as usize;
        Ok(())
    }
}
