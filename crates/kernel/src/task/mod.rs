//! Processes and threads: creation, end, waiting, groups and sessions.

mod clone;
mod create;
mod exec;
mod exit;
mod fork;
mod groups;
mod wait;

pub(crate) use belljar_tasks::children::{ChildEvent, Selector, WaitFlags};
pub(crate) use clone::CloneRequest;
pub(crate) use create::comm_of;
