//! Requests that are system calls. The kernel makes the call, with a provided buffer if the request selects
//! one, and repeats it for multishot requests.

use super::Step;
use crate::call::Call;
use crate::host::Host;
use crate::ids::{FileKey, ProcessKey, ThreadKey};
use crate::outcome::{Outcome, Resumed, SysResult};
use crate::syscall::socket_io::{Chosen, receive_chosen};
use crate::syscall::{table, transfer};
use belljar_linux_abi::{Errno, c};
use belljar_objects::file_kind::FileKind;
use belljar_objects::open_file::{FdEntry, OpenFile};
use belljar_uring::entry::{
    CLOSE, FIXED_FILE, MORE, READ, READV, RECV, RECVMSG, SPLICE, SubmissionEntry, TEE, failure,
};
use belljar_uring::instance::Held;
use belljar_uring::memory::Completion;

/// `IORING_CQE_F_BUFFER`, and the shift of the buffer id in the completion flags.
const BUFFER: u32 = 1;
const BUFFER_SHIFT: u32 = 16;

/// System call to be made for a request.
struct Made {
    number: u32,
    args: [u64; 6],
    /// Destination of a `recvmsg` with a provided buffer.
    message: Option<Chosen>,
}

impl Host {
    /// Makes or continues the system call of a request.
    pub(super) fn advance_call(
        &mut self,
        n: usize,
        entry: &SubmissionEntry,
        held: Held,
        mut resumed: Option<Resumed>,
    ) -> Step {
        if entry.op == CLOSE && entry.file_index != 0 {
            return self.close_slot(n, entry).into();
        }
        let process = entry.by.process;
        // An instance cannot be closed by its own request.
        let closes_ring = |file: FileKey| matches!(self.files.open[file.0].kind, FileKind::Uring(_));
        if entry.op == CLOSE && self.file_of(process, entry.fd).is_ok_and(closes_ring) {
            return Step::failed(Errno::EBADF);
        }
        let Some(thread) = self.processes[process.0].threads.first().copied() else {
            return Step::failed(Errno::ECANCELED);
        };
        if self.urings.instances[n].setup.polls_io && entry.moves_bytes() {
            // Only direct I/O, which bypasses the page cache, can be polled.
            let file = held.first.map(|file| &self.files.open[file.0]);
            let direct =
                |file: &OpenFile| matches!(file.kind, FileKind::Regular(_)) && file.flags & c::O_DIRECT != 0;
            if !file.is_some_and(direct) {
                return Step::failed(Errno::EOPNOTSUPP);
            }
        }
        loop {
            let chosen = match entry.selects_buffer().then(|| self.first_buffer(n, entry.buffer)).transpose()
            {
                Ok(chosen) => chosen,
                Err(errno) => return Step::failed(errno),
            };
            let room = chosen.map(|buffer| (buffer.addr, buffer.len));
            let made = match self.call_of(n, entry, held, room) {
                Ok(made) => made,
                Err(errno) => return Step::Ended(failure(errno), entry.more()),
            };
            let overhead = made.message.as_ref().map_or(0, Chosen::overhead);
            let value = match self.make_call((n, thread), entry, held, &made, resumed.take()) {
                Ok(Outcome::Done(value)) => value,
                Ok(Outcome::Block(block)) => return Step::Waits(*block),
                Ok(Outcome::Replaced | Outcome::Gone) => return Step::failed(Errno::EINVAL),
                Err(errno) => return Step::Ended(failure(errno), entry.more()),
            };
            // A socket at end of file does not consume the buffer; a file does.
            let used = chosen.filter(|_| value > 0 || !matches!(entry.op, RECVMSG | RECV));
            let flags = used.map_or(0, |buffer| {
                self.urings.use_buffer(n, entry.buffer);
                BUFFER | u32::from(buffer.id) << BUFFER_SHIFT
            });
            let result = match entry.new_slot() {
                0 => value as i32,
                slot => self.move_to_slot(n, process, value as i32, slot).unwrap_or_else(failure),
            };
            let at_end = chosen.is_some() && value <= overhead;
            if !entry.is_multishot() || at_end || result < 0 {
                return Step::Ended(result, flags | entry.more());
            }
            let more = Completion { user_data: entry.user_data, result, flags: flags | MORE };
            if !self.tell_more(n, more) {
                return Step::Ended(result, flags);
            }
        }
    }

    /// System call of a request; the buffer `room` replaces the request's own.
    fn call_of(
        &mut self,
        n: usize,
        entry: &SubmissionEntry,
        held: Held,
        room: Option<(u64, u32)>,
    ) -> Result<Made, Errno> {
        let streams = held.first.is_some_and(|file| !self.files.open(file).kind.has_position());
        let mut entry = entry.clone();
        let mut message = None;
        if entry.has_fixed_buffer() {
            let buffers = &self.urings.instances[n].buffers;
            let (start, len) = buffers.get(usize::from(entry.buffer)).ok_or(Errno::EFAULT)?;
            let end = entry.addr.checked_add(u64::from(entry.len)).ok_or(Errno::EFAULT)?;
            if entry.addr < *start || end > start + len {
                return Err(Errno::EFAULT);
            }
        }
        if let Some((addr, len)) = room {
            let mut wanted = entry.len;
            match entry.op {
                RECVMSG => {
                    let overhead = self.message_overhead(&entry)?;
                    message = Some(Chosen { addr, len, name_and_control: overhead });
                }
                READV => {
                    let mut vector = [0; 16];
                    if entry.len != 1 {
                        return Err(Errno::EINVAL);
                    }
                    self.read_submitted(&entry, entry.addr, &mut vector)?;
                    wanted = u32::from_ne_bytes(vector[8..12].try_into().expect("four bytes"));
                    entry.op = READ;
                }
                _ => {}
            }
            if entry.op != RECVMSG {
                (entry.addr, entry.len) = (addr, if wanted == 0 { len } else { wanted.min(len) });
            }
        }
        let (number, mut args) = match entry.op {
            SPLICE => (c::SYS_splice, [0; 6]),
            TEE => (c::SYS_tee, [0; 6]),
            _ => entry.call(streams).ok_or(Errno::EINVAL)?,
        };
        if held.first.is_some() && entry.flags & FIXED_FILE != 0 {
            args[0] = 0;
        }
        Ok(Made { number: number as u32, args, message })
    }
    /// Bytes that a multishot `recvmsg` reserves in each buffer for names and for control messages; `None`
    /// for other requests.
    fn message_overhead(&self, entry: &SubmissionEntry) -> Result<Option<(u32, u64)>, Errno> {
        if !entry.is_multishot() {
            return Ok(None);
        }
        let mut header = [0; 56];
        self.read_submitted(entry, entry.addr, &mut header)?;
        let name = u32::from_ne_bytes(header[8..12].try_into().expect("four bytes"));
        let control = u64::from_ne_bytes(header[40..48].try_into().expect("eight bytes"));
        Ok(Some((name, control)))
    }

    fn make_call(
        &mut self,
        (n, thread): (usize, ThreadKey),
        entry: &SubmissionEntry,
        held: Held,
        made: &Made,
        resumed: Option<Resumed>,
    ) -> SysResult {
        let process = self.threads[thread.0].process;
        let fd = if entry.flags & FIXED_FILE != 0 { 0 } else { entry.fd };
        let (number, args) = (made.number, made.args);
        // Requests wait even if the file is non-blocking.
        let quick = held.first.filter(|file| self.files.open(*file).is_nonblocking());
        if let Some(file) = quick {
            self.files.open(file).flags &= !c::O_NONBLOCK;
        }
        self.urings.reading = entry.snapshot.clone();
        self.urings.is_worker = matches!(made.number as i64, c::SYS_fallocate | c::SYS_ftruncate);
        let identity = self.urings.instances[n].personalities.get(&entry.personality).cloned();
        let own = identity.map(|as_whom| std::mem::replace(&mut self.process(process).credentials, as_whom));
        let former = self.caller.replace((thread, process));
        let outcome = self.with_file_at(process, fd, held.first, |host| {
            let mut call = Call { host, thread, process, number, args, resumed, staged: None };
            match (entry.op, held.first, held.second, made.message.as_ref()) {
                (SPLICE, Some(output), Some(input), _) => {
                    let at = |offset: u64| (offset != u64::MAX).then_some(offset);
                    let flags = entry.op_flags & i32::MAX as u32;
                    let offsets = (at(entry.addr), at(entry.off));
                    transfer::splice(&mut call, (input, output), offsets, (entry.len, flags))
                }
                (TEE, Some(output), Some(input), _) => {
                    transfer::tee(&mut call, (input, output), entry.len, entry.op_flags & i32::MAX as u32)
                }
                (_, _, _, Some(chosen)) => receive_chosen(&mut call, chosen),
                _ => table::dispatch(&mut call),
            }
        });
        self.caller = former;
        (self.urings.reading, self.urings.is_worker) = (None, false);
        if let Some(own) = own {
            self.process(process).credentials = own;
        }
        if let Some(file) = quick {
            self.files.open(file).flags |= c::O_NONBLOCK;
        }
        self.carry_out_effects();
        outcome
    }

    /// Runs `run` with `file` installed at descriptor `fd`.
    fn with_file_at<T>(
        &mut self,
        process: ProcessKey,
        fd: i32,
        file: Option<FileKey>,
        run: impl FnOnce(&mut Host) -> T,
    ) -> T {
        let table = self.processes[process.0].fds;
        let (Some(table), Some(file), Ok(fd)) = (table, file, usize::try_from(fd)) else { return run(self) };
        let entries = &mut self.files.tables[table.0].entries;
        if entries.len() <= fd {
            entries.resize(fd + 1, None);
        }
        let before = entries[fd];
        if before.is_some_and(|entry| entry.file == file) {
            return run(self);
        }
        entries[fd] = Some(FdEntry { file, close_on_exec: false });
        let result = run(self);
        self.files.tables[table.0].entries[fd] = before;
        result
    }
}
