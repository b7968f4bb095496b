//! Arguments of `IORING_OP_TIMEOUT`, `IORING_OP_LINK_TIMEOUT` and their updates, and the classification of
//! results as failures.

use crate::entry::{IO_HARDLINK, LINK_TIMEOUT, SPLICE, SubmissionEntry, TEE, TIMEOUT, failure};
use belljar_linux_abi::Errno;

/// `IORING_TIMEOUT_*`; `CLOCK_BOOTTIME` equals `CLOCK_MONOTONIC` here.
pub const ABSOLUTE: u32 = 1;
/// `IORING_TIMEOUT_UPDATE`.
pub const UPDATE: u32 = 2;
const BOOTTIME: u32 = 4;
/// `IORING_TIMEOUT_REALTIME`.
pub const REALTIME: u32 = 8;
/// `IORING_LINK_TIMEOUT_UPDATE`.
pub const LINK_UPDATE: u32 = 16;
const ETIME_SUCCESS: u32 = 32;
const MULTISHOT: u32 = 64;

/// Rejects two clocks at once.
fn check_clock(flags: u32) -> Result<(), Errno> {
    if flags & (BOOTTIME | REALTIME) == BOOTTIME | REALTIME { Err(Errno::EINVAL) } else { Ok(()) }
}

impl SubmissionEntry {
    /// True if the time-out continues after a completion.
    pub fn repeats(&self) -> bool {
        self.op == TIMEOUT && self.op_flags & MULTISHOT != 0
    }
    /// Number of completions after which a time-out ends; 0 if it does not count them.
    pub fn counted_completions(&self) -> u32 {
        if self.op != TIMEOUT || self.repeats() { 0 } else { self.off.min(u64::from(u32::MAX)) as u32 }
    }
    /// Validates `IORING_OP_TIMEOUT_REMOVE`.
    pub fn check_timeout_remove(&self) -> Result<(), Errno> {
        let updates = self.op_flags & (UPDATE | LINK_UPDATE) != 0;
        let known = UPDATE | LINK_UPDATE | ABSOLUTE | BOOTTIME | REALTIME;
        check_clock(self.op_flags)?;
        if self.buffer != 0 || self.len != 0 || self.file_index != 0 || self.op_flags & !known != 0 {
            return Err(Errno::EINVAL);
        }
        if !updates && self.op_flags != 0 { Err(Errno::EINVAL) } else { Ok(()) }
    }
    /// Validates the flags of a time-out or linked time-out.
    pub fn check_timeout_flags(&self) -> Result<(), Errno> {
        let known = ABSOLUTE | BOOTTIME | REALTIME | ETIME_SUCCESS | MULTISHOT;
        let wrong = self.buffer != 0 || self.len != 1 || self.file_index != 0;
        if wrong || self.op_flags & !known != 0 || (self.op == LINK_TIMEOUT && self.off != 0) {
            return Err(Errno::EINVAL);
        }
        if self.op_flags & MULTISHOT != 0 && (self.op == LINK_TIMEOUT || self.op_flags & ABSOLUTE != 0) {
            return Err(Errno::EINVAL);
        }
        check_clock(self.op_flags)
    }
    /// True if the result counts as a failure.
    pub fn has_failed(&self, result: i32) -> bool {
        // A linked time-out that expires has served its purpose.
        if self.op == LINK_TIMEOUT {
            return false;
        }
        let short =
            matches!(self.op, 4 | 5 | 22 | 23 | SPLICE | TEE) && result >= 0 && result as u32 != self.len;
        let on_time =
            self.op == TIMEOUT && self.op_flags & ETIME_SUCCESS != 0 && result == failure(Errno::ETIME);
        (result < 0 && !on_time) || short
    }
    /// True if the result cancels linked entries.
    pub fn breaks_chain(&self, result: i32) -> bool {
        self.flags & IO_HARDLINK == 0 && self.has_failed(result)
    }
}
