//! Sidecar of a host's folder: owners, modes, times, hard links, extended attributes, removed files, and
//! references to files of the machine. At the end of the simulation it is written next to the files as
//! `files.mtree`, in the format of mtree(5). A host that finds one when it starts restores its files from it.
//!
//! Paths are relative to the host's folder: `./fs/etc/motd` is the file that programs saw as `/etc/motd`.
//! Removed files of the machine are character devices 0,0, as in overlay file systems. The keyword `origin=`,
//! which mtree(5) lacks, names the machine's file or directory that still provides the content.

use super::devices::Device;
use super::tree::{Child, Directory, DirectorySource, Node, PROC, PTS, ROOT, SYS, Store};
use crate::host::Host;
use crate::ids::InodeKey;
use belljar_linux_abi::Errno;
use belljar_machine::OpenHow;
use belljar_objects::mtree::escaped;
use std::ffi::OsStr;
use std::fmt::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// File name of the sidecar in the host's folder.
pub const NAME: &str = "files.mtree";

impl Host {
    /// Writes the sidecar at the end of the simulation, unless it would be empty, and removes nameless files.
    pub fn finish_files(&mut self) -> Result<(), Errno> {
        self.remove_all_unnamed();
        let number = |inode: InodeKey| self.files.inodes.get(inode.0).map(|inode| inode.number);
        self.write_log.iter_mut().for_each(|log| log.settle(number, |inode| self.files.own_path(inode)));
        let mut text = String::from("#mtree\n");
        let written = text.len();
        self.describe_directory(ROOT, "./fs", &mut text);
        if let Ok(Some(own)) = self.own_folder() {
            self.describe_directory(own, ".", &mut text);
        }
        if text.len() == written {
            return Ok(());
        }
        let path = self.config.directory.join(NAME);
        let how = OpenHow { write: true, create: Some(0o644), truncate: true, exclusive: false };
        let file = self.open_native(&path, how)?;
        let put = self.machine.write_at(file, 0, text.as_bytes());
        self.machine.close(file);
        put
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
            let kind = match &inode.node {
                Node::Directory(_) => "dir",
                Node::Symlink { .. } => "link",
                Node::Fifo => "fifo",
                Node::Socket => "socket",
                Node::Device(Device::Block(_)) => "block",
                Node::Device(_) => "char",
                _ => "file",
            };
            let meta = &inode.meta;
            let (sec, nsec) =
                (meta.times.modify.div_euclid(1_000_000_000), meta.times.modify.rem_euclid(1_000_000_000));
            let _ = write!(
                text,
                "{path} type={kind} mode={:04o} uid={} gid={} time={sec}.{nsec:09}",
                meta.mode, meta.uid, meta.gid
            );
            if !meta.flags.is_empty() {
                let _ = write!(text, " flags={}", meta.flags.names());
            }
            let origin = match &inode.node {
                Node::Regular(content) => {
                    let _ = write!(text, " size={}", content.size);
                    match &content.store {
                        Store::Lower(origin) => Some(origin),
                        _ => None,
                    }
                }
                Node::Directory(Directory { source: DirectorySource::Lower(origin), .. }) => Some(origin),
                Node::Symlink { target, .. } => {
                    let _ = write!(text, " link={}", escaped(target));
                    None
                }
                Node::Device(device) => {
                    let number = device.number();
                    let _ = write!(text, " device=linux,{},{}", number >> 8, number & 0xff);
                    None
                }
                _ => None,
            };
            if let Some(origin) = origin {
                let _ = write!(text, " origin={}", escaped(origin.as_os_str().as_bytes()));
            }
            if !inode.node.is_directory() && inode.links.len() > 1 {
                let _ = write!(text, " nlink={} inode={}", inode.links.len(), inode.number);
            }
            for (name, value) in inode.attributes.iter().flat_map(|all| all.iter()) {
                let _ = write!(text, " xattr.{}={}", escaped(name), escaped(value));
            }
            text.push('\n');
        }
        self.describe_directory(key, path, text);
    }
}

/// True if `path` exists natively.
pub(super) fn exists(host: &mut Host, path: &Path) -> Result<bool, Errno> {
    match host.machine.stat(path) {
        Ok(_) => Ok(true),
        Err(Errno::ENOENT | Errno::ENOTDIR) => Ok(false),
        Err(errno) => Err(errno),
    }
}
