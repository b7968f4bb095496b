//! Provided buffers, from which requests select one when data is available: added one by one
//! (`IORING_OP_PROVIDE_BUFFERS`) or through a ring in memory (`IORING_REGISTER_PBUF_RING`).

use crate::host::Host;
use belljar_linux_abi::Errno;
use belljar_machine::Machine;
use belljar_objects::space::Access;
use belljar_uring::buffers::{BufferGroup, BufferPlace, ENTRY_LEN, MOST, Provided, TAIL_AT};

impl Host {
    fn ring_bytes(&self, n: usize, place: BufferPlace, at: u64, out: &mut [u8]) -> Result<(), Errno> {
        match place {
            BufferPlace::Guest(addr) => {
                let process = self.urings.instances[n].process;
                self.read_guest(process, addr + at, out)
            }
            BufferPlace::Own(memory) => self.machine.peek_at(memory, at, out).map(|_| ()),
        }
    }

    /// Next buffer of a group, which is not consumed yet. `ENOBUFS` if there is none.
    pub(super) fn first_buffer(&self, n: usize, group: u16) -> Result<Provided, Errno> {
        match self.urings.instances[n].groups.get(&group) {
            Some(BufferGroup::List(list)) => list.front().copied().ok_or(Errno::ENOBUFS),
            Some(&BufferGroup::Ring { place, entries, head }) => {
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

    /// `IORING_REGISTER_PBUF_RING`: registers a group of `entries` at `addr`, or in memory that the program
    /// maps later.
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
            Some(BufferGroup::List(list)) if list.is_empty() => {}
            Some(_) => return Err(Errno::EEXIST),
            None => {}
        }
        let len = (u64::from(entries) * ENTRY_LEN).next_multiple_of(4_096);
        let place = match mapped_later {
            true => BufferPlace::Own(self.machine.shared_memory(len)?),
            false => {
                // The whole ring must be mapped readable and writable.
                let process = self.urings.instances[n].process;
                let mm = self.processes[process.0].mm.ok_or(Errno::ESRCH)?;
                self.spaces[mm.0].check(addr, u64::from(entries) * ENTRY_LEN, Access::Write)?;
                BufferPlace::Guest(addr)
            }
        };
        let ring = BufferGroup::Ring { place, entries: entries as u16, head: 0 };
        self.urings.instances[n].groups.insert(group, ring);
        Ok(())
    }
    /// `IORING_UNREGISTER_PBUF_RING`.
    pub(crate) fn unregister_buffer_ring(&mut self, n: usize, group: u16) -> Result<(), Errno> {
        let groups = &mut self.urings.instances[n].groups;
        match groups.get(&group) {
            None => Err(Errno::ENOENT),
            Some(BufferGroup::List(_)) => Err(Errno::EINVAL),
            Some(BufferGroup::Ring { place, .. }) => {
                let place = *place;
                groups.remove(&group);
                forget_place(&mut *self.machine, place);
                Ok(())
            }
        }
    }
}

/// Releases the memory of a ring.
pub(super) fn forget_place(machine: &mut dyn Machine, place: BufferPlace) {
    if let BufferPlace::Own(memory) = place {
        machine.close(memory);
    }
}
