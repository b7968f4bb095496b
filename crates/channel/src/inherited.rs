//! Sockets inherited by a process.

use std::io::{Error, Result};
use std::os::fd::FromRawFd;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicI32, Ordering::SeqCst};

/// Descriptor of the inherited socket that has been taken; -1 for none.
static TAKEN: AtomicI32 = AtomicI32::new(-1);

/// Takes over the connected socket with this descriptor, which the parent process left open across `execve`.
///
/// # Errors
/// If the descriptor is a standard stream or not an open stream socket, if this program opened it itself (its
/// descriptors are close-on-exec), or if an inherited socket has been taken before.
pub fn inherited_socket(descriptor: i32) -> Result<UnixStream> {
    // SAFETY: fcntl and getsockopt with these commands only inspect the descriptor, whatever it is; `kind`
    // and `len` are writable.
    let (flags, is_socket) = unsafe {
        let (mut kind, mut len) = (0_i32, 4_u32);
        let out = (&raw mut kind).cast();
        let got = libc::getsockopt(descriptor, libc::SOL_SOCKET, libc::SO_TYPE, out, &raw mut len);
        (libc::fcntl(descriptor, libc::F_GETFD), got == 0 && kind == libc::SOCK_STREAM)
    };
    if descriptor <= 2 || flags < 0 || flags & libc::FD_CLOEXEC != 0 || !is_socket {
        return Err(Error::other(format!(
            "descriptor {descriptor} is no socket that this process was started with"
        )));
    }
    if TAKEN.compare_exchange(-1, descriptor, SeqCst, SeqCst).is_err() {
        return Err(Error::other("the socket that this process was started with has been taken already"));
    }
    // SAFETY: the socket is open and was opened by no code of this process, whose descriptors are
    // close-on-exec; it is taken here for the first and only time.
    let stream = unsafe { UnixStream::from_raw_fd(descriptor) };
    // Child processes must not hold it open.
    // SAFETY: the descriptor belongs to the stream, which is alive.
    unsafe { libc::fcntl(descriptor, libc::F_SETFD, libc::FD_CLOEXEC) };
    Ok(stream)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::{AsRawFd, IntoRawFd};

    #[test]
    fn only_a_socket_from_before_is_taken_and_only_once() {
        let (ours, _other) = UnixStream::pair().unwrap();
        // Descriptors opened by this process are close-on-exec.
        assert!(inherited_socket(ours.as_raw_fd()).is_err());
        assert!(inherited_socket(2).is_err() && inherited_socket(-1).is_err());
        let (left_open, other) = UnixStream::pair().unwrap();
        let descriptor = left_open.into_raw_fd();
        // SAFETY: the descriptor is open.
        unsafe { libc::fcntl(descriptor, libc::F_SETFD, 0) };
        let taken = inherited_socket(descriptor).unwrap();
        use std::io::{Read, Write};
        (&taken).write_all(b"x").unwrap();
        drop(taken);
        let mut said = String::new();
        (&other).read_to_string(&mut said).unwrap();
        assert_eq!(said, "x");
        assert!(inherited_socket(descriptor).is_err());
    }
}
