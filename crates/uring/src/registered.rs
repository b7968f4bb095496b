//! Registrations other than files and buffers: restrictions, and registered ring descriptors.

use crate::entry::{OPS, SubmissionEntry};
use crate::instance::Urings;
use belljar_linux_abi::Errno;
use belljar_objects::ids::FileKey;

/// `IO_RINGFD_REG_MAX`.
pub const MOST_RINGS: usize = 16;
/// `IORING_MAX_RESTRICTIONS`.
const MOST_RESTRICTIONS: usize = 64;

/// Ring descriptors registered by a thread.
pub type RingTable = [Option<FileKey>; MOST_RINGS];

/// Restrictions: operations that an instance allows.
#[derive(Clone, Debug, Default)]
pub struct RingRestrictions {
    /// Bit sets of allowed operations: `register` of `io_uring_register(2)`, `entries` of submission entries.
    register: u128,
    entries: u128,
    allowed_flags: u8,
    required_flags: u8,
}

impl RingRestrictions {
    /// Parses an array of `struct io_uring_restriction`.
    pub fn parse(bytes: &[u8]) -> Result<RingRestrictions, Errno> {
        if bytes.len() / 16 > MOST_RESTRICTIONS {
            return Err(Errno::EINVAL);
        }
        let mut restrictions = RingRestrictions::default();
        for one in bytes.chunks_exact(16) {
            let (kind, value) = (u16::from_ne_bytes([one[0], one[1]]), one[2]);
            let bit = 1u128.checked_shl(u32::from(value)).unwrap_or(0);
            match kind {
                0 if bit == 0 => return Err(Errno::EINVAL),
                0 => restrictions.register |= bit,
                1 if value >= OPS => return Err(Errno::EINVAL),
                1 => restrictions.entries |= bit,
                2 => restrictions.allowed_flags = value,
                3 => restrictions.required_flags = value,
                _ => return Err(Errno::EINVAL),
            }
        }
        Ok(restrictions)
    }
    /// True if the entry is allowed.
    pub fn allow_entry(&self, entry: &SubmissionEntry) -> bool {
        let required = self.required_flags;
        self.entries >> entry.op & 1 != 0
            && entry.flags & required == required
            && entry.flags & !(self.allowed_flags | required) == 0
    }
    /// True if the operation of `io_uring_register(2)` is allowed.
    pub fn allow_register(&self, operation: u32) -> bool {
        operation < 128 && self.register >> operation & 1 != 0
    }
}

impl Urings {
    /// Instance at an index of a thread's registered ring descriptors.
    pub fn registered_ring(&self, tid: i32, place: i32) -> Result<FileKey, Errno> {
        let place = usize::try_from(place).ok().filter(|place| *place < MOST_RINGS).ok_or(Errno::EINVAL)?;
        self.of_threads.get(&tid).and_then(|table| table[place]).ok_or(Errno::EBADF)
    }
}
