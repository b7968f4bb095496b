//! Reading and writing of both ends of a pseudo-terminal.

use crate::call::Call;
use crate::guest::{GuestBuffers, total_len};
use crate::ids::FileKey;
use crate::outcome::{Block, CallState, IfInterrupted, Resumed, SysResult, done};
use belljar_base::{SimDuration, SimTime};
use belljar_linux_abi::{Errno, c};
use belljar_terminal::MasterRead;

/// Maximum number of bytes passed to the line discipline at a time.
const CHUNK: usize = 2_048;
/// Unit of `VTIME` in nanoseconds.
const TENTH_NS: u64 = 100_000_000;

impl Call<'_> {
    /// `read(2)` from the master: the output of the slave's programs; `EIO` once the slave is closed.
    pub(crate) fn read_master(&mut self, file: FileKey, key: usize, buffers: &GuestBuffers) -> SysResult {
        let nonblocking = self.host.files.open(file).is_nonblocking();
        let room = total_len(buffers) as usize;
        let pty = &mut self.host.files.ptys[key];
        let queue = pty.queue;
        if room == 0 {
            return done(0);
        }
        let data = match pty.pair.read_master(room) {
            MasterRead::State(state) => {
                self.scatter(buffers, &[state])?;
                return done(1);
            }
            MasterRead::Closed => return Err(Errno::EIO),
            MasterRead::Nothing if nonblocking => return Err(Errno::EAGAIN),
            MasterRead::Nothing => return Block::on(queue).into(),
            MasterRead::Data(data) => data,
        };
        self.host.notify(queue);
        self.scatter(buffers, &data)?;
        done(data.len() as u64)
    }

    /// `write(2)` to the master: input of the terminal.
    pub(crate) fn write_master(&mut self, file: FileKey, key: usize, buffers: &GuestBuffers) -> SysResult {
        let nonblocking = self.host.files.open(file).is_nonblocking();
        let total = total_len(buffers);
        let mut written = match self.take_state() {
            CallState::Progress(written) => written,
            _ => 0,
        };
        let queue = self.host.files.ptys[key].queue;
        while written < total {
            let room = self.host.files.ptys[key].pair.typing_room().min(CHUNK);
            if room == 0 {
                break;
            }
            let data = self.gather(buffers, written, room)?;
            written += data.len() as u64;
            self.host.files.ptys[key].pair.feed(&data);
            self.host.pump_typed(key);
            self.host.notify(queue);
        }
        finish_write(written, total, nonblocking, queue)
    }

    /// `read(2)` from a terminal: a line in canonical mode, otherwise as `VMIN` and `VTIME` specify.
    pub(crate) fn read_terminal(&mut self, file: FileKey, key: usize, buffers: &GuestBuffers) -> SysResult {
        let nonblocking = self.host.files.open(file).is_nonblocking();
        let pty = &self.host.files.ptys[key];
        let queue = pty.queue;
        if !pty.pair.master_open {
            return done(0);
        }
        if let Some(answer) = self.background_access(key, c::SIGTTIN) {
            return answer;
        }
        let room = total_len(buffers) as usize;
        let pty = &self.host.files.ptys[key];
        let available = pty.pair.available();
        if pty.pair.is_canonical() {
            if available == 0 {
                return if nonblocking { Err(Errno::EAGAIN) } else { Block::on(queue).into() };
            }
        } else {
            let (minimum, time) = pty.pair.least_read();
            let timed_out = self.deadline_passed()
                && matches!(self.resumed, Some(Resumed { state: CallState::ProgressUntil(..), .. }));
            let enough = available >= minimum.min(room).max(1) || (nonblocking && available > 0);
            if !(enough || timed_out || minimum == 0 && time == 0) {
                if nonblocking {
                    return Err(Errno::EAGAIN);
                }
                let state = self.take_state();
                let deadline = self.read_deadline(state, available, minimum, time);
                return Block::on(queue)
                    .with_deadline(deadline)
                    .with_state(CallState::ProgressUntil(available as u64, deadline))
                    .into();
            }
        }
        if room == 0 {
            return done(0);
        }
        let pty = &mut self.host.files.ptys[key];
        let data = pty.pair.take(room);
        self.host.pump_typed(key);
        self.host.notify(queue);
        self.scatter(buffers, &data)?;
        done(data.len() as u64)
    }

    /// Deadline of a read in raw mode: `VTIME` after its start if `VMIN` is 0, otherwise `VTIME` after the
    /// last byte.
    fn read_deadline(&self, state: CallState, available: usize, minimum: usize, time: u8) -> Option<SimTime> {
        let fresh = Some(self.now() + SimDuration::from_nanos(TENTH_NS * u64::from(time)));
        match state {
            _ if time == 0 => None,
            CallState::ProgressUntil(before, until) if before as usize == available => until,
            CallState::ProgressUntil(_, until) if minimum == 0 => until,
            _ if minimum > 0 && available == 0 => None,
            _ => fresh,
        }
    }

    /// `write(2)` to a terminal. `EIO` once the master is closed.
    pub(crate) fn write_terminal(&mut self, file: FileKey, key: usize, buffers: &GuestBuffers) -> SysResult {
        let nonblocking = self.host.files.open(file).is_nonblocking();
        let total = total_len(buffers);
        let mut written = match self.take_state() {
            CallState::Progress(written) => written,
            _ => 0,
        };
        let pty = &self.host.files.ptys[key];
        let queue = pty.queue;
        if !pty.pair.master_open {
            return Err(Errno::EIO);
        }
        if pty.pair.termios.local(c::TOSTOP)
            && written == 0
            && let Some(answer) = self.background_access(key, c::SIGTTOU)
        {
            return answer;
        }
        while written < total {
            let pty = &self.host.files.ptys[key];
            let room = pty.pair.writing_room();
            if room == 0 || pty.pair.is_stopped() {
                break;
            }
            let data = self.gather(buffers, written, room.min(CHUNK))?;
            self.host.files.ptys[key].pair.write(&data);
            written += data.len() as u64;
            self.host.notify(queue);
        }
        finish_write(written, total, nonblocking, queue)
    }
}

fn finish_write(written: u64, total: u64, nonblocking: bool, queue: crate::ids::WaitQueueId) -> SysResult {
    if written == total || (nonblocking && written > 0) {
        return done(written);
    }
    if nonblocking {
        return Err(Errno::EAGAIN);
    }
    let interrupted = if written > 0 { IfInterrupted::Value(written) } else { IfInterrupted::Restart };
    Block::on(queue).with_state(CallState::Progress(written)).interrupted(interrupted).into()
}
