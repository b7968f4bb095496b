//! Device information: the contents of a device's configuration space, sent in its introduction.

use crate::fields::{get_u16, get_u32, get_u64, put};

/// Number of base address registers.
pub const BARS: usize = 6;
/// Length of an encoded [`DeviceInfo`] in bytes.
pub const INFO_LEN: usize = 119;
/// Maximum number of MSI and MSI-X vectors in PCI.
const MOST_MSI: u8 = 32;
const MOST_MSIX: u16 = 2_048;
/// Length of an MSI-X table entry in bytes.
const MSIX_ENTRY: u64 = 16;
const BAR_FLAGS: u64 = 0xf;

/// Base address register: a range of registers or memory of the device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bar {
    /// Length in bytes, a power of two; 0 if unused.
    pub len: u64,
    /// Bit 0: I/O ports; 1: 64-bit; 2: prefetchable; 3: accesses do not reach the device.
    pub flags: u64,
}

/// Identity and resources of a device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeviceInfo {
    /// Base address registers.
    pub bars: [Bar; BARS],
    /// Vendor id.
    pub vendor: u16,
    /// Device id.
    pub device: u16,
    /// Class, subclass, revision, programming interface.
    pub class: [u8; 4],
    /// Number of MSI vectors.
    pub msi_vectors: u8,
    /// Number of MSI-X vectors.
    pub msix_vectors: u16,
    /// BARs of the MSI-X table and of the pending bit array.
    pub msix_bars: [u8; 2],
    /// Offsets of the table and the pending bit array in their BARs.
    pub msix_offsets: [u32; 2],
    /// Offset of the MSI-X capability in the configuration space.
    pub msix_capability: u16,
}

impl DeviceInfo {
    /// Encodes the information for an introduction.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![0; INFO_LEN];
        for (n, bar) in self.bars.iter().enumerate() {
            put(&mut bytes, 16 * n, &bar.len.to_le_bytes());
            put(&mut bytes, 16 * n + 8, &bar.flags.to_le_bytes());
        }
        put(&mut bytes, 96, &self.vendor.to_le_bytes());
        put(&mut bytes, 98, &self.device.to_le_bytes());
        put(&mut bytes, 100, &self.class);
        put(&mut bytes, 104, &[self.msi_vectors]);
        put(&mut bytes, 105, &self.msix_vectors.to_le_bytes());
        put(&mut bytes, 107, &self.msix_bars);
        put(&mut bytes, 109, &self.msix_offsets[0].to_le_bytes());
        put(&mut bytes, 113, &self.msix_offsets[1].to_le_bytes());
        put(&mut bytes, 117, &self.msix_capability.to_le_bytes());
        bytes
    }

    /// Decodes and validates device information.
    ///
    /// # Errors
    /// Names the first field with a value that PCI does not allow.
    pub fn decode(bytes: &[u8]) -> Result<DeviceInfo, String> {
        if bytes.len() < INFO_LEN {
            return Err(format!("its description of the device has {} bytes of {INFO_LEN}", bytes.len()));
        }
        let mut info = DeviceInfo {
            vendor: get_u16(bytes, 96),
            device: get_u16(bytes, 98),
            class: crate::fields::get(bytes, 100),
            msi_vectors: bytes[104],
            msix_vectors: get_u16(bytes, 105),
            msix_bars: crate::fields::get(bytes, 107),
            msix_offsets: [get_u32(bytes, 109), get_u32(bytes, 113)],
            msix_capability: get_u16(bytes, 117),
            ..DeviceInfo::default()
        };
        for (n, bar) in info.bars.iter_mut().enumerate() {
            *bar = Bar { len: get_u64(bytes, 16 * n), flags: get_u64(bytes, 16 * n + 8) };
        }
        info.check().map(|()| info)
    }

    fn check(&self) -> Result<(), String> {
        for (n, bar) in self.bars.iter().enumerate() {
            let is_wide = bar.flags & 2 != 0;
            if bar.len != 0 && !bar.len.is_power_of_two() {
                return Err(format!("BAR {n} has {} bytes, which is no power of two", bar.len));
            }
            if bar.flags & !BAR_FLAGS != 0 {
                return Err(format!("BAR {n} has the unknown flags {:#x}", bar.flags));
            }
            if bar.len > 1 << 31 && !is_wide {
                return Err(format!("BAR {n} has {} bytes, too many for 32-bit addresses", bar.len));
            }
            if bar.len != 0 && is_wide && self.bars.get(n + 1).is_none_or(|next| next.len != 0) {
                return Err(format!("BAR {n} is 64-bit, and the next one is not free for its upper half"));
            }
        }
        if self.msi_vectors > MOST_MSI || self.msix_vectors > MOST_MSIX {
            return Err(format!(
                "it has {} MSI and {} MSI-X vectors, of at most {MOST_MSI} and {MOST_MSIX}",
                self.msi_vectors, self.msix_vectors
            ));
        }
        let lens = [MSIX_ENTRY * u64::from(self.msix_vectors), u64::from(self.msix_vectors).div_ceil(64) * 8];
        for ((bar, offset), len) in self.msix_bars.iter().zip(self.msix_offsets).zip(lens) {
            let room = self.bars.get(usize::from(*bar)).map_or(0, |bar| bar.len);
            if self.msix_vectors > 0 && room < u64::from(offset) + len {
                return Err(format!("its MSI-X table does not lie within BAR {bar}"));
            }
        }
        Ok(())
    }

    /// True if an access of `len` bytes at `offset` lies within a BAR.
    pub fn has(&self, bar: u8, offset: u64, len: usize) -> bool {
        let room = self.bars.get(usize::from(bar)).map_or(0, |bar| bar.len);
        offset.checked_add(len as u64).is_some_and(|end| end <= room)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info() -> DeviceInfo {
        let mut info = DeviceInfo {
            vendor: 0x8086,
            device: 0x10d3,
            class: [2, 0, 1, 0],
            msi_vectors: 1,
            msix_vectors: 5,
            msix_bars: [3, 3],
            msix_offsets: [0, 0x2000],
            msix_capability: 0xa0,
            ..DeviceInfo::default()
        };
        info.bars[0] = Bar { len: 0x20000, flags: 2 };
        info.bars[3] = Bar { len: 0x4000, flags: 8 };
        info
    }

    #[test]
    fn fields_lie_where_the_protocol_has_them() {
        let bytes = info().encode();
        assert_eq!(bytes.len(), INFO_LEN);
        assert_eq!((get_u64(&bytes, 0), get_u64(&bytes, 8), get_u64(&bytes, 48)), (0x20000, 2, 0x4000));
        assert_eq!((get_u16(&bytes, 96), bytes[100], bytes[104], bytes[107]), (0x8086, 2, 1, 3));
        assert_eq!(DeviceInfo::decode(&bytes), Ok(info()));
    }

    #[test]
    fn devices_that_cannot_be_are_refused() {
        let refused = |change: fn(&mut DeviceInfo), reason: &str| {
            let mut changed = info();
            change(&mut changed);
            let error = DeviceInfo::decode(&changed.encode()).unwrap_err();
            assert!(error.contains(reason), "{error}");
        };
        refused(|info| info.bars[0].len = 100, "BAR 0 has 100 bytes");
        refused(|info| info.bars[0].flags = 0x10, "unknown flags");
        refused(|info| info.bars[3].len = 1 << 32, "too many for 32-bit");
        refused(|info| info.bars[1].len = 64, "upper half");
        refused(|info| info.bars[5] = Bar { len: 64, flags: 2 }, "BAR 5 is 64-bit");
        refused(|info| info.msi_vectors = 33, "33 MSI");
        refused(|info| info.msix_vectors = 2_049, "2049 MSI-X");
        refused(|info| info.msix_bars[0] = 4, "table does not lie within BAR 4");
        refused(|info| info.msix_bars[1] = 200, "BAR 200");
        refused(|info| info.msix_offsets[1] = 0x3ffc, "table does not lie within BAR 3");
        assert!(DeviceInfo::decode(&info().encode()[1..]).unwrap_err().contains("118 bytes"));
    }

    #[test]
    fn accesses_lie_within_bars() {
        let info = info();
        assert!(info.has(0, 0x1fffc, 4) && !info.has(0, 0x1fffd, 4) && !info.has(1, 0, 1));
        assert!(!info.has(6, 0, 1) && !info.has(0, u64::MAX, 4));
    }
}
