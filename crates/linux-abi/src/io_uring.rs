//! Operations of submission entries, `IORING_OP_*` (`linux/io_uring.h`).
#![allow(missing_docs)]

pub const NOP: u8 = 0;
pub const READV: u8 = 1;
pub const WRITEV: u8 = 2;
pub const READ_FIXED: u8 = 4;
pub const WRITE_FIXED: u8 = 5;
pub const POLL_ADD: u8 = 6;
pub const POLL_REMOVE: u8 = 7;
pub const SENDMSG: u8 = 9;
pub const RECVMSG: u8 = 10;
pub const TIMEOUT: u8 = 11;
pub const TIMEOUT_REMOVE: u8 = 12;
pub const ACCEPT: u8 = 13;
pub const ASYNC_CANCEL: u8 = 14;
pub const LINK_TIMEOUT: u8 = 15;
pub const CONNECT: u8 = 16;
pub const OPENAT: u8 = 18;
pub const CLOSE: u8 = 19;
pub const FILES_UPDATE: u8 = 20;
pub const STATX: u8 = 21;
pub const READ: u8 = 22;
pub const SEND: u8 = 26;
pub const RECV: u8 = 27;
pub const OPENAT2: u8 = 28;
pub const EPOLL_CTL: u8 = 29;
pub const SPLICE: u8 = 30;
pub const PROVIDE_BUFFERS: u8 = 31;
pub const REMOVE_BUFFERS: u8 = 32;
pub const TEE: u8 = 33;
pub const MSG_RING: u8 = 40;
pub const SOCKET: u8 = 45;
pub const SEND_ZC: u8 = 47;
pub const SENDMSG_ZC: u8 = 48;
pub const READ_MULTISHOT: u8 = 49;
pub const FUTEX_WAIT: u8 = 51;
pub const FUTEX_WAKE: u8 = 52;
pub const FUTEX_WAITV: u8 = 53;
pub const FIXED_FD_INSTALL: u8 = 54;
pub const BIND: u8 = 56;
pub const EPOLL_WAIT: u8 = 59;
pub const PIPE: u8 = 62;
/// One more than the last known here.
pub const OPS: u8 = 63;
