//! ptrace(2), process_vm_readv(2), process_vm_writev(2).

use crate::call::Call;
use crate::guest::GuestBuffers;
use crate::ids::{ProcessKey, ThreadKey};
use crate::outcome::{SysResult, done};
use crate::rights::AccessIds;
use crate::signal::UNBLOCKABLE;
use crate::trace::breakpoints;
use belljar_linux_abi::ptrace::*;
use belljar_linux_abi::signal::{NSIG, SigInfo};
use belljar_linux_abi::{Errno, c};
use belljar_objects::debug_registers::DebugRegisters;
use belljar_objects::space::PAGE;
use belljar_objects::tracees::{Resume, Stop};
use zerocopy::{FromBytes, IntoBytes};

/// Register set types, `NT_*`.
const NT_PRSTATUS: u64 = 1;
const NT_PRFPREG: u64 = 2;
const NT_X86_XSTATE: u64 = 0x202;
/// Size of an FXSAVE image in bytes.
const FXSAVE: usize = 512;
/// Size of `struct user` in bytes, and the range of the debug registers.
const USER: u64 = 912;
const DEBUG_REGISTERS: std::ops::Range<u64> = 848..USER;

/// ptrace(2).
pub fn sys_ptrace(call: &mut Call<'_>) -> SysResult {
    let [request, _, addr, data, ..] = call.args;
    let (request, pid) = (u32::try_from(request).map_err(|_| Errno::EIO)?, call.int(1));
    match request {
        TRACEME => {
            call.host.threads.trace_me(&call.host.processes, call.thread)?;
            return done(0);
        }
        ATTACH | SEIZE => {
            let Some(&target) = call.host.threads.by_tid.get(&pid) else {
                // A process that has ended is there until its parent has waited for it.
                let is_zombie = call.host.processes.by_pid.get(&pid).is_some();
                return Err(if is_zombie { Errno::EPERM } else { Errno::ESRCH });
            };
            if request == SEIZE && addr != 0 {
                return Err(Errno::EIO);
            }
            let options = TraceOptions::from_bits(data).ok_or(Errno::EIO);
            let seize = if request == SEIZE { Some(options?) } else { None };
            call.host.trace_attach(call.process, target, seize)?;
            return done(0);
        }
        _ => {}
    }
    let tracee = tracee(call, pid)?;
    if request == INTERRUPT {
        if !call.host.thread(tracee).trace.as_ref().is_some_and(|trace| trace.seized) {
            return Err(Errno::EIO);
        }
        call.host.trace_interrupt(tracee);
        return done(0);
    }
    let stop = call.host.thread(tracee).trace.as_ref().and_then(|trace| trace.stop);
    if request == KILL {
        let process = call.host.thread(tracee).process;
        if stop.is_some() {
            call.host.kill_process(process, c::SIGKILL);
        }
        return done(0);
    }
    let stop = stop.ok_or(Errno::ESRCH)?;
    match request {
        PEEKTEXT | PEEKDATA | PEEKUSER | POKETEXT | POKEDATA | POKEUSER => {
            word(call, tracee, request, addr, data)?;
        }
        CONT | SYSCALL | SINGLESTEP | DETACH => {
            let signal =
                i32::try_from(data).ok().filter(|signal| (0..=NSIG).contains(signal)).ok_or(Errno::EIO)?;
            let how = match request {
                CONT => Resume::Continue,
                SYSCALL => Resume::UntilCall,
                SINGLESTEP => Resume::Step,
                _ => Resume::Detach,
            };
            // The signal is used only in signal and system-call stops, and for `PTRACE_DETACH`.
            let takes =
                matches!(stop, Stop::Signal(_) | Stop::CallEntry | Stop::CallExit) || how == Resume::Detach;
            call.host.trace_resume(tracee, how, if takes { signal } else { 0 });
        }
        LISTEN => {
            let stops = |stop| matches!(stop, Stop::Group(_) | Stop::Event(TraceEvent::Stop));
            if !stops(stop) {
                return Err(Errno::EIO);
            }
            call.host.trace_resume(tracee, Resume::Listen, 0);
        }
        SETOPTIONS => {
            let options = TraceOptions::from_bits(data).ok_or(Errno::EINVAL)?;
            if let Some(trace) = &mut call.host.thread(tracee).trace {
                trace.options = options;
            }
        }
        GETEVENTMSG => {
            let trace = call.host.thread(tracee).trace.as_deref();
            let (message, names_thread) =
                trace.map_or((0, false), |trace| (trace.message, trace.message_names_thread()));
            let message = match names_thread {
                true => call.host.processes.shown_pid(call.process, message as i32) as u64,
                false => message,
            };
            call.write(data, &message)?;
        }
        GETSIGINFO => {
            let info = signal_info(call, tracee, stop)?;
            call.write(data, &info)?;
        }
        SETSIGINFO => {
            let info: SigInfo = call.read(data)?;
            if let Some(trace) = &mut call.host.thread(tracee).trace {
                trace.info = Some(info);
            }
        }
        GETSIGMASK | SETSIGMASK => {
            if addr != 8 {
                return Err(Errno::EINVAL);
            }
            if request == GETSIGMASK {
                let blocked = call.host.thread(tracee).signals.blocked;
                call.write(data, &blocked)?;
            } else {
                let mask: u64 = call.read(data)?;
                call.host.set_blocked(tracee, mask & !UNBLOCKABLE);
            }
        }
        GETREGS => {
            let regs = call.host.trace_regs(tracee);
            call.write(data, &regs)?;
        }
        SETREGS => {
            let regs: UserRegs = call.read(data)?;
            call.host.set_trace_regs(tracee, &regs)?;
        }
        GETFPREGS => {
            let state = vector_state(call, tracee);
            call.write_bytes(data, &state[..FXSAVE])?;
        }
        SETFPREGS => {
            let state = call.read_vec(data, FXSAVE)?;
            let context = call.host.thread(tracee).context;
            call.host.machine.set_xstate(context, &state);
        }
        GETREGSET | SETREGSET => register_set(call, tracee, request == SETREGSET, addr, data)?,
        GET_SYSCALL_INFO => {
            let info = call.host.trace_call_info(tracee);
            let len = info.size().min(addr as usize);
            call.write_bytes(data, &info.as_bytes()[..len])?;
            return done(info.size() as u64);
        }
        _ => return Err(Errno::EIO),
    }
    done(0)
}

/// Tracee of the caller with this thread id; `ESRCH` for others.
fn tracee(call: &Call<'_>, tid: i32) -> Result<ThreadKey, Errno> {
    let key = *call.host.threads.by_tid.get(&tid).ok_or(Errno::ESRCH)?;
    let trace = call.host.threads[key.0].trace.as_ref().ok_or(Errno::ESRCH)?;
    if trace.tracer == call.process { Ok(key) } else { Err(Errno::ESRCH) }
}

fn vector_state(call: &Call<'_>, tracee: ThreadKey) -> Vec<u8> {
    let mut state = Vec::new();
    call.host.machine.xstate(call.host.threads[tracee.0].context, &mut state);
    state
}

/// Reads or writes a word of a tracee's memory or `struct user`.
fn word(call: &mut Call<'_>, tracee: ThreadKey, request: u32, addr: u64, data: u64) -> Result<(), Errno> {
    let process = call.host.thread(tracee).process;
    let mm = call.host.process(process).mm.ok_or(Errno::ESRCH)?;
    match request {
        PEEKTEXT | PEEKDATA => {
            let mut bytes = [0; 8];
            if call.host.peek(mm, addr, &mut bytes) < bytes.len() {
                return Err(Errno::EIO);
            }
            call.write_bytes(data, &bytes)
        }
        POKETEXT | POKEDATA => {
            call.host.show_code(process);
            call.host.poke(mm, addr, &data.to_le_bytes())
        }
        _ => {
            if !addr.is_multiple_of(8) || addr >= USER {
                return Err(Errno::EIO);
            }
            let mut regs = call.host.trace_regs(tracee);
            let place = regs.as_mut_bytes().get_mut(addr as usize..addr as usize + 8);
            match (request, place) {
                (PEEKUSER, None) if DEBUG_REGISTERS.contains(&addr) => {
                    let number = (addr - DEBUG_REGISTERS.start) as usize / 8;
                    let trace = call.host.thread(tracee).trace.as_ref();
                    let debug = trace.and_then(|trace| trace.debug.as_deref());
                    let value =
                        debug.map_or_else(|| DebugRegisters::default().get(number), |d| d.get(number));
                    call.write(data, &value)
                }
                (PEEKUSER, place) => {
                    let value = place.map_or([0; 8], |bytes| (*bytes).try_into().expect("eight bytes"));
                    call.write_bytes(data, &value)
                }
                (_, Some(place)) => {
                    place.copy_from_slice(&data.to_le_bytes());
                    call.host.set_trace_regs(tracee, &regs)
                }
                (_, None) if DEBUG_REGISTERS.contains(&addr) => {
                    let trace = call.host.thread(tracee).trace.as_mut().ok_or(Errno::ESRCH)?;
                    let number = (addr - DEBUG_REGISTERS.start) as usize / 8;
                    trace.debug.get_or_insert_default().set(number, data)?;
                    // Changes count from now on.
                    breakpoints::compare_at_first(call.host, tracee);
                    Ok(())
                }
                (_, None) => Err(Errno::EIO),
            }
        }
    }
}

/// `PTRACE_GETREGSET`, `PTRACE_SETREGSET`: `data` is a `struct iovec`.
fn register_set(
    call: &mut Call<'_>,
    tracee: ThreadKey,
    set: bool,
    kind: u64,
    data: u64,
) -> Result<(), Errno> {
    let [base, len]: [u64; 2] = call.read(data)?;
    let mut image = match kind {
        NT_PRSTATUS => call.host.trace_regs(tracee).as_bytes().to_vec(),
        NT_PRFPREG => vector_state(call, tracee)[..FXSAVE].to_vec(),
        NT_X86_XSTATE => vector_state(call, tracee),
        _ => return Err(Errno::EINVAL),
    };
    let len = image.len().min(len as usize);
    if !set {
        call.write_bytes(base, &image[..len])?;
    } else {
        call.read_bytes(base, &mut image[..len])?;
        if kind == NT_PRSTATUS {
            let regs = UserRegs::read_from_bytes(&image).map_err(|_| Errno::EINVAL)?;
            call.host.set_trace_regs(tracee, &regs)?;
        } else {
            let context = call.host.thread(tracee).context;
            call.host.machine.set_xstate(context, &image);
        }
    }
    call.write(data, &[base, len as u64])
}

/// `PTRACE_GETSIGINFO`.
fn signal_info(call: &mut Call<'_>, tracee: ThreadKey, stop: Stop) -> Result<SigInfo, Errno> {
    let tid = call.host.processes.shown_pid(call.process, call.host.threads[tracee.0].tid);
    let Some(trace) = &call.host.thread(tracee).trace else { return Err(Errno::ESRCH) };
    match stop {
        Stop::Signal(_) => trace.info.ok_or(Errno::EINVAL),
        Stop::Group(_) if !trace.seized => Err(Errno::EINVAL),
        stop => Ok(SigInfo::user(c::SIGTRAP, trace.status(stop), tid, 0)),
    }
}

/// process_vm_readv(2).
pub fn sys_process_vm_readv(call: &mut Call<'_>) -> SysResult {
    let (process, local, remote) = other_memory(call)?;
    copy(call, &remote, &local, |call, from, to, bytes| {
        call.host.read_guest(process, from, bytes)?;
        call.write_bytes(to, bytes)
    })
}

/// process_vm_writev(2).
pub fn sys_process_vm_writev(call: &mut Call<'_>) -> SysResult {
    let (process, local, remote) = other_memory(call)?;
    copy(call, &local, &remote, |call, from, to, bytes| {
        call.read_bytes(from, bytes)?;
        call.host.write_guest(process, to, bytes)
    })
}

/// Process of a call and the buffers of both sides, after the permission check.
fn other_memory(call: &Call<'_>) -> Result<(ProcessKey, GuestBuffers, GuestBuffers), Errno> {
    let [_, local, local_count, remote, remote_count, flags] = call.args;
    if flags != 0 {
        return Err(Errno::EINVAL);
    }
    let (local, remote) = (call.read_iovecs(local, local_count)?, call.read_iovecs(remote, remote_count)?);
    let thread = *call.host.threads.by_tid.get(&call.int(0)).ok_or(Errno::ESRCH)?;
    let process = call.host.threads[thread.0].process;
    call.host.processes.may_access(call.process, process, AccessIds::Real)?;
    Ok((process, local, remote))
}

/// Copies bytes between two buffer lists, at most a page at a time. Returns the number copied; an error only
/// if that is 0.
fn copy(
    call: &mut Call<'_>,
    from: &GuestBuffers,
    to: &GuestBuffers,
    mut step: impl FnMut(&mut Call<'_>, u64, u64, &mut [u8]) -> Result<(), Errno>,
) -> SysResult {
    let (mut sources, mut targets) = (from.iter().copied(), to.iter().copied());
    let (mut source, mut target) = ((0, 0), (0, 0));
    let mut moved = 0;
    let mut page = [0; PAGE as usize];
    loop {
        while source.1 == 0 {
            match sources.next() {
                Some(next) => source = next,
                None => return done(moved),
            }
        }
        while target.1 == 0 {
            match targets.next() {
                Some(next) => target = next,
                None => return done(moved),
            }
        }
        let room = |addr: u64| PAGE - addr % PAGE;
        let len = source.1.min(target.1).min(room(source.0)).min(room(target.0));
        match step(call, source.0, target.0, &mut page[..len as usize]) {
            Ok(()) => {}
            Err(errno) if moved == 0 => return Err(errno),
            Err(_) => return done(moved),
        }
        moved += len;
        source = (source.0 + len, source.1 - len);
        target = (target.0 + len, target.1 - len);
    }
}
