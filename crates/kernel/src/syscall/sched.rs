//! Scheduling calls: one thread runs at a time, and priorities do not affect the run queue.

use crate::call::Call;
use crate::credentials::capability;
use crate::ids::ProcessKey;
use crate::outcome::{SysResult, done};
use belljar_linux_abi::time::Timespec;
use belljar_linux_abi::{Errno, c};
use belljar_objects::namespaces::{IdKind, NamespaceKind};

/// `SCHED_RESET_ON_FORK`.
const RESET_ON_FORK: i32 = 0x4000_0000;
/// `SCHED_DEADLINE`, a policy without static priorities.
const DEADLINE: i32 = 6;
/// Minimum run time of `SCHED_DEADLINE` in nanoseconds.
const LEAST_RUNTIME: u64 = 1 << 10;
/// First published size of `struct sched_attr`.
const SCHED_ATTR_SIZE: u64 = 48;

/// sched_yield(2). The run loop schedules the next thread.
pub fn sys_sched_yield(_call: &mut Call<'_>) -> SysResult {
    done(0)
}

/// getcpu(2): the node is always 0.
pub fn sys_getcpu(call: &mut Call<'_>) -> SysResult {
    let processor = call.host.thread(call.thread).processor();
    for (addr, value) in [(call.args[0], processor), (call.args[1], 0)] {
        if addr != 0 {
            call.write(addr, &value)?;
        }
    }
    done(0)
}

/// True if the target is pid 1, which exists without a thread and has the default policy.
fn is_init(call: &Call<'_>) -> bool {
    call.int(0) == 1
}

fn target_process(call: &Call<'_>) -> Result<ProcessKey, Errno> {
    call.host.threads.find_task(&call.host.processes, call.thread, call.int(0))
}

/// sched_getaffinity(2).
pub fn sys_sched_getaffinity(call: &mut Call<'_>) -> SysResult {
    let processors = call.host.config.processors;
    let room = u64::from(call.uint(1));
    if room * 8 < u64::from(processors.count()) || !room.is_multiple_of(8) {
        return Err(Errno::EINVAL);
    }
    let len = room.min(processors.mask_len());
    if !is_init(call) {
        target_process(call)?;
    }
    let thread = call.host.threads.find(call.thread, call.int(0)).ok();
    let allowed = thread.map_or(processors.all(), |key| call.host.threads[key.0].allowed(processors));
    call.write_bytes(call.args[2], &allowed.to_bytes()[..len as usize])?;
    done(len)
}

/// sched_setaffinity(2): what the programs see; one thread runs at a time.
pub fn sys_sched_setaffinity(call: &mut Call<'_>) -> SysResult {
    let processors = call.host.config.processors;
    let mask = call.read_vec(call.args[2], call.args[1].min(processors.mask_len()) as usize)?;
    let process = target_process(call)?;
    call.host.processes.may_schedule(call.process, process)?;
    let set = processors.among(&mask)?;
    // A process that has ended and was not waited for takes it, too.
    if let Ok(thread) = call.host.threads.find(call.thread, call.int(0)) {
        call.host.thread(thread).set_affinity(processors, set);
    }
    done(0)
}

/// Range of static priorities of a policy.
fn priorities(policy: i32) -> Result<(i32, i32), Errno> {
    match policy {
        c::SCHED_FIFO | c::SCHED_RR => Ok((1, 99)),
        c::SCHED_OTHER | c::SCHED_BATCH | c::SCHED_IDLE | DEADLINE => Ok((0, 0)),
        _ => Err(Errno::EINVAL),
    }
}

/// sched_get_priority_max(2).
pub fn sys_sched_get_priority_max(call: &mut Call<'_>) -> SysResult {
    done(priorities(call.int(0))?.1 as u64)
}

/// sched_get_priority_min(2).
pub fn sys_sched_get_priority_min(call: &mut Call<'_>) -> SysResult {
    done(priorities(call.int(0))?.0 as u64)
}

/// sched_getscheduler(2).
pub fn sys_sched_getscheduler(call: &mut Call<'_>) -> SysResult {
    if is_init(call) {
        return done(c::SCHED_OTHER as u64);
    }
    if call.int(0) < 0 {
        return Err(Errno::EINVAL);
    }
    let process = target_process(call)?;
    done(call.host.process(process).attributes.scheduling.0 as u64)
}

/// sched_setscheduler(2): stored and reported; no effect.
pub fn sys_sched_setscheduler(call: &mut Call<'_>) -> SysResult {
    set_policy(call, Some(call.int(1)), call.args[2])
}

/// sched_setparam(2).
pub fn sys_sched_setparam(call: &mut Call<'_>) -> SysResult {
    set_policy(call, None, call.args[1])
}

fn set_policy(call: &mut Call<'_>, policy: Option<i32>, param: u64) -> SysResult {
    if call.int(0) < 0 || param == 0 || policy.is_some_and(|policy| policy < 0) {
        return Err(Errno::EINVAL);
    }
    let priority: i32 = call.read(param)?;
    if is_init(call) {
        let (lowest, highest) = priorities(policy.unwrap_or(c::SCHED_OTHER) & !RESET_ON_FORK)?;
        if !(lowest..=highest).contains(&priority) {
            return Err(Errno::EINVAL);
        }
        return call.host.processes.require(call.process, capability::SYS_NICE).and_then(|()| done(0));
    }
    let process = target_process(call)?;
    let current = call.host.process(process).attributes.scheduling.0;
    let policy = policy.unwrap_or(current);
    let (lowest, highest) = priorities(policy & !RESET_ON_FORK)?;
    if !(lowest..=highest).contains(&priority) {
        return Err(Errno::EINVAL);
    }
    call.host.processes.may_set_policy(call.process, process, (policy & !RESET_ON_FORK, priority))?;
    call.host.process(process).attributes.scheduling = (policy, priority);
    done(0)
}

/// sched_getparam(2).
pub fn sys_sched_getparam(call: &mut Call<'_>) -> SysResult {
    if call.args[1] == 0 || call.int(0) < 0 {
        return Err(Errno::EINVAL);
    }
    let priority = match is_init(call) {
        true => 0,
        false => {
            let process = target_process(call)?;
            call.host.process(process).attributes.scheduling.1
        }
    };
    call.write(call.args[1], &priority)?;
    done(0)
}

/// sched_rr_get_interval(2): 100 ms for `SCHED_RR` as on Linux, 0 for `SCHED_FIFO`, a nominal 4 ms otherwise.
pub fn sys_sched_rr_get_interval(call: &mut Call<'_>) -> SysResult {
    if call.int(0) < 0 {
        return Err(Errno::EINVAL);
    }
    let process = target_process(call)?;
    let slice = match call.host.process(process).attributes.scheduling.0 & !RESET_ON_FORK {
        c::SCHED_RR => 100_000_000,
        c::SCHED_FIFO => 0,
        _ => 4_000_000,
    };
    call.write(call.args[1], &Timespec::from_nanos(slice))?;
    done(0)
}

/// sched_getattr(2): stores the first version of `struct sched_attr`.
pub fn sys_sched_getattr(call: &mut Call<'_>) -> SysResult {
    let [_, addr, size, flags, ..] = call.args;
    if addr == 0 || call.int(0) < 0 || !(SCHED_ATTR_SIZE..=4_096).contains(&size) || flags != 0 {
        return Err(Errno::EINVAL);
    }
    let process = target_process(call)?;
    let attributes = &call.host.process(process).attributes;
    let (policy, priority) = attributes.scheduling;
    let mut attr = [0u8; SCHED_ATTR_SIZE as usize];
    attr[..4].copy_from_slice(&(SCHED_ATTR_SIZE as u32).to_le_bytes());
    attr[4..8].copy_from_slice(&(policy & !RESET_ON_FORK).to_le_bytes());
    attr[8..16].copy_from_slice(&u64::from(policy & RESET_ON_FORK != 0).to_le_bytes());
    attr[16..20].copy_from_slice(&attributes.nice.to_le_bytes());
    attr[20..24].copy_from_slice(&priority.to_le_bytes());
    attr[24..48].copy_from_slice(attributes.deadline.map(u64::to_le_bytes).as_flattened());
    call.write_bytes(addr, &attr)?;
    done(0)
}

/// sched_setattr(2).
pub fn sys_sched_setattr(call: &mut Call<'_>) -> SysResult {
    if call.args[1] == 0 || call.int(0) < 0 || call.args[2] != 0 {
        return Err(Errno::EINVAL);
    }
    let attr = call.read_vec(call.args[1], SCHED_ATTR_SIZE as usize)?;
    let process = target_process(call)?;
    let word = |at: usize| i32::from_le_bytes(attr[at..at + 4].try_into().expect("four bytes"));
    let (policy, nice, priority) = (word(4), word(16), word(20));
    let (lowest, highest) = priorities(policy)?;
    if !(lowest..=highest).contains(&priority) {
        return Err(Errno::EINVAL);
    }
    let time = |at: usize| u64::from_le_bytes(attr[at..at + 8].try_into().expect("eight bytes"));
    let [runtime, deadline, period] = [24, 32, 40].map(time);
    let period = if period == 0 { deadline } else { period };
    if policy == DEADLINE && !(LEAST_RUNTIME <= runtime && runtime <= deadline && deadline <= period) {
        return Err(Errno::EINVAL);
    }
    let nice = nice.clamp(-20, 19);
    call.host.processes.may_set_policy(call.process, process, (policy, priority))?;
    if !matches!(policy, c::SCHED_FIFO | c::SCHED_RR | DEADLINE) {
        call.host.processes.may_set_nice(call.process, process, nice).map_err(|_| Errno::EPERM)?;
        call.host.process(process).attributes.nice = nice;
    }
    let attributes = &mut call.host.process(process).attributes;
    attributes.scheduling = (policy, priority);
    attributes.deadline = if policy == DEADLINE { [runtime, deadline, period] } else { [0; 3] };
    done(0)
}

/// Target processes of `getpriority` and `setpriority`.
fn priority_targets(call: &Call<'_>) -> Result<Vec<ProcessKey>, Errno> {
    targets_of(call, call.uint(0), call.int(1))
}

/// Processes selected by `PRIO_*` and an id, 0 for the caller's own. `ESRCH` if there are none.
fn targets_of(call: &Call<'_>, which: u32, who: i32) -> Result<Vec<ProcessKey>, Errno> {
    let targets = match which {
        c::PRIO_PROCESS => {
            call.host.threads.find_task(&call.host.processes, call.thread, who).into_iter().collect()
        }
        c::PRIO_PGRP => {
            let group = if who == 0 { call.host.processes[call.process.0].pgid } else { who };
            call.host.processes.group_members(group)
        }
        c::PRIO_USER => {
            let user = |process: &ProcessKey| call.host.processes[process.0].credentials.ruid;
            let whose = match who {
                0 => user(&call.process),
                who => {
                    let given = call.host.processes.given_id(call.process, IdKind::User, who as u32);
                    given.ok_or(Errno::ESRCH)?
                }
            };
            call.host.processes.by_pid.values().copied().filter(|process| user(process) == whose).collect()
        }
        _ => return Err(Errno::EINVAL),
    };
    if targets.is_empty() { Err(Errno::ESRCH) } else { Ok(targets) }
}

/// True if the only target is pid 1.
fn is_init_priority(call: &Call<'_>) -> bool {
    call.uint(0) == c::PRIO_PROCESS && call.int(1) == 1
}

/// getpriority(2): returns 20 minus the lowest nice value of the targets.
pub fn sys_getpriority(call: &mut Call<'_>) -> SysResult {
    if is_init_priority(call) {
        return done(20);
    }
    let targets = priority_targets(call)?;
    let nice = targets.iter().map(|process| call.host.processes[process.0].attributes.nice).min();
    done((20 - nice.unwrap_or(0)) as u64)
}

/// setpriority(2).
pub fn sys_setpriority(call: &mut Call<'_>) -> SysResult {
    let nice = call.int(2).clamp(-20, 19);
    if is_init_priority(call) {
        return call.host.processes.require(call.process, capability::SYS_NICE).and_then(|()| done(0));
    }
    // The last failure is reported; a later success does not clear it (`set_one_prio`).
    let mut outcome = Ok(());
    for process in priority_targets(call)? {
        let may = if call.host.processes.shares_user(call.process, process) {
            call.host.processes.may_set_nice(call.process, process, nice)
        } else {
            let namespace = call.host.processes.namespace(process, NamespaceKind::User);
            call.host.processes.require_in(call.process, namespace, capability::SYS_NICE)
        };
        let may = may.and_then(|()| call.host.processes.may_tune(call.process, process));
        match may {
            Ok(()) => call.host.process(process).attributes.nice = nice,
            refused => outcome = refused,
        }
    }
    outcome?;
    done(0)
}

/// Target processes of `ioprio_get` and `ioprio_set`: `IOPRIO_WHO_*` equals `PRIO_*` plus 1.
fn io_targets(call: &Call<'_>) -> Result<Vec<ProcessKey>, Errno> {
    match call.int(0) {
        which @ 1..=3 => targets_of(call, which as u32 - 1, call.int(1)),
        _ => Err(Errno::EINVAL),
    }
}

/// ioprio_get(2): returns the highest priority of the targets.
pub fn sys_ioprio_get(call: &mut Call<'_>) -> SysResult {
    let targets = io_targets(call)?;
    let best = targets.iter().map(|process| call.host.processes[process.0].attributes.io_priority).min();
    done(best.unwrap_or(0) as u64)
}

/// ioprio_set(2): stored and reported; no effect.
pub fn sys_ioprio_set(call: &mut Call<'_>) -> SysResult {
    // Classes: none, real-time, best effort, idle; real-time and best effort have levels.
    let (class, level) = (call.int(2) >> 13, call.int(2) & 0x1fff);
    let valid = match class {
        0 => level == 0,
        1 | 2 => level < 8,
        class => class == 3,
    };
    if class == 1 && !call.host.processes.is_capable(call.process, capability::SYS_ADMIN) {
        call.host.processes.require(call.process, capability::SYS_NICE)?;
    }
    if !valid {
        return Err(Errno::EINVAL);
    }
    for process in io_targets(call)? {
        call.host.processes.may_set_io_priority(call.process, process)?;
        call.host.process(process).attributes.io_priority = call.int(2);
    }
    done(0)
}
