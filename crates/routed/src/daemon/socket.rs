//! UDP socket of the protocol. It serves all interfaces: control messages carry the interface of each packet
//! in both directions.

use crate::error::{Doing, Error};
use belljar_routing::Transmit;
use nix::cmsg_space;
use nix::errno::Errno;
use nix::libc::{in_addr, in_pktinfo};
use nix::sys::socket::{
    AddressFamily, ControlMessage, ControlMessageOwned, MsgFlags, SockFlag, SockType, SockaddrIn, bind,
    recvmsg, sendmsg, setsockopt, socket, sockopt,
};
use std::cell::Cell;
use std::io::{self, IoSlice, IoSliceMut};
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

/// A received datagram.
pub struct Datagram {
    pub interface: u32,
    pub source: Ipv4Addr,
    pub ttl: u8,
    pub len: usize,
}

/// The protocol's UDP socket.
pub struct PortSocket {
    fd: OwnedFd,
    port: u16,
    /// Current TTL of the socket, if known, so that it is set only when it changes.
    ttl: Cell<Option<u8>>,
}

/// Opens a UDP socket for a protocol.
pub fn bind_port(port: u16) -> Result<OwnedFd, Error> {
    let flags = SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC;
    let fd = socket(AddressFamily::Inet, SockType::Datagram, flags, None).doing("make a UDP socket")?;
    setsockopt(&fd, sockopt::Broadcast, &true).doing("allow broadcasts")?;
    setsockopt(&fd, sockopt::Ipv4RecvTtl, &true).doing("ask for the TTL of packets")?;
    setsockopt(&fd, sockopt::Ipv4PacketInfo, &true).doing("ask for the interface of packets")?;
    // Without SO_REUSEADDR, so that a second daemon fails to start.
    bind(fd.as_raw_fd(), &SockaddrIn::from(SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, port))).map_err(
        |error| match error {
            Errno::EADDRINUSE => Error::PortInUse { port },
            Errno::EACCES => Error::Port { port },
            other => Error::Io { doing: format!("bind UDP port {port}"), source: other.into() },
        },
    )?;
    Ok(fd)
}

impl PortSocket {
    /// A socket opened by [`bind_port`], in this process or another.
    pub fn new(fd: OwnedFd, port: u16) -> PortSocket {
        PortSocket { fd, port, ttl: Cell::new(None) }
    }

    pub fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// The next queued datagram, or `None`.
    pub fn receive(&self, buffer: &mut [u8]) -> io::Result<Option<Datagram>> {
        let mut slices = [IoSliceMut::new(buffer)];
        let mut control = cmsg_space!(i32, in_pktinfo);
        let got =
            recvmsg::<SockaddrIn>(self.fd.as_raw_fd(), &mut slices, Some(&mut control), MsgFlags::empty());
        let message = match got {
            Ok(message) => message,
            Err(Errno::EAGAIN) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let (mut ttl, mut interface) = (255, 0);
        for control in message.cmsgs()? {
            match control {
                ControlMessageOwned::Ipv4Ttl(value) => ttl = u8::try_from(value).unwrap_or(255),
                ControlMessageOwned::Ipv4PacketInfo(info) => {
                    interface = u32::try_from(info.ipi_ifindex).unwrap_or(0)
                }
                _ => {}
            }
        }
        let source = message.address.map_or(Ipv4Addr::UNSPECIFIED, |address| address.ip());
        Ok(Some(Datagram { interface, source, ttl, len: message.bytes }))
    }

    /// Sends a packet to one neighbour or to all.
    pub fn send(&self, packet: &Transmit<Ipv4Addr>) -> io::Result<()> {
        if self.ttl.get() != Some(packet.ttl) {
            setsockopt(&self.fd, sockopt::Ipv4Ttl, &i32::from(packet.ttl))?;
            self.ttl.set(Some(packet.ttl));
        }
        let to = SocketAddrV4::new(packet.destination.unwrap_or(Ipv4Addr::BROADCAST), self.port);
        let any = in_addr { s_addr: 0 };
        let info = in_pktinfo { ipi_ifindex: packet.interface.0 as i32, ipi_spec_dst: any, ipi_addr: any };
        let control = [ControlMessage::Ipv4PacketInfo(&info)];
        let payload = [IoSlice::new(&packet.payload)];
        sendmsg(self.fd.as_raw_fd(), &payload, &control, MsgFlags::empty(), Some(&SockaddrIn::from(to)))?;
        Ok(())
    }
}
