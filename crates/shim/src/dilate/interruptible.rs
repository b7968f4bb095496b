//! Waits that the kernel ends with `EINTR` when the host is frozen, although no signal of the guest has arrived:
//! `rt_sigtimedwait`, `semop`, `semtimedop`, `io_getevents`. On a host that is frozen in turns they wait by calls that the
//! kernel restarts, or in slices during which the guest's signals are held back.

use super::calls::nr;
use super::clock::{self, Now};
use super::error;
use super::memory::{native, result};
use super::signals;
use super::waits::{deadline, optional, timespec, until};

/// Real nanoseconds for which signals are held back at most.
const SLICE: u64 = 10_000_000;

fn is_frozen_in_turns() -> bool {
    Now::read().page.freezes != clock::NOT_FROZEN
}

/// `rt_sigtimedwait`, with or without a timeout; `EAGAIN` reports its expiry.
pub fn signal(args: [u64; 6]) -> i64 {
    let [set, info, time, size, ..] = args;
    result((|| {
        let end = optional(time)?.map(deadline);
        if !is_frozen_in_turns() {
            let Some(end) = end else { return Ok(native(nr::RT_SIGTIMEDWAIT, args)) };
            return Ok(until(end, error::AGAIN, |left| {
                let left = timespec(left);
                native(nr::RT_SIGTIMEDWAIT, [set, info, left.as_ptr() as u64, size, 0, 0])
            }));
        }
        let now = timespec(0);
        loop {
            let taken = native(nr::RT_SIGTIMEDWAIT, [set, info, now.as_ptr() as u64, size, 0, 0]);
            if taken != error::AGAIN {
                return Ok(taken);
            }
            match signals::arrival(set, end)? {
                0 => return Ok(error::AGAIN),
                failed @ ..0 => return Ok(failed),
                _ => {}
            }
        }
    })())
}

/// `semop` and `semtimedop`; `EAGAIN` reports the expiry of the latter's timeout.
pub fn semaphores(number: u64, args: [u64; 6]) -> i64 {
    let [set, operations, count, time, ..] = args;
    result((|| {
        let end = if number == nr::SEMOP { None } else { optional(time)?.map(deadline) };
        let wait = |left: u64| {
            let left = timespec(left);
            native(nr::SEMTIMEDOP, [set, operations, count, left.as_ptr() as u64, 0, 0])
        };
        if !is_frozen_in_turns() {
            return Ok(end.map_or_else(|| native(number, args), |end| until(end, error::AGAIN, wait)));
        }
        Ok(in_slices(end, error::AGAIN, wait))
    })())
}

/// Waits until `end`, a virtual time, in slices during which the guest's signals are held back. `expired` is the result of `call`
/// at the timeout that it is given, in real nanoseconds. `EINTR` reports a signal that the guest handles.
fn in_slices(end: Option<u64>, expired: i64, mut call: impl FnMut(u64) -> i64) -> i64 {
    loop {
        let now = Now::read();
        let left = end.map_or(u64::MAX, |end| now.page.pace.real_span(end.saturating_sub(now.time)));
        let slice = left.min(SLICE);
        let held = signals::Held::back();
        let got = call(slice);
        let interrupts = held.release();
        let has_passed = clock::monotonic() >= now.real.saturating_add(slice);
        if got != error::INTR && (got != expired || !has_passed) {
            return got;
        }
        if interrupts {
            return error::INTR;
        }
        if end.is_some_and(|end| Now::read().time >= end) {
            return expired;
        }
    }
}

/// `io_getevents` and `io_pgetevents`: they return the events available at the timeout.
pub fn io_events(number: u64, args: [u64; 6]) -> i64 {
    const SIZE_OF_EVENT: u64 = 32;
    const TIMEOUT: i64 = 0;
    let [context, least, most, events, time, mask] = args;
    let mask = if number == nr::IO_PGETEVENTS { mask } else { 0 };
    result((|| {
        let end = optional(time)?.map(deadline);
        let mut got = 0;
        let wait = |left: u64| {
            let left = timespec(left);
            let (missing, room, at) =
                (least.saturating_sub(got), most.saturating_sub(got), events + SIZE_OF_EVENT * got);
            let more = native(number, [context, missing, room, at, left.as_ptr() as u64, mask]);
            got += u64::try_from(more).unwrap_or(0);
            match more {
                ..0 => more,
                _ if got >= least => got as i64,
                _ => TIMEOUT,
            }
        };
        // Signals are not held back from a wait with a mask of its own, which a freeze may thus end.
        let done = match end {
            _ if is_frozen_in_turns() && mask == 0 => in_slices(end, TIMEOUT, wait),
            Some(end) => until(end, TIMEOUT, wait),
            None => native(number, args),
        };
        Ok(if got > 0 { got as i64 } else { done })
    })())
}
