//! eventfd, userfaultfd, timerfd and signalfd descriptors.

use super::clocks::Clock;
use crate::call::Call;
use crate::credentials::capability;
use crate::files::userfault;
use crate::host::Host;
use crate::outcome::{SysResult, done};
use belljar_base::{SimDuration, SimTime};
use belljar_linux_abi::time::{Itimerspec, Timespec};
use belljar_linux_abi::{Errno, c};

/// `eventfd(2)`, the old system call without flags.
pub fn sys_eventfd(call: &mut Call<'_>) -> SysResult {
    create_eventfd(call, 0)
}

/// `eventfd(2)`.
pub fn sys_eventfd2(call: &mut Call<'_>) -> SysResult {
    let flags = call.int(1);
    create_eventfd(call, flags)
}

fn create_eventfd(call: &mut Call<'_>, flags: i32) -> SysResult {
    if flags & !(c::EFD_CLOEXEC | c::EFD_NONBLOCK | c::EFD_SEMAPHORE) != 0 {
        return Err(Errno::EINVAL);
    }
    let (count, semaphore) = (u64::from(call.uint(0)), flags & c::EFD_SEMAPHORE != 0);
    let Host { files, waits, .. } = &mut *call.host;
    let file = files.create_eventfd(waits, count, semaphore, flags & c::EFD_NONBLOCK);
    done(call.host.install_fd(call.process, file, flags & c::EFD_CLOEXEC != 0, 0)?)
}

/// userfaultfd(2): requires `CAP_SYS_PTRACE` unless `UFFD_USER_MODE_ONLY` is set. All faults here are
/// user-mode faults.
pub fn sys_userfaultfd(call: &mut Call<'_>) -> SysResult {
    const USER_MODE_ONLY: i32 = 1;
    let flags = call.int(0);
    if flags & USER_MODE_ONLY == 0 && !call.host.processes.is_capable(call.process, capability::SYS_PTRACE) {
        return Err(Errno::EPERM);
    }
    if flags & !(c::O_CLOEXEC | c::O_NONBLOCK | USER_MODE_ONLY) != 0 {
        return Err(Errno::EINVAL);
    }
    let file = userfault::create(call.host, call.mm(), flags & c::O_NONBLOCK);
    done(call.host.install_fd(call.process, file, flags & c::O_CLOEXEC != 0, 0)?)
}

/// `timerfd_create(2)`.
pub fn sys_timerfd_create(call: &mut Call<'_>) -> SysResult {
    let (clock, flags) = (call.int(0), call.int(1));
    let known = [
        c::CLOCK_MONOTONIC,
        c::CLOCK_REALTIME,
        c::CLOCK_REALTIME_ALARM,
        c::CLOCK_BOOTTIME,
        c::CLOCK_BOOTTIME_ALARM,
    ];
    if flags & !(c::TFD_CLOEXEC | c::TFD_NONBLOCK) != 0 || !known.contains(&clock) {
        return Err(Errno::EINVAL);
    }
    let file = call.host.files.create_timerfd(&mut call.host.waits, clock, flags & c::TFD_NONBLOCK);
    done(call.host.install_fd(call.process, file, flags & c::TFD_CLOEXEC != 0, 0)?)
}

/// `timerfd_settime(2)`. `ECANCELED` if the wall clock was set since the timer was last read or set, and both
/// settings have `TFD_TIMER_CANCEL_ON_SET`; the new setting takes effect nevertheless.
pub fn sys_timerfd_settime(call: &mut Call<'_>) -> SysResult {
    const FLAGS: i32 = c::TFD_TIMER_ABSTIME | c::TFD_TIMER_CANCEL_ON_SET;
    let (flags, new, old) = (call.int(1), call.args[2], call.args[3]);
    let settings: Itimerspec = call.read(new)?;
    let value = settings.value.to_nanos().ok_or(Errno::EINVAL)?;
    let interval = SimDuration::from_nanos(settings.interval.to_nanos().ok_or(Errno::EINVAL)?);
    if flags & !FLAGS != 0 {
        return Err(Errno::EINVAL);
    }
    let file = call.host.pollable_file(call.process, call.int(0))?;
    let n = call.host.files.open(file).kind.timerfd()?;
    let clock = Clock::decode(call, call.host.files.timerfds[n].clock)?;
    let at = match flags & c::TFD_TIMER_ABSTIME {
        0 => call.after(SimDuration::from_nanos(value)),
        _ => clock.reaches(call.host, value).ok_or(Errno::EINVAL)?,
    };
    let next = (value != 0).then_some(at).filter(|at| *at < SimTime::MAX);
    let before = call.host.set_timerfd(n, next, interval);
    let timer = &mut call.host.files.timerfds[n];
    timer.absolute = flags & c::TFD_TIMER_ABSTIME != 0;
    timer.cancel_on_set = flags & FLAGS == FLAGS;
    if call.host.files.timerfds[n].take_cancelled() && next.is_some() {
        return Err(Errno::ECANCELED);
    }
    if old != 0 {
        call.write(old, &itimerspec(before))?;
    }
    done(0)
}

/// `timerfd_gettime(2)`.
pub fn sys_timerfd_gettime(call: &mut Call<'_>) -> SysResult {
    let file = call.host.pollable_file(call.process, call.int(0))?;
    let n = call.host.files.open(file).kind.timerfd()?;
    let left = call.host.timerfd_left(n);
    call.write(call.args[1], &itimerspec(left))?;
    done(0)
}

/// Remaining time and interval. Zero means disarmed, so the remaining time of an armed timer is rounded up.
fn itimerspec((left, interval): (SimDuration, SimDuration)) -> Itimerspec {
    Itimerspec {
        interval: Timespec::from_nanos(interval.as_nanos()),
        value: Timespec::from_nanos(left.as_picos().div_ceil(1_000)),
    }
}

/// `signalfd(2)`, the old system call without flags.
pub fn sys_signalfd(call: &mut Call<'_>) -> SysResult {
    signalfd(call, 0)
}

/// `signalfd(2)`.
pub fn sys_signalfd4(call: &mut Call<'_>) -> SysResult {
    let flags = call.int(3);
    signalfd(call, flags)
}

fn signalfd(call: &mut Call<'_>, flags: i32) -> SysResult {
    let (fd, size) = (call.int(0), call.args[2]);
    if size != 8 || flags & !(c::SFD_CLOEXEC | c::SFD_NONBLOCK) != 0 {
        return Err(Errno::EINVAL);
    }
    let mask = call.read::<u64>(call.args[1])? & !crate::signal::UNBLOCKABLE;
    if fd == -1 {
        let file = call.host.files.create_signalfd(
            &call.host.processes,
            call.process,
            mask,
            flags & c::SFD_NONBLOCK,
        );
        return done(call.host.install_fd(call.process, file, flags & c::SFD_CLOEXEC != 0, 0)?);
    }
    let file = call.host.pollable_file(call.process, fd)?;
    let n = call.host.files.open(file).kind.signalfd()?;
    call.host.set_signalfd(n, call.process, mask);
    done(fd as u64)
}
