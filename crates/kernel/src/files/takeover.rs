//! Files of the disk that the simulator makes up: `/etc/hosts`, `/etc/resolv.conf` and the like.
//!
//! They say what the host is, anew at each reading, until a program changes one: writes or truncates it, gives it another
//! name, mode or owner, or maps it. From then on it is an ordinary file of the host's own layer, with what it said
//! last, and found in the results like any other. Files of `/proc` and `/sys` stay made up.

use super::FileKind;
use super::tree::{Content, NAMESPACE, Node, PROC, SYS};
use crate::files::Files;
use crate::host::Host;
use crate::ids::InodeKey;
use belljar_linux_abi::Errno;

impl Files {
    /// True if the bytes of a file are made up where Linux has a file on a disk.
    pub(crate) fn is_made_up_on_disk(&self, key: InodeKey) -> bool {
        let inode = &self.inodes[key.0];
        matches!(inode.node, Node::Virtual(_)) && !matches!(inode.device, PROC | SYS | NAMESPACE)
    }
}

impl Host {
    /// Makes a made-up file of the disk an ordinary one; nothing for any other.
    pub(crate) fn take_over(&mut self, key: InodeKey) -> Result<(), Errno> {
        if !self.files.is_made_up_on_disk(key) {
            return Ok(());
        }
        let bytes = self.virtual_content(key)?;
        let entry = self.files.inode(key).links.first().cloned();
        let (content, native) = match &entry {
            Some((directory, name)) => self.create_own_file(*directory, name)?,
            None => self.create_unnamed()?,
        };
        if let Err(errno) = self.machine.write_at(native, 0, &bytes) {
            self.machine.close(native);
            if let Some(path) = entry.and_then(|(directory, name)| self.files.own_path_in(directory, &name)) {
                let _ = self.machine.remove_file(&path);
            }
            return Err(errno);
        }
        let inode = self.files.inode(key);
        inode.node = Node::Regular(Content {
            shared: content.shared,
            ..Content::new(content.store, bytes.len() as u64)
        });
        // Its mode and owner are those that it had.
        inode.changed = true;
        self.files.keep_native(&mut *self.machine, key, native);
        for (_, open) in &mut self.files.open {
            if matches!(open.kind, FileKind::Virtual { inode, .. } if inode == key) {
                open.kind = FileKind::Regular(key);
            }
        }
        if self.files.inode(key).opens == 0 {
            self.files.close_native(&mut *self.machine, key);
        }
        Ok(())
    }
}
