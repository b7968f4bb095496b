//! Wait queues: who is to be told when an object changes.
//!
//! Every object that can be waited for owns a queue. Notifying it continues all blocked threads in
//! it, first in first out, each of which tries its call again, and marks the epoll items that watch
//! it. A thread may stand in several queues at once and leaves all of them when it is continued.

use crate::ids::{EpollKey, SocketKey, ThreadKey, WaitQueueId};
use belljar_base::Footprint;
use slab::Slab;
use std::collections::VecDeque;

/// Who waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waiter {
    /// A blocked thread.
    Thread(ThreadKey),
    /// Item `item` of an epoll instance, until it is removed.
    Epoll {
        /// The instance.
        epoll: EpollKey,
        /// The item within it.
        item: usize,
    },
    /// A request of an io_uring instance that waits.
    Uring {
        /// The instance.
        instance: usize,
        /// The request within it.
        request: usize,
    },
    /// A traffic model that owns the socket, until it is closed.
    Model {
        /// Its number in the configuration.
        model: u32,
        /// The socket.
        socket: SocketKey,
    },
}

/// All wait queues of a host.
#[derive(Debug, Default)]
pub struct WaitTable {
    queues: Slab<VecDeque<Waiter>>,
}

impl WaitTable {
    /// A new, empty queue.
    pub fn create(&mut self) -> WaitQueueId {
        WaitQueueId(self.queues.insert(VecDeque::new()))
    }
    /// Forgets a queue; gives whoever still waited in it.
    pub fn destroy(&mut self, queue: WaitQueueId) -> VecDeque<Waiter> {
        self.queues.remove(queue.0)
    }
    /// Appends a waiter.
    pub fn enter(&mut self, queue: WaitQueueId, waiter: Waiter) {
        self.queues[queue.0].push_back(waiter);
    }
    /// Removes a waiter; it is no error if the queue or the waiter is gone.
    pub fn leave(&mut self, queue: WaitQueueId, waiter: Waiter) {
        let Some(waiters) = self.queues.get_mut(queue.0) else { return };
        if waiters.front() == Some(&waiter) {
            waiters.pop_front();
        } else if let Some(at) = waiters.iter().position(|w| *w == waiter) {
            waiters.remove(at);
        }
    }
    /// Who waits alone.
    pub fn only(&self, queue: WaitQueueId) -> Option<Waiter> {
        let queue = &self.queues[queue.0];
        if queue.len() == 1 { queue.front().copied() } else { None }
    }
    /// Tells where a queue is.
    pub fn footprint(&self, queue: WaitQueueId, footprint: &mut Footprint) {
        if let Some(waiters) = self.queues.get(queue.0) {
            footprint.object(waiters);
            footprint.start(waiters.as_slices().0.as_ptr(), 1);
        }
    }
    /// Whether nobody waits.
    pub fn is_empty(&self, queue: WaitQueueId) -> bool {
        self.queues[queue.0].is_empty()
    }
    /// The waiters in order.
    pub fn waiters(&self, queue: WaitQueueId) -> impl Iterator<Item = Waiter> + '_ {
        self.queues[queue.0].iter().copied()
    }
}
