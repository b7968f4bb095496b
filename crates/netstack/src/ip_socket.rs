//! State shared by raw and ping sockets, raw(7) and icmp(7): peer, receive queue with its charge, shutdown
//! state and errors.

use super::error_queue::{ErrorQueue, ErrorReport, QueuedError};
use super::ip::IpOptions;
use super::send_charge::SendCharge;
use super::socket::{Socket, SocketKind};
use belljar_base::SimTime;
use belljar_linux_abi::Errno;
use std::collections::VecDeque;
use std::net::IpAddr;

/// State of a raw or ping socket that is independent of its protocol.
#[derive(Debug, Default)]
pub struct IpSocket {
    /// The peer, if the socket is connected.
    pub peer: Option<IpAddr>,
    /// Socket options of the levels IPPROTO_IP and IPPROTO_IPV6.
    pub ip: IpOptions,
    /// The error queue (`MSG_ERRQUEUE`).
    pub(crate) errors: ErrorQueue,
    /// The receive queue.
    pub queue: VecDeque<IpMessage>,
    /// Charge of queued messages and errors against `SO_RCVBUF`, in bytes.
    pub queued_charge: u32,
    /// Packets in the queues of interfaces.
    pub sending: SendCharge,
    /// True after `shutdown(SHUT_RD)`.
    pub read_closed: bool,
    /// True after `shutdown(SHUT_WR)`.
    pub write_closed: bool,
}

/// A received message of a raw or ping socket.
#[derive(Debug)]
pub struct IpMessage {
    /// The part of the packet that the socket receives.
    pub bytes: Vec<u8>,
    /// Source address.
    pub source: IpAddr,
    /// Destination address.
    pub destination: IpAddr,
    /// The local address: for a multicast or broadcast destination the interface's own.
    pub own: IpAddr,
    /// The number of the input interface.
    pub interface: usize,
    /// TTL or hop limit.
    pub ttl: u8,
    /// Type of service or traffic class.
    pub tos: u8,
    /// Time of arrival.
    pub arrived: SimTime,
    /// Timestamp by the adapter's clock, or 0.
    pub hardware: i64,
}

impl IpSocket {
    /// Charge of the receive queue against the receive buffer, in bytes.
    pub fn queued_bytes(&self) -> usize {
        self.queued_charge as usize
    }

    /// True if the program has shut down the sending direction.
    pub fn is_write_closed(&self) -> bool {
        self.write_closed
    }

    /// Queues an error; `room` is the size of the receive buffer.
    pub fn push_error(&mut self, error: QueuedError, room: u32) {
        self.errors.push(error, &mut self.queued_charge, room);
    }
    /// Removes the oldest error. Returns it with the errno of the next one.
    pub fn pop_error(&mut self) -> Option<(ErrorReport, Option<Errno>)> {
        self.errors.pop(&mut self.queued_charge)
    }

    /// The shared state of a raw or ping socket; `None` for other sockets.
    pub fn of(socket: &Socket) -> Option<&IpSocket> {
        match &socket.kind {
            SocketKind::Raw(raw) => Some(&raw.end),
            SocketKind::Ping(ping) => Some(&ping.end),
            _ => None,
        }
    }
}
