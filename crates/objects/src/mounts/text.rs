//! Lines of `/proc/<pid>/mounts`, `mountinfo` and `mountstats`.

use super::{FileSystem, MountFlags};
use crate::process_files::ProcessFile;
use belljar_linux_abi::c;
use std::fmt::Write;

/// The file that shows mounts.
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
    /// The form of a file of a process; `None` for those that do not show mounts.
    pub fn of(file: ProcessFile) -> Option<MountsForm> {
        match file {
            ProcessFile::Mounts => Some(MountsForm::Mounts),
            ProcessFile::Mountinfo => Some(MountsForm::Mountinfo),
            ProcessFile::Mountstats => Some(MountsForm::Mountstats),
            _ => None,
        }
    }
}

/// One line's content.
#[derive(Clone, Debug)]
pub struct MountLine<'a> {
    /// The mount's number.
    pub id: u32,
    /// That of the mount that it is in.
    pub parent: u32,
    /// The device of its file system.
    pub device: u64,
    /// Its root there.
    pub root: Vec<u8>,
    /// Its mount point.
    pub path: Vec<u8>,
    /// Its source.
    pub source: &'a [u8],
    /// Its flags.
    pub flags: MountFlags,
    /// Its peer group, if it is shared.
    pub group: Option<u32>,
    /// The peer group that it is a slave of.
    pub master: Option<u32>,
    /// `MS_UNBINDABLE`.
    pub unbindable: bool,
    /// Its file system.
    pub system: &'a FileSystem,
}

/// As seq_file(9) writes names into such lines.
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
    /// The propagation fields of `mountinfo`.
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
    /// Appends it.
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
