//! Provided buffers, from which requests select one when data is available: added one by one
//! (`IORING_OP_PROVIDE_BUFFERS`) or through a ring in memory (`IORING_REGISTER_PBUF_RING`).

use crate::host::Host;
use crate::ids::ProcessKey;
use belljar_linux_abi::Errno;
use belljar_machine::Machine;
use belljar_objects::space::Access;
use belljar_uring::buffers::{
    BufferGroup, BufferPlace, BufferRing, ENTRY_LEN, MOST, RingMemory, Selection, SelectionLimits,
};
use smallvec::SmallVec;

/// `IORING_CQE_F_BUFFER`, the shift of the buffer id in the completion flags, and `IORING_CQE_F_BUF_MORE`.
const BUFFER: u32 = 1;
const BUFFER_SHIFT: u32 = 16;
const BUFFER_MORE: u32 = 16;

/// Memory of a buffer ring, or with [`BufferPlace::Guest`] of 0 that of a process.
pub(crate) struct PlaceMemory<'a> {
    pub host: &'a mut Host,
    pub process: ProcessKey,
    pub place: BufferPlace,
}

impl<'a> PlaceMemory<'a> {
    /// Memory of a process.
    pub(crate) fn of(host: &'a mut Host, process: ProcessKey) -> PlaceMemory<'a> {
        PlaceMemory { host, process, place: BufferPlace::Guest(0) }
    }
}

impl RingMemory for PlaceMemory<'_> {
    fn read(&self, at: u64, out: &mut [u8]) -> Result<(), Errno> {
        match self.place {
            BufferPlace::Guest(addr) => self.host.read_guest(self.process, addr.wrapping_add(at), out),
            BufferPlace::Own(memory) => self.host.machine.peek_at(memory, at, out).map(|_| ()),
        }
    }
    fn write(&mut self, at: u64, bytes: &[u8]) -> Result<(), Errno> {
        match self.place {
            BufferPlace::Guest(addr) => self.host.write_guest(self.process, addr.wrapping_add(at), bytes),
            BufferPlace::Own(memory) => self.host.machine.write_at(memory, at, bytes).map(|_| ()),
        }
    }
}

impl Host {
    /// Next buffers of a group, which are not consumed yet. `ENOBUFS` if there are none.
    pub(super) fn select_buffers(
        &mut self,
        n: usize,
        group: u16,
        wanted: SelectionLimits,
    ) -> Result<Selection, Errno> {
        let process = self.urings.instances[n].process;
        match self.urings.instances[n].groups.get(&group) {
            Some(BufferGroup::List(list)) => {
                let mut buffer = list.front().copied().ok_or(Errno::ENOBUFS)?;
                if wanted.bytes > 0 {
                    buffer.len = buffer.len.min(wanted.bytes as u32);
                }
                Ok(Selection { buffers: SmallVec::from_slice(&[buffer]), empties: list.len() == 1 })
            }
            Some(&BufferGroup::Ring(ring)) => {
                ring.select(wanted, &mut PlaceMemory { host: self, process, place: ring.place })
            }
            None => Err(Errno::ENOBUFS),
        }
    }
    /// Consumes the first `bytes` bytes of selected buffers; returns the flags of the completion.
    pub(super) fn commit_buffers(&mut self, n: usize, group: u16, selection: &Selection, bytes: u64) -> u32 {
        let process = self.urings.instances[n].process;
        let flags = BUFFER | u32::from(selection.buffers[0].id) << BUFFER_SHIFT;
        match self.urings.instances[n].groups.get_mut(&group) {
            Some(BufferGroup::List(list)) => {
                list.pop_front();
            }
            Some(&mut BufferGroup::Ring(mut ring)) => {
                let place = ring.place;
                let whole = ring.commit(selection, bytes, &mut PlaceMemory { host: self, process, place });
                self.urings.instances[n].groups.insert(group, BufferGroup::Ring(ring));
                if whole == Ok(false) {
                    return flags | BUFFER_MORE;
                }
            }
            None => {}
        }
        flags
    }

    /// `IORING_REGISTER_PBUF_RING`: registers a group of `entries` at `addr`, or in memory that the program
    /// maps later.
    pub(crate) fn register_buffer_ring(
        &mut self,
        n: usize,
        group: u16,
        (addr, entries): (u64, u32),
        (mapped_later, incremental): (bool, bool),
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
        let ring = BufferGroup::Ring(BufferRing { place, entries: entries as u16, head: 0, incremental });
        self.urings.instances[n].groups.insert(group, ring);
        Ok(())
    }
    /// `IORING_UNREGISTER_PBUF_RING`.
    pub(crate) fn unregister_buffer_ring(&mut self, n: usize, group: u16) -> Result<(), Errno> {
        let groups = &mut self.urings.instances[n].groups;
        match groups.get(&group) {
            None => Err(Errno::ENOENT),
            Some(BufferGroup::List(_)) => Err(Errno::EINVAL),
            Some(BufferGroup::Ring(ring)) => {
                let place = ring.place;
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
