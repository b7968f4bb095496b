//! Messages between the socket calls and the families, and the result of an attempt at a call.
//!
//! A family never waits: each of its operations is one *attempt*. If an attempt has to wait,
//! `syscall/socket.rs` and `socket_io.rs` decide by `O_NONBLOCK`, `MSG_DONTWAIT` and the socket's time-outs
//! between `EAGAIN` and a blocked call. A blocked call makes its next attempt when the wait queue named by
//! the attempt is notified.

use crate::guest::GuestBuffers;
use crate::ids::WaitQueueId;
use belljar_linux_abi::Errno;

pub use belljar_linux_net::control::ControlMessage;
use belljar_linux_net::control::read_options;
pub use belljar_netstack::address::RawAddress;
use belljar_netstack::udp::{CmsgContext, SendOptions};

/// Result of an attempt that did not fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attempt<T> {
    /// The operation completed.
    Done(T),
    /// The operation cannot make progress before this queue is notified.
    Wait(WaitQueueId),
}

/// Message to be sent.
#[derive(Clone, Debug, Default)]
pub struct OutgoingMessage {
    /// Guest buffers that hold the payload.
    pub buffers: GuestBuffers,
    /// Total payload length in bytes.
    pub len: usize,
    /// `MSG_*` flags.
    pub flags: i32,
    /// Destination, if the call names one.
    pub name: Option<RawAddress>,
    /// Control messages.
    pub control: Vec<ControlMessage>,
    /// True if a control message of invalid length follows `control`; families that parse control messages return
    /// `EINVAL`.
    pub control_broken: bool,
}

impl OutgoingMessage {
    /// `EINVAL` if a control message has an invalid length.
    pub fn check_control(&self) -> Result<(), Errno> {
        if self.control_broken { Err(Errno::EINVAL) } else { Ok(()) }
    }
    /// Send options of a datagram that its control messages set.
    pub fn send_options(&self, by: CmsgContext) -> Result<SendOptions, Errno> {
        self.check_control()?;
        read_options(&self.control, by)
    }
}

/// Buffers and flags of a receive call.
#[derive(Clone, Debug, Default)]
pub struct Incoming {
    /// Guest buffers that receive the payload.
    pub buffers: GuestBuffers,
    /// Total buffer length in bytes.
    pub len: usize,
    /// `MSG_*` flags.
    pub flags: i32,
    /// True if the caller asks for the sender's address.
    pub want_name: bool,
    /// Room for control messages in bytes (`msg_controllen`).
    pub control_room: usize,
}

/// Received message; its payload has been copied to the caller's buffers.
#[derive(Clone, Debug, Default)]
pub struct ReceivedMessage {
    /// Return value of the call: bytes stored, or with `MSG_TRUNC` the datagram's true length.
    pub value: usize,
    /// Sender's address; empty if there is none to report.
    pub name: RawAddress,
    /// Control messages; the caller stores as many as fit.
    pub control: Vec<ControlMessage>,
    /// `msg_flags`: `MSG_TRUNC`, `MSG_EOR`, ... (`MSG_CTRUNC` is added by the caller).
    pub flags: i32,
}
