//! Submission entries and the system calls that they stand for.

use super::ring::SQE_LEN;
use belljar_linux_abi::c;

/// `IORING_OP_*` that are no system calls of their own.
pub const NOP: u8 = 0;
pub const POLL_ADD: u8 = 6;
pub const POLL_REMOVE: u8 = 7;
pub const TIMEOUT: u8 = 11;
pub const TIMEOUT_REMOVE: u8 = 12;
pub const ACCEPT: u8 = 13;
pub const ASYNC_CANCEL: u8 = 14;
pub const LINK_TIMEOUT: u8 = 15;
const CLOSE: u8 = 19;
const READ_FIXED: u8 = 4;
const WRITE_FIXED: u8 = 5;
/// One more than the last known here.
pub const OPS: u8 = 48;

/// `IOSQE_*`.
pub const FIXED_FILE: u8 = 1;
pub const IO_LINK: u8 = 4;
pub const IO_HARDLINK: u8 = 8;
pub const CQE_SKIP: u8 = 64;
/// Drain and async: requests are started in their order anyway.
const ORDER_FLAGS: u8 = 2 | 16;
pub const KNOWN_FLAGS: u8 = FIXED_FILE | IO_LINK | IO_HARDLINK | CQE_SKIP | ORDER_FLAGS;

/// `struct io_uring_sqe`, as far as it is used.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub struct Entry {
    pub op: u8,
    pub flags: u8,
    pub ioprio: u16,
    pub fd: i32,
    pub off: u64,
    pub addr: u64,
    pub len: u32,
    pub op_flags: u32,
    pub user_data: u64,
    pub buffer: u16,
    pub file_index: u32,
}

impl Entry {
    /// From the shared memory.
    pub fn parse(bytes: &[u8; SQE_LEN as usize]) -> Entry {
        let half = |at: usize| u16::from_ne_bytes([bytes[at], bytes[at + 1]]);
        let word = |at: usize| u32::from_ne_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        let long = |at: usize| u64::from(word(at)) | u64::from(word(at + 4)) << 32;
        Entry {
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
        }
    }
    /// Whether the next entry waits for this one.
    pub fn is_linked(&self) -> bool {
        self.flags & (IO_LINK | IO_HARDLINK) != 0
    }
    /// Whether the descriptor is one that the call works on, which is held until it has ended.
    pub fn holds_file(&self) -> bool {
        matches!(self.op, 1..=6 | 8..=10 | ACCEPT | 16 | 17 | 22..=24 | 26 | 27 | 34)
    }
    /// Whether it uses a registered buffer.
    pub fn has_fixed_buffer(&self) -> bool {
        matches!(self.op, READ_FIXED | WRITE_FIXED)
    }
    /// The system call that does it, without its descriptor being looked at; `None` if there is none.
    /// `streams`: it has no positions.
    pub fn call(&self, streams: bool) -> Option<(i64, [u64; 6])> {
        let (fd, len, flags) = (self.fd as u64, u64::from(self.len), u64::from(self.op_flags));
        let (addr, off) = (self.addr, self.off);
        let here = streams || off == u64::MAX;
        // Nobody is sent SIGPIPE for a request.
        let quiet = flags | c::MSG_NOSIGNAL as u64;
        let call = match self.op {
            1 if here => (c::SYS_readv, [fd, addr, len, 0, 0, 0]),
            1 => (c::SYS_preadv, [fd, addr, len, off, 0, 0]),
            2 if here => (c::SYS_writev, [fd, addr, len, 0, 0, 0]),
            2 => (c::SYS_pwritev, [fd, addr, len, off, 0, 0]),
            3 => (c::SYS_fsync, [fd, 0, 0, 0, 0, 0]),
            READ_FIXED | 22 if here => (c::SYS_read, [fd, addr, len, 0, 0, 0]),
            READ_FIXED | 22 => (c::SYS_pread64, [fd, addr, len, off, 0, 0]),
            WRITE_FIXED | 23 if here => (c::SYS_write, [fd, addr, len, 0, 0, 0]),
            WRITE_FIXED | 23 => (c::SYS_pwrite64, [fd, addr, len, off, 0, 0]),
            8 => (c::SYS_sync_file_range, [fd, off, len, flags, 0, 0]),
            9 => (c::SYS_sendmsg, [fd, addr, quiet, 0, 0, 0]),
            10 => (c::SYS_recvmsg, [fd, addr, flags, 0, 0, 0]),
            ACCEPT => (c::SYS_accept4, [fd, addr, off, flags, 0, 0]),
            16 => (c::SYS_connect, [fd, addr, off, 0, 0, 0]),
            17 => (c::SYS_fallocate, [fd, len, off, addr, 0, 0]),
            18 => (c::SYS_openat, [fd, addr, flags, len, 0, 0]),
            CLOSE => (c::SYS_close, [fd, 0, 0, 0, 0, 0]),
            21 => (c::SYS_statx, [fd, addr, flags, len, off, 0]),
            24 => (c::SYS_fadvise64, [fd, off, len, flags, 0, 0]),
            25 => (c::SYS_madvise, [addr, len, flags, 0, 0, 0]),
            26 => (c::SYS_sendto, [fd, addr, len, quiet, off, u64::from(self.file_index & 0xffff)]),
            27 => (c::SYS_recvfrom, [fd, addr, len, flags, 0, 0]),
            28 => (c::SYS_openat2, [fd, addr, off, len, 0, 0]),
            34 => (c::SYS_shutdown, [fd, len, 0, 0, 0, 0]),
            35 => (c::SYS_renameat2, [fd, addr, len, off, flags, 0]),
            36 => (c::SYS_unlinkat, [fd, addr, flags, 0, 0, 0]),
            37 => (c::SYS_mkdirat, [fd, addr, len, 0, 0, 0]),
            38 => (c::SYS_symlinkat, [addr, fd, off, 0, 0, 0]),
            39 => (c::SYS_linkat, [fd, addr, len, off, flags, 0]),
            45 => (c::SYS_socket, [fd, off, len, 0, 0, 0]),
            _ => return None,
        };
        Some(call)
    }
    /// Whether `IORING_REGISTER_PROBE` names an operation as supported.
    pub fn is_supported(op: u8) -> bool {
        let blank = Entry {
            op,
            flags: 0,
            ioprio: 0,
            fd: 0,
            off: 0,
            addr: 0,
            len: 0,
            op_flags: 0,
            user_data: 0,
            buffer: 0,
            file_index: 0,
        };
        matches!(op, NOP | POLL_ADD | POLL_REMOVE | TIMEOUT | TIMEOUT_REMOVE | ASYNC_CANCEL | LINK_TIMEOUT)
            || blank.call(false).is_some()
    }
}
