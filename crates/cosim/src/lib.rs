//! The channel protocol of SimBricks, version 1: two simulators exchange timestamped messages over queues in
//! shared memory, and synchronise their clocks by the guarantees that the timestamps imply.
//!
//! * [`address`]: adapter URLs, `connect:SOCKET:...` and `listen:SOCKET:MEMORY:...`
//! * [`intro`]: the initial messages of the two sides on a socket
//! * [`setup`]: establishes a channel from an address, without blocking; [`establish`] waits for it, with a
//!   timeout
//! * [`channel`]: sending, receiving and the guarantees of time, sans-IO in spirit: `now` is passed in, no
//!   call blocks
//! * [`layer`]: the content of messages; [`net`]: Ethernet frames; [`requests`]: PCIe and memory; [`wire`]:
//!   any of them
//! * [`process`]: simulators started and ended by this process; [`turns`]: scheduling of them on too few
//!   processors
//! * [`proxy`]: channels between two machines
//! * [`wait`]: waiting for a peer that shares processors with this process; [`watch`]: the state of waits,
//!   for other threads
//!
//! A message sent at T carries the timestamp T + the latency that the sender assigns to its end. Timestamps
//! never decrease, so each is a lower bound on those of all later messages. This bound is the channel's
//! [`horizon`](Channel::horizon), up to which (exclusive) its owner may advance. A side without other
//! messages sends SYNC at least every `sync_interval`.
//!
//! All input from a peer is checked before it is used. A peer that breaks the protocol, dies or never
//! connects causes an [`Error`] that names it.
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
