//! Sending and receiving: `sendto`, `recvfrom`, `sendmsg`, `recvmsg`, `sendmmsg`, `recvmmsg`, and reads and
//! writes of sockets. An attempt that cannot complete becomes a blocked call here.

use super::interrupted_receive::clearing_name;
use super::socket::{Target, read_address, write_address};
use crate::call::Call;
use crate::guest::{GuestBuffers, total_len};
use crate::ids::{FileKey, SocketKey, WaitQueueId};
use crate::net::message::{Attempt, ControlMessage, Incoming, OutgoingMessage, ReceivedMessage};
use crate::net::operations;
use crate::outcome::{Block, CallState, IfInterrupted, NameOutput, Outcome, SysResult, done};
use belljar_base::{SimDuration, SimTime};
use belljar_linux_abi::socket::{CmsgHdr, MMSG_LEN, MMSGHDR_SIZE, MsgHdr, TimePair};
use belljar_linux_abi::{Errno, c};
use belljar_netstack::socket::SocketKind;
use zerocopy::{FromBytes, IntoBytes};

/// `UIO_MAXIOV`.
const IOV_MAX: u64 = 1_024;
/// `sizeof(struct sockaddr_storage)`.
const SOCKADDR_MAX: i32 = 128;
/// Maximum length of a message's control data in bytes, about that of `net.core.optmem_max`.
const CONTROL_MAX: u64 = 131_072;

/// Deadline stored in the state of a blocked socket call.
fn deadline_of(state: &CallState) -> Option<SimTime> {
    match state {
        CallState::Deadline(at)
        | CallState::ProgressUntil(_, at)
        | CallState::ReceivingUntil(_, at, _)
        | CallState::Messages(_, _, at) => *at,
        _ => None,
    }
}

/// Blocks a call that has made no progress until `queue` is notified. After the socket's time-out the call
/// fails with `too_late`.
pub(super) fn wait(
    call: &mut Call<'_>,
    queue: WaitQueueId,
    timeout: Option<SimDuration>,
    too_late: Errno,
    state: fn(Option<SimTime>) -> CallState,
) -> SysResult {
    if call.deadline_passed() {
        return Err(too_late);
    }
    let deadline = match &call.resumed {
        Some(resumed) => deadline_of(&resumed.state),
        None => timeout.map(|timeout| call.after(timeout)),
    };
    Block::on(queue)
        .with_deadline(deadline)
        .with_state(state(deadline))
        .interrupted(interruption(0, timeout))
        .into()
}

/// Effect of a signal on a blocked socket call, signal(7): with progress the call returns it; without, it is
/// restarted unless a time-out is set.
fn interruption(progress: u64, timeout: Option<SimDuration>) -> IfInterrupted {
    match (progress, timeout) {
        (0, None) => IfInterrupted::Restart,
        (0, Some(_)) => IfInterrupted::Eintr,
        (n, _) => IfInterrupted::Value(n),
    }
}

/// Blocks a call that has transferred `progress` bytes; after the time-out it returns them, or `EAGAIN` if
/// none.
fn wait_with_progress(
    call: &mut Call<'_>,
    queue: WaitQueueId,
    timeout: Option<SimDuration>,
    progress: usize,
    earlier: &CallState,
) -> SysResult {
    let progress = progress as u64;
    if call.deadline_passed() {
        return if progress > 0 { done(progress) } else { Err(Errno::EAGAIN) };
    }
    let deadline = match call.resumed {
        Some(_) => deadline_of(earlier),
        None => timeout.map(|timeout| call.after(timeout)),
    };
    Block::on(queue)
        .with_deadline(deadline)
        .with_state(CallState::ProgressUntil(progress, deadline))
        .interrupted(interruption(progress, timeout))
        .into()
}

fn progress_of(state: &CallState) -> usize {
    match state {
        CallState::ProgressUntil(n, _) | CallState::ReceivingUntil(n, ..) => *n as usize,
        _ => 0,
    }
}

/// Sends as much of `message` from offset `*sent` as possible without waiting.
#[inline(always)]
fn send_on(
    call: &mut Call<'_>,
    key: SocketKey,
    message: &OutgoingMessage,
    sent: &mut usize,
) -> Result<Attempt<usize>, Errno> {
    loop {
        match operations::send(call, key, message, *sent) {
            Ok(Attempt::Done(n)) => {
                *sent += n;
                if *sent >= message.len || !call.host.socket(key).is_stream() {
                    return Ok(Attempt::Done(*sent));
                }
            }
            Ok(Attempt::Wait(queue)) => return Ok(Attempt::Wait(queue)),
            Err(_) if *sent > 0 => return Ok(Attempt::Done(*sent)),
            Err(errno) => {
                if errno == Errno::EPIPE
                    && message.flags & c::MSG_NOSIGNAL == 0
                    && call.host.socket(key).is_stream()
                {
                    call.raise_sigpipe();
                }
                return Err(errno);
            }
        }
    }
}

/// Adds `MSG_DONTWAIT` to a call's flags for a non-blocking descriptor.
fn flags_of_call(flags: i32, nonblocking: bool) -> i32 {
    if nonblocking { flags | c::MSG_DONTWAIT } else { flags }
}

/// Sends one message; blocks unless `MSG_DONTWAIT` is set, at most for the socket's time-out.
fn send_message(call: &mut Call<'_>, key: SocketKey, message: &OutgoingMessage) -> SysResult {
    let state = call.take_state();
    let mut sent = progress_of(&state);
    match send_on(call, key, message, &mut sent)? {
        Attempt::Done(n) => done(n as u64),
        Attempt::Wait(queue) => {
            if message.flags & c::MSG_DONTWAIT != 0 {
                return if sent > 0 { done(sent as u64) } else { Err(Errno::EAGAIN) };
            }
            let timeout = call.host.socket(key).options.send_timeout;
            wait_with_progress(call, queue, timeout, sent, &state)
        }
    }
}

/// Receives until data has arrived or, with `MSG_WAITALL` on a stream, until `room` is full. `*got` counts
/// bytes stored by this and earlier attempts.
#[inline(always)]
fn receive_on(
    call: &mut Call<'_>,
    key: SocketKey,
    room: &Incoming,
    got: &mut usize,
) -> Result<Attempt<ReceivedMessage>, Errno> {
    let all = room.flags & c::MSG_WAITALL != 0
        && room.flags & (c::MSG_PEEK | c::MSG_DONTWAIT) == 0
        && call.host.socket(key).is_stream();
    loop {
        match operations::receive(call, key, room, *got) {
            Ok(Attempt::Done(mut received)) => {
                let end_of_file = received.value == 0;
                received.value += if all { *got } else { 0 };
                *got = received.value;
                let brought = received.control.iter().any(|message| message.type_ == c::SCM_RIGHTS);
                if !all || end_of_file || brought || received.value >= room.len {
                    return Ok(Attempt::Done(received));
                }
            }
            Ok(Attempt::Wait(queue)) => return Ok(Attempt::Wait(queue)),
            Err(_) if *got > 0 => {
                return Ok(Attempt::Done(ReceivedMessage { value: *got, ..ReceivedMessage::default() }));
            }
            Err(errno) => return Err(errno),
        }
    }
}

/// Result of a receive call: a message, or an outcome to return.
enum Receipt {
    Message(ReceivedMessage),
    Ended(Outcome),
}

/// Receives one message; blocks unless `MSG_DONTWAIT` is set, at most for the socket's time-out.
#[inline(always)]
fn receive_message(
    call: &mut Call<'_>,
    key: SocketKey,
    nonblocking: bool,
    room: &Incoming,
) -> Result<Receipt, Errno> {
    let state = call.take_state();
    let mut got = progress_of(&state);
    let flagged;
    let room = if nonblocking && room.flags & c::MSG_DONTWAIT == 0 {
        flagged = Incoming { flags: room.flags | c::MSG_DONTWAIT, ..room.clone() };
        &flagged
    } else {
        room
    };
    match receive_on(call, key, room, &mut got)? {
        Attempt::Done(received) => Ok(Receipt::Message(received)),
        Attempt::Wait(queue) => {
            if room.flags & c::MSG_DONTWAIT != 0 {
                return match got {
                    0 => Err(Errno::EAGAIN),
                    n => Ok(Receipt::Message(ReceivedMessage { value: n, ..ReceivedMessage::default() })),
                };
            }
            let timeout = call.host.socket(key).options.receive_timeout;
            // A TCP receive of 0 bytes returns 0 however the wait ends (`tcp_recvmsg_locked`).
            let nothing = room.len == 0 && matches!(call.host.socket(key).kind, SocketKind::Tcp(_));
            if nothing && call.deadline_passed() {
                return Ok(Receipt::Message(ReceivedMessage::default()));
            }
            match wait_with_progress(call, queue, timeout, got, &state)? {
                Outcome::Block(block) if nothing => block.interrupted(IfInterrupted::Value(0)).into(),
                outcome => Ok(outcome),
            }
            .map(Receipt::Ended)
        }
    }
}

/// `read(2)` and `readv(2)` on a socket.
pub fn read_socket(call: &mut Call<'_>, file: FileKey, key: SocketKey, buffers: &GuestBuffers) -> SysResult {
    let len = total_len(buffers) as usize;
    if len == 0 {
        return done(0);
    }
    let nonblocking = call.host.files.open(file).is_nonblocking();
    let room = Incoming { buffers: buffers.clone(), len, ..Incoming::default() };
    match receive_message(call, key, nonblocking, &room)? {
        Receipt::Message(received) => done(received.value as u64),
        Receipt::Ended(outcome) => Ok(outcome),
    }
}

/// `write(2)` and `writev(2)` on a socket.
pub fn write_socket(call: &mut Call<'_>, file: FileKey, key: SocketKey, buffers: &GuestBuffers) -> SysResult {
    let nonblocking = call.host.files.open(file).is_nonblocking();
    let len = total_len(buffers) as usize;
    let flags = flags_of_call(0, nonblocking);
    let message = OutgoingMessage { buffers: buffers.clone(), len, flags, ..OutgoingMessage::default() };
    send_message(call, key, &message)
}

/// `sendto(2)`; also implements `send(2)`.
pub fn sys_sendto(call: &mut Call<'_>) -> SysResult {
    let target = Target::of(call)?;
    let buffers = Call::one_buffer(call.args[1], call.args[2]);
    let len = total_len(&buffers) as usize;
    let name = match call.args[4] {
        0 => None,
        addr => Some(read_address(call, addr, call.int(5))?),
    };
    let flags = flags_of_call(call.int(3), target.nonblocking);
    let message = OutgoingMessage { buffers, len, flags, name, ..OutgoingMessage::default() };
    send_message(call, target.key, &message)
}

/// `recvfrom(2)`; also implements `recv(2)`.
pub fn sys_recvfrom(call: &mut Call<'_>) -> SysResult {
    let target = Target::of(call)?;
    let buffers = Call::one_buffer(call.args[1], call.args[2]);
    let len = total_len(&buffers) as usize;
    let want_name = call.args[4] != 0;
    let room = Incoming { buffers, len, flags: call.int(3), want_name, control_room: 0 };
    match receive_message(call, target.key, target.nonblocking, &room)? {
        Receipt::Message(received) => {
            if want_name {
                write_address(call, call.args[4], call.args[5], &received.name)?;
            }
            done(received.value as u64)
        }
        Receipt::Ended(outcome) if want_name => Ok(clearing_name(outcome, NameOutput::Length(call.args[5]))),
        Receipt::Ended(outcome) => Ok(outcome),
    }
}

/// Reads a `struct msghdr` and its buffer vector.
fn read_header(call: &Call<'_>, addr: u64) -> Result<(MsgHdr, GuestBuffers), Errno> {
    let header: MsgHdr = call.read(addr)?;
    if header.name != 0 && header.namelen < 0 {
        return Err(Errno::EINVAL);
    }
    if header.iovlen > IOV_MAX {
        return Err(Errno::EMSGSIZE);
    }
    let buffers = call.read_iovecs(header.iov, header.iovlen)?;
    Ok((header, buffers))
}

fn read_outgoing(call: &Call<'_>, addr: u64, flags: i32) -> Result<OutgoingMessage, Errno> {
    let (header, buffers) = read_header(call, addr)?;
    let name = match header.name {
        0 => None,
        _ if header.namelen == 0 => None,
        name => Some(read_address(call, name, header.namelen.min(SOCKADDR_MAX))?),
    };
    let (control, control_broken) = read_control(call, header.control, header.controllen)?;
    Ok(OutgoingMessage { len: total_len(&buffers) as usize, buffers, flags, name, control, control_broken })
}

/// Parses the control messages of a `struct msghdr`, cmsg(3). The flag is true if one of invalid length
/// follows.
fn read_control(call: &Call<'_>, addr: u64, len: u64) -> Result<(Vec<ControlMessage>, bool), Errno> {
    const HEADER: usize = size_of::<CmsgHdr>();
    if len > CONTROL_MAX {
        return Err(Errno::ENOBUFS);
    }
    let mut messages = Vec::new();
    if len == 0 || addr == 0 {
        return Ok((messages, false));
    }
    let bytes = call.read_vec(addr, len as usize)?;
    let mut rest = &bytes[..];
    while let Ok((header, _)) = CmsgHdr::read_from_prefix(rest) {
        let len = header.len as usize;
        if len < HEADER || len > rest.len() {
            return Ok((messages, true));
        }
        let data = rest[HEADER..len].to_vec();
        messages.push(ControlMessage { level: header.level, type_: header.type_, data });
        rest = &rest[len.next_multiple_of(8).min(rest.len())..];
    }
    Ok((messages, false))
}

/// Stores the control messages that fit. Returns the number of bytes used, and `MSG_CTRUNC` if the data was
/// truncated.
fn write_control(
    call: &mut Call<'_>,
    addr: u64,
    room: u64,
    messages: &[ControlMessage],
) -> Result<(u64, i32), Errno> {
    let mut used = 0;
    for message in messages {
        let mut header = CmsgHdr {
            len: (size_of::<CmsgHdr>() + message.data.len()) as u64,
            level: message.level,
            type_: message.type_,
        };
        let left = room - used;
        if addr == 0 || left < size_of::<CmsgHdr>() as u64 {
            return Ok((used, c::MSG_CTRUNC));
        }
        let cut = header.len > left;
        header.len = header.len.min(left);
        call.write_bytes(addr + used, header.as_bytes())?;
        let data = &message.data[..header.len as usize - size_of::<CmsgHdr>()];
        call.write_bytes(addr + used + size_of::<CmsgHdr>() as u64, data)?;
        used += header.len.next_multiple_of(8).min(left);
        if cut {
            return Ok((used, c::MSG_CTRUNC));
        }
    }
    Ok((used, 0))
}

fn read_incoming(call: &Call<'_>, addr: u64, flags: i32) -> Result<(MsgHdr, Incoming), Errno> {
    let (header, buffers) = read_header(call, addr)?;
    let room = Incoming {
        len: total_len(&buffers) as usize,
        buffers,
        flags,
        want_name: header.name != 0,
        control_room: if header.control == 0 { 0 } else { header.controllen as usize },
    };
    Ok((header, room))
}

/// Stores name, control messages and flags in the `struct msghdr` at `addr` after a receive.
fn write_header(
    call: &mut Call<'_>,
    addr: u64,
    header: &MsgHdr,
    received: &ReceivedMessage,
) -> Result<(), Errno> {
    if header.name != 0 {
        let room = (header.namelen as usize).min(received.name.len());
        call.write_bytes(header.name, &received.name[..room])?;
        call.write(addr + MsgHdr::NAMELEN, &(received.name.len() as i32))?;
    }
    let (used, truncated) = write_control(call, header.control, header.controllen, &received.control)?;
    call.write(addr + MsgHdr::CONTROLLEN, &used)?;
    call.write(addr + MsgHdr::FLAGS, &(received.flags | truncated))
}

/// `sendmsg(2)`.
pub fn sys_sendmsg(call: &mut Call<'_>) -> SysResult {
    let target = Target::of(call)?;
    let flags = flags_of_call(call.int(2), target.nonblocking);
    let message = read_outgoing(call, call.args[1], flags)?;
    send_message(call, target.key, &message)
}

/// `recvmsg(2)`.
pub fn sys_recvmsg(call: &mut Call<'_>) -> SysResult {
    let target = Target::of(call)?;
    let addr = call.args[1];
    let (header, room) = read_incoming(call, addr, call.int(2))?;
    match receive_message(call, target.key, target.nonblocking, &room)? {
        Receipt::Message(mut received) => {
            received.flags |= room.flags & c::MSG_CMSG_CLOEXEC;
            write_header(call, addr, &header, &received)?;
            done(received.value as u64)
        }
        Receipt::Ended(outcome) => {
            Ok(clearing_name(outcome, NameOutput::Header { addr, has_name: header.name != 0 }))
        }
    }
}

/// Provided buffer that io_uring has selected for a message.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Chosen {
    pub addr: u64,
    pub len: u32,
    /// For multishot requests: room in bytes for the name and for control messages. Both are stored in the
    /// buffer, between a `struct io_uring_recvmsg_out` and the payload; the `struct msghdr` is not modified.
    pub name_and_control: Option<(u32, u64)>,
}

/// `sizeof(struct io_uring_recvmsg_out)`.
const RECVMSG_OUT: u64 = 16;

impl Chosen {
    /// Bytes that precede the payload.
    pub(crate) fn overhead(&self) -> u64 {
        self.name_and_control.map_or(0, |(name, control)| RECVMSG_OUT + u64::from(name) + control)
    }
}

/// `recvmsg(2)` into a selected buffer.
pub(crate) fn receive_chosen(call: &mut Call<'_>, chosen: &Chosen) -> SysResult {
    let target = Target::of(call)?;
    let addr = call.args[1];
    let (mut header, mut room) = read_incoming(call, addr, call.int(2))?;
    let overhead = chosen.overhead();
    let left = u64::from(chosen.len).checked_sub(overhead).ok_or(Errno::EFAULT)?;
    let asked = room.len as u64;
    let len = if asked == 0 || overhead != 0 { left } else { left.min(asked) };
    if let Some((name, control)) = chosen.name_and_control {
        header.name = chosen.addr + RECVMSG_OUT;
        header.control = header.name + u64::from(name);
        header.controllen = control;
        (room.want_name, room.control_room) = (name != 0, control as usize);
    }
    (room.buffers, room.len) = (Call::one_buffer(chosen.addr + overhead, len), len as usize);
    match receive_message(call, target.key, target.nonblocking, &room)? {
        Receipt::Message(received) if chosen.name_and_control.is_none() => {
            write_header(call, addr, &header, &received)?;
            done(received.value as u64)
        }
        Receipt::Message(received) => {
            let name = (header.namelen as usize).min(received.name.len());
            call.write_bytes(header.name, &received.name[..name])?;
            let (used, cut) = write_control(call, header.control, header.controllen, &received.control)?;
            let value = received.value as u32;
            let flags = (received.flags | cut) as u32;
            call.write(chosen.addr, &[received.name.len() as u32, used as u32, value, flags])?;
            done(overhead + u64::from(value).min(len))
        }
        Receipt::Ended(outcome) => Ok(outcome),
    }
}

/// `send(2)` or `recv(2)` with buffers that io_uring has selected.
pub(crate) fn move_buffers(call: &mut Call<'_>, buffers: GuestBuffers, sends: bool) -> SysResult {
    let target = Target::of(call)?;
    let (len, flags) = (total_len(&buffers) as usize, call.int(3));
    if !sends {
        let room = Incoming { buffers, len, flags, ..Incoming::default() };
        return match receive_message(call, target.key, target.nonblocking, &room)? {
            Receipt::Message(received) => done(received.value as u64),
            Receipt::Ended(outcome) => Ok(outcome),
        };
    }
    let name = match call.args[4] {
        0 => None,
        addr => Some(read_address(call, addr, call.int(5))?),
    };
    let flags = flags_of_call(flags, target.nonblocking);
    send_message(
        call,
        target.key,
        &OutgoingMessage { buffers, len, flags, name, ..OutgoingMessage::default() },
    )
}

/// Progress of a call on a vector of messages: messages completed, and bytes of the current one.
fn messages_of(state: &CallState) -> (u32, usize) {
    match state {
        CallState::Messages(count, bytes, _) => (*count, *bytes as usize),
        _ => (0, 0),
    }
}

/// `sendmmsg(2)`: sends several messages; returns the number sent.
pub fn sys_sendmmsg(call: &mut Call<'_>) -> SysResult {
    let target = Target::of(call)?;
    let (vector, count) = (call.args[1], call.uint(2).min(IOV_MAX as u32));
    let flags = flags_of_call(call.int(3), target.nonblocking);
    let state = call.take_state();
    let (mut at, mut sent) = messages_of(&state);
    while at < count {
        let entry = vector + u64::from(at) * MMSGHDR_SIZE;
        let attempt = read_outgoing(call, entry, flags)
            .and_then(|message| send_on(call, target.key, &message, &mut sent));
        match attempt {
            Ok(Attempt::Done(n)) => call.write(entry + MMSG_LEN, &(n as u32))?,
            Err(_) if at > 0 => break,
            Err(errno) => return Err(errno),
            Ok(Attempt::Wait(queue)) => {
                if flags & c::MSG_DONTWAIT != 0 || call.deadline_passed() {
                    return if at > 0 { done(u64::from(at)) } else { Err(Errno::EAGAIN) };
                }
                let timeout = call.host.socket(target.key).options.send_timeout;
                return wait_for_messages(call, queue, timeout, (at, sent), &state);
            }
        }
        (at, sent) = (at + 1, 0);
    }
    done(u64::from(at))
}

fn wait_for_messages(
    call: &mut Call<'_>,
    queue: WaitQueueId,
    timeout: Option<SimDuration>,
    (at, bytes): (u32, usize),
    earlier: &CallState,
) -> SysResult {
    let deadline = match call.resumed {
        Some(_) => deadline_of(earlier),
        None => timeout.map(|timeout| call.after(timeout)),
    };
    Block::on(queue)
        .with_deadline(deadline)
        .with_state(CallState::Messages(at, bytes as u64, deadline))
        .interrupted(interruption(u64::from(at), timeout))
        .into()
}

/// `recvmmsg(2)`: receives several messages until the time-out has expired.
pub fn sys_recvmmsg(call: &mut Call<'_>) -> SysResult {
    let target = Target::of(call)?;
    let (vector, count, mut flags) = (call.args[1], call.uint(2).min(IOV_MAX as u32), call.int(3));
    let state = call.take_state();
    let (mut at, mut got) = messages_of(&state);
    let limit = match call.args[4] {
        0 => None,
        addr => Some(read_timeout(call, addr)?),
    };
    // As on Linux the time-out is checked only after each datagram (recvmmsg(2), BUGS). The state holds the
    // deadline of the whole call instead of the socket's time-out.
    let started_deadline = match call.resumed {
        Some(_) => deadline_of(&state),
        None => limit.map(|limit| call.after(limit)),
    };
    while at < count {
        if at > 0 && flags & c::MSG_WAITFORONE != 0 {
            flags |= c::MSG_DONTWAIT;
        }
        let entry = vector + u64::from(at) * MMSGHDR_SIZE;
        let attempt = read_incoming(call, entry, flags & !c::MSG_WAITFORONE).and_then(|(header, room)| {
            receive_on(call, target.key, &room, &mut got).map(|attempt| (header, attempt))
        });
        match attempt {
            Ok((header, Attempt::Done(received))) => {
                write_header(call, entry, &header, &received)?;
                call.write(entry + MMSG_LEN, &(received.value as u32))?;
            }
            Err(_) if at > 0 => break,
            Err(errno) => return Err(errno),
            Ok((_, Attempt::Wait(queue))) => {
                if target.nonblocking || flags & c::MSG_DONTWAIT != 0 || call.deadline_passed() {
                    return if at > 0 { done(u64::from(at)) } else { Err(Errno::EAGAIN) };
                }
                let block = Block::on(queue)
                    .with_state(CallState::Messages(at, got as u64, started_deadline))
                    .interrupted(interruption(u64::from(at), None));
                let timeout = call.host.socket(target.key).options.receive_timeout;
                return block.with_deadline(timeout.map(|timeout| call.after(timeout))).into();
            }
        }
        (at, got) = (at + 1, 0);
        if let Some(deadline) = started_deadline {
            let left = deadline.since(call.now());
            let nanos = left.as_nanos() as i64;
            let pair = TimePair { secs: nanos / 1_000_000_000, fraction: nanos % 1_000_000_000 };
            call.write(call.args[4], &pair)?;
            if left.is_zero() {
                break;
            }
        }
    }
    done(u64::from(at))
}

fn read_timeout(call: &Call<'_>, addr: u64) -> Result<SimDuration, Errno> {
    let time: TimePair = call.read(addr)?;
    if time.secs < 0 || !(0..1_000_000_000).contains(&time.fraction) {
        return Err(Errno::EINVAL);
    }
    Ok(SimDuration::from_secs(time.secs as u64) + SimDuration::from_nanos(time.fraction as u64))
}
