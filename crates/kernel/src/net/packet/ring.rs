//! Rings of frames in memory that a packet socket shares with its program, `PACKET_RX_RING` and
//! `PACKET_TX_RING`, of versions 1 to 3.
//!
//! Both rings of a socket lie one behind the other in one piece of memory. A word at the start of each
//! frame (version 3: of each block) says whose it is: the kernel fills what is its own and hands it over,
//! the program hands it back. Nobody tells the kernel of that, so it looks.

use super::{Frame, LinkAddress, status};
use crate::files::readiness::{READABLE, WRITABLE};
use crate::host::Host;
use crate::ids::SocketKey;
use crate::machine::{HostFiles, Machine, NativeFile};
use crate::mm::{MapSource, PAGE};
use crate::net::OwnKind;
use crate::timer::{TimerAction, TimerId};
use belljar_base::SimDuration;
use belljar_linux_abi::Errno;

/// `TPACKET_ALIGNMENT`.
const ALIGNMENT: usize = 16;
/// `DEFAULT_PRB_RETIRE_TOV`.
const DEFAULT_TIMEOUT: SimDuration = SimDuration::from_millis(8);
/// The most memory that a ring may take.
const MAX_BYTES: u64 = 1 << 30;
/// `TP_STATUS_KERNEL`, `TP_STATUS_AVAILABLE`.
const KERNEL: u32 = 0;
/// `TP_STATUS_SEND_REQUEST` and `TP_STATUS_WRONG_FORMAT`.
const SEND_REQUEST: u32 = 1;
const WRONG_FORMAT: u32 = 4;
/// `TP_STATUS_BLK_TMO`.
const BLOCK_TIMEOUT: u32 = 1 << 5;
/// The device that mappings of rings show in `/proc/.../maps`.
const DEVICE: u64 = 0x07;

/// The layout of a ring.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Version {
    /// `TPACKET_V1`.
    #[default]
    V1,
    /// `TPACKET_V2`.
    V2,
    /// `TPACKET_V3`.
    V3,
}

impl Version {
    /// By its number in `PACKET_VERSION`.
    pub fn from_number(number: i32) -> Option<Version> {
        [Version::V1, Version::V2, Version::V3].into_iter().find(|version| *version as i32 == number)
    }
    /// The length of a packet's header, `struct tpacket_hdr` and its successors.
    pub fn packet_header_len(self) -> usize {
        match self {
            Version::V1 | Version::V2 => 32,
            Version::V3 => 48,
        }
    }
    /// The same with the `struct sockaddr_ll` behind it: `TPACKET_HDRLEN`.
    fn header_len(self) -> usize {
        self.packet_header_len() + super::link_address::LEN
    }
}

/// `struct tpacket_req` and `tpacket_req3`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Request {
    block_size: usize,
    blocks: usize,
    frame_size: usize,
    frames: usize,
    timeout_ms: u32,
    private: usize,
}

impl Request {
    /// Reads one: `EINVAL` if it is too short.
    pub fn parse(version: Version, value: &[u8]) -> Result<Request, Errno> {
        let word =
            |n: usize| value.get(4 * n..4 * n + 4).map(|b| u32::from_ne_bytes([b[0], b[1], b[2], b[3]]));
        let all: Option<Vec<usize>> = (0..4).map(|n| word(n).map(|word| word as usize)).collect();
        let all = all.ok_or(Errno::EINVAL)?;
        let mut request = Request {
            block_size: all[0],
            blocks: all[1],
            frame_size: all[2],
            frames: all[3],
            ..Request::default()
        };
        if version == Version::V3 {
            request.timeout_ms = word(4).ok_or(Errno::EINVAL)?;
            request.private = word(5).ok_or(Errno::EINVAL)? as usize;
        }
        Ok(request)
    }
    /// The checks of `packet_set_ring`.
    fn check(&self, version: Version, reserve: usize) -> Result<(), Errno> {
        let whole_pages = self.block_size > 0 && (self.block_size as u64).is_multiple_of(PAGE);
        let room = version.header_len() + reserve;
        let private_fits = version != Version::V3 || self.block_size > block_header_len(self.private) + room;
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
    fn bytes(&self) -> u64 {
        self.block_size as u64 * self.blocks as u64
    }
    /// Where a frame lies; frames don't cross blocks.
    fn frame_at(&self, n: usize) -> u64 {
        let per_block = self.block_size / self.frame_size;
        (n / per_block * self.block_size + n % per_block * self.frame_size) as u64
    }
}

/// `BLK_PLUS_PRIV`.
fn block_header_len(private: usize) -> usize {
    48 + private.next_multiple_of(8)
}

/// The block of a version 3 ring that is being filled.
#[derive(Debug, Default)]
struct Block {
    packets: u32,
    /// Where the next packet goes, and where the last one began.
    end: usize,
    last: usize,
    first_stamp: u64,
    last_stamp: u64,
    timer: Option<TimerId>,
    /// There is no free block: the program is too slow.
    frozen: bool,
    sequence: u64,
}

/// The rings of one socket.
#[derive(Debug, Default)]
pub struct Rings {
    version: Version,
    reserve: usize,
    receive: Option<Request>,
    send: Option<Request>,
    memory: Option<NativeFile>,
    /// The next frame or block to be filled.
    head: usize,
    /// The next frame to be sent.
    send_head: usize,
    block: Block,
    freezes: u32,
}

impl Rings {
    /// `PACKET_VERSION`.
    pub fn version(&self) -> Version {
        self.version
    }
    /// `EBUSY` while there is a ring.
    pub fn set_version(&mut self, version: Version) -> Result<(), Errno> {
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
    fn require_none(&self) -> Result<(), Errno> {
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
    fn send_offset(&self) -> u64 {
        self.receive.map_or(0, |receive| receive.bytes())
    }
    /// True if the frame or block before the one that is filled next has something for the program.
    pub fn is_readable(&self, machine: &dyn Machine) -> bool {
        let (Some(ring), Some(memory)) = (self.receive, self.memory) else { return false };
        let at = match self.version {
            Version::V3 => ((self.head + ring.blocks - 1) % ring.blocks * ring.block_size + 8) as u64,
            _ => ring.frame_at((self.head + ring.frames - 1) % ring.frames),
        };
        word_at(machine, memory, at) & status::USER != 0
    }
}

fn word_at(files: &(impl HostFiles + ?Sized), memory: NativeFile, at: u64) -> u32 {
    let mut bytes = [0; 4];
    match files.peek_at(memory, at, &mut bytes) {
        Ok(4) => u32::from_ne_bytes(bytes),
        _ => KERNEL,
    }
}

impl Host {
    /// `PACKET_RX_RING` and `PACKET_TX_RING`; a request for no blocks takes the ring away.
    pub(super) fn set_ring(&mut self, key: SocketKey, send: bool, request: Request) -> Result<(), Errno> {
        let inode = self.socket_inode(key);
        if self.is_file_mapped((DEVICE, inode)) {
            return Err(Errno::EBUSY);
        }
        let packet = self.packet(key);
        if packet.offload > 0 && request.blocks > 0 {
            self.warn("rings of packet sockets with PACKET_VNET_HDR are not supported");
            return Err(Errno::EINVAL);
        }
        let rings = &mut packet.rings;
        let slot = if send { rings.send } else { rings.receive };
        if request.blocks == 0 {
            if request.frames != 0 {
                return Err(Errno::EINVAL);
            }
        } else if slot.is_some() {
            return Err(Errno::EBUSY);
        } else {
            request.check(rings.version, rings.reserve)?;
        }
        let ring = (request.blocks > 0).then_some(request);
        // The memory is replaced, and with it the block that is being filled.
        let timer = rings.block.timer.take();
        match send {
            true => (rings.send, rings.send_head) = (ring, 0),
            false => (rings.receive, rings.head, rings.block) = (ring, 0, Block::default()),
        }
        let bytes = rings.receive.map_or(0, |ring| ring.bytes()) + rings.send.map_or(0, |ring| ring.bytes());
        let old = rings.memory.take();
        if let Some(timer) = timer {
            self.timers.cancel(timer);
        }
        if let Some(old) = old {
            self.machine.close(old);
        }
        if bytes > 0 {
            let memory = self.machine.shared_memory(bytes)?;
            self.packet(key).rings.memory = Some(memory);
            self.open_block(key);
        }
        Ok(())
    }

    /// The socket is closed; what is mapped stays until it is unmapped.
    pub(super) fn drop_rings(&mut self, key: SocketKey) {
        let rings = std::mem::take(&mut self.packet(key).rings);
        if let Some(timer) = rings.block.timer {
            self.timers.cancel(timer);
        }
        if let Some(memory) = rings.memory {
            self.machine.close(memory);
        }
    }

    /// The object that `mmap(2)` of a packet socket maps: all of its rings.
    pub(crate) fn packet_ring_source(
        &mut self,
        key: SocketKey,
        len: u64,
        offset: u64,
    ) -> Result<MapSource, Errno> {
        let inode = self.socket_inode(key);
        let Some(OwnKind::Packet(packet)) = self.own.get_mut(key) else { return Err(Errno::ENODEV) };
        let rings = &mut packet.rings;
        let bytes = rings.send_offset() + rings.send.map_or(0, |ring| ring.bytes());
        let native = rings.memory.filter(|_| len == bytes && offset == 0).ok_or(Errno::EINVAL)?;
        let path = format!("socket:[{inode}]").into_bytes().into();
        Ok(MapSource { native, offset: 0, path, identity: (DEVICE, inode), file: None, may_write: true })
    }

    fn ring_write(&mut self, memory: NativeFile, at: u64, bytes: &[u8]) {
        // Memory of one's own cannot fail to be written.
        let _ = self.machine.write_at(memory, at, bytes);
    }

    /// `tpacket_rcv`: a frame for a ring.
    pub(super) fn ring_receive(&mut self, key: SocketKey, frame: Frame, stamp: u64) {
        let rings = &self.packet(key).rings;
        let (Some(ring), Some(memory)) = (rings.receive, rings.memory) else { return };
        let (version, reserve, head) = (rings.version, rings.reserve, rings.head);
        let link_len = frame.network;
        let header = version.header_len();
        let (mac, network) = match link_len {
            0 => {
                let at = header.next_multiple_of(ALIGNMENT) + 16 + reserve;
                (at, at)
            }
            _ => {
                let at = (header + link_len.max(16)).next_multiple_of(ALIGNMENT) + reserve;
                (at - link_len, at)
            }
        };
        let room = match version {
            Version::V3 => ring.block_size - block_header_len(ring.private),
            _ => ring.frame_size,
        };
        let kept = frame.bytes.len().min(room.saturating_sub(mac));
        // What begins behind the end is not there; in a block nothing may lie behind it either.
        let mac = if version == Version::V3 { mac.min(room) } else { mac };
        let place = Place { mac, network, kept, stamp, room };
        if version == Version::V3 {
            return self.ring_receive_v3(key, &frame, &place);
        }
        let at = ring.frame_at(head);
        if word_at(&*self.machine, memory, at) != KERNEL {
            return self.ring_dropped(key);
        }
        let packet = self.packet(key);
        packet.rings.head = (head + 1) % ring.frames;
        let status = packet.status(false);
        let body = place.frame(version, status, 0, &frame);
        // The word that hands the frame over is written last.
        self.ring_write(memory, at + 8, &body[8..]);
        self.ring_write(memory, at, &body[..8]);
        self.net.notify_socket(key, READABLE);
    }

    fn ring_dropped(&mut self, key: SocketKey) {
        let packet = self.packet(key);
        packet.drops += 1;
        packet.losing = true;
    }

    fn ring_receive_v3(&mut self, key: SocketKey, frame: &Frame, place: &Place) {
        let len = (place.mac + place.kept).next_multiple_of(8);
        let rings = &self.packet(key).rings;
        let Some(ring) = rings.receive else { return };
        if rings.block.frozen {
            self.open_block(key);
        } else if rings.block.end + len > ring.block_size {
            self.retire_block(key, 0);
        }
        let rings = &mut self.packet(key).rings;
        let (Some(memory), head) = (rings.memory, rings.head) else { return };
        let block = &mut rings.block;
        if block.frozen {
            return self.ring_dropped(key);
        }
        let at = (head * ring.block_size) as u64;
        let (start, last, first) = (block.end, block.last, block.packets == 0);
        if first {
            block.first_stamp = place.stamp;
        }
        (block.last, block.end, block.last_stamp) = (start, start + len, place.stamp);
        block.packets += 1;
        if !first {
            // The packet before leads to this one.
            self.ring_write(memory, at + last as u64, &((start - last) as u32).to_ne_bytes());
        }
        let status = self.packet(key).status(false);
        let body = place.frame(Version::V3, status, 0, frame);
        self.ring_write(memory, at + start as u64, &body);
        if first {
            let timeout = match ring.timeout_ms {
                0 => DEFAULT_TIMEOUT,
                ms => SimDuration::from_millis(ms.into()),
            };
            let timer = self.add_timer(self.net.clock.now() + timeout, TimerAction::PacketBlock(key));
            self.packet(key).rings.block.timer = Some(timer);
        }
    }

    /// The block has waited long enough for further packets.
    pub(crate) fn packet_block_timer(&mut self, key: SocketKey) {
        self.packet(key).rings.block.timer = None;
        self.retire_block(key, BLOCK_TIMEOUT);
    }

    /// Hands the block over and goes to the next one.
    fn retire_block(&mut self, key: SocketKey, why: u32) {
        let rings = &mut self.packet(key).rings;
        let (Some(ring), Some(memory)) = (rings.receive, rings.memory) else { return };
        let at = (rings.head * ring.block_size) as u64;
        let block = &mut rings.block;
        if block.packets == 0 {
            return;
        }
        let (packets, end) = (block.packets, block.end);
        let (first, last, sequence) = (block.first_stamp, block.last_stamp, block.sequence);
        let timer = block.timer.take();
        rings.head = (rings.head + 1) % ring.blocks;
        if let Some(timer) = timer {
            self.timers.cancel(timer);
        }
        let mut header = packets.to_ne_bytes().to_vec();
        header.extend_from_slice(&(block_header_len(ring.private) as u32).to_ne_bytes());
        header.extend_from_slice(&(end as u32).to_ne_bytes());
        header.extend_from_slice(&sequence.to_ne_bytes());
        for stamp in [first, last] {
            header.extend_from_slice(&((stamp / 1_000_000_000) as u32).to_ne_bytes());
            header.extend_from_slice(&((stamp % 1_000_000_000) as u32).to_ne_bytes());
        }
        self.ring_write(memory, at + 12, &header);
        self.ring_write(memory, at + 8, &(status::USER | why).to_ne_bytes());
        self.net.notify_socket(key, READABLE);
        self.open_block(key);
    }

    /// Begins to fill the next block of a version 3 ring, if the program has given it back.
    fn open_block(&mut self, key: SocketKey) {
        let rings = &mut self.packet(key).rings;
        let (Some(ring), Some(memory), Version::V3) = (rings.receive, rings.memory, rings.version) else {
            return;
        };
        let at = (rings.head * ring.block_size) as u64;
        let was_frozen = rings.block.frozen;
        let sequence = rings.block.sequence;
        if word_at(&*self.machine, memory, at + 8) != KERNEL {
            let rings = &mut self.packet(key).rings;
            rings.freezes += u32::from(!was_frozen);
            rings.block.frozen = true;
            return;
        }
        let start = block_header_len(ring.private);
        self.packet(key).rings.block =
            Block { end: start, last: start, sequence: sequence + 1, ..Block::default() };
        let version = Version::V3 as u32;
        let mut header = version.to_ne_bytes().to_vec();
        header.extend_from_slice(&48u32.to_ne_bytes());
        self.ring_write(memory, at, &header);
    }

    /// Sends what the program has put into the ring; gives how many bytes.
    pub(super) fn ring_send(&mut self, key: SocketKey, name: Option<LinkAddress>) -> Result<usize, Errno> {
        let rings = &self.packet(key).rings;
        let (Some(ring), Some(memory)) = (rings.send, rings.memory) else { return Err(Errno::EINVAL) };
        let (version, base) = (rings.version, rings.send_offset());
        let mut sent = 0;
        for _ in 0..ring.frames {
            let head = self.packet(key).rings.send_head;
            let at = base + ring.frame_at(head);
            // Version 3 has its status behind `next`, time stamps and lengths.
            let (status_at, len_at) = match version {
                Version::V1 => (at, at + 8),
                Version::V2 => (at, at + 4),
                Version::V3 => (at + 20, at + 16),
            };
            if word_at(&*self.machine, memory, status_at) != SEND_REQUEST {
                break;
            }
            let len = word_at(&*self.machine, memory, len_at) as usize;
            let start = version.packet_header_len();
            let mut data = vec![0; len.min(ring.frame_size)];
            let read = self.machine.read_at(memory, at + start as u64, &mut data);
            let result = match start + len <= ring.frame_size && read.is_ok() {
                true => self.packet_send(key, name, data),
                false => Err(Errno::EMSGSIZE),
            };
            let status =
                if matches!(result, Err(Errno::EMSGSIZE | Errno::EINVAL)) { WRONG_FORMAT } else { KERNEL };
            if let Err(errno) = result {
                self.ring_write(memory, status_at, &status.to_ne_bytes());
                return Err(errno);
            }
            self.ring_write(memory, status_at, &status.to_ne_bytes());
            self.packet(key).rings.send_head = (head + 1) % ring.frames;
            sent += len;
        }
        self.net.flush_network();
        self.net.notify_socket(key, WRITABLE);
        Ok(sent)
    }
}

/// Where the parts of a packet go in its frame.
struct Place {
    mac: usize,
    network: usize,
    kept: usize,
    stamp: u64,
    /// The greatest length of the frame.
    room: usize,
}

impl Place {
    /// The frame: header, `struct sockaddr_ll`, the packet's bytes.
    fn frame(&self, version: Version, status: u32, next: u32, frame: &Frame) -> Vec<u8> {
        let mut body = vec![0; self.mac + self.kept];
        let (secs, nanos) = ((self.stamp / 1_000_000_000) as u32, (self.stamp % 1_000_000_000) as u32);
        let (len, kept) = (frame.len as u32, self.kept as u32);
        let offsets = u32::from(self.mac as u16) | u32::from(self.network as u16) << 16;
        let words: Vec<u32> = match version {
            Version::V1 => vec![status, 0, len, kept, offsets, secs, nanos / 1_000],
            Version::V2 => vec![status, len, kept, offsets, secs, nanos],
            Version::V3 => vec![next, secs, nanos, kept, len, status, offsets],
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
