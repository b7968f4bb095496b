//! Address spaces: the kernel's list of a process's mappings, which determines the layout and the addresses
//! that system calls may access. The machine only carries it out.

mod calls;
pub mod map;

pub(crate) use calls::{arm_missing, presence};
