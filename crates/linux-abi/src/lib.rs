//! The binary interface of x86-64 Linux: errno values, flags, structures and system-call numbers.
//!
//! Constants are those of the `libc` crate (re-exported as [`c`]); structures in guest memory are
//! plain-old-data types of this crate, converted safely by `zerocopy`.
#![forbid(unsafe_code)]

pub mod compat;
mod errno;
pub mod file;
pub mod interface_settings;
pub mod io_uring;
pub mod ipc;
pub mod kept_settings;
pub mod kernel_config;
pub mod keys;
pub mod landlock;
pub mod poll;
pub mod process;
pub mod ptrace;
pub mod signal;
pub mod socket;
pub mod socket_options;
pub mod sysctl;
pub mod terminal;
pub mod time;

pub use errno::Errno;
pub use libc as c;
