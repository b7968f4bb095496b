//! Guest memory, which may not be there, and calls made in the guest's stead.

use super::error;
use crate::copy;
use core::mem::MaybeUninit;

/// Makes a system call in the place of the guest.
pub fn native(number: u64, args: [u64; 6]) -> i64 {
    // SAFETY: the guest could make any call itself, and what it would do to memory is done to memory that is the
    // guest's; the shim passes no other than its own variables, whose sizes the calls know.
    unsafe { crate::system::call(number as usize, args) }
}

/// Plain data that every bit pattern is a value of.
///
/// # Safety
/// It must be so.
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
// SAFETY: arrays of what is plain have no bits besides.
unsafe impl<T: Plain, const N: usize> Plain for [T; N] {}

/// Reads from guest memory.
pub fn read<T: Plain>(at: u64) -> Result<T, i64> {
    let mut value = MaybeUninit::<T>::uninit();
    // SAFETY: the variable has room, and a source that is not there is found out (see `signals`).
    let there = unsafe { copy::copy(value.as_mut_ptr().cast(), at as *const u8, size_of::<T>()) };
    // SAFETY: all of it was copied, and every pattern is a value.
    if there { Ok(unsafe { value.assume_init() }) } else { Err(error::FAULT) }
}

/// Writes to guest memory.
pub fn write<T: Plain>(at: u64, value: T) -> Result<(), i64> {
    // SAFETY: the guest named the place, and one that is not there is found out.
    match unsafe { copy::copy(at as *mut u8, (&raw const value).cast(), size_of::<T>()) } {
        true => Ok(()),
        false => Err(error::FAULT),
    }
}

/// Changes a value in guest memory.
pub fn update<T: Plain>(at: u64, change: impl FnOnce(T) -> T) -> Result<(), i64> {
    write(at, change(read(at)?))
}

/// The result of a call that fails early by `?`.
pub fn result(of: Result<i64, i64>) -> i64 {
    match of {
        Ok(value) | Err(value) => value,
    }
}
