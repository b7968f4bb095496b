//! State of a pseudo-terminal: its pair, the session that it controls, and its node.

use crate::ids::{InodeKey, WaitQueueId};
use belljar_terminal::Pair;

/// A pseudo-terminal: a pair of master and slave.
#[derive(Debug)]
pub struct Pty {
    /// Number in `/dev/pts`.
    pub number: u32,
    /// Wait queue, notified after every change at either end.
    pub queue: WaitQueueId,
    /// Session whose controlling terminal it is.
    pub session: Option<i32>,
    /// Foreground process group of that session.
    pub foreground: i32,
    /// The two ends and the line discipline between them.
    pub pair: Pair,
    /// Inode of the slave in `/dev/pts`.
    pub slave_inode: InodeKey,
}
