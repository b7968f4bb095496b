//! Traffic models on a network stack.
//!
//! [`Models`] runs the models of one host over the sockets of its [`Stack`](belljar_netstack::Stack). Whoever owns the stack
//! is an [`Owner`]: it tells the models of changes of their sockets and of their timers. There are two. The kernel of a host
//! with programs is one, so that models and programs share its addresses, ports and links. [`ModelHost`] is the other: a host
//! of models alone, which has a stack and no kernel.
#![forbid(unsafe_code)]

mod host;
mod models;
mod sockets;

pub use host::{ModelHost, ModelHostConfig};
pub use models::{ModelSpec, ModelTimer, Models, Owner};
