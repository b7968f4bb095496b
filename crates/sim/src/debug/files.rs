//! Host I/O for debuggers: the files of `/proc/<pid>` of a host. Debuggers find programs and libraries on
//! the machine itself, as hosts do.

use super::target::part;
use crate::node::HostNode;
use gdbstub::target::ext::host_io::{
    FsKind, HostIo, HostIoClose, HostIoCloseOps, HostIoErrno, HostIoError, HostIoOpen, HostIoOpenFlags,
    HostIoOpenMode, HostIoOpenOps, HostIoPread, HostIoPreadOps, HostIoResult, HostIoSetfs, HostIoSetfsOps,
};

impl HostIo for HostNode {
    fn support_open(&mut self) -> Option<HostIoOpenOps<'_, Self>> {
        Some(self)
    }
    fn support_close(&mut self) -> Option<HostIoCloseOps<'_, Self>> {
        Some(self)
    }
    fn support_pread(&mut self) -> Option<HostIoPreadOps<'_, Self>> {
        Some(self)
    }
    fn support_setfs(&mut self) -> Option<HostIoSetfsOps<'_, Self>> {
        Some(self)
    }
}

impl HostIoOpen for HostNode {
    fn open(&mut self, path: &[u8], _: HostIoOpenFlags, _: HostIoOpenMode) -> HostIoResult<u32, Self> {
        let path = std::str::from_utf8(path).unwrap_or_default();
        let content =
            self.host.debugged().debug_proc_file(path).ok_or(HostIoError::Errno(HostIoErrno::ENOENT))?;
        let files = &mut self.debug.files;
        let free = files.iter().position(Option::is_none).unwrap_or(files.len());
        if free == files.len() {
            files.push(None);
        }
        files[free] = Some(content);
        Ok(free as u32)
    }
}

impl HostIoClose for HostNode {
    fn close(&mut self, fd: u32) -> HostIoResult<(), Self> {
        let file = self.debug.files.get_mut(fd as usize).and_then(Option::take);
        file.map(drop).ok_or(HostIoError::Errno(HostIoErrno::EBADF))
    }
}

impl HostIoPread for HostNode {
    fn pread(&mut self, fd: u32, count: usize, offset: u64, out: &mut [u8]) -> HostIoResult<usize, Self> {
        match self.debug.files.get(fd as usize) {
            Some(Some(content)) => Ok(part(content, offset, count, out)),
            _ => Err(HostIoError::Errno(HostIoErrno::EBADF)),
        }
    }
}

impl HostIoSetfs for HostNode {
    fn setfs(&mut self, _: FsKind) -> HostIoResult<(), Self> {
        Ok(())
    }
}
