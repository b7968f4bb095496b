//! Signals: actions, masks, sending, waiting, the alternate stack and the return from handlers.

use super::timeout::{TimedWait, Timeout};
use crate::call::Call;
use crate::ids::ProcessKey;
use crate::outcome::{Block, IfInterrupted, Outcome, SysResult, done};
use crate::signal::UNBLOCKABLE;
use belljar_linux_abi::signal::{KernelSigaction, NSIG, SigInfo, SigSet, SigStack, sig_bit};
use belljar_linux_abi::{Errno, c};
use belljar_objects::namespaces::IdKind;
use smallvec::SmallVec;

const SET_SIZE: u64 = size_of::<SigSet>() as u64;
/// First real-time signal, the kernel's `SIGRTMIN`; instances of these signals are queued.
const FIRST_QUEUED: i32 = 32;

/// `EINVAL` unless `signal` is a signal number or 0, which only checks the permission.
fn valid_signal(signal: i32) -> Result<i32, Errno> {
    if (0..=NSIG).contains(&signal) { Ok(signal) } else { Err(Errno::EINVAL) }
}

fn valid_size(size: u64) -> Result<(), Errno> {
    if size == SET_SIZE { Ok(()) } else { Err(Errno::EINVAL) }
}

/// rt_sigaction(2).
pub fn sys_rt_sigaction(call: &mut Call<'_>) -> SysResult {
    let [_, new, old, size, ..] = call.args;
    let signal = call.int(0);
    valid_size(size)?;
    if !(1..=NSIG).contains(&signal) || (new != 0 && sig_bit(signal) & UNBLOCKABLE != 0) {
        return Err(Errno::EINVAL);
    }
    let before = *call.host.process(call.process).signals.action(signal);
    let action: Option<KernelSigaction> = if new == 0 { None } else { Some(call.read(new)?) };
    if let Some(action) = action {
        call.host.threads.set_action(&mut call.host.processes, call.process, signal, action);
    }
    if old != 0 {
        call.write(old, &before)?;
    }
    done(0)
}

/// rt_sigprocmask(2).
pub fn sys_rt_sigprocmask(call: &mut Call<'_>) -> SysResult {
    let [_, new, old, size, ..] = call.args;
    valid_size(size)?;
    let before = call.host.thread(call.thread).signals.blocked;
    if new != 0 {
        let set: SigSet = call.read(new)?;
        let mask = match call.int(0) {
            c::SIG_BLOCK => before | set,
            c::SIG_UNBLOCK => before & !set,
            c::SIG_SETMASK => set,
            _ => return Err(Errno::EINVAL),
        };
        call.host.set_blocked(call.thread, mask);
    }
    if old != 0 {
        call.write(old, &before)?;
    }
    done(0)
}

/// rt_sigpending(2).
pub fn sys_rt_sigpending(call: &mut Call<'_>) -> SysResult {
    if call.args[1] > SET_SIZE {
        return Err(Errno::EINVAL);
    }
    let blocked = call.host.thread(call.thread).signals.blocked;
    let set = call.host.threads.pending_signals(&call.host.processes, call.thread) & blocked;
    call.write_bytes(call.args[0], &set.to_le_bytes()[..call.args[1] as usize])?;
    done(0)
}

/// rt_sigreturn(2). An invalid frame raises `SIGSEGV`, as on Linux.
pub fn sys_rt_sigreturn(call: &mut Call<'_>) -> SysResult {
    if call.host.pop_frame(call.thread).is_err() {
        call.host.threads.force_signal(&mut call.host.processes, call.thread, SigInfo::kernel(c::SIGSEGV));
    }
    Ok(Outcome::Replaced)
}

/// sigaltstack(2).
pub fn sys_sigaltstack(call: &mut Call<'_>) -> SysResult {
    let [new, old, ..] = call.args;
    let before = call.host.alternate_stack(call.thread);
    if new != 0 {
        let stack: SigStack = call.read(new)?;
        call.host.set_alternate_stack(call.thread, stack)?;
    }
    if old != 0 {
        call.write(old, &before)?;
    }
    done(0)
}

/// rt_sigsuspend(2).
pub fn sys_rt_sigsuspend(call: &mut Call<'_>) -> SysResult {
    valid_size(call.args[1])?;
    if call.resumed.is_none() {
        let mask: SigSet = call.read(call.args[0])?;
        call.host.set_temporary_mask(call.thread, mask);
    }
    sys_pause(call)
}

/// pause(2).
pub fn sys_pause(_call: &mut Call<'_>) -> SysResult {
    Block::until(None).interrupted(IfInterrupted::RestartNoHandler).into()
}

/// rt_sigtimedwait(2).
pub fn sys_rt_sigtimedwait(call: &mut Call<'_>) -> SysResult {
    let [set, info, timeout, size, ..] = call.args;
    valid_size(size)?;
    let set: SigSet = call.read::<SigSet>(set)? & !UNBLOCKABLE;
    let mut timeout = Timeout::from_timespec(call, timeout)?;
    timeout.remaining = None;
    let attempt = TimedWait::of(call, timeout);
    if let Some(taken) = call.host.threads.take_signal(&mut call.host.processes, call.thread, set) {
        if info != 0 {
            call.write(info, &taken)?;
        }
        return done(taken.signo as u64);
    }
    if attempt.last {
        return Err(Errno::EAGAIN);
    }
    call.host.thread(call.thread).signals.awaited = set;
    attempt.wait(SmallVec::new(), IfInterrupted::Eintr)
}

/// kill(2).
pub fn sys_kill(call: &mut Call<'_>) -> SysResult {
    let pid = call.int(0);
    let own = call.process;
    let targets: Vec<ProcessKey> = match pid {
        // Pid 1 exists and belongs to root; it ignores all signals.
        1 => {
            valid_signal(call.int(1))?;
            call.host.processes.may_signal_init(own)?;
            return done(0);
        }
        0 => call.host.processes.group_members(call.host.processes[own.0].pgid),
        -1 => call.host.processes.members_beside(own),
        i32::MIN => return Err(Errno::ESRCH),
        pid if pid < 0 => call.host.processes.group_members(-pid),
        pid => vec![call.host.threads.find_task(&call.host.processes, call.thread, pid)?],
    };
    if targets.is_empty() {
        return Err(Errno::ESRCH);
    }
    let signal = valid_signal(call.int(1))?;
    // With several targets the call succeeds if one of them can be signalled.
    let allowed: Vec<ProcessKey> = targets
        .into_iter()
        .filter(|target| call.host.processes.may_signal(own, *target, signal).is_ok())
        .collect();
    if allowed.is_empty() && pid != -1 {
        return Err(Errno::EPERM);
    }
    if signal != 0 {
        let info = sent_by(call, signal, c::SI_USER);
        for target in allowed {
            // Targets are signalled in the order of their pids, as on Linux; one may disappear as a
            // consequence of an earlier signal.
            if call.host.processes.contains(target.0) {
                call.host.send_signal(target, info);
            }
        }
    }
    done(0)
}

fn sent_by(call: &Call<'_>, signal: i32, code: i32) -> SigInfo {
    let sender = &call.host.processes[call.process.0];
    SigInfo::user(signal, code, sender.pid, sender.credentials.ruid)
}

/// tkill(2).
pub fn sys_tkill(call: &mut Call<'_>) -> SysResult {
    to_thread(call, None, call.int(0), call.int(1))
}

/// tgkill(2).
pub fn sys_tgkill(call: &mut Call<'_>) -> SysResult {
    let group = call.int(0);
    if group <= 0 {
        return Err(Errno::EINVAL);
    }
    to_thread(call, Some(group), call.int(1), call.int(2))
}

fn to_thread(call: &mut Call<'_>, group: Option<i32>, tid: i32, signal: i32) -> SysResult {
    if tid <= 0 {
        return Err(Errno::EINVAL);
    }
    let process = call.host.threads.find_task(&call.host.processes, call.thread, tid)?;
    if group.is_some_and(|group| call.host.process(process).pid != group) {
        return Err(Errno::ESRCH);
    }
    let signal = valid_signal(signal)?;
    call.host.processes.may_signal(call.process, process, signal)?;
    if signal >= FIRST_QUEUED {
        check_queue_limit(call, process)?;
    }
    // A signal to the main thread of an ended process is accepted and dropped.
    if signal != 0
        && let Ok(thread) = call.host.threads.find(call.thread, tid)
    {
        let info = sent_by(call, signal, c::SI_TKILL);
        call.host.send_signal_to_thread(thread, info);
    }
    done(0)
}

/// Translates the sender in a caller's `siginfo_t` from the ids of its namespaces.
pub(super) fn meant_info(call: &Call<'_>, info: SigInfo) -> SigInfo {
    let Some((pid, uid)) = info.sender() else { return info };
    let (process, all) = (&call.host.processes[call.process.0], &call.host.processes.namespaces);
    let pid = all.pids.found(process.attributes.namespaces.pid, pid).unwrap_or(0);
    info.with_sender(pid, call.host.processes.given_id(call.process, IdKind::User, uid).unwrap_or(uid))
}

/// Reads a `siginfo_t` from the caller. `EPERM` if it claims to come from the kernel, `kill` or `tkill`,
/// unless `target` is the caller.
fn read_info(call: &mut Call<'_>, addr: u64, signal: i32, target: i32) -> Result<SigInfo, Errno> {
    let info: SigInfo = call.read(addr)?;
    let own = call.host.process(call.process).pid;
    let info = meant_info(call, info);
    if (info.code >= 0 || info.code == c::SI_TKILL) && target != own {
        return Err(Errno::EPERM);
    }
    Ok(SigInfo { signo: signal, ..info })
}

/// Checks the permission to send a signal. A code reserved for the kernel is only accepted for the sender
/// itself, which needs no permission.
fn may_send(call: &Call<'_>, target: ProcessKey, info: &SigInfo) -> Result<(), Errno> {
    if info.code > 0 { Ok(()) } else { call.host.processes.may_signal(call.process, target, info.signo) }
}

fn check_queue_limit(call: &Call<'_>, target: ProcessKey) -> Result<(), Errno> {
    let target = &call.host.processes[target.0];
    let limit = target.rlimits[c::RLIMIT_SIGPENDING as usize].soft;
    if target.signals.pending.len() as u64 >= limit { Err(Errno::EAGAIN) } else { Ok(()) }
}

/// rt_sigqueueinfo(2).
pub fn sys_rt_sigqueueinfo(call: &mut Call<'_>) -> SysResult {
    let info = read_info(call, call.args[2], call.int(1), call.int(0))?;
    let process = call.host.threads.find_task(&call.host.processes, call.thread, call.int(0))?;
    let signal = valid_signal(call.int(1))?;
    may_send(call, process, &info)?;
    if signal != 0 {
        check_queue_limit(call, process)?;
        call.host.send_signal(process, info);
    }
    done(0)
}

/// rt_tgsigqueueinfo(2).
pub fn sys_rt_tgsigqueueinfo(call: &mut Call<'_>) -> SysResult {
    let (group, tid) = (call.int(0), call.int(1));
    if group <= 0 || tid <= 0 {
        return Err(Errno::EINVAL);
    }
    let info = read_info(call, call.args[3], call.int(2), group)?;
    let process = call.host.threads.find_task(&call.host.processes, call.thread, tid)?;
    if call.host.process(process).pid != group {
        return Err(Errno::ESRCH);
    }
    let signal = valid_signal(call.int(2))?;
    may_send(call, process, &info)?;
    if signal != 0
        && let Ok(thread) = call.host.threads.find(call.thread, tid)
    {
        call.host.send_signal_to_thread(thread, info);
    }
    done(0)
}
