//! Receive ring of blocks with packed frames (`TPACKET_V3`).

use super::ring::{self, Delivery, Header};
use crate::interface::Interface;
use crate::offload::VNET_LEN;
use crate::sys::Mapping;
use crate::{Error, Result};
use libc::{tpacket_hdr_v1, tpacket3_hdr};
use std::mem::offset_of;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicU32, Ordering};

/// Block size in bytes: several times the longest frame.
const BLOCK: usize = 1 << 18;
/// Offset of the block header, after the version and the offset of private data.
const BLOCK_HEADER: usize = offset_of!(libc::tpacket_block_desc, hdr);

#[derive(Debug)]
pub(super) struct BlockRing {
    memory: Mapping,
    blocks: usize,
    block: usize,
    /// Frames left in the current block; `None` if the kernel owns the block.
    left: Option<u32>,
    /// Offset of the next frame header in the block.
    offset: usize,
}

impl BlockRing {
    pub fn map(
        interface: &Interface,
        fd: BorrowedFd<'_>,
        bytes: usize,
        timeout_ms: u32,
    ) -> Result<BlockRing> {
        if timeout_ms == 0 {
            // The kernel would derive a timeout from the link speed, and none for a veth.
            let what = "a ring of blocks needs a timeout of at least 1 ms".to_string();
            return Err(Error::Invalid { name: interface.name().to_string(), what });
        }
        let bytes = bytes.clamp(2 * BLOCK, 1 << 30).next_multiple_of(BLOCK);
        let request = libc::tpacket_req3 {
            tp_block_size: BLOCK as u32,
            tp_block_nr: (bytes / BLOCK) as u32,
            tp_frame_size: 2048,
            tp_frame_nr: (bytes / 2048) as u32,
            tp_retire_blk_tov: timeout_ms,
            tp_sizeof_priv: 0,
            tp_feature_req_word: 0,
        };
        let memory = ring::map(interface, fd, libc::tpacket_versions::TPACKET_V3, request, bytes)?;
        Ok(BlockRing { memory, blocks: bytes / BLOCK, block: 0, left: None, offset: 0 })
    }

    /// Delivers up to `limit` frames and returns consumed blocks to the kernel. Returns the number of frames.
    pub fn receive(&mut self, limit: usize, delivery: &mut Delivery<'_>) -> usize {
        let mut received = 0;
        while received < limit {
            let block = self.memory.at(self.block * BLOCK, BLOCK);
            // SAFETY: the header lies inside the block.
            let header = unsafe { block.add(BLOCK_HEADER) };
            // SAFETY: the header starts with its status, at an aligned address, which the kernel writes at any time.
            let status = unsafe { &*header.cast::<AtomicU32>() };
            let left = match self.left {
                Some(left) => left,
                None if status.load(Ordering::Acquire) & libc::TP_STATUS_USER == 0 => break,
                None => {
                    // SAFETY: the block is ours until its status says otherwise.
                    let header = unsafe { header.cast::<tpacket_hdr_v1>().read() };
                    self.offset = header.offset_to_first_pkt as usize;
                    header.num_pkts
                }
            };
            if left == 0 {
                self.left = None;
                status.store(libc::TP_STATUS_KERNEL, Ordering::Release);
                self.block = (self.block + 1) % self.blocks;
                continue;
            }
            received += self.deliver(delivery);
            self.left = Some(left - 1);
        }
        received
    }

    /// Delivers the next frame of the current block.
    fn deliver(&mut self, delivery: &mut Delivery<'_>) -> usize {
        let room = BLOCK - self.offset;
        let at = self.memory.at(self.block * BLOCK + self.offset, room.max(size_of::<tpacket3_hdr>()));
        // SAFETY: the block is ours, and the kernel put a header at this offset, 8-byte aligned.
        let header = unsafe { at.cast::<tpacket3_hdr>().read() };
        self.offset += header.tp_next_offset as usize;
        let common = Header {
            status: header.tp_status,
            len: header.tp_len,
            snaplen: header.tp_snaplen,
            seconds: header.tp_sec,
            nanos: header.tp_nsec,
            tag_control: header.hv1.tp_vlan_tci as u16,
            tag_protocol: header.hv1.tp_vlan_tpid,
        };
        let (mac, len) = (usize::from(header.tp_mac), common.snaplen as usize);
        if common.snaplen < common.len || mac < VNET_LEN || mac + len > room {
            delivery.counters.dropped_port += 1;
            return 0;
        }
        // SAFETY: these bytes lie inside the block, which is ours, and nothing else borrows from it.
        let buffer = unsafe { std::slice::from_raw_parts_mut(at.add(mac - VNET_LEN), VNET_LEN + len) };
        delivery.deliver(buffer, &common)
    }
}
