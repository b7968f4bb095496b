//! Calls of the 32-bit interface, `int 0x80`, from 64-bit code. Their pointers have 32 bits, which no
//! address of a guest fits, so only calls that take none mean anything; those are made here as
//! their 64-bit twins. All others are counted and answered with `ENOSYS`.

use crate::c;

/// A number of the 32-bit table (`arch/x86/entry/syscalls/syscall_32.tbl`) as the 64-bit one of a
/// call that takes no pointer and never waits.
pub fn translate(number: u32) -> Option<u32> {
    let twin = match number {
        1 => c::SYS_exit,
        6 => c::SYS_close,
        20 => c::SYS_getpid,
        37 => c::SYS_kill,
        41 => c::SYS_dup,
        57 => c::SYS_setpgid,
        60 => c::SYS_umask,
        63 => c::SYS_dup2,
        64 => c::SYS_getppid,
        65 => c::SYS_getpgrp,
        66 => c::SYS_setsid,
        132 => c::SYS_getpgid,
        147 => c::SYS_getsid,
        158 => c::SYS_sched_yield,
        199 => c::SYS_getuid,
        200 => c::SYS_getgid,
        201 => c::SYS_geteuid,
        202 => c::SYS_getegid,
        224 => c::SYS_gettid,
        238 => c::SYS_tkill,
        252 => c::SYS_exit_group,
        270 => c::SYS_tgkill,
        _ => return None,
    };
    Some(twin as u32)
}
