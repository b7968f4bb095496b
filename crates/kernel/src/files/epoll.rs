//! Epoll instances, epoll(7): a set of watched open files and a list of those that became ready.
//!
//! An item is a waiter in its file's wait queue for as long as it exists. A notification appends it to the
//! ready list unless it is listed already; `epoll_wait(2)` examines only that list. Whether a listed item is
//! really ready is checked when it is examined, as in Linux: a level-triggered item is appended again each
//! time it is reported, an edge-triggered one with its next notification.

use super::FileKind;
use super::readiness::{EPOLLERR, EPOLLHUP, EPOLLIN, EPOLLOUT, READABLE};
use crate::files::Files;
use crate::host::Host;
use crate::ids::{EpollKey, FileKey, WaitQueueId};
use belljar_base::Map;
use belljar_linux_abi::poll::EpollEvent;
use belljar_linux_abi::{Errno, c};
use belljar_tasks::waits::{WaitTable, Waiter};
use slab::Slab;
use smallvec::SmallVec;
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
const MAX_NESTS: usize = 4;

/// A watched open file, under one of its descriptors.
#[derive(Debug)]
struct Item {
    file: FileKey,
    fd: i32,
    events: u32,
    data: u64,
    /// Wait queue of the file; `None` if its readiness never changes.
    queue: Option<WaitQueueId>,
    on_ready_list: bool,
}

/// An epoll instance.
#[derive(Debug)]
pub struct Epoll {
    /// Wait queue, notified when an item is added to the ready list.
    pub queue: WaitQueueId,
    items: Slab<Item>,
    by_target: Map<(FileKey, i32), usize>,
    ready: VecDeque<usize>,
}

impl Files {
    /// Epoll instance of an open file; `EINVAL` if the file is none.
    pub(crate) fn epoll_of(&self, file: FileKey) -> Result<EpollKey, Errno> {
        match self.open[file.0].kind {
            FileKind::Epoll(key) => Ok(key),
            _ => Err(Errno::EINVAL),
        }
    }

    /// True if an item is woken exclusively (`EPOLLEXCLUSIVE`).
    pub(crate) fn epoll_item_is_exclusive(&self, epoll: EpollKey, item: usize) -> bool {
        self.epolls[epoll.0].items[item].events & EPOLLEXCLUSIVE != 0
    }

    /// Length of the longest chain of instances watched below `from`; `None` if `sought` is `from` or in such
    /// a chain, or if a chain is too long.
    fn depth_below(&self, from: EpollKey, sought: EpollKey, depth: usize) -> Option<usize> {
        if from == sought || depth > MAX_NESTS {
            return None;
        }
        let mut deepest = 0;
        for (_, item) in &self.epolls[from.0].items {
            if let FileKind::Epoll(inner) = self.open[item.file.0].kind {
                deepest = deepest.max(1 + self.depth_below(inner, sought, depth + 1)?);
            }
        }
        Some(deepest)
    }

    /// Length of the longest chain of instances that watch `from`.
    fn depth_above(&self, from: EpollKey, depth: usize) -> usize {
        let own = self
            .watchers
            .iter()
            .filter(|(file, _)| matches!(self.open[file.0].kind, FileKind::Epoll(key) if key == from));
        let parents = own.flat_map(|(_, watchers)| watchers);
        parents
            .map(|(parent, _)| if depth > MAX_NESTS { 0 } else { 1 + self.depth_above(*parent, depth + 1) })
            .max()
            .unwrap_or(0)
    }

    /// Creates an instance and its open file.
    pub(crate) fn create_epoll(&mut self, waits: &mut WaitTable) -> FileKey {
        let queue = waits.create();
        let epoll = Epoll { queue, items: Slab::new(), by_target: Map::new(), ready: VecDeque::new() };
        let key = EpollKey(self.epolls.insert(epoll));
        self.open_file(FileKind::Epoll(key), c::O_RDWR)
    }

    /// `EPOLL_CTL_DEL`.
    pub(crate) fn epoll_delete(
        &mut self,
        waits: &mut WaitTable,
        epoll: EpollKey,
        file: FileKey,
        fd: i32,
    ) -> Result<(), Errno> {
        let item = *self.epolls[epoll.0].by_target.get(&(file, fd)).ok_or(Errno::ENOENT)?;
        self.remove_item(waits, epoll, item);
        if let Some(watchers) = self.watchers.get_mut(&file) {
            watchers.retain(|watcher| *watcher != (epoll, item));
            if watchers.is_empty() {
                self.watchers.remove(&file);
            }
        }
        Ok(())
    }

    /// Destroys an instance after its last reference was released.
    pub(super) fn close_epoll(&mut self, waits: &mut WaitTable, epoll: EpollKey) {
        let items: Vec<(FileKey, i32)> = self.epolls[epoll.0].by_target.keys().copied().collect();
        for (file, fd) in items {
            self.epoll_delete(waits, epoll, file, fd).expect("the item exists");
        }
        let instance = self.epolls.remove(epoll.0);
        waits.destroy(instance.queue);
    }

    /// Removes every item that watches an open file, which is being released.
    pub(super) fn forget_watchers(&mut self, waits: &mut WaitTable, file: FileKey) {
        for (epoll, item) in self.watchers.remove(&file).unwrap_or_default() {
            self.remove_item(waits, epoll, item);
        }
    }

    fn remove_item(&mut self, waits: &mut WaitTable, epoll: EpollKey, index: usize) {
        let instance = &mut self.epolls[epoll.0];
        let item = instance.items.remove(index);
        instance.by_target.remove(&(item.file, item.fd));
        if item.on_ready_list {
            instance.ready.retain(|ready| *ready != index);
        }
        if let Some(queue) = item.queue {
            waits.leave(queue, Waiter::Epoll { epoll, item: index });
        }
    }
}

impl Host {
    /// `EPOLL_CTL_ADD`.
    pub(crate) fn epoll_add(
        &mut self,
        epoll: EpollKey,
        file: FileKey,
        fd: i32,
        event: EpollEvent,
    ) -> Result<(), Errno> {
        let queue = self.wait_queue(file);
        let nested = match self.files.open[file.0].kind {
            FileKind::Epoll(inner) => Some(inner),
            _ => None,
        };
        if event.events & EPOLLEXCLUSIVE != 0 && (nested.is_some() || event.events & !EXCLUSIVE_MAY != 0) {
            return Err(Errno::EINVAL);
        }
        if self.files.epolls[epoll.0].by_target.contains_key(&(file, fd)) {
            return Err(Errno::EEXIST);
        }
        if let Some(inner) = nested {
            let below = self.files.depth_below(inner, epoll, 0).ok_or(Errno::ELOOP)?;
            if below + 1 + self.files.depth_above(epoll, 0) > MAX_NESTS {
                return Err(Errno::ELOOP);
            }
        }
        let instance = &mut self.files.epolls[epoll.0];
        let events = event.events | EPOLLERR | EPOLLHUP;
        let item =
            instance.items.insert(Item { file, fd, events, data: event.data, queue, on_ready_list: false });
        instance.by_target.insert((file, fd), item);
        self.files.watchers.entry(file).or_default().push((epoll, item));
        if let Some(queue) = queue {
            self.waits.enter(queue, Waiter::Epoll { epoll, item });
        }
        self.list_if_ready(epoll, item);
        Ok(())
    }
    /// `EPOLL_CTL_MOD`: events that are ready now are reported even for an edge-triggered item.
    pub(crate) fn epoll_modify(
        &mut self,
        epoll: EpollKey,
        file: FileKey,
        fd: i32,
        event: EpollEvent,
    ) -> Result<(), Errno> {
        let instance = &mut self.files.epolls[epoll.0];
        let index = *instance.by_target.get(&(file, fd)).ok_or(Errno::ENOENT)?;
        let item = &mut instance.items[index];
        if (event.events | item.events) & EPOLLEXCLUSIVE != 0 {
            return Err(Errno::EINVAL);
        }
        item.events = event.events | EPOLLERR | EPOLLHUP;
        item.data = event.data;
        self.list_if_ready(epoll, index);
        Ok(())
    }

    /// Returns up to `max` events in the order in which the items became ready.
    pub(crate) fn epoll_harvest(&mut self, epoll: EpollKey, max: usize) -> SmallVec<[EpollEvent; 8]> {
        let mut found = SmallVec::new();
        for _ in 0..self.files.epolls[epoll.0].ready.len() {
            if found.len() == max {
                break;
            }
            let instance = &mut self.files.epolls[epoll.0];
            let index = instance.ready.pop_front().expect("counted above");
            let item = &mut instance.items[index];
            item.on_ready_list = false;
            let (file, wanted, data) = (item.file, item.events, item.data);
            let events = self.polled(file) & wanted;
            if events == 0 {
                continue;
            }
            found.push(EpollEvent { events, data });
            let instance = &mut self.files.epolls[epoll.0];
            let item = &mut instance.items[index];
            if wanted & EPOLLONESHOT != 0 {
                item.events &= PRIVATE;
            } else if wanted & EPOLLET == 0 {
                item.on_ready_list = true;
                instance.ready.push_back(index);
            }
        }
        found
    }
    /// Polling an instance removes the items at the front of its ready list that are not ready, up to the
    /// first that is (`__ep_eventpoll_poll`), so they are later listed behind the others. No effect on other
    /// files.
    pub(crate) fn drop_unready(&mut self, file: FileKey) {
        let FileKind::Epoll(epoll) = self.files.open(file).kind else { return };
        while let Some(index) = self.files.epolls[epoll.0].ready.front().copied() {
            let Item { file, events, .. } = self.files.epolls[epoll.0].items[index];
            self.drop_unready(file);
            if self.readiness(file) & events != 0 {
                break;
            }
            let instance = &mut self.files.epolls[epoll.0];
            instance.ready.pop_front();
            instance.items[index].on_ready_list = false;
        }
    }
    /// Readiness of an epoll instance: `EPOLLIN` if a listed item is ready.
    pub(crate) fn epoll_readiness(&self, epoll: EpollKey) -> u32 {
        let instance = &self.files.epolls[epoll.0];
        let reports = |index: &usize| {
            let item = &instance.items[*index];
            self.readiness(item.file) & item.events != 0
        };
        if instance.ready.iter().any(reports) { READABLE } else { 0 }
    }

    /// Handles a notification with `events` of the object that an item watches. Returns true if a waiter of
    /// the instance was woken, which `EPOLLEXCLUSIVE` needs.
    pub(crate) fn epoll_item_changed(&mut self, epoll: EpollKey, item: usize, events: u32) -> bool {
        let instance = &self.files.epolls[epoll.0];
        let wanted = instance.items[item].events;
        if wanted & !PRIVATE == 0 || wanted & events == 0 {
            return false;
        }
        let woke = !self.waits.is_empty(instance.queue);
        self.put_on_ready_list(epoll, item);
        woke
    }

    fn list_if_ready(&mut self, epoll: EpollKey, item: usize) {
        let Item { file, events, .. } = self.files.epolls[epoll.0].items[item];
        if self.readiness(file) & events != 0 {
            self.put_on_ready_list(epoll, item);
        }
    }
    /// Adds an item to the ready list, if it is not listed, and notifies the instance's waiters.
    fn put_on_ready_list(&mut self, epoll: EpollKey, index: usize) {
        let instance = &mut self.files.epolls[epoll.0];
        let item = &mut instance.items[index];
        if !item.on_ready_list {
            item.on_ready_list = true;
            instance.ready.push_back(index);
        }
        let queue = instance.queue;
        self.notify_events(queue, READABLE);
    }
}
