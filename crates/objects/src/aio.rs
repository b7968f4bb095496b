//! Contexts of asynchronous input and output, `io_setup(2)`.

use crate::ids::WaitQueueId;
use std::collections::VecDeque;

/// The contexts of an address space, by the address that names each.
pub type AioContexts = belljar_base::Map<u64, AioContext>;

/// A context: the events that nobody has taken yet.
#[derive(Debug)]
pub struct AioContext {
    /// Notified when there are more.
    pub queue: WaitQueueId,
    /// The number of events that it has room for.
    pub limit: usize,
    /// `struct io_event` each.
    pub events: VecDeque<[u64; 4]>,
}
