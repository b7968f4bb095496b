//! TAP interfaces: the kernel's stack, or a bridge, at the far side.

use crate::interface::{Interface, ROOT, check_name, exists};
use crate::offload::{Finisher, VNET_LEN};
use crate::{Counters, Error, Frame, Port, Result, Sent, sys};
use belljar_wire::ethernet::Address;
use libc::c_ulong;
use std::fs::{File, OpenOptions};
use std::io::{IoSlice, Read, Write};
use std::net::Ipv4Addr;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::OpenOptionsExt;

const DEVICE: &str = "/dev/net/tun";
/// Room for the longest frame: 64 KiB of packet with headers.
const LONGEST: usize = (1 << 16) + 256;

/// Options of a [`Tap`].
#[derive(Clone, Debug)]
pub struct TapOptions {
    /// Hardware address of the kernel's side; random if none.
    pub mac: Option<Address>,
    /// MTU of the kernel's side; 1500 if none.
    pub mtu: Option<usize>,
    /// IPv4 address of the kernel's side and the length of its prefix.
    pub address: Option<(Ipv4Addr, u8)>,
    /// Bring the interface up.
    pub up: bool,
    /// Leave the interface behind when the port is dropped.
    pub persistent: bool,
    /// Several ports may attach to the interface; the kernel shares out flows among them.
    pub multi_queue: bool,
    /// Take large TCP segments from the kernel and cut them here: one system call instead of one per segment.
    pub large_segments: bool,
}

impl Default for TapOptions {
    fn default() -> TapOptions {
        TapOptions {
            mac: None,
            mtu: None,
            address: None,
            up: true,
            persistent: false,
            multi_queue: false,
            large_segments: false,
        }
    }
}

/// A TAP interface: a frame that the kernel sends through the interface is received here, and a frame sent here is
/// received by the kernel.
///
/// The interface ends with the last port that is attached to it, unless it is persistent.
#[derive(Debug)]
pub struct Tap {
    interface: Interface,
    file: File,
    /// A virtio-net header and a frame.
    buffer: Box<[u8]>,
    finisher: Finisher,
    counters: Counters,
    gone: bool,
}

impl Tap {
    /// Makes the interface `name` in the calling thread's network namespace.
    pub fn create(name: &str, options: &TapOptions) -> Result<Tap> {
        check_name(name)?;
        if exists(name)? {
            return Err(Error::NameInUse { name: name.to_string() });
        }
        let mut tap = Tap::open(name, options, true)?;
        if let Some(mac) = options.mac {
            tap.interface.set_mac(mac)?;
        }
        if let Some(mtu) = options.mtu {
            tap.interface.set_mtu(mtu)?;
        }
        if let Some((address, prefix)) = options.address {
            tap.interface.set_address(address, prefix)?;
        }
        if options.up {
            tap.interface.set_up()?;
        }
        if options.persistent {
            tap.set_persistent(true)?;
        }
        Ok(tap)
    }

    /// [`attach`](Self::attach) if there is an interface `name`, [`create`](Self::create) otherwise.
    pub fn attach_or_create(name: &str, options: &TapOptions) -> Result<Tap> {
        check_name(name)?;
        if exists(name)? { Tap::attach(name, options) } else { Tap::create(name, options) }
    }

    /// Attaches to the TAP interface `name`, which exists: one that is persistent, or one with several queues.
    /// `multi_queue` must be as it was when the interface was made; `mac`, `mtu`, `address`, `up` and `persistent` are left as
    /// they are.
    pub fn attach(name: &str, options: &TapOptions) -> Result<Tap> {
        check_name(name)?;
        if !exists(name)? {
            return Err(Error::NoInterface { name: name.to_string() });
        }
        Tap::open(name, options, false)
    }

    /// Chooses whether the interface stays when its last port is dropped.
    pub fn set_persistent(&mut self, persistent: bool) -> Result<()> {
        sys::ioctl_value(self.file.as_fd(), libc::TUNSETPERSIST, c_ulong::from(persistent)).map_err(|e| {
            Error::system(format!("changing the persistence of TAP '{}'", self.interface.name()), e)
        })
    }

    fn open(name: &str, options: &TapOptions, exclusive: bool) -> Result<Tap> {
        let file =
            OpenOptions::new().read(true).write(true).custom_flags(libc::O_NONBLOCK).open(DEVICE).map_err(
                |e| match e.raw_os_error() {
                    Some(libc::ENOENT | libc::ENODEV | libc::ENXIO) => Error::Unsupported {
                        name: name.to_string(),
                        what: format!("{DEVICE} is missing: load the module (`modprobe tun`), or give the device to the container"),
                    },
                    _ => Error::privileged(format!("opening {DEVICE} for '{name}'"), "CAP_NET_ADMIN", ROOT, e),
                },
            )?;
        let mut request = sys::interface_request(name);
        let mut flags = libc::IFF_TAP | libc::IFF_NO_PI | libc::IFF_VNET_HDR;
        if exclusive && !options.multi_queue {
            flags |= libc::IFF_TUN_EXCL;
        }
        if options.multi_queue {
            flags |= libc::IFF_MULTI_QUEUE;
        }
        request.ifr_ifru.ifru_flags = flags as i16;
        sys::interface_ioctl(file.as_fd(), c_ulong::from(libc::TUNSETIFF), &mut request).map_err(|e| match e
            .raw_os_error()
        {
            Some(libc::EBUSY) if exclusive => Error::NameInUse { name: name.to_string() },
            Some(libc::EBUSY) => Error::Busy {
                name: name.to_string(),
                why: "another process is attached to this TAP: end it, or make the TAP with several queues"
                    .to_string(),
            },
            Some(libc::EINVAL) => Error::Invalid {
                name: name.to_string(),
                what: "is no TAP interface, or one whose number of queues (one, or several) is not the one asked for"
                    .to_string(),
            },
            _ => Error::privileged(format!("opening TAP '{name}'"), "CAP_NET_ADMIN", ROOT, e),
        })?;
        let offload = if options.large_segments {
            libc::TUN_F_CSUM | libc::TUN_F_TSO4 | libc::TUN_F_TSO6 | libc::TUN_F_TSO_ECN
        } else {
            libc::TUN_F_CSUM
        };
        sys::ioctl_value(file.as_fd(), libc::TUNSETOFFLOAD, c_ulong::from(offload))
            .map_err(|e| Error::system(format!("choosing the offloads of TAP '{name}'"), e))?;
        let interface = Interface::open(name)?;
        let buffer = vec![0; VNET_LEN + LONGEST].into_boxed_slice();
        let finisher = Finisher::default();
        Ok(Tap { interface, file, buffer, finisher, counters: Counters::default(), gone: false })
    }

    fn failed<T>(&mut self, doing: &str, source: std::io::Error) -> Result<T> {
        let error = self.interface.failed(doing, source);
        self.gone |= error.is_fatal();
        Err(error)
    }

    fn check_gone(&self) -> Result<()> {
        if self.gone { Err(Error::Gone { name: self.interface.name().to_string() }) } else { Ok(()) }
    }
}

impl Port for Tap {
    fn name(&self) -> &str {
        self.interface.name()
    }
    fn mac(&self) -> Address {
        self.interface.mac()
    }
    fn mtu(&self) -> usize {
        self.interface.mtu()
    }
    fn fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    fn receive(&mut self, limit: usize, each: &mut dyn FnMut(Frame<'_>)) -> Result<usize> {
        self.check_gone()?;
        let mut received = 0;
        while received < limit {
            let len = match (&self.file).read(&mut self.buffer) {
                Ok(len) => len,
                Err(e) if e.kind() == std::io::ErrorKind::WouldBlock => break,
                Err(e) if e.kind() == std::io::ErrorKind::Interrupted => continue,
                // What was received is reported first; the next call meets the error again.
                Err(_) if received > 0 => break,
                Err(e) => return self.failed("receiving", e),
            };
            let buffer = &mut self.buffer[..len];
            match self.finisher.finish(buffer, None, None, &mut self.counters.received, each) {
                Ok(frames) => received += frames,
                Err(_) => self.counters.dropped_port += 1,
            }
        }
        Ok(received)
    }

    fn send(&mut self, frame: &[u8]) -> Result<Sent> {
        self.check_gone()?;
        self.interface.check_frame(frame)?;
        loop {
            let parts = [IoSlice::new(&[0; VNET_LEN]), IoSlice::new(frame)];
            return match (&self.file).write_vectored(&parts) {
                Ok(_) => {
                    self.counters.sent.add(frame.len());
                    Ok(Sent::Queued)
                }
                Err(e) if e.kind() == std::io::ErrorKind::WouldBlock => {
                    self.counters.refused += 1;
                    Ok(Sent::Full)
                }
                Err(e) if e.kind() == std::io::ErrorKind::Interrupted => continue,
                Err(e) => {
                    self.counters.failed += 1;
                    self.failed("sending", e)
                }
            };
        }
    }

    /// Frames do not wait: each is a system call of its own.
    fn flush(&mut self) -> Result<bool> {
        Ok(true)
    }

    /// The kernel's drops are those of the interface's transmit queue, which `ip -s link` shows: the port cannot see
    /// them.
    fn counters(&mut self) -> Counters {
        self.counters
    }
}
