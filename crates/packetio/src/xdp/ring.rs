//! Rings between an `AF_XDP` socket and the kernel, each with one producer and one consumer.

use crate::sys::Mapping;
use rustix::net::xdp::{XdpDesc, XdpRingFlags, XdpRingOffset};
use std::io::{Error, Result};
use std::marker::PhantomData;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicU32, Ordering};

/// Ring entry.
///
/// # Safety
/// Plain data with the kernel's layout.
pub(super) unsafe trait Entry: Copy {}
// SAFETY: the offset of a chunk, in the fill and completion rings.
unsafe impl Entry for u64 {}
// SAFETY: a descriptor of a frame, in the receive and transmit rings.
unsafe impl Entry for XdpDesc {}

/// Ring of `T`, used from one side: either [`push`](Ring::push) or [`pop`](Ring::pop) is called, never both.
#[derive(Debug)]
pub(super) struct Ring<T> {
    memory: Mapping,
    producer: usize,
    consumer: usize,
    flags: Option<usize>,
    entries: usize,
    /// Number of entries, a power of two.
    size: u32,
    /// Own index: next entry to write or read.
    mine: u32,
    /// The kernel's index as last read.
    theirs: u32,
    holds: PhantomData<T>,
}

impl<T: Entry> Ring<T> {
    /// Maps the ring of `size` entries at `page_offset` of the socket.
    pub fn map(fd: BorrowedFd<'_>, at: &XdpRingOffset, size: u32, page_offset: u64) -> Result<Ring<T>> {
        let offset = |v: u64| usize::try_from(v).map_err(|_| Error::from_raw_os_error(libc::EOVERFLOW));
        let entries = offset(at.desc)?;
        let memory = Mapping::of(fd, entries + size as usize * size_of::<T>(), page_offset)?;
        Ok(Ring {
            producer: offset(at.producer)?,
            consumer: offset(at.consumer)?,
            flags: at.flags.map(offset).transpose()?,
            entries,
            size,
            mine: 0,
            theirs: 0,
            memory,
            holds: PhantomData,
        })
    }

    fn word(&self, offset: usize) -> &AtomicU32 {
        // SAFETY: `at` checks that the word is mapped; the kernel aligns it and treats it as atomic.
        unsafe { &*self.memory.at(offset, 4).cast::<AtomicU32>() }
    }

    fn entry(&self, index: u32) -> *mut T {
        let i = (index & (self.size - 1)) as usize;
        self.memory.at(self.entries + i * size_of::<T>(), size_of::<T>()).cast()
    }

    /// True if the kernel sleeps until it is notified of new entries.
    pub fn needs_wakeup(&self) -> bool {
        let need = XdpRingFlags::XDP_RING_NEED_WAKEUP.bits();
        self.flags.is_some_and(|at| self.word(at).load(Ordering::Relaxed) & need != 0)
    }

    /// Writes an entry, visible to the kernel after [`publish`](Ring::publish). Returns false if the ring is
    /// full.
    pub fn push(&mut self, value: T) -> bool {
        if self.mine.wrapping_sub(self.theirs) == self.size {
            self.theirs = self.word(self.consumer).load(Ordering::Acquire);
            if self.mine.wrapping_sub(self.theirs) == self.size {
                return false;
            }
        }
        // SAFETY: the entry is owned by this side until it is published.
        unsafe { self.entry(self.mine).write(value) };
        self.mine = self.mine.wrapping_add(1);
        true
    }

    /// Publishes the pushed entries to the kernel.
    pub fn publish(&mut self) {
        self.word(self.producer).store(self.mine, Ordering::Release);
    }

    /// Number of entries not yet consumed by the kernel.
    pub fn unconsumed(&mut self) -> u32 {
        self.theirs = self.word(self.consumer).load(Ordering::Acquire);
        self.mine.wrapping_sub(self.theirs)
    }

    /// Entries not yet consumed by the kernel.
    pub fn pending(&mut self) -> impl Iterator<Item = T> {
        let pending = self.unconsumed();
        // SAFETY: entries between the indices were written here, and the kernel only reads them.
        (0..pending).map(move |i| unsafe { self.entry(self.mine.wrapping_sub(pending - i)).read() })
    }

    /// Takes an entry. [`release`](Ring::release) returns its slot to the kernel.
    pub fn pop(&mut self) -> Option<T> {
        if self.mine == self.theirs {
            self.theirs = self.word(self.producer).load(Ordering::Acquire);
            if self.mine == self.theirs {
                return None;
            }
        }
        // SAFETY: the kernel has published the entry and does not write to it until it is released.
        let value = unsafe { self.entry(self.mine).read() };
        self.mine = self.mine.wrapping_add(1);
        Some(value)
    }

    /// Returns the slots of the taken entries to the kernel.
    pub fn release(&mut self) {
        self.word(self.consumer).store(self.mine, Ordering::Release);
    }
}
