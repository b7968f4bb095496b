//! The e1000: Intel's gigabit Ethernet controllers of the 8254x family, as far as drivers of its legacy descriptors use them.
//!
//! [`Device`] is the controller, [`Driver`] its driver. Both follow Intel's "PCI/PCI-X Family of Gigabit Ethernet Controllers Software
//! Developer's Manual"; what happens when in the controller has the times of the model that gem5 and SimBricks use.

mod device;
mod driver;
#[cfg(test)]
mod tests;

pub use device::{Device, Timing};
pub use driver::Driver;

use crate::info::{Bar, DeviceInfo};

/// Intel.
const VENDOR: u16 = 0x8086;
/// Controllers that the driver drives: 82540EM (QEMU's), 82545EM, 82546GB, 82547GI (SimBricks').
const DEVICES: [u16; 4] = [0x100e, 0x100f, 0x1079, 0x1075];
/// Length of the register space.
const REGISTERS: u64 = 128 * 1024;
/// Bytes of a descriptor.
const DESCRIPTOR: usize = 16;

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
    info
}

/// Offsets of registers.
mod reg {
    pub const CTRL: u64 = 0x0000;
    pub const STATUS: u64 = 0x0008;
    pub const EERD: u64 = 0x0014;
    pub const ICR: u64 = 0x00c0;
    pub const ITR: u64 = 0x00c4;
    pub const ICS: u64 = 0x00c8;
    pub const IMS: u64 = 0x00d0;
    pub const IMC: u64 = 0x00d8;
    pub const RCTL: u64 = 0x0100;
    pub const TCTL: u64 = 0x0400;
    pub const RDBAL: u64 = 0x2800;
    pub const RDBAH: u64 = 0x2804;
    pub const RDLEN: u64 = 0x2808;
    pub const RDH: u64 = 0x2810;
    pub const RDT: u64 = 0x2818;
    pub const TDBAL: u64 = 0x3800;
    pub const TDBAH: u64 = 0x3804;
    pub const TDLEN: u64 = 0x3808;
    pub const TDH: u64 = 0x3810;
    pub const TDT: u64 = 0x3818;
    pub const RAL: u64 = 0x5400;
    pub const RAH: u64 = 0x5404;
    /// Statistics, which a read clears.
    pub const STATS: std::ops::Range<u64> = 0x4000..0x4100;
    pub const MPC: u64 = 0x4010;
    pub const GPRC: u64 = 0x4074;
    pub const GPTC: u64 = 0x4080;
    pub const GORCL: u64 = 0x4088;
    pub const GORCH: u64 = 0x408c;
    pub const GOTCL: u64 = 0x4090;
    pub const GOTCH: u64 = 0x4094;
    pub const RNBC: u64 = 0x40a0;
}

/// Causes of interrupts.
mod cause {
    pub const TXDW: u32 = 1 << 0;
    pub const TXQE: u32 = 1 << 1;
    pub const RXDMT0: u32 = 1 << 4;
    pub const RXO: u32 = 1 << 6;
    pub const RXT0: u32 = 1 << 7;
}

/// Bits of RCTL, TCTL and CTRL.
mod bits {
    pub const CTRL_RESET: u32 = 1 << 26;
    pub const ENABLE: u32 = 1 << 1;
    pub const UNICAST_ALL: u32 = 1 << 3;
    pub const MULTICAST_ALL: u32 = 1 << 4;
    pub const LONG_PACKETS: u32 = 1 << 5;
    pub const BROADCAST: u32 = 1 << 15;
    /// BSIZE in units of 16 times as many bytes.
    pub const SIZE_EXTENSION: u32 = 1 << 25;
    pub const STRIP_CRC: u32 = 1 << 26;
    pub const PAD_SHORT: u32 = 1 << 3;
    pub const STATUS_UP: u32 = 0b1000_0011;
    pub const EERD_START: u32 = 1;
    pub const EERD_DONE: u32 = 1 << 4;
    pub const ADDRESS_VALID: u32 = 1 << 31;
}

/// Bits of descriptors.
mod descriptor {
    pub const DONE: u8 = 1;
    pub const END: u8 = 2;
    pub const COMMAND_END: u8 = 1;
    pub const COMMAND_ADD_CRC: u8 = 2;
    pub const COMMAND_REPORT: u8 = 8;
}

/// Length of a receive buffer by RCTL.
fn buffer_len(rctl: u32) -> usize {
    let size = (rctl >> 16) & 3;
    match rctl & bits::SIZE_EXTENSION != 0 {
        true if size != 0 => 32_768 >> size,
        _ => 2_048 >> size,
    }
}
