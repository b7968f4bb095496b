//! Asynchronous I/O contexts, `io_setup(2)`.

use crate::ids::WaitQueueId;
use std::collections::VecDeque;

/// AIO contexts of an address space, keyed by the address that serves as `aio_context_t`.
pub type AioContexts = belljar_base::Map<u64, AioContext>;

/// AIO context: completion events that have not been reaped.
#[derive(Debug)]
pub struct AioContext {
    /// Wait queue, notified when an event is added.
    pub queue: WaitQueueId,
    /// Capacity in events.
    pub limit: usize,
    /// Completed events, each a `struct io_event`.
    pub events: VecDeque<[u64; 4]>,
}
