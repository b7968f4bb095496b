//! The e1000: Intel's gigabit Ethernet controllers of the 8254x family.
//!
//! [`Device`] is the controller, a 82540EM with its EEPROM and PHY; [`Driver`] is our driver. Both follow Intel's "PCI/PCI-X Family of
//! Gigabit Ethernet Controllers Software Developer's Manual"; what happens when in the controller has the times of the model that gem5
//! and SimBricks use. The controller has what Linux's own driver asks of it; the driver uses legacy descriptors and no offloads.
//!
//! It has no flow control, whose absence its PHY negotiates, no wake-up and no management.

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

/// Intel.
const VENDOR: u16 = 0x8086;
/// Controllers that the driver drives: 82540EM (QEMU's), 82545EM, 82546GB, 82547GI (SimBricks').
const DEVICES: [u16; 4] = [0x100e, 0x100f, 0x1079, 0x1075];
/// The BAR of I/O ports: an address, and the register at it.
const PORTS: u8 = 2;

/// True if the driver drives this device.
pub fn drives(info: &DeviceInfo) -> bool {
    info.vendor == VENDOR && DEVICES.contains(&info.device) && info.bars[0].len >= REGISTERS
}

/// Our device as its configuration space shows it.
pub fn info() -> DeviceInfo {
    let mut info = DeviceInfo {
        vendor: VENDOR,
        device: DEVICES[0],
        class: [2, 0, 3, 0],
        msi_vectors: 1,
        ..DeviceInfo::default()
    };
    info.bars[0] = Bar { len: REGISTERS, flags: 0 };
    // Drivers reset the controller through it.
    info.bars[usize::from(PORTS)] = Bar { len: 64, flags: 1 };
    info
}
