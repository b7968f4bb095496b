//! Cache of native descriptors. A file is opened natively when its content is first needed. When a host has
//! more files open than its share of the process's descriptor limit, the least recently used are closed.
//! Simulation results do not depend on which are open.

use crate::files::Files;
use crate::host::Host;
use crate::ids::InodeKey;
use belljar_linux_abi::Errno;
use belljar_machine::{Machine, NativeFile, OpenHow};
use belljar_objects::native_cache::Cached;
use std::path::Path;

/// Minimum number of cached descriptors of a running host, whatever its share: a copy needs both files.
const LEAST: usize = 2;

impl Files {
    /// Caches an open native descriptor as that of a regular file.
    pub(crate) fn keep_native(&mut self, machine: &mut dyn Machine, key: InodeKey, file: NativeFile) {
        self.close_native(machine, key);
        let last_use = self.natives.used(key, None);
        self.inode(key).set_native(Some(Cached { file, last_use }));
        if self.natives.len() > LEAST {
            let share = machine.file_share().max(LEAST);
            self.close_natives(machine, share);
        }
    }

    /// Closes an inode's native descriptor.
    pub(crate) fn close_native(&mut self, machine: &mut dyn Machine, key: InodeKey) {
        if let Some(cached) = self.inode(key).set_native(None) {
            self.natives.forget(cached.last_use);
            machine.close(cached.file);
        }
    }

    /// The host becomes idle: it closes all its cached descriptors if the share of a host is below [`LEAST`].
    pub(crate) fn rest_natives(&mut self, machine: &mut dyn Machine) {
        if !self.natives.is_empty() && machine.file_share() < LEAST {
            self.close_natives(machine, 0);
        }
    }

    fn close_natives(&mut self, machine: &mut dyn Machine, share: usize) {
        while self.natives.len() > share {
            let Some(oldest) = self.natives.oldest() else { return };
            self.close_native(machine, oldest);
        }
    }
}

impl Host {
    /// Opens a native file. If the process is out of descriptors, the cache is emptied and the open retried;
    /// `ENFILE` if that fails too.
    pub(crate) fn open_native(&mut self, path: &Path, how: OpenHow) -> Result<NativeFile, Errno> {
        match self.machine.open(path, how) {
            Err(Errno::EMFILE | Errno::ENFILE) => {}
            opened => return opened,
        }
        self.files.close_natives(&mut *self.machine, 0);
        self.machine.open(path, how).map_err(|errno| match errno {
            Errno::EMFILE | Errno::ENFILE => {
                self.warn("files that could not be opened because the simulator has no descriptors left: see `ulimit -n`");
                Errno::ENFILE
            }
            other => other,
        })
    }

    /// Native descriptor of a regular file, opened if necessary. It remains open at least until the second
    /// call after this one.
    pub(crate) fn native_of(&mut self, key: InodeKey) -> Result<NativeFile, Errno> {
        let content = self.files.inode(key).content().ok_or(Errno::EINVAL)?;
        if let Some(cached) = content.native {
            let last_use = self.files.natives.used(key, Some(cached.last_use));
            if last_use != cached.last_use {
                self.files.inode(key).set_native(Some(Cached { last_use, ..cached }));
            }
            return Ok(cached.file);
        }
        let writes = content.store.is_upper();
        let path = self.content_path(key)?.ok_or(Errno::ENOENT)?;
        let how = OpenHow { write: writes, ..OpenHow::default() };
        let opened = self.open_native(&path, how);
        if opened == Err(Errno::EACCES) && !writes {
            self.withheld_file(&path);
        }
        let file = opened?;
        self.files.keep_native(&mut *self.machine, key, file);
        Ok(file)
    }
}
