//! e1000: Intel's gigabit Ethernet controllers of the 8254x family.
//!
//! [`Device`] models a 82540EM with its EEPROM and PHY; [`Driver`] is the driver of simulated hosts. Both
//! follow Intel's "PCI/PCI-X Family of Gigabit Ethernet Controllers Software Developer's Manual". The timing
//! is that of the model in gem5 and SimBricks. The controller implements all that Linux's driver uses; the
//! driver here uses legacy descriptors and no offloads.
//!
//! Not supported: flow control (the PHY negotiates its absence), wake-up, management.

mod device;
mod driver;
mod eeprom;
mod filter;
mod offload;
mod phy;
mod registers;
#[cfg(test)]
mod tests;

pub use device::{Device, Timing};
pub use driver::Driver;

use crate::info::{Bar, DeviceInfo};
use registers::{DESCRIPTOR, REGISTERS, bits, cause, descriptor, reg};

/// Vendor id of Intel.
const VENDOR: u16 = 0x8086;
/// Supported controllers: 82540EM (QEMU's), 82545EM, 82546GB, 82547GI (SimBricks').
const DEVICES: [u16; 4] = [0x100e, 0x100f, 0x1079, 0x1075];
/// Index of the I/O port BAR: a register address, and the register's value.
const PORTS: u8 = 2;

/// True if the driver supports this device.
pub fn drives(info: &DeviceInfo) -> bool {
    info.vendor == VENDOR && DEVICES.contains(&info.device) && info.bars[0].len >= REGISTERS
}

/// Configuration space of the model.
pub fn info() -> DeviceInfo {
    let mut info = DeviceInfo {
        vendor: VENDOR,
        device: DEVICES[0],
        class: [2, 0, 3, 0],
        msi_vectors: 1,
        ..DeviceInfo::default()
    };
    info.bars[0] = Bar { len: REGISTERS, flags: 0 };
    // Drivers reset the controller through the I/O ports.
    info.bars[usize::from(PORTS)] = Bar { len: 64, flags: 1 };
    info
}
