//! Versions of directory entries, and the conditions between them.

use crate::InodeId;
use belljar_base::{Map, Stream};

/// Directory entry: the directory and the name.
pub type Slot = (InodeId, Box<[u8]>);

/// Entries that changed since they were synced.
#[derive(Clone, Debug, Default)]
pub(crate) struct Entries {
    /// Present inode of each entry that was ever changed or declared.
    live: Map<Slot, InodeId>,
    /// Entry of each directory.
    directories: Map<InodeId, Slot>,
    /// Histories of entries that are not synced.
    pub(crate) changed: Map<Slot, History>,
    /// Conditions between versions.
    conditions: Vec<Condition>,
    /// Additions of entries for an inode that are not synced.
    additions: Map<InodeId, Vec<(Slot, u64)>>,
    /// Number of entries of each inode in memory.
    links: Map<InodeId, i64>,
    /// Last rename of a directory that is not synced: its old entry.
    last_move: Option<(Slot, u64)>,
}

/// Versions of an entry.
#[derive(Clone, Debug)]
pub(crate) struct History {
    /// Synced inode.
    base: Option<InodeId>,
    /// Later inodes, with the positions of the changes.
    versions: Vec<(u64, Option<InodeId>)>,
    /// Position that is on disk for certain: versions before it are not possible.
    floor: u64,
}

/// Condition: an entry that is on disk as of a position or later requires another one as of its position.
#[derive(Clone, Debug)]
struct Condition {
    when: (Slot, u64),
    then: (Slot, u64),
}

impl History {
    /// Inode as of the changes up to `position`.
    pub(crate) fn at(&self, position: u64) -> Option<InodeId> {
        let count = self.versions.partition_point(|(at, _)| *at <= position);
        count.checked_sub(1).map_or(self.base, |last| self.versions[last].1)
    }
    /// True if the inode is one of the versions.
    fn names(&self, inode: InodeId) -> bool {
        self.base == Some(inode) || self.versions.iter().any(|version| version.1 == Some(inode))
    }
}

impl Entries {
    /// Declares an entry that is on disk.
    pub(crate) fn declare(&mut self, slot: Slot, inode: InodeId, is_directory: bool) {
        if is_directory {
            self.directories.insert(inode, slot.clone());
        }
        *self.links.entry(inode).or_insert(0) += 1;
        self.live.insert(slot, inode);
    }
    /// Inode of an entry in memory.
    pub(crate) fn get(&self, slot: &Slot) -> Option<InodeId> {
        self.live.get(slot).copied()
    }
    /// True if the inode is a directory with an entry.
    pub(crate) fn is_directory(&self, inode: InodeId) -> bool {
        self.directories.contains_key(&inode)
    }
    /// Entries in memory.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&Slot, InodeId)> {
        self.live.iter().map(|(slot, inode)| (slot, *inode))
    }

    /// Adds an entry, or replaces one.
    pub(crate) fn add(&mut self, position: u64, slot: &Slot, inode: InodeId, is_directory: bool) {
        self.set(position, slot, Some(inode));
        if let Some(own) = self.directories.get(&slot.0)
            && let Some((at, _)) = self.changed.get(own).and_then(|history| history.versions.last())
        {
            let then = (own.clone(), *at);
            self.conditions.push(Condition { when: (slot.clone(), position), then });
        }
        if is_directory {
            self.directories.insert(inode, slot.clone());
        }
        self.additions.entry(inode).or_default().push((slot.clone(), position));
    }
    /// Removes an entry.
    pub(crate) fn remove(&mut self, position: u64, slot: &Slot) {
        self.set(position, slot, None);
    }
    /// Exchanges two entries in one step.
    pub(crate) fn exchange(&mut self, position: u64, slots: [&Slot; 2]) {
        let inodes = slots.map(|slot| self.get(slot));
        for (slot, inode) in [(slots[0], inodes[1]), (slots[1], inodes[0])] {
            let Some(inode) = inode else { continue };
            if self.directories.contains_key(&inode) {
                self.directories.insert(inode, slot.clone());
            }
            self.additions.entry(inode).or_default().push((slot.clone(), position));
        }
        self.set(position, slots[0], inodes[1]);
        self.set(position, slots[1], inodes[0]);
    }
    /// Moves a directory's entry: as a whole, and after earlier moves.
    pub(crate) fn order_move(&mut self, position: u64, from: &Slot, to: &Slot) {
        let (from, to) = ((from.clone(), position), (to.clone(), position));
        self.conditions.push(Condition { when: to.clone(), then: from.clone() });
        if let Some(then) = self.last_move.replace(from) {
            self.conditions.push(Condition { when: to, then });
        }
    }

    /// Sets an entry. A file's name is not lost on disk before names that the file got earlier are there.
    fn set(&mut self, position: u64, slot: &Slot, inode: Option<InodeId>) {
        let old = self.get(slot);
        match inode {
            Some(inode) => self.live.insert(slot.clone(), inode),
            None => self.live.remove(slot),
        };
        let fresh = || History { base: old, versions: Vec::new(), floor: 0 };
        self.changed.entry(slot.clone()).or_insert_with(fresh).versions.push((position, inode));
        for (inode, change) in [(inode, 1), (old, -1)] {
            if let Some(inode) = inode {
                *self.links.entry(inode).or_insert(0) += change;
            }
        }
        let Some(lost) = old.filter(|old| Some(*old) != inode) else { return };
        if self.directories.get(&lost) == Some(slot) {
            // The directory is removed, not moved: only after the entries in it.
            self.directories.remove(&lost);
            for (inside, history) in self.changed.iter().filter(|(inside, _)| inside.0 == lost) {
                if let Some((at, _)) = history.versions.last() {
                    let (when, then) = ((slot.clone(), position), (inside.clone(), *at));
                    self.conditions.push(Condition { when, then });
                }
            }
        }
        for then in self.additions.get(&lost).into_iter().flatten().filter(|then| then.0 != *slot) {
            self.conditions.push(Condition { when: (slot.clone(), position), then: then.clone() });
        }
    }

    /// Makes an entry durable as it is.
    pub(crate) fn settle(&mut self, slot: &Slot) {
        self.changed.remove(slot);
        self.conditions.retain(|condition| condition.when.0 != *slot && condition.then.0 != *slot);
        for additions in self.additions.values_mut() {
            additions.retain(|addition| addition.0 != *slot);
        }
    }
    /// Number of entries of an inode in memory.
    pub(crate) fn links(&self, inode: InodeId) -> u64 {
        self.links.get(&inode).map_or(0, |count| (*count).max(0) as u64)
    }
    /// Makes all entries durable as they are.
    pub(crate) fn sync(&mut self) {
        self.changed.clear();
        self.conditions.clear();
        self.additions.clear();
        self.last_move = None;
    }
    /// Makes the entries of a directory durable, and what they require.
    pub(crate) fn sync_directory(&mut self, directory: InodeId, position: u64) {
        for (slot, history) in &mut self.changed {
            if slot.0 == directory {
                history.floor = position;
            }
        }
        let floors: Map<Slot, u64> =
            self.changed.iter().map(|(slot, history)| (slot.clone(), history.floor)).collect();
        let floors = self.satisfied(floors);
        let mut settled = Vec::new();
        for (slot, history) in &mut self.changed {
            history.floor = floors.get(slot).copied().unwrap_or(history.floor);
            let before = history.versions.partition_point(|(at, _)| *at <= history.floor);
            if before > 0 {
                history.base = history.versions[before - 1].1;
                history.versions.drain(..before);
            }
            if history.versions.is_empty() {
                settled.push(slot.clone());
            }
        }
        let floor_of = |slot: &Slot| floors.get(slot).copied().unwrap_or(u64::MAX);
        self.conditions.retain(|condition| floor_of(&condition.then.0) < condition.then.1);
        for additions in self.additions.values_mut() {
            additions.retain(|(slot, position)| floor_of(slot) < *position);
        }
        self.additions.retain(|_, additions| !additions.is_empty());
        if self.last_move.as_ref().is_some_and(|(slot, at)| floor_of(slot) >= *at) {
            self.last_move = None;
        }
        for slot in settled {
            self.changed.remove(&slot);
        }
    }

    /// Draws a version of each entry: its inode.
    pub(crate) fn draw(&self, draw: &mut Stream) -> Map<Slot, Option<InodeId>> {
        let chosen = self.changed.iter().map(|(slot, history)| {
            let version = crate::page::draw_version(0, history.versions.len(), draw);
            let position = version.checked_sub(1).map_or(0, |last| history.versions[last].0);
            (slot.clone(), position)
        });
        let chosen = self.satisfied(chosen.collect());
        self.changed.iter().map(|(slot, history)| (slot.clone(), history.at(chosen[slot]))).collect()
    }
    /// Least positions that are not below `chosen` and satisfy all conditions.
    fn satisfied(&self, mut chosen: Map<Slot, u64>) -> Map<Slot, u64> {
        loop {
            let mut is_changed = false;
            // Most conditions refer to earlier changes, so one pass from the newest on usually suffices.
            for Condition { when, then } in self.conditions.iter().rev() {
                if chosen.get(&when.0).is_none_or(|at| *at >= when.1)
                    && let Some(at) = chosen.get_mut(&then.0)
                    && *at < then.1
                {
                    *at = then.1;
                    is_changed = true;
                }
            }
            if !is_changed {
                return chosen;
            }
        }
    }

    /// Inodes of changed entries as of the changes before `cut`.
    pub(crate) fn before(&self, cut: u64) -> Map<Slot, Option<InodeId>> {
        let at = |history: &History| history.at(cut.saturating_sub(1));
        self.changed.iter().map(|(slot, history)| (slot.clone(), at(history))).collect()
    }
    /// Positions of all changes that are not synced.
    pub(crate) fn positions(&self) -> impl Iterator<Item = u64> {
        self.changed.values().flat_map(|history| history.versions.iter().map(|version| version.0))
    }
    /// Inodes that have no entry in memory and none that a crash may leave, of those in `among`.
    pub(crate) fn gone(&mut self, among: &mut dyn Iterator<Item = InodeId>) -> Vec<InodeId> {
        let links = &self.links;
        let mut gone: Vec<InodeId> =
            among.filter(|inode| links.get(inode).is_none_or(|count| *count <= 0)).collect();
        gone.retain(|inode| !self.changed.values().any(|history| history.names(*inode)));
        for inode in &gone {
            self.links.remove(inode);
        }
        gone
    }
}
