//! Calls on UDP sockets, udp(7), and UDP-Lite sockets, udplite(7).

mod calls;
mod receive;
mod send;

pub use belljar_netstack::udp::*;
pub use calls::{bind, connect, shutdown};
pub use receive::receive;
pub use send::send;
