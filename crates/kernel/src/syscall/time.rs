//! Clock and sleep calls.

use super::clocks::{Clock, TimeSource};
use super::ptp;
use crate::call::Call;
use crate::credentials::capability;
use crate::outcome::{Block, CallState, IfInterrupted, RemainingTime, SysResult, done};
use belljar_base::{SimDuration, SimTime};
use belljar_linux_abi::process::Timex;
use belljar_linux_abi::time::{Timespec, Timeval};
use belljar_linux_abi::{Errno, c};
use belljar_objects::discipline;

/// `TIMER_ABSTIME`.
const ABSOLUTE: i32 = 1;

/// clock_gettime(2).
pub fn sys_clock_gettime(call: &mut Call<'_>) -> SysResult {
    let now = Clock::decode(call, call.int(0))?.read(call.host);
    call.write(call.args[1], &Timespec::from_nanos(now))?;
    done(0)
}

/// clock_getres(2).
pub fn sys_clock_getres(call: &mut Call<'_>) -> SysResult {
    let resolution = Clock::decode(call, call.int(0))?.resolution_ns();
    if call.args[1] != 0 {
        call.write(call.args[1], &Timespec::from_nanos(resolution))?;
    }
    done(0)
}

/// gettimeofday(2).
pub fn sys_gettimeofday(call: &mut Call<'_>) -> SysResult {
    let [time, zone, ..] = call.args;
    if time != 0 {
        let now = call.host.net.clock.realtime_ns();
        call.write(time, &Timeval::from_nanos(now))?;
    }
    if zone != 0 {
        call.write(zone, &0u64)?;
    }
    done(0)
}

/// time(2).
pub fn sys_time(call: &mut Call<'_>) -> SysResult {
    let now = call.host.net.clock.realtime_ns() / 1_000_000_000;
    if call.args[0] != 0 {
        call.write(call.args[0], &now)?;
    }
    done(now)
}

/// clock_settime(2).
pub fn sys_clock_settime(call: &mut Call<'_>) -> SysResult {
    let clock = Clock::decode(call, call.int(0))?;
    if !clock.settable {
        return Err(Errno::EINVAL);
    }
    let time: Timespec = call.read(call.args[1])?;
    if clock.time == TimeSource::Realtime {
        let ns = time.to_nanos().ok_or(Errno::EINVAL)?;
        return set_clock(call, ns);
    }
    match clock.time {
        TimeSource::Ptp(number) => ptp::set(call, number, time),
        _ => Err(Errno::EPERM),
    }
}

/// settimeofday(2).
pub fn sys_settimeofday(call: &mut Call<'_>) -> SysResult {
    let [time, zone, ..] = call.args;
    let mut ns = None;
    if time != 0 {
        let time: Timeval = call.read(time)?;
        if !(0..=1_000_000).contains(&time.usec) || time.sec < 0 {
            return Err(Errno::EINVAL);
        }
        ns = Some((time.sec as u64).saturating_mul(1_000_000_000).saturating_add(time.usec as u64 * 1_000));
    }
    if zone != 0 {
        let [minutes, _] = call.read::<[i32; 2]>(zone)?;
        call.host.processes.require(call.process, capability::SYS_TIME)?;
        if !(-15 * 60..=15 * 60).contains(&minutes) {
            return Err(Errno::EINVAL);
        }
    }
    match ns {
        Some(ns) => set_clock(call, ns),
        // The kernel's time zone has no effect.
        None => call.host.processes.require(call.process, capability::SYS_TIME).and(done(0)),
    }
}

/// Upper bound on wall-clock settings in nanoseconds, which prevents overflow while the host runs
/// (`TIME_SETTOD_SEC_MAX`).
const LATEST: u64 = i64::MAX as u64 - 30 * 365 * 86_400 * 1_000_000_000;

/// Sets the wall clock. `EINVAL` for a time before the monotonic clock or beyond `LATEST`.
fn set_clock(call: &mut Call<'_>, ns: u64) -> SysResult {
    if ns >= LATEST {
        return Err(Errno::EINVAL);
    }
    call.host.processes.require(call.process, capability::SYS_TIME)?;
    if ns < call.host.net.clock.monotonic_ns() {
        return Err(Errno::EINVAL);
    }
    let step = ns as i64 - call.host.net.clock.realtime_ns() as i64;
    call.host.step_clock(step);
    done(0)
}

/// adjtimex(2).
pub fn sys_adjtimex(call: &mut Call<'_>) -> SysResult {
    adjust(call, call.args[0])
}

/// clock_adjtime(2).
pub fn sys_clock_adjtime(call: &mut Call<'_>) -> SysResult {
    let _: Timex = call.read(call.args[1])?;
    let clock = Clock::decode(call, call.int(0))?;
    if let TimeSource::Ptp(number) = clock.time {
        return ptp::adjust(call, number, call.args[1]);
    }
    if call.int(0) == c::CLOCK_REALTIME { adjust(call, call.args[1]) } else { Err(Errno::EOPNOTSUPP) }
}

/// Adjusts the wall clock and returns the state of the clock discipline.
fn adjust(call: &mut Call<'_>, addr: u64) -> SysResult {
    let asked: Timex = call.read(addr)?;
    if discipline::check(&asked)? {
        call.host.processes.require(call.process, capability::SYS_TIME)?;
        discipline::check_values(&asked)?;
        if let Some(step) = discipline::offset_to_set(&asked) {
            let then = i128::from(call.host.net.clock.realtime_ns()) + step;
            let earliest = call.host.net.clock.monotonic_ns();
            if !(i128::from(earliest)..i128::from(LATEST)).contains(&then) {
                return Err(Errno::EINVAL);
            }
        }
        let done = call.host.discipline.apply(&asked);
        if done.slowly && done.step != 0 {
            call.host.warn("offsets of adjtimex are made up for at once, not slowly");
        }
        if done.rate {
            call.host.set_clock_drift(call.host.discipline.drift_ppb);
        }
        if done.step != 0 {
            let least = call.host.net.clock.monotonic_ns() as i64;
            let now = call.host.net.clock.realtime_ns() as i64;
            call.host.step_clock(done.step.clamp(least - now, LATEST as i64 - 1 - now));
        }
    }
    let now = call.host.net.clock.realtime_ns();
    let (mut shown, state) = call.host.discipline.shown(asked.modes);
    shown.time = Timeval::from_nanos(now);
    if call.host.discipline.in_nanoseconds() {
        shown.time.usec = (now % 1_000_000_000) as i64;
    }
    call.write(addr, &shown)?;
    done(state)
}

/// nanosleep(2).
pub fn sys_nanosleep(call: &mut Call<'_>) -> SysResult {
    let [request, remaining, ..] = call.args;
    if let CallState::Timed { deadline, remaining } = call.take_state() {
        return sleep(call, deadline, remaining);
    }
    let ns = call.read::<Timespec>(request)?.to_nanos().ok_or(Errno::EINVAL)?;
    let until = call.after(SimDuration::from_nanos(ns));
    sleep(call, Some(until), stored_at(remaining))
}

/// clock_nanosleep(2).
pub fn sys_clock_nanosleep(call: &mut Call<'_>) -> SysResult {
    let [_, _, request, remaining, ..] = call.args;
    if let CallState::Timed { deadline, remaining } = call.take_state() {
        return sleep(call, deadline, remaining);
    }
    let clock = Clock::decode(call, call.int(0))?;
    if !clock.sleeps {
        return Err(Errno::EOPNOTSUPP);
    }
    let ns = call.read::<Timespec>(request)?.to_nanos().ok_or(Errno::EINVAL)?;
    match clock.time {
        TimeSource::Thread(thread) if thread == call.thread => return Err(Errno::EINVAL),
        TimeSource::Thread(_) | TimeSource::Process(_) => {
            call.host.warn("clock_nanosleep on processor time is not supported");
            return Err(Errno::EOPNOTSUPP);
        }
        _ => clock.check_wake(call)?,
    }
    if call.int(1) & ABSOLUTE != 0 {
        let until = clock.reaches(call.host, ns);
        return sleep(call, until, None);
    }
    let until = call.after(SimDuration::from_nanos(ns));
    sleep(call, Some(until), stored_at(remaining))
}

fn stored_at(addr: u64) -> Option<RemainingTime> {
    (addr != 0).then_some(RemainingTime { addr, micros: false })
}

fn sleep(call: &mut Call<'_>, until: Option<SimTime>, remaining: Option<RemainingTime>) -> SysResult {
    if until.is_some_and(|until| until <= call.now()) {
        return done(0);
    }
    // Linux restarts an interrupted absolute sleep only if no handler has run.
    let state = CallState::Timed { deadline: until, remaining };
    Block::until(until).with_state(state).interrupted(IfInterrupted::Eintr).into()
}
