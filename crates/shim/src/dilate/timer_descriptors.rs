//! Timers that are descriptors (`timerfd`).
//!
//! Where the clock varies, the [`timer_thread`](super::timer_thread) of the process that has set a `timerfd` drives it. The kernel's
//! timer is armed far in the future, with an interval that marks it ([`MARKED_INTERVAL`]); its value and interval contain the virtual
//! expiry, so that other processes can read it. A mark that has changed means that the descriptor has been closed or set again.
//!
//! A descriptor outlives the process that has set it. When that process ends by `exit_group` or executes a program, the kernel
//! takes over, at the mean rate.
//!
//! Limits: the `timerfd` of a process that is killed does not expire any more in other processes. A read at the same moment as an
//! expiry may report it twice, if the reader was late by an interval. Kernels without `CONFIG_CHECKPOINT_RESTORE` lose the number of
//! expiries of a late reader.

use super::calls::{When, nr};
use super::clock::{MARKED_INTERVAL, Now, monotonic};
use super::filter::{FEW, install_once};
use super::memory::{native, read, result};
use super::timer_table::{Kind, Locked, Timer};
use super::timer_thread;
use super::timers::{
    ABSOLUTE, Setting, Spans, claimed_table, expiry, own_table, real_setting, spans, spans_of, virtual_spans,
    write_setting,
};
use super::waits::{POLLIN, timespec};
use super::{error, layout};

/// Calls intercepted once a process has set a `timerfd`.
pub const OF_OWNERS: &[(u64, When)] = &[(nr::EXIT_GROUP, When::Always)];

/// The kernel's value for the virtual time 0.
const FAR: u64 = 1 << 61;
/// Interval in a mark, and the marks' number above it.
const INTERVAL_BITS: u32 = 44;
const MARK_BITS: u32 = 16;
const SET_TICKS: u64 = 0x4008_5400;

/// The mark of a timer with an interval; `number` distinguishes the timers that are set one after the other.
fn mark(number: u64, interval: u64) -> u64 {
    let number = number & ((1 << MARK_BITS) - 1);
    MARKED_INTERVAL | number << INTERVAL_BITS | interval.min((1 << INTERVAL_BITS) - 1)
}

/// The kernel's setting of a `timerfd` in nanoseconds: interval and time left.
fn native_spans(descriptor: u64) -> Result<Spans, i64> {
    let mut setting: Setting = [0; 4];
    match native(nr::TIMERFD_GETTIME, [descriptor, setting.as_mut_ptr() as u64, 0, 0, 0, 0]) {
        0 => spans(setting),
        failed => Err(failed),
    }
}

/// The virtual spans of a `timerfd` that the kernel reads as `native`.
fn virtual_of(table: Option<&mut Locked>, now: &Now, native: Spans) -> Spans {
    let [interval, value] = native;
    if interval < MARKED_INTERVAL {
        let [a, b] = native.map(timespec);
        return virtual_spans(&now.page.kernel(), [a[0], a[1], b[0], b[1]], 1);
    }
    if let Some(timer) = table.and_then(|table| table.find_marked(interval)) {
        return spans_of(timer, now);
    }
    // Another process has set it.
    let first = value.saturating_add(now.real).saturating_sub(FAR);
    let interval = interval & ((1 << INTERVAL_BITS) - 1);
    let has_ended = interval == 0 && first <= now.time;
    let expiry = if has_ended { 0 } else { first.max(1) };
    spans_of(&Timer { expiry, interval, ..Timer::new(Kind::Descriptor, 0) }, now)
}

fn set_native(descriptor: u64, setting: Setting) -> i64 {
    native(nr::TIMERFD_SETTIME, [descriptor, 0, setting.as_ptr() as u64, 0, 0, 0])
}

/// `timerfd_settime`.
pub fn set(args: [u64; 6]) -> i64 {
    const CANCEL_ON_SET: u64 = 2;
    let [descriptor, flags, new, old, ..] = args;
    result((|| {
        let [interval, value] = spans(read(new)?)?;
        if flags & !(ABSOLUTE | CANCEL_ON_SET) != 0 {
            return Err(error::INVAL);
        }
        let now = Now::read();
        // The flag for changes of the wall clock has no effect: the wall clock is never changed.
        let first = expiry(&now, None, value, flags & ABSOLUTE != 0);
        let native_before = native_spans(descriptor)?;
        let mut table = claimed_table();
        let before = virtual_of(table.as_mut(), &now, native_before);
        if let Some(table) = &mut table
            && let Some(timer) = table.find_marked(native_before[0])
        {
            timer.kind = Kind::None;
        }
        let left = if first == 0 { 0 } else { first.saturating_sub(now.time).max(1) };
        let mut setting = real_setting(&now.page.kernel(), [interval, left], 1);
        if first != 0
            && now.page.varies()
            && let Some(table) = &mut table
            && timer_thread::start(table)
        {
            table.marks += 1;
            let mark = mark(table.marks, interval);
            let timer =
                Timer { expiry: first, interval, mark, ..Timer::new(Kind::Descriptor, descriptor as u32) };
            if table.is_full() {
                forget_closed(table);
            }
            if table.add(timer).is_some() {
                let [interval, value] =
                    [mark, FAR.saturating_add(first).saturating_sub(monotonic())].map(timespec);
                setting = [interval[0], interval[1], value[0], value[1]];
                install_once::<FEW>(layout::ENDED, OF_OWNERS);
            }
        }
        let done = set_native(descriptor, setting);
        if let Some(table) = &table {
            table.wake_thread();
        }
        drop(table);
        if done == 0 {
            write_setting(old, before, 1)?;
        }
        Ok(done)
    })())
}

/// `timerfd_gettime`.
pub fn get(args: [u64; 6]) -> i64 {
    let now = Now::read();
    result(native_spans(args[0]).and_then(|native| {
        let spans = virtual_of(own_table().as_mut(), &now, native);
        write_setting(args[1], spans, 1).map(|()| 0)
    }))
}

/// True if the descriptor of a timer is still the `timerfd` that was set.
fn is_open(timer: &Timer) -> bool {
    native_spans(u64::from(timer.id)).is_ok_and(|[interval, _]| interval == timer.mark)
}

/// Removes the timers whose descriptors have been closed.
fn forget_closed(table: &mut Locked) {
    let timers = table.timers().iter_mut().filter(|timer| timer.kind == Kind::Descriptor);
    timers.filter(|timer| !is_open(timer)).for_each(|timer| timer.kind = Kind::None);
}

/// True if a `timerfd` has expiries that have not been read.
fn is_readable(timer: &Timer) -> bool {
    let mut watched = u64::from(timer.id) | POLLIN << 32;
    native(nr::POLL, [&raw mut watched as u64, 1, 0, 0, 0, 0]) == 1
}

fn write_count(timer: &Timer) -> i64 {
    native(nr::IOCTL, [u64::from(timer.id), SET_TICKS, &raw const timer.count as u64, 0, 0, 0])
}

/// Adds `count` expiries to a `timerfd`.
pub fn expired(timer: &mut Timer, count: u64) {
    if !is_open(timer) {
        timer.kind = Kind::None;
        return;
    }
    timer.count = if is_readable(timer) { timer.count.saturating_add(count) } else { count };
    if write_count(timer) < 0 {
        let [a, b] = timespec(timer.mark);
        let just_now: Setting = [a, b, 0, 1];
        let args = [u64::from(timer.id), ABSOLUTE, just_now.as_ptr() as u64, 0, 0, 0];
        native(nr::TIMERFD_SETTIME, args);
    }
}

/// Passes all `timerfd`s to the kernel, since this process cannot drive them any more.
pub fn hand_over() {
    let now = Now::read();
    let Some(mut table) = own_table() else { return };
    for timer in table.timers().iter_mut().filter(|timer| timer.kind == Kind::Descriptor) {
        if is_open(timer) {
            let is_readable = is_readable(timer);
            set_native(u64::from(timer.id), real_setting(&now.page.kernel(), spans_of(timer, &now), 1));
            if is_readable {
                write_count(timer);
            }
        }
        timer.kind = Kind::None;
    }
}

/// `exit_group`.
pub fn end(args: [u64; 6]) -> i64 {
    hand_over();
    native(nr::EXIT_GROUP, args)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_contains_the_interval() {
        let marks = [mark(1, 0), mark(2, 0), mark(1, 20_000_000), mark(1, u64::MAX)];
        assert!(marks.iter().all(|mark| *mark >= MARKED_INTERVAL && *mark < 2 * MARKED_INTERVAL));
        assert!(marks.iter().enumerate().all(|(n, mark)| !marks[..n].contains(mark)));
        assert_eq!(marks[2] & ((1 << INTERVAL_BITS) - 1), 20_000_000);
    }
}
