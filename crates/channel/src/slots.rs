//! Rings of slots in memory shared by two programs: each slot has an owner byte.
//!
//! A [`Region`] is the memory, a [`SlotRing`] a part of it. The side that owns a slot reads and writes it,
//! then passes it on by storing the owner byte with release order; the other side loads that byte with
//! acquire order. The protocol defines the values.

use crate::memory::Mapping;
use std::fs::File;
use std::io::{Error, ErrorKind, Result};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering::*};

/// Memory that another program can map too.
#[derive(Debug)]
pub struct Region {
    memory: Mapping,
    file: OwnedFd,
    len: usize,
}

impl Region {
    /// Creates a region of `len` zero bytes, sealed against shrinking.
    ///
    /// # Errors
    /// Errors of memfd_create(2), ftruncate(2), fcntl(2) and mmap(2).
    pub fn create(len: usize) -> Result<Region> {
        // SAFETY: the name is a C string; a fresh descriptor has no other owner.
        let file = unsafe {
            match libc::memfd_create(c"belljar".as_ptr(), libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING) {
                -1 => return Err(Error::last_os_error()),
                fd => File::from_raw_fd(fd),
            }
        };
        file.set_len(len as u64)?;
        // SAFETY: the descriptor is open; no memory is passed.
        if unsafe { libc::fcntl(file.as_raw_fd(), libc::F_ADD_SEALS, libc::F_SEAL_SHRINK) } == -1 {
            return Err(Error::last_os_error());
        }
        let file = OwnedFd::from(file);
        Ok(Region { memory: Mapping::of(&file, len)?, file, len })
    }

    /// Maps the whole region created by another program. A program that can write to the file can truncate
    /// it, after which an access raises SIGBUS.
    ///
    /// # Errors
    /// Errors of fstat(2) and mmap(2); an empty file cannot be mapped.
    pub fn open(file: OwnedFd) -> Result<Region> {
        let file = File::from(file);
        let len = usize::try_from(file.metadata()?.len()).map_err(|_| ErrorKind::FileTooLarge)?;
        let file = OwnedFd::from(file);
        Ok(Region { memory: Mapping::of(&file, len)?, file, len })
    }

    /// File by which another program maps the region.
    pub fn file(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
    /// Length in bytes.
    pub fn len(&self) -> usize {
        self.len
    }
    /// True if the length is 0.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

/// Array of slots of one size.
#[derive(Clone, Debug)]
pub struct SlotRing {
    region: Arc<Region>,
    offset: usize,
    size: usize,
    count: usize,
}

impl SlotRing {
    /// Creates a ring of `count` slots of `size` bytes from `offset`. `None` if it exceeds the region or has
    /// no slots.
    pub fn new(region: Arc<Region>, offset: u64, size: u64, count: u64) -> Option<SlotRing> {
        let end = offset.checked_add(size.checked_mul(count)?)?;
        if size == 0 || count == 0 || usize::try_from(end).ok()? > region.len {
            return None;
        }
        Some(SlotRing { region, offset: offset as usize, size: size as usize, count: count as usize })
    }

    /// Size of a slot in bytes.
    pub fn slot_size(&self) -> usize {
        self.size
    }
    /// Number of slots.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Owner byte of a slot, at offset `at`. What the other side wrote before passing the slot on is visible
    /// after it.
    pub fn owner(&self, slot: usize, at: usize) -> u8 {
        self.byte(slot, at).load(Acquire)
    }

    /// Passes a slot on, with everything written to it, by its owner byte at offset `at`.
    pub fn give(&self, slot: usize, at: usize, owner: u8) {
        self.byte(slot, at).store(owner, Release);
    }

    /// Copies bytes out of a slot, from offset `at`.
    ///
    /// # Panics
    /// If the range exceeds the slot.
    pub fn read(&self, slot: usize, at: usize, into: &mut [u8]) {
        let from = self.place(slot, at, into.len());
        // SAFETY: `place` has checked that the range lies within the mapping, which does not overlap `into`.
        // A program that writes there meanwhile violates the protocol; the copy then has some of its bytes.
        unsafe { into.as_mut_ptr().copy_from_nonoverlapping(from, into.len()) };
    }

    /// Copies bytes into a slot, from offset `at`.
    ///
    /// # Panics
    /// If the range exceeds the slot.
    pub fn write(&self, slot: usize, at: usize, bytes: &[u8]) {
        let to = self.place(slot, at, bytes.len());
        // SAFETY: as in `read`.
        unsafe { to.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
    }

    fn byte(&self, slot: usize, at: usize) -> &AtomicU8 {
        // SAFETY: `place` has checked that the byte lies within the mapping, which lives as long as `self`.
        unsafe { &*self.place(slot, at, 1).cast::<AtomicU8>() }
    }

    fn place(&self, slot: usize, at: usize, len: usize) -> *mut u8 {
        assert!(slot < self.count && at <= self.size && len <= self.size - at, "outside of the slot");
        // SAFETY: all slots lie within the mapping, and these bytes within the slot.
        unsafe { self.region.memory.at().add(self.offset + slot * self.size + at) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_given_away_is_seen_by_the_other_side() {
        let here = Arc::new(Region::create(4 * 128).unwrap());
        let there = Arc::new(Region::open(here.file().try_clone_to_owned().unwrap()).unwrap());
        assert_eq!(there.len(), 4 * 128);
        let writer = SlotRing::new(here, 128, 64, 4).unwrap();
        let reader = SlotRing::new(there, 128, 64, 4).unwrap();
        let thread = std::thread::spawn(move || {
            for round in 0..1_000_u64 {
                let slot = round as usize % 4;
                while reader.owner(slot, 63) == 0 {
                    std::thread::yield_now();
                }
                let mut bytes = [0; 8];
                reader.read(slot, 8, &mut bytes);
                assert_eq!(u64::from_le_bytes(bytes), round);
                reader.give(slot, 63, 0);
            }
        });
        for round in 0..1_000_u64 {
            let slot = round as usize % 4;
            while writer.owner(slot, 63) != 0 {
                std::thread::yield_now();
            }
            writer.write(slot, 8, &round.to_le_bytes());
            writer.give(slot, 63, 1);
        }
        thread.join().unwrap();
    }

    #[test]
    fn rings_lie_within_their_region() {
        let region = Arc::new(Region::create(1 << 12).unwrap());
        let ring = |offset, size, count| SlotRing::new(region.clone(), offset, size, count).is_some();
        assert!(ring(0, 64, 64) && ring(64, 64, 63));
        assert!(!ring(64, 64, 64) && !ring(0, 65, 64) && !ring(0, 0, 5) && !ring(0, 64, 0));
        assert!(!ring(u64::MAX, 64, 1) && !ring(0, u64::MAX, 2) && !ring(8, u64::MAX / 2, 2));
    }

    #[test]
    #[should_panic(expected = "outside of the slot")]
    fn a_read_beyond_a_slot_is_refused() {
        let ring = SlotRing::new(Arc::new(Region::create(256).unwrap()), 0, 64, 2).unwrap();
        ring.read(0, 60, &mut [0; 5]);
    }
}
