//! Wait queues: those who wait for an object to change, in the order in which they entered.

use belljar_base::Footprint;
use belljar_objects::ids::{EpollKey, FileKey, SocketKey, ThreadKey, WaitQueueId};
use slab::Slab;
use std::collections::VecDeque;

/// Waiter: an entry of a wait queue.
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
    /// An open file with `O_ASYNC`, whose owner is told by a signal.
    Owner(FileKey),
    /// The traffic model that owns the socket, until it is closed.
    Model(SocketKey),
}

/// All wait queues of a host.
#[derive(Debug, Default)]
pub struct WaitTable {
    queues: Slab<VecDeque<Waiter>>,
    /// Queues of sockets, by their keys, as far as any has been waited for.
    sockets: Vec<VecDeque<Waiter>>,
    /// Queues of programs' ends of interfaces.
    tuns: Vec<VecDeque<Waiter>>,
    /// Those who watch the tables of mounts.
    mounts: VecDeque<Waiter>,
}

impl WaitTable {
    /// A new, empty queue.
    pub fn create(&mut self) -> WaitQueueId {
        WaitQueueId::Own(self.queues.insert(VecDeque::new()) as u32)
    }
    /// Removes a queue and returns the waiters that are still in it.
    pub fn destroy(&mut self, queue: WaitQueueId) -> VecDeque<Waiter> {
        match queue {
            WaitQueueId::Own(n) => self.queues.remove(n as usize),
            WaitQueueId::Socket(n) => {
                self.sockets.get_mut(n as usize).map(std::mem::take).unwrap_or_default()
            }
            WaitQueueId::Tun(n) => self.tuns.get_mut(n as usize).map(std::mem::take).unwrap_or_default(),
            WaitQueueId::Mounts => std::mem::take(&mut self.mounts),
        }
    }
    /// All sockets are gone.
    pub fn forget_sockets(&mut self) {
        self.sockets.iter_mut().chain(&mut self.tuns).for_each(VecDeque::clear);
    }
    /// Appends a waiter.
    #[inline]
    pub fn enter(&mut self, queue: WaitQueueId, waiter: Waiter) {
        let (queues, n) = match queue {
            WaitQueueId::Own(n) => return self.queues[n as usize].push_back(waiter),
            WaitQueueId::Socket(n) => (&mut self.sockets, n as usize),
            WaitQueueId::Tun(n) => (&mut self.tuns, n as usize),
            WaitQueueId::Mounts => return self.mounts.push_back(waiter),
        };
        if queues.len() <= n {
            queues.resize_with(n + 1, VecDeque::new);
        }
        queues[n].push_back(waiter);
    }
    /// Removes a waiter; it is no error if the queue or the waiter is gone.
    #[inline]
    pub fn leave(&mut self, queue: WaitQueueId, waiter: Waiter) {
        let waiters = match queue {
            WaitQueueId::Own(n) => self.queues.get_mut(n as usize),
            WaitQueueId::Socket(n) => self.sockets.get_mut(n as usize),
            WaitQueueId::Tun(n) => self.tuns.get_mut(n as usize),
            WaitQueueId::Mounts => Some(&mut self.mounts),
        };
        let Some(waiters) = waiters else { return };
        if waiters.front() == Some(&waiter) {
            waiters.pop_front();
        } else if let Some(at) = waiters.iter().position(|w| *w == waiter) {
            waiters.remove(at);
        }
    }
    /// The waiter of a queue that has exactly one.
    #[inline]
    pub fn only(&self, queue: WaitQueueId) -> Option<Waiter> {
        let queue = self.queue(queue)?;
        if queue.len() == 1 { queue.front().copied() } else { None }
    }
    /// Adds a queue to what is fetched ahead of its host's turn.
    #[inline]
    pub fn footprint(&self, queue: WaitQueueId, footprint: &mut Footprint) {
        if let Some(waiters) = self.queue(queue) {
            footprint.object(waiters);
            footprint.start(waiters.as_slices().0.as_ptr(), 1);
        }
    }
    /// True if a queue has no waiters.
    #[inline]
    pub fn is_empty(&self, queue: WaitQueueId) -> bool {
        self.queue(queue).is_none_or(VecDeque::is_empty)
    }
    /// The waiters in order.
    #[inline]
    pub fn waiters(&self, queue: WaitQueueId) -> impl Iterator<Item = Waiter> + '_ {
        self.queue(queue).into_iter().flatten().copied()
    }
    #[inline]
    fn queue(&self, queue: WaitQueueId) -> Option<&VecDeque<Waiter>> {
        match queue {
            WaitQueueId::Own(n) => self.queues.get(n as usize),
            WaitQueueId::Socket(n) => self.sockets.get(n as usize),
            WaitQueueId::Tun(n) => self.tuns.get(n as usize),
            WaitQueueId::Mounts => Some(&self.mounts),
        }
    }
}
