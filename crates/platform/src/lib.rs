//! Runs guests and touches the machine on the kernel's behalf; decides no semantics.
//!
//! [`near`] maps guests into the simulator's own address space and runs them as coroutines:
//! [`NearMachine`] implements the traits of `belljar_kernel::machine` that way. [`files`] is the
//! machine's file system as the kernel may see it.
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

mod far;
mod files;
mod init;
mod native;
pub mod near;

pub use init::{InitError, init};
pub use near::{NearMachine, release_thread};
