//! Tests of the file tree over real files: writes go to the host's own layer, and the machine's files are
//! unchanged.

use crate::testing::{DATA, TestHost, config};
use belljar_linux_abi::file::Stat;
use belljar_linux_abi::{Errno, c};
use belljar_machine::*;
use slab::Slab;
use std::fs::{self, File, OpenOptions};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use zerocopy::FromBytes;

/// Files below a directory of the test, which guests see as the root. Files and directories without any mode
/// bits are inaccessible, even if root runs the test.
struct TestFiles {
    open: Slab<File>,
}

fn allowed(path: &Path) -> Result<(), Errno> {
    let is_closed = fs::symlink_metadata(path).is_ok_and(|found| found.mode() & 0o777 == 0);
    if is_closed { Err(Errno::EACCES) } else { Ok(()) }
}

fn stat_of(found: &fs::Metadata) -> NativeStat {
    NativeStat {
        mode: found.mode(),
        nlink: found.nlink(),
        size: found.size(),
        mtime_ns: found.mtime() * 1_000_000_000 + found.mtime_nsec(),
        ..NativeStat::default()
    }
}

impl HostFiles for TestFiles {
    fn open(&mut self, path: &Path, how: OpenHow) -> Result<NativeFile, Errno> {
        allowed(path)?;
        let mut options = OpenOptions::new();
        options.read(true).write(how.write).create(how.create.is_some()).truncate(how.truncate);
        Ok(NativeFile(self.open.insert(options.open(path)?) as i32))
    }
    fn close(&mut self, file: NativeFile) {
        self.open.remove(file.0 as usize);
    }
    fn read_at(&mut self, file: NativeFile, offset: u64, out: &mut [u8]) -> Result<usize, Errno> {
        Ok(self.open[file.0 as usize].read_at(out, offset)?)
    }
    fn write_at(&mut self, file: NativeFile, offset: u64, data: &[u8]) -> Result<(), Errno> {
        Ok(self.open[file.0 as usize].write_all_at(data, offset)?)
    }
    fn stat_file(&mut self, file: NativeFile) -> Result<NativeStat, Errno> {
        Ok(stat_of(&self.open[file.0 as usize].metadata()?))
    }
    fn set_len(&mut self, file: NativeFile, len: u64) -> Result<(), Errno> {
        Ok(self.open[file.0 as usize].set_len(len)?)
    }
    fn stat(&mut self, path: &Path) -> Result<NativeStat, Errno> {
        path.parent().map_or(Ok(()), allowed)?;
        Ok(stat_of(&fs::symlink_metadata(path)?))
    }
    fn read_link(&mut self, path: &Path) -> Result<Vec<u8>, Errno> {
        Ok(fs::read_link(path)?.into_os_string().into_vec())
    }
    fn read_dir(&mut self, path: &Path) -> Result<Vec<NativeDirEntry>, Errno> {
        allowed(path)?;
        let mut entries = Vec::new();
        for entry in fs::read_dir(path)? {
            let entry = entry?;
            let kind = entry.metadata()?.mode() & c::S_IFMT;
            entries.push(NativeDirEntry { name: entry.file_name().into_vec(), kind });
        }
        entries.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(entries)
    }
    fn create_dir(&mut self, path: &Path, _: u32) -> Result<(), Errno> {
        Ok(fs::create_dir(path)?)
    }
    fn create_symlink(&mut self, target: &[u8], path: &Path) -> Result<(), Errno> {
        Ok(std::os::unix::fs::symlink(std::ffi::OsStr::from_bytes(target), path)?)
    }
    fn create_link(&mut self, existing: &Path, path: &Path) -> Result<(), Errno> {
        Ok(fs::hard_link(existing, path)?)
    }
    fn remove_file(&mut self, path: &Path) -> Result<(), Errno> {
        Ok(fs::remove_file(path)?)
    }
    fn remove_dir(&mut self, path: &Path) -> Result<(), Errno> {
        Ok(fs::remove_dir(path)?)
    }
    fn rename(&mut self, from: &Path, to: &Path) -> Result<(), Errno> {
        Ok(fs::rename(from, to)?)
    }
    fn set_mode(&mut self, path: &Path, mode: u32) -> Result<(), Errno> {
        Ok(fs::set_permissions(path, fs::Permissions::from_mode(mode))?)
    }
    fn shared_memory(&mut self, len: u64) -> Result<NativeFile, Errno> {
        let file = tempfile::tempfile()?;
        file.set_len(len)?;
        Ok(NativeFile(self.open.insert(file) as i32))
    }
    fn read_stream(&mut self, _: u8, _: &mut [u8]) -> Result<usize, Errno> {
        Ok(0)
    }
    fn write_stream(&mut self, _: u8, _: &[u8]) -> Result<(), Errno> {
        Ok(())
    }
}

/// A host on a machine with a folder `lower`, and a results folder, both in a temporary directory at a path
/// where hosts see the machine's files.
struct World {
    host: TestHost,
    lower: PathBuf,
    results: PathBuf,
    _keep: tempfile::TempDir,
}

impl World {
    fn new() -> World {
        // Not below /tmp, which starts empty.
        let base = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target");
        fs::create_dir_all(&base).expect("the build's own directory");
        let keep = tempfile::tempdir_in(base.canonicalize().expect("it exists")).expect("a directory");
        let (lower, results) = (keep.path().join("lower"), keep.path().join("results"));
        fs::create_dir_all(lower.join("sub")).expect("a directory");
        fs::create_dir(&results).expect("a directory");
        fs::write(lower.join("file"), "from the machine").expect("a file");
        fs::write(lower.join("sub/inner"), "inner").expect("a file");
        let mut config = config();
        config.directory = results.clone();
        config.working_directory = lower.clone();
        let host = TestHost::with(config, Box::new(TestFiles { open: Slab::new() }), 1);
        World { host, lower, results, _keep: keep }
    }
    fn path(&mut self, path: &str) -> u64 {
        self.host.put(0x1000, &[path.as_bytes(), b"\0"].concat())
    }
    fn path2(&mut self, path: &str) -> u64 {
        self.host.put(0x2000, &[path.as_bytes(), b"\0"].concat())
    }
    fn open(&mut self, path: &str, flags: i32) -> Result<u64, Errno> {
        let path = self.path(path);
        self.host.call(c::SYS_open, &[path, flags as u64, 0o644])
    }
    fn read(&mut self, path: &str) -> Result<Vec<u8>, Errno> {
        let fd = self.open(path, c::O_RDONLY)?;
        let read = self.host.call(c::SYS_read, &[fd, DATA + 0x3000, 100])?;
        self.host.call(c::SYS_close, &[fd])?;
        Ok(self.host.get(0x3000, read as usize))
    }
    fn write(&mut self, path: &str, flags: i32, data: &[u8]) -> Result<(), Errno> {
        let fd = self.open(path, c::O_WRONLY | flags)?;
        let at = self.host.put(0x3000, data);
        assert_eq!(self.host.call(c::SYS_write, &[fd, at, data.len() as u64]), Ok(data.len() as u64));
        self.host.call(c::SYS_close, &[fd]).map(|_| ())
    }
    fn with_path(&mut self, number: i64, path: &str) -> Result<u64, Errno> {
        let path = self.path(path);
        self.host.call(number, &[path, 0o755])
    }
    fn with_paths(&mut self, number: i64, from: &str, to: &str) -> Result<u64, Errno> {
        let (from, to) = (self.path(from), self.path2(to));
        self.host.call(number, &[from, to])
    }
    fn stat(&mut self, path: &str) -> Result<Stat, Errno> {
        let path = self.path(path);
        self.host.call(c::SYS_stat, &[path, DATA + 0x4000])?;
        Ok(Stat::read_from_bytes(&self.host.get(0x4000, size_of::<Stat>())).expect("its size"))
    }
    fn list(&mut self, path: &str) -> Vec<String> {
        let fd = self.open(path, c::O_RDONLY | c::O_DIRECTORY).expect("a directory");
        let mut names = Vec::new();
        // A small buffer, so that several calls are needed.
        while let Ok(len @ 1..) = self.host.call(c::SYS_getdents64, &[fd, DATA + 0x5000, 64]) {
            let records = self.host.get(0x5000, len as usize);
            let mut at = 0;
            while at < records.len() {
                let length = usize::from(u16::from_le_bytes([records[at + 16], records[at + 17]]));
                let name = &records[at + 19..at + length];
                let end = name.iter().position(|b| *b == 0).expect("terminated");
                names.push(String::from_utf8_lossy(&name[..end]).into_owned());
                at += length;
            }
        }
        self.host.call(c::SYS_close, &[fd]).expect("it is open");
        names
    }
    /// Path of a file of the lower folder in the host's own layer.
    fn upper(&self, name: &str) -> PathBuf {
        let lower = self.lower.strip_prefix("/").expect("absolute");
        self.results.join("fs").join(lower).join(name)
    }
}

#[test]
fn writing_copies_up_and_leaves_the_machine_alone() {
    let mut world = World::new();
    let before = world.stat("file").unwrap();
    let reader = world.open("file", c::O_RDONLY).unwrap();
    world.write("file", 0, b"FROM").unwrap();
    assert_eq!(world.read("file").unwrap(), b"FROM the machine");
    // A descriptor opened before the write refers to the same file.
    assert_eq!(world.host.call(c::SYS_pread64, &[reader, DATA + 0x3000, 4, 0]), Ok(4));
    assert_eq!(world.host.get(0x3000, 4), b"FROM");
    let after = world.stat("file").unwrap();
    assert_eq!((before.dev, before.ino), (after.dev, after.ino));
    assert_eq!(after.mtime.sec, crate::clock::DEFAULT_EPOCH_SECS as i64);
    assert_eq!(fs::read(world.lower.join("file")).unwrap(), b"from the machine");
    assert_eq!(fs::read(world.upper("file")).unwrap(), b"FROM the machine");
}

#[test]
fn removed_names_stay_removed_and_can_be_made_again() {
    let mut world = World::new();
    world.with_path(c::SYS_unlink, "file").unwrap();
    assert_eq!(world.read("file"), Err(Errno::ENOENT));
    assert_eq!(world.list("."), [".", "..", "sub"]);
    assert_eq!(world.with_path(c::SYS_rmdir, "sub"), Err(Errno::ENOTEMPTY));
    world.with_path(c::SYS_unlink, "sub/inner").unwrap();
    world.with_path(c::SYS_rmdir, "sub").unwrap();
    world.with_path(c::SYS_mkdir, "sub").unwrap();
    assert_eq!(world.list("sub"), [".", ".."]);
    world.write("file", c::O_CREAT | c::O_EXCL, b"new").unwrap();
    assert_eq!(world.read("file").unwrap(), b"new");
    assert_eq!(world.list("."), [".", "..", "file", "sub"]);
    assert_eq!(fs::read(world.lower.join("sub/inner")).unwrap(), b"inner");
}

#[test]
fn a_moved_directory_still_shows_what_the_machine_has() {
    let mut world = World::new();
    world.write("sub/own", c::O_CREAT, b"own").unwrap();
    world.with_paths(c::SYS_rename, "sub", "moved").unwrap();
    assert_eq!(world.list("moved"), [".", "..", "inner", "own"]);
    assert_eq!(world.read("moved/inner").unwrap(), b"inner");
    assert_eq!(world.read("moved/own").unwrap(), b"own");
    assert_eq!(world.stat("sub").unwrap_err(), Errno::ENOENT);
    world.write("moved/inner", 0, b"INN").unwrap();
    assert_eq!(fs::read(world.upper("moved/inner")).unwrap(), b"INNer");
    assert_eq!(fs::read(world.upper("moved/own")).unwrap(), b"own");
}

#[test]
fn hard_links_share_what_is_written_later() {
    let mut world = World::new();
    world.with_paths(c::SYS_link, "file", "second").unwrap();
    assert_eq!(world.stat("file").unwrap().nlink, 2);
    world.write("second", 0, b"2").unwrap();
    assert_eq!(world.read("file").unwrap(), b"2rom the machine");
    world.with_path(c::SYS_unlink, "file").unwrap();
    assert_eq!(world.read("second").unwrap(), b"2rom the machine");
    assert_eq!(world.stat("second").unwrap().nlink, 1);
}

#[test]
fn a_removed_file_lives_while_it_is_open() {
    let mut world = World::new();
    world.write("temporary", c::O_CREAT, b"bytes").unwrap();
    let fd = world.open("temporary", c::O_RDWR).unwrap();
    world.with_path(c::SYS_unlink, "temporary").unwrap();
    let at = world.host.put(0x3000, b"B");
    world.host.call(c::SYS_pwrite64, &[fd, at, 1, 0]).unwrap();
    assert_eq!(world.host.call(c::SYS_read, &[fd, DATA + 0x3000, 10]), Ok(5));
    assert_eq!(world.host.get(0x3000, 5), b"Bytes");
    let inodes = world.host.host.files.inodes.len();
    world.host.call(c::SYS_close, &[fd]).unwrap();
    assert_eq!(world.host.host.files.inodes.len(), inodes - 1);
    assert!(!world.upper("temporary").exists());
}

#[test]
fn links_are_followed_up_to_forty_and_paths_end_as_linux_says() {
    let mut world = World::new();
    world.with_paths(c::SYS_symlink, "loop", "loop").unwrap();
    assert_eq!(world.read("loop"), Err(Errno::ELOOP));
    world.with_paths(c::SYS_symlink, "sub/../file", "to-file").unwrap();
    assert_eq!(world.read("to-file").unwrap(), b"from the machine");
    assert_eq!(world.read("to-file/"), Err(Errno::ENOTDIR));
    assert_eq!(world.open("to-file", c::O_RDONLY | c::O_NOFOLLOW), Err(Errno::ELOOP));
    world.with_paths(c::SYS_symlink, "made", "dangling").unwrap();
    world.write("dangling", c::O_CREAT, b"x").unwrap();
    assert_eq!(world.read("made").unwrap(), b"x");
    assert_eq!(world.open("dangling", c::O_CREAT | c::O_EXCL), Err(Errno::EEXIST));
    assert_eq!(world.open("new/", c::O_CREAT), Err(Errno::EISDIR));
    assert_eq!(world.with_path(c::SYS_rmdir, "sub/."), Err(Errno::EINVAL));
    let long = "n".repeat(256);
    assert_eq!(world.read(&long), Err(Errno::ENAMETOOLONG));
}

#[test]
fn a_host_is_itself_in_what_it_reads() {
    let mut world = World::new();
    assert_eq!(world.read("/etc/hostname").unwrap(), b"test\n");
    assert_eq!(world.read("/proc/sys/kernel/hostname").unwrap(), b"test\n");
    let id = world.read("/etc/machine-id").unwrap();
    assert_eq!((id.len(), world.read("/etc/machine-id").unwrap()), (33, id));
    assert_eq!(world.list("/tmp"), [".", ".."]);
    assert_eq!(world.list("/dev/shm"), [".", ".."]);
    assert!(world.list("/proc").contains(&"self".to_owned()));
    assert_eq!(world.open("/dev/tty", c::O_RDWR), Err(Errno::ENXIO));
    assert_eq!(world.with_path(c::SYS_mkdir, "/proc/x"), Err(Errno::EACCES));
}

#[test]
fn what_the_machine_keeps_from_the_simulator_is_told() {
    let close = |path: &Path, mode| {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("it is the test's own");
    };
    let mut world = World::new();
    fs::write(world.lower.join("empty"), "").expect("a file");
    for name in ["file", "empty", "sub"] {
        close(&world.lower.join(name), 0);
    }
    // An inaccessible file can be seen, truncated and written, not read. An empty one need not be read.
    assert_eq!(world.stat("file").unwrap().size, 16);
    assert_eq!(world.read("file"), Err(Errno::EACCES));
    assert_eq!(world.open("file", c::O_WRONLY | c::O_APPEND), Err(Errno::EACCES));
    world.write("empty", c::O_APPEND, b"line").unwrap();
    assert_eq!(world.read("empty").unwrap(), b"line");
    let told =
        |world: &World| world.host.host.warnings().iter().map(|(t, n)| (t.clone(), *n)).collect::<Vec<_>>();
    let warnings = told(&world);
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    let file = world.lower.join("file");
    assert!(
        warnings[0].0.contains(&format!("file {} is kept", file.display())) && warnings[0].1 == 2,
        "{warnings:?}"
    );
    world.write("file", c::O_TRUNC, b"new").unwrap();
    assert_eq!(world.read("file").unwrap(), b"new");
    // An inaccessible directory appears empty, and programs can create files in it.
    assert_eq!(world.read("sub/inner"), Err(Errno::ENOENT));
    assert_eq!(world.list("sub"), [".", ".."]);
    world.write("sub/inner", c::O_CREAT | c::O_EXCL, b"own").unwrap();
    assert_eq!(world.list("sub"), [".", "..", "inner"]);
    let warnings = told(&world);
    assert!(
        warnings.iter().any(|(text, _)| text.contains("directory") && text.contains("appears empty")),
        "{warnings:?}"
    );
    // A guest that opens every file does not fill the summary: further files share one warning.
    for n in 0..5 {
        let name = format!("closed{n}");
        fs::write(world.lower.join(&name), "x").expect("a file");
        close(&world.lower.join(&name), 0);
        assert_eq!(world.read(&name), Err(Errno::EACCES));
    }
    let warnings = told(&world);
    assert_eq!(warnings.len(), 4, "{warnings:?}");
    assert!(
        warnings.iter().any(|(text, count)| text.starts_with("more files") && *count == 4),
        "{warnings:?}"
    );
    close(&world.lower.join("sub"), 0o755);
}

#[test]
fn a_table_of_descriptors_grows_to_the_limit_of_the_host_only() {
    let mut t = TestHost::new(2);
    let mut ends = [0; 2];
    let fd = t.call(c::SYS_eventfd, &[0]).unwrap();
    t.call(c::SYS_dup2, &[fd, 200]).unwrap();
    for (end, bytes) in ends.iter_mut().zip([&b"64\n"[..], b"4194305\n"]) {
        let name = t.put(0x100, b"/proc/sys/fs/nr_open\0");
        let setting = t.call(c::SYS_open, &[name, c::O_WRONLY as u64]).unwrap();
        let text = t.put(0x200, bytes);
        *end = t.call(c::SYS_write, &[setting, text, bytes.len() as u64]).map_or_else(|errno| errno.0, |_| 0);
        t.call(c::SYS_close, &[setting]).unwrap();
    }
    assert_eq!(ends, [0, Errno::EINVAL.0]);
    assert_eq!(t.call(c::SYS_dup2, &[fd, 201]), Err(Errno::EBADF));
    assert_eq!(t.call(c::SYS_fcntl, &[fd, c::F_DUPFD as u64, 201]), Err(Errno::EMFILE));
    // A table that cannot be copied stays as it is, and the call has no other effect either.
    let namespace = t.host.processes[t.process.0].mount_namespace;
    assert_eq!(t.call(c::SYS_unshare, &[(c::CLONE_NEWNS | c::CLONE_FILES) as u64]), Err(Errno::EMFILE));
    assert_eq!(t.host.processes[t.process.0].mount_namespace, namespace);
    let unshare = u64::from(c::CLOSE_RANGE_UNSHARE);
    assert_eq!(t.call(c::SYS_close_range, &[3, 150, unshare]), Err(Errno::EMFILE));
    assert_eq!(t.call(c::SYS_close_range, &[3, u32::MAX.into(), unshare]), Ok(0));
    assert_eq!(t.call(c::SYS_dup2, &[200, 7]), Err(Errno::EBADF));
    assert_eq!(t.call_by(1, c::SYS_dup2, &[200, 63]), 63);
}
