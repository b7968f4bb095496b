//! State of the rings of packet sockets: layouts and versions, the block that is being filled, and frames as bytes.

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
/// The most memory that a ring may take.
pub const MAX_BYTES: u64 = 1 << 30;
/// `TP_STATUS_KERNEL`, `TP_STATUS_AVAILABLE`.
pub const KERNEL: u32 = 0;
/// `TP_STATUS_SEND_REQUEST`.
pub const SEND_REQUEST: u32 = 1;
/// `TP_STATUS_WRONG_FORMAT`.
pub const WRONG_FORMAT: u32 = 4;
/// `TP_STATUS_BLK_TMO`.
pub const BLOCK_TIMEOUT: u32 = 1 << 5;

/// The layout of a ring.
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
    /// By its number in `PACKET_VERSION`.
    pub fn from_number(number: i32) -> Option<RingVersion> {
        [RingVersion::V1, RingVersion::V2, RingVersion::V3]
            .into_iter()
            .find(|version| *version as i32 == number)
    }
    /// The length of a packet's header, `struct tpacket_hdr` and its successors.
    pub fn packet_header_len(self) -> usize {
        match self {
            RingVersion::V1 | RingVersion::V2 => 32,
            RingVersion::V3 => 48,
        }
    }
    /// The same with the `struct sockaddr_ll` behind it: `TPACKET_HDRLEN`.
    pub fn header_len(self) -> usize {
        self.packet_header_len() + link_address::LEN
    }
}

/// `struct tpacket_req` and `tpacket_req3`.
#[derive(Clone, Copy, Debug, Default)]
pub struct RingRequest {
    /// Bytes of a block.
    pub block_size: usize,
    /// Number of blocks.
    pub blocks: usize,
    /// Bytes of a frame.
    pub frame_size: usize,
    /// Number of frames.
    pub frames: usize,
    /// Milliseconds after which a block is handed over.
    pub timeout_ms: u32,
    /// Bytes of a block that are the program's own.
    pub private: usize,
}

impl RingRequest {
    /// Reads one: `EINVAL` if it is too short.
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
    /// The checks of `packet_set_ring`.
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
    /// Bytes that it takes.
    pub fn bytes(&self) -> u64 {
        self.block_size as u64 * self.blocks as u64
    }
    /// Where a frame lies; frames don't cross blocks.
    pub fn frame_at(&self, n: usize) -> u64 {
        let per_block = self.block_size / self.frame_size;
        (n / per_block * self.block_size + n % per_block * self.frame_size) as u64
    }
}

/// `BLK_PLUS_PRIV`.
pub fn block_header_len(private: usize) -> usize {
    48 + private.next_multiple_of(8)
}

/// The block of a version 3 ring that is being filled.
#[derive(Debug, Default)]
pub struct RingBlock {
    /// Packets in it.
    pub packets: u32,
    /// Where the next packet goes.
    pub end: usize,
    /// Where the last one began.
    pub last: usize,
    /// The time stamp of the first one, in nanoseconds.
    pub first_stamp: u64,
    /// That of the last one.
    pub last_stamp: u64,
    /// It ends the block.
    pub timer: Option<TimerId>,
    /// There is no free block: the program is too slow.
    pub frozen: bool,
    /// Its number.
    pub sequence: u64,
}

/// The rings of one socket.
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
    /// Where they are.
    pub memory: Option<NativeFile>,
    /// The next frame or block to be filled.
    pub head: usize,
    /// The next frame to be sent.
    pub send_head: usize,
    /// The block that is being filled.
    pub block: RingBlock,
    /// Times that no block was free.
    pub freezes: u32,
}

impl Rings {
    /// `PACKET_VERSION`.
    pub fn version(&self) -> RingVersion {
        self.version
    }
    /// `EBUSY` while there is a ring.
    pub fn set_version(&mut self, version: RingVersion) -> Result<(), Errno> {
        self.require_none()?;
        self.version = version;
        Ok(())
    }
    /// `PACKET_RESERVE`.
    pub fn reserve(&self) -> usize {
        self.reserve
    }
    /// Sets it.
    pub fn set_reserve(&mut self, bytes: i32) -> Result<(), Errno> {
        self.require_none()?;
        self.reserve = usize::try_from(bytes).map_err(|_| Errno::EINVAL)?;
        Ok(())
    }
    /// `EBUSY` while there is a ring.
    pub fn require_none(&self) -> Result<(), Errno> {
        if self.receive.is_some() || self.send.is_some() { Err(Errno::EBUSY) } else { Ok(()) }
    }
    /// Number of times that no block was free since the last call (`tp_freeze_q_cnt`).
    pub fn take_freezes(&mut self) -> u32 {
        std::mem::take(&mut self.freezes)
    }
    /// True if what comes in goes to a ring.
    pub fn has_receiver(&self) -> bool {
        self.receive.is_some()
    }
    /// True if what is sent comes from a ring.
    pub fn has_sender(&self) -> bool {
        self.send.is_some()
    }
    /// Where the ring of frames to be sent starts.
    pub fn send_offset(&self) -> u64 {
        self.receive.map_or(0, |receive| receive.bytes())
    }
    /// True if the frame or block before the one that is filled next has something for the program.
    pub fn is_readable(&self, machine: &dyn Machine) -> bool {
        let (Some(ring), Some(memory)) = (self.receive, self.memory) else { return false };
        let at = match self.version {
            RingVersion::V3 => ((self.head + ring.blocks - 1) % ring.blocks * ring.block_size + 8) as u64,
            _ => ring.frame_at((self.head + ring.frames - 1) % ring.frames),
        };
        word_at(machine, memory, at) & status::USER != 0
    }
}

/// The word that says whose a frame or block is.
pub fn word_at(files: &(impl HostFiles + ?Sized), memory: NativeFile, at: u64) -> u32 {
    let mut bytes = [0; 4];
    match files.peek_at(memory, at, &mut bytes) {
        Ok(4) => u32::from_ne_bytes(bytes),
        _ => KERNEL,
    }
}

/// Where the parts of a packet go in its frame.
#[derive(Clone, Copy, Debug)]
pub struct FramePlace {
    /// The link header.
    pub mac: usize,
    /// The network header.
    pub network: usize,
    /// Bytes of the packet that are kept.
    pub kept: usize,
    /// Its time stamp in nanoseconds.
    pub stamp: u64,
    /// The greatest length of the frame.
    pub room: usize,
}

impl FramePlace {
    /// The frame: header, `struct sockaddr_ll`, the packet's bytes.
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
