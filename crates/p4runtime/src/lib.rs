//! Control servers of a switch as state machines over byte streams: P4Runtime, and BMv2's Thrift interface. They are the same for
//! a connection inside a simulation and for a socket.
//!
//! Layers, bottom-up.
//! * [`proto`]: the messages of P4Runtime. Those of P4Info, and the objects of a program by their ids, are `belljar_p4info`.
//! * [`bytestring`]: P4Runtime's integers.
//! * [`grpc`]: calls over HTTP/2.
//! * [`pipeline`]: the seam to the switch, two traits.
//! * `state`: what controllers have written, and carrying out what they ask for.
//! * [`Server`]: connections, arbitration and the methods of the service.
//! * [`SwitchDevice`]: the v1model switch behind the seam.
//! * [`thrift`]: BMv2's Thrift interface, over the switch itself.
//!
//! The version of the specification is 1.3, with the fields of later ones that change no meaning (`role` by name, `metadata`,
//! `is_const`). Not supported: roles with a configuration, externs of other architectures, the colours that meters count,
//! backup replicas, classes of service of clones, direct resources of default entries, values that are translated to strings,
//! registers of structs, compression, TLS.
//!
//! Nothing in here reads a clock, opens a socket or knows whether the network is simulated.
#![forbid(unsafe_code)]

pub mod bytestring;
mod connections;
mod data;
mod device;
pub mod grpc;
pub mod pipeline;
pub mod proto;
mod refusal;
mod server;
mod state;
mod switch;
mod switch_server;
pub mod thrift;

pub use connections::Connections;
pub use device::{PortSettings, SwitchDevice, pipeline_config};
pub use refusal::Refusal;
pub use server::Server;
pub use switch::SwitchPipeline;
pub use switch_server::{SwitchServer, switch_server};

#[cfg(test)]
mod tests;
