//! Pipes: reading, writing and closing the ends.

use crate::call::Call;
use crate::files::Files;
use crate::guest::{GuestBuffers, total_len};
use crate::host::Host;
use crate::ids::{FileKey, PipeKey};
use crate::outcome::{Block, CallState, IfInterrupted, SysResult, done};
use belljar_linux_abi::signal::SigInfo;
use belljar_linux_abi::{Errno, c};
use belljar_netstack::readiness::{READABLE, WRITABLE};
use belljar_objects::file_kind::FileKind;
use belljar_objects::pipe::Pipe;
use belljar_tasks::waits::WaitTable;

impl Files {
    /// Pipe of an open file; `None` for other files.
    pub(crate) fn pipe_of(&mut self, file: FileKey) -> Option<&mut Pipe> {
        match self.open[file.0].kind {
            FileKind::PipeReader(key) | FileKind::PipeWriter(key) | FileKind::PipeBoth(key) => {
                self.pipes.get_mut(key.0)
            }
            _ => None,
        }
    }

    /// Creates a pipe: open files of its read and its write end.
    pub(crate) fn create_pipe(&mut self, waits: &mut WaitTable, flags: i32) -> (FileKey, FileKey) {
        let queue = waits.create();
        let key = PipeKey(self.pipes.insert(Pipe::new(queue)));
        let reader = self.open_file(FileKind::PipeReader(key), c::O_RDONLY | flags & c::O_NONBLOCK);
        let writer = self.open_file(FileKind::PipeWriter(key), c::O_WRONLY | flags);
        (reader, writer)
    }
}

impl Host {
    /// `fs.pipe-max-size` in bytes, which an unprivileged process cannot exceed.
    fn pipe_max_size(&mut self) -> u64 {
        self.setting("sys/fs/pipe-max-size").unwrap_or(1 << 20)
    }
    /// Limits a new pipe of an unprivileged process to `fs.pipe-max-size`.
    pub(crate) fn limit_pipe(&mut self, file: FileKey) {
        let most = self.pipe_max_size();
        if let Some(pipe) = self.files.pipe_of(file)
            && pipe.capacity() as u64 > most
        {
            // The pipe is empty, so shrinking cannot fail with `EBUSY`.
            let _ = pipe.set_capacity(most);
        }
    }
    /// Releases the ends of a pipe held by an open file.
    pub(super) fn close_pipe(&mut self, key: PipeKey, reads: bool, writes: bool) {
        let pipe = &mut self.files.pipes[key.0];
        pipe.readers -= u32::from(reads);
        pipe.writers -= u32::from(writes);
        let queue = pipe.queue;
        match (pipe.readers, pipe.writers) {
            (0, 0) => self.remove_pipe(key),
            (0, _) | (_, 0) => self.notify(queue),
            _ => {}
        }
    }
    /// Reports an event on a FIFO that was read or written.
    fn fifo_event(&mut self, file: FileKey, event: u32) {
        if !self.files.notify.is_idle()
            && let Some(inode) = self.files.fifo_inode(file)
        {
            self.open_file_event(file, inode, event);
        }
    }
    /// `F_SETPIPE_SZ`. `EBADF` if the file is no pipe, `EPERM` beyond the limit without privilege.
    pub(crate) fn set_pipe_capacity(
        &mut self,
        file: FileKey,
        bytes: u64,
        privileged: bool,
    ) -> Result<usize, Errno> {
        let most = if privileged { u64::MAX } else { self.pipe_max_size() };
        let pipe = self.files.pipe_of(file).ok_or(Errno::EBADF)?;
        if bytes <= 1 << 31 && bytes > most && bytes > pipe.capacity() as u64 {
            return Err(Errno::EPERM);
        }
        let capacity = pipe.set_capacity(bytes)?;
        let queue = pipe.queue;
        self.notify_events(queue, WRITABLE);
        Ok(capacity)
    }
}

impl Call<'_> {
    /// Sends `SIGPIPE` to the calling thread, which writes to a pipe or socket without a reader.
    pub(crate) fn raise_sigpipe(&mut self) {
        let process = &self.host.processes[self.process.0];
        let info = SigInfo::user(c::SIGPIPE, c::SI_USER, process.pid, process.credentials.ruid);
        self.host.send_signal_to_thread(self.thread, info);
    }

    /// `read(2)` from a pipe: blocks while it is empty, then returns the available bytes.
    pub(crate) fn read_pipe(&mut self, file: FileKey, key: PipeKey, buffers: &GuestBuffers) -> SysResult {
        let open = self.host.files.open(file);
        if !open.is_readable() {
            return Err(Errno::EBADF);
        }
        let (nonblocking, room) = (open.is_nonblocking(), total_len(buffers) as usize);
        let pipe = &self.host.files.pipes[key.0];
        if room == 0 {
            return done(0);
        }
        if pipe.is_empty() {
            return match (pipe.writers, nonblocking) {
                (0, _) => done(0),
                (_, true) => Err(Errno::EAGAIN),
                _ => Block::on(pipe.queue).into(),
            };
        }
        let queue = pipe.queue;
        let data = pipe.peek(room);
        self.scatter(buffers, &data)?;
        if self.host.files.pipes[key.0].consume(data.len()) {
            self.host.notify_events(queue, WRITABLE);
        }
        self.host.fifo_event(file, c::IN_ACCESS);
        done(data.len() as u64)
    }

    /// `write(2)` to a pipe: blocks until everything is written. Interrupted by a signal, it returns the
    /// bytes written so far.
    pub(crate) fn write_pipe(&mut self, file: FileKey, key: PipeKey, buffers: &GuestBuffers) -> SysResult {
        let open = self.host.files.open(file);
        if !open.is_writable() {
            return Err(Errno::EBADF);
        }
        let (nonblocking, packet) = (open.is_nonblocking(), open.flags & c::O_DIRECT != 0);
        let total = total_len(buffers);
        let written = match self.take_state() {
            CallState::Progress(written) => written,
            _ => 0,
        };
        if total == 0 {
            return done(0);
        }
        let pipe = &self.host.files.pipes[key.0];
        let queue = pipe.queue;
        if pipe.readers == 0 {
            self.raise_sigpipe();
            return if written > 0 { done(written) } else { Err(Errno::EPIPE) };
        }
        let left = (total - written) as usize;
        let room = pipe.room(left);
        if room > 0 {
            let data = self.gather(buffers, written, room)?;
            self.host.files.pipes[key.0].push(&data, left, packet);
            self.host.notify_events(queue, READABLE);
        }
        let written = written + room as u64;
        if written == total || (nonblocking && written > 0) {
            self.host.fifo_event(file, c::IN_MODIFY);
            return done(written);
        }
        if nonblocking {
            return Err(Errno::EAGAIN);
        }
        let interrupted = if written > 0 { IfInterrupted::Value(written) } else { IfInterrupted::Restart };
        Block::on(queue).with_state(CallState::Progress(written)).interrupted(interrupted).into()
    }
}
