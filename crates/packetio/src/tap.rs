//! TAP interfaces, whose far side is the kernel's stack or a bridge.

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
/// Buffer size for the longest frame: 64 KiB of packet with headers.
const LONGEST: usize = (1 << 16) + 256;

/// Options of a [`Tap`].
#[derive(Clone, Debug)]
pub struct TapOptions {
    /// Hardware address of the kernel's side; random if `None`.
    pub mac: Option<Address>,
    /// MTU of the kernel's side; 1500 if `None`.
    pub mtu: Option<usize>,
    /// IPv4 address of the kernel's side and its prefix length.
    pub address: Option<(Ipv4Addr, u8)>,
    /// Set the interface up.
    pub up: bool,
    /// Keep the interface when the port is dropped.
    pub persistent: bool,
    /// Multi-queue interface: several ports may attach, and the kernel distributes flows among them.
    pub multi_queue: bool,
    /// Receive large TCP segments from the kernel and segment them in the port: one system call instead of
    /// one per segment.
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

/// TAP interface: frames that the kernel sends on the interface are received by the port, and frames sent by
/// the port are received by the kernel.
///
/// The interface is deleted with its last attached port, unless it is persistent.
#[derive(Debug)]
pub struct Tap {
    interface: Interface,
    file: File,
    /// Buffer for a virtio-net header and a frame.
    buffer: Box<[u8]>,
    finisher: Finisher,
    counters: Counters,
    gone: bool,
}

impl Tap {
    /// Creates the interface `name` in the calling thread's network namespace.
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

    /// Attaches to the interface `name` if it exists, otherwise creates it.
    pub fn attach_or_create(name: &str, options: &TapOptions) -> Result<Tap> {
        check_name(name)?;
        if exists(name)? { Tap::attach(name, options) } else { Tap::create(name, options) }
    }

    /// Attaches to the existing TAP interface `name`, which is persistent or multi-queue. `multi_queue` must
    /// equal the option used at its creation; `mac`, `mtu`, `address`, `up` and `persistent` are ignored.
    pub fn attach(name: &str, options: &TapOptions) -> Result<Tap> {
        check_name(name)?;
        if !exists(name)? {
            return Err(Error::NoInterface { name: name.to_string() });
        }
        Tap::open(name, options, false)
    }

    /// Sets whether the interface remains when its last port is dropped.
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
                // Received frames are reported first; the error recurs on the next call.
                Err(_) if received > 0 => break,
                Err(e) => return self.failed("receiving", e),
            };
            let buffer = &mut self.buffer[..len];
            match self.finisher.finish(buffer, None, None, &mut self.counters.received, each) {
                Ok(frames) => {
                    self.counters.packets += 1;
                    received += frames;
                }
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
                Err(e) => self.failed("sending", e),
            };
        }
    }

    /// Frames are not queued: each is sent by a system call of its own.
    fn flush(&mut self) -> Result<bool> {
        Ok(true)
    }

    /// Kernel drops in the transmit queue of the interface are not visible to the port; see `ip -s link`.
    fn counters(&mut self) -> Counters {
        self.counters
    }
}
