//! Provided buffers, from which a request selects one when its data arrives. The program provides buffers one
//! by one (`IORING_OP_PROVIDE_BUFFERS`) or in a ring in memory (`IORING_REGISTER_PBUF_RING`).

use crate::entry::SubmissionEntry;
use crate::instance::Urings;
use belljar_linux_abi::Errno;
use belljar_machine::NativeFile;
use smallvec::SmallVec;
use std::collections::VecDeque;

/// `sizeof(struct io_uring_buf)`.
pub const ENTRY_LEN: u64 = 16;
/// Offset of the tail in the first entry of a buffer ring, `struct io_uring_buf_ring`.
const TAIL_AT: u64 = 14;
/// Maximum number of buffers in a group.
pub const MOST: u32 = 1 << 16;

/// Provided buffer.
#[derive(Clone, Copy, Debug)]
pub struct Provided {
    /// Address.
    pub addr: u64,
    /// Length in bytes.
    pub len: u32,
    /// Buffer id.
    pub id: u16,
}

/// Memory of a buffer ring.
#[derive(Clone, Copy, Debug)]
pub enum BufferPlace {
    /// Guest memory at this address.
    Guest(u64),
    /// Memory allocated by the instance and mapped by the program (`IOU_PBUF_RING_MMAP`).
    Own(NativeFile),
}

/// Buffer ring, `IORING_REGISTER_PBUF_RING`.
#[derive(Clone, Copy, Debug)]
pub struct BufferRing {
    /// Memory of the ring.
    pub place: BufferPlace,
    /// Number of entries.
    pub entries: u16,
    /// Head: number of buffers consumed, modulo 2^16.
    pub head: u16,
    /// True if buffers are consumed in parts (`IOU_PBUF_RING_INC`).
    pub incremental: bool,
}

/// Buffers of one group.
#[derive(Debug)]
pub enum BufferGroup {
    /// Buffers provided by requests, in order of use.
    List(VecDeque<Provided>),
    /// Buffer ring.
    Ring(BufferRing),
}

/// Limits of a selection.
#[derive(Clone, Copy, Debug)]
pub struct SelectionLimits {
    /// Maximum number of bytes; 0 for no limit.
    pub bytes: u64,
    /// Maximum number of buffers.
    pub buffers: usize,
}

/// Buffers selected for a request; none is consumed yet.
#[derive(Clone, Debug)]
pub struct Selection {
    /// Buffers, the last one cut to the wanted length.
    pub buffers: SmallVec<[Provided; 1]>,
    /// True if no further buffer is left in the ring.
    pub empties: bool,
}

impl Selection {
    /// Number of buffers that hold the first `bytes` bytes.
    fn covering(&self, bytes: u64) -> u16 {
        let mut rest = bytes;
        let mut count = 0;
        for buffer in &self.buffers {
            count += 1;
            if rest <= u64::from(buffer.len) {
                break;
            }
            rest -= u64::from(buffer.len);
        }
        count
    }
}

/// Memory of a buffer ring: reads and writes at offsets.
pub trait RingMemory {
    /// Reads bytes at an offset.
    fn read(&self, at: u64, out: &mut [u8]) -> Result<(), Errno>;
    /// Writes bytes at an offset.
    fn write(&mut self, at: u64, bytes: &[u8]) -> Result<(), Errno>;
}

impl BufferRing {
    fn offset(&self, head: u16) -> u64 {
        u64::from(head & (self.entries - 1)) * ENTRY_LEN
    }
    fn buffer(&self, memory: &impl RingMemory, head: u16) -> Result<Provided, Errno> {
        let mut entry = [0; ENTRY_LEN as usize];
        memory.read(self.offset(head), &mut entry)?;
        let word = |at: usize| u32::from_ne_bytes(entry[at..at + 4].try_into().expect("four bytes"));
        let addr = u64::from(word(0)) | u64::from(word(4)) << 32;
        Ok(Provided { addr, len: word(8), id: word(12) as u16 })
    }

    /// Selects buffers from the head on. `ENOBUFS` if there is none.
    pub fn select(&self, wanted: SelectionLimits, memory: &mut impl RingMemory) -> Result<Selection, Errno> {
        let mut tail = [0; 2];
        memory.read(TAIL_AT, &mut tail)?;
        let tail = u16::from_ne_bytes(tail);
        let mut left = if wanted.bytes == 0 { u64::from(i32::MAX as u32) } else { wanted.bytes };
        let (mut head, mut buffers) = (self.head, SmallVec::new());
        while head != tail && left > 0 && buffers.len() < wanted.buffers.max(1) {
            let mut buffer = self.buffer(memory, head)?;
            if u64::from(buffer.len) > left {
                // Within a bundle, a buffer that would be used in part ends it, unless it is consumed in parts.
                if !self.incremental && !buffers.is_empty() {
                    break;
                }
                buffer.len = left as u32;
                if !self.incremental && wanted.buffers > 1 {
                    memory.write(self.offset(head) + 8, &buffer.len.to_ne_bytes())?;
                }
            }
            left -= u64::from(buffer.len);
            buffers.push(buffer);
            head = head.wrapping_add(1);
        }
        if buffers.is_empty() {
            Err(Errno::ENOBUFS)
        } else {
            Ok(Selection { buffers, empties: head == tail })
        }
    }

    /// Consumes `bytes` bytes of a selection. Returns false if the last buffer is only partly consumed, so that
    /// later requests continue in it.
    pub fn commit(
        &mut self,
        selection: &Selection,
        bytes: u64,
        memory: &mut impl RingMemory,
    ) -> Result<bool, Errno> {
        if !self.incremental {
            self.head = self.head.wrapping_add(selection.covering(bytes));
            return Ok(true);
        }
        if bytes == 0 {
            return Ok(false);
        }
        let mut rest = bytes;
        while rest > 0 {
            let buffer = self.buffer(memory, self.head)?;
            let part = rest.min(u64::from(buffer.len)) as u32;
            let at = self.offset(self.head);
            let left = buffer.len - part;
            if left > 0 || part == 0 {
                memory.write(at, &(buffer.addr + u64::from(part)).to_ne_bytes())?;
                memory.write(at + 8, &left.to_ne_bytes())?;
                return Ok(false);
            }
            memory.write(at + 8, &0u32.to_ne_bytes())?;
            self.head = self.head.wrapping_add(1);
            rest -= u64::from(part);
        }
        Ok(true)
    }
}

/// Memory of a ring that the program maps, and its length in bytes.
pub fn mapped(group: &BufferGroup) -> Option<(NativeFile, u64)> {
    match *group {
        BufferGroup::Ring(BufferRing { place: BufferPlace::Own(memory), entries, .. }) => {
            Some((memory, (u64::from(entries) * ENTRY_LEN).next_multiple_of(4_096)))
        }
        _ => None,
    }
}

impl Urings {
    /// `IORING_OP_PROVIDE_BUFFERS`.
    pub fn provide_buffers(&mut self, n: usize, entry: &SubmissionEntry) -> Result<i32, Errno> {
        let count = entry.fd as u32;
        if entry.op_flags != 0 || entry.file_index != 0 || entry.len == 0 {
            return Err(Errno::EINVAL);
        }
        if count == 0 || count > MOST || entry.off >= u64::from(MOST) {
            return Err(Errno::E2BIG);
        }
        let first = entry.off as u32;
        if first + count > MOST {
            return Err(Errno::EINVAL);
        }
        let group = self.instances[n].groups.entry(entry.buffer);
        let BufferGroup::List(list) = group.or_insert_with(|| BufferGroup::List(VecDeque::new())) else {
            return Err(Errno::EINVAL);
        };
        list.extend((0..count).map(|n| Provided {
            addr: entry.addr + u64::from(n) * u64::from(entry.len),
            len: entry.len,
            id: (first + n) as u16,
        }));
        Ok(0)
    }

    /// `IORING_OP_REMOVE_BUFFERS`: returns the number of removed buffers.
    pub fn remove_buffers(&mut self, n: usize, entry: &SubmissionEntry) -> Result<i32, Errno> {
        let count = entry.fd as u32;
        let others = [u64::from(entry.op_flags), entry.addr, u64::from(entry.len), entry.off];
        if others.iter().any(|n| *n != 0) || entry.file_index != 0 || count == 0 || count > MOST {
            return Err(Errno::EINVAL);
        }
        match self.instances[n].groups.get_mut(&entry.buffer) {
            Some(BufferGroup::List(list)) => Ok(list.drain(..list.len().min(count as usize)).len() as i32),
            Some(BufferGroup::Ring(_)) => Err(Errno::EINVAL),
            None => Err(Errno::ENOENT),
        }
    }

    /// `IORING_REGISTER_PBUF_STATUS`: returns the head of a buffer ring.
    pub fn buffer_ring_head(&self, n: usize, group: u16) -> Result<u32, Errno> {
        match self.instances[n].groups.get(&group) {
            None => Err(Errno::ENOENT),
            Some(BufferGroup::List(_)) => Err(Errno::EINVAL),
            Some(BufferGroup::Ring(ring)) => Ok(u32::from(ring.head)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl RingMemory for Vec<u8> {
        fn read(&self, at: u64, out: &mut [u8]) -> Result<(), Errno> {
            out.copy_from_slice(self.get(at as usize..at as usize + out.len()).ok_or(Errno::EFAULT)?);
            Ok(())
        }
        fn write(&mut self, at: u64, bytes: &[u8]) -> Result<(), Errno> {
            let room = self.get_mut(at as usize..at as usize + bytes.len()).ok_or(Errno::EFAULT)?;
            room.copy_from_slice(bytes);
            Ok(())
        }
    }

    /// Ring of four buffers of 10 bytes, of which `count` are provided.
    fn ring(incremental: bool, count: u16) -> (BufferRing, Vec<u8>) {
        let mut memory = vec![0; 64];
        for n in 0..4u16 {
            let at = u64::from(n) * ENTRY_LEN;
            memory.write(at, &(1_000 * u64::from(n + 1)).to_ne_bytes()).unwrap();
            memory.write(at + 8, &10u32.to_ne_bytes()).unwrap();
            memory.write(at + 12, &(n + 20).to_ne_bytes()).unwrap();
        }
        memory.write(TAIL_AT, &count.to_ne_bytes()).unwrap();
        (BufferRing { place: BufferPlace::Guest(0), entries: 4, head: 0, incremental }, memory)
    }
    fn parts(selection: &Selection) -> Vec<(u64, u32, u16)> {
        selection.buffers.iter().map(|buffer| (buffer.addr, buffer.len, buffer.id)).collect()
    }

    #[test]
    fn a_bundle_leaves_out_a_buffer_that_it_would_use_in_part() {
        let (mut ring, mut memory) = ring(false, 3);
        let selection = ring.select(SelectionLimits { bytes: 25, buffers: 256 }, &mut memory).unwrap();
        assert_eq!(parts(&selection), [(1_000, 10, 20), (2_000, 10, 21)]);
        assert!(!selection.empties);
        assert_eq!(ring.commit(&selection, 11, &mut memory), Ok(true));
        assert_eq!(ring.head, 2);
        let last = ring.select(SelectionLimits { bytes: 0, buffers: 1 }, &mut memory).unwrap();
        assert_eq!((parts(&last), last.empties), (vec![(3_000, 10, 22)], true));
        assert_eq!((ring.commit(&last, 1, &mut memory), ring.head), (Ok(true), 3));
        assert_eq!(
            ring.select(SelectionLimits { bytes: 0, buffers: 1 }, &mut memory).err(),
            Some(Errno::ENOBUFS)
        );
    }
    #[test]
    fn an_incremental_buffer_is_consumed_in_parts() {
        let (mut ring, mut memory) = ring(true, 3);
        let one = SelectionLimits { bytes: 0, buffers: 1 };
        let first = ring.select(one, &mut memory).unwrap();
        assert_eq!((ring.commit(&first, 4, &mut memory), ring.head), (Ok(false), 0));
        let rest = ring.select(one, &mut memory).unwrap();
        assert_eq!(parts(&rest), [(1_004, 6, 20)]);
        // Nothing read leaves the buffer in use.
        assert_eq!(ring.commit(&rest, 0, &mut memory), Ok(false));
        assert_eq!((ring.commit(&rest, 6, &mut memory), ring.head), (Ok(true), 1));
        let both = ring.select(SelectionLimits { bytes: 15, buffers: 256 }, &mut memory).unwrap();
        assert_eq!(parts(&both), [(2_000, 10, 21), (3_000, 5, 22)]);
        assert_eq!((ring.commit(&both, 15, &mut memory), ring.head), (Ok(false), 2));
    }
    #[test]
    fn memory_that_cannot_be_read_is_an_error() {
        let (ring, _) = ring(false, 3);
        assert_eq!(
            ring.select(SelectionLimits { bytes: 0, buffers: 1 }, &mut Vec::new()).err(),
            Some(Errno::EFAULT)
        );
    }
}
