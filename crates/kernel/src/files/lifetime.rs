//! What happens when the last reference to an open file goes.

use crate::host::Host;
use crate::ids::{EpollKey, FdTableKey, FileKey};

impl Host {
    /// Gives up one reference; the last one closes what is behind the file.
    pub(crate) fn release_file(&mut self, file: FileKey) {
        let open = self.open(file);
        open.references -= 1;
        if open.references == 0 {
            self.files.open.remove(file.0);
        }
    }
    /// Gives up a process's use of a descriptor table; the last one closes everything in it.
    pub(crate) fn release_fd_table(&mut self, table: FdTableKey) {
        let shared = &mut self.files.tables[table.0];
        shared.users -= 1;
        if shared.users == 0 {
            for entry in self.files.tables.remove(table.0).entries.into_iter().flatten() {
                self.release_file(entry.file);
            }
        }
    }
    /// Device and inode number of a new piece of anonymous shared memory.
    pub(crate) fn next_shared_identity(&mut self) -> (u64, u64) {
        (0, 0)
    }
    /// An object that an epoll item watches has changed.
    pub(crate) fn epoll_item_changed(&mut self, _epoll: EpollKey, _item: usize) {}
    /// A timer descriptor expires.
    pub(crate) fn timerfd_expired(&mut self, _timer: usize) {}
}
