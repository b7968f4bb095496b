//! Timers: spans are converted to real time when a timer is set, and to virtual time when it is queried.

use super::calls::nr;
use super::clock::{Now, SECOND};
use super::error;
use super::memory::{native, read, result, write};
use super::waits::{nanoseconds, timespec};

/// A `struct itimerspec` or `struct itimerval`: the interval, then the time until the next expiry.
type Setting = [u64; 4];

/// Lower bound on absolute times of a wall clock: other clocks count from the machine's start.
const SINCE_1970: u64 = 500_000_000 * SECOND;

/// Converts spans to real ones. A nonzero span stays nonzero, because 0 means "off".
fn real(now: &Now, spans: [u64; 2]) -> [u64; 2] {
    spans.map(|span| now.page.kernel().real_span(span))
}

/// Writes a native setting as a virtual one to `at`.
fn tell(now: &Now, setting: Setting, unit: u64, at: u64) -> Result<(), i64> {
    let [a, b, c, d] = setting;
    let spans = [[a, b], [c, d]].map(|[seconds, part]| {
        let span = seconds.saturating_mul(SECOND).saturating_add(part * unit);
        // An armed timer must not read as a disarmed one.
        now.page.kernel().virtual_span(span).max(if span > 0 { unit } else { 0 })
    });
    let [interval, value] = spans.map(timespec);
    write(at, [interval[0], interval[1] / unit, value[0], value[1] / unit])
}

/// `timerfd_settime` and `timer_settime`.
pub fn set(number: u64, args: [u64; 6]) -> i64 {
    const ABSOLUTE: u64 = 1;
    let [timer, flags, new, old, ..] = args;
    result((|| {
        let [a, b, c, d]: Setting = read(new)?;
        let [interval, mut value] = [nanoseconds([a, b])?, nanoseconds([c, d])?];
        let now = Now::read();
        let mut flags = flags;
        if flags & ABSOLUTE != 0 && value > 0 {
            let there = if value >= SINCE_1970 { now.time + now.page.wall } else { now.time };
            value = value.saturating_sub(there).max(1);
            // The flag for changes of the wall clock has no effect: the wall clock is never changed.
            flags = 0;
        }
        let [interval, value] = real(&now, [interval, value]).map(timespec);
        let native_new = [interval[0], interval[1], value[0], value[1]];
        let mut native_old: Setting = [0; 4];
        let old_at = if old == 0 { 0 } else { native_old.as_mut_ptr() as u64 };
        let done = native(number, [timer, flags, native_new.as_ptr() as u64, old_at, 0, 0]);
        if done == 0 && old != 0 {
            tell(&now, native_old, 1, old)?;
        }
        Ok(done)
    })())
}

/// `timerfd_gettime` and `timer_gettime`.
pub fn get(number: u64, args: [u64; 6]) -> i64 {
    let mut setting: Setting = [0; 4];
    let done = native(number, [args[0], setting.as_mut_ptr() as u64, 0, 0, 0, 0]);
    if done != 0 {
        return done;
    }
    tell(&Now::read(), setting, 1, args[1]).err().unwrap_or(0)
}

/// `setitimer`. Timers of processor time are slowed like others.
pub fn set_interval(args: [u64; 6]) -> i64 {
    let [which, new, old, ..] = args;
    result((|| {
        let now = Now::read();
        let wanted: Setting = if new == 0 { [0; 4] } else { read(new)? };
        let microseconds = |seconds: u64, us: u64| match us {
            0..1_000_000 => nanoseconds([seconds, us * 1_000]),
            _ => Err(error::INVAL),
        };
        let spans = [microseconds(wanted[0], wanted[1])?, microseconds(wanted[2], wanted[3])?];
        let [interval, value] = real(&now, spans).map(timespec);
        let native_new = [interval[0], interval[1] / 1_000, value[0], value[1] / 1_000];
        let mut native_old: Setting = [0; 4];
        let done = native(
            nr::SETITIMER,
            [which, native_new.as_ptr() as u64, native_old.as_mut_ptr() as u64, 0, 0, 0],
        );
        if done == 0 && old != 0 {
            tell(&now, native_old, 1_000, old)?;
        }
        Ok(done)
    })())
}

/// `getitimer`.
pub fn get_interval(args: [u64; 6]) -> i64 {
    let mut setting: Setting = [0; 4];
    let done = native(nr::GETITIMER, [args[0], setting.as_mut_ptr() as u64, 0, 0, 0, 0]);
    if done != 0 {
        return done;
    }
    tell(&Now::read(), setting, 1_000, args[1]).err().unwrap_or(0)
}

/// `alarm`: the real-time interval timer in seconds.
pub fn alarm(args: [u64; 6]) -> i64 {
    let now = Now::read();
    let real = timespec(now.page.kernel().real_span((args[0] & 0xffff_ffff) * SECOND));
    let new: Setting = [0, 0, real[0], real[1] / 1_000];
    let mut old: Setting = [0; 4];
    native(nr::SETITIMER, [0, new.as_ptr() as u64, old.as_mut_ptr() as u64, 0, 0, 0]);
    let left = now.page.kernel().virtual_span(old[2] * SECOND + old[3] * 1_000);
    // Linux rounds, but never to 0.
    let seconds = (left + SECOND / 2) / SECOND;
    seconds.max(u64::from(left > 0)) as i64
}
