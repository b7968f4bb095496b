//! Packet buffers, pooled by each worker. Most buffers are filled by one host and released by another, and the
//! buffer released last is still in the cache.

use std::cell::RefCell;

/// Maximum number of pooled buffers of a worker: as many as a fast flow over a long path has in flight.
const POOL_BUFFERS: usize = 2_048;
/// Capacity of a new packet buffer in bytes.
const PACKET_CAPACITY: usize = 1_536;
/// Larger buffers are returned to the allocator.
const POOL_BUFFER_CAPACITY: usize = 4_096;

thread_local! {
    /// The worker's pool, the buffer released last at the end.
    static POOL: RefCell<Vec<Vec<u8>>> = const { RefCell::new(Vec::new()) };
}

/// Takes an empty buffer from the pool, or allocates one.
pub fn take() -> Vec<u8> {
    let pooled = POOL.with_borrow_mut(Vec::pop);
    pooled.unwrap_or_else(|| Vec::with_capacity(PACKET_CAPACITY))
}

/// Returns a packet's buffer to the pool.
pub fn recycle(mut buffer: Vec<u8>) {
    if !(1..=POOL_BUFFER_CAPACITY).contains(&buffer.capacity()) {
        return;
    }
    buffer.clear();
    POOL.with_borrow_mut(|pool| {
        if pool.len() < POOL_BUFFERS {
            pool.push(buffer);
        }
    });
}
