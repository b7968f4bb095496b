//! Dilated time: the code in the processes of an emulated host whose clocks run slower than the machine's.
//!
//! A process is a Linux process in every respect, except that system calls which involve time are handled
//! here. A seccomp filter ([`filter`]) raises SIGSYS for these calls alone, selected by number and, if
//! necessary, by arguments: a `read`, a `poll` without a timeout or a wake-up of a futex reaches the kernel
//! at native speed. All threads, forks and executed programs inherit the filter, so it is active at all
//! times. It allows calls from the shim's own part of the address space ([`layout::is_shim`]).
//!
//! * [`clock`]: the page in which a controller publishes the rate of time; all conversions use it.
//! * [`signals`]: the entries for SIGSYS and SIGSEGV, which guests can neither block nor replace. SIGSEGV
//!   intercepts `rdtsc` (`PR_SET_TSC`) and accesses to unmapped memory.
//! * [`calls`]: dispatch of calls; [`waits`], [`interruptible`], [`timers`], [`timer_descriptors`], [`sockets`], [`timeouts`], [`rings`],
//!   [`usage`], [`stamps`]: their handlers. [`timer_thread`]: the thread by which timers expire where the clock stops or changes
//!   its rate; [`timer_table`]: its timers.
//! * [`exec`], [`load`]: a program is executed by executing the shim, which maps the image as the kernel
//!   would. [`vdso`]: the functions that the image finds instead of the kernel's vDSO.
//!
//! This code has no mutable memory of its own, because threads leave it at any point by `longjmp` and
//! `vfork`. State of a process is kept in the kernel's own records: the guest's handler of SIGSEGV, for
//! instance, is stored as the restorer of the shim's.

pub mod calls;
pub mod clock;
pub mod exec;
pub mod filter;
pub mod interruptible;
pub mod layout;
pub mod load;
pub mod memory;
pub mod rings;
pub mod signals;
pub mod sockets;
pub mod stamps;
pub mod timeouts;
pub mod timer_descriptors;
pub mod timer_table;
pub mod timer_thread;
pub mod timers;
pub mod usage;
pub mod vdso;
pub mod waits;

/// Error numbers, negative as system calls return them.
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
    pub const NOTSOCK: i64 = -88;
    pub const TIMEDOUT: i64 = -110;
    pub const INPROGRESS: i64 = -115;
}
