//! A network of nodes in virtual time, for the tests of all protocols.

mod data;
mod medium;
mod network;

pub(crate) use data::ip_packet;
pub(crate) use medium::Medium;
pub(crate) use network::Network;
