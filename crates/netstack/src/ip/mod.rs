//! IP: headers, routing, fragmentation, input and output.

pub mod filtering;
mod forward;
pub mod fragment;
pub mod header;
pub mod hooks;
pub mod icmp;
pub mod ident;
pub mod input;
mod membership;
mod mtu;
mod options;
mod output;
pub mod redirect;
pub mod route;

pub use header::IpHeader;
pub use icmp::Unreachable;
pub use input::Inbound;
pub use membership::{MAX_SOURCES, Membership, SourceChange};
pub use options::IpOptions;
pub(crate) use output::pass_local;
pub use output::{Onward, Outbound, SendOutcome};
