//! Descriptor tables and open file descriptions, `open(2)` "Open file descriptions".

use crate::files::Files;
use crate::host::Host;
use crate::ids::{FdTableKey, FileKey, ProcessKey, SocketKey, ThreadKey};
use crate::process::Processes;
use belljar_linux_abi::{Errno, c};
use belljar_objects::file_kind::FileKind;
use belljar_objects::open_file::{FdEntry, FdTable, OpenFile};

impl Files {
    /// `EMFILE` if a copy of a descriptor table would be larger than `fs.nr_open`, which may have been
    /// lowered. Entries from `end` on are left out.
    pub(crate) fn check_fd_table(&self, table: FdTableKey, end: usize) -> Result<(), Errno> {
        let size = self.tables[table.0].copied_size(end);
        if size as u64 <= self.most_descriptors { Ok(()) } else { Err(Errno::EMFILE) }
    }
    /// True if the table would have to grow beyond `fs.nr_open` to hold `fd`.
    fn is_beyond(&self, table: FdTableKey, fd: usize) -> bool {
        fd >= self.tables[table.0].entries.len() && fd as u64 >= self.most_descriptors
    }
    /// Copies a descriptor table, as `fork(2)` does.
    pub(crate) fn copy_fd_table(&mut self, table: FdTableKey) -> FdTableKey {
        let copy = FdTable { users: 1, entries: self.tables[table.0].entries.clone() };
        for entry in copy.entries.iter().flatten() {
            self.open[entry.file.0].references += 1;
        }
        FdTableKey(self.tables.insert(copy))
    }

    /// Creates an open file description that no descriptor refers to yet.
    pub(crate) fn open_file(&mut self, kind: FileKind, flags: i32) -> FileKey {
        FileKey(self.open.insert(OpenFile {
            references: 1,
            flags,
            offset: 0,
            kind,
            unnamed: None,
            owner: None,
            spliced: false,
            silent: false,
            created: false,
            mount: None,
            withheld: 0,
        }))
    }

    /// Open file description of a key.
    pub(crate) fn open(&mut self, file: FileKey) -> &mut OpenFile {
        &mut self.open[file.0]
    }

    /// Adds a reference to an open file.
    pub(crate) fn retain_file(&mut self, file: FileKey) {
        self.open[file.0].references += 1;
    }

    /// Socket that a descriptor refers to; the default key, which belongs to the first stack, if the
    /// descriptor is no socket.
    pub(crate) fn socket_behind(&self, processes: &Processes, process: ProcessKey, fd: i32) -> SocketKey {
        match self.fd_entry(processes, process, fd).map(|entry| &self.open[entry.file.0].kind) {
            Ok(FileKind::Socket(key)) => *key,
            _ => SocketKey::default(),
        }
    }

    /// Entry of a descriptor. `EBADF` if the descriptor is not open.
    #[inline]
    pub(crate) fn fd_entry(
        &self,
        processes: &Processes,
        process: ProcessKey,
        fd: i32,
    ) -> Result<FdEntry, Errno> {
        let table = processes[process.0].fds.ok_or(Errno::EBADF)?;
        let fd = usize::try_from(fd).map_err(|_| Errno::EBADF)?;
        self.tables[table.0].entries.get(fd).copied().flatten().ok_or(Errno::EBADF)
    }

    /// Sets or clears `FD_CLOEXEC`.
    pub(crate) fn set_close_on_exec(
        &mut self,
        processes: &Processes,
        process: ProcessKey,
        fd: i32,
        close_on_exec: bool,
    ) -> Result<(), Errno> {
        let table = processes[process.0].fds.ok_or(Errno::EBADF)?;
        self.tables[table.0].set_close_on_exec(fd, close_on_exec)
    }
}

impl Host {
    /// Installs `file` at the lowest free descriptor not below `from`, taking over the caller's reference. On
    /// `EMFILE` the file is released.
    pub(crate) fn install_fd(
        &mut self,
        process: ProcessKey,
        file: FileKey,
        close_on_exec: bool,
        from: usize,
    ) -> Result<u64, Errno> {
        let process = &self.processes[process.0];
        let limit = process.rlimits[c::RLIMIT_NOFILE as usize].soft as usize;
        let table = process.fds.expect("a living process has descriptors");
        let fd = self.files.tables[table.0].lowest_free(from);
        if fd >= limit || self.files.is_beyond(table, fd) {
            self.release_file(file);
            return Err(Errno::EMFILE);
        }
        self.files.tables[table.0].replace(fd, FdEntry { file, close_on_exec });
        Ok(fd as u64)
    }
    /// Open file of a descriptor. A continued call gets the file that it first looked up.
    pub(crate) fn file_of(&self, process: ProcessKey, fd: i32) -> Result<FileKey, Errno> {
        if let Some(file) = self.held_file(process, fd) {
            return Ok(file);
        }
        self.present_file_of(process, fd)
    }
    /// Open file that the calling thread's call holds since it looked up `fd`.
    #[inline]
    fn held_file(&self, process: ProcessKey, fd: i32) -> Option<FileKey> {
        let (thread, _) = self.caller.filter(|(_, of)| *of == process)?;
        let held = &self.threads.get(thread.0)?.held;
        if held.is_empty() {
            return None;
        }
        let at = held.binary_search_by_key(&fd, |(fd, _)| *fd).ok()?;
        Some(held[at].1)
    }
    /// Open file that a descriptor refers to now, even in a continued call: `poll(2)` and `select(2)` look
    /// descriptors up again.
    pub(crate) fn present_file_of(&self, process: ProcessKey, fd: i32) -> Result<FileKey, Errno> {
        let file = self.files.fd_entry(&self.processes, process, fd)?.file;
        if self.caller.is_some_and(|(_, of)| of == process) {
            self.looked_up.borrow_mut().push((fd, file));
        }
        Ok(file)
    }
    /// True if a descriptor of the process can be closed while one of its threads blocks: by another thread,
    /// by a process that shares the table, or by an io_uring request.
    #[inline]
    pub(crate) fn shares_descriptors(&self, process: ProcessKey) -> bool {
        let process = &self.processes[process.0];
        process.threads.len() > 1
            || process.fds.is_some_and(|table| self.files.tables[table.0].users > 1)
            || !self.urings.instances.is_empty()
    }
    /// Holds the files that a thread's call has looked up, so that the call continues with the same files.
    #[inline(never)]
    pub(crate) fn hold_files(&mut self, thread: ThreadKey) {
        let looked_up = std::mem::take(self.looked_up.get_mut());
        for (fd, file) in &looked_up {
            let held = &mut self.threads[thread.0].held;
            let (Ok(at) | Err(at)) = held.binary_search_by_key(fd, |(fd, _)| *fd);
            let is_held = held[at..].iter().take_while(|(of, _)| of == fd).any(|(_, held)| held == file);
            if !is_held && self.files.open.contains(file.0) {
                held.insert(at, (*fd, *file));
                self.files.retain_file(*file);
            }
        }
        // Keeps the allocation for the next call.
        *self.looked_up.get_mut() = looked_up;
        self.looked_up.get_mut().clear();
    }
    /// Releases the files held for a thread's call.
    #[inline(never)]
    pub(crate) fn let_files_go(&mut self, thread: ThreadKey) {
        for (_, file) in std::mem::take(&mut self.threads[thread.0].held) {
            self.release_file(file);
        }
    }
    /// `close(2)`.
    pub(crate) fn close_fd(&mut self, process: ProcessKey, fd: i32) -> Result<(), Errno> {
        let entry = self.files.fd_entry(&self.processes, process, fd)?;
        let table = self.processes[process.0].fds.ok_or(Errno::EBADF)?;
        self.files.tables[table.0].entries[fd as usize] = None;
        self.close_descriptor(table, entry);
        Ok(())
    }
    /// `dup3(2)`: makes `to` refer to the open file of `from`, closing `to` first. `EBADF` if `to` exceeds
    /// the limits.
    pub(crate) fn duplicate_to(
        &mut self,
        process: ProcessKey,
        from: i32,
        to: i32,
        close_on_exec: bool,
    ) -> Result<(), Errno> {
        let file = self.file_of(process, from)?;
        let limit = self.processes[process.0].rlimits[c::RLIMIT_NOFILE as usize].soft;
        if to < 0 || to as u64 >= limit {
            return Err(Errno::EBADF);
        }
        let table = self.processes[process.0].fds.ok_or(Errno::EBADF)?;
        if self.files.is_beyond(table, to as usize) {
            return Err(Errno::EBADF);
        }
        self.files.retain_file(file);
        let replaced = self.files.tables[table.0].replace(to as usize, FdEntry { file, close_on_exec });
        if let Some(entry) = replaced {
            self.close_descriptor(table, entry);
        }
        Ok(())
    }
}
