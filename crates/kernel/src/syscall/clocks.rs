//! Clocks of `clock_gettime(2)` and the operations that each supports.

use super::ptp;
use crate::call::Call;
use crate::credentials::capability;
use crate::host::Host;
use crate::ids::{ProcessKey, ThreadKey};
use belljar_base::SimTime;
use belljar_linux_abi::{Errno, c};

/// CPU time in nanoseconds accounted for one system call.
const NS_PER_CALL: u64 = 1_000;
/// Resolution of the coarse clocks, 4 ms, and their tick period, a prime number of microseconds. In a loop of
/// two system calls of 1 µs each, every tick of a round period would fall on the same one of them, possibly
/// the one whose result the program does not check (MariaDB, 10 million iterations). With a prime period the
/// ticks fall on each of them in turn.
const COARSE_RESOLUTION_NS: u64 = 4_000_000;
const COARSE_TICK_NS: u64 = 4_001_000;

/// Time source of a clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TimeSource {
    Realtime,
    Monotonic,
    /// Coarse clocks: the time of the last tick.
    RealtimeCoarse,
    MonotonicCoarse,
    Process(ProcessKey),
    Thread(ThreadKey),
    /// PTP hardware clock of this number.
    Ptp(u32),
}

/// Clock selected by a clock id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Clock {
    pub time: TimeSource,
    /// True if `clock_nanosleep(2)` supports it.
    pub sleeps: bool,
    /// True if `timer_create(2)` supports it.
    pub timers: bool,
    /// False if `clock_settime(2)` returns `EINVAL`.
    pub settable: bool,
    /// Offset to the host's clock in the caller's time namespace, in nanoseconds.
    pub offset: i64,
    /// True if waiting requires `CAP_WAKE_ALARM`: the clock would wake a suspended machine.
    pub wakes: bool,
}

const fn clock(time: TimeSource, waits: bool, settable: bool, wakes: bool) -> Clock {
    Clock { time, sleeps: waits, timers: waits, settable, offset: 0, wakes }
}

/// Clocks by id; CPU-time clocks depend on the caller. Id 10 is `CLOCK_SGI_CYCLE`, which no longer exists.
const CLOCKS: [Option<Clock>; 12] = {
    use TimeSource::*;
    [
        Some(clock(Realtime, true, true, false)),
        Some(clock(Monotonic, true, false, false)),
        None,
        None,
        // CLOCK_MONOTONIC_RAW
        Some(clock(Monotonic, false, false, false)),
        Some(clock(RealtimeCoarse, false, false, false)),
        Some(clock(MonotonicCoarse, false, false, false)),
        // CLOCK_BOOTTIME
        Some(clock(Monotonic, true, false, false)),
        // CLOCK_REALTIME_ALARM, CLOCK_BOOTTIME_ALARM
        Some(clock(Realtime, true, false, true)),
        Some(clock(Monotonic, true, false, true)),
        None,
        // CLOCK_TAI
        Some(clock(Realtime, true, false, false)),
    ]
};

impl TimeSource {
    fn is_monotonic(self) -> bool {
        matches!(self, TimeSource::Monotonic | TimeSource::MonotonicCoarse)
    }
}

impl Clock {
    /// Decodes a clock id. `EINVAL` if it is invalid.
    pub(super) fn decode(call: &Call<'_>, id: i32) -> Result<Clock, Errno> {
        // `settable`: `clock_settime(2)` on a CPU-time clock is `EPERM` rather than `EINVAL`.
        let of_process = |process| clock(TimeSource::Process(process), true, true, false);
        // CLOCK_THREAD_CPUTIME_ID does not support sleeping.
        let of_thread = |thread| clock(TimeSource::Thread(thread), true, true, false);
        if let Some(fd) = ptp::descriptor(id) {
            return Ok(clock(TimeSource::Ptp(ptp::of_descriptor(call, fd)?), false, true, false));
        }
        match id {
            c::CLOCK_PROCESS_CPUTIME_ID => Ok(Clock { settable: false, ..of_process(call.process) }),
            c::CLOCK_THREAD_CPUTIME_ID => {
                Ok(Clock { sleeps: false, settable: false, ..of_thread(call.thread) })
            }
            // Inverted pid or tid, shifted left by 3 above the type of the CPU-time clock.
            id if id < 0 && id & 3 != 3 => {
                let number = call.host.processes.meant_pid(call.process, !(id >> 3));
                let invalid = |_| Errno::EINVAL;
                if id & 4 == 0 {
                    call.host.processes.find(call.process, number).map(of_process).map_err(invalid)
                } else {
                    let thread = call.host.threads.find(call.thread, number).map_err(invalid)?;
                    if call.host.threads[thread.0].process != call.process {
                        return Err(Errno::EINVAL);
                    }
                    Ok(of_thread(thread))
                }
            }
            id => {
                let place = usize::try_from(id).map_err(|_| Errno::EINVAL)?;
                let clock = CLOCKS.get(place).copied().flatten().ok_or(Errno::EINVAL)?;
                let offsets = call.host.processes.time_offsets(call.process);
                Ok(match id {
                    c::CLOCK_BOOTTIME | c::CLOCK_BOOTTIME_ALARM => {
                        Clock { offset: offsets.boottime, ..clock }
                    }
                    _ if clock.time.is_monotonic() => Clock { offset: offsets.monotonic, ..clock },
                    _ => clock,
                })
            }
        }
    }

    /// Current reading in nanoseconds.
    pub(super) fn read(self, host: &Host) -> u64 {
        let shown = match self.time {
            TimeSource::Realtime => host.net.clock.realtime_ns(),
            TimeSource::Monotonic => host.net.clock.monotonic_ns(),
            TimeSource::RealtimeCoarse => host.net.clock.realtime_ns() - since_tick_ns(host),
            TimeSource::MonotonicCoarse => host.net.clock.monotonic_ns() - since_tick_ns(host),
            TimeSource::Process(process) => host.threads.calls_of(&host.processes, process) * NS_PER_CALL,
            TimeSource::Thread(thread) => host.threads[thread.0].calls * NS_PER_CALL,
            TimeSource::Ptp(number) => ptp::read(host, number),
        };
        shown.saturating_add_signed(self.offset)
    }

    /// Resolution in nanoseconds, `clock_getres(2)`.
    pub(super) fn resolution_ns(self) -> u64 {
        match self.time {
            TimeSource::RealtimeCoarse | TimeSource::MonotonicCoarse => COARSE_RESOLUTION_NS,
            _ => 1,
        }
    }

    /// Simulated time at which the clock reads `ns`; `None` for clocks without timers.
    pub(super) fn reaches(self, host: &Host, ns: u64) -> Option<SimTime> {
        match self.time {
            TimeSource::Realtime => Some(host.net.clock.at_realtime(ns)),
            TimeSource::Monotonic => {
                Some(host.net.clock.at_monotonic(ns.saturating_add_signed(self.offset.saturating_neg())))
            }
            _ => None,
        }
    }

    /// `EPERM` if the clock wakes a suspended machine and the caller lacks `CAP_WAKE_ALARM`.
    pub(super) fn check_wake(self, call: &Call<'_>) -> Result<(), Errno> {
        if self.wakes { call.host.processes.require(call.process, capability::WAKE_ALARM) } else { Ok(()) }
    }
}

/// Time since the last tick of the coarse clocks, in nanoseconds.
fn since_tick_ns(host: &Host) -> u64 {
    host.net.clock.local().as_nanos() % COARSE_TICK_NS
}
