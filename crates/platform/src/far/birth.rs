//! Creation of far processes from the simulator itself: the native fork by which a near space becomes a
//! process of its own, above all for `fork(2)` of a near guest.
//!
//! The far program is also mapped into the simulator, at its link address, and runs there only during the
//! fork. Everything but the program and the space is excluded from the child (`MADV_DONTFORK`): the other
//! spaces, and the simulator's image, libraries, heap and stacks. The fork therefore takes only as long as
//! copying the space's own page tables, no page of the simulator becomes copy-on-write, and no lock held by
//! another thread at that moment is in the child. From then on **this process must not be forked by other
//! means** than `posix_spawn` and `vfork`, which `std::process::Command` uses unless asked for more.
//!
//! All forks happen on one thread (see [`spawner`](super::spawner)), so that two concurrent forks do not
//! exclude each other's spaces.

use super::program::PROGRAM;
use belljar_shim::layout::{
    CHANNEL, FAR_IMAGE, FAR_STACK, FAR_STACK_SIZE, FAR_WORKER, FIXED_AREA, PAGE, USER_END,
};
use belljar_shim::protocol::{Channel, NativeCall};
use belljar_shim::worker::REGION;
use std::io::{Error, Result};
use std::ops::Range;
use std::os::fd::{AsRawFd, OwnedFd};

/// Signature of [`Image::entry`] for a fork: see the program's `_start`.
type Fork = extern "C" fn(is_fork: u64, stack: u64, channel: u64, socket: u64) -> i64;

/// The far program as mapped into this process.
#[derive(Debug)]
pub struct Image {
    range: Range<u64>,
    entry: u64,
}

fn word<const N: usize>(at: usize) -> u64 {
    let mut bytes = [0; 8];
    bytes[..N].copy_from_slice(&PROGRAM[at..at + N]);
    u64::from_le_bytes(bytes)
}

/// A `PT_LOAD` entry: file offset, address, size in the file, size in memory, protection.
struct Segment {
    offset: u64,
    address: u64,
    file_size: u64,
    memory_size: u64,
    prot: i32,
}

/// The segments of the program, which the build script has linked statically to a fixed address.
fn segments() -> Vec<Segment> {
    const PT_LOAD: u64 = 1;
    let (table, count) = (word::<8>(32) as usize, word::<2>(56) as usize);
    let entries = (0..count).map(|n| table + 56 * n).filter(|at| word::<4>(*at) == PT_LOAD);
    let segment = |at| {
        let flags = word::<4>(at + 4);
        let bit = |flag: u64, prot| if flags & flag != 0 { prot } else { 0 };
        Segment {
            offset: word::<8>(at + 8),
            address: word::<8>(at + 16),
            file_size: word::<8>(at + 32),
            memory_size: word::<8>(at + 40),
            prot: bit(4, libc::PROT_READ) | bit(2, libc::PROT_WRITE) | bit(1, libc::PROT_EXEC),
        }
    };
    entries.map(segment).collect()
}

fn whole_pages(range: Range<u64>) -> Range<u64> {
    range.start & !(PAGE - 1)..range.end.next_multiple_of(PAGE)
}

fn map(range: &Range<u64>) -> Result<()> {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_FIXED_NOREPLACE;
    let (at, len) = (range.start as *mut libc::c_void, (range.end - range.start) as usize);
    // SAFETY: MAP_FIXED_NOREPLACE replaces no mapping.
    let mapped = unsafe { libc::mmap(at, len, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0) };
    if mapped == libc::MAP_FAILED { Err(Error::last_os_error()) } else { Ok(()) }
}

impl Image {
    /// Maps the program and the initial stack of the children.
    pub fn map() -> Result<Image> {
        let segments = segments();
        let end = segments.iter().map(|s| s.address + s.memory_size).max().unwrap_or(FAR_IMAGE);
        let range = whole_pages(FAR_IMAGE..end);
        map(&range)?;
        map(&(FAR_STACK..FAR_STACK + FAR_STACK_SIZE))?;
        for segment in &segments {
            let content = &PROGRAM[segment.offset as usize..][..segment.file_size as usize];
            let pages = whole_pages(segment.address..segment.address + segment.memory_size);
            // SAFETY: the segment lies in the range just mapped, which no other code references.
            let protected = unsafe {
                std::ptr::copy_nonoverlapping(content.as_ptr(), segment.address as *mut u8, content.len());
                let len = (pages.end - pages.start) as usize;
                libc::mprotect(pages.start as *mut libc::c_void, len, segment.prot)
            };
            if protected != 0 {
                return Err(Error::last_os_error());
            }
        }
        Ok(Image { range, entry: word::<8>(24) })
    }

    /// Forks a child that contains only the program and the ranges in `own`, and returns its process id. The
    /// child uses the channel, which `channel` maps in this process, and the socket. Its parent is the
    /// calling thread.
    ///
    /// # Safety
    /// `channel` must be valid and used by no other thread until the child first passes the turn. The memory
    /// in `own` must not change meanwhile.
    pub unsafe fn fork(
        &self,
        own: &[Range<u64>],
        channel: *mut Channel,
        memory: &OwnedFd,
        socket: &OwnedFd,
    ) -> Result<i32> {
        let others = self.others(own);
        // The child inherits mappings that other threads make at this moment: its first native calls unmap
        // them. SAFETY: the channel is ours by the contract of this function.
        unsafe {
            let calls = &mut (*channel).calls;
            let count = others.len().min(calls.len());
            for (call, gap) in calls.iter_mut().zip(&others) {
                let args = [gap.start, gap.end - gap.start, 0, 0, 0, 0];
                *call = NativeCall { number: libc::SYS_munmap as u32, received_fd: 0, args };
            }
            (*channel).call_count = count as u32;
        }
        others.iter().for_each(|gap| advise(gap, libc::MADV_DONTFORK));
        own.iter().for_each(|range| advise(range, libc::MADV_DOFORK));
        // SAFETY: the entry point of the program, which stays mapped as long as this process lives. The child
        // never returns from it.
        let fork = unsafe { std::mem::transmute::<*const (), Fork>(self.entry as *const ()) };
        let stack = FAR_STACK + FAR_STACK_SIZE;
        match fork(1, stack, memory.as_raw_fd() as u64, socket.as_raw_fd() as u64) {
            pid if pid > 0 => Ok(pid as i32),
            error => Err(Error::from_raw_os_error(-error as i32)),
        }
    }

    /// The gaps: all address ranges outside `own` and the program's needs.
    fn others(&self, own: &[Range<u64>]) -> Vec<Range<u64>> {
        let channel = CHANNEL..CHANNEL + size_of::<Channel>() as u64;
        let worker = FAR_WORKER..FAR_WORKER + REGION;
        let stack = FAR_STACK..FAR_STACK + FAR_STACK_SIZE;
        let mut kept: Vec<Range<u64>> = own.to_vec();
        kept.extend([self.range.clone(), channel, worker, stack, USER_END..USER_END]);
        kept.sort_unstable_by_key(|range| range.start);
        let mut others = Vec::new();
        let mut at = FIXED_AREA.start;
        for range in kept {
            if at < range.start {
                others.push(at..range.start);
            }
            at = at.max(range.end);
        }
        others
    }
}

/// `madvise(2)` on all mappings in `range`.
fn advise(range: &Range<u64>, advice: i32) {
    // SAFETY: neither advice changes mappings or content. At unmapped gaps the call reports an error, after
    // it has advised the rest.
    unsafe { libc::madvise(range.start as *mut libc::c_void, (range.end - range.start) as usize, advice) };
}

/// Unregisters the calling thread's restartable sequences: in every child the kernel would write to their
/// block, which is not mapped there.
pub fn leave_rseq() {
    const UNREGISTER: u64 = 1;
    /// The `rseq` signature that the GNU C library registers with on x86.
    const SIGNATURE: u64 = 0x5305_3053;
    // SAFETY: the name is a C string; the symbol, if present, is a `ptrdiff_t`. The kernel unregisters only
    // the block that this thread has registered, and rejects a wrong length.
    unsafe {
        let offset = libc::dlsym(libc::RTLD_DEFAULT, c"__rseq_offset".as_ptr()).cast::<i64>();
        if offset.is_null() {
            return;
        }
        let block = crate::near::entry::read_fs_base().wrapping_add_signed(*offset);
        for len in (32u64..=1024).step_by(32) {
            if libc::syscall(libc::SYS_rseq, block, len, UNREGISTER, SIGNATURE) == 0 {
                return;
            }
        }
    }
}
