//! Address spaces: the kernel's own list of a process's mappings, which decides what is mapped
//! where and which addresses a system call may touch. The machine only carries it out.

mod calls;
pub mod map;

pub use belljar_objects::space::{Access, AddressSpace, Marks, PAGE, Vma, VmaKind, page_down, page_up};
pub(crate) use calls::{arm_missing, presence};
