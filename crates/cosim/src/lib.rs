//! The channel protocol of SimBricks, version 1: two simulators exchange time-stamped messages over queues in
//! shared memory, and keep their clocks in step by what the stamps promise.
//!
//! * [`address`]: adapter URLs, `connect:SOCKET:...` and `listen:SOCKET:MEMORY:...`
//! * [`intro`]: what the two sides tell each other on a socket first
//! * [`setup`]: the way from an address to a channel, without blocking; [`establish`] waits for it, within bounds
//! * [`channel`]: sending, receiving and the promises of time, sans-IO in spirit: `now` is passed in, nothing blocks
//! * [`layer`]: what a channel carries; [`net`]: Ethernet frames; [`requests`]: PCIe and memory; [`wire`]: any of
//!   them
//! * [`process`]: simulators that are started and ended here; [`turns`]: which of them run where processors are short
//! * [`proxy`]: channels between two machines
//! * [`wait`]: how to wait for a peer that shares processors with us; [`watch`]: who waits for whom, for other threads
//!
//! A message sent at T is stamped T + the latency that the sender gives its end. Stamps never fall, so one that has been
//! seen bounds all that come: nothing arrives before it. This bound is the channel's [`horizon`](Channel::horizon),
//! up to which (exclusive) its owner may go. Whoever has nothing to say sends SYNC at least every `sync_interval`.
//!
//! Whatever a peer sends is checked before it is used, and a peer that breaks the protocol, dies or never comes is
//! an [`Error`] that names it.
#![forbid(unsafe_code)]

pub mod address;
pub mod channel;
#[cfg(test)]
mod channel_tests;
mod error;
pub mod intro;
pub mod layer;
pub mod net;
pub mod process;
pub mod proxy;
pub mod requests;
#[cfg(test)]
mod requests_tests;
pub mod setup;
#[cfg(test)]
mod setup_tests;
#[cfg(test)]
mod testing;
pub mod turns;
pub mod wait;
pub mod watch;
pub mod wire;

pub use address::{Address, Role};
pub use channel::Channel;
pub use error::{Error, Fault};
pub use layer::Layer;
pub use net::{Frame, Net};
pub use requests::{MemoryDevice, MemoryHost, PcieDevice, PcieHost};
pub use setup::{Parameters, Setup, SyncMode, establish};
pub use wait::Backoff;
pub use watch::Watch;
pub use wire::Wire;
