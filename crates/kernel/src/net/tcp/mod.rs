//! Calls on TCP sockets, tcp(7).

mod calls;
mod connect;
pub mod fast_open;
mod listen;
mod transfer;

pub use belljar_netstack::tcp::*;
pub use calls::shutdown;
pub use connect::{bind, connect};
pub use listen::{accept, listen};
pub use transfer::{receive, send};
