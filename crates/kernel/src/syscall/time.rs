//! Clocks and sleeping.

use super::clocks::{Clock, TimeSource};
use super::timeout::RemainingTime;
use crate::call::Call;
use crate::credentials::capability;
use crate::outcome::{Block, CallState, IfInterrupted, SysResult, done};
use belljar_base::{SimDuration, SimTime};
use belljar_linux_abi::process::Timex;
use belljar_linux_abi::time::{Timespec, Timeval};
use belljar_linux_abi::{Errno, c};

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
        time.to_nanos().ok_or(Errno::EINVAL)?;
        return refuse_to_set(call);
    }
    Err(Errno::EPERM)
}

/// settimeofday(2).
pub fn sys_settimeofday(call: &mut Call<'_>) -> SysResult {
    let [time, zone, ..] = call.args;
    if time != 0 {
        let time: Timeval = call.read(time)?;
        if !(0..=1_000_000).contains(&time.usec) || time.sec < 0 {
            return Err(Errno::EINVAL);
        }
    }
    if zone != 0 {
        let _: [i32; 2] = call.read(zone)?;
    }
    refuse_to_set(call)
}

/// The experiment decides what the time is, and not even those who may set it do.
fn refuse_to_set(call: &mut Call<'_>) -> SysResult {
    call.host.processes.require(call.process, capability::SYS_TIME)?;
    call.host.warn("a program tried to set the clock");
    Err(Errno::EPERM)
}

/// adjtimex(2).
pub fn sys_adjtimex(call: &mut Call<'_>) -> SysResult {
    adjust(call, call.args[0])
}

/// clock_adjtime(2).
pub fn sys_clock_adjtime(call: &mut Call<'_>) -> SysResult {
    let _: Timex = call.read(call.args[1])?;
    Clock::decode(call, call.int(0))?;
    if call.int(0) == c::CLOCK_REALTIME { adjust(call, call.args[1]) } else { Err(Errno::EOPNOTSUPP) }
}

/// The clock is exact and not to be changed.
fn adjust(call: &mut Call<'_>, addr: u64) -> SysResult {
    let asked: Timex = call.read(addr)?;
    if asked.modes != 0 {
        return refuse_to_set(call);
    }
    let time = Timeval::from_nanos(call.host.net.clock.realtime_ns());
    let tick = Timex { time, tick: 10_000, precision: 1, tolerance: 32_768_000, ..Timex::default() };
    call.write(addr, &tick)?;
    done(c::TIME_OK as u64)
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
    // Linux makes an interrupted absolute sleep again only if no handler has run.
    let state = CallState::Timed { deadline: until, remaining };
    Block::until(until).with_state(state).interrupted(IfInterrupted::Eintr).into()
}
