//! Traffic models on a network stack.
//!
//! [`Models`] runs the models of one host over the sockets of its [`Stack`](belljar_netstack::Stack). The
//! stack belongs to an [`Owner`], which notifies the models of changes of their sockets and of timers. There
//! are two owners: the kernel of a host with programs, where models and programs share addresses, ports and
//! links, and [`ModelHost`], a host of models without a kernel.
#![forbid(unsafe_code)]

mod host;
mod models;
mod sockets;

pub use host::{ModelHost, ModelHostConfig};
pub use models::{ModelSpec, ModelTimer, Models, Owner};
