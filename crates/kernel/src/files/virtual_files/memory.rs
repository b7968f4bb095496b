//! Memory of a process as files: `/proc/<pid>/mem`, `pagemap`, and `PROCMAP_QUERY` of `maps`.

use crate::call::Call;
use crate::guest::{GuestBuffers, total_len};
use crate::ids::{FileKey, InodeKey, ProcessKey};
use crate::mm::presence;
use crate::outcome::{SysResult, done};
use crate::rights::AccessIds;
use belljar_linux_abi::{Errno, c};
use belljar_machine::{Prot, USER_END};
use belljar_objects::inode::Node;
use belljar_objects::process_files::ProcessFile;
use belljar_objects::space::{Marks, PAGE, Vma, VmaKind};
use belljar_objects::virtual_files::VirtualFile;

/// Maximum number of bytes moved by one call.
const MOST: u64 = 1 << 20;

impl Call<'_> {
    /// Process and file for an inode of `mem` or `pagemap`; `None` for other files. `EACCES` if the caller
    /// may not access the process.
    pub(super) fn memory_behind(
        &mut self,
        inode: InodeKey,
    ) -> Result<Option<(ProcessKey, ProcessFile)>, Errno> {
        let (pid, file) = match self.host.files.inode(inode).node {
            Node::Virtual(VirtualFile::Process(pid, file) | VirtualFile::Thread(pid, _, file))
                if matches!(file, ProcessFile::Mem | ProcessFile::Pagemap) =>
            {
                (pid, file)
            }
            _ => return Ok(None),
        };
        let process = *self.host.processes.by_pid.get(&pid).ok_or(Errno::ESRCH)?;
        self.host.processes.may_access(self.process, process, AccessIds::File).map_err(|_| Errno::EACCES)?;
        Ok(Some((process, file)))
    }

    /// Reads `pagemap` from a file offset on: an entry of eight bytes for each page, with the bits for
    /// present, file-backed or shared, and guard pages. Page frame numbers are 0.
    pub(super) fn read_pagemap(
        &mut self,
        file: FileKey,
        process: ProcessKey,
        buffers: &GuestBuffers,
        start: u64,
        moves: bool,
    ) -> SysResult {
        const ENTRY: u64 = 8;
        const PRESENT: u64 = 1 << 63;
        const OF_FILE: u64 = 1 << 61;
        const GUARD: u64 = 1 << 58;
        let len = total_len(buffers).min(MOST);
        if !start.is_multiple_of(ENTRY) || !len.is_multiple_of(ENTRY) {
            return Err(Errno::EINVAL);
        }
        let Some(mm) = self.host.process(process).mm else { return done(0) };
        let last = USER_END / PAGE * ENTRY;
        let end = start.saturating_add(len).min(last).max(start);
        let range = start / ENTRY * PAGE..end / ENTRY * PAGE;
        let present = presence(self.host, mm, &range)?;
        let mut entries: Vec<u64> = present.iter().map(|page| u64::from(*page & 1) * PRESENT).collect();
        for vma in self.host.mm(mm).overlapping(&range) {
            let part = vma.part_in(&range);
            let [from, to] = [part.start, part.end];
            let pages =
                &mut entries[((from - range.start) / PAGE) as usize..((to - range.start) / PAGE) as usize];
            let of_file = vma.shared || !vma.is_anonymous();
            for page in pages {
                *page |= if *page != 0 && of_file { OF_FILE } else { 0 };
                *page |= if vma.marks.contains(Marks::GUARD) { GUARD } else { 0 };
            }
        }
        let bytes: Vec<u8> = entries.iter().flat_map(|entry| entry.to_ne_bytes()).collect();
        self.scatter(buffers, &bytes)?;
        if moves {
            self.host.files.open(file).offset = end;
        }
        done(end - start)
    }

    /// `PROCMAP_QUERY` of a `maps` file: the mapping at an address, or the next one, that matches the flags.
    pub(crate) fn query_mapping(&mut self, inode: InodeKey, argument: u64) -> SysResult {
        /// Bytes of the structure up to the address, and in total.
        const LEAST: u64 = 24;
        const QUERY: usize = 104;
        const OR_NEXT: u64 = 0x10;
        const OF_FILE: u64 = 0x20;
        const PERMISSIONS: u64 = 0xf;
        let Node::Virtual(VirtualFile::Process(pid, _) | VirtualFile::Thread(pid, _, _)) =
            self.host.files.inode(inode).node
        else {
            return Err(Errno::ENOTTY);
        };
        let size: u64 = self.read(argument)?;
        if size > PAGE {
            return Err(Errno::E2BIG);
        }
        if size < LEAST {
            return Err(Errno::EINVAL);
        }
        let mut query: [u64; QUERY / 8] = self.read_extensible(argument, size, LEAST as usize)?;
        let [_, flags, at, ..] = query;
        let (name_room, id_room) = (query[10] as u32, (query[10] >> 32) as u32);
        let [name_at, id_at] = [query[11], query[12]];
        if flags & !(OR_NEXT | OF_FILE | PERMISSIONS) != 0
            || (name_room == 0) != (name_at == 0)
            || (id_room == 0) != (id_at == 0)
        {
            return Err(Errno::EINVAL);
        }
        let process = *self.host.processes.by_pid.get(&pid).ok_or(Errno::ESRCH)?;
        let mm = self.host.processes[process.0].mm.ok_or(Errno::ESRCH)?;
        let permissions = |vma: &Vma| {
            let bit = |prot, bit| if vma.prot.contains(prot) { bit } else { 0 };
            bit(Prot::READ, 1) | bit(Prot::WRITE, 2) | bit(Prot::EXEC, 4) | if vma.shared { 8 } else { 0 }
        };
        let is_file = |vma: &Vma| matches!(vma.kind, VmaKind::File { .. });
        let fits = |vma: &&Vma| {
            permissions(vma) & flags & PERMISSIONS == flags & PERMISSIONS
                && (flags & OF_FILE == 0 || is_file(vma))
        };
        let or_next = flags & OR_NEXT != 0;
        let found = {
            let mut vmas = self.host.spaces[mm.0].vmas().filter(|vma| vma.end > at);
            let found = match or_next {
                true => vmas.find(fits),
                false => vmas.next().filter(|vma| vma.start <= at).filter(fits),
            };
            found.cloned().ok_or(Errno::ENOENT)?
        };
        let (offset, (device, number), name): (u64, (u64, u64), &[u8]) = match &found.kind {
            VmaKind::Anonymous(label) => (0, (0, 0), label.as_bytes()),
            VmaKind::File { path, identity, offset, .. } => (*offset, *identity, path),
        };
        let mut written = 0;
        if name_room != 0 && !name.is_empty() {
            let text = [name, b"\0"].concat();
            if text.len() > name_room as usize {
                return Err(Errno::ENAMETOOLONG);
            }
            self.write_bytes(name_at, &text)?;
            written = text.len() as u64;
        }
        let numbers = u64::from(c::major(device)) | u64::from(c::minor(device)) << 32;
        let told = [found.start, found.end, permissions(&found), PAGE, offset, number, numbers, written];
        query[3..11].copy_from_slice(&told);
        let bytes: Vec<u8> = query.iter().flat_map(|word| word.to_ne_bytes()).collect();
        self.write_bytes(argument, &bytes[..bytes.len().min(size as usize)])?;
        done(0)
    }

    /// Reads memory from address `start` on; `EIO` if it is not mapped.
    pub(super) fn read_memory(
        &mut self,
        file: FileKey,
        process: ProcessKey,
        buffers: &GuestBuffers,
        start: u64,
        moves: bool,
    ) -> SysResult {
        // A process that has exited has no memory.
        let Some(mm) = self.host.process(process).mm else { return done(0) };
        let mut bytes = vec![0; total_len(buffers).min(MOST) as usize];
        let got = self.host.peek(mm, start, &mut bytes);
        if got == 0 && !bytes.is_empty() {
            return Err(Errno::EIO);
        }
        self.scatter(buffers, &bytes[..got])?;
        if moves {
            self.host.files.open(file).offset = start + got as u64;
        }
        done(got as u64)
    }

    /// Writes memory, whatever the protection of private pages; `EIO` if it is not mapped.
    pub(super) fn write_memory(
        &mut self,
        file: FileKey,
        process: ProcessKey,
        buffers: &GuestBuffers,
        start: u64,
        moves: bool,
    ) -> SysResult {
        let Some(mm) = self.host.process(process).mm else { return done(0) };
        let bytes = self.gather(buffers, 0, MOST as usize)?;
        self.host.show_code(process);
        self.host.poke(mm, start, &bytes)?;
        if moves {
            self.host.files.open(file).offset = start + bytes.len() as u64;
        }
        done(bytes.len() as u64)
    }
}
