//! Snapshots of submitted entries: copies of the arguments in guest memory other than the data itself, such
//! as addresses, names, vectors and time-outs. After submission they belong to the kernel
//! (`IORING_FEAT_SUBMIT_STABLE`), so the program may reuse the memory while the request is blocked.

use crate::entry::{
    BIND, CONNECT, EPOLL_CTL, FUTEX_WAITV, LINK_TIMEOUT, OPENAT, OPENAT2, READV, RECVMSG, SEND, SEND_ZC,
    SENDMSG, SENDMSG_ZC, STATX, SubmissionEntry, TIMEOUT, TIMEOUT_REMOVE, WRITEV,
};
use crate::instance::Urings;
use belljar_linux_abi::Errno;
use belljar_objects::ids::ProcessKey;

/// Maximum size of one region in bytes.
const MOST: u64 = 1 << 20;

/// Snapshot: regions of a process's memory as of the submission of an entry.
#[derive(Debug)]
pub struct Snapshot {
    process: ProcessKey,
    pieces: Vec<(u64, Vec<u8>)>,
}

impl Snapshot {
    /// Copies the snapshot from `addr` on to `out`; returns true if it covers all of `out`.
    pub fn copy_to(&self, addr: u64, out: &mut [u8]) -> bool {
        let end = addr.saturating_add(out.len() as u64);
        let mut whole = false;
        for (start, bytes) in &self.pieces {
            let (from, to) = (addr.max(*start), end.min(start + bytes.len() as u64));
            if from >= to {
                continue;
            }
            let piece = &bytes[(from - start) as usize..(to - start) as usize];
            out[(from - addr) as usize..(to - addr) as usize].copy_from_slice(piece);
            whole |= (from, to) == (addr, end);
        }
        whole
    }
    /// Takes the snapshot of an entry. `read` reads memory of its process; `path_len` returns the length of a
    /// path with its terminating zero, or 0 if there is none.
    pub fn of(
        entry: &SubmissionEntry,
        read: impl Fn(u64, &mut [u8]) -> Result<(), Errno>,
        path_len: impl Fn(u64) -> u64,
    ) -> Snapshot {
        let mut pieces = Vec::new();
        let mut piece = |addr: u64, len: u64| {
            let mut bytes = vec![0; len.min(MOST) as usize];
            if !bytes.is_empty() && read(addr, &mut bytes).is_ok() {
                pieces.push((addr, bytes));
            }
        };
        let word = |addr: u64| {
            let mut bytes = [0; 8];
            read(addr, &mut bytes).map_or(0, |()| u64::from_ne_bytes(bytes))
        };
        let (addr, len, off) = (entry.addr, u64::from(entry.len), entry.off);
        match entry.op {
            READV | WRITEV => piece(addr, 16 * len),
            SENDMSG | SENDMSG_ZC | RECVMSG => {
                // `struct msghdr`: name, length, vectors, count, control messages, length.
                piece(addr, 56);
                piece(word(addr + 16), word(addr + 24).saturating_mul(16));
                if entry.op != RECVMSG {
                    piece(word(addr), word(addr + 8) & 0xffff_ffff);
                    piece(word(addr + 32), word(addr + 40));
                }
            }
            SEND | SEND_ZC if off != 0 => piece(off, u64::from(entry.file_index & 0xffff)),
            CONNECT | BIND => piece(addr, off),
            EPOLL_CTL => piece(addr, 12),
            TIMEOUT | LINK_TIMEOUT => piece(addr, 16),
            TIMEOUT_REMOVE if entry.op_flags != 0 => piece(off, 16),
            FUTEX_WAITV => piece(addr, 24 * len),
            OPENAT2 => piece(off, len),
            _ => {}
        }
        // Paths are read page by page.
        let paths = match entry.op {
            OPENAT | OPENAT2 | STATX | 36 | 37 => [addr, 0],
            35 | 38 | 39 => [addr, off],
            _ => [0, 0],
        };
        for path in paths.into_iter().filter(|path| *path != 0) {
            piece(path, path_len(path));
        }
        Snapshot { process: entry.by.process, pieces }
    }
}

impl Urings {
    /// Copies the current request's snapshot of `process`'s memory at `addr` to `out`; returns true if it
    /// covers all of `out`.
    #[inline]
    pub fn read_snapshot(&self, process: ProcessKey, addr: u64, out: &mut [u8]) -> bool {
        match &self.reading {
            Some(snapshot) if snapshot.process == process => snapshot.copy_to(addr, out),
            _ => false,
        }
    }
}
