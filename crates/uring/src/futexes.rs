//! Arguments of `IORING_OP_FUTEX_WAIT`, `IORING_OP_FUTEX_WAITV` and `IORING_OP_FUTEX_WAKE`.

use crate::entry::{FUTEX_WAITV, SubmissionEntry};
use belljar_linux_abi::{Errno, c};

/// `FUTEX2_SIZE_U32`, the only supported word size.
pub const SIZE_32: u32 = 2;
/// `FUTEX2_PRIVATE`.
pub const PRIVATE: u32 = c::FUTEX_PRIVATE_FLAG as u32;
/// `FUTEX_WAITV_MAX`.
const MOST: u32 = 128;

impl SubmissionEntry {
    /// Validates the arguments before any futex lookup.
    pub fn check_futex(&self) -> Result<(), Errno> {
        let common = self.op_flags != 0 || self.buffer != 0 || self.file_index != 0;
        let wrong = match self.op {
            FUTEX_WAITV => {
                common || self.fd != 0 || self.off != 0 || self.addr3 != 0 || self.len == 0 || self.len > MOST
            }
            _ => {
                let flags = self.fd as u32;
                let too_wide = |value: u64| value > u64::from(u32::MAX);
                common
                    || self.len != 0
                    || flags & !PRIVATE != SIZE_32
                    || too_wide(self.off)
                    || too_wide(self.addr3)
            }
        };
        if wrong { Err(Errno::EINVAL) } else { Ok(()) }
    }
}
