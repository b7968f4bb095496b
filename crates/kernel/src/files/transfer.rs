//! Moving bytes between open files without passing the caller's memory: `sendfile(2)`,
//! `copy_file_range(2)`, `splice(2)`.
//!
//! The bytes are staged in the call, where the ordinary reading and writing functions find them in
//! place of the caller's memory.

use crate::call::{Call, Outcome, SysResult, done};
use crate::guest::Buffers;
use crate::ids::FileKey;
use belljar_linux_abi::Errno;
use smallvec::SmallVec;

/// The most that one call moves into something that may have to wait.
const STREAM_CHUNK: u64 = 1 << 18;
/// The most that is staged at a time.
const CHUNK: u64 = 1 << 20;

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
}

impl Call<'_> {
    /// Moves bytes, and stores the positions behind them where `from` and `to` were given by
    /// pointers (`store_from`, `store_to`).
    pub(crate) fn transfer(&mut self, what: Transfer, store_from: u64, store_to: u64) -> SysResult {
        let moved = if self.host.open(what.output).kind.has_position() {
            self.copy_between_files(&what)?
        } else if self.host.pipe_of(what.input).is_some() {
            return Err(Errno::EINVAL);
        } else {
            match self.send_part(&what)? {
                Outcome::Done(moved) => moved,
                waits => return Ok(waits),
            }
        };
        for (start, store) in [(what.from, store_from), (what.to, store_to)] {
            if let Some(start) = start {
                self.write(store, &(start + moved))?;
            }
        }
        done(moved)
    }

    /// Into a file, which never waits, from a file or from a pipe, which may have to be waited for.
    fn copy_between_files(&mut self, what: &Transfer) -> Result<u64, Errno> {
        let mut moved = 0;
        while moved < what.len {
            let part = CHUNK.min(what.len - moved);
            let data = match self.stage(what.input, what.from.map(|at| at + moved), part) {
                Ok(data) if data.is_empty() => break,
                Ok(data) => data,
                Err(errno) if moved == 0 => return Err(errno),
                Err(_) => break,
            };
            let len = data.len() as u64;
            match self.write_staged(what.output, what.to.map(|at| at + moved), data)? {
                Outcome::Done(written) => moved += written,
                _ => return Err(Errno::EIO),
            }
            if len < part {
                break;
            }
        }
        Ok(moved)
    }

    /// Into a stream: one part, whose bytes are read again when a call that had to wait goes on.
    fn send_part(&mut self, what: &Transfer) -> SysResult {
        let at = what.from.unwrap_or(self.host.open(what.input).offset);
        let state = self.resumed.take();
        let data = self.stage(what.input, Some(at), what.len.min(STREAM_CHUNK))?;
        if data.is_empty() {
            return done(0);
        }
        self.resumed = state;
        let outcome = self.write_staged(what.output, None, data)?;
        if let (Outcome::Done(moved), None) = (&outcome, what.from) {
            self.host.open(what.input).offset = at + moved;
        }
        Ok(outcome)
    }

    /// Up to `len` bytes of an open file. `EAGAIN` if it would have to be waited for.
    fn stage(&mut self, input: FileKey, at: Option<u64>, len: u64) -> Result<Vec<u8>, Errno> {
        let buffers: Buffers = SmallVec::from_slice(&[(0, len)]);
        self.staged = Some(Vec::new());
        let outcome = self.file_read(input, &buffers, at);
        let data = self.staged.take().unwrap_or_default();
        match outcome? {
            Outcome::Done(_) => Ok(data),
            _ => Err(Errno::EAGAIN),
        }
    }
    fn write_staged(&mut self, output: FileKey, at: Option<u64>, data: Vec<u8>) -> SysResult {
        let buffers: Buffers = SmallVec::from_slice(&[(0, data.len() as u64)]);
        self.staged = Some(data);
        let outcome = self.file_write(output, &buffers, at);
        self.staged = None;
        outcome
    }
}
