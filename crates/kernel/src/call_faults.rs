//! System calls whose results a fault of the experiment changes. A result is given only where Linux may give it for that call, object
//! and state; hosts without such faults pass one test of a pointer.
//!
//! - Short transfers: streams with more to read, and streams and pipes that do not block with room for a part. What is left is
//!   announced to waiters again, as if it had arrived later.
//! - `EINTR`, or the part that was moved: calls that wait, at their first wait, of processes with a handler that would interrupt
//!   them.
//! - `EAGAIN`: datagrams (whose checksum may be wrong), connections that are gone before `accept(2)`, writes to sockets and pipes
//!   without room.
//! - `ECONNRESET`, `ETIMEDOUT`: the connection is broken, and the call finds it so.

use crate::call::Call;
use crate::files::disk_faults::stream;
use crate::guest::total_len;
use crate::host::Host;
use crate::ids::{FileKey, ProcessKey, SocketKey, ThreadKey};
use crate::memory;
use crate::outcome::{Block, IfInterrupted, Outcome, Resumed, SysResult, done};
use crate::run::interrupted_result;
use belljar_linux_abi::signal::sig_bit;
use belljar_linux_abi::socket::MsgHdr;
use belljar_linux_abi::{Errno, c};
use belljar_machine::{CallFault, CallResult, FAULTY_CALLS};
use belljar_netstack::readiness::{READABLE, WRITABLE};
use belljar_netstack::socket::SocketKind;
use belljar_netstack::tcp::{ConnectionEnd, break_connection};
use belljar_objects::call_faults::{LoggedResult, PURPOSES};
use belljar_objects::file_kind::FileKind;

/// `PIPE_BUF`: writes of so many bytes to a pipe are atomic.
const PIPE_BUF: u64 = 4_096;
/// Signals whose handlers run where the program fails, and those of the C library's threads.
const NOT_SENT: [i32; 7] = [c::SIGILL, c::SIGTRAP, c::SIGBUS, c::SIGFPE, c::SIGSEGV, 32, 33];
/// Calls that move bytes, by what they do.
const READS: [i64; 4] = [c::SYS_read, c::SYS_readv, c::SYS_recvfrom, c::SYS_recvmsg];
const WRITES: [i64; 4] = [c::SYS_write, c::SYS_writev, c::SYS_sendto, c::SYS_sendmsg];

/// Lets results of a host's calls change, from an event on.
pub fn begin(host: &mut Host, event: u32, fault: CallFault) {
    let now = host.net.clock.now();
    let draw = stream(host, "call fault", now, &PURPOSES);
    host.call_faults.get_or_insert_default().begin(event, fault, now, draw);
}

/// Ends the change of an event.
pub fn end(host: &mut Host, event: u32) {
    host.call_faults.iter_mut().for_each(|faults| faults.end(event));
}

/// Results that calls of a host were given so far.
pub fn log(host: &Host) -> &[LoggedResult] {
    host.call_faults.as_ref().map_or(&[], |faults| &faults.log)
}

/// Makes or continues a call whose result may change.
#[cold]
#[inline(never)]
pub(crate) fn dispatch(
    host: &mut Host,
    thread: ThreadKey,
    (number, args): (u32, [u64; 6]),
    resumed: Option<Resumed>,
) -> SysResult {
    let is_fresh = resumed.is_none();
    if is_fresh
        && host.memory.is_some()
        && let Some(result) = memory::enforce(host, thread, (number, args))
    {
        return result;
    }
    let is_idle = host.call_faults.as_ref().is_none_or(|faults| faults.is_idle());
    if !is_fresh || is_idle || !FAULTY_CALLS.iter().any(|(_, known)| *known == number) {
        return host.dispatch(thread, number, args, resumed);
    }
    let mut call = Faulty { host, thread, number, args };
    let Some(result) = call.begin() else {
        let Faulty { host, .. } = call;
        let outcome = host.dispatch(thread, number, args, resumed)?;
        let Outcome::Block(block) = outcome else { return Ok(outcome) };
        return interrupt(host, thread, number, block);
    };
    call.give(result)
}

/// Interrupts a call that waits for the first time, if a handler would and a fault says so.
fn interrupt(host: &mut Host, thread: ThreadKey, number: u32, block: Box<Block>) -> SysResult {
    let how = block.if_interrupted;
    let process = host.threads[thread.0].process;
    let blocked = host.threads[thread.0].signals.blocked;
    let signals = &host.processes[process.0].signals;
    let mut handlers = (1..c::SIGRTMAX()).filter(|signal| {
        signals.catches(*signal) && !NOT_SENT.contains(signal) && blocked & sig_bit(*signal) == 0
    });
    let ends = match how {
        IfInterrupted::Eintr | IfInterrupted::RestartNoHandler | IfInterrupted::Value(_) => {
            handlers.next().is_some()
        }
        IfInterrupted::Restart => {
            handlers.any(|signal| signals.action(signal).flags & c::SA_RESTART as u64 == 0)
        }
        IfInterrupted::RestartAlways | IfInterrupted::Killable => false,
    };
    let (pid, now) = (host.processes[process.0].pid, host.net.clock.now());
    let chosen = host.call_faults.as_deref_mut().and_then(|faults| {
        faults.choose(now, pid, number, &mut |result| ends && result == CallResult::Interrupted)
    });
    if chosen.is_none() {
        return Ok(Outcome::Block(block));
    }
    host.threads[thread.0].signals.awaited = 0;
    host.futexes.futex_wait_ended(thread, &block.state);
    let _ = host.store_remaining_time(thread, &block.state);
    if matches!(how, IfInterrupted::Value(_)) {
        host.clear_message_name(thread, &block.state);
    }
    match interrupted_result(how, false) {
        Some(value) if value != Errno::EINTR.as_return() => done(value),
        _ => Err(Errno::EINTR),
    }
}

/// Call at its beginning.
struct Faulty<'a> {
    host: &'a mut Host,
    thread: ThreadKey,
    number: u32,
    args: [u64; 6],
}

/// Transfer of a call.
struct Transfer {
    file: FileKey,
    /// Bytes asked for.
    len: u64,
    /// Flags of `send(2)` and `recv(2)`, with `MSG_DONTWAIT` if the file does not block.
    flags: i32,
    writes: bool,
}

impl Faulty<'_> {
    fn process(&self) -> ProcessKey {
        self.host.threads[self.thread.0].process
    }
    fn is_one_of(&self, calls: &[i64]) -> bool {
        calls.contains(&i64::from(self.number))
    }

    /// Counts the call and chooses its result.
    fn begin(&mut self) -> Option<CallResult> {
        let pid = self.host.processes[self.process().0].pid;
        let number = self.number;
        let mut faults = self.host.call_faults.take()?;
        faults.count(pid, number);
        let now = self.host.net.clock.now();
        let transfer = self.transfer();
        let chosen = faults.choose(now, pid, number, &mut |result| self.allows(result, transfer.as_ref()));
        self.host.call_faults = Some(faults);
        chosen
    }

    /// The transfer of the call, if it is one.
    fn transfer(&mut self) -> Option<Transfer> {
        let writes = self.is_one_of(&WRITES);
        if !writes && !self.is_one_of(&READS) {
            return None;
        }
        let (process, args) = (self.process(), self.args);
        let file = self.host.file_of(process, args[0] as i32).ok()?;
        let (thread, number) = (self.thread, self.number);
        let call = Call { host: self.host, thread, process, number, args, resumed: None, staged: None };
        let (len, mut flags) = match i64::from(number) {
            c::SYS_readv | c::SYS_writev => (total_len(&call.read_iovecs(args[1], args[2]).ok()?), 0),
            c::SYS_recvmsg | c::SYS_sendmsg => {
                let header: MsgHdr = call.read(args[1]).ok()?;
                (total_len(&call.read_iovecs(header.iov, header.iovlen).ok()?), args[2] as i32)
            }
            c::SYS_recvfrom | c::SYS_sendto => (args[2], args[3] as i32),
            _ => (args[2], 0),
        };
        if call.host.files.open(file).is_nonblocking() {
            flags |= c::MSG_DONTWAIT;
        }
        Some(Transfer { file, len, flags, writes })
    }

    /// True if Linux may give this result to the call now. Interruptions come later, when the call waits.
    fn allows(&mut self, result: CallResult, transfer: Option<&Transfer>) -> bool {
        match result {
            CallResult::Interrupted => false,
            CallResult::Short => transfer.is_some_and(|transfer| self.part_of(transfer).is_some()),
            CallResult::Again => self.may_be_too_early(transfer),
            CallResult::NoMemory => match i64::from(self.number) {
                c::SYS_mmap => self.args[3] as i32 & c::MAP_ANONYMOUS != 0,
                c::SYS_mremap => self.args[2] > self.args[1],
                _ => true,
            },
            CallResult::ProcessFiles | CallResult::SystemFiles => true,
            CallResult::Reset | CallResult::TimedOut => {
                transfer.is_some_and(|transfer| self.connection(transfer.file).is_some())
            }
        }
    }

    /// Bytes of a transfer of which Linux may move a part; `None` if it moves all or nothing.
    fn part_of(&mut self, transfer: &Transfer) -> Option<u64> {
        const WHOLE: i32 = c::MSG_PEEK | c::MSG_WAITALL | c::MSG_OOB | c::MSG_ERRQUEUE;
        let Transfer { file, len, flags, writes } = *transfer;
        if flags & WHOLE != 0 || writes && flags & c::MSG_DONTWAIT == 0 {
            return None;
        }
        let room = match self.host.files.open[file.0].kind.clone() {
            FileKind::Socket(socket) if self.host.socket(socket).is_stream() => match writes {
                true if self.host.socket_readiness(socket) & WRITABLE == 0 => 0,
                true => len,
                false => self.host.socket_readable_bytes(socket).ok()? as u64,
            },
            FileKind::PipeWriter(_) | FileKind::PipeBoth(_)
                if writes && len > PIPE_BUF && self.host.readiness(file) & WRITABLE != 0 =>
            {
                len
            }
            FileKind::PipeReader(pipe) | FileKind::PipeBoth(pipe) if !writes => {
                self.host.files.pipes[pipe.0].len() as u64
            }
            _ => 0,
        };
        Some(room.min(len)).filter(|part| *part > 1)
    }

    /// True if a call that does not wait may find nothing yet, although there seems to be something.
    fn may_be_too_early(&mut self, transfer: Option<&Transfer>) -> bool {
        let Some(Transfer { file, len, flags, writes }) = transfer else {
            let is_accept = self.is_one_of(&[c::SYS_accept, c::SYS_accept4]);
            let file = self.host.file_of(self.process(), self.args[0] as i32);
            return is_accept && file.is_ok_and(|file| self.host.files.open(file).is_nonblocking());
        };
        if flags & c::MSG_DONTWAIT == 0 || *len == 0 {
            return false;
        }
        match self.host.files.open[file.0].kind.clone() {
            FileKind::Socket(socket) if *writes => self.host.socket(socket).is_stream(),
            FileKind::Socket(socket) => matches!(self.host.socket(socket).kind, SocketKind::Udp(_)),
            FileKind::PipeWriter(_) | FileKind::PipeBoth(_) => *writes && *len > PIPE_BUF,
            _ => false,
        }
    }

    /// The TCP socket of a file, if its connection is established.
    fn connection(&mut self, file: FileKey) -> Option<SocketKey> {
        let FileKind::Socket(key) = self.host.files.open[file.0].kind else { return None };
        match &self.host.socket(key).kind {
            SocketKind::Tcp(tcp) if tcp.is_established() => Some(key),
            _ => None,
        }
    }

    /// Makes the call with its result.
    fn give(mut self, result: CallResult) -> SysResult {
        let transfer = self.transfer();
        let file = match &transfer {
            Some(transfer) => Some(transfer.file),
            None => self.host.file_of(self.process(), self.args[0] as i32).ok(),
        };
        match result {
            CallResult::Short => {
                let part = transfer.as_ref().and_then(|transfer| self.part_of(transfer));
                let pid = self.host.processes[self.process().0].pid;
                let number = self.number;
                let most = self.host.call_faults.as_ref().zip(part);
                let most = most.map_or(u64::MAX, |(faults, part)| faults.short_length(pid, number, part));
                self.with_at_most(most, file)
            }
            CallResult::Again => {
                self.announce(file);
                Err(Errno::EAGAIN)
            }
            CallResult::Reset | CallResult::TimedOut => {
                let end =
                    if result == CallResult::Reset { ConnectionEnd::Reset } else { ConnectionEnd::TimedOut };
                if let Some(key) = file.and_then(|file| self.connection(file)) {
                    let stack = self.host.stack_of_mut(key);
                    break_connection(stack, key, end);
                    stack.flush_network();
                    self.host.carry_out_effects();
                }
                let Faulty { host, thread, number, args } = self;
                host.dispatch(thread, number, args, None)
            }
            other => Err(other.errno().unwrap_or(Errno::EIO)),
        }
    }

    /// Makes the call, which moves at most so many bytes, and announces the rest.
    fn with_at_most(mut self, most: u64, file: Option<FileKey>) -> SysResult {
        let mut args = self.args;
        if self.is_one_of(&[c::SYS_read, c::SYS_write, c::SYS_recvfrom, c::SYS_sendto]) {
            args[2] = args[2].min(most);
        }
        self.host.call_faults.iter_mut().for_each(|faults| faults.most = most);
        let outcome = self.host.dispatch(self.thread, self.number, args, None);
        self.host.call_faults.iter_mut().for_each(|faults| faults.most = u64::MAX);
        self.announce(file);
        outcome
    }

    /// Wakes what waits for the file, as if its state had just changed.
    fn announce(&mut self, file: Option<FileKey>) {
        let queue = file
            .filter(|file| self.host.files.open.contains(file.0))
            .and_then(|file| self.host.wait_queue(file));
        if let Some(queue) = queue {
            self.host.notify_events(queue, READABLE | WRITABLE);
        }
    }
}
