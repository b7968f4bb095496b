//! Calls that wait. Each waits in the kernel for the real time left until its virtual deadline, and waits
//! again if the clock has not reached the deadline, because it was stopped or slowed meanwhile.

use super::calls::nr;
use super::clock::{self, Now, SECOND, id};
use super::error;
use super::memory::{native, read, result, write};
use super::signals::mask_of;

/// A `struct timespec` or `struct timeval`.
pub type Time = [u64; 2];

/// Flag of futex operations: the timeout is a wall-clock time.
const FUTEX_CLOCK_REALTIME: u64 = 256;
/// Largest number of descriptors of a `select` whose sets are saved, so that it can wait again.
const MOST_DESCRIPTORS: u64 = 1_024;

/// Nanoseconds as a `struct timespec`.
pub fn timespec(ns: u64) -> Time {
    [ns / SECOND, ns % SECOND]
}

/// A `struct timespec` as nanoseconds, saturating; `EINVAL` if it is invalid.
pub fn nanoseconds(time: Time) -> Result<u64, i64> {
    match time {
        [seconds, ns] if (seconds as i64) >= 0 && ns < SECOND => {
            Ok(seconds.saturating_mul(SECOND).saturating_add(ns))
        }
        _ => Err(error::INVAL),
    }
}

/// The virtual time at which a wait of `span` nanoseconds ends.
pub fn deadline(span: u64) -> u64 {
    Now::read().time.saturating_add(span)
}

/// Waits at most until `deadline`, a virtual `CLOCK_MONOTONIC`. `call` makes the native call with the
/// remaining real time; `expired` is its result at the timeout.
pub fn until(deadline: u64, expired: i64, mut call: impl FnMut(u64) -> i64) -> i64 {
    loop {
        let now = Now::read();
        let mut left = now.page.pace.real_span(deadline.saturating_sub(now.time));
        if now.page.nap != 0 {
            left = left.min(now.page.nap);
        }
        let got = call(left);
        // The same result may have another cause: then the real time has not passed.
        if got != expired
            || clock::monotonic() < now.real.saturating_add(left)
            || Now::read().time >= deadline
        {
            return got;
        }
    }
}

/// The time left until `deadline`, as Linux writes it back.
fn left(deadline: u64) -> u64 {
    deadline.saturating_sub(Now::read().time)
}

/// `nanosleep` and `clock_nanosleep`.
pub fn sleep(number: u64, args: [u64; 6]) -> i64 {
    const TIMER_ABSTIME: u64 = 1;
    let (clock, flags, request, rest) = match number {
        nr::NANOSLEEP => (id::MONOTONIC, 0, args[0], args[1]),
        _ => (args[0] & 0xffff_ffff, args[1], args[2], args[3]),
    };
    result((|| {
        let span = nanoseconds(read(request)?)?;
        let now = Now::read();
        let Some(time) = now.of(clock) else {
            // A clock of processor time.
            let longer = timespec(now.page.pace.real_span(span));
            return Ok(native(number, [clock, flags, longer.as_ptr() as u64, rest, 0, 0]));
        };
        let is_absolute = flags & TIMER_ABSTIME != 0;
        let span = if is_absolute { span.saturating_sub(time) } else { span };
        let deadline = now.time.saturating_add(span);
        let done = until(deadline, 0, |left| {
            let left = timespec(left);
            native(nr::CLOCK_NANOSLEEP, [id::MONOTONIC, 0, left.as_ptr() as u64, 0, 0, 0])
        });
        if done == error::INTR && rest != 0 && !is_absolute {
            write(rest, timespec(left(deadline)))?;
        }
        Ok(done)
    })())
}

/// `poll` and `ppoll`, with or without a timeout.
pub fn poll_any(number: u64, args: [u64; 6]) -> i64 {
    result((|| {
        let (span, mask) = match number {
            nr::POLL => (u64::try_from(args[2] as i32).ok().map(|ms| ms * 1_000_000), None),
            _ => (optional(args[2])?, mask_of(args[3])?),
        };
        let [mask_at, size] = mask.as_ref().map_or([0, 0], |mask| [mask as *const u64 as u64, 8]);
        let Some(span) = span else {
            return Ok(native(nr::PPOLL, [args[0], args[1], 0, mask_at, size, 0]));
        };
        let deadline = deadline(span);
        let done = until(deadline, 0, |left| {
            let left = timespec(left);
            native(nr::PPOLL, [args[0], args[1], left.as_ptr() as u64, mask_at, size, 0])
        });
        if number == nr::PPOLL {
            let _ = write(args[2], timespec(left(deadline)));
        }
        Ok(done)
    })())
}

/// The time at an address; `None` for address 0.
pub fn optional(at: u64) -> Result<Option<u64>, i64> {
    match at {
        0 => Ok(None),
        at => nanoseconds(read(at)?).map(Some),
    }
}

/// `select` and `pselect6`.
pub fn select(number: u64, args: [u64; 6]) -> i64 {
    type Set = [u64; MOST_DESCRIPTORS as usize / 64];
    result((|| {
        let (span, mask) = match number {
            nr::SELECT => {
                let [seconds, us]: Time = read(args[4])?;
                let more = us / 1_000_000;
                (Some(nanoseconds([seconds.saturating_add(more), us % 1_000_000 * 1_000])?), None)
            }
            _ => {
                let given: [u64; 2] = if args[5] == 0 { [0, 0] } else { read(args[5])? };
                (optional(args[4])?, mask_of(given[0])?)
            }
        };
        let with_mask = mask.as_ref().map(|mask| [mask as *const u64 as u64, 8]);
        let mask_at = with_mask.as_ref().map_or(0, |pair| pair.as_ptr() as u64);
        let [count, sets @ ..]: [u64; 4] = [args[0], args[1], args[2], args[3]];
        let Some(span) = span else {
            return Ok(native(nr::PSELECT6, [count, sets[0], sets[1], sets[2], 0, mask_at]));
        };
        // The kernel clears the sets at the timeout.
        let words = if count <= MOST_DESCRIPTORS { count.div_ceil(64) as usize } else { 0 };
        let mut kept: [Set; 3] = [[0; MOST_DESCRIPTORS as usize / 64]; 3];
        for (set, kept) in sets.iter().zip(&mut kept).filter(|(set, _)| **set != 0) {
            for (word, place) in kept.iter_mut().enumerate().take(words) {
                *place = read(set + 8 * word as u64)?;
            }
        }
        let deadline = deadline(span);
        let mut first = true;
        let done = until(deadline, 0, |left| {
            if !first && words > 0 {
                for (set, kept) in sets.iter().zip(&kept).filter(|(set, _)| **set != 0) {
                    for (word, value) in kept.iter().enumerate().take(words) {
                        let _ = write(set + 8 * word as u64, *value);
                    }
                }
            }
            first = false;
            let left = timespec(left);
            native(nr::PSELECT6, [count, sets[0], sets[1], sets[2], left.as_ptr() as u64, mask_at])
        });
        let rest = timespec(left(deadline));
        let _ = match number {
            nr::SELECT => write(args[4], [rest[0], rest[1] / 1_000]),
            _ => write(args[4], rest),
        };
        Ok(done)
    })())
}

/// `epoll_wait`, `epoll_pwait` and `epoll_pwait2`.
pub fn epoll(number: u64, args: [u64; 6]) -> i64 {
    result((|| {
        let milliseconds = args[3] as i32;
        let span = match number {
            nr::EPOLL_PWAIT2 => optional(args[3])?,
            _ => u64::try_from(milliseconds).ok().map(|ms| ms * 1_000_000),
        };
        let mask = if number == nr::EPOLL_WAIT { None } else { mask_of(args[4])? };
        if Now::read().page.freezes != clock::NOT_FROZEN {
            return epoll_frozen(args, span, mask);
        }
        let [mask_at, size] = mask.as_ref().map_or([0, 0], |mask| [mask as *const u64 as u64, 8]);
        let wait =
            |timeout: u64| native(nr::EPOLL_PWAIT2, [args[0], args[1], args[2], timeout, mask_at, size]);
        let Some(span) = span else { return Ok(wait(0)) };
        Ok(until(deadline(span), 0, |left| wait(timespec(left).as_ptr() as u64)))
    })())
}

/// Event of `poll`: there is something to read.
pub const POLLIN: u64 = 1;
/// Event of `poll`: there is room to write.
pub const POLLOUT: u64 = 4;

/// `ppoll` of one descriptor, for at most `left` real nanoseconds, with a signal mask.
fn poll_one(descriptor: u64, events: u64, left: Option<u64>, mask: Option<u64>) -> i64 {
    // `struct pollfd`: the descriptor, followed by the events.
    let mut watched = descriptor & 0xffff_ffff | events << 32;
    let left = left.map(timespec);
    let left_at = left.as_ref().map_or(0, |left| left.as_ptr() as u64);
    let [mask_at, size] = mask.as_ref().map_or([0, 0], |mask| [mask as *const u64 as u64, 8]);
    native(nr::PPOLL, [&raw mut watched as u64, 1, left_at, mask_at, size, 0])
}

/// Waits for events of one descriptor until `end`, a virtual time: 1, 0 at the end, or an error.
pub fn wait_for_one(descriptor: u64, events: u64, end: Option<u64>, mask: Option<u64>) -> i64 {
    match end {
        Some(end) => until(end, 0, |left| poll_one(descriptor, events, Some(left), mask)),
        None => poll_one(descriptor, events, None, mask),
    }
}

/// `epoll_wait` on a host that is frozen in turns, which would end it with `EINTR`: the wait is a `ppoll` of
/// the descriptor instead, which the kernel restarts.
fn epoll_frozen(args: [u64; 6], span: Option<u64>, mask: Option<u64>) -> Result<i64, i64> {
    let look = || native(nr::EPOLL_WAIT, [args[0], args[1], args[2], 0, 0, 0]);
    let end = span.map(deadline);
    loop {
        let ready = wait_for_one(args[0], POLLIN, end, mask);
        // Another thread may have consumed the events meanwhile.
        match look() {
            0 if ready > 0 => {}
            0 => return Ok(ready),
            found => return Ok(found),
        }
    }
}

/// Futex operations with a timeout: relative for `FUTEX_WAIT`, absolute for the others.
pub fn futex(args: [u64; 6]) -> i64 {
    const WAIT: u64 = 0;
    const LOCK_PI: u64 = 6;
    let [address, operation, value, timeout, second, third] = args;
    result((|| {
        let time = nanoseconds(read(timeout)?)?;
        let command = operation & 0x7f;
        let by_wall = command == LOCK_PI || operation & FUTEX_CLOCK_REALTIME != 0;
        let end = match command {
            WAIT => deadline(time),
            _ => of_clock(time, if by_wall { id::REALTIME } else { id::MONOTONIC })?,
        };
        let plain = if command == LOCK_PI { operation } else { operation & !FUTEX_CLOCK_REALTIME };
        Ok(until(end, error::TIMEDOUT, |left| {
            let real = match command {
                WAIT => left,
                LOCK_PI => clock::machine(id::REALTIME).saturating_add(left),
                _ => clock::monotonic().saturating_add(left),
            };
            native(nr::FUTEX, [address, plain, value, timespec(real).as_ptr() as u64, second, third])
        }))
    })())
}

/// `futex_waitv` and `futex_wait`.
pub fn futexes(number: u64, args: [u64; 6]) -> i64 {
    let at = if number == nr::FUTEX_WAITV { 3 } else { 4 };
    result((|| {
        let end = of_clock(nanoseconds(read(args[at])?)?, args[at + 1])?;
        Ok(until(end, error::TIMEDOUT, |left| {
            let real = timespec(clock::monotonic().saturating_add(left));
            let mut args = args;
            (args[at], args[at + 1]) = (real.as_ptr() as u64, id::MONOTONIC);
            native(number, args)
        }))
    })())
}

/// Converts a time of a clock to a virtual `CLOCK_MONOTONIC`.
fn of_clock(time: u64, clock: u64) -> Result<u64, i64> {
    let now = Now::read();
    let there = now.of(clock).ok_or(error::INVAL)?;
    Ok(now.time.saturating_add(time.saturating_sub(there)))
}

/// Message queues: the timeout is an absolute wall-clock time.
pub fn queue(number: u64, args: [u64; 6]) -> i64 {
    result((|| {
        let end = of_clock(nanoseconds(read(args[4])?)?, id::REALTIME)?;
        Ok(until(end, error::TIMEDOUT, |left| {
            let real = timespec(clock::machine(id::REALTIME).saturating_add(left));
            native(number, [args[0], args[1], args[2], args[3], real.as_ptr() as u64, 0])
        }))
    })())
}
