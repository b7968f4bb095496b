//! Traffic control of one network namespace, tc(8): queueing disciplines in a tree, classes, filters and actions, as
//! a state machine. Packets and time in; packets, drops and times out. The names and the order of operations are those
//! of Linux's `net/sched`.
//!
//! [`TrafficControl`] is the entry. For a packet that an interface sends, call [`TrafficControl::egress`], then
//! [`TrafficControl::dequeue`] while the interface takes packets, and again at [`TrafficControl::next`]. For a packet
//! that it receives, call [`TrafficControl::ingress`]. Requests of programs come by [`TrafficControl::request`].
//!
//! | file | content |
//! |---|---|
//! | `node` | node of the tree: counters, handles, the trait of disciplines and of their classes |
//! | `disciplines` | queueing disciplines by kind |
//! | `filters`, `classifiers` | chains of filters; classifiers by kind |
//! | `action`, `actions` | table of actions; actions by kind |
//! | `control` | the interfaces with their trees |
//! | `requests` | messages of rtnetlink |
#![forbid(unsafe_code)]

mod action;
mod actions;
mod attributes;
mod buffer;
mod classifiers;
mod control;
mod disciplines;
mod error;
mod filters;
mod node;
mod rate;
mod requests;
mod size_table;

pub use buffer::{Buffer, Redirection};
pub use control::{Results, Sent, TrafficControl};
pub use error::TcError;
pub use node::{DefaultDiscipline, Redirected, TcDevice, TcDrop};
pub use requests::{TcReply, TcRequest, is_tc_request};
