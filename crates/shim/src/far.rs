//! Program of a far guest's process: it carries out the channel's commands, one at a time.
//!
//! The program is confined to its own part of the address space. It has one thread, no heap and three
//! descriptors: the channel's memory, the socket over which it receives files to map, and standard error on
//! /dev/null. The process is killed at the end of the simulator's thread that started it.

use crate::frame::{self, FrameRegs, SigInfo, UContext};
use crate::layout::{CHANNEL, FAR_STACK, FAR_STACK_SIZE, FAR_WORKER, FIXED_AREA, PAGE, SHIM_AREA, USER_END};
use crate::protocol::{
    self, AWAITED, CHANNEL_FD, Channel, MAX_CALLS, MAX_CPUID, NativeCall, SIMULATOR, SOCKET_FD,
};
use crate::staging;
use crate::system::{call, exit, nr};
use crate::worker::{ARENA, EXCEPTIONS, REGION, TICK_NS, TICK_SIGNAL, Worker};
use crate::{copy, entry};
use core::sync::atomic::Ordering;

const PROT_READ_WRITE: u64 = 3;
const MAP_SHARED: u64 = 1;
const MAP_PRIVATE: u64 = 2;
const MAP_FIXED: u64 = 0x10;
const MAP_ANONYMOUS: u64 = 0x20;
const SIGKILL: u64 = 9;
const SIGTRAP: i32 = 5;
const SIGSYS: i32 = 31;
/// Signal that reports the end of a child.
pub const SIGCHLD: u64 = 17;
const CLONE_PARENT: u64 = 0x8000;
const FUTEX_WAIT: u64 = 0;
const FUTEX_WAKE: u64 = 1;
const PR_SET_PDEATHSIG: u64 = 1;
const PR_SET_NAME: u64 = 15;
const PR_SET_TSC: u64 = 26;
const PR_SET_THP_DISABLE: u64 = 41;
const PR_TSC_SIGSEGV: u64 = 2;
const PR_SET_SYSCALL_USER_DISPATCH: u64 = 59;
const ARCH_CPUID_SET: u64 = 0x1012;
const RLIMIT_CORE: u64 = 4;
const CLOCK_THREAD_CPUTIME_ID: u64 = 3;
const TRAP_FLAG: u64 = 0x100;
const GENERAL_PROTECTION: u64 = 13;

/// Exit statuses for failures before the first command.
const NO_CHANNEL: u8 = 101;
const NO_WORKER: u8 = 102;
const NO_SIGNALS: u8 = 103;
const NO_DISPATCH: u8 = 104;
const ORPHAN: u8 = 105;
/// Exit status if an answer cannot be written: the simulator took its address for memory that cannot fail.
const NO_PLACE: u8 = 106;

fn channel() -> *mut Channel {
    CHANNEL as *mut Channel
}

fn worker() -> *mut Worker {
    FAR_WORKER as *mut Worker
}

/// Makes a system call and ends the process with `status` if it fails.
///
/// # Safety
/// As required by the call.
unsafe fn must(status: u8, number: usize, args: [u64; 6]) -> i64 {
    // SAFETY: the caller's obligation.
    match unsafe { call(number, args) } {
        result if result >= 0 => result,
        _ => exit(status),
    }
}

/// Maps the stack for [`main`], because the stack provided by Linux lies in the guests' area; returns its
/// top.
///
/// # Safety
/// To be called once, as the first action of a fresh process.
pub unsafe fn map_stack() -> u64 {
    let flags = MAP_PRIVATE | MAP_FIXED | MAP_ANONYMOUS;
    // SAFETY: these addresses are unmapped.
    unsafe { must(NO_WORKER, nr::MMAP, [FAR_STACK, FAR_STACK_SIZE, PROT_READ_WRITE, flags, u64::MAX, 0]) };
    FAR_STACK + FAR_STACK_SIZE
}

/// Main function of a process that was started with the channel and the socket as descriptors 0
/// and 1.
///
/// # Safety
/// To be called once in a fresh process linked to run at [`FAR_IMAGE`](crate::layout::FAR_IMAGE), on the
/// stack of [`map_stack`].
pub unsafe fn main() -> ! {
    // SAFETY: the process is fresh: it contains only this code, its stack and the kernel's mappings, and the
    // fixed addresses are free.
    unsafe {
        call(nr::CLOSE_RANGE, [3, u64::from(u32::MAX), 0, 0, 0, 0]);
        map_channel();
        // Linux's own stack and vDSO lie in the guests' area.
        call(nr::MUNMAP, [FIXED_AREA.start, SHIM_AREA.start - FIXED_AREA.start, 0, 0, 0, 0]);
        call(nr::MUNMAP, [SHIM_AREA.end, USER_END - SHIM_AREA.end, 0, 0, 0, 0]);
        settle();
        serve()
    }
}

/// Main function of a process that was forked from the simulator, with these descriptors of the channel and
/// the socket. Of the simulator, the process has only the descriptors and the memory of one guest; calls in
/// the channel unmap ranges that were inherited by accident.
///
/// # Safety
/// To be called once, as the first action of such a process, on a stack of its own.
pub unsafe fn born(memory: u64, socket: u64) -> ! {
    // SAFETY: the caller's obligation.
    unsafe {
        take_over(memory, socket);
        make_calls();
        settle();
        serve()
    }
}

/// Sets up a new process for guests.
///
/// # Safety
/// To be called once, with the channel mapped.
unsafe fn settle() {
    // SAFETY: all strings and structures outlive their calls; the rest is the caller's obligation.
    unsafe {
        call(nr::PRCTL, [PR_SET_NAME, c"belljar-far".as_ptr() as u64, 0, 0, 0, 0]);
        // Guests can query which pages have been touched; huge pages would make neighbouring pages resident
        // as well.
        call(nr::PRCTL, [PR_SET_THP_DISABLE, 1, 0, 0, 0, 0]);
        call(nr::CHDIR, [c"/".as_ptr() as u64, 0, 0, 0, 0, 0]);
        let no_core = [0u64; 2];
        call(nr::PRLIMIT64, [0, RLIMIT_CORE, no_core.as_ptr() as u64, 0, 0, 0]);
        make_worker();
        install_handlers();
        arm();
    }
}

/// Installs the descriptors of a channel and a socket as this process's own, closes all others and maps the
/// channel.
///
/// # Safety
/// No reference to the previously mapped channel may exist.
unsafe fn take_over(memory: u64, socket: u64) {
    // SAFETY: plain numbers.
    unsafe {
        must(NO_CHANNEL, nr::DUP3, [memory, CHANNEL_FD, 0, 0, 0, 0]);
        must(NO_CHANNEL, nr::DUP3, [socket, SOCKET_FD, 0, 0, 0, 0]);
        call(nr::CLOSE_RANGE, [SOCKET_FD + 1, u64::from(u32::MAX), 0, 0, 0, 0]);
        map_channel();
    }
}

/// # Safety
/// No reference to the previously mapped channel may exist.
unsafe fn map_channel() {
    let len = size_of::<Channel>() as u64;
    let args = [CHANNEL, len, PROT_READ_WRITE, MAP_SHARED | MAP_FIXED, CHANNEL_FD, 0];
    // SAFETY: no other mapping lies at these addresses.
    unsafe { must(NO_CHANNEL, nr::MMAP, args) };
}

/// # Safety
/// To be called once.
unsafe fn make_worker() {
    let flags = MAP_PRIVATE | MAP_FIXED | MAP_ANONYMOUS;
    let stack = FAR_WORKER + 2 * PAGE;
    // SAFETY: no other mapping lies at these addresses; the structure is the kernel's `stack_t`.
    unsafe {
        must(NO_WORKER, nr::MMAP, [FAR_WORKER, REGION, PROT_READ_WRITE, flags, u64::MAX, 0]);
        must(NO_WORKER, nr::MPROTECT, [FAR_WORKER + PAGE, PAGE, 0, 0, 0, 0]);
        worker().write(Worker::new(&(*channel()).layout, 0, on_signal));
        ARENA.store(FAR_WORKER, Ordering::Relaxed);
        entry::write_gs_base(FAR_WORKER);
        let alternate = [stack, 0, REGION - 2 * PAGE];
        must(NO_WORKER, nr::SIGALTSTACK, [alternate.as_ptr() as u64, 0, 0, 0, 0, 0]);
    }
}

/// The kernel's `struct sigaction`.
#[repr(C)]
struct Action {
    handler: u64,
    flags: u64,
    restorer: u64,
    mask: u64,
}

const SA_SIGINFO: u64 = 4;
const SA_ONSTACK: u64 = 0x0800_0000;
const SA_NODEFER: u64 = 0x4000_0000;
const SA_RESTART: u64 = 0x1000_0000;
const SA_RESTORER: u64 = 0x0400_0000;

core::arch::global_asm!(
    ".text",
    ".globl belljar_far_restorer",
    ".hidden belljar_far_restorer",
    "belljar_far_restorer:",
    "mov eax, 15",
    "syscall",
);

unsafe extern "C" {
    fn belljar_far_restorer();
}

/// # Safety
/// The worker block must be initialised.
unsafe fn install_handlers() {
    let action = Action {
        handler: entry::signal_entry as *const () as u64,
        // NODEFER: frames are abandoned, so the signal would never be unblocked.
        flags: SA_SIGINFO | SA_ONSTACK | SA_NODEFER | SA_RESTART | SA_RESTORER,
        restorer: belljar_far_restorer as *const () as u64,
        mask: 0,
    };
    let mut blocked = u64::MAX;
    for signal in EXCEPTIONS.into_iter().chain([TICK_SIGNAL]) {
        blocked &= !(1 << (signal - 1));
        let args = [signal as u64, &raw const action as u64, 0, 8, 0, 0];
        // SAFETY: the handler is written for these flags.
        unsafe { must(NO_SIGNALS, nr::RT_SIGACTION, args) };
    }
    const SIG_SETMASK: u64 = 2;
    let args = [SIG_SETMASK, &raw const blocked as u64, 0, 8, 0, 0];
    // SAFETY: the set outlives the call.
    unsafe { must(NO_SIGNALS, nr::RT_SIGPROCMASK, args) };
}

/// Sets up the state that a thread does not inherit by a fork: the parent-death signal, the preemption timer,
/// and the traps of guest code's system calls.
///
/// # Safety
/// The handlers must be installed and the channel mapped.
unsafe fn arm() {
    // SAFETY: plain numbers, and structures that outlive their calls: `struct sigevent` (value,
    // signal, SIGEV_THREAD_ID, thread) and `struct itimerspec`.
    unsafe {
        call(nr::PRCTL, [PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0, 0]);
        if call(nr::GETPPID, [0; 6]) != i64::from((*channel()).parent) {
            exit(ORPHAN);
        }
        const SIGEV_THREAD_ID: u64 = 4;
        let thread = call(nr::GETTID, [0; 6]) as u64;
        let event = [0, TICK_SIGNAL as u64 | SIGEV_THREAD_ID << 32, thread, 0, 0, 0, 0, 0];
        let mut timer = 0i32;
        let args = [CLOCK_THREAD_CPUTIME_ID, event.as_ptr() as u64, &raw mut timer as u64, 0, 0, 0];
        must(NO_DISPATCH, nr::TIMER_CREATE, args);
        let tick = [0, TICK_NS as u64, 0, TICK_NS as u64];
        must(NO_DISPATCH, nr::TIMER_SETTIME, [timer as u64, 0, tick.as_ptr() as u64, 0, 0, 0]);
        let allowed = SHIM_AREA.end - SHIM_AREA.start;
        must(NO_DISPATCH, nr::PRCTL, [PR_SET_SYSCALL_USER_DISPATCH, 1, SHIM_AREA.start, allowed, 0, 0]);
        // Where Linux refuses, the simulator replaces the instructions in images.
        call(nr::PRCTL, [PR_SET_TSC, PR_TSC_SIGSEGV, 0, 0, 0, 0]);
        mourn();
        hurry();
        // No effect on CPUs without CPUID faulting, where guests see the host CPU's own values.
        call(nr::ARCH_PRCTL, [ARCH_CPUID_SET, 0, 0, 0, 0, 0]);
    }
}

/// Has Linux mark the channel's futex word if this thread ends during its turn: `get_robust_list(2)`.
///
/// # Safety
/// The channel must be mapped.
unsafe fn mourn() {
    /// The kernel's `struct robust_list_head`: a list of locks, the offset of the futex in each, and a lock
    /// that is being acquired or released. Only the last one is used.
    #[repr(C)]
    struct Locks {
        next: *const Locks,
        futex_offset: i64,
        pending: u64,
    }
    const _: () = assert!(size_of::<Worker>() + size_of::<Locks>() <= PAGE as usize);
    // SAFETY: the list has a fixed address, behind the worker's block in the same page.
    unsafe {
        let list = worker().add(1).cast::<Locks>();
        let pending = &raw const (*channel()).turn as u64;
        list.write(Locks { next: list, futex_offset: 0, pending });
        let told = call(nr::SET_ROBUST_LIST, [list as u64, size_of::<Locks>() as u64, 0, 0, 0, 0]);
        // Without a robust list the simulator has to poll for the end of the process.
        (*channel()).thread = if told == 0 { call(nr::GETTID, [0; 6]) as u32 } else { protocol::STARTING };
    }
}

/// Asks Linux to schedule this thread as soon as it is woken, before the waking thread has gone to sleep,
/// which then need neither sleep nor be woken. If this is not permitted or not supported, hand-overs are only
/// slower.
fn hurry() {
    /// `struct sched_attr` as of `SCHED_ATTR_SIZE_VER0`.
    #[repr(C)]
    #[derive(Default)]
    struct Attributes {
        size: u32,
        policy: u32,
        flags: u64,
        nice: i32,
        priority: u32,
        runtime: u64,
        deadline: u64,
        period: u64,
    }
    /// Time slice, shorter than that of other threads: the minimum that Linux allows.
    const SLICE_NS: u64 = 100_000;
    let mut attributes = Attributes::default();
    let size = size_of::<Attributes>() as u64;
    // SAFETY: the structure outlives both calls.
    unsafe {
        let at = &raw mut attributes;
        if call(nr::SCHED_GETATTR, [0, at as u64, size, 0, 0, 0]) == 0 && (*at).policy == 0 {
            (*at).runtime = SLICE_NS;
            (*at).flags = 0;
            call(nr::SCHED_SETATTR, [0, at as u64, 0, 0, 0, 0]);
        }
    }
}

/// Main loop: passes the turn, waits for it, carries out the channel's command.
///
/// # Safety
/// All other state must be set up, and it must be this process's turn.
unsafe fn serve() -> ! {
    // SAFETY: only the address is taken.
    let turn = unsafe { &raw const (*channel()).turn };
    loop {
        // SAFETY: the channel is mapped, and during this process's turn the process owns its other parts.
        unsafe {
            if (*turn).swap(SIMULATOR, Ordering::AcqRel) & AWAITED != 0 {
                call(nr::FUTEX, [turn as u64, FUTEX_WAKE, 1, 0, 0, 0]);
            }
            while (*turn).load(Ordering::Acquire) == SIMULATOR {
                call(nr::FUTEX, [turn as u64, FUTEX_WAIT, u64::from(SIMULATOR), 0, 0, 0]);
            }
            answer();
            match (*channel()).command {
                protocol::RESUME => resume(),
                protocol::CALLS => make_calls(),
                protocol::FORK => fork(),
                _ => exit(NO_CHANNEL),
            }
        }
    }
}

/// Writes the simulator's answers to guest memory.
///
/// # Safety
/// It must be this process's turn.
unsafe fn answer() {
    // SAFETY: this process owns the channel now, and the guest does not run.
    unsafe {
        let answers = &mut (*channel()).answers;
        if answers.is_empty() {
            return;
        }
        for (addr, bytes) in answers.iter() {
            if !copy::copy(addr as *mut u8, bytes.as_ptr(), bytes.len()) {
                exit(NO_PLACE);
            }
        }
        answers.clear();
    }
}

/// # Safety
/// The channel's context must be one that the CPU accepts.
unsafe fn resume() {
    let channel = channel();
    // SAFETY: this thread owns the worker and the channel now.
    unsafe {
        (*worker()).resumes += 1;
        (*worker()).target = (*channel).context.resume_at;
        (*worker()).clocks.give(&(*channel).clocks);
        (*channel).came = entry::enter(worker(), &raw mut (*channel).context);
        (*channel).trap = (*worker()).trap;
        (*worker()).clocks.take(&mut (*channel).clocks, &mut (*channel).answered);
        let staged = &mut (*channel).staged;
        staged.clear();
        if (*channel).came == entry::CAME_BY_STUB || (*channel).trap.signal == SIGSYS {
            staging::stage(&(*channel).context.regs, staged);
        }
    }
}

/// # Safety
/// The calls must not affect memory or descriptors that this program needs.
unsafe fn make_calls() {
    let channel = channel();
    let mut received = 0;
    // SAFETY: this process owns the channel now; the calls are the caller's obligation.
    unsafe {
        for at in 0..((*channel).call_count as usize).min(MAX_CALLS) {
            let NativeCall { number, received_fd, mut args } = (*channel).calls[at];
            if let Some(arg) = args.get_mut((received_fd as usize).wrapping_sub(1)) {
                *arg = received;
            }
            let result =
                if number == protocol::RECEIVE_FD { receive_fd() } else { call(number as usize, args) };
            (*channel).results[at] = result;
            if result < 0 && result > -4096 {
                break;
            }
            if number == protocol::RECEIVE_FD {
                received = result as u64;
            }
        }
    }
}

/// Receives the next descriptor from the socket.
fn receive_fd() -> i64 {
    let mut byte = 0u8;
    let part = [&raw mut byte as u64, 1];
    // `struct cmsghdr` and one descriptor, padded.
    let mut control = [0u64; 3];
    // `struct msghdr`: no name, one part, the control block.
    let mut message = [0, 0, part.as_ptr() as u64, 1, control.as_mut_ptr() as u64, 24, 0];
    const MSG_CMSG_CLOEXEC: u64 = 0x4000_0000;
    // SAFETY: all structures outlive the call.
    let got =
        unsafe { call(nr::RECVMSG, [SOCKET_FD, message.as_mut_ptr() as u64, MSG_CMSG_CLOEXEC, 0, 0, 0]) };
    const EBADF: i64 = 9;
    match got {
        1 if message[5] >= 20 => i64::from(control[2] as u32),
        error if error < 0 => error,
        _ => -EBADF,
    }
}

/// # Safety
/// It must be this process's turn.
unsafe fn fork() {
    let (memory, socket) = (receive_fd(), receive_fd());
    // SAFETY: the child has a copy of all private memory, this stack included, and leaves the shared channel
    // alone until it has its own.
    unsafe {
        let child = call(nr::CLONE, [CLONE_PARENT | SIGCHLD, 0, 0, 0, 0, 0]);
        if child == 0 {
            take_over(memory as u64, socket as u64);
            arm();
            serve();
        }
        call(nr::CLOSE, [memory as u64, 0, 0, 0, 0, 0]);
        call(nr::CLOSE, [socket as u64, 0, 0, 0, 0, 0]);
        (*channel()).results[0] = child;
    }
}

/// See [`OnSignal`](crate::worker::OnSignal).
///
/// # Safety
/// Only the entry code may call it.
unsafe extern "C" fn on_signal(
    signal: i32,
    info: *mut SigInfo,
    frame: *mut UContext,
    worker: *mut Worker,
    fs_base: u64,
    gs_base: u64,
) -> u32 {
    // SAFETY: the kernel built the frame; the block belongs to the interrupted thread, and no part of it is
    // borrowed while a guest runs.
    unsafe {
        let regs = &raw mut (*frame).regs;
        let rip = (*regs).rip;
        let running = (*worker).in_guest != 0;
        // A fetch fault at an address of this program without code is a guest's wild jump, and the guest's
        // fault.
        let in_guest = running && (!SHIM_AREA.contains(&rip) || frame::is_fetch_fault(info, frame));
        if signal == TICK_SIGNAL {
            if !in_guest || (*worker).tick_resumes != (*worker).resumes {
                // The first tick in this resume, or a tick of this program's own time.
                if in_guest {
                    (*worker).tick_resumes = (*worker).resumes;
                }
                return 0;
            }
        } else if (*info).code <= 0 {
            die(signal);
        } else if !in_guest {
            if entry::is_entry_code(rip) && signal == SIGTRAP {
                // The guest single-stepped itself into a stub; the step ends here.
                (*regs).rflags &= !TRAP_FLAG;
                return 0;
            }
            if let Some(at) = copy::fixup(rip) {
                (*regs).rip = at;
                return 0;
            }
            die(signal);
        }
        if (*regs).trapno == GENERAL_PROTECTION && answer_cpuid(&mut *regs) {
            return 0;
        }
        frame::save(info, frame, worker, fs_base, gs_base);
        (*worker).in_guest = 0;
        entry::CAME_BY_SIGNAL
    }
}

/// Emulates the instruction at RIP if it replaces a `cpuid` with a known result. A single-stepped one exits
/// to the simulator, so that it is one step.
///
/// # Safety
/// A guest must be running, and `regs` must be its registers.
unsafe fn answer_cpuid(regs: &mut FrameRegs) -> bool {
    // SAFETY: while a guest runs, this process owns the channel.
    let channel = unsafe { &*channel() };
    let places = &channel.cpuid_places[..(channel.cpuid_place_count as usize).min(MAX_CPUID)];
    if regs.rflags & TRAP_FLAG != 0 || !places.contains(&regs.rip) {
        return false;
    }
    let leaf = regs.rax as u32;
    let subleaf = if protocol::has_subleaves(leaf) { regs.rcx as u32 } else { 0 };
    let answers = &channel.cpuid_answers[..(channel.cpuid_answer_count as usize).min(MAX_CPUID)];
    let Some(answer) = answers.iter().find(|answer| answer.leaf == leaf && answer.subleaf == subleaf) else {
        return false;
    };
    [regs.rax, regs.rbx, regs.rcx, regs.rdx] = answer.registers.map(u64::from);
    regs.rip += 2;
    true
}

/// Ends the process by `signal`, as if it had no handler.
fn die(signal: i32) -> ! {
    let action = Action { handler: 0, flags: SA_RESTORER, restorer: 0, mask: 0 };
    // SAFETY: the structure outlives the call.
    unsafe {
        call(nr::RT_SIGACTION, [signal as u64, &raw const action as u64, 0, 8, 0, 0]);
        let thread = call(nr::GETTID, [0; 6]) as u64;
        call(nr::TKILL, [thread, signal as u64, 0, 0, 0, 0]);
    }
    exit(128)
}
