//! Values of socket options, by levels, `getsockopt(2)` and `setsockopt(2)`. A level answers `ENOPROTOOPT` for an option that it
//! does not have. Level `SOL_SOCKET` is the caller's, since its options are about programs as well.

pub mod ip;
pub mod multicast;
pub mod raw;
pub mod tcp;
pub mod udp;

use belljar_linux_abi::Errno;
use smallvec::SmallVec;
use zerocopy::{Immutable, IntoBytes};

/// The value of an option.
pub type Value = SmallVec<[u8; 16]>;

/// An `int` as a value.
pub fn int(value: i32) -> Value {
    Value::from_slice(&value.to_ne_bytes())
}

/// A boolean as a value.
pub fn flag(value: bool) -> Value {
    int(i32::from(value))
}

/// A structure as a value.
pub fn structure(value: &(impl IntoBytes + Immutable)) -> Value {
    Value::from_slice(value.as_bytes())
}

/// The `int` at the start of a value: `EINVAL` if it is shorter.
pub fn to_int(value: &[u8]) -> Result<i32, Errno> {
    let bytes = value.get(..4).ok_or(Errno::EINVAL)?;
    Ok(i32::from_ne_bytes(bytes.try_into().expect("four bytes")))
}
