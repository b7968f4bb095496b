//! Access to the calling process's memory: checked against its own list of mappings, then copied
//! by the machine.

use crate::call::Call;
use crate::host::Host;
use crate::ids::ProcessKey;
use crate::mm::{Access, AddressSpace, PAGE};
use crate::process::Processes;
use belljar_linux_abi::Errno;
use belljar_machine::Machine;
use belljar_netstack::keyed::FURTHER;
use belljar_netstack::{SocketKey, Stack};
use belljar_uring::instance::Urings;
use slab::Slab;
use smallvec::SmallVec;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// `PATH_MAX`, the zero byte included.
pub const PATH_MAX: usize = 4_096;
/// `UIO_MAXIOV`.
const IOV_MAX: u64 = 1_024;
/// The most that one read or write moves, `MAX_RW_COUNT` of Linux.
const MAX_RW_COUNT: u64 = 0x7fff_f000;

/// Buffers in guest memory: address and length of each.
pub type GuestBuffers = SmallVec<[(u64, u64); 2]>;

/// The memory of a process, to be read while other parts of its host are in use.
pub(crate) struct GuestReader<'a> {
    processes: &'a Processes,
    spaces: &'a Slab<AddressSpace>,
    urings: &'a Urings,
    machine: &'a dyn Machine,
    process: ProcessKey,
}

impl GuestReader<'_> {
    /// Copies from the memory. `EFAULT` where it has no readable mapping.
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
        // A request of io_uring that has waited reads what it named when it was submitted.
        if self.urings.read_snapshot(self.process, addr, out) { Ok(()) } else { read }
    }
}

impl Host {
    /// Copies from a process's memory. `EFAULT` where it has no readable mapping.
    pub(crate) fn read_guest(&self, process: ProcessKey, addr: u64, out: &mut [u8]) -> Result<(), Errno> {
        let Host { processes, spaces, urings, machine, .. } = self;
        GuestReader { processes, spaces, urings, machine: &**machine, process }.read(addr, out)
    }
    /// Memory of a process to read from, and the stack that keeps a socket.
    #[inline]
    pub(crate) fn memory_and_stack(
        &mut self,
        process: ProcessKey,
        key: SocketKey,
    ) -> (GuestReader<'_>, &mut Stack) {
        self.stack_of_mut(key);
        let Host { processes, spaces, urings, machine, net, networks, turn, .. } = self;
        let net = if key.0 < FURTHER { net } else { networks.in_turn(*turn, net) };
        (GuestReader { processes, spaces, urings, machine: &**machine, process }, net)
    }
    /// Copies to a process's memory. `EFAULT` where it has no writable mapping.
    pub(crate) fn write_guest(&mut self, process: ProcessKey, addr: u64, data: &[u8]) -> Result<(), Errno> {
        if data.is_empty() {
            return Ok(());
        }
        let mm = self.processes[process.0].mm.ok_or(Errno::ESRCH)?;
        let mm = &self.spaces[mm.0];
        mm.check(addr, data.len() as u64, Access::Write)?;
        self.machine.write(mm.space, addr, data)
    }
    /// A zero-terminated string of at most `limit` bytes, the zero not counted; `too_long` if there
    /// is no zero by then.
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
            // Never across a page end: the string may stop just before an unmapped page.
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

/// Checks how long a structure is that kernels make longer with time: `EINVAL` below `least` bytes, `E2BIG` above a page.
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
    /// `len` bytes of the caller's memory.
    pub fn read_vec(&self, addr: u64, len: usize) -> Result<Vec<u8>, Errno> {
        let mut data = vec![0; len];
        self.read_bytes(addr, &mut data)?;
        Ok(data)
    }
    /// Stores `data` in the caller's memory.
    pub fn write_bytes(&mut self, addr: u64, data: &[u8]) -> Result<(), Errno> {
        self.host.write_guest(self.process, addr, data)
    }
    /// A structure in the caller's memory.
    pub fn read<T: FromBytes + IntoBytes + Immutable + KnownLayout>(&self, addr: u64) -> Result<T, Errno> {
        let mut value = T::new_zeroed();
        self.host.read_guest(self.process, addr, value.as_mut_bytes())?;
        Ok(value)
    }
    /// A structure that kernels make longer with time, of which the caller has `size` bytes: what is missing is 0, and what is not
    /// known must be (`copy_struct_from_user`). `EINVAL` below `least` bytes, `E2BIG`.
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
    /// Stores a structure in the caller's memory.
    pub fn write<T: IntoBytes + Immutable>(&mut self, addr: u64, value: &T) -> Result<(), Errno> {
        self.host.write_guest(self.process, addr, value.as_bytes())
    }
    /// A path argument. `ENAMETOOLONG` from [`PATH_MAX`] on.
    pub fn read_path(&self, addr: u64) -> Result<Vec<u8>, Errno> {
        self.host.read_guest_string(self.process, addr, PATH_MAX - 1, Errno::ENAMETOOLONG)
    }
    /// A vector of `count` `struct iovec`, cut to what one call may move.
    pub fn read_iovecs(&self, addr: u64, count: u64) -> Result<GuestBuffers, Errno> {
        if count > IOV_MAX {
            return Err(Errno::EINVAL);
        }
        let mut raw = vec![0u8; count as usize * 16];
        self.read_bytes(addr, &mut raw)?;
        let mut buffers = GuestBuffers::new();
        let mut room = MAX_RW_COUNT;
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
    /// One buffer as a vector of buffers, cut to what one call may move.
    pub fn one_buffer(addr: u64, len: u64) -> GuestBuffers {
        SmallVec::from_slice(&[(addr, len.min(MAX_RW_COUNT))])
    }
    /// Spreads `data` over `buffers`, which together hold at least as much.
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
    /// Collects bytes `skip..skip + limit` of what `buffers` hold.
    pub fn gather(&self, buffers: &GuestBuffers, skip: u64, limit: usize) -> Result<Vec<u8>, Errno> {
        let mut data = Vec::new();
        let len = self.gather_into(buffers, skip, limit, &mut data)?;
        data.truncate(len);
        Ok(data)
    }
    /// The same at the beginning of `out`, which grows to hold it, if it must; gives how much it is.
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

/// Stores `data` in buffers of an address space, from byte `skip` of what they hold together on. `EFAULT` where it has no
/// writable mapping.
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

/// The length of all `buffers` together, in bytes.
pub fn total_len(buffers: &GuestBuffers) -> u64 {
    buffers.iter().map(|b| b.1).sum()
}
