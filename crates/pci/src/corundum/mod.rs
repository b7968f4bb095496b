//! Driver of Corundum, an open-source 100-Gbit/s NIC for FPGAs, limited to one port and one queue of each
//! kind.
//!
//! The sequence of accesses is that of Corundum's Linux driver. An interrupt causes a read of the event
//! queue's head pointer, then, for each completion queue named by an event, reads of its head pointer and of
//! its ring's tail pointer. Packets therefore cost register reads, each of which takes a round trip over PCI.
//! The register layout is that of the Corundum version in SimBricks.

mod driver;
mod queue;
#[cfg(test)]
mod tests;

pub use driver::Driver;

use crate::info::DeviceInfo;

/// Maximum length of a frame in a device buffer.
pub const LONGEST: usize = 2_048;
const VENDOR: u16 = 0x5543;
const DEVICE: u16 = 0x1001;
/// Minimum length of the register space: ports come last.
const REGISTERS: u64 = 1 << 24;

/// True if the driver supports this device.
pub fn drives(info: &DeviceInfo) -> bool {
    info.vendor == VENDOR && info.device == DEVICE && info.bars[0].len >= REGISTERS
}

/// Register offsets in the BAR.
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
    /// Interrupt of an event queue, event queue of a completion queue, completion queue of a descriptor ring.
    pub const INDEX: u64 = 0x0c;
    pub const HEAD: u64 = 0x10;
    pub const TAIL: u64 = 0x18;
    pub const ACTIVE: u32 = 1 << 31;
    pub const ARM: u32 = 1 << 31;
}
