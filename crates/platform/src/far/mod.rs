//! Guests in native processes of their own.
//!
//! Each far address space is a process that runs `belljar_shim::far`: it resumes guest code and makes native
//! system calls on the simulator's commands, received through a [`Shim`]'s channel.
//!
//! * [`program`]: the binary; [`spawner`]: the thread that starts it and whose end kills it
//! * [`shim`]: one such process and its channel; [`memory`]: its guest memory
//! * [`affinity`]: keeps a worker and its guests on one processor
//! * [`birth`]: forks a process from a near space

mod affinity;
pub(crate) mod birth;
pub(crate) mod memory;
pub(crate) mod program;
pub(crate) mod shim;
pub(crate) mod spawner;

pub(crate) use affinity::move_freely;
pub(crate) use shim::Shim;
