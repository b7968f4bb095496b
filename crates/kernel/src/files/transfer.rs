//! Moving bytes between open files without passing the caller's memory: `sendfile(2)`,
//! `copy_file_range(2)`, `splice(2)`, `tee(2)`.
//!
//! Bytes are moved part by part, and after each part the positions say what has been moved: a call
//! that has to wait, or that a signal ends, has lost and repeated nothing. From and to files and
//! sockets they are staged in the call, where the ordinary reading and writing functions find them
//! in place of the caller's memory.

use super::readiness::{READABLE, WRITABLE};
use crate::call::{Block, Call, CallState, IfInterrupted, Outcome, SysResult, done};
use crate::guest::Buffers;
use crate::ids::{FileKey, PipeKey, WaitQueueId};
use belljar_linux_abi::{Errno, c};
use smallvec::SmallVec;

/// The most that is moved at a time.
const CHUNK: u64 = 1 << 18;

/// What to move.
#[derive(Clone, Copy, Debug)]
pub struct Transfer {
    /// Where from.
    pub input: FileKey,
    /// At this position; otherwise at the file's own, which moves.
    pub from: Option<u64>,
    /// Where to.
    pub output: FileKey,
    /// At this position; otherwise at the file's own, which moves.
    pub to: Option<u64>,
    /// How many bytes at most.
    pub len: u64,
    /// `SPLICE_F_NONBLOCK`: pipes are not waited for.
    pub nonblocking: bool,
    /// Whether to go on waiting for the output when something has been moved, as `sendfile` does.
    pub whole: bool,
}

/// What one attempt to move a part has come to.
enum Part {
    Moved(u64),
    /// The input has ended.
    End,
    /// The input has nothing now.
    WaitInput(WaitQueueId),
    /// The output has no room now.
    WaitOutput(WaitQueueId),
}

impl Call<'_> {
    /// Moves bytes; stores the positions behind them where `from` and `to` were given by pointers
    /// (`store_from`, `store_to`). `EBADF` unless the files are open for it.
    pub(crate) fn transfer(&mut self, mut what: Transfer, store_from: u64, store_to: u64) -> SysResult {
        if !self.host.open(what.input).is_readable() || !self.host.open(what.output).is_writable() {
            return Err(Errno::EBADF);
        }
        let mut moved = match self.take_state() {
            CallState::Progress(moved) => moved,
            _ => 0,
        };
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
                    let quick = what.nonblocking || self.host.open(what.input).is_nonblocking();
                    (moved == 0).then(|| wait = Some((queue, quick)));
                    break;
                }
                Ok(Part::WaitOutput(queue)) => {
                    let to_pipe = self.host.pipe_of(what.output).is_some();
                    let quick = (to_pipe && what.nonblocking) || self.host.open(what.output).is_nonblocking();
                    (moved == 0 || (!to_pipe || what.whole) && !quick).then(|| wait = Some((queue, quick)));
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

    fn pipe_key(&mut self, file: FileKey) -> Option<PipeKey> {
        self.host.pipe_of(file)?;
        match self.host.open(file).kind {
            super::FileKind::PipeReader(key)
            | super::FileKind::PipeWriter(key)
            | super::FileKind::PipeBoth(key) => Some(key),
            _ => None,
        }
    }

    fn move_part(&mut self, what: &Transfer, want: u64) -> Result<Part, Errno> {
        let mut want = want.min(CHUNK);
        let to_pipe = self.pipe_key(what.output);
        if let Some(key) = to_pipe {
            let pipe = &self.host.files.pipes[key.0];
            if pipe.readers == 0 {
                self.raise_sigpipe();
                return Err(Errno::EPIPE);
            }
            want = pipe.room(want as usize, false) as u64;
            if want == 0 {
                return Ok(Part::WaitOutput(pipe.queue));
            }
        }
        if let Some(key) = self.pipe_key(what.input) {
            return self.move_from_pipe(what, key, want);
        }
        if self.host.open(what.input).kind.has_position() {
            let at = what.from.unwrap_or(self.host.open(what.input).offset);
            let data = self.stage(what.input, Some(at), want)?;
            if data.is_empty() {
                return Ok(Part::End);
            }
            let part = self.put(what, data)?;
            if let (Part::Moved(moved), None) = (&part, what.from) {
                self.host.open(what.input).offset = at + moved;
            }
            return Ok(part);
        }
        // A stream, whose bytes are gone once read: the pipe has room for them.
        match self.stage(what.input, None, want) {
            Ok(data) if data.is_empty() => Ok(Part::End),
            Ok(data) => self.put(what, data),
            Err(Errno::EAGAIN) => match self.host.wait_queue(what.input) {
                Some(queue) => Ok(Part::WaitInput(queue)),
                None => Err(Errno::EAGAIN),
            },
            Err(errno) => Err(errno),
        }
    }

    fn move_from_pipe(&mut self, what: &Transfer, key: PipeKey, want: u64) -> Result<Part, Errno> {
        let pipe = &self.host.files.pipes[key.0];
        let queue = pipe.queue;
        if pipe.is_empty() {
            return Ok(if pipe.writers == 0 { Part::End } else { Part::WaitInput(queue) });
        }
        let data = pipe.peek(want as usize);
        let part = self.put(what, data)?;
        if let Part::Moved(moved) = part
            && self.host.files.pipes[key.0].consume(moved as usize)
        {
            self.host.notify_events(queue, WRITABLE);
        }
        Ok(part)
    }

    /// Gives the output what it takes now.
    fn put(&mut self, what: &Transfer, data: Vec<u8>) -> Result<Part, Errno> {
        if let Some(key) = self.pipe_key(what.output) {
            self.host.files.pipes[key.0].push(&data, data.len(), false);
            let queue = self.host.files.pipes[key.0].queue;
            self.host.notify_events(queue, READABLE);
            return Ok(Part::Moved(data.len() as u64));
        }
        let buffers: Buffers = SmallVec::from_slice(&[(0, data.len() as u64)]);
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

    /// Up to `len` bytes of an open file. `EAGAIN` if it would have to be waited for.
    fn stage(&mut self, input: FileKey, at: Option<u64>, len: u64) -> Result<Vec<u8>, Errno> {
        let buffers: Buffers = SmallVec::from_slice(&[(0, len)]);
        self.staged = Some(Vec::new());
        let outcome = self.without_waiting(input, |call| call.file_read(input, &buffers, at));
        let data = self.staged.take().unwrap_or_default();
        match outcome? {
            Outcome::Done(_) => Ok(data),
            _ => Err(Errno::EAGAIN),
        }
    }

    fn without_waiting(&mut self, file: FileKey, act: impl FnOnce(&mut Self) -> SysResult) -> SysResult {
        let flags = self.host.open(file).flags;
        self.host.open(file).flags = flags | c::O_NONBLOCK;
        let outcome = act(self);
        self.host.open(file).flags = flags;
        outcome
    }

    /// `tee(2)`: gives one pipe what another holds, which stays there.
    pub(crate) fn tee(&mut self, input: FileKey, output: FileKey, len: u64, quick: bool) -> SysResult {
        let (Some(from), Some(to)) = (self.pipe_key(input), self.pipe_key(output)) else {
            return Err(Errno::EINVAL);
        };
        if from == to {
            return Err(Errno::EINVAL);
        }
        let [source, target] = [from, to].map(|key| &self.host.files.pipes[key.0]);
        if len == 0 {
            return done(0);
        }
        let waits = |queue| if quick { Err(Errno::EAGAIN) } else { Block::on(queue).into() };
        if source.is_empty() {
            return if source.writers == 0 { done(0) } else { waits(source.queue) };
        }
        if target.readers == 0 {
            self.raise_sigpipe();
            return Err(Errno::EPIPE);
        }
        let room = target.room(len.min(CHUNK) as usize, false);
        if room == 0 {
            return waits(target.queue);
        }
        let (data, queue) = (source.peek(room), target.queue);
        self.host.files.pipes[to.0].push(&data, data.len(), false);
        self.host.notify_events(queue, READABLE);
        done(data.len() as u64)
    }

    /// `vmsplice(2)` into a pipe: what fits of the caller's memory.
    pub(crate) fn fill_pipe(&mut self, output: FileKey, buffers: &Buffers, quick: bool) -> SysResult {
        let key = self.pipe_key(output).ok_or(Errno::EBADF)?;
        let total = crate::guest::total_len(buffers);
        if total == 0 {
            return done(0);
        }
        let pipe = &self.host.files.pipes[key.0];
        let queue = pipe.queue;
        if pipe.readers == 0 {
            self.raise_sigpipe();
            return Err(Errno::EPIPE);
        }
        let room = pipe.room(total.min(CHUNK) as usize, false);
        if room == 0 {
            let quick = quick || self.host.open(output).is_nonblocking();
            return if quick { Err(Errno::EAGAIN) } else { Block::on(queue).into() };
        }
        let data = self.gather(buffers, 0, room)?;
        self.host.files.pipes[key.0].push(&data, data.len(), false);
        self.host.notify_events(queue, READABLE);
        done(data.len() as u64)
    }
}
