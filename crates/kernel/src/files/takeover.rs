//! Virtual files in disk directories: `/etc/hosts`, `/etc/resolv.conf` and the like.
//!
//! Their content is generated from the configuration at each reading, until a program changes one: writes or
//! truncates it, changes its name, mode or owner, or maps it. It then becomes an ordinary file of the host's
//! own layer with its last content, and appears in the results. Files of `/proc` and `/sys` stay virtual.

use crate::files::Files;
use crate::host::Host;
use crate::ids::InodeKey;
use belljar_linux_abi::Errno;
use belljar_machine::DiskEvent;
use belljar_objects::file_kind::FileKind;
use belljar_objects::inode::{Content, NAMESPACE, Node, PROC, SYS};

impl Files {
    /// True for a virtual file that on Linux would be a file on a disk.
    pub(crate) fn is_made_up_on_disk(&self, key: InodeKey) -> bool {
        let inode = &self.inodes[key.0];
        matches!(inode.node, Node::Virtual(_)) && !matches!(inode.device, PROC | SYS | NAMESPACE)
    }
}

impl Host {
    /// Turns a virtual file of the disk into an ordinary one; other files are unchanged.
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
        if let Some(path) = entry.and_then(|(directory, name)| self.files.own_path_in(directory, &name)) {
            self.machine.disk_event(DiskEvent::Existing(&path))?;
        }
        let inode = self.files.inode(key);
        inode.node = Node::Regular(Content {
            shared: content.shared,
            ..Content::new(content.store, bytes.len() as u64)
        });
        // Mode and owner are kept.
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
