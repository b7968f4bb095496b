//! Release of open files: cleanup when the last reference is released.

use crate::files::{Files, regular};
use crate::host::Host;
use crate::ids::{FdTableKey, FileKey, InodeKey};
use belljar_linux_abi::c;
use belljar_objects::devices::Device;
use belljar_objects::file_kind::FileKind;
use belljar_objects::open_file::{FdEntry, OpenFile};

/// Device number of anonymous shared memory.
const SHARED_MEMORY: u64 = 0x1;

impl Files {
    /// Device and inode number for a new anonymous shared memory object.
    pub(crate) fn next_shared_identity(&mut self) -> (u64, u64) {
        self.last_shared_identity += 1;
        (SHARED_MEMORY, self.last_shared_identity)
    }
}

impl Host {
    /// Releases one reference; the last one closes the object of the open file.
    pub(crate) fn release_file(&mut self, file: FileKey) {
        let open = self.files.open(file);
        open.references -= 1;
        if open.references == 0 {
            self.files.forget_watchers(&mut self.waits, file);
            self.drop_lease(file);
            if let Some(faults) = &mut self.disk_faults {
                faults.forget(file);
            }
            if self.files.open(file).flags & c::O_ASYNC != 0 {
                self.set_file_async(file, -1, false);
            }
            let fifo = if self.files.notify.is_idle() { None } else { self.files.fifo_inode(file) };
            let writes = self.files.open(file).is_writable();
            let namespace = self.files.mount_namespace_of(file);
            self.networks.left |= self.files.namespace_of(file).is_some();
            let OpenFile { kind, flags, unnamed, mount, silent, .. } = self.files.open.remove(file.0);
            self.drop_file_locks(file, kind.place());
            if let (FileKind::Regular(inode), true) = (&kind, writes) {
                regular::closed_for_writing(self, *inode);
            }
            self.close_waitable(&kind);
            if let Some(inode) = kind.inode().or(fifo).filter(|_| !silent && flags & c::O_PATH == 0) {
                let writable = matches!(flags & c::O_ACCMODE, c::O_WRONLY | c::O_RDWR);
                let event = if writable { c::IN_CLOSE_WRITE } else { c::IN_CLOSE_NOWRITE };
                self.file_event_under(unnamed, Some(mount), inode, event);
            }
            self.close_inode(&kind);
            if let FileKind::Device { device: Device::Block(device), .. } = kind {
                self.block_device_closed(device);
            }
            if let Some(namespace) = namespace {
                let gone = self.files.mounts.leave(namespace);
                self.end_mounts(gone);
            }
            if let FileKind::MountContext(number) = kind {
                self.close_context(number);
            }
            if let Some(mount) = mount
                && self.files.mounts.closed(mount, writes)
            {
                let gone = self.files.mounts.take_down(mount);
                self.end_mounts(gone);
            }
        }
    }
    /// Releases the reference of a closed open file to its inode.
    fn close_inode(&mut self, kind: &FileKind) {
        if let Some(inode) = kind.inode() {
            self.release_inode(inode);
        }
    }
    /// Releases one use of an inode. The last one removes a nameless inode and closes the native descriptor
    /// of any other.
    pub(super) fn release_inode(&mut self, inode: InodeKey) {
        self.files.inode(inode).opens -= 1;
        if self.files.inode(inode).opens == 0 {
            if self.files.inode(inode).is_nameless() {
                self.forget_if_unused(inode);
            } else {
                self.files.close_native(&mut *self.machine, inode);
            }
        }
    }
    /// Closes a descriptor of a process: releases the process's record locks on the file, then the reference
    /// to the open file.
    pub(crate) fn close_descriptor(&mut self, table: FdTableKey, entry: FdEntry) {
        let place = self.files.open(entry.file).kind.place();
        self.drop_process_locks(table, place);
        if let FileKind::Directory { inode, .. } = self.files.open(entry.file).kind {
            self.files.notify.unwatch_directory(inode, (table, entry.file));
        }
        self.release_file(entry.file);
    }
    /// Releases one process's use of a descriptor table; the last one closes every descriptor in it.
    pub(crate) fn release_fd_table(&mut self, table: FdTableKey) {
        let shared = &mut self.files.tables[table.0];
        shared.users -= 1;
        if shared.users == 0 {
            for entry in self.files.tables.remove(table.0).entries.into_iter().flatten() {
                self.close_descriptor(table, entry);
            }
        }
    }
}
