//! Native operations on a space's memory: system calls of this process for near spaces, system calls in the
//! far process for far ones.

use crate::far::Shim;
use crate::near::{copy, patch_memory};
use belljar_linux_abi::Errno;
use belljar_shim::layout::PAGE;
use std::io::Error;
use std::path::Path;
use std::sync::LazyLock;

/// The process that holds a space's memory.
#[derive(Debug)]
pub enum Native {
    /// The simulator's own process.
    Near,
    /// A far process.
    Far(Box<Shim>),
}

/// True if this machine backs memory by huge pages, of any size, without `madvise(2)`.
static HUGE_UNASKED: LazyLock<bool> = LazyLock::new(|| {
    let folder = Path::new("/sys/kernel/mm/transparent_hugepage");
    let sizes = std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut places = sizes.chain([folder.to_path_buf()]);
    places.any(|place| {
        std::fs::read_to_string(place.join("enabled")).is_ok_and(|text| text.contains("[always]"))
    })
});

fn pointer(addr: u64) -> *mut libc::c_void {
    addr as *mut libc::c_void
}

/// Result of a native call that returns zero or an error.
fn checked(result: i32) -> Result<(), Errno> {
    if result == 0 { Ok(()) } else { Err(Error::last_os_error().into()) }
}

/// Result of a native call that returns an address or `MAP_FAILED`.
fn mapped(at: *mut libc::c_void) -> Result<(), Errno> {
    if at == libc::MAP_FAILED { Err(Error::last_os_error().into()) } else { Ok(()) }
}

/// All methods act on addresses that the caller has verified to be the guest's own; for near spaces, their
/// soundness depends on this.
impl Native {
    /// `mmap(2)` with these flags; `fd` is a descriptor of this process, or -1.
    pub fn mmap(
        &self,
        addr: u64,
        len: u64,
        prot: i32,
        flags: i32,
        fd: i32,
        offset: u64,
    ) -> Result<(), Errno> {
        match self {
            // SAFETY: the range is the guest's own, so nothing of the simulator is replaced.
            Native::Near => mapped(unsafe {
                libc::mmap(pointer(addr), len as usize, prot, flags, fd, offset as libc::off_t)
            }),
            Native::Far(shim) => shim.mmap(addr, len, prot, flags, fd, offset),
        }
    }
    /// Disables huge pages for new anonymous memory: guests can query which pages have been touched
    /// (mincore(2)), and a huge page would make the neighbouring pages resident as well. Far processes
    /// disable them for all their memory.
    pub fn keep_small_pages(&self, addr: u64, len: u64) {
        if matches!(self, Native::Near) && *HUGE_UNASKED {
            // This fails on kernels without huge pages.
            let _ = self.madvise(addr, len, libc::MADV_NOHUGEPAGE);
        }
    }
    /// `munmap(2)`.
    pub fn munmap(&self, addr: u64, len: u64) -> Result<(), Errno> {
        match self {
            // SAFETY: the range is the guest's own.
            Native::Near => checked(unsafe { libc::munmap(pointer(addr), len as usize) }),
            Native::Far(shim) => shim.call(libc::SYS_munmap, [addr, len, 0, 0, 0, 0]).map(|_| ()),
        }
    }
    /// `mprotect(2)`.
    pub fn mprotect(&self, addr: u64, len: u64, prot: i32) -> Result<(), Errno> {
        match self {
            // SAFETY: the range is the guest's own.
            Native::Near => checked(unsafe { libc::mprotect(pointer(addr), len as usize, prot) }),
            Native::Far(shim) => shim.call(libc::SYS_mprotect, [addr, len, prot as u64, 0, 0, 0]).map(|_| ()),
        }
    }
    /// `mremap(2)`.
    pub fn mremap(&self, from: u64, old_len: u64, new_len: u64, flags: i32, to: u64) -> Result<(), Errno> {
        match self {
            // SAFETY: both ranges are the guest's own.
            Native::Near => mapped(unsafe {
                libc::mremap(pointer(from), old_len as usize, new_len as usize, flags, pointer(to))
            }),
            Native::Far(shim) => {
                shim.call(libc::SYS_mremap, [from, old_len, new_len, flags as u64, to, 0]).map(|_| ())
            }
        }
    }
    /// `madvise(2)`.
    pub fn madvise(&self, addr: u64, len: u64, advice: i32) -> Result<(), Errno> {
        match self {
            // SAFETY: the range is the guest's own.
            Native::Near => checked(unsafe { libc::madvise(pointer(addr), len as usize, advice) }),
            Native::Far(shim) => {
                shim.call(libc::SYS_madvise, [addr, len, advice as u64, 0, 0, 0]).map(|_| ())
            }
        }
    }
    /// `mincore(2)`.
    pub fn mincore(&self, addr: u64, pages: &mut [u8]) -> Result<(), Errno> {
        match self {
            Native::Near => {
                let len = pages.len() * PAGE as usize;
                // SAFETY: there is a byte for each page.
                checked(unsafe { libc::mincore(pointer(addr), len, pages.as_mut_ptr()) })
            }
            Native::Far(shim) => shim.mincore(addr, pages),
        }
    }
    /// Copies from guest memory.
    #[inline(always)]
    pub fn read(&self, addr: u64, out: &mut [u8]) -> Result<(), Errno> {
        match self {
            // SAFETY: the range is the guest's own.
            Native::Near => unsafe { copy::read(addr, out) },
            Native::Far(shim) => shim.read(addr, out),
        }
    }
    /// Copies to guest memory.
    #[inline(always)]
    pub fn write(&self, addr: u64, data: &[u8]) -> Result<(), Errno> {
        match self {
            // SAFETY: the range is the guest's own.
            Native::Near => unsafe { copy::write(addr, data) },
            Native::Far(shim) => shim.write(addr, data),
        }
    }
    /// See `GuestMemory::compare_exchange_u32`. `None` for a far space, which needs a read and a write
    /// instead.
    pub fn compare_exchange(&self, addr: u64, old: u32, new: u32) -> Option<Result<u32, Errno>> {
        match self {
            // SAFETY: the range is the guest's own.
            Native::Near => Some(unsafe { copy::compare_exchange(addr, old, new) }),
            Native::Far(_) => None,
        }
    }
    /// Overwrites private executable pages regardless of their protection.
    pub fn poke(&self, addr: u64, bytes: &[u8]) -> Result<(), Errno> {
        match self {
            // SAFETY: the range is private memory of the guest, which is not running.
            Native::Near => unsafe { patch_memory::poke(addr, bytes) },
            Native::Far(shim) => shim.poke(addr, bytes),
        }
    }
}
