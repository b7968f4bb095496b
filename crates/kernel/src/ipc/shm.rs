//! Shared memory segments, `shmop(2)`: anonymous native memory that outlives its attachments.

use super::{EXEC, READ, WRITE};
use crate::host::Host;
use crate::ids::{MmKey, ProcessKey};
use crate::mm::map::{MapRequest, MapSource};
use belljar_linux_abi::ipc::ShmidDs;
use belljar_linux_abi::{Errno, c};
use belljar_machine::Prot;
use belljar_objects::namespaces::NamespaceKind;
use belljar_objects::space::{AddressSpace, PAGE, VmaKind, mappings_of, page_up};
use belljar_objects::sysv::{SHM_DEST, SharedSegment};
use slab::Slab;
use std::ops::Range;
use std::sync::Arc;

/// Alignment of attachment addresses in bytes.
const SHMLBA: u64 = PAGE;
/// Device number of attachments in `/proc/.../maps`; their inode number is the segment's identifier.
const DEVICE: u64 = 0x01;

/// Arguments of `shmat(2)`.
pub(crate) struct AttachRequest {
    /// Requested address; 0 for any free one.
    pub(crate) addr: u64,
    /// `SHM_*` flags.
    pub(crate) flags: i32,
}

fn identity(id: i32) -> (u64, u64) {
    (DEVICE, id as u64)
}

/// Number of attachments of a segment.
pub(crate) fn attachments(spaces: &Slab<AddressSpace>, id: i32) -> u64 {
    mappings_of(spaces, identity(id)).count() as u64
}

impl Host {
    /// Returns the segment with this key, creating it if `flags` say so.
    pub(crate) fn shm_get(
        &mut self,
        process: ProcessKey,
        key: i32,
        size: u64,
        flags: i32,
    ) -> Result<i32, Errno> {
        self.sweep_segments();
        let namespace = self.processes.namespace(process, NamespaceKind::Ipc);
        if let Some(id) = self.ipc.segments.lookup(namespace, key, flags)? {
            let state = self.ipc.segments.get(id)?.state;
            if size > state.segsz {
                return Err(Errno::EINVAL);
            }
            return self.processes.ipc_check(process, state.perm, flags as u32).map(|()| id);
        }
        // Huge pages are not available, as on a kernel without them.
        let limits = self.ipc.limits;
        if size == 0 || size > limits.segment_bytes || flags & c::SHM_HUGETLB != 0 {
            return Err(Errno::EINVAL);
        }
        let native = self.machine.shared_memory(page_up(size)?)?;
        let perm = self.processes.new_permissions(process, key, flags);
        let (now, cpid) = (self.seconds(), self.process(process).pid);
        let state = ShmidDs { perm, segsz: size, ctime: now, cpid, ..ShmidDs::default() };
        self.ipc.segments.insert(SharedSegment { state, native }, limits.segments as usize).inspect_err(
            |_| {
                self.machine.close(native);
            },
        )
    }

    /// Maps a segment into `mm`; returns the address.
    pub(crate) fn shm_attach(
        &mut self,
        process: ProcessKey,
        mm: MmKey,
        id: i32,
        how: AttachRequest,
    ) -> Result<u64, Errno> {
        let mut rights = if how.flags & c::SHM_RDONLY != 0 { READ } else { READ | WRITE };
        rights |= if how.flags & c::SHM_EXEC != 0 { EXEC } else { 0 };
        let perm = self.ipc.segments.get(id)?.state.perm;
        self.processes.ipc_check(process, perm, rights)?;
        let segment = self.ipc.segments.get(id)?;
        let len = page_up(segment.state.segsz)?;
        let source = MapSource {
            native: segment.native,
            offset: 0,
            path: Arc::from(format!("/SYSV{:08x} (deleted)", segment.state.perm.key).into_bytes()),
            identity: identity(id),
            file: None,
            may_write: how.flags & c::SHM_RDONLY == 0,
        };
        let at = self.attach_address(mm, len, &how)?;
        let mut prot = Prot::READ;
        prot.set(Prot::WRITE, how.flags & c::SHM_RDONLY == 0);
        prot.set(Prot::EXEC, how.flags & c::SHM_EXEC != 0);
        let request = MapRequest { prot, shared: true, source: Some(source), may_write: true, label: "" };
        self.map_pages(mm, at..at + len, request)?;
        let (now, pid) = (self.seconds(), self.process(process).pid);
        let state = &mut self.ipc.segments.get(id)?.state;
        (state.atime, state.lpid) = (now, pid);
        Ok(at)
    }

    fn attach_address(&mut self, mm: MmKey, len: u64, how: &AttachRequest) -> Result<u64, Errno> {
        if how.addr == 0 {
            let remaps = how.flags & c::SHM_REMAP != 0;
            return if remaps { Err(Errno::EINVAL) } else { self.place_mapping(mm, 0, len, 0) };
        }
        let at = match how.addr % SHMLBA {
            0 => how.addr,
            _ if how.flags & c::SHM_RND == 0 => return Err(Errno::EINVAL),
            over if over == how.addr && how.flags & c::SHM_REMAP != 0 => return Err(Errno::EINVAL),
            over => how.addr - over,
        };
        let wanted = at..at.checked_add(len).ok_or(Errno::EINVAL)?;
        if how.flags & c::SHM_REMAP == 0 && !self.mm(mm).is_free(&wanted) {
            return Err(Errno::EINVAL);
        }
        self.place_mapping(mm, at, len, c::MAP_FIXED)
    }

    /// Unmaps the segment attached at `addr`; `EINVAL` if no attachment starts there.
    pub(crate) fn shm_detach(&mut self, process: ProcessKey, mm: MmKey, addr: u64) -> Result<(), Errno> {
        let space = self.mm(mm);
        let first = space.find(addr).filter(|vma| vma.start == addr).ok_or(Errno::EINVAL)?;
        let VmaKind::File { identity: (DEVICE, id), offset: 0, file: None, .. } = first.kind else {
            return Err(Errno::EINVAL);
        };
        let id = id as i32;
        let len = page_up(self.ipc.segments.get(id)?.state.segsz)?;
        // Parts of the attachment may have been unmapped or replaced.
        let parts: Vec<Range<u64>> = self
            .mm(mm)
            .overlapping(&(addr..addr + len))
            .filter(|vma| matches!(vma.kind, VmaKind::File { identity: of, .. } if of == identity(id)))
            .map(|vma| vma.start..vma.end)
            .collect();
        for part in parts {
            self.unmap_pages(mm, part)?;
        }
        let (now, pid) = (self.seconds(), self.process(process).pid);
        let state = &mut self.ipc.segments.get(id)?.state;
        (state.dtime, state.lpid) = (now, pid);
        self.sweep_segments();
        Ok(())
    }

    /// State of a segment as returned by `IPC_STAT`.
    pub(crate) fn shm_state(&mut self, id: i32) -> Result<ShmidDs, Errno> {
        self.sweep_segments();
        let state = self.ipc.segments.get(id)?.state;
        Ok(ShmidDs { nattch: attachments(&self.spaces, id), ..state })
    }

    /// `IPC_RMID`: the key is removed at once, the segment with its last attachment.
    pub(crate) fn shm_remove(&mut self, id: i32) -> Result<(), Errno> {
        self.sweep_segments();
        let perm = &mut self.ipc.segments.get(id)?.state.perm;
        (perm.key, perm.mode) = (c::IPC_PRIVATE, perm.mode | SHM_DEST);
        self.sweep_segments();
        Ok(())
    }

    /// Destroys removed segments that have no attachments.
    pub(crate) fn sweep_segments(&mut self) {
        let removed: Vec<i32> = self
            .ipc
            .segments
            .iter()
            .filter(|(_, segment)| segment.state.perm.mode & SHM_DEST != 0)
            .map(|(id, _)| id)
            .collect();
        for id in removed {
            if attachments(&self.spaces, id) == 0
                && let Some(segment) = self.ipc.segments.remove(id)
            {
                self.machine.close(segment.native);
            }
        }
    }
}
