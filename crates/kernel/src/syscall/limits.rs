//! Resource limits and resource usage.

use crate::call::Call;
use crate::credentials::capability;
use crate::ids::ProcessKey;
use crate::outcome::{SysResult, done};
use crate::process::Rlimit;
use belljar_linux_abi::process::{Rusage, Tms};
use belljar_linux_abi::time::Timeval;
use belljar_linux_abi::{Errno, c};

/// Clock ticks of `times(2)` in nanoseconds.
const TICK_NS: u64 = 10_000_000;
/// System calls per clock tick of user or system time.
const CALLS_PER_TICK: u64 = 10_000;

/// Resource usage after `calls` system calls, each accounted as 1 µs of CPU time, half of it as system time.
/// `resident` is the peak resident set in bytes.
pub(super) fn rusage(calls: u64, resident: u64) -> Rusage {
    let half = Timeval::from_nanos(calls / 2 * 1_000);
    let rest = Timeval::from_nanos((calls - calls / 2) * 1_000);
    Rusage { utime: rest, stime: half, maxrss: (resident / 1_024) as i64, ..Rusage::default() }
}

/// getrusage(2).
pub fn sys_getrusage(call: &mut Call<'_>) -> SysResult {
    call.host.processes.note_resident(&call.host.spaces, call.process);
    let attributes = &call.host.processes[call.process.0].attributes;
    let (peak, of_children) = (attributes.peak_resident, attributes.children_resident);
    let (calls, resident) = match call.int(0) {
        c::RUSAGE_SELF => (call.host.threads.calls_of(&call.host.processes, call.process), peak),
        c::RUSAGE_CHILDREN => (attributes.children_calls, of_children),
        c::RUSAGE_THREAD => (call.host.thread(call.thread).calls, peak),
        _ => return Err(Errno::EINVAL),
    };
    call.write(call.args[1], &rusage(calls, resident))?;
    done(0)
}

/// times(2).
pub fn sys_times(call: &mut Call<'_>) -> SysResult {
    let ticks = |calls: u64| (calls / 2 / CALLS_PER_TICK) as i64;
    let own = call.host.threads.calls_of(&call.host.processes, call.process);
    let children = call.host.process(call.process).attributes.children_calls;
    let tms = Tms { utime: ticks(own), stime: ticks(own), cutime: ticks(children), cstime: ticks(children) };
    if call.args[0] != 0 {
        call.write(call.args[0], &tms)?;
    }
    done(call.host.net.clock.monotonic_ns() / TICK_NS)
}

/// getrlimit(2).
pub fn sys_getrlimit(call: &mut Call<'_>) -> SysResult {
    let limit = limit_of(call, call.process, call.uint(0))?;
    call.write(call.args[1], &[limit.soft, limit.hard])?;
    done(0)
}

/// setrlimit(2).
pub fn sys_setrlimit(call: &mut Call<'_>) -> SysResult {
    let [soft, hard] = call.read(call.args[1])?;
    set_limit(call, call.process, call.uint(0), Rlimit { soft, hard })?;
    done(0)
}

/// prlimit64(2).
pub fn sys_prlimit64(call: &mut Call<'_>) -> SysResult {
    let [_, _, new, old, ..] = call.args;
    let resource = call.uint(1);
    let asked: Option<[u64; 2]> = if new == 0 { None } else { Some(call.read(new)?) };
    let process = call.host.threads.find_task(&call.host.processes, call.thread, call.int(0))?;
    call.host.processes.may_limit(call.process, process)?;
    let before = limit_of(call, process, resource)?;
    if let Some([soft, hard]) = asked {
        set_limit(call, process, resource, Rlimit { soft, hard })?;
    }
    if old != 0 {
        call.write(old, &[before.soft, before.hard])?;
    }
    done(0)
}

fn limit_of(call: &Call<'_>, process: ProcessKey, resource: u32) -> Result<Rlimit, Errno> {
    call.host.processes[process.0].rlimits.get(resource as usize).copied().ok_or(Errno::EINVAL)
}

fn set_limit(call: &mut Call<'_>, process: ProcessKey, resource: u32, limit: Rlimit) -> Result<(), Errno> {
    if limit.soft > limit.hard {
        return Err(Errno::EINVAL);
    }
    if resource == c::RLIMIT_NOFILE && limit.hard > call.host.files.most_descriptors {
        return Err(Errno::EPERM);
    }
    let privileged = call.host.processes.is_capable(call.process, capability::SYS_RESOURCE);
    let limits = &mut call.host.process(process).rlimits;
    if !privileged && limits.get(resource as usize).is_some_and(|old| limit.hard > old.hard) {
        return Err(Errno::EPERM);
    }
    *limits.get_mut(resource as usize).ok_or(Errno::EINVAL)? = limit;
    if resource == c::RLIMIT_CPU {
        call.host.processes.processor_timers_changed(process);
    }
    Ok(())
}
