//! Access to guest memory that may be unmapped.

use belljar_linux_abi::Errno;
pub use belljar_shim::copy::fixup;
use belljar_shim::copy::{self, copy};

/// Copies from guest memory; `EFAULT` if a byte is unmapped.
///
/// # Safety
/// No memory of the simulator may lie in `addr..addr + out.len()`.
pub unsafe fn read(addr: u64, out: &mut [u8]) -> Result<(), Errno> {
    // SAFETY: `out` is writable; a fault at the source is fixed up.
    match unsafe { copy(out.as_mut_ptr(), addr as *const u8, out.len()) } {
        true => Ok(()),
        false => Err(Errno::EFAULT),
    }
}

/// Copies to guest memory; `EFAULT` if a byte is not writable.
///
/// # Safety
/// As for [`read`].
pub unsafe fn write(addr: u64, data: &[u8]) -> Result<(), Errno> {
    // SAFETY: `data` is readable; a fault at the target is fixed up.
    match unsafe { copy(addr as *mut u8, data.as_ptr(), data.len()) } {
        true => Ok(()),
        false => Err(Errno::EFAULT),
    }
}

/// Replaces the word at `addr` by `new` if it equals `old`; returns the previous value. `EINVAL` if `addr` is
/// unaligned.
///
/// # Safety
/// As for [`read`].
pub unsafe fn compare_exchange(addr: u64, old: u32, new: u32) -> Result<u32, Errno> {
    if !addr.is_multiple_of(4) {
        return Err(Errno::EINVAL);
    }
    // SAFETY: a fault at the word is fixed up.
    unsafe { copy::compare_exchange(addr as *mut u32, old, new) }.ok_or(Errno::EFAULT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_of_every_length_are_exact() {
        let source: Vec<u8> = (0..2000u32).map(|i| (i * 7 + 3) as u8).collect();
        for len in (0..70).chain([127, 128, 255, 256, 511, 512, 513, 514, 1999]) {
            let mut out = vec![0xee; len + 2];
            // SAFETY: both sides are memory of this test.
            unsafe { read(source[1..].as_ptr() as u64, &mut out[1..=len.min(1998)]) }.unwrap();
            let len = len.min(1998);
            assert_eq!(out[1..=len], source[1..=len], "{len}");
            assert_eq!(out[0], 0xee);
            assert_eq!(out[len + 1], 0xee, "{len}");
        }
    }
}
