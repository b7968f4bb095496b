//! Submission queue entries and the system calls that perform them.

use crate::buffers::SelectionLimits;
use crate::instance::Submitter;
use crate::memory::SQE_LEN;
use crate::slots::ALLOC;
use crate::snapshot::Snapshot;
use belljar_linux_abi::{Errno, c};
use std::sync::Arc;

pub use belljar_linux_abi::io_uring::*;

/// Operations that are not system calls.
const OWN: [u8; 19] = [
    NOP,
    POLL_ADD,
    POLL_REMOVE,
    TIMEOUT,
    TIMEOUT_REMOVE,
    ASYNC_CANCEL,
    LINK_TIMEOUT,
    FILES_UPDATE,
    SPLICE,
    PROVIDE_BUFFERS,
    REMOVE_BUFFERS,
    TEE,
    MSG_RING,
    FUTEX_WAIT,
    FUTEX_WAKE,
    FUTEX_WAITV,
    FIXED_FD_INSTALL,
    URING_CMD,
    RECV_ZC,
];
/// `IORING_ASYNC_CANCEL_*`.
const CANCEL_FLAGS: u32 = 63;
/// `IORING_CQE_F_MORE`.
pub const MORE: u32 = 2;
/// `IORING_RECVSEND_FIXED_BUF`.
const FIXED_BUFFER: u16 = 4;
/// `IORING_ACCEPT_MULTISHOT`, `IORING_RECV_MULTISHOT`.
const ACCEPT_MULTI: u16 = 1;
const RECV_MULTI: u16 = 2;
/// `IORING_RECVSEND_POLL_FIRST`, `IORING_SEND_ZC_REPORT_USAGE`, `IORING_RECVSEND_BUNDLE`,
/// `IORING_SEND_VECTORIZED`.
const POLL_FIRST: u16 = 1;
const ZC_REPORT: u16 = 8;
const BUNDLE: u16 = 16;
const VECTORIZED: u16 = 32;
/// `IORING_NOP_*` of Linux 6.18, and `IORING_NOP_FILE`, `IORING_NOP_FIXED_FILE`, `IORING_NOP_FIXED_BUFFER`.
const NOP_FLAGS: u32 = 63;
const NOP_FILE: u32 = 2;
const NOP_FIXED_FILE: u32 = 4;
const NOP_FIXED_BUFFER: u32 = 8;
/// `IORING_NOP_CQE32`.
pub const NOP_LARGE: u32 = 32;

/// `IOSQE_FIXED_FILE`: `fd` is an index into the registered files.
pub const FIXED_FILE: u8 = 1;
/// `IOSQE_IO_LINK`: the next entry starts when this one has succeeded.
pub const IO_LINK: u8 = 4;
/// `IOSQE_IO_HARDLINK`: the next entry starts when this one has completed.
pub const IO_HARDLINK: u8 = 8;
/// `IOSQE_CQE_SKIP_SUCCESS`.
pub const CQE_SKIP: u8 = 64;
/// `IOSQE_IO_DRAIN`: the entry starts when all preceding ones have completed.
pub const IO_DRAIN: u8 = 2;
/// `IOSQE_BUFFER_SELECT`: the entry takes a buffer of a group.
pub const BUFFER_SELECT: u8 = 32;
/// `IOSQE_ASYNC` has no effect: no request waits for a worker thread.
const ASYNC: u8 = 16;
/// All flags of an entry.
pub const KNOWN_FLAGS: u8 = FIXED_FILE | IO_DRAIN | IO_LINK | IO_HARDLINK | ASYNC | BUFFER_SELECT | CQE_SKIP;

/// `IORING_POLL_ADD_MULTI`.
pub const POLL_MULTI: u32 = 1;
/// `IORING_POLL_UPDATE_EVENTS`.
pub const POLL_UPDATE_EVENTS: u32 = 2;
/// `IORING_POLL_UPDATE_USER_DATA`.
pub const POLL_UPDATE_DATA: u32 = 4;

/// Completion result for an error.
pub fn failure(errno: Errno) -> i32 {
    -i32::from(errno.0)
}

/// The used fields of `struct io_uring_sqe`, and the submitter.
#[derive(Clone, Debug)]
pub struct SubmissionEntry {
    /// Operation, `IORING_OP_*`.
    pub op: u8,
    /// Flags, `IOSQE_*`.
    pub flags: u8,
    /// I/O priority of reads and writes; flags of other operations.
    pub ioprio: u16,
    /// Descriptor, or index of a registered file.
    pub fd: i32,
    /// Offset in the file, or a second address.
    pub off: u64,
    /// Address of the buffer, the vectors or a path, or a second offset.
    pub addr: u64,
    /// Length of the buffer, or number of vectors.
    pub len: u32,
    /// Operation flags: `rw_flags`, `msg_flags`, `poll32_events` and the other members of their union.
    pub op_flags: u32,
    /// User data, copied to the completion.
    pub user_data: u64,
    /// `buf_index` or `buf_group`: registered buffer, or group to select a buffer from.
    pub buffer: u16,
    /// Slot for a new registered file, from 1; other operations store a second descriptor here.
    pub file_index: u32,
    /// Third address: of attributes, or of a notification.
    pub addr3: u64,
    /// Registered credentials for the request, or 0.
    pub personality: u16,
    /// Submitter of the entry.
    pub by: Submitter,
    /// Error detected at submission.
    pub refused: Option<Errno>,
    /// Arguments in guest memory, copied when the request blocks.
    pub snapshot: Option<Arc<Snapshot>>,
}

impl SubmissionEntry {
    /// Parses an entry in shared memory.
    pub fn parse(bytes: &[u8; SQE_LEN as usize], by: Submitter) -> SubmissionEntry {
        let half = |at: usize| u16::from_ne_bytes([bytes[at], bytes[at + 1]]);
        let word = |at: usize| u32::from_ne_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        let long = |at: usize| u64::from(word(at)) | u64::from(word(at + 4)) << 32;
        SubmissionEntry {
            op: bytes[0],
            flags: bytes[1],
            ioprio: half(2),
            fd: word(4) as i32,
            off: long(8),
            addr: long(16),
            len: word(24),
            op_flags: word(28),
            user_data: long(32),
            buffer: half(40),
            file_index: word(44),
            // The kernel keeps the updated period of a timeout there.
            addr3: if bytes[0] == TIMEOUT { 0 } else { long(48) },
            personality: half(42),
            by,
            refused: None,
            snapshot: None,
        }
    }
    /// True if the next entry is linked to this one.
    pub fn is_linked(&self) -> bool {
        self.flags & (IO_LINK | IO_HARDLINK) != 0
    }
    /// True if the call operates on `fd`, which is then held open until completion.
    pub fn holds_file(&self) -> bool {
        matches!(self.op, 1..=6 | 8..=10 | ACCEPT | 16 | 17 | READ..=24 | SEND | RECV | 29 | SPLICE | TEE | 34)
            || matches!(self.op, MSG_RING | 41 | 43 | URING_CMD..=READ_MULTISHOT | FIXED_FD_INSTALL..=61)
            || self.op == NOP && self.op_flags & NOP_FILE != 0
    }
    /// Second descriptor, and whether it is a registered file.
    pub fn second_file(&self) -> Option<(i32, bool)> {
        const IN_FIXED: u32 = 1 << 31;
        matches!(self.op, SPLICE | TEE).then_some((self.file_index as i32, self.op_flags & IN_FIXED != 0))
    }
    /// True if the request uses a registered buffer.
    pub fn has_fixed_buffer(&self) -> bool {
        match self.op {
            READ_FIXED | WRITE_FIXED | READV_FIXED | WRITEV_FIXED => true,
            SEND_ZC | SENDMSG_ZC => self.ioprio & FIXED_BUFFER != 0,
            NOP => self.op_flags & NOP_FIXED_BUFFER != 0,
            _ => false,
        }
    }
    /// True if `fd` is an index into the registered files.
    pub fn uses_fixed_file(&self) -> bool {
        match self.op {
            NOP => self.op_flags & (NOP_FILE | NOP_FIXED_FILE) == NOP_FILE | NOP_FIXED_FILE,
            _ => self.flags & FIXED_FILE != 0,
        }
    }
    /// True if the request moves several buffers of its group at once (`IORING_RECVSEND_BUNDLE`).
    pub fn is_bundle(&self) -> bool {
        matches!(self.op, SEND | RECV) && self.ioprio & BUNDLE != 0
    }
    /// True if `addr` is that of a vector of buffers (`IORING_SEND_VECTORIZED`).
    pub fn sends_vector(&self) -> bool {
        matches!(self.op, SEND | SEND_ZC) && self.ioprio & VECTORIZED != 0
    }
    /// Limits of the provided buffers that the request takes, with `queued` bytes at its socket.
    pub fn wanted_buffers(&self, queued: u64) -> SelectionLimits {
        /// Maximum number of buffers in a bundle.
        const BUNDLE_BUFFERS: usize = 256;
        let least = |a: u64, b: u64| if a == 0 || b == 0 { a.max(b) } else { a.min(b) };
        let bytes = least(u64::from(self.len), u64::from(self.receive_limit()));
        match self.op {
            RECV if self.is_bundle() && queued > 1 => {
                SelectionLimits { bytes: least(bytes, queued), buffers: BUNDLE_BUFFERS }
            }
            SEND if self.is_bundle() => SelectionLimits { bytes, buffers: BUNDLE_BUFFERS },
            RECVMSG | READV | SENDMSG => SelectionLimits { bytes: 0, buffers: 1 },
            _ => SelectionLimits { bytes, buffers: 1 },
        }
    }
    /// Remaining bytes of a multishot receive that ends after a number of bytes; 0 for no limit.
    pub fn receive_limit(&self) -> u32 {
        if self.op == RECV && self.is_multishot() { self.file_index } else { 0 }
    }
    /// Counts received bytes; true if a limited receive has reached its limit.
    pub fn count_received(&mut self, bytes: u32) -> bool {
        let left = self.receive_limit();
        if left > 0 {
            self.file_index = left.saturating_sub(bytes);
        }
        left > 0 && self.file_index == 0
    }
    /// True if the request continues after a completion.
    pub fn is_multishot(&self) -> bool {
        match self.op {
            ACCEPT => self.ioprio & ACCEPT_MULTI != 0,
            RECV | RECVMSG => self.ioprio & RECV_MULTI != 0,
            READ_MULTISHOT => true,
            _ => false,
        }
    }
    /// True if the request selects a provided buffer.
    pub fn selects_buffer(&self) -> bool {
        self.flags & BUFFER_SELECT != 0
    }
    /// True if the operation supports provided buffers.
    pub fn can_select_buffer(&self) -> bool {
        matches!(self.op, READV | READ | SEND | SENDMSG | RECV | RECVMSG | READ_MULTISHOT)
    }
    /// True if a second completion reports that the buffers may be reused.
    pub fn is_zero_copy(&self) -> bool {
        matches!(self.op, SEND_ZC | SENDMSG_ZC)
    }
    /// `IORING_CQE_F_MORE` for zero-copy requests, otherwise 0.
    pub fn more(&self) -> u32 {
        if self.is_zero_copy() { MORE } else { 0 }
    }
    /// Validates the entry before any lookup.
    pub fn prepare(&self) -> Result<(), Errno> {
        if self.flags & !KNOWN_FLAGS != 0 || !SubmissionEntry::is_supported(self.op) {
            return Err(Errno::EINVAL);
        }
        if self.selects_buffer() && !self.can_select_buffer() {
            return Err(Errno::EOPNOTSUPP);
        }
        self.check_transfer()?;
        match self.op {
            READV | WRITEV | READ_FIXED | WRITE_FIXED | READ | 23 if self.ioprio >> 13 > 3 => {
                return Err(Errno::EINVAL);
            }
            READV | WRITEV | READ_FIXED | WRITE_FIXED | READ | 23 | READV_FIXED | WRITEV_FIXED => {}
            SENDMSG | RECVMSG | ACCEPT | SEND | RECV | SEND_ZC | SENDMSG_ZC => {}
            _ if self.ioprio != 0 => return Err(Errno::EINVAL),
            _ => {}
        }
        let slot = self.new_slot();
        // Registered files have no close-on-exec flag.
        let closes = match self.op {
            ACCEPT => self.op_flags & c::SOCK_CLOEXEC as u32 != 0,
            OPENAT => self.op_flags & c::O_CLOEXEC as u32 != 0,
            SOCKET => self.off as i32 & c::SOCK_CLOEXEC != 0,
            _ => false,
        };
        if slot != 0 && (closes || self.is_multishot() && slot != ALLOC) {
            return Err(Errno::EINVAL);
        }
        match self.op {
            NOP if self.op_flags & !NOP_FLAGS != 0 => Err(Errno::EINVAL),
            RECV_ZC => Err(Errno::EINVAL),
            BIND | LISTEN if self.buffer != 0 || self.op_flags != 0 || self.file_index != 0 => {
                Err(Errno::EINVAL)
            }
            BIND if self.len != 0 => Err(Errno::EINVAL),
            LISTEN if self.addr != 0 || self.off != 0 => Err(Errno::EINVAL),
            URING_CMD if self.off >> 32 != 0 || self.op_flags & !1 != 0 => Err(Errno::EINVAL),
            FTRUNCATE
                if self.op_flags != 0
                    || self.addr != 0
                    || self.len != 0
                    || self.buffer != 0
                    || self.file_index != 0 =>
            {
                Err(Errno::EINVAL)
            }
            FIXED_FD_INSTALL if self.flags & FIXED_FILE != 0 && self.personality != 0 => Err(Errno::EPERM),
            POLL_REMOVE => self.check_poll_remove(),
            TIMEOUT_REMOVE => self.check_timeout_remove(),
            TEE if self.addr != 0 || self.off != 0 => Err(Errno::EINVAL),
            EPOLL_WAIT if self.off != 0 || self.op_flags != 0 || self.buffer != 0 || self.file_index != 0 => {
                Err(Errno::EINVAL)
            }
            PIPE if self.fd != 0 || self.off != 0 || self.addr3 != 0 => Err(Errno::EINVAL),
            FUTEX_WAIT | FUTEX_WAKE | FUTEX_WAITV => self.check_futex(),
            ASYNC_CANCEL if self.op_flags & !CANCEL_FLAGS != 0 => Err(Errno::EINVAL),
            FILES_UPDATE if self.op_flags != 0 || self.len == 0 => Err(Errno::EINVAL),
            _ => Ok(()),
        }
    }
    /// Validates the flags of requests that send or receive.
    fn check_transfer(&self) -> Result<(), Errno> {
        const ANY: u16 = u16::MAX;
        let (known, multi) = match self.op {
            SEND | SENDMSG => (POLL_FIRST | BUNDLE | VECTORIZED, false),
            SEND_ZC | SENDMSG_ZC => (POLL_FIRST | FIXED_BUFFER | ZC_REPORT | VECTORIZED, false),
            RECV | RECVMSG => (POLL_FIRST | RECV_MULTI | BUNDLE, self.ioprio & RECV_MULTI != 0),
            READ_MULTISHOT => (ANY, true),
            _ => return Ok(()),
        };
        let waits_for_all = matches!(self.op, RECV | RECVMSG) && self.op_flags & c::MSG_WAITALL as u32 != 0;
        let is_message = matches!(self.op, SENDMSG | RECVMSG | SENDMSG_ZC);
        let wrong = self.ioprio & !known != 0
            || multi && (!self.selects_buffer() || waits_for_all)
            || is_message && self.ioprio & BUNDLE != 0
            || self.op == RECV && !multi && self.file_index != 0
            || self.op == RECVMSG && self.file_index != 0
            || self.op == SENDMSG && (self.off != 0 || self.file_index != 0);
        if wrong { Err(Errno::EINVAL) } else { Ok(()) }
    }
    fn check_poll_remove(&self) -> Result<(), Errno> {
        let (events, data) = (self.len & POLL_UPDATE_EVENTS != 0, self.len & POLL_UPDATE_DATA != 0);
        let known = POLL_MULTI | POLL_UPDATE_EVENTS | POLL_UPDATE_DATA;
        let wrong =
            self.len & !known != 0 || self.len == POLL_MULTI || self.buffer != 0 || self.file_index != 0;
        let unused = (!data && self.off != 0) || (!events && self.op_flags != 0);
        if wrong || unused { Err(Errno::EINVAL) } else { Ok(()) }
    }
    /// True if the operation is allowed with `IORING_SETUP_IOPOLL`.
    pub fn can_poll_io(&self) -> bool {
        matches!(self.op, NOP | READV | WRITEV | READ_FIXED | WRITE_FIXED | FILES_UPDATE | READ | 23)
            || matches!(self.op, PROVIDE_BUFFERS | REMOVE_BUFFERS | MSG_RING)
    }
    /// True if the operation reads or writes a file, which must be opened for polled I/O with
    /// `IORING_SETUP_IOPOLL`.
    pub fn moves_bytes(&self) -> bool {
        matches!(self.op, READV | WRITEV | READ_FIXED | WRITE_FIXED | READ | 23)
    }
    /// Slot for the new registered file, from 1; 0 for none.
    pub fn new_slot(&self) -> u32 {
        if matches!(self.op, ACCEPT | OPENAT | OPENAT2 | SOCKET | PIPE) { self.file_index } else { 0 }
    }
    /// System call that performs the request; `None` if there is none. The descriptor is not looked up. With
    /// `streams`, the file has no position.
    pub fn call(&self, streams: bool) -> Option<(i64, [u64; 6])> {
        let (fd, len, flags) = (self.fd as u64, u64::from(self.len), u64::from(self.op_flags));
        let (addr, off) = (self.addr, self.off);
        let here = streams || off == u64::MAX;
        // Requests never raise SIGPIPE.
        let quiet = flags | c::MSG_NOSIGNAL as u64;
        let call = match self.op {
            READV_FIXED if here => (c::SYS_readv, [fd, addr, len, 0, 0, 0]),
            READV_FIXED => (c::SYS_preadv, [fd, addr, len, off, 0, 0]),
            WRITEV_FIXED if here => (c::SYS_writev, [fd, addr, len, 0, 0, 0]),
            WRITEV_FIXED => (c::SYS_pwritev, [fd, addr, len, off, 0, 0]),
            1 if here => (c::SYS_readv, [fd, addr, len, 0, 0, 0]),
            1 => (c::SYS_preadv, [fd, addr, len, off, 0, 0]),
            2 if here => (c::SYS_writev, [fd, addr, len, 0, 0, 0]),
            2 => (c::SYS_pwritev, [fd, addr, len, off, 0, 0]),
            3 => (c::SYS_fsync, [fd, 0, 0, 0, 0, 0]),
            READ_FIXED | READ | READ_MULTISHOT if here => (c::SYS_read, [fd, addr, len, 0, 0, 0]),
            READ_FIXED | READ | READ_MULTISHOT => (c::SYS_pread64, [fd, addr, len, off, 0, 0]),
            WRITE_FIXED | 23 if here => (c::SYS_write, [fd, addr, len, 0, 0, 0]),
            WRITE_FIXED | 23 => (c::SYS_pwrite64, [fd, addr, len, off, 0, 0]),
            8 => (c::SYS_sync_file_range, [fd, off, len, flags, 0, 0]),
            SENDMSG | SENDMSG_ZC => (c::SYS_sendmsg, [fd, addr, quiet, 0, 0, 0]),
            RECVMSG => (c::SYS_recvmsg, [fd, addr, flags, 0, 0, 0]),
            ACCEPT => (c::SYS_accept4, [fd, addr, off, flags, 0, 0]),
            16 => (c::SYS_connect, [fd, addr, off, 0, 0, 0]),
            17 => (c::SYS_fallocate, [fd, len, off, addr, 0, 0]),
            OPENAT => (c::SYS_openat, [fd, addr, flags, len, 0, 0]),
            CLOSE => (c::SYS_close, [fd, 0, 0, 0, 0, 0]),
            21 => (c::SYS_statx, [fd, addr, flags, len, off, 0]),
            24 => (c::SYS_fadvise64, [fd, off, len, flags, 0, 0]),
            25 => (c::SYS_madvise, [addr, len, flags, 0, 0, 0]),
            SEND | SEND_ZC => {
                (c::SYS_sendto, [fd, addr, len, quiet, off, u64::from(self.file_index & 0xffff)])
            }
            RECV => (c::SYS_recvfrom, [fd, addr, len, flags, 0, 0]),
            OPENAT2 => (c::SYS_openat2, [fd, addr, off, len, 0, 0]),
            29 => (c::SYS_epoll_ctl, [fd, len, off, addr, 0, 0]),
            34 => (c::SYS_shutdown, [fd, len, 0, 0, 0, 0]),
            35 => (c::SYS_renameat2, [fd, addr, len, off, flags, 0]),
            36 => (c::SYS_unlinkat, [fd, addr, flags, 0, 0, 0]),
            37 => (c::SYS_mkdirat, [fd, addr, len, 0, 0, 0]),
            38 => (c::SYS_symlinkat, [addr, fd, off, 0, 0, 0]),
            39 => (c::SYS_linkat, [fd, addr, len, off, flags, 0]),
            41 => (c::SYS_fsetxattr, [fd, addr, off, len, flags, 0]),
            42 => (c::SYS_setxattr, [self.addr3, addr, off, len, flags, 0]),
            43 => (c::SYS_fgetxattr, [fd, addr, off, len, 0, 0]),
            44 => (c::SYS_getxattr, [self.addr3, addr, off, len, 0, 0]),
            SOCKET => (c::SYS_socket, [fd, off, len, 0, 0, 0]),
            WAITID => (c::SYS_waitid, [len, fd, off, u64::from(self.file_index), 0, 0]),
            EPOLL_WAIT => (c::SYS_epoll_wait, [fd, addr, len, u64::MAX, 0, 0]),
            PIPE => (c::SYS_pipe2, [addr, flags, 0, 0, 0, 0]),
            FTRUNCATE => (c::SYS_ftruncate, [fd, off, 0, 0, 0, 0]),
            BIND => (c::SYS_bind, [fd, addr, off, 0, 0, 0]),
            LISTEN => (c::SYS_listen, [fd, len, 0, 0, 0, 0]),
            _ => return None,
        };
        Some(call)
    }
    /// True if `IORING_REGISTER_PROBE` reports an operation as supported.
    pub fn is_supported(op: u8) -> bool {
        let mut blank = [0; SQE_LEN as usize];
        blank[0] = op;
        OWN.contains(&op) || SubmissionEntry::parse(&blank, Submitter::default()).call(false).is_some()
    }
}

/// Result of `IORING_REGISTER_PROBE` with room for `count` operations: `struct io_uring_probe`, followed by
/// an entry of eight bytes per operation.
pub fn probe(count: u32) -> Vec<u8> {
    let listed = count.min(u32::from(OPS)) as u8;
    let mut answer = vec![0; 16 + 8 * usize::from(listed)];
    (answer[0], answer[1]) = (OPS - 1, listed);
    for op in 0..listed {
        let at = 16 + 8 * usize::from(op);
        (answer[at], answer[at + 2]) = (op, u8::from(SubmissionEntry::is_supported(op)));
    }
    answer
}
