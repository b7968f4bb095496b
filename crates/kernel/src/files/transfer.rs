//! Transfers between open files that bypass the caller's memory: `sendfile(2)`, `copy_file_range(2)`,
//! `splice(2)`, `tee(2)`.
//!
//! Bytes are moved in parts, and the offsets are updated after each part: a call that blocks, or that a
//! signal interrupts, loses and repeats nothing. Data from and to files and sockets is staged in the call,
//! where the ordinary read and write functions use it instead of the caller's memory.

use crate::call::Call;
use crate::guest::GuestBuffers;
use crate::ids::{FileKey, PipeKey, WaitQueueId};
use crate::outcome::{Block, CallState, IfInterrupted, Outcome, SysResult, done};
use belljar_linux_abi::{Errno, c};
use belljar_netstack::readiness::{READABLE, WRITABLE};
use belljar_objects::file_kind::FileKind;
use belljar_objects::pipe::PAGE;
use smallvec::SmallVec;

/// Maximum size of a part in bytes.
const CHUNK: u64 = 1 << 18;

/// A transfer between open files, other than into a pipe.
#[derive(Clone, Copy, Debug)]
pub struct Transfer {
    /// Source.
    pub input: FileKey,
    /// Source offset; `None` for the file offset, which is then advanced.
    pub from: Option<u64>,
    /// Destination.
    pub output: FileKey,
    /// Destination offset; `None` for the file offset, which is then advanced.
    pub to: Option<u64>,
    /// Maximum number of bytes.
    pub len: u64,
    /// True if the call does not block for input.
    pub quick: bool,
}

/// Result of an attempt to move a part.
enum Part {
    Moved(u64),
    /// End of the input.
    End,
    /// The input is empty at present: block on this queue.
    WaitInput(WaitQueueId),
    /// The output is full at present: block on this queue.
    WaitOutput(WaitQueueId),
}

impl Call<'_> {
    /// Moves bytes. Offsets that the caller passed by pointer are stored at `store_from` and `store_to`,
    /// unless those are 0.
    pub(crate) fn transfer(&mut self, mut what: Transfer, store_from: u64, store_to: u64) -> SysResult {
        let mut moved = match self.take_state() {
            CallState::Progress(moved) => moved,
            _ => 0,
        };
        if let FileKind::Regular(inode) = self.host.files.open(what.input).kind
            && moved == 0
            && let Some(block) = self.ask_to_read(what.input, inode)?
        {
            return block.into();
        }
        let before = (what.from, what.to);
        let mut wait = None;
        let mut error = None;
        while moved < what.len {
            match self.move_part(&what, what.len - moved) {
                Ok(Part::Moved(part)) => {
                    moved += part;
                    what.from = what.from.map(|at| at + part);
                    what.to = what.to.map(|at| at + part);
                }
                Ok(Part::End) => break,
                Ok(Part::WaitInput(queue)) => {
                    (moved == 0).then(|| wait = Some((queue, what.quick)));
                    break;
                }
                Ok(Part::WaitOutput(queue)) => {
                    let quick = self.host.files.open(what.output).is_nonblocking();
                    (moved == 0 || !quick).then(|| wait = Some((queue, quick)));
                    break;
                }
                Err(errno) => {
                    error = Some(errno);
                    break;
                }
            }
        }
        for (old, new, store) in [(before.0, what.from, store_from), (before.1, what.to, store_to)] {
            if let Some(at) = new.filter(|_| old != new && store != 0) {
                self.write(store, &at)?;
            }
        }
        match (wait, error) {
            (None, Some(errno)) if moved == 0 => Err(errno),
            (None, _) => done(moved),
            (Some((_, true)), _) => Err(Errno::EAGAIN),
            (Some((queue, false)), _) => {
                let interrupted =
                    if moved > 0 { IfInterrupted::Value(moved) } else { IfInterrupted::Restart };
                Block::on(queue).with_state(CallState::Progress(moved)).interrupted(interrupted).into()
            }
        }
    }

    /// Pipe of an open file; `None` for other files.
    pub(crate) fn pipe_key(&mut self, file: FileKey) -> Option<PipeKey> {
        self.host.files.pipe_of(file)?;
        match self.host.files.open(file).kind {
            FileKind::PipeReader(key) | FileKind::PipeWriter(key) | FileKind::PipeBoth(key) => Some(key),
            _ => None,
        }
    }

    fn move_part(&mut self, what: &Transfer, want: u64) -> Result<Part, Errno> {
        let want = want.min(CHUNK);
        if let Some(key) = self.pipe_key(what.input) {
            return self.move_from_pipe(what, key, want);
        }
        if !self.host.files.open(what.input).kind.can_be_spliced_from() {
            return Err(Errno::EINVAL);
        }
        let at = what.from.unwrap_or(self.host.files.open(what.input).offset);
        let data = self.stage(what.input, Some(at), want)?;
        if data.is_empty() {
            return Ok(Part::End);
        }
        let part = self.put(what, data)?;
        if let (Part::Moved(moved), None) = (&part, what.from) {
            self.host.files.open(what.input).offset = at + moved;
        }
        Ok(part)
    }

    fn move_from_pipe(&mut self, what: &Transfer, key: PipeKey, want: u64) -> Result<Part, Errno> {
        let pipe = &self.host.files.pipes[key.0];
        let queue = pipe.queue;
        if pipe.is_empty() {
            return Ok(if pipe.writers == 0 { Part::End } else { Part::WaitInput(queue) });
        }
        let data = pipe.peek_bytes(want as usize);
        let part = self.put(what, data)?;
        if let Part::Moved(moved) = part
            && self.host.files.pipes[key.0].consume_bytes(moved as usize)
        {
            self.host.notify_events(queue, WRITABLE);
        }
        Ok(part)
    }

    /// Writes as much of `data` as the output accepts without blocking. `EINVAL` if the output does not
    /// support splicing.
    fn put(&mut self, what: &Transfer, data: Vec<u8>) -> Result<Part, Errno> {
        if !self.host.files.open(what.output).kind.can_be_spliced_to() {
            return Err(Errno::EINVAL);
        }
        let buffers: GuestBuffers = SmallVec::from_slice(&[(0, data.len() as u64)]);
        self.staged = Some(data);
        let outcome =
            self.without_waiting(what.output, |call| call.file_write(what.output, &buffers, what.to));
        self.staged = None;
        match outcome {
            Ok(Outcome::Done(moved)) => Ok(Part::Moved(moved)),
            Ok(_) => Err(Errno::EIO),
            Err(Errno::EAGAIN) => match self.host.wait_queue(what.output) {
                Some(queue) => Ok(Part::WaitOutput(queue)),
                None => Err(Errno::EAGAIN),
            },
            Err(errno) => Err(errno),
        }
    }

    /// Moves up to `len` bytes from a file, at `from` or at its file offset, into a pipe, in one step limited
    /// by the available data and space. Blocks first for space, whatever the input, and then for input; with
    /// `quick` for neither.
    pub(crate) fn file_to_pipe(
        &mut self,
        input: FileKey,
        from: Option<u64>,
        output: PipeKey,
        len: u64,
        quick: bool,
    ) -> SysResult {
        if let Some(outcome) = self.wait_for_page(output, quick) {
            return outcome;
        }
        if len == 0 {
            return done(0);
        }
        let open = self.host.files.open(input);
        if !open.kind.can_be_spliced_from() {
            return Err(Errno::EINVAL);
        }
        let has_position = open.kind.has_position();
        let at = from.unwrap_or(open.offset);
        // Pages of a regular file are shared with the pipe at their offset in the page; other data fills new
        // pages.
        let in_page = if matches!(open.kind, FileKind::Regular(_)) { at } else { 0 };
        let quick = open.is_nonblocking() || quick && self.splices_without_waiting(input);
        let want = len.min((self.host.files.pipes[output.0].free_pages() * PAGE) as u64);
        let data = match self.stage(input, has_position.then_some(at), want) {
            Ok(data) => data,
            Err(Errno::EAGAIN) if !quick => {
                return match self.host.wait_queue(input) {
                    Some(queue) => Block::on(queue).interrupted(IfInterrupted::Restart).into(),
                    None => Err(Errno::EAGAIN),
                };
            }
            Err(errno) => return Err(errno),
        };
        let pipe = &mut self.host.files.pipes[output.0];
        let moved = pipe.push_pages(&data, in_page) as u64;
        let queue = pipe.queue;
        if moved > 0 {
            self.host.notify_events(queue, READABLE);
        }
        if has_position && from.is_none() {
            self.host.files.open(input).offset = at + moved;
        }
        done(moved)
    }
    /// True if `SPLICE_F_NONBLOCK` applies to the input too, which it does only for UNIX stream sockets.
    fn splices_without_waiting(&mut self, input: FileKey) -> bool {
        let FileKind::Socket(key) = self.host.files.open(input).kind else { return false };
        let socket = self.host.socket(key);
        socket.type_ == c::SOCK_STREAM && socket.domain == c::AF_UNIX
    }

    /// Outcome of a call that needs a free page in a pipe: blocks, or `EAGAIN` if `quick`, while the pipe is
    /// full; `EPIPE` and `SIGPIPE` without a reader; `None` if a page is free.
    fn wait_for_page(&mut self, key: PipeKey, quick: bool) -> Option<SysResult> {
        let pipe = &self.host.files.pipes[key.0];
        let queue = pipe.queue;
        if pipe.readers == 0 {
            self.raise_sigpipe();
            return Some(Err(Errno::EPIPE));
        }
        match pipe.is_full() {
            false => None,
            true if quick => Some(Err(Errno::EAGAIN)),
            true => Some(Block::on(queue).interrupted(IfInterrupted::Restart).into()),
        }
    }

    /// Moves pages from one pipe to another; with `keep` copies them, `tee(2)`.
    pub(crate) fn pipe_to_pipe(
        &mut self,
        from: PipeKey,
        to: PipeKey,
        len: u64,
        quick: bool,
        keep: bool,
    ) -> SysResult {
        let [source, target] = [from, to].map(|key| &self.host.files.pipes[key.0]);
        let (source_queue, target_queue, has_ended) =
            (source.queue, target.queue, source.is_empty() && source.writers == 0);
        if source.is_empty() && !has_ended {
            return match quick {
                true => Err(Errno::EAGAIN),
                false => Block::on(source_queue).interrupted(IfInterrupted::Restart).into(),
            };
        }
        if let Some(outcome) = self.wait_for_page(to, quick) {
            return outcome;
        }
        if has_ended {
            return done(0);
        }
        let free = self.host.files.pipes[to.0].free_pages();
        let source = &mut self.host.files.pipes[from.0];
        let mut pages = source.copy_pages(len.min(usize::MAX as u64) as usize, free);
        let moved = pages.len();
        let has_room = !keep && source.consume_bytes(moved);
        if keep {
            pages = pages.unmerged();
        }
        self.host.files.pipes[to.0].append(pages);
        if has_room {
            self.host.notify_events(source_queue, WRITABLE);
        }
        self.host.notify_events(target_queue, READABLE);
        done(moved as u64)
    }

    /// Reads up to `len` bytes of an open file into a buffer. `EAGAIN` if the read would block.
    fn stage(&mut self, input: FileKey, at: Option<u64>, len: u64) -> Result<Vec<u8>, Errno> {
        let buffers: GuestBuffers = SmallVec::from_slice(&[(0, len)]);
        self.staged = Some(Vec::new());
        let outcome = self.without_waiting(input, |call| call.file_read(input, &buffers, at));
        let data = self.staged.take().unwrap_or_default();
        match outcome? {
            Outcome::Done(_) => Ok(data),
            _ => Err(Errno::EAGAIN),
        }
    }

    fn without_waiting(&mut self, file: FileKey, act: impl FnOnce(&mut Self) -> SysResult) -> SysResult {
        let flags = self.host.files.open(file).flags;
        self.host.files.open(file).flags = flags | c::O_NONBLOCK;
        let outcome = act(self);
        self.host.files.open(file).flags = flags;
        outcome
    }

    /// `vmsplice(2)` into a pipe: copies the caller's memory as far as pages are free.
    pub(crate) fn vmsplice_to_pipe(
        &mut self,
        key: PipeKey,
        buffers: &GuestBuffers,
        quick: bool,
    ) -> SysResult {
        if let Some(outcome) = self.wait_for_page(key, quick) {
            return outcome;
        }
        let mut moved = 0;
        for &(addr, len) in buffers {
            let room = (self.host.files.pipes[key.0].free_pages() * PAGE) as u64;
            if len == 0 || room == 0 {
                continue;
            }
            let part: GuestBuffers = SmallVec::from_slice(&[(addr, len.min(room))]);
            let data = match self.gather(&part, 0, len.min(room) as usize) {
                Ok(data) => data,
                Err(errno) if moved == 0 => return Err(errno),
                Err(_) => break,
            };
            moved += self.host.files.pipes[key.0].push_pages(&data, addr) as u64;
        }
        let queue = self.host.files.pipes[key.0].queue;
        self.host.notify_events(queue, READABLE);
        done(moved)
    }

    /// `vmsplice(2)` out of a pipe: copies the available bytes to the caller's memory.
    pub(crate) fn vmsplice_from_pipe(
        &mut self,
        key: PipeKey,
        buffers: &GuestBuffers,
        quick: bool,
    ) -> SysResult {
        let pipe = &self.host.files.pipes[key.0];
        let queue = pipe.queue;
        if pipe.is_empty() {
            return match (pipe.writers, quick) {
                (0, _) => done(0),
                (_, true) => Err(Errno::EAGAIN),
                _ => Block::on(queue).interrupted(IfInterrupted::Restart).into(),
            };
        }
        let data = pipe.peek_bytes(crate::guest::total_len(buffers) as usize);
        self.scatter(buffers, &data)?;
        if self.host.files.pipes[key.0].consume_bytes(data.len()) {
            self.host.notify_events(queue, WRITABLE);
        }
        done(data.len() as u64)
    }
}
