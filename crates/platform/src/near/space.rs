//! A guest's address space: a slot, claims of fixed addresses, and what is mapped executable.

use super::layout::{self, PAGE, Slot};
use super::registry;
use super::rewrite::Rewriter;
use belljar_kernel::machine::{Backing, Prot};
use belljar_linux_abi::Errno;
use std::ops::Range;

/// One address space.
#[derive(Debug)]
pub struct Space {
    /// Its slot.
    pub slot: Slot,
    /// Granted ranges outside the slot.
    claims: Vec<Range<u64>>,
    /// Its rewritten call sites.
    pub rewriter: Rewriter,
    /// How its system calls came.
    pub counts: CallCounts,
}

/// How many system calls came which way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CallCounts {
    /// Through rewritten sites.
    pub rewritten: u64,
    /// By a trap, which costs some ten times as much.
    pub trapped: u64,
}

/// A native call's result as the kernel's.
fn checked(result: i32) -> Result<(), Errno> {
    match result {
        0 => Ok(()),
        _ => Err(std::io::Error::last_os_error().into()),
    }
}

/// The whole pages that `len` bytes at a page's start lie in.
fn pages(addr: u64, len: u64) -> Range<u64> {
    addr..addr + len.next_multiple_of(PAGE)
}

fn pointer(addr: u64) -> *mut libc::c_void {
    addr as *mut libc::c_void
}

impl Space {
    /// Takes `slot`.
    pub fn new(slot: Slot) -> Result<Space, Errno> {
        registry::take_slot(&slot.whole).map_err(|_| Errno::ENOMEM)?;
        Ok(Space { slot, claims: Vec::new(), rewriter: Rewriter::default(), counts: CallCounts::default() })
    }

    /// Whether `len` bytes at `addr` are this space's to use.
    #[inline]
    pub fn owns(&self, addr: u64, len: u64) -> bool {
        let Some(end) = addr.checked_add(len) else { return false };
        let range = addr..end;
        layout::contains(&self.slot.usable, &range) || self.claims.iter().any(|c| layout::contains(c, &range))
    }

    /// Whether guest code may run at `rip`: anywhere of its own, stubs included.
    pub fn may_run_at(&self, rip: u64) -> bool {
        self.slot.whole.contains(&rip) || self.claims.iter().any(|c| c.contains(&rip))
    }

    /// See `Platform::claim_fixed`.
    pub fn claim(&mut self, range: Range<u64>) -> Result<(), Errno> {
        registry::claim(self.slot.whole.start, &range)?;
        // Neighbours become one range, so that accesses may cross from one to the other.
        let mut merged = range;
        self.claims.retain(|c| {
            let touches = c.start <= merged.end && merged.start <= c.end;
            if touches {
                merged = merged.start.min(c.start)..merged.end.max(c.end);
            }
            !touches
        });
        self.claims.push(merged);
        Ok(())
    }

    fn check_pages(&self, addr: u64, len: u64) -> Result<(), Errno> {
        if addr % PAGE != 0 || len == 0 {
            return Err(Errno::EINVAL);
        }
        if self.owns(addr, len.checked_next_multiple_of(PAGE).ok_or(Errno::ENOMEM)?) {
            Ok(())
        } else {
            Err(Errno::ENOMEM)
        }
    }

    /// See `Platform::map`.
    pub fn map(&mut self, addr: u64, len: u64, prot: Prot, backing: Backing) -> Result<(), Errno> {
        self.check_pages(addr, len)?;
        let (flags, fd, offset) = match backing {
            Backing::Anonymous => (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE, -1, 0),
            Backing::PrivateFile { file, offset } => {
                (libc::MAP_PRIVATE | libc::MAP_NORESERVE, file.0, offset)
            }
            Backing::SharedFile { file, offset } => (libc::MAP_SHARED, file.0, offset),
        };
        // SAFETY: the range is the guest's own, so nothing of the simulator is replaced.
        let at = unsafe {
            libc::mmap(
                pointer(addr),
                len as usize,
                prot.bits() as i32,
                flags | libc::MAP_FIXED,
                fd,
                offset as libc::off_t,
            )
        };
        if at == libc::MAP_FAILED {
            return Err(std::io::Error::last_os_error().into());
        }
        let mapped = pages(addr, len);
        self.rewriter.text_gone(&mapped);
        if let Backing::PrivateFile { file, offset } = backing {
            if prot.contains(Prot::EXEC) && !prot.contains(Prot::WRITE) {
                self.rewriter.text_mapped(mapped, file.0, offset);
            }
        }
        Ok(())
    }

    /// See `Platform::unmap`.
    pub fn unmap(&mut self, addr: u64, len: u64) -> Result<(), Errno> {
        self.check_pages(addr, len)?;
        self.rewriter.text_gone(&pages(addr, len));
        // SAFETY: the range is the guest's own.
        checked(unsafe { libc::munmap(pointer(addr), len as usize) })
    }

    /// See `Platform::protect`.
    pub fn protect(&mut self, addr: u64, len: u64, prot: Prot) -> Result<(), Errno> {
        self.check_pages(addr, len)?;
        if prot.contains(Prot::WRITE) {
            self.rewriter.text_writable(&pages(addr, len));
        }
        // SAFETY: the range is the guest's own.
        checked(unsafe { libc::mprotect(pointer(addr), len as usize, prot.bits() as i32) })
    }

    /// See `Platform::relocate`.
    pub fn relocate(&mut self, from: u64, old_len: u64, to: u64, new_len: u64) -> Result<(), Errno> {
        self.check_pages(from, old_len.max(1))?;
        self.check_pages(to, new_len)?;
        self.rewriter.text_gone(&pages(from, old_len));
        self.rewriter.text_gone(&pages(to, new_len));
        let at = if from == to {
            // SAFETY: the range is the guest's own, and so is what it grows into.
            unsafe { libc::mremap(pointer(from), old_len as usize, new_len as usize, 0) }
        } else {
            let flags = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED;
            // SAFETY: both ranges are the guest's own.
            unsafe { libc::mremap(pointer(from), old_len as usize, new_len as usize, flags, pointer(to)) }
        };
        if at == libc::MAP_FAILED { Err(std::io::Error::last_os_error().into()) } else { Ok(()) }
    }

    /// See `Platform::advise`.
    pub fn advise(&mut self, addr: u64, len: u64, advice: i32) -> Result<(), Errno> {
        self.check_pages(addr, len)?;
        if advice == libc::MADV_DONTNEED {
            self.rewriter.content_gone(&pages(addr, len));
        }
        // SAFETY: the range is the guest's own.
        checked(unsafe { libc::madvise(pointer(addr), len as usize, advice) })
    }
}

impl Drop for Space {
    fn drop(&mut self) {
        for range in self.claims.iter().chain([&self.slot.whole]) {
            // SAFETY: no guest runs in the space any more, and the ranges are its own.
            unsafe { libc::munmap(pointer(range.start), (range.end - range.start) as usize) };
        }
        registry::release(self.slot.whole.start);
    }
}
