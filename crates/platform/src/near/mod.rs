//! Guests in the simulator's own address space.
//!
//! * [`worker`]: threads that run guests; [`entry`]: the way into the guest and out of it
//! * [`signals`]: exits from guest code by signals
//! * [`copy`]: guest memory that may be unmapped; [`patch_memory`]: code that is not writable

pub(crate) mod copy;
pub(crate) mod entry;
pub(crate) mod patch_memory;
pub(crate) mod signals;
pub(crate) mod worker;
