//! The driver of Corundum, an open 100-Gbit/s controller for FPGAs, as far as one queue of each kind and one port of it go.
//!
//! It does what Corundum's own driver for Linux does: an interrupt is followed by a read of the event queue's head, then, for each completion
//! queue that an event names, by a read of its head and one of its ring's tail. So packets cost reads of registers, whose price is the
//! PCI connection's latency. The registers are those of Corundum's generation in SimBricks.

mod driver;
mod queue;
#[cfg(test)]
mod tests;

pub use driver::Driver;

use crate::info::DeviceInfo;

/// Frames that one buffer of the device holds.
pub const LONGEST: usize = 2_048;
const VENDOR: u16 = 0x5543;
const DEVICE: u16 = 0x1001;
/// The least length of the register space: ports come last.
const REGISTERS: u64 = 1 << 24;

/// True if the driver drives this device.
pub fn drives(info: &DeviceInfo) -> bool {
    info.vendor == VENDOR && info.device == DEVICE && info.bars[0].len >= REGISTERS
}

/// Offsets of registers from the beginning.
mod reg {
    pub const INTERFACE_CSR: u64 = 0x002c;
}

/// Offsets of an interface's registers from its control registers.
mod interface {
    pub const EVENT_QUEUES: u64 = 0x14;
    pub const TRANSMIT_QUEUES: u64 = 0x24;
    pub const TRANSMIT_COMPLETIONS: u64 = 0x2c;
    pub const RECEIVE_QUEUES: u64 = 0x34;
    pub const RECEIVE_COMPLETIONS: u64 = 0x3c;
    pub const PORTS: u64 = 0x44;
}

/// Offsets of a port's registers from its first.
mod port {
    pub const SCHEDULERS: u64 = 0x14;
    pub const ENABLE: u64 = 0x40;
    pub const RSS_MASK: u64 = 0x80;
}

/// Offsets of a queue's registers from its first.
mod queue_reg {
    pub const BASE: u64 = 0x00;
    pub const SIZE: u64 = 0x08;
    /// Of an event queue its interrupt, of a completion queue its event queue, of another its completion queue.
    pub const INDEX: u64 = 0x0c;
    pub const HEAD: u64 = 0x10;
    pub const TAIL: u64 = 0x18;
    pub const ACTIVE: u32 = 1 << 31;
    pub const ARM: u32 = 1 << 31;
}
