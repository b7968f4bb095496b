//! seccomp(2), and the evaluation of filters at system calls.

use crate::call::Call;
use crate::credentials::capability;
use crate::host::Host;
use crate::ids::ThreadKey;
use crate::outcome::{SysResult, done};
use belljar_linux_abi::signal::SigInfo;
use belljar_linux_abi::{Errno, c};
use belljar_netstack::filter::{Instruction, MAX_INSTRUCTIONS};
use belljar_objects::seccomp::{
    ARCH_X86_64, Seccomp, SeccompData, SeccompVerdict, filter, is_available, with_filter,
};
use belljar_objects::space::PAGE;

/// `SECCOMP_FILTER_FLAG_*`.
const TSYNC: u32 = 1;
const NEW_LISTENER: u32 = 8;
const TSYNC_ESRCH: u32 = 16;
const WAIT_KILLABLE: u32 = 32;
const KNOWN: u32 = 0x3f;

/// seccomp(2).
pub fn sys_seccomp(call: &mut Call<'_>) -> SysResult {
    const SET_STRICT: u32 = 0;
    const SET_FILTER: u32 = 1;
    const ACTION_AVAILABLE: u32 = 2;
    let (operation, flags, at) = (call.uint(0), call.uint(1), call.args[2]);
    match operation {
        SET_STRICT if flags != 0 || at != 0 => Err(Errno::EINVAL),
        SET_STRICT => set_strict(call),
        SET_FILTER => add_filter(call, flags, at),
        ACTION_AVAILABLE if flags != 0 => Err(Errno::EINVAL),
        ACTION_AVAILABLE => {
            let action: u32 = call.read(at)?;
            if is_available(action) { done(0) } else { Err(Errno::EOPNOTSUPP) }
        }
        _ => Err(Errno::EINVAL),
    }
}

/// `PR_SET_SECCOMP`.
pub fn sys_prctl_seccomp(call: &mut Call<'_>) -> SysResult {
    match call.args[1] {
        1 => set_strict(call),
        2 => add_filter(call, 0, call.args[2]),
        _ => Err(Errno::EINVAL),
    }
}

fn set_strict(call: &mut Call<'_>) -> SysResult {
    let now = &mut call.host.thread(call.thread).seccomp;
    match now.as_deref() {
        Some(Seccomp::Filters(_)) => Err(Errno::EINVAL),
        _ => {
            *now = Some(Box::new(Seccomp::Strict));
            done(0)
        }
    }
}

fn add_filter(call: &mut Call<'_>, flags: u32, at: u64) -> SysResult {
    let both = TSYNC | NEW_LISTENER;
    if flags & !KNOWN != 0
        || flags & (both | TSYNC_ESRCH) == both
        || flags & (WAIT_KILLABLE | NEW_LISTENER) == WAIT_KILLABLE
    {
        return Err(Errno::EINVAL);
    }
    // `struct sock_fprog`.
    let [count, program]: [u64; 2] = call.read(at)?;
    let count = usize::from(count as u16);
    if count == 0 || count > MAX_INSTRUCTIONS {
        return Err(Errno::EINVAL);
    }
    if !call.host.process(call.process).attributes.no_new_privs
        && call.host.processes.require_own(call.process, capability::SYS_ADMIN).is_err()
    {
        return Err(Errno::EACCES);
    }
    let bytes = call.read_vec(program, count * Instruction::LEN)?;
    let filter = filter(bytes.chunks_exact(Instruction::LEN).map(Instruction::from_bytes).collect())?;
    if flags & NEW_LISTENER != 0 {
        call.host.warn("seccomp with SECCOMP_FILTER_FLAG_NEW_LISTENER is not supported");
        return Err(Errno::EINVAL);
    }
    let now = call.host.thread(call.thread).seccomp.clone();
    let made = Box::new(with_filter(now.as_deref(), filter)?);
    let mut threads = vec![call.thread];
    if flags & TSYNC != 0 {
        threads = call.host.process(call.process).threads.clone();
        let apart = |thread: &&ThreadKey| match (&call.host.threads[thread.0].seccomp, &now) {
            (None, _) => false,
            (Some(other), Some(now)) => !other.is_part_of(now),
            (Some(_), None) => true,
        };
        if let Some(other) = threads.iter().filter(|thread| **thread != call.thread).find(apart) {
            let tid = call.host.processes.shown_pid(call.process, call.host.threads[other.0].tid);
            return if flags & TSYNC_ESRCH != 0 { Err(Errno::ESRCH) } else { done(tid as u64) };
        }
    }
    for thread in threads {
        call.host.thread(thread).seccomp = Some(made.clone());
    }
    done(0)
}

/// Applies a thread's seccomp restrictions to a system call. `Ok` if it is allowed; otherwise its return
/// value, or `None` if the thread is signalled or killed.
#[cold]
pub(crate) fn refuse(
    host: &mut Host,
    key: ThreadKey,
    number: u32,
    arch: u32,
    args: [u64; 6],
) -> Result<(), Option<u64>> {
    let (process, context) = (host.threads[key.0].process, host.threads[key.0].context);
    let instruction = host.machine.regs(context).rip;
    let vdso = host.processes[process.0].mm.map_or(0, |mm| host.spaces[mm.0].vdso);
    // On Linux the vDSO answers without a system call.
    if arch == ARCH_X86_64 && vdso != 0 && (vdso..vdso + PAGE).contains(&instruction) {
        return Ok(());
    }
    let Some(seccomp) = host.threads[key.0].seccomp.as_deref() else { return Ok(()) };
    let verdict = seccomp.verdict(&SeccompData { number, arch, instruction, args });
    match verdict {
        SeccompVerdict::Allow => return Ok(()),
        SeccompVerdict::Fail(errno) => return Err(Some(Errno(errno).as_return())),
        SeccompVerdict::Unanswered => return Err(Some(Errno::ENOSYS.as_return())),
        SeccompVerdict::Trap(value) => {
            const SYS_SECCOMP: i32 = 1;
            let mut info = SigInfo::fault(c::SIGSYS, SYS_SECCOMP, instruction);
            info.errno = value.into();
            info.fields[1] = u64::from(number) | u64::from(arch) << 32;
            host.threads.force_signal(&mut host.processes, key, info);
        }
        SeccompVerdict::KillThread(signal) if host.processes[process.0].threads.len() > 1 => {
            host.exit_thread(key, signal);
        }
        SeccompVerdict::KillThread(signal) => host.kill_process(process, signal),
        SeccompVerdict::KillProcess => host.kill_process(process, c::SIGSYS),
    }
    Err(None)
}
