//! P4 programs on the v1model switch, sans-IO: packets, ports and times in; packets, digests, notifications and timers
//! out.
//!
//! * [`json`]: BMv2 JSON 2.x, as compilers write it.
//! * [`Program`]: a program, lowered once to flat arrays of expressions and instructions.
//! * [`Switch`]: ports, queues, replication and the program's state. [`control`] is its control plane.
//! * [`files`]: files that set a switch up. [`stf`]: packet tests.
//!
//! Nothing in here reads a clock or opens a socket.
#![forbid(unsafe_code)]

mod bits;
pub mod control;
mod error;
mod eval;
pub mod files;
mod hash;
pub mod json;
mod lower;
mod meter;
mod number;
mod packet;
mod phv;
mod profile;
mod program;
mod registers;
mod run;
mod state;
pub mod stf;
mod suggest;
pub mod switch;
mod table;
mod trace;

pub use error::LoadError;
pub use hash::CrcParameters;
pub use meter::Colour;
pub use program::Program;
pub use switch::{Leaving, Notification, Switch, SwitchConfig};
pub use trace::Step;
