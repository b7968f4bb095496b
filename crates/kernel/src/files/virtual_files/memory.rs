//! `/proc/<pid>/mem`: a process's memory as a file.

use super::{ProcessFile, VirtualFile};
use crate::call::Call;
use crate::files::tree::Node;
use crate::guest::{GuestBuffers, total_len};
use crate::ids::{FileKey, InodeKey, ProcessKey};
use crate::outcome::{SysResult, done};
use crate::rights::AccessIds;
use belljar_linux_abi::Errno;

/// The most that one call moves.
const MOST: u64 = 1 << 20;

impl Call<'_> {
    /// The process whose memory a made-up file is. `EACCES` if the caller may not look at it.
    pub(super) fn memory_behind(&mut self, inode: InodeKey) -> Result<Option<ProcessKey>, Errno> {
        let Node::Virtual(
            VirtualFile::Process(pid, ProcessFile::Mem) | VirtualFile::Thread(pid, _, ProcessFile::Mem),
        ) = self.host.files.inode(inode).node
        else {
            return Ok(None);
        };
        let process = *self.host.pids.get(&pid).ok_or(Errno::ESRCH)?;
        self.host.processes.may_access(self.process, process, AccessIds::File).map_err(|_| Errno::EACCES)?;
        Ok(Some(process))
    }

    /// Reads it from the address `start` on; `EIO` where nothing is mapped.
    pub(super) fn read_memory(
        &mut self,
        file: FileKey,
        process: ProcessKey,
        buffers: &GuestBuffers,
        start: u64,
        moves: bool,
    ) -> SysResult {
        // Of a process that has ended nothing is left.
        let Some(mm) = self.host.process(process).mm else { return done(0) };
        let mut bytes = vec![0; total_len(buffers).min(MOST) as usize];
        let got = self.host.peek(mm, start, &mut bytes);
        if got == 0 && !bytes.is_empty() {
            return Err(Errno::EIO);
        }
        self.scatter(buffers, &bytes[..got])?;
        if moves {
            self.host.files.open(file).offset = start + got as u64;
        }
        done(got as u64)
    }

    /// Writes it, whatever the protection of private pages; `EIO` where nothing is mapped.
    pub(super) fn write_memory(
        &mut self,
        file: FileKey,
        process: ProcessKey,
        buffers: &GuestBuffers,
        start: u64,
        moves: bool,
    ) -> SysResult {
        let Some(mm) = self.host.process(process).mm else { return done(0) };
        let bytes = self.gather(buffers, 0, MOST as usize)?;
        self.host.show_code(process);
        self.host.poke(mm, start, &bytes)?;
        if moves {
            self.host.files.open(file).offset = start + bytes.len() as u64;
        }
        done(bytes.len() as u64)
    }
}
