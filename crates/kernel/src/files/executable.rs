//! Opening programs for `execve`.

use crate::host::Host;
use crate::ids::ProcessKey;
use crate::machine::NativeFile;
use belljar_linux_abi::Errno;

/// A program file that may be executed.
#[derive(Clone, Debug)]
pub struct Executable {
    /// The native file; whoever opened it closes it.
    pub native: NativeFile,
    /// Its absolute guest path with all links resolved: what `/proc/self/exe` shows.
    pub path: Vec<u8>,
    /// Device and inode number as shown to guests.
    pub identity: (u64, u64),
    /// Its length.
    pub size: u64,
}

impl Host {
    /// Opens the regular file `path` (relative to the process's working directory) to execute it:
    /// `ENOENT`, `EACCES` (no execute permission, not a regular file), `ELOOP`, ... as `execve(2)`.
    pub(crate) fn open_executable(
        &mut self,
        _process: ProcessKey,
        _path: &[u8],
    ) -> Result<Executable, Errno> {
        Err(Errno::ENOENT)
    }
    /// Gives a new process its descriptors 0, 1 and 2 by `Output` of its spec.
    pub(crate) fn open_standard_streams(&mut self, _process: ProcessKey, _spec: usize) -> Result<(), Errno> {
        Ok(())
    }
}
