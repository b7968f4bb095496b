//! Readiness of sockets: the operations that would not block, as `poll(2)` and `epoll(7)` bits.

use belljar_linux_abi::c;

/// `EPOLLIN`.
pub const EPOLLIN: u32 = c::EPOLLIN as u32;
/// `EPOLLPRI`.
pub const EPOLLPRI: u32 = c::EPOLLPRI as u32;
/// `EPOLLOUT`.
pub const EPOLLOUT: u32 = c::EPOLLOUT as u32;
/// `EPOLLERR`.
pub const EPOLLERR: u32 = c::EPOLLERR as u32;
/// `EPOLLHUP`.
pub const EPOLLHUP: u32 = c::EPOLLHUP as u32;
/// `EPOLLRDNORM`.
pub const EPOLLRDNORM: u32 = c::EPOLLRDNORM as u32;
/// `EPOLLRDBAND`.
pub const EPOLLRDBAND: u32 = c::EPOLLRDBAND as u32;
/// `EPOLLWRNORM`.
pub const EPOLLWRNORM: u32 = c::EPOLLWRNORM as u32;
/// `EPOLLWRBAND`.
pub const EPOLLWRBAND: u32 = c::EPOLLWRBAND as u32;
/// `EPOLLRDHUP`.
pub const EPOLLRDHUP: u32 = c::EPOLLRDHUP as u32;

/// The bits that Linux sets together when data can be read.
pub const READABLE: u32 = EPOLLIN | EPOLLRDNORM;
/// The bits that Linux sets together when data can be written.
pub const WRITABLE: u32 = EPOLLOUT | EPOLLWRNORM;
