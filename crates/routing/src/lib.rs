//! Routing protocols as sans-IO state machines: packets, timers, interfaces and missing routes are inputs;
//! packets, routes and timers are outputs. There is no clock (`now` is passed in), no socket and no ambient
//! randomness (jitter is drawn from a seeded stream), and every set that packets can fill has an upper bound.
//!
//! # Layers
//!
//! | module | content |
//! |---|---|
//! | [`contract`] | the trait [`Protocol`] and the values that its methods exchange |
//! | [`olsr`] | OLSR (RFC 3626), proactive, link state, over UDP |
//! | [`aodv`] | AODV (RFC 3561), reactive, distance vector, over UDP |
//! | [`bridge`] | a link-state protocol between layer-2 bridges, defined here |
//!
//! # Contract
//!
//! One value is one node. After **every** call of an `on_...` method the caller
//!
//! 1. calls [`poll_route`](Protocol::poll_route) until it returns `None` and applies the changes to its
//!    forwarding table in that order,
//! 2. calls [`poll_transmit`](Protocol::poll_transmit) until it returns `None` and sends the packets,
//! 3. calls [`poll_released`](Protocol::poll_released) until it returns `None` (only reactive protocols hold
//!    packets),
//! 4. sets its timer to [`next_timer`](Protocol::next_timer) and calls [`on_timer`](Protocol::on_timer) then.
//!    An earlier call is harmless.
//!
//! `now` must not decrease. A new node has no interfaces; [`on_interface`](Protocol::on_interface) adds them.
//!
//! # Not covered
//!
//! | protocol | not implemented |
//! |---|---|
//! | OLSR | IPv6, `MPR_COVERAGE` above 1 (RFC 3626, section 16) |
//! | AODV | IPv6, multicast (the J and R flags are carried, not acted on), subnet routers (prefix size above 0), gateways |
//! | bridge | VLANs, several areas, authentication |
//!
//! None of the protocols authenticates its neighbours: a malicious node can attract or drop traffic, but can
//! neither make another node panic nor make it grow without bound.
#![forbid(unsafe_code)]

pub mod aodv;
pub mod bridge;
pub mod contract;
pub mod olsr;
mod outbox;
mod prefix;
mod reader;
mod time;

pub use contract::{
    DataPlaneEvent, DecodeError, Interface, InterfaceEvent, InterfaceId, Protocol, Received, Released, Route,
    RouteChange, Transmit, Verdict,
};
pub use prefix::{Prefix, PrefixError};
pub use time::Time;

#[cfg(test)]
mod tests;
