//! Processes and threads: creation, exit, waiting.

mod clone;
mod create;
mod exec;
mod exit;
mod fork;
mod wait;

pub(crate) use belljar_tasks::children::{ChildEvent, Selector, WaitFlags};
pub(crate) use clone::CloneRequest;
pub(crate) use create::comm_of;
