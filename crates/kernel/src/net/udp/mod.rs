//! The calls on sockets of UDP, udp(7), and UDP-Lite, udplite(7).

mod calls;
mod receive;
mod send;

pub use belljar_netstack::udp::*;
pub use calls::{bind, connect, shutdown};
pub use receive::{receive, timestamp_message};
pub use send::send;
