//! Rings of frames in memory shared with a program, `PACKET_RX_RING` and `PACKET_TX_RING`, versions 1 to 3.
//!
//! The receive ring and the send ring of a socket are adjacent in one shared memory object. A status word at
//! the start of each frame (version 3: of each block) gives its owner. The kernel fills frames that it owns
//! and passes them to the program, which passes them back without notifying the kernel; the kernel reads the
//! status before each use.

use super::LinkAddress;
use crate::host::Host;
use crate::ids::SocketKey;
use crate::mm::map::MapSource;
use crate::net::own::OwnKind;
use crate::timer::TimerAction;
use belljar_base::SimDuration;
use belljar_linux_abi::Errno;
use belljar_linux_net::socket_inode;
use belljar_machine::{Machine, NativeFile};
use belljar_netstack::readiness::{READABLE, WRITABLE};
use belljar_objects::packet_ring::{
    ALIGNMENT, BLOCK_TIMEOUT, DEFAULT_TIMEOUT, FramePlace, KERNEL, RingBlock, RingRequest, RingVersion,
    SEND_REQUEST, WRONG_FORMAT, block_header_len, word_at,
};
use belljar_objects::packet_sockets::{Frame, status};
use belljar_objects::space::mappings_of;

/// Device number of ring mappings in `/proc/.../maps`.
const DEVICE: u64 = 0x07;

impl Host {
    /// `PACKET_RX_RING` and `PACKET_TX_RING`; a request with 0 blocks removes the ring.
    pub(super) fn set_ring(&mut self, key: SocketKey, send: bool, request: RingRequest) -> Result<(), Errno> {
        let inode = socket_inode(&self.net, key);
        if mappings_of(&self.spaces, (DEVICE, inode)).next().is_some() {
            return Err(Errno::EBUSY);
        }
        let packet = self.own.packet(key);
        if packet.offload > 0 && request.blocks > 0 && send {
            self.warn("PACKET_TX_RING of packet sockets with PACKET_VNET_HDR is not supported");
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
        // The memory is replaced, and the current block is discarded with it.
        let timer = rings.block.timer.take();
        match send {
            true => (rings.send, rings.send_head) = (ring, 0),
            false => (rings.receive, rings.head, rings.block) = (ring, 0, RingBlock::default()),
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
            self.own.packet(key).rings.memory = Some(memory);
            self.open_block(key);
        }
        Ok(())
    }

    /// Releases the rings of a closed socket; existing mappings remain until they are unmapped.
    pub(super) fn drop_rings(&mut self, key: SocketKey) {
        let rings = std::mem::take(&mut self.own.packet(key).rings);
        if let Some(timer) = rings.block.timer {
            self.timers.cancel(timer);
        }
        if let Some(memory) = rings.memory {
            self.machine.close(memory);
        }
    }

    /// Source for `mmap(2)` of a packet socket: both rings. `EINVAL` unless the whole object is mapped.
    pub(crate) fn packet_ring_source(
        &mut self,
        key: SocketKey,
        len: u64,
        offset: u64,
    ) -> Result<MapSource, Errno> {
        let inode = socket_inode(&self.net, key);
        let Some(OwnKind::Packet(packet)) = self.own.get_mut(key) else { return Err(Errno::ENODEV) };
        let rings = &mut packet.rings;
        let bytes = rings.send_offset() + rings.send.map_or(0, |ring| ring.bytes());
        let native = rings.memory.filter(|_| len == bytes && offset == 0).ok_or(Errno::EINVAL)?;
        let path = format!("socket:[{inode}]").into_bytes().into();
        Ok(MapSource { native, offset: 0, path, identity: (DEVICE, inode), file: None, may_write: true })
    }

    /// Stores a frame in the receive ring (`tpacket_rcv`).
    pub(super) fn ring_receive(&mut self, key: SocketKey, frame: Frame, stamp: u64) {
        let packet = self.own.packet(key);
        let (offload, rings) = (packet.offload, &packet.rings);
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
                // The `PACKET_VNET_HDR` header immediately precedes the frame; all zero, since no offload
                // work is left.
                let at = (header + link_len.max(16)).next_multiple_of(ALIGNMENT) + reserve + offload;
                (at - link_len, at)
            }
        };
        let room = match version {
            RingVersion::V3 => ring.block_size - block_header_len(ring.private),
            _ => ring.frame_size,
        };
        let kept = frame.bytes.len().min(room.saturating_sub(mac));
        // A frame that would begin beyond the end is stored empty; in a version 3 block its offset must be in
        // the block too.
        let mac = if version == RingVersion::V3 { mac.min(room) } else { mac };
        let place = FramePlace { mac, network, kept, stamp, room };
        if version == RingVersion::V3 {
            return self.ring_receive_v3(key, &frame, &place);
        }
        let at = ring.frame_at(head);
        if word_at(&*self.machine, memory, at) != KERNEL {
            return self.own.packet(key).drop_one();
        }
        let packet = self.own.packet(key);
        packet.rings.head = (head + 1) % ring.frames;
        let status = packet.status(false);
        let body = place.frame(version, status, 0, &frame);
        // The status word, which passes the frame to the program, is written last.
        ring_write(&mut *self.machine, memory, at + 8, &body[8..]);
        ring_write(&mut *self.machine, memory, at, &body[..8]);
        self.net.effects.notify_socket(key, READABLE);
    }

    fn ring_receive_v3(&mut self, key: SocketKey, frame: &Frame, place: &FramePlace) {
        let len = (place.mac + place.kept).next_multiple_of(8);
        let rings = &self.own.packet(key).rings;
        let Some(ring) = rings.receive else { return };
        if rings.block.frozen {
            self.open_block(key);
        } else if rings.block.end + len > ring.block_size {
            self.retire_block(key, 0);
        }
        let rings = &mut self.own.packet(key).rings;
        let (Some(memory), head) = (rings.memory, rings.head) else { return };
        let block = &mut rings.block;
        if block.frozen {
            return self.own.packet(key).drop_one();
        }
        let at = (head * ring.block_size) as u64;
        let (start, last, first) = (block.end, block.last, block.packets == 0);
        if first {
            block.first_stamp = place.stamp;
        }
        (block.last, block.end, block.last_stamp) = (start, start + len, place.stamp);
        block.packets += 1;
        if !first {
            // Link from the previous packet, `tp_next_offset`.
            ring_write(&mut *self.machine, memory, at + last as u64, &((start - last) as u32).to_ne_bytes());
        }
        let status = self.own.packet(key).status(false);
        let body = place.frame(RingVersion::V3, status, 0, frame);
        ring_write(&mut *self.machine, memory, at + start as u64, &body);
        if first {
            let timeout = match ring.timeout_ms {
                0 => DEFAULT_TIMEOUT,
                ms => SimDuration::from_millis(ms.into()),
            };
            let timer = self.set_timer(self.net.clock.now() + timeout, TimerAction::PacketBlock(key));
            self.own.packet(key).rings.block.timer = Some(timer);
        }
    }

    /// The retire timeout of the current block has expired.
    pub(crate) fn packet_block_timer(&mut self, key: SocketKey) {
        self.own.packet(key).rings.block.timer = None;
        self.retire_block(key, BLOCK_TIMEOUT);
    }

    /// Passes the current block to the program and opens the next one.
    fn retire_block(&mut self, key: SocketKey, why: u32) {
        let rings = &mut self.own.packet(key).rings;
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
        ring_write(&mut *self.machine, memory, at + 12, &header);
        ring_write(&mut *self.machine, memory, at + 8, &(status::USER | why).to_ne_bytes());
        self.net.effects.notify_socket(key, READABLE);
        self.open_block(key);
    }

    /// Opens the next block of a version 3 ring; freezes the ring if the program still owns that block.
    fn open_block(&mut self, key: SocketKey) {
        let rings = &mut self.own.packet(key).rings;
        let (Some(ring), Some(memory), RingVersion::V3) = (rings.receive, rings.memory, rings.version) else {
            return;
        };
        let at = (rings.head * ring.block_size) as u64;
        let was_frozen = rings.block.frozen;
        let sequence = rings.block.sequence;
        if word_at(&*self.machine, memory, at + 8) != KERNEL {
            let rings = &mut self.own.packet(key).rings;
            rings.freezes += u32::from(!was_frozen);
            rings.block.frozen = true;
            return;
        }
        let start = block_header_len(ring.private);
        self.own.packet(key).rings.block =
            RingBlock { end: start, last: start, sequence: sequence + 1, ..RingBlock::default() };
        let version = RingVersion::V3 as u32;
        let mut header = version.to_ne_bytes().to_vec();
        header.extend_from_slice(&48u32.to_ne_bytes());
        ring_write(&mut *self.machine, memory, at, &header);
    }

    /// Transmits the frames that the program has queued in the send ring; returns the number of bytes.
    pub(super) fn ring_send(&mut self, key: SocketKey, name: Option<LinkAddress>) -> Result<usize, Errno> {
        let rings = &self.own.packet(key).rings;
        let (Some(ring), Some(memory)) = (rings.send, rings.memory) else { return Err(Errno::EINVAL) };
        let (version, base) = (rings.version, rings.send_offset());
        let mut sent = 0;
        for _ in 0..ring.frames {
            let head = self.own.packet(key).rings.send_head;
            let at = base + ring.frame_at(head);
            // In version 3 the status follows `next`, the time stamps and the lengths.
            let (status_at, len_at) = match version {
                RingVersion::V1 => (at, at + 8),
                RingVersion::V2 => (at, at + 4),
                RingVersion::V3 => (at + 20, at + 16),
            };
            if word_at(&*self.machine, memory, status_at) != SEND_REQUEST {
                break;
            }
            let len = word_at(&*self.machine, memory, len_at) as usize;
            let start = version.packet_header_len();
            let mut data = vec![0; len.min(ring.frame_size)];
            let read = self.machine.read_at(memory, at + start as u64, &mut data);
            let result = match start + len <= ring.frame_size && read.is_ok() {
                true => self.packet_send(key, name, data, (None, None)),
                false => Err(Errno::EMSGSIZE),
            };
            let status =
                if matches!(result, Err(Errno::EMSGSIZE | Errno::EINVAL)) { WRONG_FORMAT } else { KERNEL };
            if let Err(errno) = result {
                ring_write(&mut *self.machine, memory, status_at, &status.to_ne_bytes());
                return Err(errno);
            }
            ring_write(&mut *self.machine, memory, status_at, &status.to_ne_bytes());
            self.own.packet(key).rings.send_head = (head + 1) % ring.frames;
            sent += len;
        }
        let network = self.net.socket(key).network;
        self.stack_mut(network).flush_network();
        self.net.effects.notify_socket(key, WRITABLE);
        Ok(sent)
    }
}

fn ring_write(machine: &mut dyn Machine, memory: NativeFile, at: u64, bytes: &[u8]) {
    // Writes to the host's own shared memory do not fail.
    let _ = machine.write_at(memory, at, bytes);
}
