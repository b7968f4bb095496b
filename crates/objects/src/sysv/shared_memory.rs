//! Shared memory segments, `shmop(2)`.

use super::SysvObject;
use belljar_linux_abi::ipc::{IpcPerm, ShmidDs};
use belljar_machine::NativeFile;

/// `SHM_DEST`: to be destroyed when the last process has detached it.
pub const SHM_DEST: u32 = 0o1000;
/// One segment.
#[derive(Debug)]
pub struct SharedSegment {
    /// All that guests see of it but the number of attachments.
    pub state: ShmidDs,
    /// Its memory.
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
