//! Identity of the inode behind an open file, in the tree or not: locks and changed attributes belong to it.

use super::FileKind;
use super::tree::Meta;
use crate::host::Host;
use crate::ids::{FileKey, InodeKey, PipeKey, ProcessKey, SocketKey};
use belljar_linux_abi::Errno;
use belljar_objects::locks::FileLocks;

/// Identity of an inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FilePlace {
    /// Inode of the tree.
    Inode(InodeKey),
    /// Pipe, or a FIFO while it is open.
    Pipe(PipeKey),
    /// Socket.
    Socket(SocketKey),
    /// The inode shared by all files of `epoll_create(2)`, `eventfd(2)`, `signalfd(2)` and the like.
    Shared,
}

/// Inode state of a file that is not in the tree.
#[derive(Debug, Default)]
pub struct Unnamed {
    /// Locks.
    pub locks: Option<Box<FileLocks>>,
    /// Mode, owner and times, once changed.
    pub meta: Option<Meta>,
}

impl FileKind {
    /// Identity of the inode of an open file.
    pub fn place(&self) -> FilePlace {
        match self {
            FileKind::PipeReader(pipe) | FileKind::PipeWriter(pipe) | FileKind::PipeBoth(pipe) => {
                FilePlace::Pipe(*pipe)
            }
            FileKind::Socket(socket) => FilePlace::Socket(*socket),
            kind => kind.inode().map_or(FilePlace::Shared, FilePlace::Inode),
        }
    }
}

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
