//! Receive ring with one slot per frame (`TPACKET_V2`).

use super::ring::{self, Delivery, Header};
use crate::Result;
use crate::interface::Interface;
use crate::offload::VNET_LEN;
use crate::sys::Mapping;
use libc::tpacket2_hdr;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicU32, Ordering};

const BLOCK: usize = 1 << 16;
const MIN_SLOT: usize = 2048;
const MAX_SLOT: usize = 1 << 14;
/// Maximum size of the kernel's headers before a frame in a slot.
const HEADROOM: usize = 128;
/// Buffer size for a frame longer than a slot: 64 KiB of packet with headers.
const LONG_FRAME: usize = (1 << 16) + 256;
/// Socket memory for frames longer than a slot.
const LONG_FRAMES: libc::c_int = 16 << 20;

#[derive(Debug)]
pub(super) struct FrameRing {
    memory: Mapping,
    /// Slot size in bytes.
    slot: usize,
    slots: usize,
    /// Capacity in frames, in slots or socket memory.
    room: usize,
    next: usize,
    /// Buffer for a frame longer than a slot.
    long: Box<[u8]>,
}

/// Slot size in bytes for frames of up to `max_frame` bytes.
pub fn slot_len(max_frame: usize) -> usize {
    (max_frame + HEADROOM).next_power_of_two().clamp(MIN_SLOT, MAX_SLOT)
}

impl FrameRing {
    pub fn map(interface: &Interface, fd: BorrowedFd<'_>, bytes: usize) -> Result<FrameRing> {
        let slot = slot_len(interface.max_frame());
        let bytes = bytes.clamp(BLOCK, 1 << 30).next_multiple_of(BLOCK);
        let request = libc::tpacket_req {
            tp_block_size: BLOCK as u32,
            tp_block_nr: (bytes / BLOCK) as u32,
            tp_frame_size: slot as u32,
            tp_frame_nr: (bytes / slot) as u32,
        };
        let memory = ring::map(interface, fd, libc::tpacket_versions::TPACKET_V2, request, bytes)?;
        let failed = |e| interface.failed("keeping frames that are longer than a slot", e);
        crate::sys::set_option(fd, libc::SOL_PACKET, libc::PACKET_COPY_THRESH, 1).map_err(failed)?;
        // Exceeds the limit for ordinary users, where allowed.
        crate::sys::set_option(fd, libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, LONG_FRAMES)
            .or_else(|_| crate::sys::set_option(fd, libc::SOL_SOCKET, libc::SO_RCVBUF, LONG_FRAMES))
            .map_err(failed)?;
        // Frames longer than a slot are queued in the socket's memory, which is small without root.
        let option = crate::sys::option::<libc::c_int>(fd, libc::SOL_SOCKET, libc::SO_RCVBUF);
        let memory_of_long = option.map_or(0, |bytes| bytes.max(0) as usize);
        let long = vec![0; VNET_LEN + LONG_FRAME].into_boxed_slice();
        // The slot size divides the block size, so slots are contiguous in the ring.
        Ok(FrameRing {
            memory,
            slot,
            slots: bytes / slot,
            room: bytes.min(memory_of_long) / slot,
            next: 0,
            long,
        })
    }

    /// Capacity in frames of usual length.
    pub fn room(&self) -> usize {
        self.room
    }

    /// Number of slots that the kernel has filled and that were not delivered.
    pub fn filled(&self) -> u64 {
        let is_filled = |slot: &usize| {
            let slot = self.memory.at(*slot * self.slot, self.slot);
            // SAFETY: a slot starts with its status, at an aligned address, which the kernel writes at any time.
            let status = unsafe { &*slot.cast::<AtomicU32>() };
            status.load(Ordering::Acquire) & libc::TP_STATUS_USER != 0
        };
        (0..self.slots).filter(is_filled).count() as u64
    }

    /// Delivers up to `limit` frames and returns their slots to the kernel. Returns the number of frames.
    pub fn receive(&mut self, fd: BorrowedFd<'_>, limit: usize, delivery: &mut Delivery<'_>) -> usize {
        let mut received = 0;
        while received < limit {
            let slot = self.memory.at(self.next * self.slot, self.slot);
            // SAFETY: a slot starts with its status, at an aligned address, which the kernel writes at any time.
            let status = unsafe { &*slot.cast::<AtomicU32>() };
            if status.load(Ordering::Acquire) & libc::TP_STATUS_USER == 0 {
                break;
            }
            // SAFETY: the slot is ours until its status says otherwise, and starts with a header.
            let header = unsafe { slot.cast::<tpacket2_hdr>().read() };
            received += self.deliver(fd, slot, &header, delivery);
            status.store(libc::TP_STATUS_KERNEL, Ordering::Release);
            self.next = (self.next + 1) % self.slots;
        }
        received
    }

    fn deliver(
        &mut self,
        fd: BorrowedFd<'_>,
        slot: *mut u8,
        header: &tpacket2_hdr,
        delivery: &mut Delivery<'_>,
    ) -> usize {
        let common = Header {
            status: header.tp_status,
            len: header.tp_len,
            snaplen: header.tp_snaplen,
            seconds: header.tp_sec,
            nanos: header.tp_nsec,
            tag_control: header.tp_vlan_tci,
            tag_protocol: header.tp_vlan_tpid,
        };
        if common.status & libc::TP_STATUS_COPY != 0 {
            return match rustix::net::recv(fd, &mut self.long[..], rustix::net::RecvFlags::TRUNC) {
                Ok((len, whole)) if whole <= self.long.len() => {
                    delivery.deliver(&mut self.long[..len], &common)
                }
                _ => {
                    delivery.counters.dropped_kernel += 1;
                    0
                }
            };
        }
        let (mac, len) = (usize::from(header.tp_mac), common.snaplen as usize);
        if common.snaplen < common.len || mac < VNET_LEN || mac + len > self.slot {
            // The kernel lacked memory for the whole of a long frame.
            delivery.counters.dropped_kernel += 1;
            return 0;
        }
        // SAFETY: these bytes lie inside the slot, which is ours, and nothing else borrows from it.
        let buffer = unsafe { std::slice::from_raw_parts_mut(slot.add(mac - VNET_LEN), VNET_LEN + len) };
        delivery.deliver(buffer, &common)
    }
}
