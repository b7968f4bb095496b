//! State of packet sockets and their received frames.

use crate::packet_ring::Rings;
use belljar_base::SimTime;
use belljar_linux_net::link_address::LinkAddress;
use belljar_netstack::PacketDirection;
use std::collections::VecDeque;

/// `ETH_P_ALL`.
pub const ALL_PROTOCOLS: u16 = 3;

/// Status bits of a received packet, `TP_STATUS_*`.
pub mod status {
    /// The frame belongs to the program.
    pub const USER: u32 = 1;
    /// The packet was truncated.
    pub const COPY: u32 = 2;
    /// Packets were dropped before this one.
    pub const LOSING: u32 = 4;
    /// The checksum is valid.
    pub const CSUM_VALID: u32 = 1 << 7;
}

/// State of a packet socket.
#[derive(Debug, Default)]
pub struct PacketSocket {
    /// Ethertype received; 0 receives nothing, [`ALL_PROTOCOLS`] everything.
    pub protocol: u16,
    /// Index of the bound interface; `None` for all.
    pub interface: Option<usize>,
    /// `PACKET_AUXDATA`.
    pub auxdata: bool,
    /// `PACKET_IGNORE_OUTGOING`.
    pub ignore_outgoing: bool,
    /// `PACKET_ORIGDEV`, `PACKET_LOSS` and other options that are stored without effect, with their values.
    pub kept: Vec<(i32, i32)>,
    /// `PACKET_ADD_MEMBERSHIP`: interface, type and address, repeated as often as it was requested.
    pub memberships: Vec<(usize, u16, Vec<u8>)>,
    /// `PACKET_FANOUT`: group id and network namespace.
    pub fanout: Option<(u16, u32)>,
    /// `PACKET_VNET_HDR`: length in bytes of the `virtio_net_hdr` before each frame.
    pub offload: usize,
    /// Rings in memory shared with the program.
    pub rings: Rings,
    /// Unread frames.
    pub queue: VecDeque<Frame>,
    /// Buffer charge of the queued frames in bytes.
    pub queued_charge: u32,
    /// Packets received since the statistics were last read.
    pub packets: u32,
    /// Packets dropped since the statistics were last read.
    pub drops: u32,
    /// True if packets were dropped since the last one was queued.
    pub losing: bool,
}

impl PacketSocket {
    /// True if the socket receives frames with this direction, protocol and interface.
    pub fn hears(&self, direction: PacketDirection, protocol: u16, interface: usize) -> bool {
        let heard = match self.protocol {
            ALL_PROTOCOLS => !(self.ignore_outgoing && direction == PacketDirection::Out),
            own => direction == PacketDirection::In && own != 0 && own == protocol,
        };
        heard && self.interface.is_none_or(|bound| bound == interface)
    }
    /// Counts a packet dropped for lack of room.
    pub fn drop_one(&mut self) {
        self.drops += 1;
        self.losing = true;
    }
    /// `TP_STATUS_*` bits of the packet received now.
    pub fn status(&mut self, cut: bool) -> u32 {
        let losing = if std::mem::take(&mut self.losing) { status::LOSING } else { 0 };
        status::USER | status::CSUM_VALID | losing | if cut { status::COPY } else { 0 }
    }
    /// Buffer charge of the queued frames in bytes.
    pub fn queued_bytes(&self) -> usize {
        self.queued_charge as usize
    }
}

/// Received frame.
#[derive(Debug)]
pub struct Frame {
    /// Bytes delivered to the program.
    pub bytes: Vec<u8>,
    /// Original length of the frame in bytes, from the start of `bytes`.
    pub len: usize,
    /// Offset of the network header in `bytes`.
    pub network: usize,
    /// Sender.
    pub from: LinkAddress,
    /// Arrival time.
    pub arrived: SimTime,
    /// Timestamp by the adapter's clock, or 0.
    pub hardware: i64,
}
