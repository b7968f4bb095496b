//! Runs guest code and accesses the machine on behalf of the simulated kernel; implements no system-call
//! semantics.
//!
//! [`HostMachine`] implements the traits of `belljar_machine`.
//!
//! # Near and far
//!
//! **Problem.** A simulator that resumes a guest and regains control at each system call pays for both
//! transitions. In a process of its own a guest is isolated and can use any address, but each call costs two
//! hand-overs between processes, and each guest is a Linux process. In the simulator's own address space a
//! call is a switch of registers, but guests must share that space with each other and with the simulator.
//!
//! **Insight.** The kernel needs a handful of operations: resume, read, write, map. If these have the same
//! meaning in both cases, and a guest's addresses are the same in both, then the choice is a matter of cost
//! alone. It can be made for each process and changed while the process runs.
//!
//! **Algorithm.** A [`space`] is one guest's address space: a slot determined by the host's number and its
//! lowest free slot ([`layout`]), identical near and far. *Near*, its memory is mapped into the simulator. A
//! worker loads the guest's registers and runs it as a coroutine; the guest exits at a rewritten call site
//! ([`rewrite`]), or by a signal: Syscall User Dispatch, a fault or a preemption tick. *Far*, its memory is
//! in a process that runs only the freestanding program of `belljar_shim`. Simulator and process take turns
//! on a block of shared memory with a futex: the simulator commands "resume" or "make these native calls",
//! and the process stores registers and staged memory into the block when it is done. Workers and their
//! processes stay on one processor, so that a hand-over wakes no other. A near guest becomes far by a native
//! fork that excludes everything but its space (`far::birth`): for `fork(2)`, and at a system call that
//! cannot be served near, such as a mapping at a fixed address outside the slot, or more mappings than Linux
//! allows a process.
//!
//! **Limits.** A far guest does not become near again before `execve`. A near space counts against the
//! simulator's 65,530 mappings. A near guest that accesses addresses outside its own mappings may reach
//! another guest's memory instead of faulting. This is not a sandbox: a near guest can read and write the
//! simulator's memory, and a far one can make native calls if it tries to.
//!
//! # Modules
//!
//! * [`machine`]: spaces and contexts by their numbers; [`files`]: the machine's file system
//! * [`space`]: one guest's address space; [`layout`]: its addresses; [`registry`]: claims on fixed
//!   addresses; [`mappings`]: the limit on near mappings
//! * [`native`]: operations on a space's memory, [`near`] or [`far`]
//! * [`context`]: saved registers; [`exits`]: interpretation of exits from guest code
//! * `trail`: prefetching of the cache lines that a guest will access when it next runs
//! * [`rewrite`]: call sites that no longer trap; [`vdso`]: the image found by AT_SYSINFO_EHDR
//! * [`cpu`], [`cpuid`]: features of the CPU, and the features shown to guests
//! * [`dilate`]: files of processes with dilated time; independent of the rest of this crate
//!
//! A process calls [`init`] once, early in `main`. A thread becomes a worker when it first resumes a guest;
//! from then on all signals but the platform's own are blocked on it, so a program that handles SIGINT does
//! so on another thread.
//!
//! Native threads and processes started by a worker inherit its trap for `rdtsc`; a process keeps it even
//! across `execve`, where the trap has no handler. Call [`release_thread`] before starting one.

#[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
compile_error!("belljar runs guests on x86-64 Linux only");

mod context;
mod cpu;
mod cpuid;
pub mod dilate;
mod exits;
mod far;
mod files;
mod init;
pub mod layout;
mod machine;
mod mappings;
mod native;
mod near;
mod priority;
mod registry;
mod rewrite;
pub mod sdk;
mod space;
mod trail;
mod vdso;

pub use cpuid::can_fault as cpuid_can_fault;
pub use init::{InitError, init};
pub use machine::{HostMachine, fetch, prefetch, release_thread};
pub use near::worker::counter_traps;
pub use priority::go_before_programs;
