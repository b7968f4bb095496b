//! Epoll instances, epoll(7): a set of watched open files and a list of those that became ready.
//!
//! An item is a waiter in its file's wait queue for as long as it exists. A notification appends it to the
//! ready list unless it is listed already; `epoll_wait(2)` examines only that list. Whether a listed item is
//! really ready is checked when it is examined, as in Linux: a level-triggered item is appended again each
//! time it is reported, an edge-triggered one with its next notification.

use crate::ids::{FileKey, WaitQueueId};
use belljar_base::Map;
use belljar_linux_abi::poll::EpollEvent;
use belljar_linux_abi::{Errno, c};
use belljar_netstack::readiness::{EPOLLERR, EPOLLHUP, EPOLLIN, EPOLLOUT};
use slab::Slab;
use std::collections::VecDeque;

const EPOLLET: u32 = c::EPOLLET as u32;
const EPOLLONESHOT: u32 = c::EPOLLONESHOT as u32;
const EPOLLEXCLUSIVE: u32 = c::EPOLLEXCLUSIVE as u32;
const EPOLLWAKEUP: u32 = c::EPOLLWAKEUP as u32;
/// Flags of an item, as opposed to the events watched (`EP_PRIVATE_BITS`). A one-shot item that has fired
/// keeps only these.
const PRIVATE: u32 = EPOLLET | EPOLLONESHOT | EPOLLEXCLUSIVE | EPOLLWAKEUP;
/// Flags that `EPOLLEXCLUSIVE` may be combined with (`EPOLLEXCLUSIVE_OK_BITS`).
const EXCLUSIVE_MAY: u32 = EPOLLIN | EPOLLOUT | EPOLLERR | EPOLLHUP | EPOLLWAKEUP | EPOLLET | EPOLLEXCLUSIVE;
/// Maximum nesting depth: one less than the number of instances that may watch one another in a chain
/// (`EP_MAX_NESTS`).
pub const MAX_NESTS: usize = 4;

/// A watched open file, under one of its descriptors.
#[derive(Clone, Copy, Debug)]
pub struct EpollItem {
    /// Open file.
    pub file: FileKey,
    /// Events watched and the item's flags.
    pub events: u32,
    /// Wait queue of the file; `None` if its readiness never changes.
    pub queue: Option<WaitQueueId>,
    fd: i32,
    data: u64,
    on_ready_list: bool,
}

/// An epoll instance.
#[derive(Debug)]
pub struct Epoll {
    /// Wait queue, notified when an item is added to the ready list.
    pub queue: WaitQueueId,
    items: Slab<EpollItem>,
    by_target: Map<(FileKey, i32), usize>,
    ready: VecDeque<usize>,
}

impl Epoll {
    /// An instance that watches nothing.
    pub fn new(queue: WaitQueueId) -> Epoll {
        Epoll { queue, items: Slab::new(), by_target: Map::new(), ready: VecDeque::new() }
    }
    /// Watched open files with their descriptors.
    pub fn targets(&self) -> Vec<(FileKey, i32)> {
        self.by_target.keys().copied().collect()
    }
    /// Items in order of their indices.
    pub fn items(&self) -> impl Iterator<Item = &EpollItem> {
        self.items.iter().map(|(_, item)| item)
    }
    /// An item.
    #[inline]
    pub fn item(&self, index: usize) -> EpollItem {
        self.items[index]
    }
    /// True if an item is woken exclusively (`EPOLLEXCLUSIVE`).
    #[inline]
    pub fn is_exclusive(&self, index: usize) -> bool {
        self.items[index].events & EPOLLEXCLUSIVE != 0
    }
    /// True if a change that brought `events` concerns an item.
    #[inline]
    pub fn concerns(&self, index: usize, events: u32) -> bool {
        let wanted = self.items[index].events;
        wanted & !PRIVATE != 0 && wanted & events != 0
    }

    /// Checks that an item can be added: `EINVAL` for flags that `EPOLLEXCLUSIVE` rules out, `EEXIST` if the
    /// file is watched under this descriptor. `nested` is true for another instance.
    pub fn check_add(&self, file: FileKey, fd: i32, events: u32, nested: bool) -> Result<(), Errno> {
        if events & EPOLLEXCLUSIVE != 0 && (nested || events & !EXCLUSIVE_MAY != 0) {
            return Err(Errno::EINVAL);
        }
        if self.by_target.contains_key(&(file, fd)) { Err(Errno::EEXIST) } else { Ok(()) }
    }
    /// Adds an item; returns its index.
    pub fn add(&mut self, file: FileKey, fd: i32, event: EpollEvent, queue: Option<WaitQueueId>) -> usize {
        let events = event.events | EPOLLERR | EPOLLHUP;
        let item = EpollItem { file, fd, events, data: event.data, queue, on_ready_list: false };
        let index = self.items.insert(item);
        self.by_target.insert((file, fd), index);
        index
    }
    /// Changes the events and data of an item; returns its index. `ENOENT` if the file is not watched,
    /// `EINVAL` with `EPOLLEXCLUSIVE`.
    pub fn modify(&mut self, file: FileKey, fd: i32, event: EpollEvent) -> Result<usize, Errno> {
        let index = self.find(file, fd)?;
        let item = &mut self.items[index];
        if (event.events | item.events) & EPOLLEXCLUSIVE != 0 {
            return Err(Errno::EINVAL);
        }
        item.events = event.events | EPOLLERR | EPOLLHUP;
        item.data = event.data;
        Ok(index)
    }
    /// Index of an item; `ENOENT` if the file is not watched under this descriptor.
    pub fn find(&self, file: FileKey, fd: i32) -> Result<usize, Errno> {
        self.by_target.get(&(file, fd)).copied().ok_or(Errno::ENOENT)
    }
    /// Removes an item; returns the wait queue that it waits in.
    pub fn remove(&mut self, index: usize) -> Option<WaitQueueId> {
        let item = self.items.remove(index);
        self.by_target.remove(&(item.file, item.fd));
        if item.on_ready_list {
            self.ready.retain(|ready| *ready != index);
        }
        item.queue
    }

    /// Number of items on the ready list.
    #[inline]
    pub fn listed(&self) -> usize {
        self.ready.len()
    }
    /// First item of the ready list.
    #[inline]
    pub fn first_listed(&self) -> Option<EpollItem> {
        self.ready.front().map(|index| self.items[*index])
    }
    /// Takes the first item off the ready list; returns its index.
    #[inline]
    pub fn unlist_first(&mut self) -> Option<usize> {
        let index = self.ready.pop_front()?;
        self.items[index].on_ready_list = false;
        Some(index)
    }
    /// Adds an item to the ready list, if it is not listed.
    #[inline]
    pub fn list(&mut self, index: usize) {
        let item = &mut self.items[index];
        if !item.on_ready_list {
            item.on_ready_list = true;
            self.ready.push_back(index);
        }
    }
    /// Event of an item that was taken off the ready list and is ready for `ready`, as `epoll_wait(2)` reports
    /// it; `None` if nothing watched is ready. A level-triggered item is listed again, a one-shot item
    /// disabled.
    #[inline]
    pub fn report(&mut self, index: usize, ready: u32) -> Option<EpollEvent> {
        let item = &mut self.items[index];
        let (events, data, wanted) = (ready & item.events, item.data, item.events);
        if events == 0 {
            return None;
        }
        if wanted & EPOLLONESHOT != 0 {
            item.events &= PRIVATE;
        } else if wanted & EPOLLET == 0 {
            self.list(index);
        }
        Some(EpollEvent { events, data })
    }
    /// True if a listed item is ready, according to the readiness of its file.
    #[inline]
    pub fn is_ready(&self, readiness: impl Fn(FileKey) -> u32) -> bool {
        self.ready.iter().map(|index| &self.items[*index]).any(|item| readiness(item.file) & item.events != 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn watching(flags: u32) -> (Epoll, usize) {
        let mut epoll = Epoll::new(WaitQueueId::default());
        let event = EpollEvent { events: EPOLLIN | flags, data: 42 };
        let item = epoll.add(FileKey(1), 5, event, None);
        epoll.list(item);
        epoll.list(item);
        assert_eq!(epoll.listed(), 1);
        (epoll, item)
    }

    #[test]
    fn a_level_triggered_item_stays_listed_and_an_edge_triggered_one_does_not() {
        for (flags, listed) in [(0, 1), (EPOLLET, 0)] {
            let (mut epoll, item) = watching(flags);
            assert_eq!(epoll.unlist_first(), Some(item));
            let event = epoll.report(item, EPOLLIN | EPOLLOUT).expect("ready");
            assert_eq!((event.events, event.data, epoll.listed()), (EPOLLIN, 42, listed));
            assert!(epoll.concerns(item, EPOLLIN) && !epoll.concerns(item, EPOLLOUT));
        }
    }

    #[test]
    fn a_one_shot_item_is_disabled_until_it_is_modified() {
        let (mut epoll, item) = watching(EPOLLONESHOT);
        epoll.unlist_first();
        assert!(epoll.report(item, 0).is_none() && epoll.report(item, EPOLLIN).is_some());
        assert!(!epoll.concerns(item, u32::MAX) && epoll.listed() == 0);
        assert_eq!(epoll.modify(FileKey(1), 5, EpollEvent { events: EPOLLOUT, data: 1 }), Ok(item));
        assert!(epoll.concerns(item, EPOLLOUT | EPOLLIN));
    }

    #[test]
    fn a_file_is_watched_once_for_each_descriptor() {
        let (mut epoll, item) = watching(0);
        assert_eq!(epoll.check_add(FileKey(1), 5, EPOLLIN, false), Err(Errno::EEXIST));
        assert_eq!(epoll.check_add(FileKey(1), 6, EPOLLIN, true), Ok(()));
        assert_eq!(epoll.check_add(FileKey(1), 6, EPOLLIN | EPOLLEXCLUSIVE, true), Err(Errno::EINVAL));
        assert_eq!((epoll.remove(item), epoll.listed()), (None, 0));
        assert_eq!(epoll.find(FileKey(1), 5), Err(Errno::ENOENT));
    }
}
