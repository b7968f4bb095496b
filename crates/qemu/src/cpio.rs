//! Archives in cpio's "newc" format, which Linux unpacks as its initramfs.

use belljar_base::Map;
use std::path::{Component, Path};

const S_IFDIR: u32 = 0o040000;
const S_IFREG: u32 = 0o100000;
const S_IFLNK: u32 = 0o120000;
/// Name of the final entry of an archive.
const TRAILER: &str = "TRAILER!!!";
/// Maximum file length of the format in bytes.
const LONGEST: usize = u32::MAX as usize;

/// Archive entry: mode with file type, and content.
struct Entry {
    mode: u32,
    content: Vec<u8>,
}

/// Archive under construction, sorted by path. All files are owned by root and dated 1970, so equal content
/// yields equal bytes.
#[derive(Default)]
pub struct Archive(Map<String, Entry>);

/// Error: a file is too long for the format.
#[derive(Debug, PartialEq, Eq)]
pub struct TooLong;

impl Archive {
    /// Adds a directory and its parents. An existing one is unchanged.
    pub fn directory(&mut self, path: &Path, permissions: u32) {
        let Some(name) = self.place(path) else { return };
        self.0.entry(name).or_insert(Entry { mode: S_IFDIR | permissions & 0o7777, content: Vec::new() });
    }

    /// Adds a regular file; replaces an existing entry.
    pub fn file(&mut self, path: &Path, permissions: u32, content: Vec<u8>) -> Result<(), TooLong> {
        if content.len() > LONGEST {
            return Err(TooLong);
        }
        let Some(name) = self.place(path) else { return Ok(()) };
        self.0.insert(name, Entry { mode: S_IFREG | permissions & 0o7777, content });
        Ok(())
    }

    /// Adds a symbolic link; replaces an existing entry.
    pub fn link(&mut self, path: &Path, to: &[u8]) {
        let Some(name) = self.place(path) else { return };
        self.0.insert(name, Entry { mode: S_IFLNK | 0o777, content: to.to_vec() });
    }

    /// True if the path exists in the archive.
    pub fn has(&self, path: &Path) -> bool {
        name_of(path).is_some_and(|name| self.0.contains_key(&name))
    }

    /// Name of a path in the archive; adds its parent directories. `None` for the root.
    fn place(&mut self, path: &Path) -> Option<String> {
        let name = name_of(path)?;
        for (at, _) in name.match_indices('/') {
            let above = Entry { mode: S_IFDIR | 0o755, content: Vec::new() };
            self.0.entry(name[..at].to_owned()).or_insert(above);
        }
        Some(name)
    }

    /// Serializes the archive.
    pub fn bytes(&self) -> Vec<u8> {
        let mut out = Vec::new();
        for (number, (name, entry)) in self.0.iter().enumerate() {
            put(&mut out, number as u32 + 1, name, entry.mode, &entry.content);
        }
        put(&mut out, 0, TRAILER, 0, &[]);
        out
    }
}

/// Path without leading slash, `.` and `..`.
fn name_of(path: &Path) -> Option<String> {
    let parts = path.components().filter_map(|part| match part {
        Component::Normal(name) => Some(name.to_string_lossy()),
        _ => None,
    });
    let name = parts.collect::<Vec<_>>().join("/");
    (!name.is_empty()).then_some(name)
}

/// Appends one entry.
fn put(out: &mut Vec<u8>, inode: u32, name: &str, mode: u32, content: &[u8]) {
    let links = if mode & S_IFDIR != 0 && mode & S_IFREG == 0 { 2 } else { 1 };
    out.extend_from_slice(b"070701");
    let (size, name_size) = (content.len() as u32, name.len() as u32 + 1);
    // Inode, mode, user, group, links, time, size, device (2), device of the file (2), length of the name, checksum.
    for field in [inode, mode, 0, 0, links, 0, size, 0, 0, 0, 0, name_size, 0] {
        out.extend_from_slice(format!("{field:08x}").as_bytes());
    }
    out.extend_from_slice(name.as_bytes());
    out.push(0);
    align(out);
    out.extend_from_slice(content);
    align(out);
}

fn align(out: &mut Vec<u8>) {
    out.resize(out.len().next_multiple_of(4), 0);
}
