//! Timer calls: alarm(2), setitimer(2), timer_create(2) and their relatives.

use super::clocks::{Clock, TimeSource};
use crate::call::Call;
use crate::outcome::{SysResult, done};
use crate::signal::{ProcessorAlarm, ProcessorClock, TimerNotice, user_part};
use belljar_base::{SimDuration, SimTime};
use belljar_linux_abi::process::SigEvent;
use belljar_linux_abi::time::{Itimerspec, Timespec, Timeval};
use belljar_linux_abi::{Errno, c};

const ABSOLUTE: i32 = 1;

/// alarm(2): returns the remaining seconds, rounded to the nearest, at least 1 for an armed timer.
pub fn sys_alarm(call: &mut Call<'_>) -> SysResult {
    let seconds = u64::from(call.uint(0));
    let left = call.host.real_timer_left(call.process);
    let left = left.map_or(0, |left| ((left + 500_000_000) / 1_000_000_000).max(1));
    call.host.set_real_timer(call.process, seconds * 1_000_000_000, 0);
    done(left)
}

/// getitimer(2).
pub fn sys_getitimer(call: &mut Call<'_>) -> SysResult {
    let value = interval_timer(call, call.int(0))?;
    call.write(call.args[1], &value)?;
    done(0)
}

/// setitimer(2).
pub fn sys_setitimer(call: &mut Call<'_>) -> SysResult {
    let [_, new, old, ..] = call.args;
    let which = call.int(0);
    let [interval, value]: [Timeval; 2] = if new == 0 { Default::default() } else { read_pair(call, new)? };
    let (interval, value) = (nanos(interval)?, nanos(value)?);
    let before = interval_timer(call, which)?;
    if which == c::ITIMER_REAL {
        // Disarming clears the interval too.
        let interval = if value > 0 { interval } else { 0 };
        call.host.set_real_timer(call.process, value, interval);
    } else {
        let alarm = ProcessorAlarm::after(interval_count(call, which), value, interval);
        call.host.process(call.process).signals.timers.processor[which as usize - 1] = alarm;
        call.host.processes.processor_timers_changed(call.process);
    }
    if old != 0 {
        call.write(old, &before)?;
    }
    done(0)
}

fn read_pair(call: &Call<'_>, addr: u64) -> Result<[Timeval; 2], Errno> {
    Ok([call.read(addr)?, call.read(addr + 16)?])
}

fn nanos(time: Timeval) -> Result<u64, Errno> {
    Timespec { sec: time.sec, nsec: time.usec.saturating_mul(1_000) }.to_nanos().ok_or(Errno::EINVAL)
}

/// CPU time measured by `ITIMER_VIRTUAL` (user time only) or `ITIMER_PROF`, in system calls.
fn interval_count(call: &Call<'_>, which: i32) -> u64 {
    let calls = call.host.threads.calls_of(&call.host.processes, call.process);
    if which == c::ITIMER_VIRTUAL { user_part(calls) } else { calls }
}

/// Interval and remaining time of an interval timer.
fn interval_timer(call: &Call<'_>, which: i32) -> Result<[Timeval; 2], Errno> {
    let timers = &call.host.processes[call.process.0].signals.timers;
    let (interval, left) = match which {
        c::ITIMER_REAL => {
            let left = call.host.real_timer_left(call.process).unwrap_or(0);
            (timers.real_interval, left)
        }
        c::ITIMER_VIRTUAL | c::ITIMER_PROF => {
            let alarm = timers.processor[which as usize - 1];
            (alarm.interval * 1_000, alarm.left(interval_count(call, which)))
        }
        _ => return Err(Errno::EINVAL),
    };
    Ok([Timeval::from_nanos(interval), Timeval::from_nanos(left)])
}

/// timer_create(2).
pub fn sys_timer_create(call: &mut Call<'_>) -> SysResult {
    let [_, event, id_at, ..] = call.args;
    let asked: Option<SigEvent> = if event == 0 { None } else { Some(call.read(event)?) };
    let number = call.int(0);
    let clock = Clock::decode(call, number)?;
    if !clock.timers {
        return Err(Errno::EOPNOTSUPP);
    }
    let (notice, value) = match asked {
        None => (None, None),
        Some(event) => (Some(notice_of(call, &event)?), Some(event.value)),
    };
    let processor = match clock.time {
        TimeSource::Process(process) if process == call.process => Some(ProcessorClock::Process),
        TimeSource::Thread(thread) => Some(ProcessorClock::Thread(call.host.threads[thread.0].tid)),
        TimeSource::Process(_) => {
            call.host.warn("timer_create: timers of another process's processor time are not supported");
            return Err(Errno::EOPNOTSUPP);
        }
        _ => None,
    };
    clock.check_wake(call)?;
    let clock = number;
    let timers = &mut call.host.process(call.process).signals.timers;
    let id = timers.create(clock, processor, notice, value);
    if let Err(fault) = call.write(id_at, &id) {
        call.host.delete_posix_timer(call.process, id);
        return Err(fault);
    }
    done(0)
}

/// Notification of a timer; `EINVAL` for an invalid signal or thread.
fn notice_of(call: &Call<'_>, event: &SigEvent) -> Result<TimerNotice, Errno> {
    let has_signal = (1..=64).contains(&event.signo);
    Ok(match event.notify {
        c::SIGEV_NONE => TimerNotice::None,
        // The C library implements SIGEV_THREAD with threads; for the kernel it is a signal.
        c::SIGEV_SIGNAL | c::SIGEV_THREAD if has_signal => TimerNotice::Signal(event.signo),
        c::SIGEV_THREAD_ID if has_signal => {
            let tid = call.host.processes.meant_pid(call.process, event.tid);
            let thread = call.host.threads.find(call.thread, tid).map_err(|_| Errno::EINVAL)?;
            if call.host.threads[thread.0].process != call.process {
                return Err(Errno::EINVAL);
            }
            TimerNotice::Thread(event.signo, tid)
        }
        _ => return Err(Errno::EINVAL),
    })
}

/// timer_settime(2).
pub fn sys_timer_settime(call: &mut Call<'_>) -> SysResult {
    let [_, _, new, old, ..] = call.args;
    let id = call.int(0);
    if new == 0 {
        return Err(Errno::EINVAL);
    }
    let spec: Itimerspec = call.read(new)?;
    let interval = spec.interval.to_nanos().ok_or(Errno::EINVAL)?;
    let value = spec.value.to_nanos().ok_or(Errno::EINVAL)?;
    let before = posix_timer(call, id)?;
    let timer = call.host.processes[call.process.0].signals.timers.posix[&id];
    let clock = timer.clock;
    if let Some(of) = timer.processor {
        let now =
            call.host.threads.processor_count(&call.host.processes, call.process, of).ok_or(Errno::ESRCH)?;
        let from = if call.int(1) & ABSOLUTE != 0 { 0 } else { now };
        call.host.processes.set_processor_timer(
            call.process,
            id,
            ProcessorAlarm::after(from, value, interval),
        );
        if old != 0 {
            call.write(old, &before)?;
        }
        return done(0);
    }
    let absolute = call.int(1) & ABSOLUTE != 0;
    let mut begun = None;
    let at = match (value, absolute) {
        (0, _) => None,
        (_, false) => Some(call.after(SimDuration::from_nanos(value))),
        (_, true) => {
            let clock = Clock::decode(call, clock)?;
            let late = clock.read(call.host).checked_sub(value);
            match late {
                // Start in the past: the elapsed periods count as expirations, and the phase is kept.
                Some(late) if interval > 0 => {
                    begun = Some(late / interval);
                    Some(call.after(SimDuration::from_nanos(interval - late % interval)))
                }
                _ => clock.reaches(call.host, value).map(|at| at.max(call.now())),
            }
        }
    };
    let at = at.filter(|at| *at < SimTime::MAX);
    call.host.set_posix_timer(call.process, id, at, SimDuration::from_nanos(interval));
    if let Some(over) = begun {
        call.host.posix_timer_fires(call.process, id, over);
    }
    if let Some(timer) = call.host.process(call.process).signals.timers.posix.get_mut(&id) {
        timer.absolute = absolute;
    }
    if old != 0 {
        call.write(old, &before)?;
    }
    done(0)
}

/// timer_gettime(2).
pub fn sys_timer_gettime(call: &mut Call<'_>) -> SysResult {
    let value = posix_timer(call, call.int(0))?;
    call.write(call.args[1], &value)?;
    done(0)
}

fn posix_timer(call: &Call<'_>, id: i32) -> Result<Itimerspec, Errno> {
    let timers = &call.host.processes[call.process.0].signals.timers;
    let timer = timers.posix.get(&id).ok_or(Errno::EINVAL)?;
    if let Some(of) = timer.processor {
        let left = call
            .host
            .threads
            .processor_count(&call.host.processes, call.process, of)
            .map_or(0, |now| timer.processor_alarm.left(now));
        return Ok(Itimerspec {
            interval: Timespec::from_nanos(timer.processor_alarm.interval * 1_000),
            value: Timespec::from_nanos(left),
        });
    }
    let alarm = timer.alarm;
    // An armed timer never reports zero.
    let left = alarm.left(call.host.net.clock.now()).map_or(0, |left| left.as_nanos().max(1));
    Ok(Itimerspec {
        interval: Timespec::from_nanos(alarm.interval.as_nanos()),
        value: Timespec::from_nanos(left),
    })
}

/// timer_getoverrun(2).
pub fn sys_timer_getoverrun(call: &mut Call<'_>) -> SysResult {
    let timers = &call.host.process(call.process).signals.timers;
    done(timers.posix.get(&(call.args[0] as i32)).ok_or(Errno::EINVAL)?.overrun as u64)
}

/// timer_delete(2).
pub fn sys_timer_delete(call: &mut Call<'_>) -> SysResult {
    if call.host.delete_posix_timer(call.process, call.int(0)) { done(0) } else { Err(Errno::EINVAL) }
}
