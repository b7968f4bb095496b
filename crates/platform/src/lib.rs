//! Runs guests and touches the machine on the kernel's behalf; decides no semantics.
//!
//! [`HostMachine`] implements the traits of `belljar_kernel::machine`. A guest is near, mapped into
//! the simulator's own address space and run as a coroutine, or far, in a native process of its own.
//! What guests see does not depend on that.
//!
//! * [`machine`]: spaces and contexts by their numbers; [`files`]: the machine's file system
//! * [`space`]: one guest's addresses; [`layout`]: where they are; [`registry`]: who has which of
//!   the fixed ones; [`mappings`]: how many there may be near
//! * [`native`]: how a space's memory is reached: [`near`] or [`far`]
//! * [`context`]: saved registers; [`exits`]: what it means that guest code came back
//! * `trail`: where guests go when they run next
//! * [`rewrite`]: call sites that no longer trap; [`vdso`]: the image found by AT_SYSINFO_EHDR
//! * [`cpu`], [`cpuid`]: what the CPU has, and what guests are told of it
//!
//! A process calls [`init`] once, early in `main`. A thread becomes a worker when it first resumes
//! a guest; from then on all signals but the platform's own are blocked on it, so a program that
//! wants SIGINT takes it on another thread.
//!
//! What a worker starts natively, threads and processes, inherits that `rdtsc` traps; a process even
//! beyond `execve`, where nothing answers. Call [`release_thread`] before.
//!
//! This is not a sandbox: a near guest can read and write the simulator's memory.

#[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
compile_error!("belljar runs guests on x86-64 Linux only");

mod context;
mod cpu;
mod cpuid;
mod exits;
mod far;
mod files;
mod init;
pub mod layout;
mod machine;
mod mappings;
mod native;
mod near;
mod registry;
mod rewrite;
mod space;
mod trail;
mod vdso;

pub use init::{InitError, init};
pub use machine::{HostMachine, fetch, release_thread};
