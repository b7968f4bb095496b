//! Provided buffers, from which a request selects one when its data arrives. The program provides buffers one
//! by one (`IORING_OP_PROVIDE_BUFFERS`) or in a ring in memory (`IORING_REGISTER_PBUF_RING`).

use crate::entry::SubmissionEntry;
use crate::instance::Urings;
use belljar_linux_abi::Errno;
use belljar_machine::NativeFile;
use std::collections::VecDeque;

/// `sizeof(struct io_uring_buf)`.
pub const ENTRY_LEN: u64 = 16;
/// Offset of the tail in the first entry of a buffer ring, `struct io_uring_buf_ring`.
pub const TAIL_AT: u64 = 14;
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

/// Buffers of one group.
#[derive(Debug)]
pub enum BufferGroup {
    /// Buffers provided by requests, in order of use.
    List(VecDeque<Provided>),
    /// Buffer ring.
    Ring {
        /// Memory of the ring.
        place: BufferPlace,
        /// Number of entries.
        entries: u16,
        /// Head: number of buffers consumed, modulo 2^16.
        head: u16,
    },
}

/// Memory of a ring that the program maps, and its length in bytes.
pub fn mapped(group: &BufferGroup) -> Option<(NativeFile, u64)> {
    match *group {
        BufferGroup::Ring { place: BufferPlace::Own(memory), entries, .. } => {
            Some((memory, (u64::from(entries) * ENTRY_LEN).next_multiple_of(4_096)))
        }
        _ => None,
    }
}

impl Urings {
    /// Consumes the next buffer of a group.
    pub fn use_buffer(&mut self, n: usize, group: u16) {
        match self.instances[n].groups.get_mut(&group) {
            Some(BufferGroup::List(list)) => {
                list.pop_front();
            }
            Some(BufferGroup::Ring { head, .. }) => *head = head.wrapping_add(1),
            None => {}
        }
    }

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
            Some(BufferGroup::Ring { .. }) => Err(Errno::EINVAL),
            None => Err(Errno::ENOENT),
        }
    }

    /// `IORING_REGISTER_PBUF_STATUS`: returns the head of a buffer ring.
    pub fn buffer_ring_head(&self, n: usize, group: u16) -> Result<u32, Errno> {
        match self.instances[n].groups.get(&group) {
            None => Err(Errno::ENOENT),
            Some(BufferGroup::List(_)) => Err(Errno::EINVAL),
            Some(BufferGroup::Ring { head, .. }) => Ok(u32::from(*head)),
        }
    }
}
