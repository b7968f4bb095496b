//! Rings of packet sockets (`PACKET_RX_RING`, `PACKET_TX_RING`): layouts and versions, the block being
//! filled, and the encoding of frames.

use crate::packet_sockets::{Frame, status};
use crate::space::PAGE;
use belljar_base::SimDuration;
use belljar_linux_abi::Errno;
use belljar_linux_net::link_address;
use belljar_machine::{HostFiles, Machine, NativeFile};
use belljar_netstack::TimerId;

/// `TPACKET_ALIGNMENT`.
pub const ALIGNMENT: usize = 16;
/// `DEFAULT_PRB_RETIRE_TOV`.
pub const DEFAULT_TIMEOUT: SimDuration = SimDuration::from_millis(8);
/// Maximum size of a ring in bytes.
pub const MAX_BYTES: u64 = 1 << 30;
/// `TP_STATUS_KERNEL`, `TP_STATUS_AVAILABLE`.
pub const KERNEL: u32 = 0;
/// `TP_STATUS_SEND_REQUEST`.
pub const SEND_REQUEST: u32 = 1;
/// `TP_STATUS_WRONG_FORMAT`.
pub const WRONG_FORMAT: u32 = 4;
/// `TP_STATUS_BLK_TMO`.
pub const BLOCK_TIMEOUT: u32 = 1 << 5;

/// Version of the ring layout.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RingVersion {
    /// `TPACKET_V1`.
    #[default]
    V1,
    /// `TPACKET_V2`.
    V2,
    /// `TPACKET_V3`.
    V3,
}

impl RingVersion {
    /// Version of a `PACKET_VERSION` number.
    pub fn from_number(number: i32) -> Option<RingVersion> {
        [RingVersion::V1, RingVersion::V2, RingVersion::V3]
            .into_iter()
            .find(|version| *version as i32 == number)
    }
    /// Length in bytes of a packet's header, `struct tpacket_hdr` and its successors.
    pub fn packet_header_len(self) -> usize {
        match self {
            RingVersion::V1 | RingVersion::V2 => 32,
            RingVersion::V3 => 48,
        }
    }
    /// Length in bytes of the header with the `struct sockaddr_ll` after it: `TPACKET_HDRLEN`.
    pub fn header_len(self) -> usize {
        self.packet_header_len() + link_address::LEN
    }
}

/// Ring parameters, `struct tpacket_req` and `tpacket_req3`.
#[derive(Clone, Copy, Debug, Default)]
pub struct RingRequest {
    /// Block size in bytes.
    pub block_size: usize,
    /// Number of blocks.
    pub blocks: usize,
    /// Frame size in bytes.
    pub frame_size: usize,
    /// Number of frames.
    pub frames: usize,
    /// Timeout in milliseconds after which a block is retired.
    pub timeout_ms: u32,
    /// Size in bytes of a block's private area.
    pub private: usize,
}

impl RingRequest {
    /// Decodes the structure; `EINVAL` if it is too short.
    pub fn parse(version: RingVersion, value: &[u8]) -> Result<RingRequest, Errno> {
        let word =
            |n: usize| value.get(4 * n..4 * n + 4).map(|b| u32::from_ne_bytes([b[0], b[1], b[2], b[3]]));
        let all: Option<Vec<usize>> = (0..4).map(|n| word(n).map(|word| word as usize)).collect();
        let all = all.ok_or(Errno::EINVAL)?;
        let mut request = RingRequest {
            block_size: all[0],
            blocks: all[1],
            frame_size: all[2],
            frames: all[3],
            ..RingRequest::default()
        };
        if version == RingVersion::V3 {
            request.timeout_ms = word(4).ok_or(Errno::EINVAL)?;
            request.private = word(5).ok_or(Errno::EINVAL)? as usize;
        }
        Ok(request)
    }
    /// Validates the parameters as Linux's `packet_set_ring` does.
    pub fn check(&self, version: RingVersion, reserve: usize) -> Result<(), Errno> {
        let whole_pages = self.block_size > 0 && (self.block_size as u64).is_multiple_of(PAGE);
        let room = version.header_len() + reserve;
        let private_fits =
            version != RingVersion::V3 || self.block_size > block_header_len(self.private) + room;
        let frames_fit = self.frame_size >= room
            && self.frame_size.is_multiple_of(ALIGNMENT)
            && self.block_size / self.frame_size.max(1) > 0
            && (self.block_size / self.frame_size).checked_mul(self.blocks) == Some(self.frames);
        let bytes = self.block_size as u64 * self.blocks as u64;
        if !(whole_pages && private_fits && frames_fit) {
            return Err(Errno::EINVAL);
        }
        if bytes > MAX_BYTES { Err(Errno::ENOMEM) } else { Ok(()) }
    }
    /// Size of the ring in bytes.
    pub fn bytes(&self) -> u64 {
        self.block_size as u64 * self.blocks as u64
    }
    /// Offset of frame `n`; frames do not cross blocks.
    pub fn frame_at(&self, n: usize) -> u64 {
        let per_block = self.block_size / self.frame_size;
        (n / per_block * self.block_size + n % per_block * self.frame_size) as u64
    }
}

/// `BLK_PLUS_PRIV`.
pub fn block_header_len(private: usize) -> usize {
    48 + private.next_multiple_of(8)
}

/// Block of a `TPACKET_V3` ring being filled.
#[derive(Debug, Default)]
pub struct RingBlock {
    /// Packets in the block.
    pub packets: u32,
    /// Offset at which the next packet is written.
    pub end: usize,
    /// Offset of the last packet.
    pub last: usize,
    /// Timestamp of the first packet in nanoseconds.
    pub first_stamp: u64,
    /// Timestamp of the last packet in nanoseconds.
    pub last_stamp: u64,
    /// Retire timer.
    pub timer: Option<TimerId>,
    /// True if no block is free: the program is too slow.
    pub frozen: bool,
    /// Sequence number of the block.
    pub sequence: u64,
}

/// Rings of a socket.
#[derive(Debug, Default)]
pub struct Rings {
    /// `PACKET_VERSION`.
    pub version: RingVersion,
    /// `PACKET_RESERVE`.
    pub reserve: usize,
    /// `PACKET_RX_RING`.
    pub receive: Option<RingRequest>,
    /// `PACKET_TX_RING`.
    pub send: Option<RingRequest>,
    /// Memory of the rings.
    pub memory: Option<NativeFile>,
    /// Index of the next frame or block to fill.
    pub head: usize,
    /// Index of the next frame to send.
    pub send_head: usize,
    /// Block being filled.
    pub block: RingBlock,
    /// Number of times that no block was free.
    pub freezes: u32,
}

impl Rings {
    /// Value of `PACKET_VERSION`.
    pub fn version(&self) -> RingVersion {
        self.version
    }
    /// Sets `PACKET_VERSION`. `EBUSY` while a ring exists.
    pub fn set_version(&mut self, version: RingVersion) -> Result<(), Errno> {
        self.require_none()?;
        self.version = version;
        Ok(())
    }
    /// Value of `PACKET_RESERVE`.
    pub fn reserve(&self) -> usize {
        self.reserve
    }
    /// Sets `PACKET_RESERVE`. `EBUSY` while a ring exists.
    pub fn set_reserve(&mut self, bytes: i32) -> Result<(), Errno> {
        self.require_none()?;
        self.reserve = usize::try_from(bytes).map_err(|_| Errno::EINVAL)?;
        Ok(())
    }
    /// Checks that no ring exists: `EBUSY`.
    pub fn require_none(&self) -> Result<(), Errno> {
        if self.receive.is_some() || self.send.is_some() { Err(Errno::EBUSY) } else { Ok(()) }
    }
    /// Number of freezes since the last call (`tp_freeze_q_cnt`).
    pub fn take_freezes(&mut self) -> u32 {
        std::mem::take(&mut self.freezes)
    }
    /// True if received packets go to a ring.
    pub fn has_receiver(&self) -> bool {
        self.receive.is_some()
    }
    /// True if packets are sent from a ring.
    pub fn has_sender(&self) -> bool {
        self.send.is_some()
    }
    /// Offset of the transmit ring in the memory.
    pub fn send_offset(&self) -> u64 {
        self.receive.map_or(0, |receive| receive.bytes())
    }
    /// True if the frame or block before the next one to fill belongs to the program.
    pub fn is_readable(&self, machine: &dyn Machine) -> bool {
        let (Some(ring), Some(memory)) = (self.receive, self.memory) else { return false };
        let at = match self.version {
            RingVersion::V3 => ((self.head + ring.blocks - 1) % ring.blocks * ring.block_size + 8) as u64,
            _ => ring.frame_at((self.head + ring.frames - 1) % ring.frames),
        };
        word_at(machine, memory, at) & status::USER != 0
    }
}

/// Status word of a frame or block.
pub fn word_at(files: &(impl HostFiles + ?Sized), memory: NativeFile, at: u64) -> u32 {
    let mut bytes = [0; 4];
    match files.peek_at(memory, at, &mut bytes) {
        Ok(4) => u32::from_ne_bytes(bytes),
        _ => KERNEL,
    }
}

/// Layout of a packet in its frame.
#[derive(Clone, Copy, Debug)]
pub struct FramePlace {
    /// Offset of the link header.
    pub mac: usize,
    /// Offset of the network header.
    pub network: usize,
    /// Captured length in bytes.
    pub kept: usize,
    /// Timestamp in nanoseconds.
    pub stamp: u64,
    /// Maximum length of the frame in bytes.
    pub room: usize,
}

impl FramePlace {
    /// Encodes the frame: header, `struct sockaddr_ll`, packet data.
    pub fn frame(&self, version: RingVersion, status: u32, next: u32, frame: &Frame) -> Vec<u8> {
        let mut body = vec![0; self.mac + self.kept];
        let (secs, nanos) = ((self.stamp / 1_000_000_000) as u32, (self.stamp % 1_000_000_000) as u32);
        let (len, kept) = (frame.len as u32, self.kept as u32);
        let offsets = u32::from(self.mac as u16) | u32::from(self.network as u16) << 16;
        let words: Vec<u32> = match version {
            RingVersion::V1 => vec![status, 0, len, kept, offsets, secs, nanos / 1_000],
            RingVersion::V2 => vec![status, len, kept, offsets, secs, nanos],
            RingVersion::V3 => vec![next, secs, nanos, kept, len, status, offsets],
        };
        for (n, word) in words.into_iter().enumerate() {
            body[4 * n..4 * n + 4].copy_from_slice(&word.to_ne_bytes());
        }
        let name_at = version.packet_header_len();
        let name = frame.from.emit();
        body[name_at..name_at + name.len()].copy_from_slice(&name);
        body[self.mac..].copy_from_slice(&frame.bytes[..self.kept]);
        body.truncate(self.room);
        body
    }
}
