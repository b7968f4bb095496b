//! UNIX sockets whose messages are frames: unprivileged links between processes.

use crate::interface::check_frame;
use crate::outgoing::Outgoing;
use crate::{Counters, Error, Frame, MIN_FRAME, Port, Remainder, Result, Sent};
use belljar_channel::with_socket_path;
use belljar_wire::ethernet::Address;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, sockopt};
use std::io::{Error as IoError, ErrorKind};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

/// Messages received in one system call.
const BATCH: usize = 32;
const VLAN_TAG: usize = 4;

/// Options of a [`UnixPort`]. Both ends should have the same MTU.
#[derive(Clone, Debug)]
pub struct UnixOptions {
    /// Maximum packet length in bytes, without the Ethernet header; longer received frames are dropped and
    /// counted.
    pub mtu: usize,
    /// Send buffer size in bytes; the system default if `None`.
    pub buffer: Option<usize>,
    /// Hardware address returned by [`Port::mac`].
    pub mac: Address,
}

impl Default for UnixOptions {
    fn default() -> UnixOptions {
        UnixOptions { mtu: 1500, buffer: None, mac: Address::default() }
    }
}

/// UNIX sequential-packet or datagram socket; each message is a frame.
#[derive(Debug)]
pub struct UnixPort {
    name: String,
    socket: OwnedFd,
    options: UnixOptions,
    /// [`BATCH`] slots for received frames.
    incoming: Box<[u8]>,
    outgoing: Outgoing,
    counters: Counters,
    closed: bool,
}

impl UnixPort {
    /// Creates two connected ports.
    pub fn pair(name: &str, options: &UnixOptions) -> Result<(UnixPort, UnixPort)> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let (a, b) = rustix::net::socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)
            .map_err(|e| Error::system(format!("making the socket pair '{name}'"), e))?;
        let port = |end: &str, socket| UnixPort::from_socket(&format!("{name}.{end}"), socket, options);
        Ok((port("0", a)?, port("1", b)?))
    }

    /// Creates a port of a connected socket, such as an inherited one.
    pub fn from_socket(name: &str, socket: OwnedFd, options: &UnixOptions) -> Result<UnixPort> {
        let invalid = |what: String| Error::Invalid { name: name.to_string(), what };
        let failed = |e| Error::system(format!("setting up the socket of '{name}'"), e);
        if !(1..=1 << 16).contains(&options.mtu) {
            return Err(invalid(format!("an MTU of {} bytes: use 1 to 65536", options.mtu)));
        }
        let domain = sockopt::socket_domain(&socket).map_err(failed)?;
        let kind = sockopt::socket_type(&socket).map_err(failed)?;
        if domain != AddressFamily::UNIX || !matches!(kind, SocketType::SEQPACKET | SocketType::DGRAM) {
            return Err(invalid("the descriptor is no UNIX socket of type SEQPACKET or DGRAM".to_string()));
        }
        rustix::io::ioctl_fionbio(&socket, true).map_err(failed)?;
        if let Some(bytes) = options.buffer {
            // Messages are charged to the sender's buffer.
            sockopt::set_socket_send_buffer_size_force(&socket, bytes)
                .or_else(|_| sockopt::set_socket_send_buffer_size(&socket, bytes))
                .map_err(failed)?;
        }
        let max_frame = options.mtu + MIN_FRAME + VLAN_TAG;
        Ok(UnixPort {
            name: name.to_string(),
            socket,
            options: options.clone(),
            incoming: vec![0; BATCH * max_frame].into_boxed_slice(),
            outgoing: Outgoing::new(0, max_frame),
            counters: Counters::default(),
            closed: false,
        })
    }

    /// Connects to a [`UnixListener`] at `path`.
    pub fn connect(path: &Path, options: &UnixOptions) -> Result<UnixPort> {
        let shown = path.display().to_string();
        let failed = |e| Error::system(format!("connecting to the socket '{shown}'"), e);
        let socket = socket().map_err(failed)?;
        at(path, |address| rustix::net::connect(&socket, address)).map_err(failed)?;
        UnixPort::from_socket(&shown, socket, options)
    }

    fn max_frame(&self) -> usize {
        self.options.mtu + MIN_FRAME + VLAN_TAG
    }

    /// Classifies an error of the socket.
    fn failed<T>(&mut self, doing: &str, e: IoError) -> Result<T> {
        match e.raw_os_error() {
            Some(libc::EPIPE | libc::ECONNRESET | libc::ECONNREFUSED | libc::ENOTCONN) => self.close(),
            _ => Err(Error::system(format!("{doing} on '{}'", self.name), e)),
        }
    }

    fn close<T>(&mut self) -> Result<T> {
        self.closed = true;
        Err(Error::PeerClosed { name: self.name.clone() })
    }

    fn is_hung_up(&self) -> bool {
        let mut fds = [PollFd::new(&self.socket, PollFlags::RDHUP)];
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        poll(&mut fds, Some(&now)).is_ok() && fds[0].revents().intersects(PollFlags::RDHUP | PollFlags::HUP)
    }

    /// Receives up to `limit` messages. Returns their lengths and truncation flags.
    fn receive_batch(&mut self, limit: usize) -> std::io::Result<([(usize, bool); BATCH], usize)> {
        let n = limit.min(BATCH);
        let slot_len = self.max_frame();
        let mut parts = [const { MaybeUninit::<libc::iovec>::uninit() }; BATCH];
        let mut messages = [const { MaybeUninit::<libc::mmsghdr>::uninit() }; BATCH];
        for (i, slot) in self.incoming.chunks_exact_mut(slot_len).take(n).enumerate() {
            let part =
                parts[i].write(libc::iovec { iov_base: slot.as_mut_ptr().cast(), iov_len: slot.len() });
            let message = messages[i].write(
                // SAFETY: zero bytes are a message without name, parts and control data.
                unsafe { MaybeUninit::zeroed().assume_init() },
            );
            message.msg_hdr.msg_iov = part;
            message.msg_hdr.msg_iovlen = 1;
        }
        // SAFETY: the first n messages are initialised and point to slots that live through the call.
        let received = unsafe {
            libc::recvmmsg(
                self.socket.as_raw_fd(),
                messages.as_mut_ptr().cast(),
                n as u32,
                libc::MSG_DONTWAIT as _,
                std::ptr::null_mut(),
            )
        };
        if received < 0 {
            return Err(IoError::last_os_error());
        }
        let mut results = [(0, false); BATCH];
        for (result, message) in results.iter_mut().zip(&messages).take(received as usize) {
            // SAFETY: it is among the first n, which are initialised.
            let message = unsafe { message.assume_init_ref() };
            *result = (message.msg_len as usize, message.msg_hdr.msg_flags & libc::MSG_TRUNC != 0);
        }
        Ok((results, received as usize))
    }
}

impl Port for UnixPort {
    fn name(&self) -> &str {
        &self.name
    }
    fn mac(&self) -> Address {
        self.options.mac
    }
    fn mtu(&self) -> usize {
        self.options.mtu
    }
    fn fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    fn receive(&mut self, limit: usize, each: &mut dyn FnMut(Frame<'_>)) -> Result<usize> {
        let mut received = 0;
        while received < limit && !self.closed {
            let (messages, n) = match self.receive_batch(limit - received) {
                Ok(batch) => batch,
                Err(e) => match e.raw_os_error() {
                    Some(libc::EINTR) => continue,
                    Some(libc::EAGAIN) => break,
                    _ if received > 0 => break,
                    _ => return self.failed("receiving", e),
                },
            };
            // A closed connection reads as an endless sequence of empty messages.
            if messages[..n].iter().all(|m| m.0 == 0) && self.is_hung_up() {
                self.closed = true;
                break;
            }
            let slot_len = self.max_frame();
            for (slot, (len, cut)) in self.incoming.chunks_exact(slot_len).zip(&messages[..n]) {
                if *cut || *len < MIN_FRAME {
                    self.counters.dropped_port += 1;
                    continue;
                }
                self.counters.received.add(*len);
                self.counters.packets += 1;
                each(Frame { bytes: &slot[..*len], time: None });
                received += 1;
            }
            if n < BATCH {
                break;
            }
        }
        if received == 0 && self.closed {
            return self.close();
        }
        Ok(received)
    }

    fn send(&mut self, frame: &[u8]) -> Result<Sent> {
        if self.closed {
            return self.close();
        }
        check_frame(&self.name, frame, self.options.mtu)?;
        if self.outgoing.is_full() && !self.flush()? && self.outgoing.is_full() {
            self.counters.refused += 1;
            return Ok(Sent::Full);
        }
        self.outgoing.push(frame);
        Ok(Sent::Queued)
    }

    fn flush(&mut self) -> Result<bool> {
        match self.outgoing.flush(self.socket.as_fd(), &mut self.counters) {
            Ok(empty) => Ok(empty),
            Err(e) => self.failed("sending", e),
        }
    }

    fn counters(&mut self) -> Counters {
        self.counters
    }

    fn finish(&mut self) -> Remainder {
        Remainder { unsent: self.outgoing.len() as u64, ..Remainder::default() }
    }
}

/// Listening socket with a socket file, which is removed on drop.
#[derive(Debug)]
pub struct UnixListener {
    path: PathBuf,
    socket: OwnedFd,
}

impl UnixListener {
    /// Creates a socket file at `path`; an existing file is an error.
    pub fn bind(path: &Path) -> Result<UnixListener> {
        let shown = path.display();
        let failed = |e: IoError| match e.kind() {
            ErrorKind::AddrInUse => Error::Invalid {
                name: shown.to_string(),
                what: "the file exists: remove it, or choose another path".to_string(),
            },
            _ => Error::system(format!("making the socket '{shown}'"), e),
        };
        let socket = socket().map_err(failed)?;
        at(path, |address| rustix::net::bind(&socket, address)).map_err(failed)?;
        let listener = UnixListener { path: path.to_path_buf(), socket };
        rustix::net::listen(&listener.socket, 16).map_err(|e| failed(e.into()))?;
        Ok(listener)
    }

    /// Accepts a pending connection, if any.
    pub fn accept(&self, options: &UnixOptions) -> Result<Option<UnixPort>> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let shown = self.path.display().to_string();
        match rustix::net::accept_with(&self.socket, flags) {
            Ok(socket) => UnixPort::from_socket(&shown, socket, options).map(Some),
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR | rustix::io::Errno::CONNABORTED) => {
                Ok(None)
            }
            Err(e) => Err(Error::system(format!("accepting a peer at '{shown}'"), e)),
        }
    }

    /// Descriptor to poll: readable when a connection is pending.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Drop for UnixListener {
    fn drop(&mut self) {
        // The file may have been removed already.
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Runs `call` with the socket address of `path`, which may exceed the length limit of socket addresses.
fn at(path: &Path, call: impl FnOnce(&SocketAddrUnix) -> rustix::io::Result<()>) -> std::io::Result<()> {
    with_socket_path(path, |path| Ok(call(&SocketAddrUnix::new(path)?)?))
}

fn socket() -> std::io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    Ok(rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?)
}
