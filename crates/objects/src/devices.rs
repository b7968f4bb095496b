//! Devices of `/dev` and their numbers.

use crate::loops::loop_of;
use belljar_linux_abi::Errno;

/// A character device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Device {
    /// `/dev/null`.
    Null,
    /// `/dev/zero`.
    Zero,
    /// `/dev/full`.
    Full,
    /// `/dev/random`.
    Random,
    /// `/dev/urandom`.
    Urandom,
    /// `/dev/tty`: the controlling terminal of the process that opens it.
    Tty,
    /// `/dev/ptmx`: each open creates a pseudo-terminal.
    Ptmx,
    /// `/dev/net/tun`: each open creates a file that can be attached to an interface.
    NetTun,
    /// `/dev/pts/<n>`: index in `Files::ptys` and terminal number.
    Pts(u32, u32),
    /// Device of the machine without a driver here, by its device number.
    Absent(u64),
    /// `/dev/loop-control`.
    LoopControl,
    /// `/dev/ptp<n>`: PTP hardware clock of this number.
    Ptp(u32),
    /// Block device, by its device number; only loop devices have a driver.
    Block(u64),
}

/// Major number of PTP hardware clocks, of those that Linux assigns at run time.
const PTP_MAJOR: u64 = 248;

/// Devices of every host.
pub const DEVICES: &[(&str, Device)] = &[
    ("/dev/null", Device::Null),
    ("/dev/zero", Device::Zero),
    ("/dev/full", Device::Full),
    ("/dev/random", Device::Random),
    ("/dev/urandom", Device::Urandom),
    ("/dev/tty", Device::Tty),
    ("/dev/ptmx", Device::Ptmx),
    ("/dev/net/tun", Device::NetTun),
    ("/dev/loop-control", Device::LoopControl),
];

impl Device {
    /// `st_rdev`.
    pub fn number(self) -> u64 {
        match self {
            Device::Null => 0x103,
            Device::Zero => 0x105,
            Device::Full => 0x107,
            Device::Random => 0x108,
            Device::Urandom => 0x109,
            Device::Tty => 0x500,
            Device::Ptmx => 0x502,
            Device::NetTun => 0xac8,
            Device::LoopControl => 0xaed,
            Device::Ptp(number) => PTP_MAJOR << 8 | u64::from(number),
            Device::Pts(_, number) => 0x8800 + u64::from(number),
            Device::Absent(number) | Device::Block(number) => number,
        }
    }
    /// Character device with this device number.
    pub fn of_number(number: u64) -> Device {
        if number >> 8 == PTP_MAJOR {
            return Device::Ptp(number as u32 & 0xff);
        }
        let known = DEVICES.iter().find(|(_, device)| device.number() == number);
        known.map_or(Device::Absent(number), |(_, device)| *device)
    }
    /// Checks that the device can be opened by number: `ENXIO` without a driver or, for `/dev/tty`, without a
    /// controlling terminal.
    pub fn open(self) -> Result<(), Errno> {
        match self {
            Device::Block(number) if loop_of(number).is_some() => Ok(()),
            Device::Tty | Device::Absent(_) | Device::Block(_) => Err(Errno::ENXIO),
            _ => Ok(()),
        }
    }
}
