//! Access to guest memory that may be unmapped, and system calls made on behalf of the guest.

use super::error;
use crate::copy;
use core::mem::MaybeUninit;

/// Makes a system call on behalf of the guest.
pub fn native(number: u64, args: [u64; 6]) -> i64 {
    // SAFETY: the guest could make any call itself, and its effects on memory concern the guest's memory; the
    // shim passes only its own variables besides, whose sizes the calls know.
    unsafe { crate::system::call(number as usize, args) }
}

/// Plain data: every bit pattern is a valid value.
///
/// # Safety
/// Every bit pattern must be a valid value of the type, which must not have padding.
pub unsafe trait Plain: Copy {}
// SAFETY: integers.
unsafe impl Plain for u8 {}
// SAFETY: integers.
unsafe impl Plain for u16 {}
// SAFETY: integers.
unsafe impl Plain for u32 {}
// SAFETY: integers.
unsafe impl Plain for u64 {}
// SAFETY: integers.
unsafe impl Plain for i64 {}
// SAFETY: arrays of plain data have no padding.
unsafe impl<T: Plain, const N: usize> Plain for [T; N] {}

/// Reads a value from guest memory; `EFAULT` if it is unmapped.
pub fn read<T: Plain>(at: u64) -> Result<T, i64> {
    let mut value = MaybeUninit::<T>::uninit();
    // SAFETY: the variable has room, and an unmapped source is detected (see `signals`).
    let there = unsafe { copy::copy(value.as_mut_ptr().cast(), at as *const u8, size_of::<T>()) };
    // SAFETY: all bytes were copied, and every pattern is a valid value.
    if there { Ok(unsafe { value.assume_init() }) } else { Err(error::FAULT) }
}

/// Writes a value to guest memory; `EFAULT` if it is not writable.
pub fn write<T: Plain>(at: u64, value: T) -> Result<(), i64> {
    // SAFETY: the guest supplied the address, and an unmapped one is detected.
    match unsafe { copy::copy(at as *mut u8, (&raw const value).cast(), size_of::<T>()) } {
        true => Ok(()),
        false => Err(error::FAULT),
    }
}

/// Updates a value in guest memory.
pub fn update<T: Plain>(at: u64, change: impl FnOnce(T) -> T) -> Result<(), i64> {
    write(at, change(read(at)?))
}

/// The result of a handler that uses `?` for errors.
pub fn result(of: Result<i64, i64>) -> i64 {
    match of {
        Ok(value) | Err(value) => value,
    }
}
