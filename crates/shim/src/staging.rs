//! Staging: guest memory that a far process reads into the channel before the simulator requests it.
//!
//! **Problem.** A system call of a far guest is served in another process. Its registers are in the channel,
//! but a path, a buffer or a `struct msghdr` is in the guest's memory, and each read of it by
//! `process_vm_readv(2)` costs a native system call that has to find and pin the pages: more than the
//! hand-over of the guest's call itself.
//!
//! **Insight.** The process that hands over the call has that memory mapped, and the call's number and
//! arguments determine most of the reads that the kernel will make. A copy within one address space costs
//! next to nothing.
//!
//! **Algorithm.** Before each hand-over [`stage`] looks the call's number up and copies the memory that is
//! certain to be read into [`Pieces`] of the channel: structures of a fixed size, structures and buffers
//! whose length is an argument, the first 256 bytes of a path up to the end of its page. Vectors and message
//! headers are followed to their first four parts if the call reads them. Copies tolerate faults: unmapped
//! memory is not staged. The simulator serves a read from the pieces if one covers it, and otherwise by
//! `process_vm_readv`, or by commands through the channel if that is not permitted. Writes that are deferred
//! to the process also update the pieces, so a call that reads its own writes finds them; all other writes
//! discard the pieces. The pieces are valid while no other guest of the host runs and no mapping changes, and
//! only for memory that is mapped by no other process.
//!
//! **Limits.** Staging affects only speed, never results: the same bytes would be read later. At most
//! [`MAX_PIECES`](crate::pieces::MAX_PIECES) pieces, 80 KiB together and [`LARGEST`] bytes each, are staged;
//! larger buffers, later parts of vectors and the arguments of calls that are not in the table are read on
//! demand. A table entry that stages too much costs a copy per call.

use crate::context::Regs;
use crate::copy;
use crate::layout::PAGE;
use crate::pieces::{LARGEST, Pieces};

/// Bytes of a path that the simulator reads at a time, never across the end of a page.
const PATH_PART: u64 = 256;
/// Upper bound on the bytes of structures whose length is an argument: socket addresses, options.
const SMALL: u64 = 128;
/// Sizes of `struct msghdr`, `struct iovec`, `struct pollfd`, `struct timespec` and `sigset_t`.
const MSGHDR: u64 = 56;
const IOVEC: u64 = 16;
const POLLFD: u64 = 8;
const TIMESPEC: u64 = 16;
const SIGSET: u64 = 8;
/// Upper bound on the parts of a message that are staged.
const MOST_PARTS: u64 = 4;

/// Mask of the futex operation without its flags, and the operations that wait with a timeout.
const FUTEX_OPERATION: u64 = 0x7f;
const FUTEX_WAIT: u64 = 0;
const FUTEX_WAIT_BITSET: u64 = 9;

/// Stages the memory that the call described by `regs` is certain to read.
///
/// # Safety
/// The registers must be of a guest in this address space that does not run, and a fault handler must handle
/// faults in [`copy`].
pub unsafe fn stage(regs: &Regs, staged: &mut Pieces) {
    let [a, b, c, d, e, f] = [regs.rdi, regs.rsi, regs.rdx, regs.r10, regs.r8, regs.r9];
    let mut stage = Stage { staged };
    match regs.rax {
        // write, pwrite64
        1 | 18 => stage.buffer(b, c),
        // sendto
        44 => {
            stage.small(e, f);
            stage.buffer(b, c);
        }
        // recvfrom
        45 => stage.exactly(f, 4),
        // poll
        7 => stage.array(a, b & 0xffff_ffff, POLLFD),
        // ppoll
        271 => {
            stage.array(a, b & 0xffff_ffff, POLLFD);
            stage.exactly(c, TIMESPEC);
            stage.exactly(d, SIGSET);
        }
        // futex
        202 => {
            stage.exactly(a, 4);
            if matches!(b & FUTEX_OPERATION, FUTEX_WAIT | FUTEX_WAIT_BITSET) {
                stage.exactly(d, TIMESPEC);
            }
        }
        // connect, bind
        42 | 49 => stage.small(b, c),
        // accept, accept4, getsockname, getpeername
        43 | 288 | 51 | 52 => stage.exactly(c, 4),
        // setsockopt, getsockopt
        54 => stage.small(d, e),
        55 => stage.exactly(e, 4),
        // sendmsg, recvmsg
        46 => stage.message(b, true),
        47 => stage.message(b, false),
        // writev, pwritev, readv, preadv
        20 | 296 => stage.parts(b, c, true),
        19 | 295 => stage.parts(b, c, false),
        // nanosleep, clock_nanosleep
        35 => stage.exactly(a, TIMESPEC),
        230 => stage.exactly(c, TIMESPEC),
        // epoll_ctl, epoll_pwait, epoll_pwait2
        233 => stage.exactly(d, 12),
        281 => stage.exactly(e, SIGSET),
        441 => {
            stage.exactly(d, TIMESPEC);
            stage.exactly(e, SIGSET);
        }
        // timerfd_settime, setitimer
        286 => stage.exactly(c, 2 * TIMESPEC),
        38 => stage.exactly(b, 2 * TIMESPEC),
        // rt_sigaction, rt_sigprocmask
        13 => stage.exactly(b, 32),
        14 => stage.exactly(b, SIGSET),
        // open, stat, lstat, access, readlink, unlink, mkdir, rmdir, chdir
        2 | 4 | 6 | 21 | 89 | 87 | 83 | 84 | 80 => stage.path(a),
        // openat, newfstatat, readlinkat, faccessat, faccessat2, statx, unlinkat, mkdirat
        257 | 262 | 267 | 269 | 439 | 332 | 263 | 258 => stage.path(b),
        _ => {}
    }
}

struct Stage<'a> {
    staged: &'a mut Pieces,
}

impl Stage<'_> {
    /// Stages `len` bytes; returns the piece's index, or `None` if nothing was staged.
    fn piece(&mut self, addr: u64, len: u64) -> Option<usize> {
        let len = usize::try_from(len).ok()?;
        let room = self.staged.room(addr, len)?;
        // SAFETY: the guest does not run, and unmapped memory is detected.
        let read = unsafe { copy::copy(room.as_mut_ptr(), addr as *const u8, len) };
        read.then(|| self.staged.keep(addr, len))
    }

    /// Stages a structure unless its address is 0.
    fn exactly(&mut self, addr: u64, len: u64) {
        if addr != 0 {
            self.piece(addr, len);
        }
    }

    /// Stages a buffer, unless it is too large.
    fn buffer(&mut self, addr: u64, len: u64) {
        if len <= LARGEST as u64 {
            self.exactly(addr, len);
        }
    }

    /// Stages a structure whose length is an argument.
    fn small(&mut self, addr: u64, len: u64) {
        if len <= SMALL {
            self.exactly(addr, len);
        }
    }

    fn array(&mut self, addr: u64, count: u64, size: u64) {
        if count <= LARGEST as u64 / size {
            self.exactly(addr, count * size);
        }
    }

    /// Stages the beginning of a path.
    fn path(&mut self, addr: u64) {
        self.exactly(addr, (PAGE - addr % PAGE).min(PATH_PART));
    }

    /// Stages a vector of buffers, and the buffers' content if `with_content`.
    fn parts(&mut self, addr: u64, count: u64, with_content: bool) {
        if addr == 0 || count == 0 || count > LARGEST as u64 / IOVEC {
            return;
        }
        let Some(vector) = self.piece(addr, count * IOVEC) else { return };
        if with_content {
            for part in 0..count.min(MOST_PARTS) as usize {
                let (base, len) = (self.word(vector, 2 * part), self.word(vector, 2 * part + 1));
                self.buffer(base, len);
            }
        }
    }

    /// Stages a `struct msghdr` and the memory to which it points.
    fn message(&mut self, addr: u64, with_content: bool) {
        if addr == 0 {
            return;
        }
        let Some(header) = self.piece(addr, MSGHDR) else { return };
        let word = |at| self.word(header, at);
        let (name, name_len, vector, count) = (word(0), word(1) & 0xffff_ffff, word(2), word(3));
        let (control, control_len) = (word(4), word(5));
        if with_content {
            self.small(name, name_len);
            self.small(control, control_len);
        }
        self.parts(vector, count, with_content);
    }

    /// A word of a piece.
    fn word(&self, number: usize, at: usize) -> u64 {
        let bytes = self.staged.get(number).get(8 * at..8 * at + 8);
        bytes.and_then(|bytes| bytes.try_into().ok()).map_or(0, u64::from_le_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The pieces staged for a call.
    fn staged(number: u64, args: [u64; 6]) -> Pieces {
        let [rdi, rsi, rdx, r10, r8, r9] = args;
        let regs = Regs { rax: number, rdi, rsi, rdx, r10, r8, r9, ..Regs::default() };
        // SAFETY: all zero bytes are an empty list; all addresses are those of live values or invalid.
        unsafe {
            let mut pieces = core::mem::zeroed();
            stage(&regs, &mut pieces);
            pieces
        }
    }

    fn at<T: ?Sized>(value: &T) -> u64 {
        core::ptr::from_ref(value).cast::<u8>() as u64
    }

    #[test]
    fn calls_say_what_they_read() {
        let (data, to) = ([7u8; 40], [2u8; 16]);
        let sendto = staged(44, [3, at(&data), 40, 0, at(&to), 16]);
        assert_eq!(sendto.find(at(&data), 40), Some(&data[..]));
        assert_eq!(sendto.find(at(&to), 16), Some(&to[..]));
        let poll = staged(7, [at(&data), 5, 0, 0, 0, 0]);
        assert_eq!(poll.find(at(&data), 40), Some(&data[..]));
        assert!(poll.find(at(&data), 41).is_none());
        assert!(staged(39, [at(&data); 6]).is_empty(), "getpid reads nothing");
        assert!(staged(1, [3, 0, 40, 0, 0, 0]).is_empty(), "no address");
        assert!(staged(1, [3, at(&data), u64::MAX, 0, 0, 0]).is_empty(), "a length that cannot be");
        assert!(staged(7, [at(&data), u64::MAX, 0, 0, 0, 0]).is_empty());
    }

    #[test]
    fn messages_are_followed_to_their_parts() {
        let (one, two, control) = (*b"first", *b"second part", [9u8; 24]);
        let vector = [at(&one), 5, at(&two), 11];
        let header = [at(&two), 11, at(&vector), 2, at(&control), 24, 0];
        let sendmsg = staged(46, [3, at(&header), 0, 0, 0, 0]);
        for (addr, len) in
            [(at(&header), 56), (at(&vector), 32), (at(&one), 5), (at(&two), 11), (at(&control), 24)]
        {
            assert!(sendmsg.find(addr, len).is_some());
        }
        let recvmsg = staged(47, [3, at(&header), 0, 0, 0, 0]);
        assert!(recvmsg.find(at(&vector), 32).is_some() && recvmsg.find(at(&one), 1).is_none());
        let many = [0u64, 0, u64::MAX, u64::MAX, 0, u64::MAX, 0];
        assert!(staged(46, [3, at(&many), 0, 0, 0, 0]).find(at(&many), 56).is_some());
    }

    #[test]
    fn paths_are_read_as_far_as_their_page() {
        #[repr(align(4096))]
        struct Page([u8; 4096]);
        let page = Page([b'x'; 4096]);
        let end = at(&page.0) + 4096;
        let near_the_end = staged(257, [0, end - 10, 0, 0, 0, 0]);
        assert_eq!(near_the_end.iter().map(|(addr, bytes)| (addr, bytes.len())).next(), Some((end - 10, 10)));
        assert_eq!(staged(21, [at(&page.0), 0, 0, 0, 0, 0]).get(0).len(), 256);
    }
}
