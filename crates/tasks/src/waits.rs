//! Wait queues: waiters for the change of an object, in order of arrival.

use belljar_base::Footprint;
use belljar_base::Map;
use belljar_netstack::keyed::FURTHER;
use belljar_objects::ids::{EpollKey, FileKey, SocketKey, ThreadKey, WaitQueueId};
use slab::Slab;
use std::collections::VecDeque;

/// Entry of a wait queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waiter {
    /// Blocked thread.
    Thread(ThreadKey),
    /// Item `item` of an epoll instance, queued until it is removed.
    Epoll {
        /// Instance.
        epoll: EpollKey,
        /// Item within the instance.
        item: usize,
    },
    /// Pending request of an io_uring instance.
    Uring {
        /// Instance.
        instance: usize,
        /// Request within the instance.
        request: usize,
    },
    /// Open file with `O_ASYNC`, whose owner gets a signal.
    Owner(FileKey),
    /// Traffic model that owns the socket, queued until it is closed.
    Model(SocketKey),
}

/// Wait queues of a host.
#[derive(Debug, Default)]
pub struct WaitTable {
    queues: Slab<VecDeque<Waiter>>,
    /// Queues of sockets, indexed by socket key; created at the first wait.
    sockets: Vec<VecDeque<Waiter>>,
    /// Queues of the programs' ends of TUN and TAP interfaces.
    tuns: Vec<VecDeque<Waiter>>,
    /// Queues of sockets and TUN interfaces of stacks other than the host's first
    /// ([`belljar_netstack::keyed`]).
    further: Map<WaitQueueId, VecDeque<Waiter>>,
    /// Watchers of the mount tables.
    mounts: VecDeque<Waiter>,
}

impl WaitTable {
    /// Creates an empty queue.
    pub fn create(&mut self) -> WaitQueueId {
        WaitQueueId::Own(self.queues.insert(VecDeque::new()) as u32)
    }
    /// Removes a queue and returns its remaining waiters.
    pub fn destroy(&mut self, queue: WaitQueueId) -> VecDeque<Waiter> {
        match queue {
            WaitQueueId::Own(n) => self.queues.remove(n as usize),
            WaitQueueId::Socket(n) | WaitQueueId::Tun(n) if n as usize >= FURTHER => {
                self.further.remove(&queue).unwrap_or_default()
            }
            _ => self.queue_mut(queue).map(std::mem::take).unwrap_or_default(),
        }
    }
    /// Clears the queues of all sockets and TUN interfaces.
    pub fn forget_sockets(&mut self) {
        self.sockets.iter_mut().chain(&mut self.tuns).for_each(VecDeque::clear);
        self.further.clear();
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
            if n >= FURTHER {
                return self.further.entry(queue).or_default().push_back(waiter);
            }
            queues.resize_with(n + 1, VecDeque::new);
        }
        queues[n].push_back(waiter);
    }
    /// Removes a waiter; does nothing if the queue or the waiter no longer exists.
    #[inline]
    pub fn leave(&mut self, queue: WaitQueueId, waiter: Waiter) {
        let Some(waiters) = self.queue_mut(queue) else { return };
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
    /// Adds a queue to the memory prefetched before the host runs.
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
    /// Waiters of a queue in order.
    #[inline]
    pub fn waiters(&self, queue: WaitQueueId) -> impl Iterator<Item = Waiter> + '_ {
        self.queue(queue).into_iter().flatten().copied()
    }
    #[inline]
    fn further_queue(&self, queue: WaitQueueId) -> Option<&VecDeque<Waiter>> {
        if self.further.is_empty() { None } else { self.further.get(&queue) }
    }
    #[inline(always)]
    fn queue(&self, queue: WaitQueueId) -> Option<&VecDeque<Waiter>> {
        match queue {
            WaitQueueId::Own(n) => self.queues.get(n as usize),
            WaitQueueId::Socket(n) => self.sockets.get(n as usize).or_else(|| self.further_queue(queue)),
            WaitQueueId::Tun(n) => self.tuns.get(n as usize).or_else(|| self.further_queue(queue)),
            WaitQueueId::Mounts => Some(&self.mounts),
        }
    }
    #[inline(always)]
    fn queue_mut(&mut self, queue: WaitQueueId) -> Option<&mut VecDeque<Waiter>> {
        let found = match queue {
            WaitQueueId::Own(n) => return self.queues.get_mut(n as usize),
            WaitQueueId::Mounts => return Some(&mut self.mounts),
            WaitQueueId::Socket(n) => self.sockets.get_mut(n as usize),
            WaitQueueId::Tun(n) => self.tuns.get_mut(n as usize),
        };
        match found {
            None => self.further.get_mut(&queue),
            found => found,
        }
    }
}
