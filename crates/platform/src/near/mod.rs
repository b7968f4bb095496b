//! Guests in the simulator's own address space.
//!
//! * [`worker`]: threads that run guests; [`entry`]: entry to and exit from guest code
//! * [`signals`]: exits from guest code by signals
//! * [`copy`]: access to guest memory that may be unmapped; [`patch_memory`]: writes to code that is not
//!   writable

pub(crate) mod copy;
pub(crate) mod entry;
pub(crate) mod patch_memory;
pub(crate) mod signals;
pub(crate) mod worker;
