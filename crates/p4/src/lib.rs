//! P4 programs on the v1model switch, sans-IO: packets, ports and times in; packets, digests, notifications and timers
//! out.
//!
//! * [`Program`]: a program, lowered once from BMv2 JSON (`p4json`) to flat arrays of expressions and instructions.
//! * [`Switch`]: ports, queues, replication and the program's state. [`control`] is its control plane.
//!
//! Files that set a switch up and test it are read by `p4files`. Nothing in here reads a clock or opens a socket.
#![forbid(unsafe_code)]

mod bits;
pub mod control;
mod eval;
mod hash;
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
pub mod switch;
mod table;
mod trace;

pub use hash::CrcParameters;
pub use meter::Colour;
pub use program::Program;
pub use switch::{Leaving, Notification, Switch, SwitchConfig};
pub use trace::{Step, hex};
