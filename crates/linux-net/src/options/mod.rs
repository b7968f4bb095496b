//! Socket options by level, `getsockopt(2)` and `setsockopt(2)`. A level returns `ENOPROTOOPT` for an option
//! that it lacks. Level `SOL_SOCKET` belongs to the caller, since its options concern programs as well.

pub mod ip;
pub mod multicast;
pub mod raw;
pub mod tcp;
pub mod udp;

use belljar_linux_abi::Errno;
use smallvec::SmallVec;
use zerocopy::{Immutable, IntoBytes};

/// Value of an option.
pub type Value = SmallVec<[u8; 16]>;

/// Value of an `int`.
pub fn int(value: i32) -> Value {
    Value::from_slice(&value.to_ne_bytes())
}

/// Value of a boolean.
pub fn flag(value: bool) -> Value {
    int(i32::from(value))
}

/// Value of a structure.
pub fn structure(value: &(impl IntoBytes + Immutable)) -> Value {
    Value::from_slice(value.as_bytes())
}

/// `int` at the start of a value: `EINVAL` if it is shorter.
pub fn to_int(value: &[u8]) -> Result<i32, Errno> {
    let bytes = value.get(..4).ok_or(Errno::EINVAL)?;
    Ok(i32::from_ne_bytes(bytes.try_into().expect("four bytes")))
}
