//! Anonymous shared memory, freed when the last process has unmapped and closed it.

use std::fs::File;
use std::io::{Error, Result};
use std::marker::PhantomData;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr::NonNull;

/// Mapping of bytes that other processes can map too, initially zero.
#[derive(Debug)]
pub(crate) struct Mapping {
    at: NonNull<u8>,
    len: usize,
}

// SAFETY: the mapping belongs to the process, not to a thread; access goes through raw pointers.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Creates memory, maps it, and returns the file by which another process can map it.
    pub fn create(len: usize) -> Result<(Mapping, OwnedFd)> {
        // SAFETY: the name is a C string; a fresh descriptor has no other owner.
        let file = unsafe {
            match libc::memfd_create(c"belljar".as_ptr(), libc::MFD_CLOEXEC) {
                -1 => return Err(Error::last_os_error()),
                fd => File::from_raw_fd(fd),
            }
        };
        file.set_len(len as u64)?;
        let file = OwnedFd::from(file);
        Ok((Mapping::of(&file, len)?, file))
    }

    /// Maps the first `len` bytes of a file.
    pub fn of(file: &OwnedFd, len: usize) -> Result<Mapping> {
        let prot = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping at an address chosen by the kernel.
        let at =
            unsafe { libc::mmap(std::ptr::null_mut(), len, prot, libc::MAP_SHARED, file.as_raw_fd(), 0) };
        match NonNull::new(at.cast::<u8>()) {
            Some(at) if at.as_ptr().cast() != libc::MAP_FAILED => Ok(Mapping { at, len }),
            _ => Err(Error::last_os_error()),
        }
    }

    /// Start address, page-aligned.
    pub fn at(&self) -> *mut u8 {
        self.at.as_ptr()
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the mapping is owned by this value.
        unsafe { libc::munmap(self.at.as_ptr().cast(), self.len) };
    }
}

/// `T` in shared memory that other processes can map too, initially zero bytes.
///
/// Another process may change the memory that [`get`](Self::get) refers to at any time: accesses other than
/// raw reads and writes are sound only under a protocol between the processes.
pub struct SharedMemory<T> {
    memory: Mapping,
    holds: PhantomData<T>,
}

impl<T> std::fmt::Debug for SharedMemory<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("SharedMemory").field(&self.memory).finish()
    }
}

impl<T> SharedMemory<T> {
    /// Creates memory, maps it, and returns the file by which another process can map it.
    pub fn create() -> Result<(SharedMemory<T>, OwnedFd)> {
        let (memory, file) = Mapping::create(size_of::<T>())?;
        Ok((SharedMemory { memory, holds: PhantomData }, file))
    }

    #[cfg(test)]
    fn map(file: &OwnedFd) -> Result<SharedMemory<T>> {
        Ok(SharedMemory { memory: Mapping::of(file, size_of::<T>())?, holds: PhantomData })
    }

    /// Address of the value.
    pub fn get(&self) -> *mut T {
        self.memory.at().cast()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::futex;
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::time::Duration;

    #[test]
    fn two_mappings_show_the_same_word_and_wake_each_other() {
        let (here, file) = SharedMemory::<AtomicU32>::create().unwrap();
        let there = SharedMemory::<AtomicU32>::map(&file).unwrap();
        assert_ne!(here.get(), there.get());
        let waiter = std::thread::spawn(move || {
            // SAFETY: mapped, and accessed only atomically.
            let word = unsafe { &*there.get() };
            while word.load(Ordering::Acquire) == 0 {
                futex::wait(word, 0, Duration::from_secs(10));
            }
            word.store(2, Ordering::Release);
        });
        // SAFETY: as above.
        let word = unsafe { &*here.get() };
        word.store(1, Ordering::Release);
        futex::wake(word);
        waiter.join().unwrap();
        assert_eq!(word.load(Ordering::Acquire), 2);
    }
}
