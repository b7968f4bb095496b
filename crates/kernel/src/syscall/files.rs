//! Opening, reading and writing files.

use super::socket::check_descriptor_available;
use crate::call::Call;
use crate::files::disk_faults;
use crate::files::open::{OpenRequest, Opened};
use crate::files::permission::WRITE;
use crate::files::regular;
use crate::files::tree::Walk;
use crate::guest::GuestBuffers;
use crate::ids::{FileKey, InodeKey};
use crate::outcome::{Block, IfInterrupted, SysResult, done};
use belljar_linux_abi::file::OpenHow;
use belljar_linux_abi::landlock::ACCESS_FS_TRUNCATE;
use belljar_linux_abi::{Errno, c};
use belljar_machine::DiskEvent;
use belljar_objects::devices::Device;
use belljar_objects::file_flags::FileFlags;
use belljar_objects::file_kind::FileKind;
use belljar_objects::locks::F_SEAL_EXEC;

/// `open(2)`.
pub fn sys_open(call: &mut Call<'_>) -> SysResult {
    let (flags, mode) = (call.int(1), call.uint(2));
    open(call, c::AT_FDCWD, call.args[0], flags, mode, Walk::empty())
}

/// `openat(2)`.
pub fn sys_openat(call: &mut Call<'_>) -> SysResult {
    let (flags, mode) = (call.int(2), call.uint(3));
    open(call, call.int(0), call.args[1], flags, mode, Walk::empty())
}

/// `creat(2)`.
pub fn sys_creat(call: &mut Call<'_>) -> SysResult {
    let flags = c::O_CREAT | c::O_WRONLY | c::O_TRUNC;
    open(call, c::AT_FDCWD, call.args[0], flags, call.uint(1), Walk::empty())
}

/// Flags accepted by `openat2(2)` (`VALID_OPEN_FLAGS`), and those allowed with `O_PATH`.
const OPEN_FLAGS: i32 = 0o3777_7703;
const PATH_FLAGS: i32 = c::O_PATH | c::O_DIRECTORY | c::O_NOFOLLOW | c::O_CLOEXEC;

/// `openat2(2)`.
pub fn sys_openat2(call: &mut Call<'_>) -> SysResult {
    let how: OpenHow = call.read_extensible(call.args[2], call.args[3], size_of::<OpenHow>())?;
    let flags = i32::try_from(how.flags).map_err(|_| Errno::EINVAL)?;
    if flags & !OPEN_FLAGS != 0 || flags & c::O_PATH != 0 && flags & !PATH_FLAGS != 0 {
        return Err(Errno::EINVAL);
    }
    let creates = flags & c::O_CREAT != 0 || flags & c::O_TMPFILE == c::O_TMPFILE;
    if how.mode & !0o7777 != 0 || (how.mode != 0 && !creates) {
        return Err(Errno::EINVAL);
    }
    let mut walk = Walk::empty();
    let mut rest = how.resolve;
    for (bit, rule) in [
        (c::RESOLVE_NO_XDEV, Walk::NO_XDEV),
        (c::RESOLVE_NO_MAGICLINKS, Walk::NO_MAGICLINKS),
        (c::RESOLVE_NO_SYMLINKS, Walk::NO_SYMLINKS),
        (c::RESOLVE_BENEATH, Walk::BENEATH),
        (c::RESOLVE_IN_ROOT, Walk::IN_ROOT),
        (c::RESOLVE_CACHED, Walk::empty()),
    ] {
        if how.resolve & bit != 0 {
            walk |= rule;
        }
        rest &= !bit;
    }
    if rest != 0 || walk.contains(Walk::BENEATH | Walk::IN_ROOT) {
        return Err(Errno::EINVAL);
    }
    open(call, call.int(0), call.args[1], flags, how.mode as u32, walk)
}

fn open(call: &mut Call<'_>, dirfd: i32, path: u64, flags: i32, mode: u32, walk: Walk) -> SysResult {
    let path = call.read_path(path)?;
    open_at(call, dirfd, &path, flags, mode, walk)
}

/// Opens a file and returns its descriptor.
pub(super) fn open_at(
    call: &mut Call<'_>,
    dirfd: i32,
    path: &[u8],
    flags: i32,
    mode: u32,
    walk: Walk,
) -> SysResult {
    let again = call.resumed.is_some();
    // The descriptor limit is checked before the file is opened.
    check_descriptor_available(call)?;
    let request = OpenRequest { dirfd, path, flags, mode, walk, again };
    let opened = call.host.open_path(call.process, request);
    match call.note_missing(path, opened)? {
        Opened::File(file) => done(call.host.install_fd(call.process, file, flags & c::O_CLOEXEC != 0, 0)?),
        Opened::Asked(queue) => Block::on(queue).interrupted(IfInterrupted::Killable).into(),
        Opened::Wait(queue, until) => {
            Block::on(queue).with_deadline(until).interrupted(IfInterrupted::Restart).into()
        }
    }
}

/// Flags of `memfd_create`: never executable, and executable.
const MFD_NOEXEC_SEAL: u32 = 8;
const MFD_EXEC: u32 = 16;

/// `memfd_create(2)`.
pub fn sys_memfd_create(call: &mut Call<'_>) -> SysResult {
    let flags = call.uint(1);
    let known = c::MFD_CLOEXEC | c::MFD_ALLOW_SEALING | MFD_NOEXEC_SEAL | MFD_EXEC;
    if flags & !known != 0 || flags & (MFD_NOEXEC_SEAL | MFD_EXEC) == MFD_NOEXEC_SEAL | MFD_EXEC {
        return Err(Errno::EINVAL);
    }
    let name = call.host.read_guest_string(call.process, call.args[0], 249, Errno::EINVAL)?;
    let (mode, seals) = match flags {
        flags if flags & MFD_NOEXEC_SEAL != 0 => (0o666, F_SEAL_EXEC),
        flags if flags & c::MFD_ALLOW_SEALING != 0 => (0o777, 0),
        _ => (0o777, c::F_SEAL_SEAL),
    };
    let file = call.host.create_memfd(name, mode, seals)?;
    call.host.own_unnamed(call.process, file);
    done(call.host.install_fd(call.process, file, flags & c::MFD_CLOEXEC != 0, 0)?)
}

/// `readahead(2)`: no effect; `EINVAL` for files that are not regular.
pub fn sys_readahead(call: &mut Call<'_>) -> SysResult {
    let file = call.host.file_of(call.process, call.int(0))?;
    let open = call.host.files.open(file);
    if !open.is_readable() {
        return Err(Errno::EBADF);
    }
    if !matches!(open.kind, FileKind::Regular(_)) {
        return Err(Errno::EINVAL);
    }
    done(0)
}

/// `read(2)`.
pub fn sys_read(call: &mut Call<'_>) -> SysResult {
    let buffers = Call::one_buffer(call.args[1], call.args[2]);
    read(call, buffers, None)
}
/// `write(2)`.
pub fn sys_write(call: &mut Call<'_>) -> SysResult {
    let buffers = Call::one_buffer(call.args[1], call.args[2]);
    write(call, buffers, None)
}
/// `pread64(2)`.
pub fn sys_pread64(call: &mut Call<'_>) -> SysResult {
    let buffers = Call::one_buffer(call.args[1], call.args[2]);
    let offset = position(call.args[3])?;
    read(call, buffers, Some(offset))
}
/// `pwrite64(2)`.
pub fn sys_pwrite64(call: &mut Call<'_>) -> SysResult {
    let buffers = Call::one_buffer(call.args[1], call.args[2]);
    let offset = position(call.args[3])?;
    write(call, buffers, Some(offset))
}
/// Validates a file offset argument; `EINVAL` if it is negative.
pub(super) fn position(argument: u64) -> Result<u64, Errno> {
    if argument > i64::MAX as u64 { Err(Errno::EINVAL) } else { Ok(argument) }
}

fn read(call: &mut Call<'_>, buffers: GuestBuffers, offset: Option<u64>) -> SysResult {
    let file = call.host.file_of(call.process, call.int(0))?;
    call.file_read(file, &buffers, offset)
}

fn write(call: &mut Call<'_>, buffers: GuestBuffers, offset: Option<u64>) -> SysResult {
    let file = call.host.file_of(call.process, call.int(0))?;
    call.file_write(file, &buffers, offset)
}

/// `lseek(2)`.
pub fn sys_lseek(call: &mut Call<'_>) -> SysResult {
    let file = call.host.file_of(call.process, call.int(0))?;
    let (offset, whence) = (call.args[1] as i64, call.int(2));
    done(call.host.seek(file, offset, whence)?)
}

/// `truncate(2)`.
pub fn sys_truncate(call: &mut Call<'_>) -> SysResult {
    let path = call.read_path(call.args[0])?;
    let size = u64::try_from(call.args[1] as i64).map_err(|_| Errno::EINVAL)?;
    let found = call.host.resolve_here(call.process, &path, Walk::FOLLOW)?;
    let place = found.place()?;
    let inode = place.1;
    match call.host.files.inode(inode).node.format() {
        c::S_IFDIR => return Err(Errno::EISDIR),
        c::S_IFREG => {}
        _ => return Err(Errno::EINVAL),
    }
    call.host.files.check_writable(place)?;
    call.host.files.check_permission(&call.host.processes, call.process, inode, WRITE)?;
    call.host.files.check_restricted(&call.host.processes, &found, ACCESS_FS_TRUNCATE)?;
    call.host.files.check_not_executed(&call.host.spaces, inode)?;
    if let Some((queue, until)) = call.host.break_leases(inode, true, true)? {
        return Block::on(queue).with_deadline(Some(until)).into();
    }
    cut(call, inode, size)?;
    call.host.file_event(inode, c::IN_MODIFY);
    done(0)
}

/// `ftruncate(2)`.
pub fn sys_ftruncate(call: &mut Call<'_>) -> SysResult {
    let size = u64::try_from(call.args[1] as i64).map_err(|_| Errno::EINVAL)?;
    let file = call.host.file_of(call.process, call.int(0))?;
    let open = call.host.files.open(file);
    if open.flags & c::O_PATH != 0 {
        return Err(Errno::EBADF);
    }
    let (writable, withheld) = (open.is_writable(), open.withheld & ACCESS_FS_TRUNCATE);
    let inode = open.kind.inode().filter(|_| writable).ok_or(Errno::EINVAL)?;
    if withheld != 0 {
        return Err(Errno::EACCES);
    }
    let unnamed = call.host.files.open(file).unnamed.clone();
    cut(call, inode, size)?;
    // As for `truncate(2)`, the event is not attributed to the open file.
    call.host.file_event_under(unnamed, None, inode, c::IN_MODIFY);
    done(0)
}

/// Sets the size of a file within the caller's `RLIMIT_FSIZE` and the file's seals.
fn cut(call: &mut Call<'_>, inode: InodeKey, size: u64) -> Result<(), Errno> {
    call.host.files.inode(inode).check_flags(FileFlags::FIXED)?;
    let before = call.host.size_of(inode)?;
    if size > before {
        call.room_in_file(size - 1, 1)?;
        call.host.files.check_seals(inode, c::F_SEAL_GROW)?;
    } else if size < before {
        call.host.files.check_seals(inode, c::F_SEAL_SHRINK)?;
    }
    call.host.files.written_by(&call.host.processes, call.process, inode);
    call.host.set_size(inode, size)
}

/// `fallocate(2)`: space is unlimited, so only the size can change; holes are punched by writing zeroes.
pub fn sys_fallocate(call: &mut Call<'_>) -> SysResult {
    let file = call.host.pollable_file(call.process, call.int(0))?;
    let (mode, start, len) = (call.int(1), call.args[2] as i64, call.args[3] as i64);
    if start < 0 || len <= 0 {
        return Err(Errno::EINVAL);
    }
    // The range limit is checked after the other arguments.
    let end = start as u64 + len as u64;
    let open = call.host.files.open(file);
    let grows = matches!(open.kind, FileKind::Regular(_)) && open.is_writable() && mode == 0;
    if grows {
        call.room_in_file(end - 1, 1)?;
    }
    call.host.allocate(file, mode, start as u64, end)?;
    if let Some(inode) = call.host.files.open(file).kind.inode() {
        call.host.files.written_by(&call.host.processes, call.process, inode);
    }
    done(0)
}

/// `fsync(2)`.
pub fn sys_fsync(call: &mut Call<'_>) -> SysResult {
    sync(call, false)
}

/// `fdatasync(2)`.
pub fn sys_fdatasync(call: &mut Call<'_>) -> SysResult {
    sync(call, true)
}

/// An effect only if a crash may lose what is not synced: else memory is the disk.
fn sync(call: &mut Call<'_>, data_only: bool) -> SysResult {
    let file = call.host.file_of(call.process, call.int(0))?;
    if !is_kept(call, file)? {
        return Err(Errno::EINVAL);
    }
    if let Some(block) = disk_faults::slow_sync(call, Some(file)) {
        return block.into();
    }
    regular::sync_file(call.host, file, data_only)?;
    done(0)
}

/// True if an open file is backed by storage. `EBADF` with `O_PATH`.
fn is_kept(call: &mut Call<'_>, file: FileKey) -> Result<bool, Errno> {
    let open = call.host.files.open(file);
    if open.flags & c::O_PATH != 0 {
        return Err(Errno::EBADF);
    }
    Ok(match open.kind {
        FileKind::Regular(_) | FileKind::Directory { .. } => true,
        FileKind::Virtual { inode, .. } => call.host.files.is_made_up_on_disk(inode),
        // Of devices, only block devices.
        FileKind::Device { device, .. } => matches!(device, Device::Block(_)),
        _ => false,
    })
}

/// `syncfs(2)`: accepts any open file without `O_PATH`.
pub fn sys_syncfs(call: &mut Call<'_>) -> SysResult {
    let file = call.host.file_of(call.process, call.int(0))?;
    if call.host.files.open(file).flags & c::O_PATH != 0 { Err(Errno::EBADF) } else { sys_sync(call) }
}

/// `sync_file_range(2)`.
pub fn sys_sync_file_range(call: &mut Call<'_>) -> SysResult {
    const KNOWN: u32 = 7;
    let (start, len, flags) = (call.args[1] as i64, call.args[2] as i64, call.uint(3));
    let file = call.host.file_of(call.process, call.int(0))?;
    let is_kept = is_kept(call, file)?;
    if flags & !KNOWN != 0 || start < 0 || len < 0 || start.checked_add(len).is_none() {
        return Err(Errno::EINVAL);
    }
    if is_kept { done(0) } else { Err(Errno::ESPIPE) }
}

/// `sync(2)`.
pub fn sys_sync(call: &mut Call<'_>) -> SysResult {
    if let Some(block) = disk_faults::slow_sync(call, None) {
        return block.into();
    }
    call.host.machine.disk_event(DiskEvent::SyncedAll)?;
    done(0)
}

/// `fadvise64(2)`: checks its arguments; advice has no effect.
pub fn sys_fadvise64(call: &mut Call<'_>) -> SysResult {
    let file = call.host.file_of(call.process, call.int(0))?;
    if !call.host.files.open(file).kind.has_position() {
        return Err(Errno::ESPIPE);
    }
    if !(0..=5).contains(&call.int(3)) { Err(Errno::EINVAL) } else { done(0) }
}
