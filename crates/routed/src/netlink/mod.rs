//! rtnetlink: interfaces, routes, and notifications of changes.

mod links;
mod monitor;
mod neighbors;
mod routes;

pub use links::{Link, addresses, links};
pub use monitor::{Monitor, News};
pub use neighbors::{Neighbor, neighbors};
pub use routes::{Kernel, KernelRoute, RouteRequest, routes};

use netlink_packet_core::{
    NLM_F_ACK, NLM_F_DUMP, NLM_F_REQUEST, NetlinkHeader, NetlinkMessage, NetlinkPayload,
};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_sys::protocols::NETLINK_ROUTE;
use netlink_sys::{Socket, SocketAddr};
use std::io;

/// A netlink socket for requests.
pub struct Netlink {
    socket: Socket,
    sequence: u32,
}

impl Netlink {
    pub fn open() -> io::Result<Netlink> {
        let mut socket = Socket::new(NETLINK_ROUTE)?;
        socket.bind_auto()?;
        socket.connect(&SocketAddr::new(0, 0))?;
        Ok(Netlink { socket, sequence: 0 })
    }

    /// Makes several changes by one call, in order, each with its flags. Returns the errors of refused ones
    /// with their indices.
    pub fn change_all(
        &mut self,
        changes: impl IntoIterator<Item = (RouteNetlinkMessage, u16)>,
    ) -> io::Result<Vec<(usize, io::Error)>> {
        let mut bytes = Vec::new();
        let first = self.sequence.wrapping_add(1);
        let mut changes = changes.into_iter().peekable();
        while let Some((message, flags)) = changes.next() {
            // The kernel acknowledges each failure, and the last change.
            let last = if changes.peek().is_none() { NLM_F_ACK } else { 0 };
            self.append(&mut bytes, message, NLM_F_REQUEST | last | flags);
        }
        let mut refused = Vec::new();
        if bytes.is_empty() {
            return Ok(refused);
        }
        self.socket.send(&bytes, 0)?;
        loop {
            let (bytes, _) = self.socket.recv_from_full()?;
            for message in messages(&bytes) {
                let NetlinkPayload::Error(error) = message.payload else { continue };
                let sequence = message.header.sequence_number;
                let place = sequence.wrapping_sub(first);
                if place > self.sequence.wrapping_sub(first) {
                    continue;
                }
                if error.code.is_some() {
                    refused.push((place as usize, error.to_io()));
                }
                if sequence == self.sequence {
                    return Ok(refused);
                }
            }
        }
    }

    /// Requests all objects of a kind.
    pub fn dump(&mut self, message: RouteNetlinkMessage) -> io::Result<Vec<RouteNetlinkMessage>> {
        self.send(message, NLM_F_REQUEST | NLM_F_DUMP)?;
        self.answers()
    }

    fn send(&mut self, message: RouteNetlinkMessage, flags: u16) -> io::Result<()> {
        let mut bytes = Vec::new();
        self.append(&mut bytes, message, flags);
        self.socket.send(&bytes, 0).map(|_| ())
    }

    /// Appends the next request.
    fn append(&mut self, bytes: &mut Vec<u8>, message: RouteNetlinkMessage, flags: u16) {
        self.sequence = self.sequence.wrapping_add(1);
        let mut header = NetlinkHeader::default();
        (header.flags, header.sequence_number) = (flags, self.sequence);
        let mut message = NetlinkMessage::new(header, NetlinkPayload::from(message));
        message.finalize();
        let at = bytes.len().next_multiple_of(4);
        bytes.resize(at + message.buffer_len(), 0);
        message.serialize(&mut bytes[at..]);
    }

    /// The replies to the last request, up to its end or error.
    fn answers(&mut self) -> io::Result<Vec<RouteNetlinkMessage>> {
        let mut out = Vec::new();
        loop {
            let (bytes, _) = self.socket.recv_from_full()?;
            for message in messages(&bytes) {
                if message.header.sequence_number != self.sequence {
                    continue;
                }
                match message.payload {
                    NetlinkPayload::Done(_) => return Ok(out),
                    NetlinkPayload::Error(error) => {
                        return if error.code.is_none() { Ok(out) } else { Err(error.to_io()) };
                    }
                    NetlinkPayload::InnerMessage(inner) => out.push(inner),
                    _ => {}
                }
            }
        }
    }
}

/// The messages of a datagram. Messages that cannot be parsed are skipped: kernels newer than the library
/// have more kinds of them.
fn messages(bytes: &[u8]) -> Vec<NetlinkMessage<RouteNetlinkMessage>> {
    let mut out = Vec::new();
    let mut rest = bytes;
    while rest.len() >= 16 {
        let len = u32::from_ne_bytes([rest[0], rest[1], rest[2], rest[3]]) as usize;
        if !(16..=rest.len()).contains(&len) {
            break;
        }
        out.extend(NetlinkMessage::deserialize(&rest[..len]));
        rest = &rest[len.next_multiple_of(4).min(rest.len())..];
    }
    out
}
