//! The two signals that the shim owns: SIGSYS, raised by the filter, and SIGSEGV, raised by `rdtsc`.
//!
//! A guest may have handlers of its own for both. The kernel's record of a handler includes the address of
//! the code that returns from it (the restorer), which on x86-64 is the C library's. The shim stores the
//! guest's handler there, and the entries below substitute their own restorer when a signal arrives. Changes
//! made by a `vfork`ed child thus remain the child's, as they do in the kernel.

use super::calls::{self, nr};
use super::clock::{BY_SIGNALS, Now};
use super::memory::{native, read, result, write};
use super::{error, filter, layout, waits};
use crate::copy;
use crate::frame::{SigInfo, UContext};

const SIGSEGV: u64 = 11;
const SIGCHLD: u64 = 17;
const SIGSYS: u64 = 31;
/// Signals that guests cannot block.
const OURS: u64 = 1 << (SIGSEGV - 1) | 1 << (SIGSYS - 1);
const SIG_DFL: u64 = 0;
const SIG_IGN: u64 = 1;
const SA_NOCLDSTOP: u64 = 1;
const SA_SIGINFO: u64 = 4;
const SA_RESTORER: u64 = 0x0400_0000;
const SA_ONSTACK: u64 = 0x0800_0000;
const SA_RESTART: u64 = 0x1000_0000;
const SA_NODEFER: u64 = 0x4000_0000;
const SA_RESETHAND: u64 = 0x8000_0000;
/// Offset of `uc_sigmask` in `struct ucontext`: after flags, link, stack and 256 bytes of registers.
const MASK_AT: usize = 40 + 256;
const SYS_SECCOMP: i32 = 1;
const GENERAL_PROTECTION: u64 = 13;

core::arch::global_asm!(
    ".text",
    // The kernel calls these (signal: rdi, info: rsi, context: rdx) with the guest's handler as the return
    // address. The functions return the address of a handler to continue with, or 0.
    ".globl belljar_dilate_on_call",
    ".hidden belljar_dilate_on_call",
    "belljar_dilate_on_call:",
    "lea r8, [rip + {on_call}]",
    "jmp 2f",
    ".globl belljar_dilate_on_fault",
    ".hidden belljar_dilate_on_fault",
    "belljar_dilate_on_fault:",
    "lea r8, [rip + {on_fault}]",
    "2:",
    "mov rcx, [rsp]",
    "lea rax, [rip + belljar_dilate_restore]",
    "mov [rsp], rax",
    "push rdi",
    "push rsi",
    "push rdx",
    "cld",
    "call r8",
    "pop rdx",
    "pop rsi",
    "pop rdi",
    "test rax, rax",
    "jz 3f",
    "jmp rax",
    "3:",
    "ret",
    ".globl belljar_dilate_restore",
    ".hidden belljar_dilate_restore",
    "belljar_dilate_restore:",
    "mov eax, 15",
    "syscall",
    on_call = sym on_call,
    on_fault = sym on_fault,
);

unsafe extern "C" {
    fn belljar_dilate_on_call();
    fn belljar_dilate_on_fault();
}

/// The kernel's `struct sigaction`: handler, flags, restorer, mask.
type Action = [u64; 4];

/// The action for SIGSYS; `guest` is the guest's own handler.
fn for_calls(guest: u64) -> Action {
    let flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER | SA_RESTART | SA_RESTORER;
    [belljar_dilate_on_call as *const () as u64, flags, guest, 0]
}

/// The action for SIGSEGV that preserves the flags and mask of the guest's own handler.
fn for_faults(guest: Action) -> Action {
    let flags = guest[1] & !SA_RESETHAND | SA_SIGINFO | SA_NODEFER | SA_RESTORER;
    [belljar_dilate_on_fault as *const () as u64, flags, guest[0], guest[3] & !OURS]
}

fn set(signal: u64, action: &Action) -> i64 {
    native(nr::RT_SIGACTION, [signal, action.as_ptr() as u64, 0, 8, 0, 0])
}

/// Installs the handlers of both signals in a process that has just executed the shim.
pub fn install() {
    let mut mask = OURS;
    native(nr::RT_SIGPROCMASK, [1, &raw mut mask as u64, 0, 8, 0, 0]);
    set(SIGSYS, &for_calls(SIG_DFL));
    set(SIGSEGV, &for_faults([SIG_DFL, SA_ONSTACK, 0, 0]));
}

/// SIGSYS: handles the call.
///
/// # Safety
/// Only the entry may call it.
unsafe extern "C" fn on_call(_: i32, info: *mut SigInfo, frame: *mut UContext, guest: u64) -> u64 {
    // SAFETY: the kernel built both.
    let (info, regs) = unsafe { (&*info, &mut (*frame).regs) };
    if info.code != SYS_SECCOMP || info.errno as u32 != filter::MARK {
        return pass_on(SIGSYS, info.code, guest);
    }
    let args = [regs.rdi, regs.rsi, regs.rdx, regs.r10, regs.r8, regs.r9];
    // SAFETY: the mask lies in the frame, behind the fields of `UContext`.
    let mask = unsafe { &mut *frame.cast::<u8>().add(MASK_AT).cast::<u64>() };
    regs.rax = calls::answer(info.syscall as u64, args, mask) as u64;
    0
}

/// SIGSEGV: emulates `rdtsc`, ends a copy that faults, or passes the signal to the guest's handler.
///
/// # Safety
/// Only the entry may call it.
unsafe extern "C" fn on_fault(_: i32, info: *mut SigInfo, frame: *mut UContext, guest: u64) -> u64 {
    // SAFETY: the kernel built both.
    let (info, regs) = unsafe { (&*info, &mut (*frame).regs) };
    if info.code > 0 {
        if let Some(at) = copy::fixup(regs.rip).filter(|_| layout::is_shim(regs.rip)) {
            regs.rip = at;
            return 0;
        }
        if regs.trapno == GENERAL_PROTECTION
            && let Some(len) = counter_read(regs.rip)
        {
            let now = Now::read();
            let count = (u128::from(now.time) * u128::from(now.page.counter_rate)) >> 32;
            (regs.rax, regs.rdx) = (u64::from(count as u32), (count >> 32) as u64 & 0xffff_ffff);
            if len == 3 {
                let (mut cpu, mut node) = (0u32, 0u32);
                native(nr::GETCPU, [&raw mut cpu as u64, &raw mut node as u64, 0, 0, 0, 0]);
                regs.rcx = u64::from(node << 12 | cpu);
            }
            regs.rip += len;
            return 0;
        }
    }
    pass_on(SIGSEGV, info.code, guest)
}

/// Length of the `rdtsc` or `rdtscp` at an address.
fn counter_read(at: u64) -> Option<u64> {
    match read::<[u8; 2]>(at).ok()? {
        [0x0f, 0x31] => Some(2),
        [0x0f, 0x01] => (read::<u8>(at + 2) == Ok(0xf9)).then_some(3),
        _ => None,
    }
}

/// The handler to continue with. Without one the signal kills the process, unless it was sent and is ignored.
fn pass_on(signal: u64, code: i32, guest: u64) -> u64 {
    match guest {
        SIG_IGN if code <= 0 => 0,
        SIG_DFL | SIG_IGN => {
            set(signal, &[SIG_DFL, 0, 0, 0]);
            if code <= 0 || signal == SIGSYS {
                let ids = [nr::GETPID, nr::GETTID].map(|number| native(number, [0; 6]) as u64);
                native(nr::TGKILL, [ids[0], ids[1], signal, 0, 0, 0]);
            }
            0
        }
        handler => handler,
    }
}

/// `rt_sigaction`: the shim keeps its signals, and no handler runs with them blocked.
pub fn action(args: [u64; 6]) -> i64 {
    let [signal, new, old, size, ..] = args;
    result((|| {
        let mut wanted: Option<Action> = (new != 0).then(|| read(new)).transpose()?;
        if size == 8 && matches!(signal, SIGSEGV | SIGSYS) {
            wanted =
                wanted.map(|guest| if signal == SIGSYS { for_calls(guest[0]) } else { for_faults(guest) });
        } else if let Some(wanted) = &mut wanted {
            wanted[3] &= !OURS;
            // The stops of children are internal and must stay invisible.
            if signal == SIGCHLD && Now::read().page.freezes == BY_SIGNALS {
                wanted[1] |= SA_NOCLDSTOP;
            }
        }
        let mut before: Action = [0; 4];
        let new = wanted.as_ref().map_or(0, |wanted| wanted.as_ptr() as u64);
        let done = native(nr::RT_SIGACTION, [signal, new, before.as_mut_ptr() as u64, size, 0, 0]);
        if done == 0 && old != 0 {
            if matches!(signal, SIGSEGV | SIGSYS) {
                before[0] = before[2];
                before[2] = belljar_dilate_restore_at();
            }
            write(old, before)?;
        }
        Ok(done)
    })())
}

/// Address of the code that returns from handlers.
fn belljar_dilate_restore_at() -> u64 {
    unsafe extern "C" {
        fn belljar_dilate_restore();
    }
    belljar_dilate_restore as *const () as u64
}

/// `rt_sigprocmask` calls that block signals: the mask in the shim's frame takes effect when its handler
/// returns.
pub fn block(args: [u64; 6], mask: &mut u64) -> i64 {
    let [how, set, old, size, ..] = args;
    const SIG_BLOCK: u64 = 0;
    const SIG_SETMASK: u64 = 2;
    if size != 8 {
        return error::INVAL;
    }
    result((|| {
        let set: u64 = read(set)?;
        let before = *mask;
        *mask = match how {
            SIG_BLOCK => before | set,
            SIG_SETMASK => set,
            _ => return Err(error::INVAL),
        } & !OURS;
        if old != 0 {
            write(old, before)?;
        }
        Ok(0)
    })())
}

/// The signal set at an address without the shim's signals, for a call that blocks them while it waits;
/// `None` if the address is 0.
pub fn mask_of(at: u64) -> Result<Option<u64>, i64> {
    match at {
        0 => Ok(None),
        at => Ok(Some(read::<u64>(at)? & !OURS)),
    }
}

/// `rt_sigsuspend`.
pub fn suspend(args: [u64; 6]) -> i64 {
    match mask_of(args[0]) {
        Ok(Some(mask)) => native(nr::RT_SIGSUSPEND, [&raw const mask as u64, args[1], 0, 0, 0, 0]),
        _ => error::FAULT,
    }
}

/// Waits until a signal of the set at `set` is pending or `end`, a virtual time, is reached: 1, 0 or an error. The signals are
/// blocked meanwhile, as `rt_sigtimedwait` does not let them reach their handlers.
pub fn arrival(set: u64, end: Option<u64>) -> Result<i64, i64> {
    const CLOSE_ON_EXEC: u64 = 0o2_000_000;
    let mut wanted: u64 = read(set)?;
    wanted &= !OURS;
    let mut mask = 0u64;
    native(nr::RT_SIGPROCMASK, [0, 0, &raw mut mask as u64, 8, 0, 0]);
    mask |= wanted;
    let watched = native(nr::SIGNALFD4, [u64::MAX, &raw const wanted as u64, 8, CLOSE_ON_EXEC, 0, 0]);
    if watched < 0 {
        return Ok(watched);
    }
    let done = waits::wait_for_one(watched as u64, waits::POLLIN, end, Some(mask));
    native(nr::CLOSE, [watched as u64, 0, 0, 0, 0, 0]);
    Ok(done)
}

/// The guest's signals, held back from its handlers.
pub struct Held {
    mask: u64,
}

impl Held {
    /// Blocks all signals but those of the shim.
    pub fn back() -> Held {
        const SIG_SETMASK: u64 = 2;
        let (all, mut mask) = (!OURS, 0u64);
        native(nr::RT_SIGPROCMASK, [SIG_SETMASK, &raw const all as u64, &raw mut mask as u64, 8, 0, 0]);
        Held { mask }
    }

    /// Delivers the signals that have arrived; true if the guest handles one of them.
    pub fn release(self) -> bool {
        const SIG_SETMASK: u64 = 2;
        let mut pending = 0u64;
        native(nr::RT_SIGPENDING, [&raw mut pending as u64, 8, 0, 0, 0, 0]);
        let mut arrived = pending & !self.mask;
        let mut is_handled = false;
        while arrived != 0 {
            let signal = u64::from(arrived.trailing_zeros()) + 1;
            arrived &= arrived - 1;
            let mut action: Action = [0; 4];
            native(nr::RT_SIGACTION, [signal, 0, action.as_mut_ptr() as u64, 8, 0, 0]);
            is_handled |= !matches!(action[0], SIG_DFL | SIG_IGN);
        }
        native(nr::RT_SIGPROCMASK, [SIG_SETMASK, &raw const self.mask as u64, 0, 8, 0, 0]);
        is_handled
    }
}
