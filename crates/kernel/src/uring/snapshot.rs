//! Snapshots of submitted entries: the memory that an entry names besides the bytes to be moved, such as addresses,
//! names, vectors and time-outs. It belongs to the kernel once the entry has been submitted
//! (`IORING_FEAT_SUBMIT_STABLE`), so the program may use it for something else while the request waits.

use super::entry::{
    BIND, CONNECT, EPOLL_CTL, FUTEX_WAITV, LINK_TIMEOUT, OPENAT, OPENAT2, READV, RECVMSG, SEND, SEND_ZC,
    SENDMSG, SENDMSG_ZC, STATX, SubmissionEntry, TIMEOUT, TIMEOUT_REMOVE, WRITEV,
};
use crate::guest::PATH_MAX;
use crate::host::Host;
use crate::ids::ProcessKey;
use crate::uring::Urings;
use belljar_linux_abi::Errno;
use std::sync::Arc;

/// Bytes of the largest piece.
const MOST: u64 = 1 << 20;

/// Snapshot: pieces of a process's memory as they were when an entry was submitted.
#[derive(Debug)]
pub struct Snapshot {
    process: ProcessKey,
    pieces: Vec<(u64, Vec<u8>)>,
}

impl Snapshot {
    /// Copies the part of the snapshot from `addr` on to `out`; true if that was all of `out`.
    fn copy_to(&self, addr: u64, out: &mut [u8]) -> bool {
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
}

impl Urings {
    /// Copies the snapshot of the request that is being made, as far as it has `process`'s memory at `addr`, to `out`;
    /// true if that was all of `out`.
    pub(crate) fn read_snapshot(&self, process: ProcessKey, addr: u64, out: &mut [u8]) -> bool {
        match &self.reading {
            Some(snapshot) if snapshot.process == process => snapshot.copy_to(addr, out),
            _ => false,
        }
    }
}

impl Host {
    /// Reads memory that an entry names.
    pub(super) fn read_submitted(
        &self,
        entry: &SubmissionEntry,
        addr: u64,
        out: &mut [u8],
    ) -> Result<(), Errno> {
        match &entry.snapshot {
            Some(snapshot) if snapshot.copy_to(addr, out) => Ok(()),
            _ => self.read_guest(entry.by.process, addr, out),
        }
    }

    /// Takes the snapshots of entries that have not started, or wait.
    pub(super) fn snapshot_waiting(&mut self, n: usize) {
        let uring = &self.urings.instances[n];
        let waiting: Vec<usize> =
            uring.fresh.iter().filter_map(|serial| uring.by_serial.get(serial)).copied().collect();
        for number in waiting {
            let mut links = std::mem::take(&mut self.urings.instances[n].requests[number].links);
            links.iter_mut().for_each(|entry| self.take_snapshot(entry));
            let mut entry = self.urings.instances[n].requests[number].entry.clone();
            self.take_snapshot(&mut entry);
            let request = &mut self.urings.instances[n].requests[number];
            (request.entry, request.links) = (entry, links);
        }
        self.urings.instances[n].fresh.clear();
        let mut deferred = std::mem::take(&mut self.urings.instances[n].deferred);
        deferred.iter_mut().flatten().for_each(|entry| self.take_snapshot(entry));
        self.urings.instances[n].deferred = deferred;
    }
    fn take_snapshot(&self, entry: &mut SubmissionEntry) {
        if entry.snapshot.is_some() {
            return;
        }
        let process = entry.by.process;
        let mut pieces = Vec::new();
        let mut piece = |addr: u64, len: u64| {
            let mut bytes = vec![0; len.min(MOST) as usize];
            if !bytes.is_empty() && self.read_guest(process, addr, &mut bytes).is_ok() {
                pieces.push((addr, bytes));
            }
        };
        let word = |addr: u64| {
            let mut bytes = [0; 8];
            self.read_guest(process, addr, &mut bytes).map_or(0, |()| u64::from_ne_bytes(bytes))
        };
        let (addr, len, off) = (entry.addr, u64::from(entry.len), entry.off);
        match entry.op {
            READV | WRITEV => piece(addr, 16 * len),
            SENDMSG | SENDMSG_ZC | RECVMSG => {
                // `struct msghdr`: name, its length, vector, its length, control messages, their length.
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
        // Paths are read in pieces that end with a page.
        let paths = match entry.op {
            OPENAT | OPENAT2 | STATX | 36 | 37 => [addr, 0],
            35 | 38 | 39 => [addr, off],
            _ => [0, 0],
        };
        for path in paths.into_iter().filter(|path| *path != 0) {
            let text = self.read_guest_string(process, path, PATH_MAX, Errno::ENAMETOOLONG);
            let len = text.map_or(0, |text| text.len() as u64 + 1);
            piece(path, len);
        }
        entry.snapshot = Some(Arc::new(Snapshot { process, pieces }));
    }
}
