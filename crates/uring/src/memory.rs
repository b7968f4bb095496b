//! The memory that an instance of io_uring shares with its program: two rings and the entries to be submitted.

use crate::setup::Setup;
use belljar_linux_abi::Errno;
use belljar_machine::{HostFiles, NativeFile};

/// `struct io_uring_sqe`; twice that with `IORING_SETUP_SQE128`.
pub const SQE_LEN: u64 = 64;
/// `struct io_uring_cqe`; twice that with `IORING_SETUP_CQE32`.
pub const CQE_LEN: u64 = 16;
/// Places in `struct io_rings`: the first entry that the kernel has not taken.
pub const SQ_HEAD: u32 = 0;
/// The end of the entries that the program submits.
pub const SQ_TAIL: u32 = 4;
/// Mask of a place in the submission queue.
pub const SQ_MASK: u32 = 8;
/// Its length.
pub const SQ_ENTRIES: u32 = 12;
/// What the program is told, `IORING_SQ_*`.
pub const SQ_FLAGS: u32 = 16;
/// Number of entries that were not valid.
pub const SQ_DROPPED: u32 = 20;
/// The first completion that the program has not taken.
pub const CQ_HEAD: u32 = 64;
/// The end of the completions.
pub const CQ_TAIL: u32 = 68;
/// Mask of a place in the completion queue.
pub const CQ_MASK: u32 = 72;
/// Its length.
pub const CQ_ENTRIES: u32 = 76;
/// Number of completions that found no room.
pub const CQ_OVERFLOW: u32 = 80;
/// What the program says, `IORING_CQ_*`.
pub const CQ_FLAGS: u32 = 84;
/// The completions.
pub const CQES: u32 = 128;
/// `IORING_SQ_NEED_WAKEUP`.
pub const NEED_WAKEUP: u32 = 1;
/// `IORING_SQ_CQ_OVERFLOW`.
pub const OVERFLOWN: u32 = 2;
/// `IORING_SQ_TASKRUN`.
pub const TASK_RUN: u32 = 4;
/// `IORING_CQ_EVENTFD_DISABLED`, a flag of the program's.
pub const EVENTFD_DISABLED: u32 = 1;

/// One completion.
#[derive(Clone, Copy, Debug)]
pub struct Completion {
    /// The program's own value for the request.
    pub user_data: u64,
    /// The call's value, or a negative errno.
    pub result: i32,
    /// `IORING_CQE_F_*`.
    pub flags: u32,
}

/// The shared memory of one instance.
#[derive(Clone, Copy, Debug)]
pub struct Ring {
    /// The rings and behind them the entries.
    pub memory: NativeFile,
    /// Entries of both rings, powers of two.
    pub sq_entries: u32,
    /// The same for completions.
    pub cq_entries: u32,
    /// True if the submission queue uses the index array (no `IORING_SETUP_NO_SQARRAY`).
    pub has_array: bool,
    /// Bytes of an entry and of a completion.
    pub sqe_len: u64,
    /// The same for completions.
    pub cqe_len: u64,
}

impl Ring {
    /// The rings of a new instance in memory of their own.
    pub fn make(
        machine: &mut (impl HostFiles + ?Sized),
        (sq_entries, cq_entries): (u32, u32),
        setup: &Setup,
    ) -> Result<Ring, Errno> {
        let (sqe_len, cqe_len) = (SQE_LEN << u32::from(setup.large.0), CQE_LEN << u32::from(setup.large.1));
        let has_array = setup.has_array;
        let mut ring = Ring { memory: NativeFile(-1), sq_entries, cq_entries, has_array, sqe_len, cqe_len };
        ring.memory = machine.shared_memory(ring.rings_len() + ring.entries_len())?;
        for (at, value) in [
            (SQ_MASK, sq_entries - 1),
            (SQ_ENTRIES, sq_entries),
            (CQ_MASK, cq_entries - 1),
            (CQ_ENTRIES, cq_entries),
        ] {
            ring.set_word(machine, at, value);
        }
        if setup.polled {
            ring.set_flag(machine, NEED_WAKEUP, true);
        }
        Ok(ring)
    }
    /// Where the array of places lies.
    pub fn array(&self) -> u32 {
        CQES + self.cq_entries * self.cqe_len as u32
    }
    /// Bytes of both rings, whole pages; the entries start behind them.
    pub fn rings_len(&self) -> u64 {
        (u64::from(self.array()) + u64::from(self.sq_entries) * 4).next_multiple_of(4_096)
    }
    /// Bytes of the entries, whole pages.
    pub fn entries_len(&self) -> u64 {
        (u64::from(self.sq_entries) * self.sqe_len).next_multiple_of(4_096)
    }
    /// One word of the rings.
    pub fn word(&self, files: &(impl HostFiles + ?Sized), at: u32) -> u32 {
        let mut bytes = [0; 4];
        // Memory of one's own cannot fail to be read.
        let _ = files.peek_at(self.memory, u64::from(at), &mut bytes);
        u32::from_ne_bytes(bytes)
    }
    /// Writes one word.
    pub fn set_word(&self, files: &mut (impl HostFiles + ?Sized), at: u32, value: u32) {
        let _ = files.write_at(self.memory, u64::from(at), &value.to_ne_bytes());
    }
    /// Number of completions that lie unread.
    pub fn unread(&self, files: &(impl HostFiles + ?Sized)) -> u32 {
        self.word(files, CQ_TAIL).wrapping_sub(self.word(files, CQ_HEAD))
    }
    /// True if there is room for another entry.
    pub fn can_submit(&self, files: &(impl HostFiles + ?Sized)) -> bool {
        self.word(files, SQ_TAIL).wrapping_sub(self.word(files, SQ_HEAD)) < self.sq_entries
    }
    /// Takes the next entry; `None` if there is none.
    pub fn take_entry(&self, files: &mut (impl HostFiles + ?Sized)) -> Option<[u8; SQE_LEN as usize]> {
        loop {
            let head = self.word(files, SQ_HEAD);
            if head == self.word(files, SQ_TAIL) {
                return None;
            }
            let place = head & (self.sq_entries - 1);
            let index = if self.has_array { self.word(files, self.array() + 4 * place) } else { place };
            let mut entry = [0; SQE_LEN as usize];
            if index < self.sq_entries {
                let at = self.rings_len() + u64::from(index) * self.sqe_len;
                let _ = files.peek_at(self.memory, at, &mut entry);
            }
            self.set_word(files, SQ_HEAD, head.wrapping_add(1));
            if index < self.sq_entries {
                return Some(entry);
            }
            let dropped = self.word(files, SQ_DROPPED);
            self.set_word(files, SQ_DROPPED, dropped.wrapping_add(1));
        }
    }
    /// Puts a completion into its ring; false if that is full.
    pub fn put(&self, files: &mut (impl HostFiles + ?Sized), completion: &Completion) -> bool {
        if self.unread(files) >= self.cq_entries {
            return false;
        }
        let tail = self.word(files, CQ_TAIL);
        let mut bytes = [0; 2 * CQE_LEN as usize];
        bytes[..8].copy_from_slice(&completion.user_data.to_ne_bytes());
        bytes[8..12].copy_from_slice(&completion.result.to_ne_bytes());
        bytes[12..16].copy_from_slice(&completion.flags.to_ne_bytes());
        let at = u64::from(CQES) + u64::from(tail & (self.cq_entries - 1)) * self.cqe_len;
        let _ = files.write_at(self.memory, at, &bytes[..self.cqe_len as usize]);
        self.set_word(files, CQ_TAIL, tail.wrapping_add(1));
        true
    }
    /// Sets or clears a flag that the program sees (`IORING_SQ_*`).
    pub fn set_flag(&self, files: &mut (impl HostFiles + ?Sized), flag: u32, on: bool) {
        let flags = self.word(files, SQ_FLAGS) & !flag;
        self.set_word(files, SQ_FLAGS, flags | if on { flag } else { 0 });
    }
}
