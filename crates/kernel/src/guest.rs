//! Access to guest memory: checked against the process's mappings, then copied by the machine.

use crate::call::Call;
use crate::host::Host;
use crate::ids::ProcessKey;
use crate::process::Processes;
use belljar_linux_abi::Errno;
use belljar_machine::Machine;
use belljar_netstack::keyed::FURTHER;
use belljar_netstack::{SocketKey, Stack};
use belljar_objects::space::{Access, AddressSpace, PAGE};
use belljar_uring::instance::Urings;
use slab::Slab;
use smallvec::SmallVec;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// `PATH_MAX`, the terminating zero included.
pub const PATH_MAX: usize = 4_096;
/// `UIO_MAXIOV`.
const IOV_MAX: u64 = 1_024;
/// Maximum bytes that one read or write moves, `MAX_RW_COUNT` in Linux.
const MAX_RW_COUNT: u64 = 0x7fff_f000;

/// Buffers in guest memory: address and length of each, in bytes.
pub type GuestBuffers = SmallVec<[(u64, u64); 2]>;

/// Reader of a process's memory that leaves other parts of the host free to borrow.
pub(crate) struct GuestReader<'a> {
    processes: &'a Processes,
    spaces: &'a Slab<AddressSpace>,
    urings: &'a Urings,
    machine: &'a dyn Machine,
    process: ProcessKey,
}

impl GuestReader<'_> {
    /// Copies from the process's memory. `EFAULT` where no readable mapping exists.
    #[inline]
    pub(crate) fn read(&self, addr: u64, out: &mut [u8]) -> Result<(), Errno> {
        if out.is_empty() {
            return Ok(());
        }
        let mm = self.processes[self.process.0].mm.ok_or(Errno::ESRCH)?;
        let mm = &self.spaces[mm.0];
        let read = mm
            .check(addr, out.len() as u64, Access::Read)
            .and_then(|()| self.machine.read(mm.space, addr, out));
        // A pending io_uring request reads the snapshot taken of its arguments at submission.
        if self.urings.read_snapshot(self.process, addr, out) { Ok(()) } else { read }
    }
}

impl Host {
    /// Copies from a process's memory. `EFAULT` where no readable mapping exists.
    pub(crate) fn read_guest(&self, process: ProcessKey, addr: u64, out: &mut [u8]) -> Result<(), Errno> {
        let Host { processes, spaces, urings, machine, .. } = self;
        GuestReader { processes, spaces, urings, machine: &**machine, process }.read(addr, out)
    }
    /// Returns a reader of a process's memory and the stack that holds a socket.
    #[inline]
    pub(crate) fn memory_and_stack(
        &mut self,
        process: ProcessKey,
        key: SocketKey,
    ) -> (GuestReader<'_>, &mut Stack) {
        self.stack_of_mut(key);
        let Host { processes, spaces, urings, machine, net, networks, turn, .. } = self;
        let net = if key.0 < FURTHER { net } else { networks.of(*turn, net) };
        (GuestReader { processes, spaces, urings, machine: &**machine, process }, net)
    }
    /// Copies to a process's memory. `EFAULT` where no writable mapping exists.
    pub(crate) fn write_guest(&mut self, process: ProcessKey, addr: u64, data: &[u8]) -> Result<(), Errno> {
        if data.is_empty() {
            return Ok(());
        }
        let mm = self.processes[process.0].mm.ok_or(Errno::ESRCH)?;
        let mm = &self.spaces[mm.0];
        mm.check(addr, data.len() as u64, Access::Write)?;
        self.machine.write(mm.space, addr, data)
    }
    /// Reads a zero-terminated string of at most `limit` bytes, the terminator not counted; `too_long` if no
    /// terminator is found within them.
    pub(crate) fn read_guest_string(
        &self,
        process: ProcessKey,
        addr: u64,
        limit: usize,
        too_long: Errno,
    ) -> Result<Vec<u8>, Errno> {
        let mut text = Vec::new();
        let mut at = addr;
        loop {
            // Reads never cross a page boundary: the string may end just before an unmapped page.
            let mut chunk = [0u8; 256];
            let room = (0x1000 - at % 0x1000).min(chunk.len() as u64) as usize;
            self.read_guest(process, at, &mut chunk[..room])?;
            if let Some(end) = chunk[..room].iter().position(|b| *b == 0) {
                text.extend_from_slice(&chunk[..end]);
                return if text.len() <= limit { Ok(text) } else { Err(too_long) };
            }
            text.extend_from_slice(&chunk[..room]);
            if text.len() > limit {
                return Err(too_long);
            }
            at += room as u64;
        }
    }
}

/// Checks the size of an extensible structure: `EINVAL` below `least` bytes, `E2BIG` above a page.
pub fn check_extensible(size: u64, least: usize) -> Result<(), Errno> {
    match size {
        size if size < least as u64 => Err(Errno::EINVAL),
        size if size > PAGE => Err(Errno::E2BIG),
        _ => Ok(()),
    }
}

impl Call<'_> {
    /// Fills `out` from the caller's memory.
    pub fn read_bytes(&self, addr: u64, out: &mut [u8]) -> Result<(), Errno> {
        self.host.read_guest(self.process, addr, out)
    }
    /// Reads `len` bytes of the caller's memory.
    pub fn read_vec(&self, addr: u64, len: usize) -> Result<Vec<u8>, Errno> {
        let mut data = vec![0; len];
        self.read_bytes(addr, &mut data)?;
        Ok(data)
    }
    /// Writes `data` to the caller's memory.
    pub fn write_bytes(&mut self, addr: u64, data: &[u8]) -> Result<(), Errno> {
        self.host.write_guest(self.process, addr, data)
    }
    /// Reads a structure from the caller's memory.
    pub fn read<T: FromBytes + IntoBytes + Immutable + KnownLayout>(&self, addr: u64) -> Result<T, Errno> {
        let mut value = T::new_zeroed();
        self.host.read_guest(self.process, addr, value.as_mut_bytes())?;
        Ok(value)
    }
    /// Reads an extensible structure of which the caller supplies `size` bytes (`copy_struct_from_user`):
    /// missing bytes are 0. `EINVAL` below `least` bytes; `E2BIG` above a page or if unknown bytes are not 0.
    pub fn read_extensible<T: FromBytes + IntoBytes + Immutable + KnownLayout>(
        &self,
        addr: u64,
        size: u64,
        least: usize,
    ) -> Result<T, Errno> {
        check_extensible(size, least)?;
        let given = self.read_vec(addr, size as usize)?;
        let (known, later) = given.split_at(given.len().min(size_of::<T>()));
        if later.iter().any(|byte| *byte != 0) {
            return Err(Errno::E2BIG);
        }
        let mut value = T::new_zeroed();
        value.as_mut_bytes()[..known.len()].copy_from_slice(known);
        Ok(value)
    }
    /// Writes a structure to the caller's memory.
    pub fn write<T: IntoBytes + Immutable>(&mut self, addr: u64, value: &T) -> Result<(), Errno> {
        self.host.write_guest(self.process, addr, value.as_bytes())
    }
    /// Reads a path argument. `ENAMETOOLONG` if its length is [`PATH_MAX`] or more.
    pub fn read_path(&self, addr: u64) -> Result<Vec<u8>, Errno> {
        self.host.read_guest_string(self.process, addr, PATH_MAX - 1, Errno::ENAMETOOLONG)
    }
    /// Reads a vector of `count` `struct iovec`, truncated to the maximum of one call.
    pub fn read_iovecs(&self, addr: u64, count: u64) -> Result<GuestBuffers, Errno> {
        if count > IOV_MAX {
            return Err(Errno::EINVAL);
        }
        let mut raw = vec![0u8; count as usize * 16];
        self.read_bytes(addr, &mut raw)?;
        let mut buffers = GuestBuffers::new();
        let most = self.host.call_faults.as_ref().map_or(u64::MAX, |faults| faults.most);
        let mut room = MAX_RW_COUNT.min(most);
        for entry in raw.chunks_exact(16) {
            let word = |at: usize| u64::from_le_bytes(entry[at..at + 8].try_into().expect("eight bytes"));
            let (base, len) = (word(0), word(8));
            if len > i64::MAX as u64 {
                return Err(Errno::EINVAL);
            }
            let len = len.min(room);
            room -= len;
            buffers.push((base, len));
        }
        Ok(buffers)
    }
    /// Returns one buffer as a vector, truncated to the maximum of one call.
    pub fn one_buffer(addr: u64, len: u64) -> GuestBuffers {
        SmallVec::from_slice(&[(addr, len.min(MAX_RW_COUNT))])
    }
    /// Scatters `data` over `buffers`, whose total length is at least that of `data`.
    pub fn scatter(&mut self, buffers: &GuestBuffers, mut data: &[u8]) -> Result<(), Errno> {
        if let Some(staged) = &mut self.staged {
            staged.extend_from_slice(data);
            return Ok(());
        }
        for (addr, len) in buffers {
            let (part, rest) = data.split_at(data.len().min(*len as usize));
            self.write_bytes(*addr, part)?;
            data = rest;
        }
        Ok(())
    }
    /// Gathers bytes `skip..skip + limit` of the contents of `buffers`.
    pub fn gather(&self, buffers: &GuestBuffers, skip: u64, limit: usize) -> Result<Vec<u8>, Errno> {
        let mut data = Vec::new();
        let len = self.gather_into(buffers, skip, limit, &mut data)?;
        data.truncate(len);
        Ok(data)
    }
    /// Gathers those bytes at the start of `out`, which grows as needed; returns their number.
    pub fn gather_into(
        &self,
        buffers: &GuestBuffers,
        skip: u64,
        limit: usize,
        out: &mut Vec<u8>,
    ) -> Result<usize, Errno> {
        let total = match &self.staged {
            Some(staged) => staged.len() as u64,
            None => total_len(buffers),
        };
        let len = limit.min(total.saturating_sub(skip) as usize);
        if out.len() < len {
            out.resize(len, 0);
        }
        let out = &mut out[..len];
        if let Some(staged) = &self.staged {
            let from = staged.len().min(skip as usize);
            out.copy_from_slice(&staged[from..from + len]);
            return Ok(len);
        }
        let (mut skip, mut filled) = (skip, 0);
        for (addr, len) in buffers {
            let from = skip.min(*len);
            skip -= from;
            let part = ((len - from) as usize).min(out.len() - filled);
            self.read_bytes(addr + from, &mut out[filled..filled + part])?;
            filled += part;
        }
        Ok(len)
    }
}

/// Writes `data` to buffers of an address space, starting at byte `skip` of their concatenation. `EFAULT`
/// where no writable mapping exists.
pub fn scatter_to(
    machine: &mut dyn Machine,
    mm: &AddressSpace,
    buffers: &GuestBuffers,
    skip: usize,
    mut data: &[u8],
) -> Result<(), Errno> {
    let mut skip = skip as u64;
    for (addr, len) in buffers {
        let from = skip.min(*len);
        skip -= from;
        let (part, rest) = data.split_at(data.len().min((len - from) as usize));
        if !part.is_empty() {
            mm.check(addr + from, part.len() as u64, Access::Write)?;
            machine.write(mm.space, addr + from, part)?;
        }
        data = rest;
        if data.is_empty() {
            break;
        }
    }
    Ok(())
}

/// Total length of `buffers` in bytes.
pub fn total_len(buffers: &GuestBuffers) -> u64 {
    buffers.iter().map(|b| b.1).sum()
}
