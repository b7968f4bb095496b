//! Shared memory segments, `shmop(2)`.

use super::SysvObject;
use belljar_linux_abi::ipc::{IpcPerm, ShmidDs};
use belljar_machine::NativeFile;

/// `SHM_DEST`: marked for destruction after the last detach.
pub const SHM_DEST: u32 = 0o1000;
/// Shared memory segment.
#[derive(Debug)]
pub struct SharedSegment {
    /// `struct shmid_ds`: the state except the number of attachments.
    pub state: ShmidDs,
    /// Memory of the segment.
    pub native: NativeFile,
}

impl SysvObject for SharedSegment {
    fn perm(&self) -> &IpcPerm {
        &self.state.perm
    }
    fn perm_mut(&mut self) -> &mut IpcPerm {
        &mut self.state.perm
    }
}
