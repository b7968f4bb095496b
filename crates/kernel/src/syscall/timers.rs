//! alarm(2), setitimer(2), timer_create(2) and what belongs to them.

use super::time::ClockId;
use crate::call::{Call, SysResult, done};
use crate::signal::{ProcessorAlarm, ProcessorClock, TimerNotice, user_part};
use belljar_base::{SimDuration, SimTime};
use belljar_linux_abi::process::SigEvent;
use belljar_linux_abi::time::{Itimerspec, Timespec, Timeval};
use belljar_linux_abi::{Errno, c};

const ABSOLUTE: i32 = 1;

/// alarm(2): whole seconds, what was left rounded to the nearest but never to none.
pub fn sys_alarm(call: &mut Call<'_>) -> SysResult {
    let seconds = u64::from(call.uint(0));
    let left = call.host.processes[call.process.0].signals.timers.real.left(call.now());
    let left = left.map_or(0, |left| ((left.as_nanos() + 500_000_000) / 1_000_000_000).max(1));
    let at = (seconds > 0).then(|| call.after(SimDuration::from_secs(seconds)));
    call.host.set_real_timer(call.process, at, SimDuration::ZERO);
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
    let before = interval_timer(call, which)?;
    let [interval, value]: [Timeval; 2] = if new == 0 { Default::default() } else { read_pair(call, new)? };
    let (interval, value) = (nanos(interval)?, nanos(value)?);
    if which == c::ITIMER_REAL {
        let at = (value > 0).then(|| call.after(SimDuration::from_nanos(value)));
        call.host.set_real_timer(call.process, at, SimDuration::from_nanos(interval));
    } else {
        let alarm = ProcessorAlarm::after(interval_count(call, which), value, interval);
        call.host.process(call.process).signals.timers.processor[which as usize - 1] = alarm;
        call.host.processor_timers_changed(call.process);
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

/// The processor time that `ITIMER_VIRTUAL` (that of the program's own code) or `ITIMER_PROF` counts.
fn interval_count(call: &Call<'_>, which: i32) -> u64 {
    let calls = call.host.calls_of(call.process);
    if which == c::ITIMER_VIRTUAL { user_part(calls) } else { calls }
}

/// Interval and time left.
fn interval_timer(call: &Call<'_>, which: i32) -> Result<[Timeval; 2], Errno> {
    let timers = &call.host.processes[call.process.0].signals.timers;
    let (interval, left) = match which {
        c::ITIMER_REAL => {
            let left = timers.real.left(call.host.net.clock.now()).map_or(0, SimDuration::as_nanos);
            (timers.real.interval.as_nanos(), left)
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
    let clock = call.int(0);
    let processor = match ClockId::decode(call, clock)? {
        ClockId::Process(process) if process == call.process => Some(ProcessorClock::Process),
        ClockId::Thread(thread) if call.host.threads[thread.0].process == call.process => {
            Some(ProcessorClock::Thread(call.host.threads[thread.0].tid))
        }
        ClockId::Process(_) | ClockId::Thread(_) => {
            call.host.warn("timer_create: timers of another process's processor time are not supported");
            return Err(Errno::EOPNOTSUPP);
        }
        ClockId::Realtime | ClockId::Monotonic => None,
        ClockId::RealtimeCoarse | ClockId::MonotonicCoarse => return Err(Errno::EOPNOTSUPP),
    };
    let (notice, value) = if event == 0 { (None, None) } else { read_notice(call, event)? };
    let id = call.host.create_posix_timer(call.process, clock, processor, notice, value);
    if let Err(fault) = call.write(id_at, &id) {
        call.host.delete_posix_timer(call.process, id);
        return Err(fault);
    }
    done(0)
}

fn read_notice(call: &Call<'_>, addr: u64) -> Result<(Option<TimerNotice>, Option<u64>), Errno> {
    let event: SigEvent = call.read(addr)?;
    let has_signal = (1..=64).contains(&event.signo);
    let notice = match event.notify {
        c::SIGEV_NONE => TimerNotice::None,
        // The library makes threads of SIGEV_THREAD; the kernel only sees a signal.
        c::SIGEV_SIGNAL | c::SIGEV_THREAD if has_signal => TimerNotice::Signal(event.signo),
        c::SIGEV_THREAD_ID if has_signal => {
            let thread = call.host.find_thread(call.thread, event.tid).map_err(|_| Errno::EINVAL)?;
            if call.host.threads[thread.0].process != call.process {
                return Err(Errno::EINVAL);
            }
            TimerNotice::Thread(event.signo, event.tid)
        }
        _ => return Err(Errno::EINVAL),
    };
    Ok((Some(notice), Some(event.value)))
}

/// timer_settime(2).
pub fn sys_timer_settime(call: &mut Call<'_>) -> SysResult {
    let [_, _, new, old, ..] = call.args;
    let id = call.int(0);
    let spec: Itimerspec = call.read(new)?;
    let interval = spec.interval.to_nanos().ok_or(Errno::EINVAL)?;
    let value = spec.value.to_nanos().ok_or(Errno::EINVAL)?;
    let before = posix_timer(call, id)?;
    let timer = call.host.processes[call.process.0].signals.timers.posix[&id];
    let clock = timer.clock;
    if let Some(of) = timer.processor {
        let now = call.host.processor_count(call.process, of).ok_or(Errno::ESRCH)?;
        let from = if call.int(1) & ABSOLUTE != 0 { 0 } else { now };
        call.host.set_processor_timer(call.process, id, ProcessorAlarm::after(from, value, interval));
        if old != 0 {
            call.write(old, &before)?;
        }
        return done(0);
    }
    let at = match (value, call.int(1) & ABSOLUTE != 0) {
        (0, _) => None,
        (_, false) => Some(call.after(SimDuration::from_nanos(value))),
        (_, true) => ClockId::decode(call, clock)?.reaches(call.host, value).map(|at| at.max(call.now())),
    };
    let at = at.filter(|at| *at < SimTime::MAX);
    call.host.set_posix_timer(call.process, id, at, SimDuration::from_nanos(interval));
    let absolute = call.int(1) & ABSOLUTE != 0;
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
        let left =
            call.host.processor_count(call.process, of).map_or(0, |now| timer.processor_alarm.left(now));
        return Ok(Itimerspec {
            interval: Timespec::from_nanos(timer.processor_alarm.interval * 1_000),
            value: Timespec::from_nanos(left),
        });
    }
    let alarm = timer.alarm;
    // A timer that is set never shows zero.
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
