//! Sockets with a timeout (`SO_RCVTIMEO`, `SO_SNDTIMEO`).
//!
//! The kernel keeps a timeout as the guest has set it, in virtual time. A process that sets one gets an additional filter
//! ([`OF_TIMEOUTS`]), which intercepts the calls that the timeout limits. Such a call does not wait in the kernel: it is made
//! without waiting, and repeated when `ppoll` reports the socket. Unlike a receive with a timeout, the kernel restarts `ppoll`
//! after the host was frozen, and the wait ends at a virtual time, whatever the rate was meanwhile.
//!
//! Limits: `splice` and `sendfile` on such a socket, and processes that have a socket from another process (`SCM_RIGHTS`, or a
//! fork before the timeout was set) and set none themselves, use the timeout in real time.

use super::calls::{When, nr};
use super::clock::{Now, id};
use super::error;
use super::memory::{native, read, result, write};
use super::sockets;
use super::waits::{POLLIN, POLLOUT, Time, deadline, nanoseconds, timespec, wait_for_one};

/// Calls intercepted once a process has set a timeout.
pub const OF_TIMEOUTS: &[(u64, When)] = &[
    (nr::READ, When::Always),
    (nr::WRITE, When::Always),
    (nr::RECVFROM, When::Always),
    (nr::SENDTO, When::Always),
    (nr::RECVMSG, When::Always),
    (nr::SENDMSG, When::Always),
    (nr::READV, When::Always),
    (nr::WRITEV, When::Always),
    (nr::ACCEPT, When::Always),
    (nr::ACCEPT4, When::Always),
    (nr::CONNECT, When::Always),
    (nr::RECVMMSG, When::Always),
    (nr::SENDMMSG, When::Always),
];
/// Capacity of the filter for these calls.
pub const CAPACITY: usize = 128;

const SOL_SOCKET: u64 = 1;
const SO_TYPE: u64 = 3;
const SO_RCVTIMEO: u64 = 20;
const SO_SNDTIMEO: u64 = 21;
const SOCK_STREAM: u32 = 1;
const O_NONBLOCK: i64 = 0o4000;
const MSG_OOB: u64 = 1;
const MSG_PEEK: u64 = 2;
const MSG_DONTWAIT: u64 = 0x40;
const MSG_WAITALL: u64 = 0x100;
const MSG_ERRQUEUE: u64 = 0x2000;
const MSG_NOSIGNAL: u64 = 0x4000;
const MSG_WAITFORONE: u64 = 0x10000;
/// Pause in nanoseconds before a socket that was reported as ready is tried again.
const MOMENT: u64 = 200_000;
/// Number of buffers that a repeated call passes at once.
const BUFFERS: usize = 64;
/// Largest number of messages of `recvmmsg` and `sendmmsg`, and of buffers of a message.
const MOST: u64 = 1_024;

/// Direction of a transfer.
#[derive(Clone, Copy, PartialEq)]
enum Direction {
    In,
    Out,
}

use Direction::{In, Out};

impl Direction {
    fn option(self) -> u64 {
        if self == In { SO_RCVTIMEO } else { SO_SNDTIMEO }
    }
    fn events(self) -> u64 {
        if self == In { POLLIN } else { POLLOUT }
    }
}

fn socket_option(socket: u64, name: u64, value: *mut u8, mut len: u32) -> i64 {
    native(nr::GETSOCKOPT, [socket, SOL_SOCKET, name, value as u64, &raw mut len as u64, 0])
}

/// The timeout of a socket in virtual nanoseconds; `None` without one.
fn timeout(socket: u64, direction: Direction) -> Option<u64> {
    let mut time: Time = [0; 2];
    let done = socket_option(socket, direction.option(), time.as_mut_ptr().cast(), 16);
    let span = nanoseconds([time[0], time[1].saturating_mul(1_000)]).ok()?;
    (done == 0 && span > 0).then_some(span)
}

fn is_stream(socket: u64) -> bool {
    let mut kind = 0u32;
    socket_option(socket, SO_TYPE, (&raw mut kind).cast(), 4) == 0 && kind == SOCK_STREAM
}

fn never_waits(descriptor: u64) -> bool {
    const F_GETFL: u64 = 3;
    let flags = native(nr::FCNTL, [descriptor, F_GETFL, 0, 0, 0, 0]);
    flags < 0 || flags & O_NONBLOCK != 0
}

/// A `struct msghdr`: address and length of the peer's name, buffers and their number, control data and its length, flags.
type Header = [u64; 7];

/// The number of bytes in the buffers of a message.
fn total(header: &Header) -> Result<u64, i64> {
    let mut sum = 0u64;
    for n in 0..header[3].min(MOST) {
        let [_, len]: [u64; 2] = read(header[2] + 16 * n)?;
        sum = sum.saturating_add(len);
    }
    Ok(sum)
}

/// Sends or receives what follows the first `done` bytes of a message, without name and control data.
fn transfer_rest(
    direction: Direction,
    socket: u64,
    header: &Header,
    done: u64,
    flags: u64,
) -> Result<i64, i64> {
    let mut buffers = [[0u64; 2]; BUFFERS];
    let (mut count, mut skipped) = (0, done);
    for n in 0..header[3].min(MOST) {
        let [at, len]: [u64; 2] = read(header[2] + 16 * n)?;
        let skip = skipped.min(len);
        skipped -= skip;
        if let Some(buffer) = buffers.get_mut(count).filter(|_| len > skip) {
            *buffer = [at + skip, len - skip];
            count += 1;
        }
    }
    let rest: Header = [0, 0, buffers.as_mut_ptr() as u64, count as u64, 0, 0, 0];
    let number = if direction == In { nr::RECVMSG } else { nr::SENDMSG };
    Ok(native(number, [socket, rest.as_ptr() as u64, flags, 0, 0, 0]))
}

/// Transfers a message. `first` makes the call with additional flags; `header` describes its buffers for a repetition that
/// transfers the rest. A call that does not wait, or on a socket without a timeout, is the kernel's.
fn transfer(
    direction: Direction,
    socket: u64,
    header: &Header,
    flags: u64,
    mut first: impl FnMut(u64) -> i64,
) -> Result<i64, i64> {
    if flags & (MSG_DONTWAIT | MSG_ERRQUEUE | MSG_OOB) != 0 {
        return Ok(first(0));
    }
    let wants_all = direction == Out || flags & (MSG_WAITALL | MSG_PEEK) == MSG_WAITALL;
    let mut done = first(MSG_DONTWAIT);
    let waits = done == error::AGAIN || wants_all && done > 0 && (done as u64) < total(header)?;
    if !waits || never_waits(socket) || done > 0 && !is_stream(socket) {
        return Ok(done);
    }
    let end = timeout(socket, direction).map(deadline);
    // A message whose first part is transferred goes on where that ends, and reports its length whatever follows.
    loop {
        let mut sum = u64::try_from(done).unwrap_or(0);
        let more = match end {
            None if sum == 0 => return Ok(first(0)),
            None => transfer_rest(direction, socket, header, sum, flags | MSG_NOSIGNAL)?,
            Some(end) => {
                let error = match wait_for_one(socket, direction.events(), Some(end), None) {
                    0 => error::AGAIN,
                    other => other,
                };
                if error < 0 {
                    return Ok(if sum > 0 { done } else { error });
                }
                match sum {
                    0 => first(MSG_DONTWAIT),
                    _ => transfer_rest(direction, socket, header, sum, flags | MSG_DONTWAIT | MSG_NOSIGNAL)?,
                }
            }
        };
        match more {
            // Another thread was first, or the peer's queue is full, which `ppoll` does not know.
            error::AGAIN => {
                let moment = timespec(MOMENT);
                native(nr::CLOCK_NANOSLEEP, [id::MONOTONIC, 0, moment.as_ptr() as u64, 0, 0, 0]);
                continue;
            }
            // The end of the stream, or an error.
            ..=0 => return Ok(if sum > 0 { done } else { more }),
            _ => sum += more as u64,
        }
        done = sum as i64;
        if !wants_all || sum >= total(header)? || !is_stream(socket) {
            return Ok(done);
        }
    }
}

/// `recvmsg` or `sendmsg` of the message at `at`.
fn message(direction: Direction, socket: u64, at: u64, flags: u64) -> Result<i64, i64> {
    let number = if direction == In { nr::RECVMSG } else { nr::SENDMSG };
    transfer(direction, socket, &read(at)?, flags, |more| native(number, [socket, at, flags | more, 0, 0, 0]))
}

/// `read`, `recvfrom`, `write` and `sendto`.
fn buffer(number: u64, args: [u64; 6]) -> Result<i64, i64> {
    let [socket, at, len, flags, name, name_len] = args;
    let direction = if matches!(number, nr::READ | nr::RECVFROM) { In } else { Out };
    let is_plain = matches!(number, nr::READ | nr::WRITE);
    // An empty read returns at once.
    if is_plain && len == 0 {
        return Ok(native(number, args));
    }
    let [flags, name, name_len] = if is_plain { [0; 3] } else { [flags, name, name_len] };
    let mut one = [at, len];
    let header: Header = [0, 0, one.as_mut_ptr() as u64, 1, 0, 0, 0];
    let call = if direction == In { nr::RECVFROM } else { nr::SENDTO };
    let done = transfer(direction, socket, &header, flags, |more| {
        native(call, [socket, at, len, flags | more, name, name_len])
    })?;
    Ok(if is_plain && done == error::NOTSOCK { native(number, args) } else { done })
}

/// `readv` and `writev`.
fn buffers(number: u64, args: [u64; 6]) -> Result<i64, i64> {
    let [socket, at, count, ..] = args;
    let direction = if number == nr::READV { In } else { Out };
    let header: Header = [0, 0, at, count, 0, 0, 0];
    // The kernel itself judges the number of buffers, and an empty read returns at once.
    if count > MOST || total(&header)? == 0 {
        return Ok(native(number, args));
    }
    let call = if direction == In { nr::RECVMSG } else { nr::SENDMSG };
    let done = transfer(direction, socket, &header, 0, |more| {
        let mut header = header;
        native(call, [socket, header.as_mut_ptr() as u64, more, 0, 0, 0])
    })?;
    Ok(if done == error::NOTSOCK { native(number, args) } else { done })
}

/// `recvmmsg` and `sendmmsg`. The kernel, too, looks at the timeout of `recvmmsg` after each message only.
fn messages(number: u64, args: [u64; 6]) -> Result<i64, i64> {
    /// Size of `struct mmsghdr`: a `struct msghdr` and the number of bytes.
    const SIZE: u64 = 64;
    const LENGTH_AT: u64 = 56;
    let [socket, at, count, mut flags, limit, _] = args;
    let direction = if number == nr::RECVMMSG { In } else { Out };
    let end = match (direction, limit) {
        (Out, _) | (In, 0) => None,
        (In, limit) => Some(deadline(nanoseconds(read(limit)?)?)),
    };
    let mut moved = 0;
    let mut ended = Ok(());
    while moved < (count & 0xffff_ffff).min(MOST) {
        let header = at + SIZE * moved;
        let done = message(direction, socket, header, flags & !MSG_WAITFORONE)?;
        if done < 0 {
            ended = Err(done);
            break;
        }
        write(header + LENGTH_AT, done as u32)?;
        moved += 1;
        if direction == In {
            sockets::convert_stamps(header)?;
            if flags & MSG_WAITFORONE != 0 {
                flags |= MSG_DONTWAIT;
            }
        }
        if end.is_some_and(|end| Now::read().time >= end) {
            break;
        }
    }
    if let Some(end) = end {
        write(limit, timespec(end.saturating_sub(Now::read().time)))?;
    }
    if moved > 0 { Ok(moved as i64) } else { ended.map(|()| 0) }
}

/// `accept` and `accept4`.
fn accept(number: u64, args: [u64; 6]) -> i64 {
    let socket = args[0];
    let Some(span) = timeout(socket, In).filter(|_| !never_waits(socket)) else {
        return native(number, args);
    };
    let end = deadline(span);
    loop {
        match wait_for_one(socket, POLLIN, Some(end), None) {
            0 => return error::AGAIN,
            failed @ ..0 => return failed,
            // Another thread may accept the connection first.
            _ => match native(number, args) {
                error::AGAIN if Now::read().time < end => {}
                done => return done,
            },
        }
    }
}

/// `connect`. The kernel waits for its shortest timeout, a tick, and reports the connection as in progress.
fn connect(args: [u64; 6]) -> i64 {
    let socket = args[0];
    let Some(span) = timeout(socket, Out).filter(|_| !never_waits(socket) && is_stream(socket)) else {
        return native(nr::CONNECT, args);
    };
    let end = deadline(span);
    let set = |us: u64| {
        let time: Time = [us / 1_000_000, us % 1_000_000];
        native(nr::SETSOCKOPT, [socket, SOL_SOCKET, SO_SNDTIMEO, time.as_ptr() as u64, 16, 0]);
    };
    loop {
        set(1);
        let done = native(nr::CONNECT, args);
        set(span / 1_000);
        match done {
            // A listener of the Unix family whose queue is full: nothing reports room in it.
            error::AGAIN if Now::read().time < end => continue,
            error::INPROGRESS | error::INTR => {}
            _ => return done,
        }
        match wait_for_one(socket, POLLOUT, Some(end), None) {
            0 => return error::INPROGRESS,
            failed @ ..0 => return failed,
            // Reports how the attempt ended.
            _ => return native(nr::CONNECT, args),
        }
    }
}

/// Handles an intercepted call.
pub fn answer(number: u64, args: [u64; 6]) -> i64 {
    result(match number {
        nr::READ | nr::WRITE | nr::RECVFROM | nr::SENDTO => buffer(number, args),
        nr::READV | nr::WRITEV => buffers(number, args),
        nr::SENDMSG => message(Out, args[0], args[1], args[2]),
        nr::RECVMSG => message(In, args[0], args[1], args[2]).and_then(|done| {
            if done < 0 { Ok(done) } else { sockets::convert_stamps(args[1]).map(|()| done) }
        }),
        nr::RECVMMSG | nr::SENDMMSG => messages(number, args),
        nr::ACCEPT | nr::ACCEPT4 => Ok(accept(number, args)),
        _ => Ok(connect(args)),
    })
}
