//! IP: headers, routing, fragmentation, input and output.

mod forward;
pub mod fragment;
pub mod header;
pub mod hooks;
pub mod icmp;
pub mod ident;
pub mod input;
mod options;
mod output;
pub mod redirect;
pub mod route;

pub use forward::ForwardCounters;
pub use header::IpHeader;
pub use icmp::Unreachable;
pub use input::Inbound;
pub use options::IpOptions;
pub use output::{Onward, Outbound, SendOutcome};
