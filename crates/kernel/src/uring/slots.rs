//! Registered files: descriptors of an instance, which requests use instead of the process's.

use super::resources;
use crate::host::Host;
use crate::ids::{FileKey, ProcessKey};
use belljar_linux_abi::Errno;
use belljar_objects::file_kind::FileKind;
use belljar_uring::entry::{FIXED_FILE, SubmissionEntry};
use belljar_uring::slots::ALLOC;

/// `IORING_FIXED_FD_NO_CLOEXEC`.
const NO_CLOEXEC: u32 = 1;

fn set_slot(host: &mut Host, n: usize, at: usize, file: Option<FileKey>) {
    resources::retire_file(host, n, at);
    if let Some(old) = host.urings.instances[n].slots.put(at, file) {
        host.release_file(old);
    }
}

/// Moves both ends of a pipe that `IORING_OP_PIPE` has created to the registered files.
pub(super) fn move_pipe(host: &mut Host, n: usize, entry: &SubmissionEntry) -> Result<i32, Errno> {
    let process = entry.by.process;
    let mut fds = [0; 8];
    host.read_guest(process, entry.addr, &mut fds)?;
    let mut slot = entry.file_index;
    for at in [0, 4] {
        let fd = i32::from_ne_bytes(fds[at..at + 4].try_into().expect("four bytes"));
        let place = match host.move_to_slot(n, process, fd, slot)? {
            place if slot == ALLOC => place,
            _ => slot as i32 - 1,
        };
        fds[at..at + 4].copy_from_slice(&place.to_ne_bytes());
        slot = if slot == ALLOC { ALLOC } else { slot + 1 };
    }
    host.write_guest(process, entry.addr, &fds)?;
    Ok(0)
}

impl Host {
    /// Drops the table of registered files.
    pub(crate) fn drop_slots(&mut self, n: usize) {
        for at in 0..self.urings.instances[n].slots.tags.len() {
            resources::retire_file(self, n, at);
        }
        for file in std::mem::take(&mut self.urings.instances[n].slots).files.into_iter().flatten() {
            self.release_file(file);
        }
    }

    /// Registers descriptors from index `from` on; returns their number. -1 clears an entry, -2 skips it.
    pub(crate) fn set_slots(
        &mut self,
        n: usize,
        process: ProcessKey,
        from: u32,
        fds: &[i32],
    ) -> Result<u64, Errno> {
        let places = self.urings.instances[n].slots.files.len();
        if places == 0 {
            return Err(Errno::ENXIO);
        }
        if from as usize + fds.len() > places {
            return Err(Errno::EINVAL);
        }
        for (at, fd) in fds.iter().enumerate() {
            let file = match *fd {
                -2 => continue,
                -1 => None,
                fd => Some(self.registrable(process, fd)).transpose()?,
            };
            set_slot(self, n, from as usize + at, file);
        }
        Ok(fds.len() as u64)
    }
    /// Returns a descriptor's file with an additional reference. `EBADF` for an instance, which would
    /// otherwise never be closed.
    fn registrable(&mut self, process: ProcessKey, fd: i32) -> Result<FileKey, Errno> {
        let file = self.file_of(process, fd)?;
        if matches!(self.files.open(file).kind, FileKind::Uring(_)) {
            return Err(Errno::EBADF);
        }
        self.files.retain_file(file);
        Ok(file)
    }

    /// Stores a file, taking over the caller's reference, at index `index - 1` or at any free one (`ALLOC`);
    /// returns 0, or the chosen index.
    pub(super) fn put_in_slot(&mut self, n: usize, file: FileKey, index: u32) -> Result<i32, Errno> {
        let place = match self.urings.instances[n].slots.place_for(index) {
            Ok(place) => place,
            Err(errno) => {
                self.release_file(file);
                return Err(errno);
            }
        };
        set_slot(self, n, place, Some(file));
        Ok(if index == ALLOC { place as i32 } else { 0 })
    }
    /// Moves the descriptor that a call has created to the registered files.
    pub(super) fn move_to_slot(
        &mut self,
        n: usize,
        process: ProcessKey,
        fd: i32,
        index: u32,
    ) -> Result<i32, Errno> {
        let file = self.file_of(process, fd)?;
        self.files.retain_file(file);
        self.close_fd(process, fd)?;
        self.put_in_slot(n, file, index)
    }
    /// `IORING_OP_CLOSE` of a registered file.
    pub(super) fn close_slot(&mut self, n: usize, entry: &SubmissionEntry) -> Result<i32, Errno> {
        let file = self.urings.instances[n].slots.close(entry)?;
        resources::retire_file(self, n, entry.file_index as usize - 1);
        self.release_file(file);
        Ok(0)
    }

    /// `IORING_OP_FILES_UPDATE`: returns the number of files registered. With `ALLOC`, each descriptor in
    /// memory is replaced by its index.
    pub(super) fn update_slots(&mut self, n: usize, entry: &SubmissionEntry) -> Result<i32, Errno> {
        let process = entry.by.process;
        if entry.op_flags != 0 || entry.len == 0 {
            return Err(Errno::EINVAL);
        }
        let mut bytes = vec![0; entry.len as usize * 4];
        self.read_guest(process, entry.addr, &mut bytes)?;
        let fds: Vec<i32> =
            bytes.chunks_exact(4).map(|fd| i32::from_ne_bytes(fd.try_into().expect("four bytes"))).collect();
        if entry.off as u32 != ALLOC {
            return self.set_slots(n, process, entry.off as u32, &fds).map(|count| count as i32);
        }
        if self.urings.instances[n].slots.files.is_empty() {
            return Err(Errno::ENXIO);
        }
        let mut registered = 0;
        for fd in fds {
            let place = self.registrable(process, fd).and_then(|file| self.put_in_slot(n, file, ALLOC));
            match place {
                Ok(place) => {
                    let at = entry.addr + 4 * registered as u64;
                    self.write_guest(process, at, &place.to_ne_bytes())?;
                    registered += 1;
                }
                Err(errno) if registered == 0 => return Err(errno),
                Err(_) => break,
            }
        }
        Ok(registered)
    }
    /// `IORING_OP_FIXED_FD_INSTALL`: installs a registered file as a descriptor of the process.
    pub(super) fn install_slot(&mut self, entry: &SubmissionEntry, file: FileKey) -> Result<i32, Errno> {
        if entry.op_flags & !NO_CLOEXEC != 0 {
            return Err(Errno::EINVAL);
        }
        if entry.flags & FIXED_FILE == 0 {
            return Err(Errno::EBADF);
        }
        self.files.retain_file(file);
        let process = entry.by.process;
        self.install_fd(process, file, entry.op_flags & NO_CLOEXEC == 0, 0).map(|fd| fd as i32)
    }
}
