//! Directory entries of procfs and sysfs that follow from the directory and the name alone.

use super::table::{SystemFile, system_file};
use super::{MagicLink, VirtualFile};
use crate::ids::InodeKey;
use crate::inode::{Directory, DirectorySource, Node};
use crate::process_files::PROCESS_FILES;
use crate::processors::SystemEntry;

/// Parses decimal digits without a leading zero, as procfs names processes and descriptors.
pub fn number(name: &[u8]) -> Option<i32> {
    let text = std::str::from_utf8(name).ok()?;
    let plain = text == "0" || (!text.starts_with('0') && text.bytes().all(|b| b.is_ascii_digit()));
    plain.then(|| text.parse().ok()).flatten()
}

/// Entry of a directory in the table of virtual files.
pub fn system_entry(parent: InodeKey, path: &str, name: &[u8]) -> Option<(Node, u32)> {
    if name == b"conf"
        && let Some(v6) = ["/proc/sys/net/ipv4", "/proc/sys/net/ipv6"].iter().position(|of| *of == path)
    {
        return Some(proc_directory(parent, DirectorySource::InterfaceSettings { v6: v6 == 1 }));
    }
    Some(match system_file(path, std::str::from_utf8(name).ok()?)? {
        SystemFile::File(mode, file) => (Node::Virtual(file), mode),
        SystemFile::Directory(path) => proc_directory(parent, DirectorySource::Table(path)),
    })
}

/// Entry of a directory below `/sys/devices/system`.
pub fn device_entry(entry: SystemEntry, parent: InodeKey) -> (Node, u32) {
    match entry {
        SystemEntry::Directory(directory) => proc_directory(parent, DirectorySource::Devices(directory)),
        SystemEntry::File(file) => (Node::Virtual(VirtualFile::Device(file)), 0o444),
        SystemEntry::Link(target) => (Node::Symlink { target: target.into_bytes(), own: false }, 0o777),
    }
}

/// A virtual directory.
pub fn proc_directory(parent: InodeKey, source: DirectorySource) -> (Node, u32) {
    (Node::Directory(Directory { parent, source, ..Directory::default() }), 0o555)
}

/// Entry of the directory of a process or thread.
pub fn process_entry(parent: InodeKey, pid: i32, tid: Option<i32>, name: &[u8]) -> Option<(Node, u32)> {
    Some(match name {
        b"exe" => (Node::Magic(MagicLink::Executable(pid)), 0o777),
        b"cwd" => (Node::Magic(MagicLink::WorkingDirectory(pid)), 0o777),
        b"root" => (Node::Magic(MagicLink::Root(pid)), 0o777),
        b"net" => (Node::Symlink { target: b"/proc/net".to_vec(), own: false }, 0o777),
        b"fd" => (proc_directory(parent, DirectorySource::Descriptors { pid, info: false }).0, 0o500),
        b"fdinfo" => proc_directory(parent, DirectorySource::Descriptors { pid, info: true }),
        b"ns" => (proc_directory(parent, DirectorySource::Namespaces(pid)).0, 0o511),
        b"task" if tid.is_none() => proc_directory(parent, DirectorySource::Tasks(pid)),
        _ => {
            let (_, mode, file) = PROCESS_FILES.iter().find(|(n, ..)| n.as_bytes() == name)?;
            let file = match tid {
                None => VirtualFile::Process(pid, *file),
                Some(tid) => VirtualFile::Thread(pid, tid, *file),
            };
            (Node::Virtual(file), *mode)
        }
    })
}
