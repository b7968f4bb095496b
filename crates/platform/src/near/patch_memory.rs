//! Writes to memory regardless of its protection, as a debugger does.

use crate::InitError;
use crate::init::native;
use crate::layout::PAGE;
use belljar_linux_abi::Errno;
use std::sync::atomic::{AtomicI32, Ordering};

/// Descriptor of `/proc/self/mem`, or -1 if it cannot be opened.
static MEM: AtomicI32 = AtomicI32::new(-1);

/// Opens `/proc/self/mem` for patches. Its absence (no /proc) is not an error; running out of descriptors is.
pub fn open() -> Result<(), InitError> {
    // SAFETY: the path is a C string.
    let fd = unsafe { libc::open(c"/proc/self/mem".as_ptr(), libc::O_RDWR | libc::O_CLOEXEC) };
    if fd < 0 && std::io::Error::last_os_error().raw_os_error() == Some(libc::EMFILE) {
        return Err(native("opening /proc/self/mem"));
    }
    MEM.store(fd, Ordering::Relaxed);
    Ok(())
}

/// Writes `bytes` over private executable pages at `addr`. A write through `/proc/self/mem` splits no
/// mapping; if a hardened kernel refuses it, the pages become writable temporarily.
///
/// # Safety
/// `addr..addr + bytes.len()` must be private guest memory that no thread is executing.
pub unsafe fn poke(addr: u64, bytes: &[u8]) -> Result<(), Errno> {
    let fd = MEM.load(Ordering::Relaxed);
    // SAFETY: the caller vouches for the target; `bytes` is a live slice.
    let written = unsafe { libc::pwrite(fd, bytes.as_ptr().cast(), bytes.len(), addr as i64) };
    if written == bytes.len() as isize {
        return Ok(());
    }
    let start = addr & !(PAGE - 1);
    let len = (addr + bytes.len() as u64).next_multiple_of(PAGE) - start;
    let protect = |prot| {
        // SAFETY: only guest pages change, and no guest runs meanwhile.
        match unsafe { libc::mprotect(start as *mut libc::c_void, len as usize, prot) } {
            0 => Ok(()),
            _ => Err(Errno::from(std::io::Error::last_os_error())),
        }
    };
    protect(libc::PROT_READ | libc::PROT_WRITE)?;
    // SAFETY: just made writable; private to the guest, so nothing of the simulator aliases it.
    unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), addr as *mut u8, bytes.len()) };
    protect(libc::PROT_READ | libc::PROT_EXEC)
}
