//! Loop devices, `loop(4)`: block devices backed by a file.

use crate::ids::FileKey;
use belljar_base::Map;
use belljar_linux_abi::{Errno, c};

/// Major device number of loop devices.
pub const MAJOR: u64 = 7;
/// `LO_FLAGS_READ_ONLY`: the device is read-only.
pub const READ_ONLY: u32 = 1;
/// `LO_FLAGS_AUTOCLEAR`: the device is detached from its file at the last close.
pub const AUTOCLEAR: u32 = 4;
/// `LO_FLAGS_PARTSCAN` and `LO_FLAGS_DIRECT_IO`, which have no effect here.
const PARTSCAN: u32 = 8;
const DIRECT: u32 = 16;
/// Flags that `LOOP_SET_STATUS` can set, and flags that it can clear.
const SETTABLE: u32 = AUTOCLEAR | PARTSCAN;
const CLEARABLE: u32 = AUTOCLEAR;
/// Flags that `LOOP_CONFIGURE` can set.
const CONFIGURABLE: u32 = READ_ONLY | AUTOCLEAR | PARTSCAN | DIRECT;

/// Size of `struct loop_info` in bytes.
pub const OLD_INFO: usize = 168;
/// Size of `struct loop_info64` in bytes.
pub const INFO: usize = 232;

/// Number of loop devices present in `/dev` from the start.
pub const LOOPS_AT_START: u64 = 8;

/// Mode bits of the device nodes: read and write for user and group (`disk`).
pub const LOOP_MODE: u32 = c::S_IRUSR | c::S_IWUSR | c::S_IRGRP | c::S_IWGRP;

/// Loop device number of a block device; `None` for other block devices.
pub fn loop_of(device: u64) -> Option<u64> {
    (device >> 8 == MAJOR).then_some(device & 0xff)
}

/// Checks a block size in bytes: a power of two between 512 and 4096, otherwise `EINVAL`.
pub fn valid_block(size: u64) -> Result<u32, Errno> {
    if (512..=4_096).contains(&size) && size.is_power_of_two() { Ok(size as u32) } else { Err(Errno::EINVAL) }
}

/// Loop device with a backing file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loop {
    /// Backing file, of which the device holds a reference.
    pub file: FileKey,
    /// Offset of the device in the file, in bytes.
    pub offset: u64,
    /// Size limit in bytes; 0 for the end of the file.
    pub limit: u64,
    /// `LO_FLAGS_*`.
    pub flags: u32,
    /// Name set by user space.
    pub name: [u8; 64],
    /// Block size in bytes.
    pub block: u32,
    /// File size in bytes when it was last read; growth of the file does not by itself enlarge the device.
    pub file_size: u64,
}

/// Loop devices of a host.
#[derive(Debug, Default)]
pub struct Loops {
    bound: Map<u64, Loop>,
    /// Read-ahead in sectors, where it was set.
    read_ahead: Map<u64, u64>,
}

impl Loop {
    /// Creates a device backed by a file.
    pub fn new(file: FileKey, file_size: u64, read_only: bool) -> Loop {
        let flags = if read_only { READ_ONLY } else { 0 };
        Loop { file, offset: 0, limit: 0, flags, name: [0; 64], block: 512, file_size }
    }
    /// Device size in bytes, rounded down to whole sectors.
    pub fn size(&self) -> u64 {
        let there = self.file_size.saturating_sub(self.offset);
        let size = if self.limit > 0 { there.min(self.limit) } else { there };
        size / 512 * 512
    }
    /// Applies the settings of `struct loop_info64`. `EINVAL` for unsupported values.
    pub fn set_info(&mut self, info: &[u8; INFO], configures: bool) -> Result<(), Errno> {
        let long = |at: usize| u64::from_le_bytes(info[at..at + 8].try_into().unwrap_or_default());
        let word = |at: usize| u32::from_le_bytes(info[at..at + 4].try_into().unwrap_or_default());
        let (offset, limit, encryption, flags) = (long(24), long(32), word(44), word(52));
        if encryption != 0 || word(48) > 32 {
            return Err(Errno::EINVAL);
        }
        if offset > i64::MAX as u64 || limit > i64::MAX as u64 {
            return Err(Errno::EOVERFLOW);
        }
        (self.offset, self.limit) = (offset, limit);
        self.name.copy_from_slice(&info[56..120]);
        self.name[63] = 0;
        self.flags = match configures {
            true => self.flags & READ_ONLY | flags & CONFIGURABLE,
            // Flags that cannot be cleared stay set.
            false => self.flags & !CLEARABLE | flags & SETTABLE,
        };
        Ok(())
    }
    /// Encodes `struct loop_info64`, with the device and inode number of the backing file.
    pub fn info(&self, number: u64, (device, inode): (u64, u64)) -> [u8; INFO] {
        let mut info = [0; INFO];
        for (at, value) in [(0, device), (8, inode), (24, self.offset), (32, self.limit)] {
            info[at..at + 8].copy_from_slice(&value.to_le_bytes());
        }
        info[40..44].copy_from_slice(&(number as u32).to_le_bytes());
        info[52..56].copy_from_slice(&self.flags.to_le_bytes());
        info[56..120].copy_from_slice(&self.name);
        info
    }
}

/// Converts `struct loop_info` to `struct loop_info64`.
pub fn from_old(old: &[u8; OLD_INFO]) -> [u8; INFO] {
    let mut info = [0; INFO];
    info[24..28].copy_from_slice(&old[32..36]);
    info[44..52].copy_from_slice(&old[36..44]);
    info[52..56].copy_from_slice(&old[44..48]);
    info[56..120].copy_from_slice(&old[48..112]);
    info
}

/// Converts `struct loop_info64` to `struct loop_info`. `EOVERFLOW` if the offset does not fit.
pub fn to_old(info: &[u8; INFO]) -> Result<[u8; OLD_INFO], Errno> {
    let mut old = [0; OLD_INFO];
    let offset = u64::from_le_bytes(info[24..32].try_into().unwrap_or_default());
    let offset = i32::try_from(offset).map_err(|_| Errno::EOVERFLOW)?;
    old[0..4].copy_from_slice(&info[40..44]);
    old[8..16].copy_from_slice(&info[0..8]);
    old[16..24].copy_from_slice(&info[8..16]);
    old[32..36].copy_from_slice(&offset.to_le_bytes());
    old[36..44].copy_from_slice(&info[44..52]);
    old[44..48].copy_from_slice(&info[52..56]);
    old[48..112].copy_from_slice(&info[56..120]);
    Ok(old)
}

impl Loops {
    /// Device by number, if it is bound to a file.
    pub fn get(&self, number: u64) -> Option<&Loop> {
        self.bound.get(&number)
    }
    /// Mutable device by number. `ENXIO` if it is unbound.
    pub fn get_mut(&mut self, number: u64) -> Result<&mut Loop, Errno> {
        self.bound.get_mut(&number).ok_or(Errno::ENXIO)
    }
    /// Binds a device to a file. `EBUSY` if it is bound.
    pub fn bind(&mut self, number: u64, device: Loop) -> Result<(), Errno> {
        if self.bound.contains_key(&number) {
            return Err(Errno::EBUSY);
        }
        self.bound.insert(number, device);
        Ok(())
    }
    /// Unbinds a device.
    pub fn unbind(&mut self, number: u64) -> Option<Loop> {
        self.bound.remove(&number)
    }
    /// Numbers of the bound devices.
    pub fn bound(&self) -> Vec<u64> {
        self.bound.keys().copied().collect()
    }
    /// Lowest unbound number.
    pub fn free(&self) -> u64 {
        (0..).find(|number| !self.bound.contains_key(number)).unwrap_or(0)
    }
    /// Read-ahead in sectors.
    pub fn read_ahead(&self, number: u64) -> u64 {
        self.read_ahead.get(&number).copied().unwrap_or(256)
    }
    /// Sets the read-ahead in sectors.
    pub fn set_read_ahead(&mut self, number: u64, sectors: u64) {
        self.read_ahead.insert(number, sectors);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn status_goes_round_in_both_forms() {
        let mut device = Loop::new(FileKey(1), 10_000, false);
        assert_eq!(device.size(), 9_728, "whole sectors");
        let mut info = [0; INFO];
        info[24..32].copy_from_slice(&4_096u64.to_le_bytes());
        info[32..40].copy_from_slice(&1_024u64.to_le_bytes());
        info[52] = AUTOCLEAR as u8;
        info[56..60].copy_from_slice(b"disk");
        device.set_info(&info, false).unwrap();
        assert_eq!((device.offset, device.size(), device.flags), (4_096, 1_024, AUTOCLEAR));
        let shown = device.info(3, (5, 6));
        assert_eq!((shown[40], &shown[56..61]), (3, &b"disk\0"[..]));
        let old = to_old(&shown).unwrap();
        assert_eq!((old[0], &old[48..52]), (3, &b"disk"[..]));
        assert_eq!(from_old(&old)[24..32], shown[24..32]);
        info[44] = 1;
        assert_eq!(device.set_info(&info, false), Err(Errno::EINVAL), "no encryption");
    }

    #[test]
    fn a_device_has_one_file() {
        let mut loops = Loops::default();
        let device = Loop::new(FileKey(1), 512, true);
        loops.bind(0, device.clone()).unwrap();
        assert_eq!((loops.bind(0, device), loops.free()), (Err(Errno::EBUSY), 1));
        assert!(loops.unbind(0).is_some() && loops.get_mut(0) == Err(Errno::ENXIO) && loops.free() == 0);
    }
}
