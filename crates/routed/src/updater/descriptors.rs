//! Privileged descriptors, and their transfer to an unprivileged process.

use crate::error::Error;
use crate::tun::Tun;
use nix::errno::Errno;
use nix::sys::socket::{AddressFamily, SockFlag, SockProtocol, SockType, socket};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, sendmsg,
};
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;

/// Length of the longest reply with descriptors.
const LONGEST: usize = 4096;

/// The descriptors that a reactive protocol needs in addition to its UDP port.
#[derive(Debug)]
pub struct Reactive {
    /// TUN interface for packets without a route.
    pub tun: Tun,
    /// Raw socket for released packets.
    pub raw: OwnedFd,
    /// Packet socket (cooked) that captures passing packets.
    pub watch: OwnedFd,
}

impl Reactive {
    /// Opens all three.
    pub fn open(tun: &str) -> Result<Reactive, Error> {
        let flags = SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC;
        let denied = |what: &str, error| match error {
            Errno::EPERM => Error::Permission { doing: format!("open a {what}"), capability: "CAP_NET_RAW" },
            other => Error::Io { doing: format!("open a {what}"), source: other.into() },
        };
        Ok(Reactive {
            tun: Tun::open(tun)?,
            raw: socket(AddressFamily::Inet, SockType::Raw, flags, SockProtocol::Raw)
                .map_err(|error| denied("raw socket", error))?,
            watch: socket(AddressFamily::Packet, SockType::Datagram, flags, SockProtocol::EthAll)
                .map_err(|error| denied("packet socket", error))?,
        })
    }

    /// Assembles descriptors in the order of [`into_fds`](Self::into_fds).
    pub fn from_fds(fds: Vec<OwnedFd>) -> Option<Reactive> {
        let [tun, raw, watch] = <[OwnedFd; 3]>::try_from(fds).ok()?;
        Some(Reactive { tun: Tun::from_fd(tun), raw, watch })
    }

    pub fn into_fds(self) -> Vec<OwnedFd> {
        vec![self.tun.into_fd(), self.raw, self.watch]
    }
}

/// Sends bytes together with descriptors.
pub fn send(stream: &UnixStream, bytes: &[u8], fds: &[OwnedFd]) -> io::Result<()> {
    let borrowed: Vec<_> = fds.iter().map(AsFd::as_fd).collect();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(3))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    control.push(SendAncillaryMessage::ScmRights(&borrowed));
    sendmsg(stream, &[IoSlice::new(bytes)], &mut control, SendFlags::NOSIGNAL)?;
    Ok(())
}

/// Receives the reply to one request, with its descriptors.
pub fn receive(stream: &UnixStream) -> io::Result<(Vec<u8>, Vec<OwnedFd>)> {
    let mut bytes = vec![0; LONGEST];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(3))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut parts = [IoSliceMut::new(&mut bytes)];
    let got = recvmsg(stream, &mut parts, &mut control, RecvFlags::CMSG_CLOEXEC)?;
    let rights = control.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(fds) => Some(fds),
        _ => None,
    });
    let fds = rights.flatten().collect();
    bytes.truncate(got.bytes);
    Ok((bytes, fds))
}
