//! System calls by the 32-bit interface, `int 0x80`, from 64-bit code. Its pointers have 32 bits, too few for
//! guest addresses, so only calls without pointers are meaningful. They are translated to their 64-bit
//! counterparts; all others are counted and fail with `ENOSYS`.

use crate::c;

/// Translates a number of the 32-bit table (`arch/x86/entry/syscalls/syscall_32.tbl`) to the 64-bit one, for
/// calls that take no pointer and never block.
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
