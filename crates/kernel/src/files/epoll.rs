//! Epoll instances, epoll(7), between the files that they watch and the threads that wait for them. An
//! instance is an [`Epoll`] of `objects`.

use crate::files::Files;
use crate::host::Host;
use crate::ids::{EpollKey, FileKey};
use belljar_linux_abi::poll::EpollEvent;
use belljar_linux_abi::{Errno, c};
use belljar_netstack::readiness::READABLE;
use belljar_objects::epoll::{Epoll, MAX_NESTS};
use belljar_objects::file_kind::FileKind;
use belljar_tasks::waits::{WaitTable, Waiter};
use smallvec::SmallVec;

impl Files {
    /// Length of the longest chain of instances watched below `from`; `None` if `sought` is `from` or in such
    /// a chain, or if a chain is too long.
    fn depth_below(&self, from: EpollKey, sought: EpollKey, depth: usize) -> Option<usize> {
        if from == sought || depth > MAX_NESTS {
            return None;
        }
        let mut deepest = 0;
        for item in self.epolls[from.0].items() {
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
        let key = EpollKey(self.epolls.insert(Epoll::new(waits.create())));
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
        let item = self.epolls[epoll.0].find(file, fd)?;
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
        for (file, fd) in self.epolls[epoll.0].targets() {
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
        if let Some(queue) = self.epolls[epoll.0].remove(index) {
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
        self.files.epolls[epoll.0].check_add(file, fd, event.events, nested.is_some())?;
        if let Some(inner) = nested {
            let below = self.files.depth_below(inner, epoll, 0).ok_or(Errno::ELOOP)?;
            if below + 1 + self.files.depth_above(epoll, 0) > MAX_NESTS {
                return Err(Errno::ELOOP);
            }
        }
        let item = self.files.epolls[epoll.0].add(file, fd, event, queue);
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
        let index = self.files.epolls[epoll.0].modify(file, fd, event)?;
        self.list_if_ready(epoll, index);
        Ok(())
    }

    /// Returns up to `max` events in the order in which the items became ready.
    pub(crate) fn epoll_harvest(&mut self, epoll: EpollKey, max: usize) -> SmallVec<[EpollEvent; 8]> {
        let mut found = SmallVec::new();
        for _ in 0..self.files.epolls[epoll.0].listed() {
            if found.len() == max {
                break;
            }
            let index = self.files.epolls[epoll.0].unlist_first().expect("counted above");
            let ready = self.polled(self.files.epolls[epoll.0].item(index).file);
            found.extend(self.files.epolls[epoll.0].report(index, ready));
        }
        found
    }
    /// Polling an instance removes the items at the front of its ready list that are not ready, up to the
    /// first that is (`__ep_eventpoll_poll`), so they are later listed behind the others. No effect on other
    /// files.
    pub(crate) fn drop_unready(&mut self, file: FileKey) {
        let FileKind::Epoll(epoll) = self.files.open(file).kind else { return };
        while let Some(item) = self.files.epolls[epoll.0].first_listed() {
            self.drop_unready(item.file);
            if self.readiness(item.file) & item.events != 0 {
                break;
            }
            self.files.epolls[epoll.0].unlist_first();
        }
    }
    /// Readiness of an epoll instance: `EPOLLIN` if a listed item is ready.
    pub(crate) fn epoll_readiness(&self, epoll: EpollKey) -> u32 {
        if self.files.epolls[epoll.0].is_ready(|file| self.readiness(file)) { READABLE } else { 0 }
    }

    /// Handles a notification with `events` of the object that an item watches. Returns true if a waiter of
    /// the instance was woken, which `EPOLLEXCLUSIVE` needs.
    pub(crate) fn epoll_item_changed(&mut self, epoll: EpollKey, item: usize, events: u32) -> bool {
        let instance = &self.files.epolls[epoll.0];
        if !instance.concerns(item, events) {
            return false;
        }
        let woke = !self.waits.is_empty(instance.queue);
        self.put_on_ready_list(epoll, item);
        woke
    }

    fn list_if_ready(&mut self, epoll: EpollKey, item: usize) {
        let watched = self.files.epolls[epoll.0].item(item);
        if self.readiness(watched.file) & watched.events != 0 {
            self.put_on_ready_list(epoll, item);
        }
    }
    /// Adds an item to the ready list, if it is not listed, and notifies the instance's waiters.
    fn put_on_ready_list(&mut self, epoll: EpollKey, index: usize) {
        let instance = &mut self.files.epolls[epoll.0];
        instance.list(index);
        let queue = instance.queue;
        self.notify_events(queue, READABLE);
    }
}
