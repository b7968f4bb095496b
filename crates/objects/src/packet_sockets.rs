//! State of packet sockets: what each keeps, and frames to be received.

use crate::packet_ring::Rings;
use belljar_base::SimTime;
use belljar_linux_net::link_address::LinkAddress;
use belljar_netstack::PacketDirection;
use std::collections::VecDeque;

/// `ETH_P_ALL`.
pub const ALL_PROTOCOLS: u16 = 3;

/// `TP_STATUS_USER` and others of a packet that is received.
pub mod status {
    /// It is the program's.
    pub const USER: u32 = 1;
    /// It was cut.
    pub const COPY: u32 = 2;
    /// Others were lost before it.
    pub const LOSING: u32 = 4;
    /// Its checksum is right.
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
    pub kept: Vec<(i32, i32)>,
    /// `PACKET_ADD_MEMBERSHIP`: interface, type and address, each as often as it was asked for.
    pub memberships: Vec<(usize, u16, Vec<u8>)>,
    /// `PACKET_FANOUT`: the numbers of its group and of its network.
    pub fanout: Option<(u16, u32)>,
    /// `PACKET_VNET_HDR`: the length of the header of what is left to be done, before each frame.
    pub offload: usize,
    /// Rings in memory that it shares with its program.
    pub rings: Rings,
    /// Frames that have not been read.
    pub queue: VecDeque<Frame>,
    /// Their charge.
    pub queued_charge: u32,
    /// Packets since they were last asked for.
    pub packets: u32,
    /// Those dropped.
    pub drops: u32,
    /// Packets were dropped since one was last received.
    pub losing: bool,
}

impl PacketSocket {
    /// True if it hears a frame of this protocol that an interface sends or receives.
    pub fn hears(&self, direction: PacketDirection, protocol: u16, interface: usize) -> bool {
        let heard = match self.protocol {
            ALL_PROTOCOLS => !(self.ignore_outgoing && direction == PacketDirection::Out),
            own => direction == PacketDirection::In && own != 0 && own == protocol,
        };
        heard && self.interface.is_none_or(|bound| bound == interface)
    }
    /// A packet is lost since there is no room for it.
    pub fn drop_one(&mut self) {
        self.drops += 1;
        self.losing = true;
    }
    /// `TP_STATUS_*` of a packet that is received now.
    pub fn status(&mut self, cut: bool) -> u32 {
        let losing = if std::mem::take(&mut self.losing) { status::LOSING } else { 0 };
        status::USER | status::CSUM_VALID | losing | if cut { status::COPY } else { 0 }
    }
    /// Charge of the received frames against the buffer, in bytes.
    pub fn queued_bytes(&self) -> usize {
        self.queued_charge as usize
    }
}

/// A frame to be received.
#[derive(Debug)]
pub struct Frame {
    /// The bytes that the program gets.
    pub bytes: Vec<u8>,
    /// Length of the whole frame from the start of `bytes`.
    pub len: usize,
    /// Where the network header lies in `bytes`.
    pub network: usize,
    /// Its sender.
    pub from: LinkAddress,
    /// When it came.
    pub arrived: SimTime,
}
