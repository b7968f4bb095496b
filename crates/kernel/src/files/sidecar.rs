//! Sidecar of a host's folder: owners, modes, times, hard links, extended attributes, removed files, and
//! references to files of the machine. At the end of the simulation it is written next to the files as
//! `files.mtree`, in the format of mtree(5). A host that finds one when it starts restores its files from it.
//!
//! Paths are relative to the host's folder: `./fs/etc/motd` is the file that programs saw as `/etc/motd`.
//! Removed files of the machine are character devices 0,0, as in overlay file systems. The keyword `origin=`,
//! which mtree(5) lacks, names the machine's file or directory that still provides the content.

use crate::host::Host;
use crate::ids::InodeKey;
use belljar_linux_abi::Errno;
use belljar_machine::{DiskEvent, OpenHow};
use belljar_objects::inode::{Child, DirectorySource, Node, PROC, PTS, ROOT, SYS};
use belljar_objects::mtree::{self, escaped};
use std::ffi::OsStr;
use std::fmt::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// File name of the sidecar in the host's folder.
pub const NAME: &str = "files.mtree";

impl Host {
    /// Writes the sidecar at the end of the simulation, unless it would be empty, and removes nameless files.
    pub fn finish_files(&mut self) -> Result<(), Errno> {
        write(self)?;
        self.machine.disk_event(DiskEvent::Finished)
    }
    /// Directory of the tree that corresponds to the host's folder; `None` if there is none.
    pub(super) fn own_folder(&mut self) -> Result<Option<InodeKey>, Errno> {
        let mut at = ROOT;
        let folder = self.config.directory.clone();
        for part in folder.components().skip(1) {
            match self.lookup(at, part.as_os_str().as_bytes())? {
                Some(inode) => at = inode,
                None => return Ok(None),
            }
        }
        Ok(Some(at))
    }

    fn describe_directory(&mut self, key: InodeKey, path: &str, text: &mut String) {
        let Node::Directory(directory) = &self.files.inodes[key.0].node else { return };
        let lower = match &directory.source {
            DirectorySource::Lower(lower) => Some(lower.clone()),
            _ => None,
        };
        let entries: Vec<(Box<[u8]>, Option<InodeKey>)> = directory
            .entries
            .iter()
            .filter_map(|(name, child)| match child {
                Child::Whiteout => Some((name.clone(), None)),
                Child::Known(inode) => Some((name.clone(), Some(*inode))),
                _ => None,
            })
            .collect();
        for (name, child) in entries {
            let path = format!("{path}/{}", escaped(&name));
            let hidden = lower.as_ref().map(|lower| lower.join(OsStr::from_bytes(&name)));
            match (child, hidden) {
                (Some(inode), _) => self.describe(inode, &path, text),
                // A file that a program created and removed again leaves no whiteout.
                (None, Some(hidden)) if exists(self, &hidden).unwrap_or(true) => {
                    let _ = writeln!(text, "{path} type=char device=linux,0,0");
                }
                _ => {}
            }
        }
    }

    fn describe(&mut self, key: InodeKey, path: &str, text: &mut String) {
        let inode = &self.files.inodes[key.0];
        let mounted = inode.directory().is_some_and(|directory| directory.own_root.is_some());
        if matches!(inode.device, PROC | SYS | PTS) || mounted {
            return;
        }
        if inode.changed && !matches!(inode.node, Node::Virtual(_) | Node::Magic(_)) {
            text.push_str(&mtree::line(path, inode));
        }
        self.describe_directory(key, path, text);
    }
}

/// Writes the sidecar of the present files, unless it would be empty, and removes nameless files.
pub(crate) fn write(host: &mut Host) -> Result<(), Errno> {
    write_of(host, &[(ROOT, "./fs".to_owned())])
}

/// Writes the sidecar of the host's own folder and of what these directories contain, at these encoded paths.
pub(crate) fn write_of(host: &mut Host, directories: &[(InodeKey, String)]) -> Result<(), Errno> {
    host.remove_all_unnamed();
    let number = |inode: InodeKey| host.files.inodes.get(inode.0).map(|inode| inode.number);
    host.write_log.iter_mut().for_each(|log| log.settle(number, |inode| host.files.own_path(inode)));
    let mut text = String::from("#mtree\n");
    let written = text.len();
    directories.iter().for_each(|(directory, path)| host.describe_directory(*directory, path, &mut text));
    if let Ok(Some(own)) = host.own_folder() {
        host.describe_directory(own, ".", &mut text);
    }
    if text.len() == written {
        return Ok(());
    }
    let path = host.config.directory.join(NAME);
    let how = OpenHow { write: true, create: Some(0o644), truncate: true, exclusive: false };
    let file = host.open_native(&path, how)?;
    let put = host.machine.write_at(file, 0, text.as_bytes());
    host.machine.close(file);
    put
}

/// True if `path` exists natively.
pub(super) fn exists(host: &mut Host, path: &Path) -> Result<bool, Errno> {
    match host.machine.stat(path) {
        Ok(_) => Ok(true),
        Err(Errno::ENOENT | Errno::ENOTDIR) => Ok(false),
        Err(errno) => Err(errno),
    }
}
