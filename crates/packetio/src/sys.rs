//! Socket options, interface requests and mappings: system calls without a safe wrapper in std or rustix.

use std::ffi::c_int;
use std::io::{Error, Result};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr::NonNull;

/// Plain data passed across the system call boundary.
///
/// # Safety
/// Every bit pattern is a valid value, and the kernel retains no pointer from it after the call.
pub(crate) unsafe trait Plain: Copy {}
// SAFETY: an integer.
unsafe impl Plain for c_int {}
// SAFETY: integers alone.
unsafe impl Plain for [u32; 2] {}
// SAFETY: integers alone.
unsafe impl Plain for libc::tpacket_req {}
// SAFETY: integers alone.
unsafe impl Plain for libc::tpacket_req3 {}
// SAFETY: integers alone.
unsafe impl Plain for libc::tpacket_stats_v3 {}
// SAFETY: integers alone.
unsafe impl Plain for libc::packet_mreq {}

/// Opens a non-blocking socket.
pub(crate) fn socket(family: c_int, kind: c_int, protocol: c_int) -> Result<OwnedFd> {
    // SAFETY: no pointers are passed.
    let fd = unsafe { libc::socket(family, kind | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK, protocol) };
    check(fd)?;
    // SAFETY: the descriptor is new and owned by no other value.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// `setsockopt` with a plain value.
pub(crate) fn set_option<T: Plain>(fd: BorrowedFd<'_>, level: c_int, name: c_int, value: T) -> Result<()> {
    let len = size_of::<T>() as libc::socklen_t;
    // SAFETY: `value` lives through the call and has `len` bytes.
    check(unsafe { libc::setsockopt(fd.as_raw_fd(), level, name, (&raw const value).cast(), len) }).map(drop)
}

/// `getsockopt` of a plain value; fields unknown to the kernel are zero.
pub(crate) fn option<T: Plain>(fd: BorrowedFd<'_>, level: c_int, name: c_int) -> Result<T> {
    let mut value = MaybeUninit::<T>::zeroed();
    let mut len = size_of::<T>() as libc::socklen_t;
    // SAFETY: `value` has `len` bytes; the kernel writes no more than that.
    check(unsafe { libc::getsockopt(fd.as_raw_fd(), level, name, value.as_mut_ptr().cast(), &raw mut len) })?;
    // SAFETY: zero bytes are a value of plain data, and so is anything that the kernel wrote.
    Ok(unsafe { value.assume_init() })
}

/// Attaches a classic BPF program to a socket.
pub(crate) fn attach_filter(fd: BorrowedFd<'_>, program: &mut [libc::sock_filter]) -> Result<()> {
    let value = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
    let len = size_of_val(&value) as libc::socklen_t;
    // SAFETY: the program lives through the call, which copies it.
    check(unsafe {
        libc::setsockopt(
            fd.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_ATTACH_FILTER,
            (&raw const value).cast(),
            len,
        )
    })
    .map(drop)
}

/// Takes the pending error of a socket.
pub(crate) fn take_error(fd: BorrowedFd<'_>) -> Option<Error> {
    match option::<c_int>(fd, libc::SOL_SOCKET, libc::SO_ERROR) {
        Ok(0) => None,
        Ok(code) => Some(Error::from_raw_os_error(code)),
        Err(e) => Some(e),
    }
}

/// Binds a packet socket to an interface; with `protocol` 0 for sending only.
pub(crate) fn bind_packet(fd: BorrowedFd<'_>, index: u32, protocol: u16) -> Result<()> {
    let address = libc::sockaddr_ll {
        sll_family: libc::AF_PACKET as u16,
        sll_protocol: protocol.to_be(),
        sll_ifindex: index as c_int,
        sll_hatype: 0,
        sll_pkttype: 0,
        sll_halen: 0,
        sll_addr: [0; 8],
    };
    let len = size_of_val(&address) as libc::socklen_t;
    // SAFETY: the address lives through the call and has `len` bytes.
    check(unsafe { libc::bind(fd.as_raw_fd(), (&raw const address).cast(), len) }).map(drop)
}

/// Interface request by name with a zero argument.
pub(crate) fn interface_request(name: &str) -> libc::ifreq {
    // SAFETY: zero bytes are an `ifreq`: an empty name and a union of integers.
    let mut request: libc::ifreq = unsafe { MaybeUninit::zeroed().assume_init() };
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes().take(libc::IFNAMSIZ - 1)) {
        *to = from as libc::c_char;
    }
    request
}

/// `ioctl` on an interface request that contains its argument.
pub(crate) fn interface_ioctl(
    fd: BorrowedFd<'_>,
    number: libc::c_ulong,
    request: &mut libc::ifreq,
) -> Result<()> {
    debug_assert_ne!(number, libc::SIOCETHTOOL, "that one has a pointer in the request");
    // SAFETY: the request lives through the call; the numbers that are used here read and write no more than an ifreq.
    check(unsafe { libc::ioctl(fd.as_raw_fd(), number as _, &raw mut *request) }).map(drop)
}

/// `ioctl` on an interface request that points to its argument `data`.
pub(crate) fn interface_ioctl_data<T: Plain>(
    fd: BorrowedFd<'_>,
    number: libc::c_ulong,
    name: &str,
    data: &mut T,
) -> Result<()> {
    let mut request = interface_request(name);
    request.ifr_ifru.ifru_data = (&raw mut *data).cast();
    // SAFETY: `data` lives through the call and is the structure required by the request number.
    check(unsafe { libc::ioctl(fd.as_raw_fd(), number as _, &raw mut request) }).map(drop)
}

/// `ioctl` with a numeric argument.
pub(crate) fn ioctl_value(fd: BorrowedFd<'_>, number: libc::Ioctl, value: libc::c_ulong) -> Result<()> {
    // SAFETY: the numbers that are used here take an integer, no pointer.
    check(unsafe { libc::ioctl(fd.as_raw_fd(), number, value) }).map(drop)
}

/// Converts a result of -1 to the error in errno.
pub(crate) fn check(result: c_int) -> Result<c_int> {
    if result == -1 { Err(Error::last_os_error()) } else { Ok(result) }
}

/// Memory mapping shared with the kernel, unmapped on drop.
#[derive(Debug)]
pub(crate) struct Mapping {
    at: NonNull<u8>,
    len: usize,
}

// SAFETY: the mapping belongs to the process, not to a thread, and only its owner accesses it.
unsafe impl Send for Mapping {}

impl Mapping {
    /// Maps `len` bytes of `fd` from `offset` on.
    pub fn of(fd: impl AsFd, len: usize, offset: u64) -> Result<Mapping> {
        use rustix::mm::{MapFlags, ProtFlags, mmap};
        let flags = MapFlags::SHARED | MapFlags::POPULATE;
        // SAFETY: a new mapping at an address of the kernel's choice.
        let at = unsafe {
            mmap(std::ptr::null_mut(), len, ProtFlags::READ | ProtFlags::WRITE, flags, fd, offset)?
        };
        Ok(Mapping { at: NonNull::new(at.cast()).expect("the kernel maps nothing at 0"), len })
    }

    /// Allocates zeroed memory.
    pub fn anonymous(len: usize) -> Result<Mapping> {
        use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous};
        let flags = MapFlags::PRIVATE | MapFlags::POPULATE;
        // SAFETY: a new mapping at an address of the kernel's choice.
        let at =
            unsafe { mmap_anonymous(std::ptr::null_mut(), len, ProtFlags::READ | ProtFlags::WRITE, flags)? };
        Ok(Mapping { at: NonNull::new(at.cast()).expect("the kernel maps nothing at 0"), len })
    }

    /// Address of byte `offset`, from which `len` bytes are mapped.
    ///
    /// # Panics
    /// If the range is not mapped.
    pub fn at(&self, offset: usize, len: usize) -> *mut u8 {
        assert!(
            offset.checked_add(len).is_some_and(|end| end <= self.len),
            "{len} bytes at {offset} lie outside a mapping of {} bytes",
            self.len
        );
        // SAFETY: the sum lies inside the mapping.
        unsafe { self.at.as_ptr().add(offset) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the mapping is owned by this value, and no borrow of it is left.
        let unmapped = unsafe { rustix::mm::munmap(self.at.as_ptr().cast(), self.len) };
        debug_assert!(unmapped.is_ok());
    }
}
