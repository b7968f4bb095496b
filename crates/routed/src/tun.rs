//! TUN interfaces, over which the kernel passes packets to and from this process.

use crate::error::{Doing, Error};
use crate::netlink::{Netlink, links};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use tappers::{Interface, Tun as Device};

/// A TUN interface. The kernel removes it when its last descriptor is closed.
#[derive(Debug)]
pub struct Tun(OwnedFd);

impl Tun {
    /// Creates an interface and brings it up.
    pub fn open(name: &str) -> Result<Tun, Error> {
        let failed = |error: io::Error| match error.kind() {
            io::ErrorKind::PermissionDenied => Error::Permission {
                doing: format!("make the TUN interface '{name}'"),
                capability: "CAP_NET_ADMIN",
            },
            _ => {
                Error::Io { doing: format!("make the TUN interface '{name}' by /dev/net/tun"), source: error }
            }
        };
        let mut device = Interface::new(name).and_then(Device::new_named).map_err(failed)?;
        device.set_nonblocking(true).and_then(|()| device.set_up()).map_err(failed)?;
        device.as_fd().try_clone_to_owned().map(Tun).map_err(failed)
    }

    /// The interface behind a descriptor that was created elsewhere.
    pub fn from_fd(fd: OwnedFd) -> Tun {
        Tun(fd)
    }

    pub fn into_fd(self) -> OwnedFd {
        self.0
    }

    pub fn fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }

    /// The next IPv4 packet from the kernel. IPv6 control traffic, which the kernel sends to every interface,
    /// is skipped.
    pub fn receive(&self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        loop {
            match nix::unistd::read(&self.0, buffer) {
                Ok(len) if len > 0 && buffer[0] >> 4 == 4 => return Ok(Some(len)),
                Ok(_) => {}
                Err(nix::errno::Errno::EAGAIN) => return Ok(None),
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Passes a packet to the kernel, as if it had arrived over the interface.
    pub fn send(&self, packet: &[u8]) -> io::Result<()> {
        nix::unistd::write(&self.0, packet).map(|_| ()).map_err(io::Error::from)
    }
}

/// The index of an interface by its name.
pub fn index_of(name: &str) -> Result<u32, Error> {
    let all =
        Netlink::open().and_then(|mut netlink| links(&mut netlink)).doing("read the list of interfaces")?;
    let index = all.iter().find(|link| link.name == name).map(|link| link.index);
    index.ok_or_else(|| Error::NoInterface(name.to_owned()))
}
