//! Reading and writing regular files.

use super::FileKind;
use super::tree::Node;
use crate::call::{Call, SysResult, done};
use crate::guest::{Buffers, total_len};
use crate::host::Host;
use crate::ids::{FileKey, InodeKey};
use belljar_linux_abi::{Errno, c};

/// Bytes moved at a time between the machine's file and the guest's memory.
const CHUNK: u64 = 1 << 20;
/// The longest file, `MAX_LFS_FILESIZE`.
pub const MAX_FILE_SIZE: u64 = i64::MAX as u64;

/// Reads from `offset`, or from the file position, which it moves.
pub fn read(
    call: &mut Call<'_>,
    file: FileKey,
    inode: InodeKey,
    buffers: &Buffers,
    offset: Option<u64>,
) -> SysResult {
    let start = offset.unwrap_or(call.host.open(file).offset);
    let size = call.host.inode(inode).content().map_or(0, |content| content.size);
    let wanted = total_len(buffers).min(size.saturating_sub(start));
    let mut chunk = std::mem::take(&mut call.host.files.scratch);
    let outcome = read_chunks(call, inode, buffers, start, wanted, &mut chunk);
    call.host.files.scratch = chunk;
    let moved = outcome?;
    if offset.is_none() {
        call.host.open(file).offset = start + moved;
    }
    done(moved)
}

/// Moves `wanted` bytes from `start` on; fewer if the file or the guest's memory ends before.
fn read_chunks(
    call: &mut Call<'_>,
    inode: InodeKey,
    buffers: &Buffers,
    start: u64,
    wanted: u64,
    chunk: &mut Vec<u8>,
) -> Result<u64, Errno> {
    let mut moved = 0;
    while moved < wanted {
        let native = call.host.native_of(inode)?;
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

/// Writes at `offset`, at the end for `O_APPEND`, or at the file position, which it moves.
pub fn write(
    call: &mut Call<'_>,
    file: FileKey,
    inode: InodeKey,
    buffers: &Buffers,
    offset: Option<u64>,
) -> SysResult {
    let open = call.host.open(file);
    let append = open.flags & c::O_APPEND != 0;
    let position = open.offset;
    let size = call.host.inode(inode).content().map_or(0, |content| content.size);
    let start = if append { size } else { offset.unwrap_or(position) };
    let wanted = total_len(buffers);
    if wanted > 0 && start >= MAX_FILE_SIZE {
        return Err(Errno::EFBIG);
    }
    let wanted = wanted.min(MAX_FILE_SIZE - start);
    let mut moved = 0;
    while moved < wanted {
        let part = call.gather(buffers, moved, CHUNK.min(wanted - moved) as usize);
        let written = part.and_then(|data| {
            call.host.write_inode(inode, start + moved, &data)?;
            Ok(data.len() as u64)
        });
        match written {
            Ok(written) => moved += written,
            Err(errno) if moved == 0 => return Err(errno),
            Err(_) => break,
        }
    }
    if offset.is_none() {
        call.host.open(file).offset = start + moved;
    }
    done(moved)
}

impl Host {
    /// Writes bytes of a regular file, which becomes one of the host's own layer.
    pub(crate) fn write_inode(&mut self, inode: InodeKey, offset: u64, data: &[u8]) -> Result<(), Errno> {
        self.copy_up(inode, u64::MAX)?;
        let native = self.native_of(inode)?;
        self.machine.write_at(native, offset, data)?;
        if let Some(content) = self.inode(inode).content_mut() {
            content.size = content.size.max(offset + data.len() as u64);
        }
        self.content_changed(inode);
        Ok(())
    }
    /// Cuts or extends a regular file.
    pub(crate) fn set_size(&mut self, inode: InodeKey, size: u64) -> Result<(), Errno> {
        match &self.inode(inode).node {
            Node::Regular(_) => {}
            Node::Directory(_) => return Err(Errno::EISDIR),
            Node::Virtual(_) => return Ok(()),
            _ => return Err(Errno::EINVAL),
        }
        if size > MAX_FILE_SIZE {
            return Err(Errno::EFBIG);
        }
        self.copy_up(inode, size)?;
        if self.inode(inode).content().is_some_and(|content| content.size != size) {
            let was_open = self.inode(inode).content().is_some_and(|content| content.native.is_some());
            let native = self.native_of(inode)?;
            self.machine.set_len(native, size)?;
            if let Some(content) = self.inode(inode).content_mut() {
                content.size = size;
            }
            if !was_open && self.inode(inode).opens == 0 {
                self.close_native(inode);
            }
        }
        self.content_changed(inode);
        Ok(())
    }
    /// `lseek(2)`.
    pub(crate) fn seek(&mut self, file: FileKey, offset: i64, whence: i32) -> Result<u64, Errno> {
        let open = self.open(file);
        if open.flags & c::O_PATH != 0 {
            return Err(Errno::EBADF);
        }
        let position = open.offset as i64;
        let inode = open.kind.inode().filter(|_| open.kind.has_position()).ok_or(Errno::ESPIPE)?;
        let size = self.inode(inode).content().map_or(0, |content| content.size) as i64;
        let to = match whence {
            c::SEEK_SET => Some(offset),
            c::SEEK_CUR => position.checked_add(offset),
            c::SEEK_END => size.checked_add(offset),
            c::SEEK_DATA | c::SEEK_HOLE if offset < 0 || offset >= size => return Err(Errno::ENXIO),
            c::SEEK_DATA => Some(offset),
            c::SEEK_HOLE => Some(size),
            _ => return Err(Errno::EINVAL),
        };
        let to = to.ok_or(Errno::EOVERFLOW)?;
        let to = u64::try_from(to).map_err(|_| Errno::EINVAL)?;
        self.open(file).offset = to;
        Ok(to)
    }
    /// `fallocate(2)` of the bytes `start..end`.
    pub(crate) fn allocate(&mut self, file: FileKey, mode: i32, start: u64, end: u64) -> Result<(), Errno> {
        let open = self.open(file);
        if open.flags & c::O_PATH != 0 || !open.is_writable() {
            return Err(Errno::EBADF);
        }
        let inode = match &open.kind {
            FileKind::Regular(inode) => *inode,
            kind if kind.has_position() => return Err(Errno::ENODEV),
            _ => return Err(Errno::ESPIPE),
        };
        let size = self.inode(inode).content().map_or(0, |content| content.size);
        let keeps_size = mode & c::FALLOC_FL_KEEP_SIZE != 0;
        match mode & !c::FALLOC_FL_KEEP_SIZE {
            0 if keeps_size || end <= size => Ok(()),
            0 => self.set_size(inode, end),
            c::FALLOC_FL_PUNCH_HOLE | c::FALLOC_FL_ZERO_RANGE => {
                if mode & c::FALLOC_FL_PUNCH_HOLE != 0 && !keeps_size {
                    return Err(Errno::EOPNOTSUPP);
                }
                let zero_end = if keeps_size { end.min(size) } else { end };
                let mut at = start;
                while at < zero_end {
                    let part = CHUNK.min(zero_end - at);
                    self.write_inode(inode, at, &vec![0; part as usize])?;
                    at += part;
                }
                Ok(())
            }
            _ => Err(Errno::EOPNOTSUPP),
        }
    }
    /// The content of a file, or what a directory holds, has changed now.
    pub(crate) fn content_changed(&mut self, inode: InodeKey) {
        let now = self.clock.realtime_ns() as i64;
        let times = &mut self.inode(inode).meta.times;
        (times.modify, times.change) = (now, now);
    }
    /// An inode has changed now, its content apart.
    pub(crate) fn inode_changed(&mut self, inode: InodeKey) {
        self.inode(inode).meta.times.change = self.clock.realtime_ns() as i64;
    }
}

impl Call<'_> {
    /// Stores `data` at byte `skip` of what `buffers` hold together.
    pub fn scatter_at(&mut self, buffers: &Buffers, skip: u64, mut data: &[u8]) -> Result<(), Errno> {
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
