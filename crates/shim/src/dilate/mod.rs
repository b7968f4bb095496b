//! Dilated time: the code in the processes of an emulated host whose clocks run slower than the machine's.
//!
//! A process is Linux's own, and so is everything that it does, except that the system calls that are about time are
//! answered here. A seccomp filter ([`filter`]) raises SIGSYS for these calls alone, by their numbers and, where these
//! tell, their arguments: a `read`, a `poll` without a timeout or a wake-up of a futex goes to the kernel at native speed.
//! The filter stays in all threads, forks and executed programs, so there is no moment without it. It lets pass what is
//! called from the shim's own part of the address space ([`layout::is_shim`]).
//!
//! * [`clock`]: the page in which a controller says how fast time passes; everything is computed from it.
//! * [`signals`]: the entries for SIGSYS and SIGSEGV, which guests can neither block nor take away. SIGSEGV is how `rdtsc`
//!   comes here (`PR_SET_TSC`), and how memory that is not there does.
//! * [`calls`]: which call goes where; [`waits`], [`timers`], [`sockets`], [`rings`], [`usage`], [`stamps`]: what they do.
//! * [`exec`], [`load`]: a program is executed by executing the shim, which maps the image as the kernel would have.
//!   [`vdso`]: the functions that the image finds in the place of the kernel's vDSO.
//!
//! Nothing here has memory of its own that changes: threads come and go by `longjmp` and `vfork` in the middle of it.
//! What must be known about a process is where the kernel keeps it: the guest's handler of SIGSEGV, say, stands in the
//! place of the restorer of ours.

pub mod calls;
pub mod clock;
pub mod exec;
pub mod filter;
pub mod layout;
pub mod load;
pub mod memory;
pub mod rings;
pub mod signals;
pub mod sockets;
pub mod stamps;
pub mod timers;
pub mod usage;
pub mod vdso;
pub mod waits;

/// Numbers of errors, negative as system calls give them.
#[allow(missing_docs)]
pub mod error {
    pub const PERM: i64 = -1;
    pub const NOENT: i64 = -2;
    pub const INTR: i64 = -4;
    pub const TOO_BIG: i64 = -7;
    pub const NOEXEC: i64 = -8;
    pub const AGAIN: i64 = -11;
    pub const NOMEM: i64 = -12;
    pub const FAULT: i64 = -14;
    pub const INVAL: i64 = -22;
    pub const NOSYS: i64 = -38;
    pub const LOOP: i64 = -40;
    pub const TIMEDOUT: i64 = -110;
}
