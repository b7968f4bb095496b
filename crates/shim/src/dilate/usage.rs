//! Reads of clocks, and the processor time used by a process: when time passes more slowly, less of it is
//! used.

use super::calls::nr;
use super::clock::{Now, SECOND, id};
use super::error;
use super::memory::{native, read, result, update, write};
use super::waits::{Time, timespec};

/// `prctl` operations for the time stamp counter.
pub const PR_GET_TSC: u32 = 25;
/// See [`PR_GET_TSC`].
pub const PR_SET_TSC: u32 = 26;
/// Nanoseconds of a clock tick (`USER_HZ`).
const TICK: u64 = SECOND / 100;

/// The time of a clock. Clocks of processor time are the kernel's, slowed.
pub fn clock_gettime(args: [u64; 6]) -> i64 {
    let now = Now::read();
    let time = match now.of(args[0] & 0xffff_ffff) {
        Some(time) => timespec(time),
        None => {
            let mut used: Time = [0; 2];
            let done = native(nr::CLOCK_GETTIME, [args[0], used.as_mut_ptr() as u64, 0, 0, 0, 0]);
            if done != 0 {
                return done;
            }
            timespec(now.page.pace.virtual_span(used[0] * SECOND + used[1]))
        }
    };
    write(args[1], time).err().unwrap_or(0)
}

/// `gettimeofday`.
pub fn gettimeofday(args: [u64; 6]) -> i64 {
    result((|| {
        if args[0] != 0 {
            let now = Now::read();
            let [seconds, ns] = timespec(now.time + now.page.wall);
            write(args[0], [seconds, ns / 1_000])?;
        }
        match args[1] {
            0 => Ok(0),
            // An empty time zone.
            at => write(at, 0u64).map(|()| 0),
        }
    })())
}

/// `time`.
pub fn time(args: [u64; 6]) -> i64 {
    let now = Now::read();
    let seconds = now.of(id::REALTIME).unwrap_or(0) / SECOND;
    if args[0] != 0 && write(args[0], seconds).is_err() {
        return error::FAULT;
    }
    seconds as i64
}

/// `getrusage`, `wait4` and `waitid`: converts the two times at the beginning of a `struct rusage`.
pub fn of_process(number: u64, args: [u64; 6]) -> i64 {
    /// Options that request stopped and continued children, the same for both calls.
    const STOPPED: u64 = 2;
    const CONTINUED: u64 = 8;
    let mut own = args;
    let options = match number {
        nr::WAIT4 => 2,
        _ => 3,
    };
    // The host's processes are stopped in turns.
    if number != nr::GETRUSAGE && Now::read().page.freezes == super::clock::BY_SIGNALS {
        let left = own[options] & !(STOPPED | CONTINUED);
        // `waitid` refuses an empty set of events.
        if number == nr::WAIT4 || left & 4 != 0 {
            own[options] = left;
        }
    }
    let done = native(number, own);
    let at = match number {
        nr::WAIT4 => args[3],
        nr::WAITID => args[4],
        _ => args[1],
    };
    // No child was reaped, so nothing was written.
    if done < 0 || at == 0 || number == nr::WAIT4 && done == 0 {
        return done;
    }
    let pace = Now::read().page.pace;
    let slowed = |[seconds, us]: Time| {
        let [seconds, ns] = timespec(pace.virtual_span(seconds * SECOND + us * 1_000));
        [seconds, ns / 1_000]
    };
    match update(at, slowed).and_then(|()| update(at + 16, slowed)) {
        Ok(()) => done,
        Err(error) => error,
    }
}

/// `times`: user and system time of the process and of its children, in ticks; returns the ticks since the
/// start of the machine.
pub fn times(args: [u64; 6]) -> i64 {
    const SELF: u64 = 0;
    const CHILDREN: u64 = -1i64 as u64;
    let now = Now::read();
    let used = |who: u64| {
        let mut usage = [0u64; 18];
        native(nr::GETRUSAGE, [who, usage.as_mut_ptr() as u64, 0, 0, 0, 0]);
        [0, 2].map(|at| now.page.pace.virtual_span(usage[at] * SECOND + usage[at + 1] * 1_000) / TICK)
    };
    if args[0] != 0 {
        let ([user, system], [of_children, in_children]) = (used(SELF), used(CHILDREN));
        if write(args[0], [user, system, of_children, in_children]).is_err() {
            return error::FAULT;
        }
    }
    (now.of(id::BOOTTIME).unwrap_or(0) / TICK) as i64
}

/// `sysinfo`: replaces the uptime in seconds at its beginning.
pub fn sysinfo(args: [u64; 6]) -> i64 {
    let done = native(nr::SYSINFO, args);
    let uptime = Now::read().of(id::BOOTTIME).unwrap_or(0) / SECOND;
    match done {
        0 => write(args[0], uptime).err().unwrap_or(0),
        error => error,
    }
}

/// `prctl` for the time stamp counter: guests see it enabled.
pub fn counter(args: [u64; 6]) -> i64 {
    const ENABLED: u32 = 1;
    match args[0] as u32 {
        PR_GET_TSC => write(args[1], ENABLED).err().unwrap_or(0),
        _ => 0,
    }
}

/// `adjtimex` and `clock_adjtime`: queries succeed, and changes fail with EPERM.
pub fn adjust(number: u64, args: [u64; 6]) -> i64 {
    /// Offset of the time in `struct timex`; offset of its status, and the status flag for nanoseconds.
    const TIME_AT: u64 = 72;
    const STATUS_AT: u64 = 40;
    const STA_NANO: u32 = 0x2000;
    let at = if number == nr::ADJTIMEX { args[0] } else { args[1] };
    result((|| {
        if read::<u32>(at)? != 0 {
            return Err(error::PERM);
        }
        let state = native(number, args);
        if state >= 0 {
            let now = Now::read();
            let [seconds, ns] = timespec(now.time + now.page.wall);
            let unit = if read::<u32>(at + STATUS_AT)? & STA_NANO != 0 { 1 } else { 1_000 };
            write(at + TIME_AT, [seconds, ns / unit])?;
        }
        Ok(state)
    })())
}
