//! A guest's address space: a slot, claims of fixed addresses, and what is mapped executable.

use crate::far::Shim;
use crate::far::replicate::{SharedSource, replicate};
use crate::layout::{self, PAGE, Slot};
use crate::native::Native;
use crate::registry;
use crate::rewrite::Rewriter;
use belljar_kernel::machine::{Backing, Prot};
use belljar_linux_abi::Errno;
use std::fs::File;
use std::ops::Range;
use std::sync::Arc;

/// One address space.
#[derive(Debug)]
pub struct Space {
    /// Where its memory is.
    pub native: Native,
    /// Its slot.
    pub slot: Slot,
    /// Granted ranges outside the slot.
    claims: Vec<Range<u64>>,
    /// Its shared mappings, which a fork makes again.
    shared: Vec<Shared>,
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

/// A shared mapping.
#[derive(Clone, Debug)]
struct Shared {
    range: Range<u64>,
    file: Arc<File>,
    /// Where `range` starts in the file.
    offset: u64,
}

/// The whole pages that `len` bytes at a page's start lie in.
fn pages(addr: u64, len: u64) -> Range<u64> {
    addr..addr + len.next_multiple_of(PAGE)
}

impl Space {
    /// Takes `slot` of this process.
    pub fn near(slot: Slot) -> Result<Space, Errno> {
        registry::take_slot(&slot.whole).map_err(|_| Errno::ENOMEM)?;
        Ok(Space::with(Native::Near, slot))
    }

    /// A process of its own.
    pub fn far(slot: Slot) -> Result<Space, Errno> {
        Ok(Space::with(Native::Far(Box::new(Shim::spawn()?)), slot))
    }

    fn with(native: Native, slot: Slot) -> Space {
        let (claims, shared) = (Vec::new(), Vec::new());
        Space { native, slot, claims, shared, rewriter: Rewriter::default(), counts: CallCounts::default() }
    }

    /// See `Platform::fork_space`.
    pub fn fork(&self) -> Result<Space, Errno> {
        let shim = match &self.native {
            Native::Far(shim) => shim.fork()?,
            Native::Near => {
                let shim = Shim::spawn()?;
                let shared: Vec<SharedSource<'_>> = self.shared.iter().map(Shared::source).collect();
                let low = self.rewriter.low_chunks();
                let ranges: Vec<Range<u64>> =
                    self.claims.iter().cloned().chain([self.slot.whole.clone()]).chain(low).collect();
                replicate(&shim, &ranges, &shared)?;
                shim
            }
        };
        let mut copy = Space::with(Native::Far(Box::new(shim)), self.slot.clone());
        copy.claims.clone_from(&self.claims);
        copy.shared.clone_from(&self.shared);
        copy.rewriter = self.rewriter.clone();
        Ok(copy)
    }

    /// Whether it lies in this process.
    pub fn is_near(&self) -> bool {
        matches!(self.native, Native::Near)
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
        match self.native {
            Native::Near => registry::claim(self.slot.whole.start, &range)?,
            Native::Far(_) => {
                registry::check_claim(&range)?;
                if self.rewriter.low_chunks().any(|chunk| layout::overlap(&chunk, &range)) {
                    return Err(Errno::EBUSY);
                }
            }
        }
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
        if !addr.is_multiple_of(PAGE) || len == 0 {
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
        let prot_bits = prot.bits() as i32;
        self.native.mmap(addr, len, prot_bits, flags | libc::MAP_FIXED, fd, offset)?;
        let mapped = pages(addr, len);
        self.gone(&mapped);
        if let Backing::SharedFile { file, offset } = backing
            && let Ok(file) = crate::files::duplicate(file)
        {
            let file = Arc::new(file);
            self.shared.push(Shared { range: mapped.clone(), file, offset });
        }
        if let Backing::PrivateFile { file, offset } = backing
            && prot.contains(Prot::EXEC)
            && !prot.contains(Prot::WRITE)
        {
            self.rewriter.text_mapped(mapped, file.0, offset, &self.native);
        }
        Ok(())
    }

    /// See `Platform::unmap`.
    pub fn unmap(&mut self, addr: u64, len: u64) -> Result<(), Errno> {
        self.check_pages(addr, len)?;
        self.gone(&pages(addr, len));
        self.native.munmap(addr, len)
    }

    /// See `Platform::protect`.
    pub fn protect(&mut self, addr: u64, len: u64, prot: Prot) -> Result<(), Errno> {
        self.check_pages(addr, len)?;
        if prot.contains(Prot::WRITE) {
            self.rewriter.text_writable(&pages(addr, len));
        }
        self.native.mprotect(addr, len, prot.bits() as i32)
    }

    /// See `Platform::relocate`.
    pub fn relocate(&mut self, from: u64, old_len: u64, to: u64, new_len: u64) -> Result<(), Errno> {
        self.check_pages(from, old_len.max(1))?;
        self.check_pages(to, new_len)?;
        let moved: Vec<Shared> = self.shared.iter().filter_map(|s| s.cut(&pages(from, old_len))).collect();
        self.gone(&pages(from, old_len));
        self.gone(&pages(to, new_len));
        if from == to {
            self.native.mremap(from, old_len, new_len, 0, 0)?;
        } else {
            let flags = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED;
            self.native.mremap(from, old_len, new_len, flags, to)?;
        }
        // The kernel moves within one mapping.
        if let [shared] = moved.as_slice() {
            let range = pages(to, new_len);
            self.shared.push(Shared { range, ..shared.clone() });
        }
        Ok(())
    }

    /// Notes that what was mapped in `range` is no more.
    fn gone(&mut self, range: &Range<u64>) {
        self.rewriter.text_gone(range);
        if self.shared.iter().any(|s| layout::overlap(&s.range, range)) {
            let parts = [0..range.start, range.end..u64::MAX];
            self.shared = self.shared.iter().flat_map(|s| parts.iter().filter_map(|p| s.cut(p))).collect();
        }
    }

    /// See `Platform::advise`.
    pub fn advise(&mut self, addr: u64, len: u64, advice: i32) -> Result<(), Errno> {
        self.check_pages(addr, len)?;
        if advice == libc::MADV_DONTNEED {
            self.rewriter.content_gone(&pages(addr, len));
        }
        self.native.madvise(addr, len, advice)
    }
}

impl Shared {
    /// The part of it inside `range`.
    fn cut(&self, range: &Range<u64>) -> Option<Shared> {
        let part = self.range.start.max(range.start)..self.range.end.min(range.end);
        let offset = self.offset + part.start.saturating_sub(self.range.start);
        (part.start < part.end).then(|| Shared { range: part, file: self.file.clone(), offset })
    }

    fn source(&self) -> SharedSource<'_> {
        SharedSource { range: self.range.clone(), file: &self.file, offset: self.offset }
    }
}

impl Drop for Space {
    fn drop(&mut self) {
        if let Native::Near = self.native {
            let low: Vec<Range<u64>> = self.rewriter.low_chunks().collect();
            for range in self.claims.iter().chain([&self.slot.whole]).chain(&low) {
                // No guest runs in the space any more, and the ranges are its own.
                let _ = self.native.munmap(range.start, range.end - range.start);
            }
            low.iter().for_each(|chunk| registry::release_stubs(chunk.start));
            registry::release(self.slot.whole.start);
        }
    }
}
