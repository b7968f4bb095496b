//! Memory shared between an instance of io_uring and its program: two rings and the submission queue entries.

use crate::setup::Setup;
use belljar_linux_abi::Errno;
use belljar_machine::{HostFiles, NativeFile};

/// `struct io_uring_sqe`; twice that with `IORING_SETUP_SQE128`.
pub const SQE_LEN: u64 = 64;
/// `struct io_uring_cqe`; twice that with `IORING_SETUP_CQE32`.
pub const CQE_LEN: u64 = 16;
/// Field offsets in `struct io_rings`. Head of the submission queue, advanced by the kernel.
pub const SQ_HEAD: u32 = 0;
/// Tail of the submission queue, advanced by the program.
pub const SQ_TAIL: u32 = 4;
/// Index mask of the submission queue.
pub const SQ_MASK: u32 = 8;
/// Length of the submission queue.
pub const SQ_ENTRIES: u32 = 12;
/// Flags set by the kernel, `IORING_SQ_*`.
pub const SQ_FLAGS: u32 = 16;
/// Number of invalid entries dropped.
pub const SQ_DROPPED: u32 = 20;
/// Head of the completion queue, advanced by the program.
pub const CQ_HEAD: u32 = 64;
/// Tail of the completion queue, advanced by the kernel.
pub const CQ_TAIL: u32 = 68;
/// Index mask of the completion queue.
pub const CQ_MASK: u32 = 72;
/// Length of the completion queue.
pub const CQ_ENTRIES: u32 = 76;
/// Number of completions that overflowed.
pub const CQ_OVERFLOW: u32 = 80;
/// Flags set by the program, `IORING_CQ_*`.
pub const CQ_FLAGS: u32 = 84;
/// Start of the completion queue entries.
pub const CQES: u32 = 128;
/// `IORING_SQ_NEED_WAKEUP`.
pub const NEED_WAKEUP: u32 = 1;
/// `IORING_SQ_CQ_OVERFLOW`.
pub const OVERFLOWN: u32 = 2;
/// `IORING_SQ_TASKRUN`.
pub const TASK_RUN: u32 = 4;
/// `IORING_CQE_F_SKIP`: fills the last place of the queue before a completion of 32 bytes.
const SKIPPED: u32 = 1 << 5;
/// `IORING_CQE_F_32`.
const LARGE: u32 = 1 << 15;
/// `IORING_CQ_EVENTFD_DISABLED`, set by the program.
pub const EVENTFD_DISABLED: u32 = 1;

/// Completion queue entry.
#[derive(Clone, Copy, Debug)]
pub struct Completion {
    /// User data of the request.
    pub user_data: u64,
    /// Result of the call, or a negative errno.
    pub result: i32,
    /// `IORING_CQE_F_*`.
    pub flags: u32,
    /// Second half of a completion of 32 bytes.
    pub extra: Option<[u64; 2]>,
}

impl Completion {
    /// Completion of 16 bytes.
    pub fn new(user_data: u64, result: i32, flags: u32) -> Completion {
        Completion { user_data, result, flags, extra: None }
    }
    fn bytes(&self) -> [u8; 2 * CQE_LEN as usize] {
        let mut bytes = [0; 2 * CQE_LEN as usize];
        let [first, second] = self.extra.unwrap_or_default();
        bytes[..8].copy_from_slice(&self.user_data.to_ne_bytes());
        bytes[8..12].copy_from_slice(&self.result.to_ne_bytes());
        bytes[12..16].copy_from_slice(&self.flags.to_ne_bytes());
        bytes[16..24].copy_from_slice(&first.to_ne_bytes());
        bytes[24..].copy_from_slice(&second.to_ne_bytes());
        bytes
    }
}

/// Shared memory of one instance.
#[derive(Clone, Copy, Debug)]
pub struct Ring {
    /// Memory of the rings, followed by the submission queue entries.
    pub memory: NativeFile,
    /// Number of submission queue entries, a power of two.
    pub sq_entries: u32,
    /// Number of completion queue entries, a power of two.
    pub cq_entries: u32,
    /// True if the submission queue uses the index array (no `IORING_SETUP_NO_SQARRAY`).
    pub has_array: bool,
    /// Length of a submission queue entry in bytes.
    pub sqe_len: u64,
    /// Length of a completion queue entry in bytes.
    pub cqe_len: u64,
    /// True if a completion can take two entries (`IORING_SETUP_CQE_MIXED`).
    pub is_mixed: bool,
}

impl Ring {
    /// Allocates the rings of a new instance.
    pub fn make(
        machine: &mut (impl HostFiles + ?Sized),
        (sq_entries, cq_entries): (u32, u32),
        setup: &Setup,
    ) -> Result<Ring, Errno> {
        let (sqe_len, cqe_len) = (SQE_LEN << u32::from(setup.large.0), CQE_LEN << u32::from(setup.large.1));
        let has_array = setup.has_array;
        let is_mixed = setup.mixes_completions;
        let mut ring =
            Ring { memory: NativeFile(-1), sq_entries, cq_entries, has_array, sqe_len, cqe_len, is_mixed };
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
    /// Offset of the index array.
    pub fn array(&self) -> u32 {
        CQES + self.cq_entries * self.cqe_len as u32
    }
    /// Length of the rings in bytes, in whole pages; the entries follow.
    pub fn rings_len(&self) -> u64 {
        (u64::from(self.array()) + u64::from(self.sq_entries) * 4).next_multiple_of(4_096)
    }
    /// Length of the submission queue entries in bytes, in whole pages.
    pub fn entries_len(&self) -> u64 {
        (u64::from(self.sq_entries) * self.sqe_len).next_multiple_of(4_096)
    }
    /// Reads a word of the rings.
    pub fn word(&self, files: &(impl HostFiles + ?Sized), at: u32) -> u32 {
        let mut bytes = [0; 4];
        // Reading the instance's own memory cannot fail.
        let _ = files.peek_at(self.memory, u64::from(at), &mut bytes);
        u32::from_ne_bytes(bytes)
    }
    /// Writes a word of the rings.
    pub fn set_word(&self, files: &mut (impl HostFiles + ?Sized), at: u32, value: u32) {
        let _ = files.write_at(self.memory, u64::from(at), &value.to_ne_bytes());
    }
    /// Number of completions not yet consumed by the program.
    pub fn unread(&self, files: &(impl HostFiles + ?Sized)) -> u32 {
        self.word(files, CQ_TAIL).wrapping_sub(self.word(files, CQ_HEAD))
    }
    /// True if the submission queue has room for another entry.
    pub fn can_submit(&self, files: &(impl HostFiles + ?Sized)) -> bool {
        self.word(files, SQ_TAIL).wrapping_sub(self.word(files, SQ_HEAD)) < self.sq_entries
    }
    /// Consumes the next submission queue entry; `None` if the queue is empty.
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
    /// Posts a completion; false if the ring is full.
    pub fn put(&self, files: &mut (impl HostFiles + ?Sized), completion: &Completion) -> bool {
        let mut tail = self.word(files, CQ_TAIL);
        let mut bytes = completion.bytes();
        let (mut len, mut places, mut gap) = (self.cqe_len as usize, 1, 0);
        if self.is_mixed && completion.extra.is_some() {
            // A completion of two entries is contiguous: an entry that is skipped fills the last place.
            gap = u32::from(tail & (self.cq_entries - 1) == self.cq_entries - 1);
            (len, places) = (bytes.len(), 2);
            bytes[12..16].copy_from_slice(&(completion.flags | LARGE).to_ne_bytes());
        }
        if self.unread(files) + places + gap > self.cq_entries {
            return false;
        }
        if gap > 0 {
            self.write_at(files, tail, &Completion::new(0, 0, SKIPPED).bytes()[..CQE_LEN as usize]);
            tail = tail.wrapping_add(1);
        }
        self.write_at(files, tail, &bytes[..len]);
        self.set_word(files, CQ_TAIL, tail.wrapping_add(places));
        true
    }
    fn write_at(&self, files: &mut (impl HostFiles + ?Sized), position: u32, bytes: &[u8]) {
        let at = u64::from(CQES) + u64::from(position & (self.cq_entries - 1)) * self.cqe_len;
        let _ = files.write_at(self.memory, at, bytes);
    }
    /// Copies the entries that are in this ring to another, whose lengths differ
    /// (`IORING_REGISTER_RESIZE_RINGS`). `EOVERFLOW` if they do not fit.
    pub fn move_to(&self, files: &mut (impl HostFiles + ?Sized), to: &Ring) -> Result<(), Errno> {
        let (sq_head, sq_tail) = (self.word(files, SQ_HEAD), self.word(files, SQ_TAIL));
        let (cq_head, cq_tail) = (self.word(files, CQ_HEAD), self.word(files, CQ_TAIL));
        let (waiting, unread) = (sq_tail.wrapping_sub(sq_head), cq_tail.wrapping_sub(cq_head));
        if waiting > to.sq_entries || unread > to.cq_entries {
            return Err(Errno::EOVERFLOW);
        }
        let mut copy = |from: u64, at: u64, len: u64| {
            let mut bytes = vec![0; len as usize];
            let _ = files.peek_at(self.memory, from, &mut bytes);
            let _ = files.write_at(to.memory, at, &bytes);
        };
        for position in (0..waiting).map(|n| sq_head.wrapping_add(n)) {
            let at =
                |ring: &Ring| ring.rings_len() + u64::from(position & (ring.sq_entries - 1)) * ring.sqe_len;
            copy(at(self), at(to), self.sqe_len);
        }
        for position in (0..unread).map(|n| cq_head.wrapping_add(n)) {
            let at =
                |ring: &Ring| u64::from(CQES) + u64::from(position & (ring.cq_entries - 1)) * ring.cqe_len;
            copy(at(self), at(to), self.cqe_len);
        }
        for word in [SQ_HEAD, SQ_TAIL, SQ_FLAGS, SQ_DROPPED, CQ_HEAD, CQ_TAIL, CQ_OVERFLOW, CQ_FLAGS] {
            copy(u64::from(word), u64::from(word), 4);
        }
        Ok(())
    }
    /// Sets or clears an `IORING_SQ_*` flag.
    pub fn set_flag(&self, files: &mut (impl HostFiles + ?Sized), flag: u32, on: bool) {
        let flags = self.word(files, SQ_FLAGS) & !flag;
        self.set_word(files, SQ_FLAGS, flags | if on { flag } else { 0 });
    }
}
