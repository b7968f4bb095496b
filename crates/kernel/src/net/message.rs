//! Messages between the socket calls and the families, and how an attempt at a call ends.
//!
//! A family never waits: each of its operations is one *attempt*. `syscall/socket.rs` and `socket_io.rs` decide by
//! `O_NONBLOCK`, `MSG_DONTWAIT` and the socket's time-outs whether an attempt that must wait becomes
//! `EAGAIN` or a blocked call, which makes its next attempt when the queue named by the attempt is notified.

use crate::guest::GuestBuffers;
use crate::ids::WaitQueueId;
use belljar_linux_abi::Errno;

pub use belljar_linux_net::control::ControlMessage;
use belljar_linux_net::control::read_options;
pub use belljar_netstack::address::RawAddress;
use belljar_netstack::udp::{CmsgContext, SendOptions};

/// The result of an attempt that did not fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attempt<T> {
    /// It is done.
    Done(T),
    /// Nothing can be done before this queue is notified.
    Wait(WaitQueueId),
}

/// A message to be sent.
#[derive(Clone, Debug, Default)]
pub struct OutgoingMessage {
    /// Where the bytes are.
    pub buffers: GuestBuffers,
    /// Their length together, in bytes.
    pub len: usize,
    /// `MSG_*` flags.
    pub flags: i32,
    /// The destination, if the call names one.
    pub name: Option<RawAddress>,
    /// Control messages.
    pub control: Vec<ControlMessage>,
    /// Behind these comes one of a wrong length: `EINVAL` for whoever reads them.
    pub control_broken: bool,
}

impl OutgoingMessage {
    /// `EINVAL` unless the control messages are whole.
    pub fn check_control(&self) -> Result<(), Errno> {
        if self.control_broken { Err(Errno::EINVAL) } else { Ok(()) }
    }
    /// The options of a datagram that its control messages ask for.
    pub fn send_options(&self, by: CmsgContext) -> Result<SendOptions, Errno> {
        self.check_control()?;
        read_options(&self.control, by)
    }
}

/// Room of a receiver's buffers.
#[derive(Clone, Debug, Default)]
pub struct Incoming {
    /// Where the bytes go.
    pub buffers: GuestBuffers,
    /// Their length together, in bytes.
    pub len: usize,
    /// `MSG_*` flags.
    pub flags: i32,
    /// True if the sender's address is asked for.
    pub want_name: bool,
    /// Room for control messages in bytes (`msg_controllen`).
    pub control_room: usize,
}

/// A received message; its bytes are in the caller's buffers already.
#[derive(Clone, Debug, Default)]
pub struct ReceivedMessage {
    /// The call's return value: bytes stored, or with `MSG_TRUNC` the datagram's true length.
    pub value: usize,
    /// The sender's address; empty if there is none to tell.
    pub name: RawAddress,
    /// Control messages, stored as far as they fit.
    pub control: Vec<ControlMessage>,
    /// `msg_flags`: `MSG_TRUNC`, `MSG_EOR`, ... (`MSG_CTRUNC` is added by the caller).
    pub flags: i32,
}
