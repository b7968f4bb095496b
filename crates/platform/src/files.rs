//! Files of the machine, accessed by plain system calls. Only regular files are opened for reading or
//! writing: opening a FIFO could block, and a device could have side effects.

use belljar_linux_abi::Errno;
use belljar_machine::{NativeDirEntry, NativeFile, NativeStat, OpenHow};
use std::ffi::CString;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::mem::ManuallyDrop;
use std::os::fd::{AsRawFd, FromRawFd, IntoRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Borrows a file: the descriptor stays open.
fn borrowed(file: NativeFile) -> ManuallyDrop<File> {
    // SAFETY: `ManuallyDrop` leaves the descriptor open; the kernel passes only descriptors that
    // `open` or `shared_memory` gave and `close` has not taken.
    ManuallyDrop::new(unsafe { File::from_raw_fd(file.0) })
}

/// A path short enough for one system call, valid as long as the value lives.
struct Reachable<'a> {
    path: std::borrow::Cow<'a, Path>,
    _directory: Option<OwnedFd>,
}

impl AsRef<Path> for Reachable<'_> {
    fn as_ref(&self) -> &Path {
        &self.path
    }
}

/// The path in a form that system calls accept even if it is longer than `PATH_MAX`: guests may work in
/// directories that deep. Such a path is relative to a descriptor of a directory further up.
fn reachable(path: &Path) -> Result<Reachable<'_>, Errno> {
    const LONGEST: usize = libc::PATH_MAX as usize - 64;
    if path.as_os_str().len() <= LONGEST {
        return Ok(Reachable { path: path.into(), _directory: None });
    }
    let (mut at, mut directory) = (PathBuf::new(), None);
    for component in path.components() {
        if at.as_os_str().len() + component.as_os_str().len() >= LONGEST {
            let flags = libc::O_PATH | libc::O_DIRECTORY | libc::O_CLOEXEC;
            let opened = OwnedFd::from(fs::OpenOptions::new().read(true).custom_flags(flags).open(&at)?);
            at = PathBuf::from(format!("/proc/self/fd/{}", opened.as_raw_fd()));
            directory = Some(opened);
        }
        at.push(component);
    }
    Ok(Reachable { path: at.into(), _directory: directory })
}

pub fn open(path: &Path, how: OpenHow) -> Result<NativeFile, Errno> {
    let path = &reachable(path)?;
    let exists = match fs::symlink_metadata(path) {
        Ok(found) => {
            refuse_irregular(found.file_type())?;
            true
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound && how.create.is_some() => false,
        Err(error) => return Err(error.into()),
    };
    let mut options = fs::OpenOptions::new();
    options.read(true).write(how.write);
    // `std` refuses to create or truncate files that are not opened for writing; Linux does not.
    let mut flags = libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_NOCTTY;
    if let Some(mode) = how.create {
        flags |= libc::O_CREAT | if how.exclusive { libc::O_EXCL } else { 0 };
        options.mode(mode);
    }
    if how.truncate {
        flags |= libc::O_TRUNC;
    }
    let file = options.custom_flags(flags).open(path)?;
    refuse_irregular(file.metadata()?.file_type())?;
    if let (Some(mode), false) = (how.create, exists) {
        // The simulator's own umask is not the guest's.
        file.set_permissions(fs::Permissions::from_mode(mode & 0o7777))?;
    }
    Ok(NativeFile(file.into_raw_fd()))
}

fn refuse_irregular(kind: fs::FileType) -> Result<(), Errno> {
    if kind.is_file() {
        Ok(())
    } else if kind.is_dir() {
        Err(Errno::EISDIR)
    } else if kind.is_symlink() {
        Err(Errno::ELOOP)
    } else {
        Err(Errno::ENXIO)
    }
}

pub fn close(file: NativeFile) {
    drop(ManuallyDrop::into_inner(borrowed(file)));
}

pub fn read_at(file: NativeFile, offset: u64, out: &mut [u8]) -> Result<usize, Errno> {
    let file = borrowed(file);
    let mut done = 0;
    while done < out.len() {
        match file.read_at(&mut out[done..], offset + done as u64) {
            Ok(0) => break,
            Ok(n) => done += n,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(done)
}

pub fn write_at(file: NativeFile, offset: u64, data: &[u8]) -> Result<(), Errno> {
    Ok(borrowed(file).write_all_at(data, offset)?)
}

pub fn stat_file(file: NativeFile) -> Result<NativeStat, Errno> {
    Ok(stat_of(&borrowed(file).metadata()?))
}

pub fn set_len(file: NativeFile, len: u64) -> Result<(), Errno> {
    Ok(borrowed(file).set_len(len)?)
}

pub fn stat(path: &Path) -> Result<NativeStat, Errno> {
    let path = &reachable(path)?;
    Ok(stat_of(&fs::symlink_metadata(path)?))
}

fn stat_of(found: &fs::Metadata) -> NativeStat {
    NativeStat {
        dev: found.dev(),
        ino: found.ino(),
        mode: found.mode(),
        nlink: found.nlink(),
        uid: found.uid(),
        gid: found.gid(),
        rdev: found.rdev(),
        size: found.size(),
        blocks: found.blocks(),
        mtime_ns: found.mtime().saturating_mul(1_000_000_000).saturating_add(found.mtime_nsec()),
        // SAFETY: the call has no preconditions and cannot fail.
        is_own: found.uid() == unsafe { libc::geteuid() },
    }
}

/// Descriptors reserved for uses other than guests' files: libraries, channels, captures.
const RESERVED: usize = 256;

/// The number of descriptors that this process may have open: the soft limit, raised to the hard one.
pub fn descriptor_limit() -> usize {
    static LIMIT: std::sync::OnceLock<usize> = std::sync::OnceLock::new();
    *LIMIT.get_or_init(|| {
        let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        // SAFETY: `limit` outlives both calls.
        unsafe {
            if libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) != 0 {
                return 1_024;
            }
            let raised = libc::rlimit { rlim_cur: limit.rlim_max, ..limit };
            if libc::setrlimit(libc::RLIMIT_NOFILE, &raised) == 0 {
                limit = raised;
            }
        }
        usize::try_from(limit.rlim_cur).unwrap_or(usize::MAX)
    })
}

/// The number of native files that each of `hosts` hosts may keep open. Half of the descriptors remain for
/// far processes, each of which keeps one open.
pub fn file_share(hosts: u32) -> usize {
    descriptor_limit().saturating_sub(RESERVED) / 2 / hosts.max(1) as usize
}

/// The number of far processes, each of which keeps one descriptor open.
pub fn process_share() -> usize {
    descriptor_limit().saturating_sub(RESERVED).max(descriptor_limit() / 2) / 2
}

/// Frees the space of `start..end`, which reads as zeros from then on.
pub fn punch(file: NativeFile, start: u64, end: u64) -> Result<(), Errno> {
    let mode = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
    // SAFETY: the descriptor is open; no memory is involved.
    let done = unsafe {
        libc::fallocate(file.0, mode, start as libc::off_t, end.saturating_sub(start) as libc::off_t)
    };
    if done == 0 { Ok(()) } else { Err(std::io::Error::last_os_error().into()) }
}

/// Reads from a file into guest memory; `EFAULT` if the memory is unmapped.
///
/// # Safety
/// No memory of the simulator may lie in `addr..addr + len`.
pub unsafe fn read_into(file: NativeFile, addr: u64, len: u64, offset: u64) -> Result<u64, Errno> {
    loop {
        // SAFETY: by the caller's contract; the kernel checks that the memory is mapped.
        let got =
            unsafe { libc::pread(file.0, addr as *mut libc::c_void, len as usize, offset as libc::off_t) };
        match moved(got) {
            Err(Errno::EINTR) => {}
            done => return done,
        }
    }
}

/// Writes guest memory to a file; `EFAULT` if the memory is unmapped.
pub fn write_from(file: NativeFile, addr: u64, len: u64, offset: u64) -> Result<u64, Errno> {
    loop {
        // SAFETY: memory is only read, and the kernel checks that it is mapped.
        let put =
            unsafe { libc::pwrite(file.0, addr as *const libc::c_void, len as usize, offset as libc::off_t) };
        match moved(put) {
            Err(Errno::EINTR) => {}
            done => return done,
        }
    }
}

fn moved(count: isize) -> Result<u64, Errno> {
    u64::try_from(count).map_err(|_| std::io::Error::last_os_error().into())
}

pub fn read_link(path: &Path) -> Result<Vec<u8>, Errno> {
    let path = &reachable(path)?;
    Ok(fs::read_link(path)?.into_os_string().as_bytes().to_vec())
}

pub fn read_dir(path: &Path) -> Result<Vec<NativeDirEntry>, Errno> {
    let path = &reachable(path)?;
    let mut entries = Vec::new();
    for entry in fs::read_dir(path)? {
        let entry = entry?;
        let kind = match entry.file_type() {
            Ok(kind) => kind_bits(kind),
            // Removed since the directory was listed.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
            Err(error) => return Err(error.into()),
        };
        entries.push(NativeDirEntry { name: entry.file_name().as_bytes().to_vec(), kind });
    }
    entries.sort_unstable_by(|a, b| a.name.cmp(&b.name));
    Ok(entries)
}

fn kind_bits(kind: fs::FileType) -> u32 {
    match kind {
        _ if kind.is_dir() => libc::S_IFDIR,
        _ if kind.is_symlink() => libc::S_IFLNK,
        _ if kind.is_fifo() => libc::S_IFIFO,
        _ if kind.is_socket() => libc::S_IFSOCK,
        _ if kind.is_char_device() => libc::S_IFCHR,
        _ if kind.is_block_device() => libc::S_IFBLK,
        _ => libc::S_IFREG,
    }
}

pub fn create_dir(path: &Path, mode: u32) -> Result<(), Errno> {
    let path = &reachable(path)?;
    fs::create_dir(path)?;
    // The simulator's own umask is not the guest's.
    Ok(fs::set_permissions(path, fs::Permissions::from_mode(mode & 0o7777))?)
}

pub fn create_symlink(target: &[u8], path: &Path) -> Result<(), Errno> {
    let path = &reachable(path)?;
    Ok(std::os::unix::fs::symlink(std::ffi::OsStr::from_bytes(target), path)?)
}

pub fn create_link(existing: &Path, path: &Path) -> Result<(), Errno> {
    let (existing, path) = (&reachable(existing)?, &reachable(path)?);
    // `linkat` without AT_SYMLINK_FOLLOW, as in `std`: a link to a symbolic link is a symbolic link.
    Ok(fs::hard_link(existing, path)?)
}

pub fn remove_file(path: &Path) -> Result<(), Errno> {
    let path = &reachable(path)?;
    Ok(fs::remove_file(path)?)
}

pub fn remove_dir(path: &Path) -> Result<(), Errno> {
    let path = &reachable(path)?;
    Ok(fs::remove_dir(path)?)
}

pub fn rename(from: &Path, to: &Path) -> Result<(), Errno> {
    let (from, to) = (&reachable(from)?, &reachable(to)?);
    Ok(fs::rename(from, to)?)
}

pub fn set_mode(path: &Path, mode: u32) -> Result<(), Errno> {
    let path = &reachable(path)?;
    if fs::symlink_metadata(path)?.file_type().is_symlink() {
        return Err(Errno::EOPNOTSUPP);
    }
    Ok(fs::set_permissions(path, fs::Permissions::from_mode(mode & 0o7777))?)
}

pub fn shared_memory(len: u64) -> Result<NativeFile, Errno> {
    let name = CString::from(c"belljar");
    // SAFETY: `name` is a C string.
    let fd = unsafe { libc::memfd_create(name.as_ptr(), libc::MFD_CLOEXEC) };
    if fd < 0 {
        return Err(std::io::Error::last_os_error().into());
    }
    let file = NativeFile(fd);
    match set_len(file, len) {
        Ok(()) => Ok(file),
        Err(error) => {
            close(file);
            Err(error)
        }
    }
}

/// Asks Linux to back the whole huge pages among the first `len` bytes of a memory file by huge pages.
pub fn collapse(file: NativeFile, len: u64) {
    /// Since Linux 6.1.
    const MADV_COLLAPSE: i32 = 25;
    const HUGE: usize = crate::layout::HUGE_PAGE as usize;
    let (len, reserved) = (len as usize, len as usize + HUGE);
    let prot = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: the first call reserves free addresses, and the others stay within them; no other code
    // references them.
    unsafe {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        let found = libc::mmap(std::ptr::null_mut(), reserved, libc::PROT_NONE, flags, -1, 0);
        if found == libc::MAP_FAILED {
            return;
        }
        let start = found.byte_add(found.align_offset(HUGE));
        if libc::mmap(start, len, prot, libc::MAP_SHARED | libc::MAP_FIXED, file.0, 0) != libc::MAP_FAILED {
            libc::madvise(start, len, MADV_COLLAPSE);
        }
        libc::munmap(found, reserved);
    }
}

pub fn read_stream(stream: u8, out: &mut [u8]) -> Result<usize, Errno> {
    loop {
        match own_stream(stream)?.read(out) {
            Ok(n) => return Ok(n),
            Err(error) => wait_or_fail(stream, libc::POLLIN, error)?,
        }
    }
}

pub fn write_stream(stream: u8, mut data: &[u8]) -> Result<(), Errno> {
    while !data.is_empty() {
        match own_stream(stream)?.write(data) {
            Ok(n) => data = &data[n..],
            Err(error) => wait_or_fail(stream, libc::POLLOUT, error)?,
        }
    }
    Ok(())
}

fn own_stream(stream: u8) -> Result<ManuallyDrop<File>, Errno> {
    if stream > 2 { Err(Errno::EBADF) } else { Ok(borrowed(NativeFile(i32::from(stream)))) }
}

/// Retries an interrupted operation and waits for a standard stream that is not ready: the process that
/// started the simulator may have made it non-blocking.
fn wait_or_fail(stream: u8, events: i16, error: std::io::Error) -> Result<(), Errno> {
    match error.kind() {
        std::io::ErrorKind::Interrupted => Ok(()),
        std::io::ErrorKind::WouldBlock => {
            let mut wait = libc::pollfd { fd: i32::from(stream), events, revents: 0 };
            // SAFETY: `wait` outlives the call. A failure shows in the next attempt.
            unsafe { libc::poll(&mut wait, 1, -1) };
            Ok(())
        }
        _ => Err(error.into()),
    }
}
