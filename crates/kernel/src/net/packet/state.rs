//! State of packet sockets: what each keeps, frames to be received, and groups that share what they hear.

use super::ring_state::Rings;
use belljar_base::SimTime;
use belljar_linux_net::link_address::LinkAddress;
use belljar_netstack::SocketKey;
use std::collections::VecDeque;

/// `TP_STATUS_USER` and others of a packet that is received.
pub mod status {
    pub const USER: u32 = 1;
    pub const COPY: u32 = 2;
    pub const LOSING: u32 = 4;
    pub const CSUM_VALID: u32 = 1 << 7;
}

/// State of a packet socket.
#[derive(Debug, Default)]
pub struct PacketSocket {
    /// The ethertype that it hears; 0 hears nothing, [`ALL_PROTOCOLS`] everything.
    pub protocol: u16,
    /// The number of the interface that it is bound to; `None` is all.
    pub interface: Option<usize>,
    /// `PACKET_AUXDATA`.
    pub auxdata: bool,
    /// `PACKET_IGNORE_OUTGOING`.
    pub ignore_outgoing: bool,
    /// `PACKET_ORIGDEV`, `PACKET_LOSS` and others that are only kept: by option.
    pub(super) kept: Vec<(i32, i32)>,
    /// `PACKET_ADD_MEMBERSHIP`: interface, type and address, each as often as it was asked for.
    pub(super) memberships: Vec<(usize, u16, Vec<u8>)>,
    /// `PACKET_FANOUT`: the number of its group.
    pub(super) fanout: Option<u16>,
    /// `PACKET_VNET_HDR`: the length of the header of what is left to be done, before each frame.
    pub(super) offload: usize,
    /// Rings in memory that it shares with its program.
    pub(super) rings: Rings,
    pub(super) queue: VecDeque<Frame>,
    pub(super) queued_charge: u32,
    /// Packets and those dropped since they were last asked for.
    pub(super) packets: u32,
    pub(super) drops: u32,
    /// Packets were dropped since one was last received.
    pub(super) losing: bool,
}

/// A frame to be received.
#[derive(Debug)]
pub(super) struct Frame {
    /// The bytes that the program gets.
    pub(super) bytes: Vec<u8>,
    /// Length of the whole frame from the start of `bytes`.
    pub(super) len: usize,
    /// Where the network header lies in `bytes`.
    pub(super) network: usize,
    pub(super) from: LinkAddress,
    pub(super) arrived: SimTime,
}

/// The algorithm by which a group chooses a socket, `PACKET_FANOUT_*`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Choice {
    /// By the flow, the same in both directions.
    Hash,
    /// In turns.
    LoadBalance,
    /// By the processor, of which a host shows one.
    Cpu,
    /// The first that has room.
    Rollover,
    /// By chance.
    Random,
    /// By the interface's queue, of which it has one.
    Queue,
}

impl Choice {
    pub(super) fn from_number(number: u16) -> Option<Choice> {
        use Choice::{Cpu, Hash, LoadBalance, Queue, Random, Rollover};
        [Hash, LoadBalance, Cpu, Rollover, Random, Queue].into_iter().find(|choice| *choice as u16 == number)
    }
}

/// A group of sockets.
#[derive(Debug)]
pub struct Fanout {
    pub(super) id: u16,
    pub(super) choice: Choice,
    pub(super) flags: u16,
    pub(super) max: usize,
    /// The protocol and the interface that all of them hear.
    pub(super) hears: (u16, Option<usize>),
    pub(super) members: Vec<SocketKey>,
    pub(super) turn: u32,
}
