//! Address spaces: the kernel's list of a process's mappings, which determines the layout and the addresses
//! that system calls may access. The machine only carries it out.

mod calls;
pub mod map;

pub use belljar_objects::space::{Access, AddressSpace, Marks, PAGE, Vma, VmaKind, page_down, page_up};
pub(crate) use calls::{arm_missing, presence};
