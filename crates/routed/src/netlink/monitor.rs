//! The kernel's notifications of changed interfaces, addresses and neighbours.

use super::messages;
use netlink_packet_core::NetlinkPayload;
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::neighbour::{
    NeighbourAddress, NeighbourAttribute, NeighbourMessage, NeighbourState,
};
use netlink_sys::protocols::NETLINK_ROUTE;
use netlink_sys::{Socket, SocketAddr};
use std::io;
use std::net::Ipv4Addr;
use std::os::fd::{AsFd, BorrowedFd};

/// `RTMGRP_LINK`, `RTMGRP_NEIGH` and `RTMGRP_IPV4_IFADDR`.
const GROUPS: u32 = 0x1 | 0x4 | 0x10;
/// `RTMGRP_IPV4_ROUTE`.
const ROUTES: u32 = 0x40;

/// A notification.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum News {
    /// Interfaces or addresses have changed.
    Links,
    /// ARP failed for a neighbour.
    NeighborFailed { interface: u32, address: Ipv4Addr },
}

/// A netlink socket that receives notifications.
pub struct Monitor(Socket);

impl Monitor {
    pub fn open() -> io::Result<Monitor> {
        Monitor::of(GROUPS)
    }
    /// A monitor that is also woken by changes of routes.
    pub fn open_with_routes() -> io::Result<Monitor> {
        Monitor::of(GROUPS | ROUTES)
    }
    fn of(groups: u32) -> io::Result<Monitor> {
        let mut socket = Socket::new(NETLINK_ROUTE)?;
        socket.bind(&SocketAddr::new(0, groups))?;
        socket.set_non_blocking(true)?;
        Ok(Monitor(socket))
    }
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
    /// The queued notifications.
    pub fn take(&self) -> io::Result<Vec<News>> {
        let mut out = Vec::new();
        loop {
            let bytes = match self.0.recv_from_full() {
                Ok((bytes, _)) => bytes,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(out),
                // Notifications were lost to a buffer overflow: read the whole state again.
                Err(error) if error.raw_os_error() == Some(nix::errno::Errno::ENOBUFS as i32) => {
                    out.push(News::Links);
                    continue;
                }
                Err(error) => return Err(error),
            };
            for message in messages(&bytes) {
                let NetlinkPayload::InnerMessage(inner) = message.payload else { continue };
                match inner {
                    RouteNetlinkMessage::NewNeighbour(neighbour) => out.extend(failed(&neighbour)),
                    RouteNetlinkMessage::NewLink(_)
                    | RouteNetlinkMessage::DelLink(_)
                    | RouteNetlinkMessage::NewAddress(_)
                    | RouteNetlinkMessage::DelAddress(_) => out.push(News::Links),
                    _ => {}
                }
            }
        }
    }
}

fn failed(neighbour: &NeighbourMessage) -> Option<News> {
    let address = neighbour.attributes.iter().find_map(|attribute| match attribute {
        NeighbourAttribute::Destination(NeighbourAddress::Inet(address)) => Some(*address),
        _ => None,
    })?;
    (neighbour.header.state == NeighbourState::Failed)
        .then_some(News::NeighborFailed { interface: neighbour.header.ifindex, address })
}
