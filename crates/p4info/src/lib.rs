//! P4Info: the objects of a P4 program as its controllers address them.
//!
//! * [`proto`]: the messages of `p4/config/v1`, in binary and as text.
//! * [`Objects`]: a program's objects by their ids.
//! * [`check`]: P4Info held against the program that it is said to describe.
//!
//! Nothing in here knows of servers, connections or the state that controllers write.
#![forbid(unsafe_code)]

mod check;
mod error;
mod objects;
pub mod proto;

pub use check::{Object, check};
pub use error::{Error, Missing};
pub use objects::{ActionInfo, Array, DataType, Field, Objects, Parameter, Profile, Table};
