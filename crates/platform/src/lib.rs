//! Runs guests and touches the machine on the kernel's behalf; decides no semantics.
//!
//! [`HostMachine`] implements the traits of `belljar_machine`.
//!
//! # Near and far
//!
//! **Problem.** A simulator that resumes a guest and gets it back at each system call pays for the way. In a process of
//! its own a guest is isolated and can have any address, but each call is two hand-overs between processes, and each
//! guest a Linux process. In the simulator's own address space a call is a switch of registers, but guests must share
//! that space with each other and with the simulator.
//!
//! **Insight.** The kernel needs a handful of operations: resume, read, write, map. If these mean the same in both
//! places, and a guest's addresses are the same in both, the placement of a guest is a matter of cost alone, decided
//! for each process and changed while it runs.
//!
//! **Algorithm.** A [`space`] is one guest's addresses: a slot that the host's number and its lowest free slot decide
//! ([`layout`]), the same near and far. *Near*, its memory is mapped into the simulator: a worker loads the guest's registers and runs it as a
//! coroutine; it comes back by a rewritten call site ([`rewrite`]), or by a signal of Syscall User Dispatch, a fault or a
//! preemption tick. *Far*, its memory is in a process that runs the freestanding program of `belljar_shim` and nothing
//! else. Simulator and process take turns on a block of shared memory with a futex: the simulator says "resume" or
//! "make these native calls", and the process puts registers and staged memory into the block when it is done. Workers
//! and their processes stay on one processor, so that a hand-over wakes no other. A near guest becomes far by a native
//! fork that leaves everything but its space behind (`far::birth`): for `fork(2)`, and at a call for which there is no
//! room near, such as a fixed address outside its slot or more mappings than Linux allows a process.
//!
//! **Limits.** A far guest does not become near again before `execve`. A near space counts against the 65,530 mappings
//! of the simulator's process. Accesses of a near guest outside its own mappings may meet those of others instead of a
//! fault. This is not a sandbox: a near guest can read and write the simulator's memory, and a far one can make native
//! calls if it tries to.
//!
//! # Modules
//!
//! * [`machine`]: spaces and contexts by their numbers; [`files`]: the machine's file system
//! * [`space`]: one guest's addresses; [`layout`]: where they are; [`registry`]: who has which of
//!   the fixed ones; [`mappings`]: how many there may be near
//! * [`native`]: operations on a space's memory, [`near`] or [`far`]
//! * [`context`]: saved registers; [`exits`]: what it means that guest code came back
//! * `trail`: where guests go when they run next
//! * [`rewrite`]: call sites that no longer trap; [`vdso`]: the image found by AT_SYSINFO_EHDR
//! * [`cpu`], [`cpuid`]: what the CPU has, and what guests are told of it
//! * [`dilate`]: the files of processes whose time is dilated, which nothing else here knows of
//!
//! A process calls [`init`] once, early in `main`. A thread becomes a worker when it first resumes
//! a guest; from then on all signals but the platform's own are blocked on it, so a program that
//! wants SIGINT takes it on another thread.
//!
//! Native threads and processes that a worker starts inherit its trap for `rdtsc`; a process even
//! beyond `execve`, where nothing answers. Call [`release_thread`] before.

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
mod space;
mod trail;
mod vdso;

pub use init::{InitError, init};
pub use machine::{HostMachine, fetch, prefetch, release_thread};
pub use priority::go_before_programs;
