//! Guests in the simulator's own address space.
//!
//! * [`worker`]: what a thread needs to run guests; [`entry`]: into the guest and out of it
//! * [`signals`]: how guest code comes back
//! * [`copy`]: guest memory that may not be there; [`patch_memory`]: code that is not writable

pub(crate) mod copy;
pub(crate) mod entry;
pub(crate) mod patch_memory;
pub(crate) mod signals;
pub(crate) mod worker;
