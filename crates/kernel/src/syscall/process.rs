//! Process and thread identity: ids, groups, sessions, exit, `arch_prctl`, `prctl`.

use crate::call::Call;
use crate::outcome::{CallState, Outcome, SysResult, done};
use crate::process::WaitStatus;
use crate::syscall::{capabilities, seccomp};
use crate::trace::trace_event_block;
use belljar_linux_abi::{Errno, c};
use belljar_machine::USER_END;
use belljar_objects::speculation;

const ARCH_SET_GS: i32 = 0x1001;
const ARCH_SET_FS: i32 = 0x1002;
const ARCH_GET_FS: i32 = 0x1003;
const ARCH_GET_GS: i32 = 0x1004;
const ARCH_GET_CPUID: i32 = 0x1011;
const ARCH_SET_CPUID: i32 = 0x1012;

/// exit(2): ends the calling thread only.
pub fn sys_exit(call: &mut Call<'_>) -> SysResult {
    if call.resumed.is_none() && call.host.trace_exit(call.thread, (call.int(0) & 0xff) << 8) {
        return trace_event_block(CallState::TraceEvent(0, None)).into();
    }
    call.host.exit_thread(call.thread, call.int(0));
    Ok(Outcome::Gone)
}

/// exit_group(2).
pub fn sys_exit_group(call: &mut Call<'_>) -> SysResult {
    if call.resumed.is_none() && call.host.trace_exit(call.thread, (call.int(0) & 0xff) << 8) {
        return trace_event_block(CallState::TraceEvent(0, None)).into();
    }
    call.host.end_process(call.process, WaitStatus::Exited(call.int(0) as u8));
    Ok(Outcome::Gone)
}

/// getpid(2).
pub fn sys_getpid(call: &mut Call<'_>) -> SysResult {
    done(call.host.asked_id(call.thread, 0))
}

/// gettid(2).
pub fn sys_gettid(call: &mut Call<'_>) -> SysResult {
    done(call.host.asked_id(call.thread, 1))
}

/// getppid(2): 1 for orphans and for processes started by the experiment.
pub fn sys_getppid(call: &mut Call<'_>) -> SysResult {
    done(call.host.asked_id(call.thread, 2))
}

/// getpgid(2).
pub fn sys_getpgid(call: &mut Call<'_>) -> SysResult {
    if call.int(0) == 1 {
        return done(1);
    }
    let process = call.host.threads.find_task(&call.host.processes, call.thread, call.int(0))?;
    done(call.host.process(process).pgid as u64)
}

/// getpgrp(2).
pub fn sys_getpgrp(call: &mut Call<'_>) -> SysResult {
    done(call.host.asked_id(call.thread, 3))
}

/// getsid(2).
pub fn sys_getsid(call: &mut Call<'_>) -> SysResult {
    if call.int(0) == 1 {
        return done(1);
    }
    let process = call.host.threads.find_task(&call.host.processes, call.thread, call.int(0))?;
    done(call.host.process(process).sid as u64)
}

/// setpgid(2).
pub fn sys_setpgid(call: &mut Call<'_>) -> SysResult {
    call.host.processes.set_group(call.process, call.int(0), call.int(1))?;
    done(0)
}

/// setsid(2).
pub fn sys_setsid(call: &mut Call<'_>) -> SysResult {
    done(call.host.processes.new_session(call.process)? as u64)
}

/// set_tid_address(2).
pub fn sys_set_tid_address(call: &mut Call<'_>) -> SysResult {
    let thread = call.host.thread(call.thread);
    thread.clear_child_tid = call.args[0];
    done(thread.tid as u64)
}

/// umask(2).
pub fn sys_umask(call: &mut Call<'_>) -> SysResult {
    let mask = call.uint(0) & 0o777;
    done(u64::from(std::mem::replace(&mut call.host.process(call.process).umask, mask)))
}

/// personality(2): stored and reported; no effect.
pub fn sys_personality(call: &mut Call<'_>) -> SysResult {
    let new = call.uint(0);
    let current = &mut call.host.process(call.process).attributes.personality;
    let old = *current;
    if new != u32::MAX {
        *current = new;
    }
    done(u64::from(old))
}

/// arch_prctl(2).
pub fn sys_arch_prctl(call: &mut Call<'_>) -> SysResult {
    let addr = call.args[1];
    let context = call.host.thread(call.thread).context;
    match call.int(0) {
        ARCH_SET_FS | ARCH_SET_GS if addr >= USER_END => Err(Errno::EPERM),
        ARCH_SET_FS => {
            call.host.machine.regs_mut(context).fs_base = addr;
            done(0)
        }
        ARCH_GET_FS => {
            let base = call.host.machine.regs(context).fs_base;
            call.write(addr, &base)?;
            done(0)
        }
        ARCH_GET_GS => {
            let base = call.host.machine.regs(context).gs_base;
            call.write(addr, &base)?;
            done(0)
        }
        ARCH_SET_GS => {
            // The platform's patched call sites use GS, so the original code is restored first.
            let space = call.mm();
            let space = call.host.mm(space).space;
            call.host.machine.show_original_code(space);
            call.host.machine.regs_mut(context).gs_base = addr;
            done(0)
        }
        // CPUID is always enabled; CPUID faulting is not supported.
        ARCH_GET_CPUID => done(1),
        ARCH_SET_CPUID => Err(Errno::ENODEV),
        _ => Err(Errno::EINVAL),
    }
}

/// prctl(2).
pub fn sys_prctl(call: &mut Call<'_>) -> SysResult {
    let (option, value) = (call.int(0), call.args[1]);
    let rest = [call.args[2], call.args[3], call.args[4]];
    let attributes = &mut call.host.process(call.process).attributes;
    match option {
        c::PR_SET_NAME => set_name(call, value),
        c::PR_GET_NAME => {
            let mut name = [0; 16];
            let comm = &call.host.thread(call.thread).comm;
            name[..comm.len()].copy_from_slice(comm);
            call.write_bytes(value, &name)?;
            done(0)
        }
        c::PR_SET_PDEATHSIG if value > 64 => Err(Errno::EINVAL),
        c::PR_SET_PDEATHSIG => {
            attributes.parent_death_signal = value as i32;
            done(0)
        }
        c::PR_GET_PDEATHSIG => {
            let signal = attributes.parent_death_signal;
            call.write(value, &signal)?;
            done(0)
        }
        c::PR_SET_DUMPABLE if value > 1 => Err(Errno::EINVAL),
        c::PR_SET_DUMPABLE => {
            attributes.dumpable = value;
            done(0)
        }
        c::PR_GET_DUMPABLE => done(attributes.dumpable),
        c::PR_SET_NO_NEW_PRIVS if value != 1 || rest != [0; 3] => Err(Errno::EINVAL),
        c::PR_GET_NO_NEW_PRIVS if value != 0 || rest != [0; 3] => Err(Errno::EINVAL),
        c::PR_SET_NO_NEW_PRIVS => {
            attributes.no_new_privs = true;
            done(0)
        }
        c::PR_GET_NO_NEW_PRIVS => done(u64::from(attributes.no_new_privs)),
        c::PR_SET_CHILD_SUBREAPER => {
            attributes.is_subreaper = value != 0;
            done(0)
        }
        c::PR_GET_CHILD_SUBREAPER => {
            let flag = i32::from(attributes.is_subreaper);
            call.write(value, &flag)?;
            done(0)
        }
        c::PR_SET_KEEPCAPS if value > 1 => Err(Errno::EINVAL),
        c::PR_SET_KEEPCAPS => {
            call.host.process(call.process).credentials.capabilities.keep(value != 0)?;
            done(0)
        }
        c::PR_GET_KEEPCAPS => {
            done(u64::from(call.host.process(call.process).credentials.capabilities.kept()))
        }
        c::PR_SET_THP_DISABLE | c::PR_GET_THP_DISABLE if call.args[2..5] != [0; 3] => Err(Errno::EINVAL),
        c::PR_SET_THP_DISABLE => {
            attributes.no_huge_pages = value != 0;
            done(0)
        }
        c::PR_GET_THP_DISABLE => done(u64::from(attributes.no_huge_pages)),
        c::PR_SET_TIMERSLACK => {
            attributes.timer_slack = if value == 0 { attributes.timer_slack_default } else { value };
            done(0)
        }
        c::PR_GET_TIMERSLACK => done(attributes.timer_slack),
        c::PR_CAPBSET_READ
        | c::PR_CAPBSET_DROP
        | c::PR_GET_SECUREBITS
        | c::PR_SET_SECUREBITS
        | c::PR_CAP_AMBIENT => capabilities::sys_prctl_capabilities(call),
        c::PR_GET_TSC => {
            let state = if attributes.counter_faults { c::PR_TSC_SIGSEGV } else { c::PR_TSC_ENABLE };
            call.write(value, &state)?;
            done(0)
        }
        c::PR_SET_TSC => {
            attributes.counter_faults = match value as i32 {
                c::PR_TSC_ENABLE => false,
                c::PR_TSC_SIGSEGV => true,
                _ => return Err(Errno::EINVAL),
            };
            done(0)
        }
        c::PR_GET_TID_ADDRESS => {
            let address = call.host.thread(call.thread).clear_child_tid;
            call.write(value, &address)?;
            done(0)
        }
        c::PR_GET_SECCOMP => done(call.host.thread(call.thread).seccomp.as_ref().map_or(0, |own| own.mode())),
        c::PR_SET_SECCOMP => seccomp::sys_prctl_seccomp(call),
        c::PR_MCE_KILL_GET => done(0),
        c::PR_GET_SPECULATION_CTRL if call.args[2..5] != [0; 3] => Err(Errno::EINVAL),
        c::PR_GET_SPECULATION_CTRL => done(speculation::get(value)?),
        c::PR_SET_SPECULATION_CTRL if call.args[3..5] != [0; 2] => Err(Errno::EINVAL),
        c::PR_SET_SPECULATION_CTRL => done(speculation::set(value, call.args[2]).map(|()| 0)?),
        // Other options, such as naming mappings or tagged addresses: `EINVAL`, as on old or small kernels.
        _ => Err(Errno::EINVAL),
    }
}

fn set_name(call: &mut Call<'_>, addr: u64) -> SysResult {
    // Longer names are truncated, so only the first 15 bytes are read.
    let mut name = Vec::new();
    for at in 0..15 {
        let byte: u8 = call.read(addr + at)?;
        if byte == 0 {
            break;
        }
        name.push(byte);
    }
    call.host.thread(call.thread).comm = name;
    done(0)
}
