//! The protocol's UDP socket. One serves all interfaces: control messages tell, and say, by which one a packet goes.

use crate::error::{Doing, Error};
use belljar_routing::Transmit;
use nix::cmsg_space;
use nix::errno::Errno;
use nix::libc::{in_addr, in_pktinfo};
use nix::sys::socket::{
    AddressFamily, ControlMessage, ControlMessageOwned, MsgFlags, MultiHeaders, SockFlag, SockType,
    SockaddrIn, bind, recvmmsg, sendmsg, setsockopt, socket, sockopt,
};
use std::cell::Cell;
use std::io::{self, IoSlice, IoSliceMut};
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

/// A datagram that came.
pub struct Datagram {
    pub interface: u32,
    pub source: Ipv4Addr,
    pub ttl: u8,
}

/// Room for datagrams that are received at once.
pub struct Room([Vec<u8>; Room::DATAGRAMS]);

impl Room {
    const DATAGRAMS: usize = 4;

    /// Room for the longest datagrams.
    pub fn new() -> Room {
        Room(std::array::from_fn(|_| vec![0; 65_536]))
    }
}

/// The protocol's UDP socket.
pub struct PortSocket {
    fd: OwnedFd,
    port: u16,
    /// The TTL of what it sends, if it is known: it is set when it changes.
    ttl: Cell<Option<u8>>,
}

/// Opens a UDP socket for a protocol.
pub fn bind_port(port: u16) -> Result<OwnedFd, Error> {
    let flags = SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC;
    let fd = socket(AddressFamily::Inet, SockType::Datagram, flags, None).doing("make a UDP socket")?;
    setsockopt(&fd, sockopt::Broadcast, &true).doing("allow broadcasts")?;
    setsockopt(&fd, sockopt::Ipv4RecvTtl, &true).doing("ask for the TTL of packets")?;
    setsockopt(&fd, sockopt::Ipv4PacketInfo, &true).doing("ask for the interface of packets")?;
    // Without SO_REUSEADDR, so that a second daemon is refused.
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
    /// A socket that [`bind_port`] has opened, here or elsewhere.
    pub fn new(fd: OwnedFd, port: u16) -> PortSocket {
        PortSocket { fd, port, ttl: Cell::new(None) }
    }

    pub fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// Receives the datagrams that wait, as far as there is room, and gives each with its payload to `take`. True if more may
    /// wait.
    pub fn receive(&self, room: &mut Room, mut take: impl FnMut(Datagram, &[u8])) -> io::Result<bool> {
        // One call, which says by their number that no more wait.
        let mut slices = room.0.each_mut().map(|buffer| [IoSliceMut::new(buffer)]);
        let mut headers =
            MultiHeaders::<SockaddrIn>::preallocate(Room::DATAGRAMS, Some(cmsg_space!(i32, in_pktinfo)));
        let got = recvmmsg(self.fd.as_raw_fd(), &mut headers, slices.iter_mut(), MsgFlags::empty(), None);
        let messages = match got {
            Ok(messages) => messages,
            Err(Errno::EAGAIN) => return Ok(false),
            Err(error) => return Err(error.into()),
        };
        let mut count = 0;
        for message in messages {
            count += 1;
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
            take(Datagram { interface, source, ttl }, message.iovs().next().unwrap_or_default());
        }
        Ok(count == Room::DATAGRAMS)
    }

    /// Sends a packet, to all neighbours or to one.
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
