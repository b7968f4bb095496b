//! Lines of `/proc/<pid>/mounts`, `mountinfo` and `mountstats`.

use super::{FileSystem, MountFlags};
use crate::process_files::ProcessFile;
use belljar_linux_abi::c;
use std::fmt::Write;

/// Format of a mount table file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MountsForm {
    /// `mounts`.
    Mounts,
    /// `mountinfo`.
    Mountinfo,
    /// `mountstats`.
    Mountstats,
}

impl MountsForm {
    /// Format of a file in `/proc/<pid>`; `None` for files that are not mount tables.
    pub fn of(file: ProcessFile) -> Option<MountsForm> {
        match file {
            ProcessFile::Mounts => Some(MountsForm::Mounts),
            ProcessFile::Mountinfo => Some(MountsForm::Mountinfo),
            ProcessFile::Mountstats => Some(MountsForm::Mountstats),
            _ => None,
        }
    }
}

/// Content of a line.
#[derive(Clone, Debug)]
pub struct MountLine<'a> {
    /// Mount id.
    pub id: u32,
    /// Mount id of the parent mount.
    pub parent: u32,
    /// Device number of the file system.
    pub device: u64,
    /// Path of the root in the file system.
    pub root: Vec<u8>,
    /// Path of the mount point.
    pub path: Vec<u8>,
    /// Source of the mount.
    pub source: &'a [u8],
    /// Mount flags.
    pub flags: MountFlags,
    /// Peer group of a shared mount.
    pub group: Option<u32>,
    /// Peer group of the master of a slave mount.
    pub master: Option<u32>,
    /// `MS_UNBINDABLE`.
    pub unbindable: bool,
    /// File system.
    pub system: &'a FileSystem,
}

/// Name escaped as in seq_file(9).
fn mangled(bytes: &[u8]) -> String {
    let mut text = Vec::new();
    for byte in bytes {
        match byte {
            b' ' | b'\t' | b'\n' | b'\\' | b'#' => {
                text.extend_from_slice(format!("\\{byte:03o}").as_bytes());
            }
            byte => text.push(*byte),
        }
    }
    String::from_utf8_lossy(&text).into_owned()
}

impl MountLine<'_> {
    /// Propagation fields of `mountinfo`.
    fn peers(&self) -> String {
        let mut peers = String::new();
        for (name, group) in [("shared", self.group), ("master", self.master)] {
            if let Some(group) = group {
                let _ = write!(peers, "{name}:{group} ");
            }
        }
        if self.unbindable {
            peers.push_str("unbindable ");
        }
        peers
    }
    /// Appends the line.
    pub fn put(&self, form: MountsForm, text: &mut String) {
        let ro = |flags: MountFlags| if flags.contains(MountFlags::READ_ONLY) { "ro" } else { "rw" };
        let (path, kind) = (mangled(&self.path), self.system.kind);
        let source = if self.source.is_empty() { "none".into() } else { mangled(self.source) };
        let of_system = self.system.flags & MountFlags::OF_FILE_SYSTEM;
        let of_system = if self.system.seed { MountFlags::empty() } else { of_system };
        let both = self.flags | of_system;
        let options = &self.system.options;
        let _ = match form {
            MountsForm::Mounts => {
                writeln!(text, "{source} {path} {kind} {}{}{options} 0 0", ro(both), both.shown())
            }
            MountsForm::Mountinfo => writeln!(
                text,
                "{} {} {}:{} {} {path} {}{} {}- {kind} {source} {}{}{options}",
                self.id,
                self.parent,
                c::major(self.device),
                c::minor(self.device),
                mangled(&self.root),
                ro(self.flags),
                (self.flags & MountFlags::OF_MOUNT).shown(),
                self.peers(),
                ro(of_system),
                of_system.shown(),
            ),
            MountsForm::Mountstats => writeln!(text, "device {source} mounted on {path} with fstype {kind}"),
        };
    }
}
