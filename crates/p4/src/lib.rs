//! P4 programs on the v1model switch, sans-IO: the inputs are packets, ports and times; the outputs are
//! packets, digests, notifications and timers.
//!
//! * [`Program`]: a program, lowered once from BMv2 JSON (`p4json`) to flat arrays of expressions and
//!   instructions.
//! * [`Switch`]: ports, queues, replication and the state of the program. [`control`] is its control plane.
//! * [`servers`]: interface to the servers of its controllers.
//! * [`SwitchDevice`]: a switch whose program can be replaced while it runs.
//!
//! Crate `p4files` reads the files that configure and test a switch. This crate reads no clock and opens no
//! socket.
#![forbid(unsafe_code)]

mod bits;
pub mod control;
mod device;
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
pub mod servers;
mod state;
pub mod switch;
mod table;
mod trace;

pub use device::{PortSettings, SwitchDevice};
pub use hash::CrcParameters;
pub use meter::Colour;
pub use program::Program;
pub use switch::{Leaving, Notification, Switch, SwitchConfig};
pub use trace::{Step, hex};
