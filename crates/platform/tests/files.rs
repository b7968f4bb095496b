//! Files of the machine through `HostFiles`.
#![allow(missing_docs)]

use belljar_linux_abi::Errno;
use belljar_machine::{HostFiles, NativeDirEntry, OpenHow};
use belljar_platform::HostMachine;
use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// A folder removed at the end of the test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("belljar-files-{}-{name}", std::process::id()));
        std::fs::create_dir(&path).unwrap();
        Folder(path)
    }
    fn at(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

const NEW: OpenHow = OpenHow { write: true, create: Some(0o666), exclusive: true, truncate: false };

fn machine() -> HostMachine {
    HostMachine::new(0, 1)
}

#[test]
fn what_is_written_is_read_and_modes_are_exact() {
    let (mut m, folder) = (machine(), Folder::new("write"));
    let path = folder.at("file");
    let file = m.open(&path, NEW).unwrap();
    assert_eq!(m.stat(&path).unwrap().mode, libc::S_IFREG | 0o666, "whatever the umask is");
    m.write_at(file, 3, b"content").unwrap();
    let mut out = [0xee; 16];
    assert_eq!(m.read_at(file, 0, &mut out), Ok(10));
    assert_eq!(&out[..10], b"\0\0\0content");
    assert_eq!(m.read_at(file, 100, &mut out), Ok(0));
    m.set_len(file, 4).unwrap();
    assert_eq!(m.stat_file(file).unwrap().size, 4);
    m.close(file);
    assert_eq!(m.open(&path, NEW), Err(Errno::EEXIST));
    m.set_mode(&path, 0o4711).unwrap();
    assert_eq!(m.stat(&path).unwrap().mode & 0o7777, 0o4711);
    let cut = OpenHow { write: true, truncate: true, ..OpenHow::default() };
    let file = m.open(&path, cut).unwrap();
    assert_eq!(m.stat_file(file).unwrap().size, 0);
    m.close(file);
    m.create_dir(&folder.at("dir"), 0o777).unwrap();
    assert_eq!(m.stat(&folder.at("dir")).unwrap().mode, libc::S_IFDIR | 0o777);
}

#[test]
fn only_regular_files_are_opened() {
    let (mut m, folder) = (machine(), Folder::new("kinds"));
    let open = |m: &mut HostMachine, path: &Path| m.open(path, OpenHow::default());
    let fifo = folder.at("fifo");
    let name = CString::new(fifo.as_os_str().as_bytes()).unwrap();
    // SAFETY: a C string.
    assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0);
    m.create_symlink(b"file", &folder.at("link")).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(folder.at("socket")).unwrap();
    assert_eq!(open(&mut m, &fifo), Err(Errno::ENXIO));
    assert_eq!(m.open(&fifo, OpenHow { write: true, ..OpenHow::default() }), Err(Errno::ENXIO));
    assert_eq!(open(&mut m, &folder.at("socket")), Err(Errno::ENXIO));
    assert_eq!(open(&mut m, Path::new("/dev/null")), Err(Errno::ENXIO));
    assert_eq!(open(&mut m, &folder.at("link")), Err(Errno::ELOOP));
    assert_eq!(m.set_mode(&folder.at("link"), 0o600), Err(Errno::EOPNOTSUPP));
    assert_eq!(open(&mut m, &folder.0), Err(Errno::EISDIR));
    assert_eq!(open(&mut m, &folder.at("none")), Err(Errno::ENOENT));
    assert_eq!(open(&mut m, &folder.at("fifo/below")), Err(Errno::ENOTDIR));
}

#[test]
fn directories_are_listed_in_order_with_kinds() {
    let (mut m, folder) = (machine(), Folder::new("list"));
    for name in ["b", "a", "c"] {
        let file = m.open(&folder.at(name), NEW).unwrap();
        m.close(file);
    }
    m.create_dir(&folder.at("aa"), 0o700).unwrap();
    m.create_symlink(b"anywhere", &folder.at("l")).unwrap();
    m.create_link(&folder.at("l"), &folder.at("m")).unwrap();
    m.rename(&folder.at("c"), &folder.at("0")).unwrap();
    m.remove_file(&folder.at("b")).unwrap();
    assert_eq!(m.remove_file(&folder.at("aa")), Err(Errno::EISDIR));
    assert_eq!(m.remove_dir(&folder.at("a")), Err(Errno::ENOTDIR));
    assert_eq!(m.read_link(&folder.at("m")).unwrap(), b"anywhere");
    let entry = |name: &str, kind| NativeDirEntry { name: name.into(), kind };
    let (file, dir, link) = (libc::S_IFREG, libc::S_IFDIR, libc::S_IFLNK);
    let expected = [entry("0", file), entry("a", file), entry("aa", dir), entry("l", link), entry("m", link)];
    assert_eq!(m.read_dir(&folder.0).unwrap(), expected);
    assert_eq!(m.read_dir(&folder.at("a")), Err(Errno::ENOTDIR));
}

#[test]
fn shared_memory_starts_as_zeros_and_is_a_file() {
    let mut m = machine();
    let memory = m.shared_memory(8192).unwrap();
    let mut out = [1; 8];
    assert_eq!(m.read_at(memory, 8180, &mut out), Ok(8));
    assert_eq!(out, [0; 8]);
    assert_eq!(m.stat_file(memory).unwrap().size, 8192);
    m.close(memory);
    assert_eq!(m.write_stream(3, b"no stream"), Err(Errno::EBADF));
    assert_eq!(m.write_stream(1, b""), Ok(()));
}
