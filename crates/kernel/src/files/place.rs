//! Mode, owner and times of an open file, whether its inode is in the tree or not.

use crate::host::Host;
use crate::ids::{FileKey, ProcessKey};
use belljar_linux_abi::Errno;
use belljar_objects::file_kind::FilePlace;
use belljar_objects::inode::Meta;

impl Host {
    /// Sets the owner of a nameless object (a pipe, a socket or a file in memory) to the process that creates
    /// it.
    pub(crate) fn own_unnamed(&mut self, process: ProcessKey, file: FileKey) {
        let who = &self.processes[process.0].credentials;
        let (uid, gid) = (who.fsuid, who.fsgid);
        if (uid, gid) != (0, 0)
            && let Ok(meta) = self.meta_of(file)
        {
            (meta.uid, meta.gid) = (uid, gid);
        }
    }
    /// Mode, owner and times of an open file, for modification. `EOPNOTSUPP` for the inode that anonymous
    /// files share.
    pub(crate) fn meta_of(&mut self, file: FileKey) -> Result<&mut Meta, Errno> {
        if let Some(inode) = self.files.open(file).kind.inode().or_else(|| self.files.fifo_inode(file)) {
            return Ok(&mut self.files.inode(inode).meta);
        }
        let place = self.files.open(file).kind.place();
        if place == FilePlace::Shared {
            return Err(Errno::EOPNOTSUPP);
        }
        let attributes = self.file_attributes(file);
        let initial = Meta { mode: attributes.mode & 0o7777, ..attributes.meta };
        Ok(self.files.unnamed.entry(place).or_default().meta.get_or_insert(initial))
    }
}
