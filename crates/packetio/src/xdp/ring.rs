//! The rings between an `AF_XDP` socket and the kernel: each has one producer and one consumer.

use crate::sys::Mapping;
use rustix::net::xdp::{XdpDesc, XdpRingFlags, XdpRingOffset};
use std::io::{Error, Result};
use std::marker::PhantomData;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicU32, Ordering};

/// An entry of a ring.
///
/// # Safety
/// Plain data, laid out as the kernel has it.
pub(super) unsafe trait Entry: Copy {}
// SAFETY: the offset of a chunk, in the fill and completion rings.
unsafe impl Entry for u64 {}
// SAFETY: a descriptor of a frame, in the receive and transmit rings.
unsafe impl Entry for XdpDesc {}

/// A ring of `T`, used from one side: either [`push`](Ring::push) or [`pop`](Ring::pop) is called, not both.
#[derive(Debug)]
pub(super) struct Ring<T> {
    memory: Mapping,
    producer: usize,
    consumer: usize,
    flags: Option<usize>,
    entries: usize,
    /// Number of entries, a power of two.
    size: u32,
    /// Our index: of the next entry that we write, or read.
    mine: u32,
    /// The kernel's index when it was last looked at.
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

    /// True if the kernel sleeps until it is told of new entries.
    pub fn needs_wakeup(&self) -> bool {
        let need = XdpRingFlags::XDP_RING_NEED_WAKEUP.bits();
        self.flags.is_some_and(|at| self.word(at).load(Ordering::Relaxed) & need != 0)
    }

    /// Writes an entry, for the kernel to see after [`publish`](Ring::publish). Returns false if the ring is full.
    pub fn push(&mut self, value: T) -> bool {
        if self.mine.wrapping_sub(self.theirs) == self.size {
            self.theirs = self.word(self.consumer).load(Ordering::Acquire);
            if self.mine.wrapping_sub(self.theirs) == self.size {
                return false;
            }
        }
        // SAFETY: the entry is ours until it is published.
        unsafe { self.entry(self.mine).write(value) };
        self.mine = self.mine.wrapping_add(1);
        true
    }

    /// Shows the kernel the entries that were pushed.
    pub fn publish(&mut self) {
        self.word(self.producer).store(self.mine, Ordering::Release);
    }

    /// Entries that the kernel has not consumed yet.
    pub fn unconsumed(&mut self) -> u32 {
        self.theirs = self.word(self.consumer).load(Ordering::Acquire);
        self.mine.wrapping_sub(self.theirs)
    }

    /// The entries that the kernel has not consumed yet.
    pub fn pending(&mut self) -> impl Iterator<Item = T> {
        let pending = self.unconsumed();
        // SAFETY: entries between the indices were written here, and the kernel only reads them.
        (0..pending).map(move |i| unsafe { self.entry(self.mine.wrapping_sub(pending - i)).read() })
    }

    /// Takes an entry. The kernel gets its place back by [`release`](Ring::release).
    pub fn pop(&mut self) -> Option<T> {
        if self.mine == self.theirs {
            self.theirs = self.word(self.producer).load(Ordering::Acquire);
            if self.mine == self.theirs {
                return None;
            }
        }
        // SAFETY: the kernel has published the entry and leaves it alone until it is released.
        let value = unsafe { self.entry(self.mine).read() };
        self.mine = self.mine.wrapping_add(1);
        Some(value)
    }

    /// Gives the kernel the places of the entries that were taken.
    pub fn release(&mut self) {
        self.word(self.consumer).store(self.mine, Ordering::Release);
    }
}
