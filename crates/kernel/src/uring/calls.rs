//! Requests that are system calls. The kernel makes the call, with a provided buffer if the request selects
//! one, and repeats it for multishot requests.

use super::{Step, commands, slots};
use crate::call::Call;
use crate::guest::GuestBuffers;
use crate::host::Host;
use crate::ids::{FileKey, ProcessKey, SocketKey, ThreadKey};
use crate::outcome::{Outcome, Resumed, SysResult};
use crate::syscall::socket_io::{Chosen, move_buffers, receive_chosen};
use crate::syscall::{table, transfer};
use belljar_linux_abi::{Errno, c};
use belljar_netstack::readiness::READABLE;
use belljar_netstack::socket::SocketKind;
use belljar_objects::file_kind::FileKind;
use belljar_objects::open_file::{FdEntry, OpenFile};
use belljar_uring::buffers::{Provided, Selection};
use belljar_uring::entry::{
    ACCEPT, CLOSE, FIXED_FILE, MORE, PIPE, READ, READ_MULTISHOT, READV, RECV, RECVMSG, SEND, SENDMSG, SPLICE,
    SubmissionEntry, TEE, URING_CMD, failure,
};
use belljar_uring::instance::Held;
use belljar_uring::memory::Completion;

/// `IORING_CQE_F_SOCK_NONEMPTY`.
const NONEMPTY: u32 = 4;
/// Completions after which a multishot receive lets other requests go on (`MULTISHOT_MAX_RETRY`).
const MOST_SHOTS: u32 = 32;

/// System call to be made for a request.
struct Made {
    number: u32,
    args: [u64; 6],
    area: Area,
}

/// Memory that a call uses instead of what its arguments name.
enum Area {
    None,
    /// Destination of a `recvmsg` with a provided buffer.
    Message(Chosen),
    /// Provided buffers of a `send` or `recv`.
    Buffers(GuestBuffers),
}

/// True if the socket is known to have more to receive or accept.
fn has_more(host: &mut Host, op: u8, key: SocketKey) -> bool {
    let socket = host.socket(key);
    let is_tcp = matches!(socket.kind, SocketKind::Tcp(_));
    match op {
        RECV | RECVMSG if is_tcp || socket.domain == c::AF_UNIX && socket.type_ == c::SOCK_STREAM => {
            host.socket_readable_bytes(key).is_ok_and(|bytes| bytes > 0)
        }
        ACCEPT if is_tcp => host.socket_readiness(key) & READABLE != 0,
        _ => false,
    }
}

impl Host {
    /// Makes or continues the system call of a request.
    pub(super) fn advance_call(
        &mut self,
        n: usize,
        entry: &mut SubmissionEntry,
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
        let file = held.first.map(|file| self.files.open[file.0].kind.clone());
        let is_regular = matches!(file, Some(FileKind::Regular(_) | FileKind::Directory { .. }));
        if entry.op == READ_MULTISHOT && is_regular {
            return Step::failed(Errno::EBADFD);
        }
        let socket = match file {
            Some(FileKind::Socket(key)) => Some(key),
            _ => None,
        };
        let polled = resumed.is_some();
        let mut shots = 0;
        loop {
            let queued = socket.filter(|_| entry.is_bundle() && entry.op == RECV);
            let queued = queued.and_then(|key| self.socket_readable_bytes(key).ok()).unwrap_or(0);
            let wanted = entry.wanted_buffers(queued as u64);
            let chosen = match entry.selects_buffer().then(|| self.select_buffers(n, entry.buffer, wanted)) {
                Some(Err(errno)) => return Step::failed(errno),
                chosen => chosen.and_then(Result::ok),
            };
            let made = match self.call_of(n, entry, held, chosen.as_ref()) {
                Ok(made) => made,
                Err(errno) => return Step::Ended(failure(errno), entry.more()),
            };
            let overhead = match &made.area {
                Area::Message(chosen) => chosen.overhead(),
                _ => 0,
            };
            let value = match self.make_call((n, thread), entry, held, &made, resumed.take()) {
                Ok(Outcome::Done(value)) => value,
                Ok(Outcome::Block(block)) => return Step::Waits(*block),
                Ok(Outcome::Replaced | Outcome::Gone) => return Step::failed(Errno::EINVAL),
                Err(errno) => return Step::Ended(failure(errno), entry.more()),
            };
            // A socket at end of file does not consume the buffer; a file does.
            let receives = matches!(entry.op, RECVMSG | RECV);
            let used = chosen.as_ref().filter(|_| value > 0 || !receives);
            let mut flags = used.map_or(0, |selection| {
                // Of a file that cannot be polled, a buffer is consumed as far as the request goes.
                let asked = if is_regular { u64::from(selection.buffers[0].len) } else { value };
                self.commit_buffers(n, entry.buffer, selection, asked)
            });
            if socket.is_some_and(|key| has_more(self, entry.op, key)) {
                flags |= NONEMPTY;
            }
            let result = match entry.new_slot() {
                0 => value as i32,
                _ if entry.op == PIPE => slots::move_pipe(self, n, entry).unwrap_or_else(failure),
                slot => self.move_to_slot(n, process, value as i32, slot).unwrap_or_else(failure),
            };
            let at_end = chosen.is_some() && value <= overhead;
            let at_limit = entry.count_received(value as u32);
            let empties = entry.is_bundle() && chosen.is_some_and(|selection| selection.empties);
            let repeats = entry.is_multishot() || entry.is_bundle() && entry.op == SEND && !polled;
            if !repeats || at_end || at_limit || empties || result < 0 {
                return Step::Ended(result, flags | entry.more());
            }
            let more = Completion::new(entry.user_data, result, flags | MORE);
            if !self.tell_more(n, more) {
                return Step::Ended(result, flags);
            }
            shots += 1;
            let capped = receives && entry.len > 0 && value >= u64::from(entry.len);
            if receives && flags & NONEMPTY != 0 && (shots == MOST_SHOTS || capped && entry.is_bundle()) {
                return Step::Yields;
            }
        }
    }

    /// System call of a request; `chosen` buffers replace the request's own.
    fn call_of(
        &mut self,
        n: usize,
        entry: &SubmissionEntry,
        held: Held,
        chosen: Option<&Selection>,
    ) -> Result<Made, Errno> {
        let streams = held.first.is_some_and(|file| !self.files.open(file).kind.has_position());
        let mut entry = entry.clone();
        let mut area = Area::None;
        if entry.has_fixed_buffer() {
            let buffer = self.urings.instances[n].buffers.get(usize::from(entry.buffer)).copied();
            let read = |addr: u64, out: &mut [u8]| self.read_submitted(&entry, addr, out);
            buffer.unwrap_or_default().check(&entry, read)?;
        }
        if let Some(chosen) = chosen {
            let Provided { addr, len, .. } = chosen.buffers[0];
            match entry.op {
                RECVMSG => {
                    let overhead = self.message_overhead(&entry)?;
                    area = Area::Message(Chosen { addr, len, name_and_control: overhead });
                }
                RECV | SEND | SENDMSG => {
                    let buffers = chosen.buffers.iter().map(|buffer| (buffer.addr, u64::from(buffer.len)));
                    area = Area::Buffers(buffers.collect());
                }
                READV => {
                    let mut vector = [0; 16];
                    if entry.len != 1 {
                        return Err(Errno::EINVAL);
                    }
                    self.read_submitted(&entry, entry.addr, &mut vector)?;
                    let wanted = u32::from_ne_bytes(vector[8..12].try_into().expect("four bytes"));
                    entry.op = READ;
                    (entry.addr, entry.len) = (addr, if wanted == 0 { len } else { wanted.min(len) });
                }
                _ => (entry.addr, entry.len) = (addr, len),
            }
        }
        let (number, mut args) = match entry.op {
            SPLICE => (c::SYS_splice, [0; 6]),
            TEE => (c::SYS_tee, [0; 6]),
            URING_CMD => (c::SYS_ioctl, [entry.fd as u64, 0, 0, 0, 0, 0]),
            _ => entry.call(streams).ok_or(Errno::EINVAL)?,
        };
        if held.first.is_some() && entry.flags & FIXED_FILE != 0 {
            args[0] = 0;
        }
        Ok(Made { number: number as u32, args, area })
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
            match (entry.op, held.first, held.second) {
                (SPLICE, Some(output), Some(input)) => {
                    let at = |offset: u64| (offset != u64::MAX).then_some(offset);
                    let flags = entry.op_flags & i32::MAX as u32;
                    let offsets = (at(entry.addr), at(entry.off));
                    transfer::splice(&mut call, (input, output), offsets, (entry.len, flags))
                }
                (TEE, Some(output), Some(input)) => {
                    transfer::tee(&mut call, (input, output), entry.len, entry.op_flags & i32::MAX as u32)
                }
                (URING_CMD, ..) => commands::run(&mut call, entry),
                _ => match &made.area {
                    Area::Message(chosen) => receive_chosen(&mut call, chosen),
                    Area::Buffers(buffers) => move_buffers(&mut call, buffers.clone(), entry.op != RECV),
                    Area::None if entry.sends_vector() => {
                        let buffers = call.read_iovecs(entry.addr, u64::from(entry.len))?;
                        move_buffers(&mut call, buffers, true)
                    }
                    Area::None => table::dispatch(&mut call),
                },
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
