//! Control servers of a switch as state machines over byte streams: P4Runtime, and BMv2's Thrift interface.
//! The same code serves simulated connections and sockets.
//!
//! Layers, bottom-up.
//! * [`proto`]: messages of P4Runtime. P4Info messages, and the objects of a program by id, are in
//!   `belljar_p4info`.
//! * [`bytestring`]: integers of P4Runtime.
//! * [`grpc`]: calls over HTTP/2.
//! * [`pipeline`]: interface to the switch, two traits.
//! * `state`: entities written by controllers, and the execution of requests.
//! * [`Server`]: connections, arbitration and the methods of the service.
//! * `device`, `switch`: the v1model switch (`belljar_p4`) behind the interface.
//! * [`thrift`]: BMv2's Thrift interface, directly on the switch.
//!
//! The server implements P4Runtime 1.3, with the fields of later versions that change no meaning (`role` by
//! name, `metadata`, `is_const`). Not supported: roles with a configuration, externs of other architectures,
//! per-colour meter counters, backup replicas, classes of service of clones, direct resources of default
//! entries, translation of values to strings, registers of structs, compression, TLS.
//!
//! The crate reads no clock, opens no socket and does not depend on whether the network is simulated.
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

pub use device::pipeline_config;
pub use refusal::Refusal;
pub use server::Server;
pub use switch_server::control_servers;

#[cfg(test)]
mod tests;
