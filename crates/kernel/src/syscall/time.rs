//! Clocks and sleeping.

use super::timeout::RemainingTime;
use crate::call::{Block, Call, CallState, IfInterrupted, SysResult, done};
use crate::host::Host;
use crate::ids::{ProcessKey, ThreadKey};
use belljar_base::{SimDuration, SimTime};
use belljar_linux_abi::process::Timex;
use belljar_linux_abi::time::{Timespec, Timeval};
use belljar_linux_abi::{Errno, c};

/// Nanoseconds of processor time that one call counts as.
const NS_PER_CALL: u64 = 1_000;
/// The coarse clocks' resolution, four milliseconds, and how far their ticks are apart: a prime number of
/// microseconds. Loops in which every call takes one of them meet the ends of ticks at each of their calls in turn,
/// as they would on a machine; with a round number a loop of two calls may meet them at the one of which it does
/// not look for them (MariaDB does that, 10 million times).
const COARSE_RESOLUTION_NS: u64 = 4_000_000;
const COARSE_TICK_NS: u64 = 4_001_000;
/// `TIMER_ABSTIME`.
const ABSOLUTE: i32 = 1;

/// The clocks that a call can name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ClockId {
    Realtime,
    Monotonic,
    /// As far as the last tick.
    RealtimeCoarse,
    MonotonicCoarse,
    Process(ProcessKey),
    Thread(ThreadKey),
}

impl ClockId {
    /// `EINVAL` for a number that names no clock.
    pub(super) fn decode(call: &Call<'_>, id: i32) -> Result<ClockId, Errno> {
        match id {
            c::CLOCK_REALTIME | c::CLOCK_REALTIME_ALARM | c::CLOCK_TAI => Ok(ClockId::Realtime),
            c::CLOCK_REALTIME_COARSE => Ok(ClockId::RealtimeCoarse),
            c::CLOCK_MONOTONIC_COARSE => Ok(ClockId::MonotonicCoarse),
            c::CLOCK_MONOTONIC | c::CLOCK_MONOTONIC_RAW | c::CLOCK_BOOTTIME | c::CLOCK_BOOTTIME_ALARM => {
                Ok(ClockId::Monotonic)
            }
            c::CLOCK_PROCESS_CPUTIME_ID => Ok(ClockId::Process(call.process)),
            c::CLOCK_THREAD_CPUTIME_ID => Ok(ClockId::Thread(call.thread)),
            // A process's or thread's number, inverted, above the kind of processor time.
            id if id < 0 && id & 3 != 3 => {
                let number = !(id >> 3);
                let invalid = |_| Errno::EINVAL;
                if id & 4 == 0 {
                    call.host.find_process(call.process, number).map(ClockId::Process).map_err(invalid)
                } else {
                    call.host.find_thread(call.thread, number).map(ClockId::Thread).map_err(invalid)
                }
            }
            _ => Err(Errno::EINVAL),
        }
    }

    /// Its reading, in nanoseconds.
    fn read(self, host: &Host) -> u64 {
        match self {
            ClockId::Realtime => host.net.clock.realtime_ns(),
            ClockId::Monotonic => host.net.clock.monotonic_ns(),
            ClockId::RealtimeCoarse => host.net.clock.realtime_ns() - since_tick_ns(host),
            ClockId::MonotonicCoarse => host.net.clock.monotonic_ns() - since_tick_ns(host),
            ClockId::Process(process) => host.calls_of(process) * NS_PER_CALL,
            ClockId::Thread(thread) => host.threads[thread.0].calls * NS_PER_CALL,
        }
    }

    /// The point at which it shows `ns`; `None` for clocks without timers.
    pub(super) fn reaches(self, host: &Host, ns: u64) -> Option<SimTime> {
        match self {
            ClockId::Realtime => Some(host.net.clock.at_realtime(ns)),
            ClockId::Monotonic => Some(host.net.clock.at_monotonic(ns)),
            _ => None,
        }
    }
}

/// Time since the last tick of the coarse clocks, in nanoseconds.
fn since_tick_ns(host: &Host) -> u64 {
    host.net.clock.local().as_nanos() % COARSE_TICK_NS
}

/// clock_gettime(2).
pub fn sys_clock_gettime(call: &mut Call<'_>) -> SysResult {
    let now = ClockId::decode(call, call.int(0))?.read(call.host);
    call.write(call.args[1], &Timespec::from_nanos(now))?;
    done(0)
}

/// clock_getres(2).
pub fn sys_clock_getres(call: &mut Call<'_>) -> SysResult {
    let resolution = match ClockId::decode(call, call.int(0))? {
        ClockId::RealtimeCoarse | ClockId::MonotonicCoarse => COARSE_RESOLUTION_NS,
        _ => 1,
    };
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

/// clock_settime(2) and settimeofday(2): the experiment decides what the time is.
pub fn sys_clock_set(call: &mut Call<'_>) -> SysResult {
    call.host.warn("a program tried to set the clock");
    Err(Errno::EPERM)
}

/// adjtimex(2).
pub fn sys_adjtimex(call: &mut Call<'_>) -> SysResult {
    adjust(call, call.args[0])
}

/// clock_adjtime(2).
pub fn sys_clock_adjtime(call: &mut Call<'_>) -> SysResult {
    match ClockId::decode(call, call.int(0))? {
        ClockId::Realtime => adjust(call, call.args[1]),
        _ => Err(Errno::EOPNOTSUPP),
    }
}

/// The clock is exact and not to be changed.
fn adjust(call: &mut Call<'_>, addr: u64) -> SysResult {
    let asked: Timex = call.read(addr)?;
    if asked.modes != 0 {
        return sys_clock_set(call);
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
    let clock = ClockId::decode(call, call.int(0))?;
    match clock {
        ClockId::Thread(_) => return Err(Errno::EINVAL),
        ClockId::RealtimeCoarse | ClockId::MonotonicCoarse => return Err(Errno::EOPNOTSUPP),
        _ => {}
    }
    let ns = call.read::<Timespec>(request)?.to_nanos().ok_or(Errno::EINVAL)?;
    if let ClockId::Process(_) = clock {
        call.host.warn("clock_nanosleep on processor time is not supported");
        return Err(Errno::EOPNOTSUPP);
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
