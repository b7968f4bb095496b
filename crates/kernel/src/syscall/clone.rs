//! clone(2), clone3(2), fork(2), vfork(2).

use crate::call::Call;
use crate::credentials::capability;
use crate::outcome::{Block, CallState, IfInterrupted, SysResult, done};
use crate::task::CloneRequest;
use crate::trace::trace_event_block;
use belljar_linux_abi::ptrace::TraceEvent;
use belljar_linux_abi::{Errno, c};
use belljar_objects::namespaces::{ALL_KINDS, NamespaceKind};

/// Mask of the exit signal in `clone`'s flags.
const SIGNAL_MASK: u64 = 0xff;
/// First published size of `struct clone_args`.
const CLONE_ARGS_MIN: usize = 64;
/// `MAX_PID_NS_LEVEL`.
const MAX_PID_LEVELS: u64 = 32;
/// Flags of `clone3` only.
const CLONE_CLEAR_SIGHAND: u64 = 0x1_0000_0000;

/// clone(2).
pub fn sys_clone(call: &mut Call<'_>) -> SysResult {
    let [flags, stack, parent_tid, child_tid, tls, _] = call.args;
    let request = CloneRequest {
        flags: flags & 0xffff_ffff & !SIGNAL_MASK,
        exit_signal: (flags & SIGNAL_MASK) as i32,
        stack,
        tls,
        parent_tid,
        child_tid,
        pidfd: parent_tid,
    };
    if request.flags & c::CLONE_PIDFD as u64 != 0 && request.flags & c::CLONE_PARENT_SETTID as u64 != 0 {
        return Err(Errno::EINVAL);
    }
    run(call, request)
}

/// fork(2).
pub fn sys_fork(call: &mut Call<'_>) -> SysResult {
    run(call, CloneRequest { exit_signal: c::SIGCHLD, ..CloneRequest::default() })
}

/// vfork(2).
pub fn sys_vfork(call: &mut Call<'_>) -> SysResult {
    let flags = (c::CLONE_VM | c::CLONE_VFORK) as u64;
    run(call, CloneRequest { flags, exit_signal: c::SIGCHLD, ..CloneRequest::default() })
}

/// clone3(2).
pub fn sys_clone3(call: &mut Call<'_>) -> SysResult {
    let [addr, size, ..] = call.args;
    let words: [u64; 11] = call.read_extensible(addr, size, CLONE_ARGS_MIN)?;
    let [flags, pidfd, child_tid, parent_tid, exit_signal, stack, stack_size, tls, set_tid, tids, cgroup] =
        words;
    let has_stack = stack != 0;
    if flags & SIGNAL_MASK & !(c::CLONE_NEWTIME as u64) != 0
        || exit_signal > 64
        || has_stack != (stack_size != 0)
        || tids > MAX_PID_LEVELS
        || (set_tid != 0) != (tids != 0)
        || flags & CLONE_CLEAR_SIGHAND != 0 && flags & c::CLONE_SIGHAND as u64 != 0
    {
        return Err(Errno::EINVAL);
    }
    if set_tid != 0 {
        let processes = &call.host.processes;
        processes.require_for(call.process, NamespaceKind::Pid, capability::SYS_ADMIN).or_else(|_| {
            processes.require_for(call.process, NamespaceKind::Pid, capability::CHECKPOINT_RESTORE)
        })?;
    }
    if set_tid != 0 || cgroup != 0 {
        call.host.warn("clone3 with set_tid or cgroup is not supported");
        return Err(Errno::EINVAL);
    }
    let stack = if has_stack { stack.wrapping_add(stack_size) } else { 0 };
    let exit_signal = exit_signal as i32;
    run(call, CloneRequest { flags, exit_signal, stack, tls, parent_tid, child_tid, pidfd })
}

fn run(call: &mut Call<'_>, request: CloneRequest) -> SysResult {
    match call.take_state() {
        CallState::Vfork(pid) if call.host.trace_vfork_done(call.thread, pid) => {
            return trace_event_block(CallState::TraceEvent(pid as u64, None)).into();
        }
        CallState::Vfork(pid) => return done(pid as u64),
        CallState::TraceEvent(_, Some(pid)) => return wait_for_vfork(call, pid),
        CallState::TraceEvent(value, None) => return done(value),
        _ => {}
    }
    let (child, tid) = call.host.clone_task(call.thread, &request)?;
    if request.flags & CLONE_CLEAR_SIGHAND != 0 {
        let process = call.host.thread(child).process;
        call.host.process(process).signals.reset_handlers();
    }
    let waits = request.flags & c::CLONE_VFORK as u64 != 0;
    if call.host.thread(call.thread).trace.is_some() && request.flags & c::CLONE_UNTRACED as u64 == 0 {
        let event = match (waits, request.exit_signal) {
            (true, _) => TraceEvent::Vfork,
            (false, c::SIGCHLD) => TraceEvent::Fork,
            _ => TraceEvent::Clone,
        };
        if call.host.trace_child(call.thread, child, event) {
            let state = CallState::TraceEvent(tid as u64, waits.then_some(tid));
            return trace_event_block(state).into();
        }
    }
    if !waits {
        return done(tid as u64);
    }
    Block::until(None).with_state(CallState::Vfork(tid)).interrupted(IfInterrupted::Killable).into()
}

/// Waits for a `vfork` child after the tracer has resumed the caller, unless the child has already executed a
/// program or exited.
fn wait_for_vfork(call: &mut Call<'_>, pid: i32) -> SysResult {
    let child = call.host.processes.by_pid.get(&pid).copied();
    if child.is_some_and(|child| call.host.process(child).vfork_parent == Some(call.thread)) {
        return Block::until(None)
            .with_state(CallState::Vfork(pid))
            .interrupted(IfInterrupted::Killable)
            .into();
    }
    if call.host.trace_vfork_done(call.thread, pid) {
        return trace_event_block(CallState::TraceEvent(pid as u64, None)).into();
    }
    done(pid as u64)
}

/// setns(2).
pub fn sys_setns(call: &mut Call<'_>) -> SysResult {
    let file = call.host.file_of(call.process, call.int(0))?;
    call.enter_namespaces(file, call.int(1))
}

/// unshare(2).
pub fn sys_unshare(call: &mut Call<'_>) -> SysResult {
    let flags = call.int(0);
    let own = c::CLONE_FILES | c::CLONE_FS | c::CLONE_SYSVSEM;
    let shared_by_threads = c::CLONE_THREAD | c::CLONE_SIGHAND | c::CLONE_VM;
    if flags & !(ALL_KINDS | own | shared_by_threads) != 0 {
        return Err(Errno::EINVAL);
    }
    // Resources shared by threads can be unshared by a single-threaded process only.
    let alone = call.host.process(call.process).threads.len() == 1;
    if flags & (shared_by_threads | c::CLONE_NEWUSER) != 0 && !alone {
        return Err(Errno::EINVAL);
    }
    call.host.check_namespaces(flags & ALL_KINDS, !alone)?;
    let mut who = call.host.process(call.process).credentials.clone();
    if flags & c::CLONE_NEWUSER != 0 {
        call.host.processes.check_not_confined(call.process)?;
        call.host.processes.namespaces.users.create(&mut who)?;
    }
    if flags & ALL_KINDS & !c::CLONE_NEWUSER != 0 && !who.has(capability::SYS_ADMIN) {
        return Err(Errno::EPERM);
    }
    // Check for failure before the first change.
    if flags & c::CLONE_FILES != 0 {
        call.host.check_own_fd_table(call.thread, usize::MAX)?;
    }
    let mut of = call.host.process(call.process).attributes.namespaces;
    call.host.processes.namespaces.unshare(flags, &mut of, who.user_namespace)?;
    if flags & c::CLONE_NEWNET != 0 {
        call.host.make_network(of.net);
        call.host.networks.left = true;
    }
    let process = call.host.process(call.process);
    process.credentials = who;
    process.set_namespaces(of);
    if flags & c::CLONE_NEWNS != 0 {
        call.host.own_mounts(call.process);
    }
    if flags & c::CLONE_NEWTIME != 0 {
        call.host.processes.unshare_time(call.process);
    }
    if flags & c::CLONE_FILES != 0 {
        call.host.unshare_fd_table(call.thread);
    }
    done(0)
}
