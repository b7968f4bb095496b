//! Regular files: reading, writing, seeking, resizing and allocation.

use crate::call::Call;
use crate::files::{Files, disk_faults};
use crate::guest::{GuestBuffers, total_len};
use crate::host::Host;
use crate::ids::{FileKey, InodeKey, MmKey, ProcessKey};
use crate::outcome::{CallState, Resumed, SysResult, done};
use belljar_linux_abi::signal::SigInfo;
use belljar_linux_abi::{Errno, c};
use belljar_machine::{DiskEvent, NativeFile};
use belljar_objects::devices::Device;
use belljar_objects::extents::Extents;
use belljar_objects::file_flags::FileFlags;
use belljar_objects::file_kind::FileKind;
use belljar_objects::inode::{DISK, NAMESPACE, Node};
use belljar_objects::space::{Access, Vma, VmaKind, page_down};
use std::ops::Range;

/// Bytes transferred at a time between a native file and guest memory.
const CHUNK: u64 = 1 << 20;
/// Maximum file size in bytes, `MAX_LFS_FILESIZE`.
pub const MAX_FILE_SIZE: u64 = i64::MAX as u64;
/// `FALLOC_FL_WRITE_ZEROES`.
const WRITE_ZEROES: i32 = 0x80;

/// Reads at `offset`, or at the file offset, which is then advanced.
pub fn read(
    call: &mut Call<'_>,
    file: FileKey,
    inode: InodeKey,
    buffers: &GuestBuffers,
    offset: Option<u64>,
) -> SysResult {
    if let Some(block) = call.ask_to_read(file, inode)? {
        return block.into();
    }
    let start = offset.unwrap_or(call.host.files.open(file).offset);
    let size = call.host.size_of(inode)?;
    let wanted = total_len(buffers).min(size.saturating_sub(start));
    if call.host.disk_faults.is_some() {
        disk_faults::before_read(call.host, inode, start, wanted)?;
    }
    let mut chunk = std::mem::take(&mut call.host.files.scratch);
    let outcome = read_chunks(call, inode, buffers, start, wanted, &mut chunk);
    call.host.files.scratch = chunk;
    let moved = outcome?;
    if offset.is_none() {
        call.host.files.open(file).offset = start + moved;
    }
    if moved > 0 {
        let now = call.host.net.clock.realtime_ns() as i64;
        call.host.files.accessed(file, inode, now);
        call.host.open_file_event(file, inode, c::IN_ACCESS);
    }
    done(moved)
}

/// Transfers `wanted` bytes from `start` on; fewer if the file or the accessible guest memory ends earlier.
fn read_chunks(
    call: &mut Call<'_>,
    inode: InodeKey,
    buffers: &GuestBuffers,
    start: u64,
    wanted: u64,
    chunk: &mut Vec<u8>,
) -> Result<u64, Errno> {
    let mut moved = 0;
    while moved < wanted {
        let native = call.host.native_of(inode)?;
        if let Some((addr, len)) = call.direct(buffers, moved, wanted, Access::Write)
            && let Some(read) = call.host.read_directly(call.process, addr, len, native, start + moved)
        {
            match read {
                Ok(0) => break,
                Ok(read) => moved += read,
                Err(errno) if moved == 0 => return Err(errno),
                Err(_) => break,
            }
            continue;
        }
        let part = CHUNK.min(wanted - moved) as usize;
        if chunk.len() < part {
            chunk.resize(part, 0);
        }
        let read = call.host.machine.read_at(native, start + moved, &mut chunk[..part])?;
        if read == 0 {
            break;
        }
        match call.scatter_at(buffers, moved, &chunk[..read]) {
            Ok(()) => moved += read as u64,
            Err(errno) if moved == 0 => return Err(errno),
            Err(_) => break,
        }
    }
    Ok(moved)
}

/// Writes at `offset` or, without one, at the file offset, which is advanced; with `O_APPEND`, at the end.
pub fn write(
    call: &mut Call<'_>,
    file: FileKey,
    inode: InodeKey,
    buffers: &GuestBuffers,
    offset: Option<u64>,
) -> SysResult {
    if let Some(moved) = call.written_before() {
        sync_write(call.host, file)?;
        return done(moved);
    }
    // Of the file systems only ext4 checks the immutable flag at every write.
    if call.host.files.inode(inode).device == DISK {
        call.host.files.inode(inode).check_flags(FileFlags::IMMUTABLE)?;
    }
    let open = call.host.files.open(file);
    let append = open.flags & c::O_APPEND != 0;
    let position = open.offset;
    let size = call.host.size_of(inode)?;
    let start = if append { size } else { offset.unwrap_or(position) };
    let wanted = total_len(buffers);
    let mut wanted = wanted.min(call.room_in_file(start, wanted)?);
    if wanted > 0 {
        call.host.files.check_seals(inode, c::F_SEAL_WRITE | c::F_SEAL_FUTURE_WRITE)?;
        if start + wanted > size && call.host.files.check_seals(inode, c::F_SEAL_GROW).is_err() {
            // As Linux writes page by page, the pages before the first that would extend the file are
            // written.
            let whole = page_down(size);
            wanted = whole.checked_sub(start).filter(|left| *left > 0).ok_or(Errno::EPERM)?;
        }
        wanted = wanted.min(call.host.files.room_end(inode, start)? - start);
        call.host.files.written_by(&call.host.processes, call.process, inode);
    }
    let mut moved = 0;
    while moved < wanted {
        match write_part(call, inode, buffers, start, moved, wanted) {
            Ok(0) => break,
            Ok(written) => moved += written,
            Err(errno) if moved == 0 => return Err(errno),
            Err(_) => break,
        }
    }
    if offset.is_none() {
        call.host.files.open(file).offset = start + moved;
    }
    if moved > 0 {
        if let Some(log) = &mut call.host.write_log {
            let (files, now) = (&call.host.files, call.host.net.clock.now());
            let file = (inode, files.inodes[inode.0].number);
            log.record(file, start..start + moved, now, || files.own_path(inode));
        }
        call.host.open_file_event(file, inode, c::IN_MODIFY);
        let is_synced = call.host.disk_faults.is_some() && call.host.files.open(file).flags & c::O_SYNC != 0;
        if is_synced && let Some(block) = disk_faults::slow_sync(call, Some(file)) {
            return block.with_state(CallState::Progress(moved)).into();
        }
        sync_write(call.host, file)?;
    }
    done(moved)
}

/// Writes a part of `buffers` from byte `moved` on; returns its length.
fn write_part(
    call: &mut Call<'_>,
    inode: InodeKey,
    buffers: &GuestBuffers,
    start: u64,
    moved: u64,
    wanted: u64,
) -> Result<u64, Errno> {
    let at = start + moved;
    if let Some((addr, len)) = call.direct(buffers, moved, wanted, Access::Read) {
        call.host.copy_up(inode, u64::MAX)?;
        let native = call.host.native_of(inode)?;
        if let Some(written) = call.host.write_directly(call.process, addr, len, native, at) {
            let written = written.map_err(|errno| machine_refused(call.host, errno))?;
            call.host.bytes_written(inode, at, written);
            return Ok(written);
        }
    }
    let data = call.gather(buffers, moved, CHUNK.min(wanted - moved) as usize)?;
    call.host.write_inode(inode, at, &data)?;
    Ok(data.len() as u64)
}

/// Counts a warning if the disk of the machine, which is none of the experiment, refuses what a program writes.
#[cold]
fn machine_refused(host: &mut Host, errno: Errno) -> Errno {
    if matches!(errno, Errno::ENOSPC | Errno::EDQUOT | Errno::EFBIG | Errno::EIO) {
        host.warn(format!(
            "the disk of this machine refuses writes of programs ({errno}): the results depend on it"
        ));
    }
    errno
}

/// Reports that an open file or directory was synced.
pub(crate) fn sync_file(host: &mut Host, file: FileKey, data_only: bool) -> Result<(), Errno> {
    if host.disk_faults.is_some() {
        disk_faults::check_sync(host, file)?;
    }
    match host.files.open(file).kind {
        FileKind::Regular(inode) | FileKind::Directory { inode, .. } if host.machine.is_observed() => {
            sync_inode(host, inode, data_only)
        }
        _ => Ok(()),
    }
}

/// Reports that a write with the open file's flags is durable, if it is.
pub(crate) fn sync_write(host: &mut Host, file: FileKey) -> Result<(), Errno> {
    match host.files.open(file).flags & c::O_SYNC {
        0 => Ok(()),
        flags => sync_file(host, file, flags != c::O_SYNC),
    }
}

/// First file that a range maps shared, if a slow disk could make it wait.
pub(crate) fn first_mapped(host: &mut Host, mm: MmKey, range: &Range<u64>) -> Option<FileKey> {
    host.disk_faults.as_ref()?;
    let file = |vma: &Vma| match vma.kind {
        VmaKind::File { file, .. } if vma.shared => file,
        _ => None,
    };
    host.mm(mm).overlapping(range).find_map(file)
}

/// Reports that the files that a range maps shared were synced.
pub(crate) fn sync_mappings(host: &mut Host, mm: MmKey, range: &Range<u64>) -> Result<(), Errno> {
    let file = |vma: &Vma| match vma.kind {
        VmaKind::File { file, .. } if vma.shared => file,
        _ => None,
    };
    let files: Vec<FileKey> = host.mm(mm).overlapping(range).filter_map(file).collect();
    files.into_iter().try_for_each(|file| sync_file(host, file, true))
}

fn sync_inode(host: &mut Host, inode: InodeKey, data_only: bool) -> Result<(), Errno> {
    let path = match host.files.inode(inode).node.is_directory() {
        true => host.files.own_path(inode),
        false => host.content_path(inode)?,
    };
    match path {
        Some(path) => host.machine.disk_event(DiskEvent::Synced { path: &path, data_only }),
        None => Ok(()),
    }
}

/// Reports the end of an open file for writing.
pub(crate) fn closed_for_writing(host: &mut Host, inode: InodeKey) {
    if host.machine.is_observed()
        && let Ok(Some(path)) = host.content_path(inode)
    {
        let _ = host.machine.disk_event(DiskEvent::Closed(&path));
    }
}

impl Call<'_> {
    /// Bytes that a write of a regular file has moved before it waited for a slow disk.
    fn written_before(&self) -> Option<u64> {
        match self.resumed {
            Some(Resumed { state: CallState::Progress(moved), .. }) => Some(moved),
            _ => None,
        }
    }
    /// Address and length of the buffer part that contains byte `moved`, up to `wanted`, if it can be
    /// transferred from or to a native file without a copy. `None` if bytes are staged or the memory is not
    /// accessible; the copying path then determines how far the transfer goes.
    fn direct(&self, buffers: &GuestBuffers, moved: u64, wanted: u64, access: Access) -> Option<(u64, u64)> {
        if self.staged.is_some() {
            return None;
        }
        let mut skip = moved;
        for (addr, len) in buffers {
            if skip < *len {
                let (addr, len) = (addr + skip, (len - skip).min(wanted - moved));
                let mm = &self.host.spaces[self.host.processes[self.process.0].mm?.0];
                return mm.check(addr, len, access).is_ok().then_some((addr, len));
            }
            skip -= len;
        }
        None
    }
    /// Number of the `wanted` bytes that may be written at `start`. `EFBIG` and `SIGXFSZ` beyond
    /// `RLIMIT_FSIZE`, `EFBIG` beyond the maximum file size.
    pub(crate) fn room_in_file(&mut self, start: u64, wanted: u64) -> Result<u64, Errno> {
        if wanted == 0 {
            return Ok(0);
        }
        let limit = self.host.processes[self.process.0].rlimits[c::RLIMIT_FSIZE as usize].soft;
        if start >= limit {
            self.raise_file_size_signal();
            return Err(Errno::EFBIG);
        }
        let limit = limit.min(MAX_FILE_SIZE);
        if start >= limit { Err(Errno::EFBIG) } else { Ok(limit - start) }
    }
    /// Sends `SIGXFSZ` to the calling thread, unless an io_uring worker makes the call.
    pub(crate) fn raise_file_size_signal(&mut self) {
        // Requests of io_uring that Linux runs in a worker have no thread to signal.
        if self.host.urings.is_worker {
            return;
        }
        let process = &self.host.processes[self.process.0];
        let info = SigInfo::user(c::SIGXFSZ, c::SI_USER, process.pid, process.credentials.ruid);
        self.host.send_signal_to_thread(self.thread, info);
    }
}

impl Files {
    /// `EPERM` if the file has one of these seals.
    pub(crate) fn check_seals(&mut self, inode: InodeKey, seals: i32) -> Result<(), Errno> {
        let memfd = self.inode(inode).content().and_then(|content| content.memfd.as_deref());
        if memfd.is_some_and(|memfd| memfd.seals & seals != 0) { Err(Errno::EPERM) } else { Ok(()) }
    }
}

impl Host {
    /// Size of a regular file in bytes, 0 for other files. The size of a shared file is read from the
    /// machine.
    pub(crate) fn size_of(&mut self, inode: InodeKey) -> Result<u64, Errno> {
        let Some(content) = self.files.inode(inode).content() else { return Ok(0) };
        if !content.shared {
            return Ok(content.size);
        }
        let native = self.native_of(inode)?;
        let size = self.machine.stat_file(native)?.size;
        if let Some(content) = self.files.inode(inode).content_mut() {
            content.size = size;
        }
        Ok(size)
    }
    fn read_directly(
        &mut self,
        process: ProcessKey,
        addr: u64,
        len: u64,
        native: NativeFile,
        at: u64,
    ) -> Option<Result<u64, Errno>> {
        let space = self.spaces[self.processes[process.0].mm?.0].space;
        self.machine.read_file(space, addr, len, native, at)
    }
    fn write_directly(
        &mut self,
        process: ProcessKey,
        addr: u64,
        len: u64,
        native: NativeFile,
        at: u64,
    ) -> Option<Result<u64, Errno>> {
        let space = self.spaces[self.processes[process.0].mm?.0].space;
        self.machine.write_file(space, addr, len, native, at)
    }
    /// Writes bytes of a regular file, after copying it to the host's own layer.
    pub(crate) fn write_inode(&mut self, inode: InodeKey, offset: u64, data: &[u8]) -> Result<(), Errno> {
        self.copy_up(inode, u64::MAX)?;
        let native = self.native_of(inode)?;
        self.machine.write_at(native, offset, data).map_err(|errno| machine_refused(self, errno))?;
        self.bytes_written(inode, offset, data.len() as u64);
        Ok(())
    }
    /// Updates size, allocation and times of a regular file after a write.
    fn bytes_written(&mut self, inode: InodeKey, offset: u64, len: u64) {
        if let Some(content) = self.files.inode(inode).content_mut() {
            content.size = content.size.max(offset + len);
            content.extents.add(offset, offset + len);
        }
        self.files.recharge(inode);
        self.content_changed(inode);
    }
    /// Truncates or extends a regular file. Virtual files stay as they are.
    pub(crate) fn set_size(&mut self, inode: InodeKey, size: u64) -> Result<(), Errno> {
        self.take_over(inode)?;
        match &self.files.inode(inode).node {
            Node::Regular(_) => {}
            Node::Directory(_) => return Err(Errno::EISDIR),
            Node::Virtual(_) => return Ok(()),
            _ => return Err(Errno::EINVAL),
        }
        if size > MAX_FILE_SIZE {
            return Err(Errno::EFBIG);
        }
        self.copy_up(inode, size)?;
        if self.files.inode(inode).content().is_some_and(|content| content.size != size) {
            let was_open = self.files.inode(inode).content().is_some_and(|content| content.native.is_some());
            let native = self.native_of(inode)?;
            self.machine.set_len(native, size)?;
            if let Some(content) = self.files.inode(inode).content_mut() {
                if size > content.size {
                    content.extents.split(content.size);
                }
                content.size = size;
                content.extents.cut(size);
            }
            if !was_open && self.files.inode(inode).opens == 0 {
                self.files.close_native(&mut *self.machine, inode);
            }
            self.files.recharge(inode);
        }
        self.content_changed(inode);
        Ok(())
    }
    /// `lseek(2)`.
    pub(crate) fn seek(&mut self, file: FileKey, offset: i64, whence: i32) -> Result<u64, Errno> {
        let open = self.files.open(file);
        if open.flags & c::O_PATH != 0 {
            return Err(Errno::EBADF);
        }
        let position = open.offset as i64;
        if !(0..=c::SEEK_HOLE).contains(&whence) {
            return Err(Errno::EINVAL);
        }
        if open.kind.has_idle_position() {
            return Ok(0);
        }
        let inode = open.kind.inode().filter(|_| open.kind.has_position()).ok_or(Errno::ESPIPE)?;
        // The end of a directory on a disk file system is the largest hash.
        let found = self.files.inode(inode);
        if found.device == NAMESPACE {
            return Err(Errno::ESPIPE);
        }
        let size = match &found.node {
            Node::Directory(_) if found.device == DISK => i64::MAX,
            Node::Device(Device::Block(device)) => {
                let device = *device;
                self.files.block_size_of(device) as i64
            }
            _ => found.content().map_or(0, |content| content.size) as i64,
        };
        let size = match self.files.is_made_up_on_disk(inode) {
            true => self.virtual_content(inode)?.len() as i64,
            false => size,
        };
        let to = match whence {
            c::SEEK_SET => Some(offset),
            c::SEEK_CUR => position.checked_add(offset),
            c::SEEK_END => size.checked_add(offset),
            c::SEEK_DATA | c::SEEK_HOLE if offset < 0 || offset >= size => return Err(Errno::ENXIO),
            c::SEEK_DATA | c::SEEK_HOLE => {
                let (at, size) = (offset as u64, size as u64);
                let everything = Extents::Everything;
                let extents =
                    self.files.inode(inode).content().map_or(&everything, |content| &content.extents);
                let found = match whence {
                    c::SEEK_DATA => extents.next_data(at, size).ok_or(Errno::ENXIO)?,
                    _ => extents.next_hole(at, size),
                };
                Some(found as i64)
            }
            _ => return Err(Errno::EINVAL),
        };
        let to = to.ok_or(Errno::EINVAL)?;
        let to = u64::try_from(to).map_err(|_| Errno::EINVAL)?;
        self.files.open(file).offset = to;
        Ok(to)
    }
    /// `fallocate(2)` of the bytes `start..end`.
    pub(crate) fn allocate(&mut self, file: FileKey, mode: i32, start: u64, end: u64) -> Result<(), Errno> {
        let keeps_size = mode & c::FALLOC_FL_KEEP_SIZE != 0;
        let kind = mode & !c::FALLOC_FL_KEEP_SIZE;
        match kind {
            0 | c::FALLOC_FL_ZERO_RANGE | c::FALLOC_FL_UNSHARE_RANGE => {}
            c::FALLOC_FL_PUNCH_HOLE if keeps_size => {}
            c::FALLOC_FL_COLLAPSE_RANGE | c::FALLOC_FL_INSERT_RANGE | WRITE_ZEROES if !keeps_size => {}
            _ => return Err(Errno::EOPNOTSUPP),
        }
        let open = self.files.open(file);
        if !open.is_writable() {
            return Err(Errno::EBADF);
        }
        let inode = match &open.kind {
            FileKind::Regular(inode) => *inode,
            FileKind::PipeReader(_) | FileKind::PipeWriter(_) | FileKind::PipeBoth(_) => {
                return Err(Errno::ESPIPE);
            }
            _ => return Err(Errno::ENODEV),
        };
        self.files.inode(inode).check_flags(if kind == 0 {
            FileFlags::IMMUTABLE
        } else {
            FileFlags::FIXED
        })?;
        if end > MAX_FILE_SIZE {
            return Err(Errno::EFBIG);
        }
        let size = self.size_of(inode)?;
        let found = self.files.inode(inode);
        let (sealable, device) = (found.seals().is_ok(), found.device);
        let kind_of_system = self.files.mounts.mounted_kind(device);
        let in_memory = sealable || kind_of_system == Some("tmpfs");
        if kind_of_system == Some("ramfs") {
            return Err(Errno::EOPNOTSUPP);
        }
        // The simulated disk cannot write zeroes or unshare extents.
        let never = matches!(kind, c::FALLOC_FL_UNSHARE_RANGE | WRITE_ZEROES);
        if never || in_memory && !matches!(kind, 0 | c::FALLOC_FL_PUNCH_HOLE) {
            return Err(Errno::EOPNOTSUPP);
        }
        if matches!(kind, c::FALLOC_FL_COLLAPSE_RANGE | c::FALLOC_FL_INSERT_RANGE) {
            self.shift(inode, kind == c::FALLOC_FL_INSERT_RANGE, start, end, size)?;
            self.open_file_event(file, inode, c::IN_MODIFY);
            return Ok(());
        }
        let grows = end > size && !keeps_size;
        // In memory, allocation beyond the end counts as growth even if the size is kept.
        if grows || in_memory && kind == 0 && end > size {
            self.files.check_seals(inode, c::F_SEAL_GROW)?;
        }
        if kind == 0 && self.files.room_end(inode, start)? < end {
            self.files.no_room += u64::from(self.files.disk_is_full);
            return Err(Errno::ENOSPC);
        }
        if kind != 0 {
            self.files.check_seals(inode, c::F_SEAL_WRITE | c::F_SEAL_FUTURE_WRITE)?;
            self.zero(inode, start, end.min(size))?;
        }
        if grows {
            self.set_size(inode, end)?;
        }
        if let Some(content) = self.files.inode(inode).content_mut() {
            match kind {
                c::FALLOC_FL_PUNCH_HOLE => content.extents.remove(start, end.min(size), size),
                _ => content.extents.set_aside(start, end.min(content.size)),
            }
        }
        self.files.recharge(inode);
        self.content_changed(inode);
        self.open_file_event(file, inode, c::IN_MODIFY);
        Ok(())
    }
    /// Removes the bytes `start..end` of a file or, with `insert`, inserts zeroes there. `EINVAL` unless the
    /// range is block-aligned and within the file.
    fn shift(&mut self, inode: InodeKey, insert: bool, start: u64, end: u64, size: u64) -> Result<(), Errno> {
        const BLOCK: u64 = 4_096;
        let within = if insert { start < size } else { end < size };
        if !start.is_multiple_of(BLOCK) || !end.is_multiple_of(BLOCK) || !within {
            return Err(Errno::EINVAL);
        }
        self.copy_up(inode, u64::MAX)?;
        let from = if insert { start } else { end };
        let native = self.native_of(inode)?;
        let mut behind = vec![0; (size - from) as usize];
        let read = self.machine.read_at(native, from, &mut behind)?;
        behind.truncate(read);
        let hole = if insert { end - start } else { 0 };
        self.set_size(inode, start)?;
        self.set_size(inode, start + hole + behind.len() as u64)?;
        self.write_inode(inode, start + hole, &behind)
    }
    /// Zeroes the bytes `start..end` of a file.
    fn zero(&mut self, inode: InodeKey, start: u64, end: u64) -> Result<(), Errno> {
        if start >= end {
            return Ok(());
        }
        self.copy_up(inode, u64::MAX)?;
        let native = self.native_of(inode)?;
        match self.machine.punch(native, start, end) {
            Err(Errno::EOPNOTSUPP | Errno::ENOSYS) => {}
            punched => return punched,
        }
        let mut at = start;
        while at < end {
            let part = CHUNK.min(end - at);
            self.machine.write_at(native, at, &vec![0; part as usize])?;
            at += part;
        }
        Ok(())
    }
    /// Records that the content of a file, or the entries of a directory, changed now: `st_mtime` and
    /// `st_ctime`.
    pub(crate) fn content_changed(&mut self, inode: InodeKey) {
        let now = self.net.clock.realtime_ns() as i64;
        let inode = self.files.inode(inode);
        inode.changed = true;
        (inode.meta.times.modify, inode.meta.times.change) = (now, now);
    }
    /// Records that an inode changed now, apart from its content: `st_ctime`.
    pub(crate) fn inode_changed(&mut self, inode: InodeKey) {
        let now = self.net.clock.realtime_ns() as i64;
        let inode = self.files.inode(inode);
        inode.changed = true;
        inode.meta.times.change = now;
    }
}

impl Call<'_> {
    /// Writes `data` to guest memory from byte `skip` of `buffers` on.
    pub fn scatter_at(&mut self, buffers: &GuestBuffers, skip: u64, mut data: &[u8]) -> Result<(), Errno> {
        if self.staged.is_some() {
            return self.scatter(buffers, data);
        }
        let mut skip = skip;
        for (addr, len) in buffers {
            let from = skip.min(*len);
            skip -= from;
            let (part, rest) = data.split_at(data.len().min((len - from) as usize));
            self.write_bytes(addr + from, part)?;
            data = rest;
            if data.is_empty() {
                break;
            }
        }
        Ok(())
    }
}
