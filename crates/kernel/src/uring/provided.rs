//! GuestBuffers that a program provides for requests to choose from once there is something to put into them: one by one
//! (`IORING_OP_PROVIDE_BUFFERS`) or in a ring in memory (`IORING_REGISTER_PBUF_RING`).

use super::SubmissionEntry;
use crate::host::Host;
use crate::mm::Access;
use crate::uring::Urings;
use belljar_linux_abi::Errno;
use belljar_machine::NativeFile;
use std::collections::VecDeque;

/// `sizeof(struct io_uring_buf)`.
const ENTRY_LEN: u64 = 16;
/// Where in the first of them the ring's tail lies, `struct io_uring_buf_ring`.
const TAIL_AT: u64 = 14;
/// GuestBuffers that a group can have.
const MOST: u32 = 1 << 16;

/// One buffer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Provided {
    pub addr: u64,
    pub len: u32,
    pub id: u16,
}

/// The memory of a ring of buffers.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Place {
    /// At an address of the program's.
    Guest(u64),
    /// Memory of the instance's own, which the program maps (`IOU_PBUF_RING_MMAP`).
    Own(NativeFile),
}

/// The buffers of one group.
#[derive(Debug)]
pub(crate) enum Group {
    /// Buffers provided by requests, the first first.
    List(VecDeque<Provided>),
    /// A ring: where it is, how many entries it has, and how many buffers have been used.
    Ring { place: Place, entries: u16, head: u16 },
}

/// The memory of a ring that the program maps, and how much it is.
pub(super) fn mapped(group: &Group) -> Option<(NativeFile, u64)> {
    match *group {
        Group::Ring { place: Place::Own(memory), entries, .. } => {
            Some((memory, (u64::from(entries) * ENTRY_LEN).next_multiple_of(4_096)))
        }
        _ => None,
    }
}

impl Urings {
    /// Takes the next buffer of a group out of it.
    pub(super) fn use_buffer(&mut self, n: usize, group: u16) {
        match self.instances[n].groups.get_mut(&group) {
            Some(Group::List(list)) => {
                list.pop_front();
            }
            Some(Group::Ring { head, .. }) => *head = head.wrapping_add(1),
            None => {}
        }
    }

    /// `IORING_OP_PROVIDE_BUFFERS`.
    pub(super) fn provide_buffers(&mut self, n: usize, entry: &SubmissionEntry) -> Result<i32, Errno> {
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
        let Group::List(list) = group.or_insert_with(|| Group::List(VecDeque::new())) else {
            return Err(Errno::EINVAL);
        };
        list.extend((0..count).map(|n| Provided {
            addr: entry.addr + u64::from(n) * u64::from(entry.len),
            len: entry.len,
            id: (first + n) as u16,
        }));
        Ok(0)
    }

    /// `IORING_OP_REMOVE_BUFFERS`: how many there were.
    pub(super) fn remove_buffers(&mut self, n: usize, entry: &SubmissionEntry) -> Result<i32, Errno> {
        let count = entry.fd as u32;
        let others = [u64::from(entry.op_flags), entry.addr, u64::from(entry.len), entry.off];
        if others.iter().any(|n| *n != 0) || entry.file_index != 0 || count == 0 || count > MOST {
            return Err(Errno::EINVAL);
        }
        match self.instances[n].groups.get_mut(&entry.buffer) {
            Some(Group::List(list)) => Ok(list.drain(..list.len().min(count as usize)).len() as i32),
            Some(Group::Ring { .. }) => Err(Errno::EINVAL),
            None => Err(Errno::ENOENT),
        }
    }

    /// `IORING_REGISTER_PBUF_STATUS`: how many buffers of a ring have been used.
    pub(crate) fn buffer_ring_head(&self, n: usize, group: u16) -> Result<u32, Errno> {
        match self.instances[n].groups.get(&group) {
            None => Err(Errno::ENOENT),
            Some(Group::List(_)) => Err(Errno::EINVAL),
            Some(Group::Ring { head, .. }) => Ok(u32::from(*head)),
        }
    }
}

impl Host {
    fn ring_bytes(&self, n: usize, place: Place, at: u64, out: &mut [u8]) -> Result<(), Errno> {
        match place {
            Place::Guest(addr) => {
                let process = self.urings.instances[n].process;
                self.read_guest(process, addr + at, out)
            }
            Place::Own(memory) => self.machine.peek_at(memory, at, out).map(|_| ()),
        }
    }

    /// The next buffer of a group, which stays there until it is used: `ENOBUFS` if there is none.
    pub(super) fn first_buffer(&self, n: usize, group: u16) -> Result<Provided, Errno> {
        match self.urings.instances[n].groups.get(&group) {
            Some(Group::List(list)) => list.front().copied().ok_or(Errno::ENOBUFS),
            Some(&Group::Ring { place, entries, head }) => {
                let mut tail = [0; 2];
                self.ring_bytes(n, place, TAIL_AT, &mut tail)?;
                if u16::from_ne_bytes(tail) == head {
                    return Err(Errno::ENOBUFS);
                }
                let mut entry = [0; ENTRY_LEN as usize];
                self.ring_bytes(n, place, u64::from(head & (entries - 1)) * ENTRY_LEN, &mut entry)?;
                let word = |at: usize| u32::from_ne_bytes(entry[at..at + 4].try_into().expect("four bytes"));
                let addr = u64::from(word(0)) | u64::from(word(4)) << 32;
                Ok(Provided { addr, len: word(8), id: word(12) as u16 })
            }
            None => Err(Errno::ENOBUFS),
        }
    }

    /// `IORING_REGISTER_PBUF_RING`: a group of `entries` at `addr`, or in memory that the program will map.
    pub(crate) fn register_buffer_ring(
        &mut self,
        n: usize,
        group: u16,
        (addr, entries): (u64, u32),
        mapped_later: bool,
    ) -> Result<(), Errno> {
        if !entries.is_power_of_two() || entries >= MOST {
            return Err(Errno::EINVAL);
        }
        match (mapped_later, addr) {
            (true, 0) => {}
            (false, 0) => return Err(Errno::EFAULT),
            (false, _) if addr.is_multiple_of(4_096) => {}
            _ => return Err(Errno::EINVAL),
        }
        match self.urings.instances[n].groups.get(&group) {
            Some(Group::List(list)) if list.is_empty() => {}
            Some(_) => return Err(Errno::EEXIST),
            None => {}
        }
        let len = (u64::from(entries) * ENTRY_LEN).next_multiple_of(4_096);
        let place = match mapped_later {
            true => Place::Own(self.machine.shared_memory(len)?),
            false => {
                // All of it must be there, to be read and to be written.
                let process = self.urings.instances[n].process;
                let mm = self.processes[process.0].mm.ok_or(Errno::ESRCH)?;
                self.spaces[mm.0].check(addr, u64::from(entries) * ENTRY_LEN, Access::Write)?;
                Place::Guest(addr)
            }
        };
        let ring = Group::Ring { place, entries: entries as u16, head: 0 };
        self.urings.instances[n].groups.insert(group, ring);
        Ok(())
    }
    /// `IORING_UNREGISTER_PBUF_RING`.
    pub(crate) fn unregister_buffer_ring(&mut self, n: usize, group: u16) -> Result<(), Errno> {
        let groups = &mut self.urings.instances[n].groups;
        match groups.get(&group) {
            None => Err(Errno::ENOENT),
            Some(Group::List(_)) => Err(Errno::EINVAL),
            Some(Group::Ring { place, .. }) => {
                let place = *place;
                groups.remove(&group);
                self.forget_place(place);
                Ok(())
            }
        }
    }
    /// Gives back the memory of a ring.
    pub(super) fn forget_place(&mut self, place: Place) {
        if let Place::Own(memory) = place {
            self.machine.close(memory);
        }
    }
}
