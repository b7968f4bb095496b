//! Size tables: lengths of packets as a link layer counts them (`struct qdisc_size_table`, `tc-stab(8)`).

use crate::attributes::{Attributes, Out, half, word};
use crate::error::{TcError, invalid};

const BASE: u16 = 1;
const DATA: u16 = 2;
/// Length of `struct tc_sizespec` in bytes.
const SIZESPEC: usize = 24;
/// `STAB_SIZE_LOG_MAX`.
const SIZE_LOG_MAX: u8 = 30;

/// Table of the lengths that packets count as.
#[derive(Clone, Debug)]
pub(crate) struct SizeTable {
    spec: [u8; SIZESPEC],
    data: Vec<u16>,
}

impl SizeTable {
    /// Reads `TCA_STAB` (`qdisc_get_stab`).
    pub(crate) fn read(attributes: Attributes<'_>) -> Result<SizeTable, TcError> {
        let spec = attributes.array::<SIZESPEC>(BASE)?;
        let spec = spec.ok_or(invalid("Size table base attribute is missing"))?;
        let mut data = Vec::new();
        if word(&spec, 20) > 0 {
            let bytes = attributes.get(DATA).ok_or(invalid("Size table data attribute is missing"))?;
            data.extend(bytes.chunks_exact(2).map(|pair| u16::from_ne_bytes([pair[0], pair[1]])));
        }
        if word(&spec, 20) as usize != data.len() || word(&spec, 20) == 0 && !data.is_empty() {
            return Err(invalid("Invalid size of size table"));
        }
        if spec[1] > SIZE_LOG_MAX || spec[0] > SIZE_LOG_MAX {
            return Err(invalid("Invalid logarithmic size of size table"));
        }
        Ok(SizeTable { spec, data })
    }
    /// Length that a packet counts as (`__qdisc_calculate_pkt_len`).
    pub(crate) fn length(&self, len: u32) -> u32 {
        let (cell_log, size_log) = (self.spec[0], self.spec[1]);
        let align = i64::from(half(&self.spec, 2) as i16);
        let len = i64::from(len) + i64::from(word(&self.spec, 4) as i32);
        let Some(last) = self.data.last() else { return len.max(1) as u32 };
        let slot = (len + align).max(0) >> cell_log;
        let count = self.data.len() as i64;
        let size = |slot: i64| i64::from(self.data[slot as usize]);
        let counted = match slot < count {
            true => size(slot) << size_log,
            false => (i64::from(*last) * (slot / count) + size(slot % count)) << size_log,
        };
        counted.clamp(1, i64::from(u32::MAX)) as u32
    }
    /// Appends `TCA_STAB`.
    pub(crate) fn write(&self, out: &mut Out) {
        out.nest(8, |out| out.put(BASE, &self.spec));
    }
}
