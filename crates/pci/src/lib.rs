//! PCI devices, their drivers, and memories, as state machines that exchange transactions: the inputs are
//! times and transactions, the outputs transactions and frames. The crate does not depend on channels, links
//! or a host's kernel.
//!
//! * [`transaction`]: register accesses, DMA and interrupts, and their message format; [`info`]: identity and
//!   resources of a device
//! * [`arena`]: DMA memory of a host
//! * [`driver`]: drivers of network controllers
//! * [`e1000`]: a network controller and its driver; [`corundum`]: the driver of another
//! * [`memory`]: memory behind a channel of its own
#![forbid(unsafe_code)]

pub mod arena;
pub mod corundum;
pub mod driver;
pub mod e1000;
mod fields;
pub mod info;
pub mod memory;
pub mod transaction;

pub use arena::Arena;
pub use driver::{Driver, DriverSettings};
pub use fields::{HEADER, Header};
pub use info::{Bar, DeviceInfo};
pub use memory::{FromMemory, Memory, ToMemory};
pub use transaction::{Codec, Interrupt, ToDevice, ToHost};
