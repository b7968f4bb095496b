//! POSIX timers, `setitimer` and `alarm`.
//!
//! Where the clock has one rate throughout, the kernel's timers are set to real spans. Where it varies, they expire by
//! the [`timer_thread`](super::timer_thread). Timers of processor time are always the kernel's: they stand still while
//! the host is frozen.
//!
//! Limits: in a `vfork`ed child, and beyond the capacity of the table, timers are the kernel's and go by the mean rate. Timers of
//! processor time keep the rate at which they were set.

use super::calls::nr;
use super::clock::{Now, Pace, SECOND};
use super::error;
use super::memory::{native, read, result, write};
use super::timer_table::{Kind, Locked, Timer};
use super::timer_thread;
use super::waits::{nanoseconds, timespec};

/// A `struct itimerspec` or `struct itimerval`: the interval, then the time until the next expiry.
pub type Setting = [u64; 4];
/// An interval and the time until the next expiry, in virtual nanoseconds.
pub type Spans = [u64; 2];

/// Flag of an absolute time.
pub const ABSOLUTE: u64 = 1;
const ITIMER_REAL: u64 = 0;
/// Lower bound on absolute times of a wall clock: other clocks count from the machine's start.
const SINCE_1970: u64 = 500_000_000 * SECOND;

/// The spans of a `struct itimerspec`.
pub fn spans([a, b, c, d]: Setting) -> Result<Spans, i64> {
    Ok([nanoseconds([a, b])?, nanoseconds([c, d])?])
}

/// The spans of a `struct itimerval`.
fn spans_of_microseconds([a, b, c, d]: Setting) -> Result<Spans, i64> {
    match [b, d].iter().all(|us| *us < 1_000_000) {
        true => spans([a, b * 1_000, c, d * 1_000]),
        false => Err(error::INVAL),
    }
}

/// A setting for the kernel, in units of `unit` nanoseconds. A nonzero span stays nonzero, and none becomes shorter.
pub fn real_setting(pace: &Pace, spans: Spans, unit: u64) -> Setting {
    let real = spans.map(|span| timespec(pace.real_span(span).div_ceil(unit).saturating_mul(unit)));
    let [interval, value] = real;
    [interval[0], interval[1] / unit, value[0], value[1] / unit]
}

/// The virtual spans of one of the kernel's settings. An armed timer does not read as a disarmed one.
pub fn virtual_spans(pace: &Pace, [a, b, c, d]: Setting, unit: u64) -> Spans {
    [[a, b], [c, d]].map(|[seconds, part]| {
        let span = seconds.saturating_mul(SECOND).saturating_add(part.saturating_mul(unit));
        pace.virtual_span(span).max(if span > 0 { unit } else { 0 })
    })
}

/// Writes spans as a setting to `at`, unless that is 0.
pub fn write_setting(at: u64, spans: Spans, unit: u64) -> Result<(), i64> {
    let [interval, value] = spans.map(timespec);
    match at {
        0 => Ok(()),
        at => write(at, [interval[0], interval[1] / unit, value[0], value[1] / unit]),
    }
}

/// The virtual `CLOCK_MONOTONIC` at which a timer expires first; 0 for a value that disarms it. Without a `clock` an absolute
/// value shows whether it is one of a wall clock.
pub fn expiry(now: &Now, clock: Option<u64>, value: u64, is_absolute: bool) -> u64 {
    if value == 0 || !is_absolute {
        return if value == 0 { 0 } else { now.time.saturating_add(value) };
    }
    let guessed = if value >= SINCE_1970 { now.time + now.page.wall } else { now.time };
    let there = clock.and_then(|clock| now.of(clock)).unwrap_or(guessed);
    now.time.saturating_add(value).saturating_sub(there).max(1)
}

/// The spans of a timer in the table.
pub fn spans_of(timer: &Timer, now: &Now) -> Spans {
    [timer.interval, timer.left(now.time)]
}

/// The table, if this process uses it.
pub fn own_table() -> Option<Locked> {
    let table = Locked::take();
    table.is_own().then_some(table)
}

/// The table for a process that sets a timer, if it may use it.
pub fn claimed_table() -> Option<Locked> {
    let mut table = Locked::take();
    table.claim().then_some(table)
}

/// `timer_create`: records the clock and the signal.
pub fn create(args: [u64; 6]) -> i64 {
    const SIGALRM: u32 = 14;
    const SIGEV_NONE: u32 = 1;
    const SIGEV_THREAD_ID: u32 = 4;
    let [clock, event_at, id_at, ..] = args;
    result((|| {
        // `struct sigevent`: a value of two words, signal, kind, thread.
        let event: [u32; 5] = if event_at == 0 { [0, 0, SIGALRM, 0, 0] } else { read(event_at)? };
        let [.., signal, kind, thread] = event;
        let done = native(nr::TIMER_CREATE, args);
        if done == 0 {
            let id: u32 = read(id_at)?;
            let timer = Timer {
                clock: clock as u32,
                signal: if kind == SIGEV_NONE { 0 } else { signal },
                thread: if kind == SIGEV_THREAD_ID { thread } else { 0 },
                ..Timer::new(Kind::Posix, id)
            };
            if let Some(mut table) = claimed_table() {
                table.add(timer);
            }
        }
        Ok(done)
    })())
}

/// `timer_delete`.
pub fn delete(args: [u64; 6]) -> i64 {
    let mut table = own_table();
    if let Some(timer) = table.as_mut().and_then(|table| table.find(Kind::Posix, args[0] as u32)) {
        timer.kind = Kind::None;
    }
    native(nr::TIMER_DELETE, args)
}

/// `timer_settime`.
pub fn set(args: [u64; 6]) -> i64 {
    let [id, flags, new, old, ..] = args;
    result((|| {
        let wanted = spans(read(new)?)?;
        let now = Now::read();
        let is_absolute = flags & ABSOLUTE != 0;
        let mut table = own_table();
        let known =
            table.as_mut().and_then(|table| table.find(Kind::Posix, id as u32)).map(|timer| timer.clock);
        let clock = known.map(u64::from);
        // A timer of processor time.
        if clock.is_some_and(|clock| now.of(clock).is_none()) {
            drop(table);
            return set_native(id, flags & ABSOLUTE, &now.page.pace, wanted, old);
        }
        let first = expiry(&now, clock, wanted[1], is_absolute);
        if let Some(mut table) = table.filter(|_| known.is_some() && now.page.varies())
            && timer_thread::start(&mut table)
            && let Some(timer) = table.find(Kind::Posix, id as u32)
        {
            // Withdraws a signal that is pending, as Linux does.
            let off: Setting = [0; 4];
            native(nr::TIMER_SETTIME, [id, 0, off.as_ptr() as u64, 0, 0, 0]);
            let before = spans_of(timer, &now);
            timer.arm(first, wanted[0]);
            table.wake_thread();
            drop(table);
            return write_setting(old, before, 1).map(|()| 0);
        }
        // The flag for changes of the wall clock has no effect: the wall clock is never changed.
        let value = if first == 0 { 0 } else { first.saturating_sub(now.time).max(1) };
        set_native(id, 0, &now.page.kernel(), [wanted[0], value], old)
    })())
}

/// Sets a POSIX timer of the kernel.
fn set_native(id: u64, flags: u64, pace: &Pace, spans: Spans, old: u64) -> Result<i64, i64> {
    let setting = real_setting(pace, spans, 1);
    let mut before: Setting = [0; 4];
    let done =
        native(nr::TIMER_SETTIME, [id, flags, setting.as_ptr() as u64, before.as_mut_ptr() as u64, 0, 0]);
    if done == 0 {
        write_setting(old, virtual_spans(pace, before, 1), 1)?;
    }
    Ok(done)
}

/// `timer_gettime`.
pub fn get(args: [u64; 6]) -> i64 {
    let now = Now::read();
    let known = own_table().and_then(|mut table| table.find(Kind::Posix, args[0] as u32).map(|timer| *timer));
    let is_of_processor = known.is_some_and(|timer| now.of(u64::from(timer.clock)).is_none());
    if let Some(timer) = known.filter(|timer| timer.expiry != 0) {
        return write_setting(args[1], spans_of(&timer, &now), 1).err().unwrap_or(0);
    }
    let mut setting: Setting = [0; 4];
    let done = native(nr::TIMER_GETTIME, [args[0], setting.as_mut_ptr() as u64, 0, 0, 0, 0]);
    if done != 0 {
        return done;
    }
    let pace = if is_of_processor { now.page.pace } else { now.page.kernel() };
    write_setting(args[1], virtual_spans(&pace, setting, 1), 1).err().unwrap_or(0)
}

/// The pace of one of the kernel's interval timers: the others than `ITIMER_REAL` count processor time.
fn pace_of(now: &Now, which: u64) -> Pace {
    if which == ITIMER_REAL { now.page.kernel() } else { now.page.pace }
}

/// Sets an interval timer; returns its previous spans.
fn change_interval(now: &Now, which: u64, wanted: Spans) -> Result<Spans, i64> {
    if which == ITIMER_REAL
        && now.page.varies()
        && let Some(mut table) = claimed_table()
        && timer_thread::start(&mut table)
        && let Some(timer) = alarm_in(&mut table)
    {
        let before = spans_of(timer, now);
        timer.arm(expiry(now, None, wanted[1], false), wanted[0]);
        // An expiry that the thread has just passed on to the kernel must not come any more.
        let off: Setting = [0; 4];
        native(nr::SETITIMER, [ITIMER_REAL, off.as_ptr() as u64, 0, 0, 0, 0]);
        table.wake_thread();
        return Ok(before);
    }
    let pace = pace_of(now, which);
    let setting = real_setting(&pace, wanted, 1_000);
    let mut before: Setting = [0; 4];
    match native(nr::SETITIMER, [which, setting.as_ptr() as u64, before.as_mut_ptr() as u64, 0, 0, 0]) {
        0 => Ok(virtual_spans(&pace, before, 1_000)),
        failed => Err(failed),
    }
}

/// The entry of `ITIMER_REAL`, which is made if necessary; `None` if the table is full.
fn alarm_in(table: &mut Locked) -> Option<&mut Timer> {
    if table.find(Kind::Alarm, 0).is_none() {
        table.add(Timer::new(Kind::Alarm, 0))?;
    }
    table.find(Kind::Alarm, 0)
}

/// `setitimer`.
pub fn set_interval(args: [u64; 6]) -> i64 {
    let [which, new, old, ..] = args;
    result((|| {
        let wanted = spans_of_microseconds(if new == 0 { [0; 4] } else { read(new)? })?;
        let before = change_interval(&Now::read(), which & 0xffff_ffff, wanted)?;
        write_setting(old, at_least_a_microsecond(before), 1_000).map(|()| 0)
    })())
}

/// Spans that do not read as zero in microseconds unless they are zero.
fn at_least_a_microsecond(spans: Spans) -> Spans {
    spans.map(|span| span.max(if span > 0 { 1_000 } else { 0 }))
}

/// `getitimer`.
pub fn get_interval(args: [u64; 6]) -> i64 {
    let [which, at, ..] = args;
    let now = Now::read();
    let armed = || own_table()?.find(Kind::Alarm, 0).filter(|timer| timer.expiry != 0).map(|timer| *timer);
    if let Some(timer) = (which as u32 == 0).then(armed).flatten() {
        let spans = at_least_a_microsecond(spans_of(&timer, &now));
        return write_setting(at, spans, 1_000).err().unwrap_or(0);
    }
    let mut setting: Setting = [0; 4];
    let done = native(nr::GETITIMER, [which, setting.as_mut_ptr() as u64, 0, 0, 0, 0]);
    if done != 0 {
        return done;
    }
    let spans = virtual_spans(&pace_of(&now, which & 0xffff_ffff), setting, 1_000);
    write_setting(at, spans, 1_000).err().unwrap_or(0)
}

/// `alarm`: the real-time interval timer in seconds.
pub fn alarm(args: [u64; 6]) -> i64 {
    let wanted = [0, (args[0] & 0xffff_ffff) * SECOND];
    result(change_interval(&Now::read(), ITIMER_REAL, wanted).map(|[_, left]| {
        // Linux rounds, but never to 0.
        let seconds = (left + SECOND / 2) / SECOND;
        seconds.max(u64::from(left > 0)) as i64
    }))
}

/// Takes `ITIMER_REAL` from the thread, for the next program of this process: expiry and interval.
pub fn take_alarm() -> Option<[u64; 2]> {
    let mut table = own_table()?;
    let timer = table.find(Kind::Alarm, 0).filter(|timer| timer.expiry != 0)?;
    let taken = [timer.expiry, timer.interval];
    timer.arm(0, 0);
    Some(taken)
}

/// Arms `ITIMER_REAL` in a program that has just been executed: as the previous program had it, or as a `vfork`ed child set the
/// kernel's.
pub fn adopt(inherited: Option<[u64; 2]>) {
    let now = Now::read();
    if !now.page.varies() {
        return;
    }
    let mut setting: Setting = [0; 4];
    if inherited.is_none() {
        native(nr::GETITIMER, [ITIMER_REAL, setting.as_mut_ptr() as u64, 0, 0, 0, 0]);
    }
    let [interval, left] = virtual_spans(&now.page.kernel(), setting, 1_000);
    let [first, interval] = inherited.unwrap_or([expiry(&now, None, left, false), interval]);
    if first != 0
        && let Some(mut table) = claimed_table()
        && timer_thread::start(&mut table)
        && let Some(timer) = alarm_in(&mut table)
    {
        timer.arm(first, interval);
        let off: Setting = [0; 4];
        native(nr::SETITIMER, [ITIMER_REAL, off.as_ptr() as u64, 0, 0, 0, 0]);
        table.wake_thread();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_read_as_they_were_set_and_are_never_shorter() {
        for factor in [1_000, 1_001, 3_300, 7_000, 47_300, 1_000_000] {
            let pace = Pace { real: 0, start: 0, rate: Pace::rate_of(factor), limit: u64::MAX };
            for (span, unit) in
                [(1_000, 1_000), (499_999_000, 1_000), (40_000_000, 1_000), (1, 1), (333_333_333, 1)]
            {
                let setting = real_setting(&pace, [span, span], unit);
                let real = setting[2] * SECOND + setting[3] * unit;
                assert!(pace.virtual_span(real) >= span, "{factor} {span}");
                let read = virtual_spans(&pace, setting, unit).map(|span| span / unit);
                assert_eq!(read, [span / unit; 2], "{factor} {span}");
            }
        }
        assert_eq!(spans_of_microseconds([0, 1_000_000, 0, 0]), Err(error::INVAL));
        assert_eq!(spans([1, 5, 0, SECOND]), Err(error::INVAL));
    }
}
