//! The scheduler of `htb`: classes that may send or borrow, by level and priority (`net/sched/sch_htb.c`).
//!
//! Each class is in a mode: it may send at its own rate, it may borrow from its parent, or it cannot send. A class
//! that may send is in the row of its level. One that may borrow is in the feed of its parent, by priority, and the
//! parent is in turn in a row or a feed. A packet is taken from the lowest level that has a row, and there from the
//! highest priority: the pointers of row and feeds lead down to a leaf, in deficit round robin. Classes that are not
//! in the first mode wait for the time at which their tokens suffice.

use super::class_table::ClassTable;
use crate::buffer::Buffer;
use crate::filters::Filters;
use crate::node::{Node, Traffic};
use crate::rate::Rate;
use belljar_base::{Map, Set};

/// `TC_HTB_MAXDEPTH` and `TC_HTB_NUMPRIO`.
pub(super) const DEPTH: usize = 8;
pub(super) const PRIORITIES: usize = 8;
/// Bound of tokens in nanoseconds: a minute.
pub(super) const MAX_TOKENS: i64 = 60_000_000_000;

/// `enum htb_cmode`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    CannotSend,
    MayBorrow,
    CanSend,
}

/// Active classes of one priority, with the position of the round robin.
#[derive(Clone, Debug, Default)]
pub(super) struct Feed {
    members: Set<u16>,
    at: Option<u16>,
    /// Class at which the position was when it became inactive.
    last: Option<u16>,
}

impl Feed {
    /// Moves the position to the next member, or past the end.
    fn advance(&mut self) {
        self.at = self.at.and_then(|at| self.members.range(at..).find(|id| **id != at).copied());
    }
}

/// Class of `htb`.
#[derive(Debug)]
pub(super) struct Class {
    pub(super) parent: Option<u16>,
    pub(super) level: usize,
    pub(super) children: u32,
    pub(super) rate: Rate,
    pub(super) ceil: Rate,
    pub(super) buffer: i64,
    pub(super) cbuffer: i64,
    pub(super) tokens: i64,
    pub(super) ctokens: i64,
    pub(super) updated: i64,
    pub(super) mode: Mode,
    pub(super) quantum: i64,
    pub(super) priority: usize,
    pub(super) deficit: [i64; DEPTH],
    /// Priorities for which the class is active, a bit each.
    activity: u32,
    feeds: [Feed; PRIORITIES],
    /// Time at which the mode may change.
    wakes: i64,
    pub(super) traffic: Traffic,
    pub(super) drops: u32,
    pub(super) overlimits: u32,
    pub(super) lends: u32,
    pub(super) borrows: u32,
    /// Discipline of a leaf.
    pub(super) leaf: Option<Node>,
    pub(super) filters: Filters,
}

impl Class {
    /// Leaf with full buckets.
    pub(super) fn new(parent: Option<u16>, now: i64, leaf: Node) -> Class {
        Class {
            parent,
            level: 0,
            children: 0,
            rate: Rate::default(),
            ceil: Rate::default(),
            buffer: 0,
            cbuffer: 0,
            tokens: 0,
            ctokens: 0,
            updated: now,
            mode: Mode::CanSend,
            quantum: 0,
            priority: 0,
            deficit: [0; DEPTH],
            activity: 0,
            feeds: Default::default(),
            wakes: 0,
            traffic: Traffic::default(),
            drops: 0,
            overlimits: 0,
            lends: 0,
            borrows: 0,
            leaf: Some(leaf),
            filters: Filters::default(),
        }
    }
    /// Mode after a time, and if it is not the first the time until it may change (`htb_class_mode`).
    fn mode_after(&self, elapsed: &mut i64) -> Mode {
        let ceiling = self.ctokens + *elapsed;
        if ceiling < 0 {
            *elapsed = -ceiling;
            return Mode::CannotSend;
        }
        let tokens = self.tokens + *elapsed;
        if tokens >= 0 {
            return Mode::CanSend;
        }
        *elapsed = -tokens;
        Mode::MayBorrow
    }
}

/// Level of the hierarchy.
#[derive(Debug, Default)]
struct Level {
    rows: [Feed; PRIORITIES],
    /// Waiting classes by time and order.
    waiting: Map<(i64, u64), u16>,
    next: i64,
}

/// Classes with their schedule.
#[derive(Debug, Default)]
pub(super) struct Tree {
    pub(super) classes: Map<u16, Class>,
    pub(super) order: ClassTable,
    levels: [Level; DEPTH],
    /// Key of each waiting class.
    waits: Map<u16, (i64, u64)>,
    waited: u64,
    pub(super) now: i64,
    pub(super) overlimits: u32,
}

impl Tree {
    fn class(&mut self, id: u16) -> &mut Class {
        self.classes.get_mut(&id).expect("a scheduled class exists")
    }
    /// Ends the wait of a class.
    fn stop_waiting(&mut self, id: u16, level: usize) {
        if let Some(key) = self.waits.remove(&id) {
            self.levels[level].waiting.remove(&key);
        }
    }
    /// `htb_add_to_wait_tree`.
    fn wait(&mut self, id: u16, delay: i64) {
        let now = self.now;
        let class = self.class(id);
        class.wakes = if delay == 0 { now + 1 } else { now + delay };
        let (wakes, level) = (class.wakes, class.level);
        self.waited += 1;
        let key = (wakes, self.waited);
        self.waits.insert(id, key);
        let level = &mut self.levels[level];
        level.next = level.next.min(wakes);
        level.waiting.insert(key, id);
    }
    /// Inserts a class that has become active into rows and feeds (`htb_activate_prios`).
    fn activate_priorities(&mut self, id: u16) {
        let (mut id, mut mask) = (id, self.class(id).activity);
        while mask != 0 && self.class(id).mode == Mode::MayBorrow {
            let Some(parent) = self.class(id).parent else { break };
            let above = self.class(parent);
            for priority in (0..PRIORITIES).filter(|priority| mask & 1 << priority != 0).collect::<Vec<_>>() {
                if !above.feeds[priority].members.is_empty() {
                    mask &= !(1 << priority);
                }
                above.feeds[priority].members.insert(id);
            }
            above.activity |= mask;
            id = parent;
        }
        if self.class(id).mode == Mode::CanSend && mask != 0 {
            let level = self.class(id).level;
            for priority in (0..PRIORITIES).filter(|priority| mask & 1 << priority != 0) {
                self.levels[level].rows[priority].members.insert(id);
            }
        }
    }
    /// Removes a class from rows and feeds (`htb_deactivate_prios`).
    fn deactivate_priorities(&mut self, id: u16) {
        let (mut id, mut mask) = (id, self.class(id).activity);
        while mask != 0 && self.class(id).mode == Mode::MayBorrow {
            let Some(parent) = self.class(id).parent else { break };
            let above = self.class(parent);
            let mut emptied = 0;
            for priority in (0..PRIORITIES).filter(|priority| mask & 1 << priority != 0) {
                let feed = &mut above.feeds[priority];
                if feed.at == Some(id) {
                    (feed.last, feed.at) = (Some(id), None);
                }
                feed.members.remove(&id);
                emptied |= u32::from(feed.members.is_empty()) << priority;
            }
            mask = emptied;
            above.activity &= !mask;
            id = parent;
        }
        if self.class(id).mode == Mode::CanSend && mask != 0 {
            let level = self.class(id).level;
            for priority in (0..PRIORITIES).filter(|priority| mask & 1 << priority != 0) {
                let row = &mut self.levels[level].rows[priority];
                if row.at == Some(id) {
                    row.advance();
                }
                row.members.remove(&id);
            }
        }
    }
    /// Schedules a leaf that has got a packet (`htb_activate`).
    pub(super) fn activate(&mut self, id: u16) {
        let class = self.class(id);
        if class.activity == 0 {
            class.activity = 1 << class.priority;
            self.activate_priorities(id);
        }
    }
    /// Removes an empty leaf from the schedule (`htb_deactivate`).
    pub(super) fn deactivate(&mut self, id: u16) {
        if self.class(id).activity != 0 {
            self.deactivate_priorities(id);
            self.class(id).activity = 0;
        }
    }
    /// Removes a class whose place in the tree changes from the schedule.
    pub(super) fn unschedule(&mut self, id: u16) {
        self.deactivate(id);
        let level = self.class(id).level;
        self.stop_waiting(id, level);
        self.class(id).mode = Mode::CanSend;
    }
    /// Turns a class into an inner one without children yet.
    pub(super) fn make_inner(&mut self, id: u16) {
        self.unschedule(id);
        let above = self.class(id).parent.map(|parent| self.class(parent).level);
        let class = self.class(id);
        class.level = above.unwrap_or(DEPTH) - 1;
        class.feeds = Default::default();
    }
    /// Turns an inner class whose last child is deleted into a leaf.
    pub(super) fn make_leaf(&mut self, id: u16, leaf: Node, now: i64) {
        self.unschedule(id);
        let class = self.class(id);
        class.level = 0;
        class.leaf = Some(leaf);
        (class.tokens, class.ctokens, class.updated) = (class.buffer, class.cbuffer, now);
    }
    /// `htb_change_class_mode`.
    fn change_mode(&mut self, id: u16, elapsed: &mut i64) {
        let class = self.class(id);
        let mode = class.mode_after(elapsed);
        if mode == class.mode {
            return;
        }
        if mode == Mode::CannotSend {
            class.overlimits += 1;
            self.overlimits += 1;
        }
        let class = self.class(id);
        if class.activity == 0 {
            class.mode = mode;
            return;
        }
        if class.mode != Mode::CannotSend {
            self.deactivate_priorities(id);
        }
        self.class(id).mode = mode;
        if mode != Mode::CannotSend {
            self.activate_priorities(id);
        }
    }
    /// Changes the modes that are due on a level, and returns the time of the next change (`htb_do_events`).
    fn run_events(&mut self, level: usize) -> Option<i64> {
        while let Some((&key, &id)) = self.levels[level].waiting.first_key_value() {
            if key.0 > self.now {
                return Some(key.0);
            }
            self.stop_waiting(id, level);
            let now = self.now;
            let mut elapsed = (now - self.class(id).updated).min(MAX_TOKENS);
            self.change_mode(id, &mut elapsed);
            if self.class(id).mode != Mode::CanSend {
                self.wait(id, elapsed);
            }
        }
        None
    }
    /// Next leaf of a priority and level, by the pointers (`htb_lookup_leaf`).
    fn leaf(&mut self, level: usize, priority: usize) -> Option<u16> {
        // Each step down names the class whose feed it enters; the first is the row.
        let mut path: Vec<Option<u16>> = vec![None];
        for _ in 0..65_535 {
            let top = *path.last()?;
            let feed = match top {
                None => &mut self.levels[level].rows[priority],
                Some(id) => &mut self.class(id).feeds[priority],
            };
            if let (None, Some(last)) = (feed.at, feed.last) {
                feed.at = feed.members.range(last..).next().copied();
            }
            feed.last = None;
            match feed.at {
                None => {
                    // At the right end: rewind and go up.
                    feed.at = feed.members.first().copied();
                    if path.len() > 1 {
                        path.pop();
                        let above = match *path.last()? {
                            None => &mut self.levels[level].rows[priority],
                            Some(id) => &mut self.class(id).feeds[priority],
                        };
                        above.at?;
                        above.advance();
                    } else {
                        feed.at?;
                    }
                }
                Some(id) => match self.class(id).level {
                    0 => return Some(id),
                    _ => path.push(Some(id)),
                },
            }
        }
        None
    }
    /// Moves the position of the round robin that led to a leaf.
    fn advance(&mut self, id: u16, level: usize, priority: usize) {
        match (level, self.class(id).parent) {
            (0, _) | (_, None) => self.levels[level].rows[priority].advance(),
            (_, Some(parent)) => self.class(parent).feeds[priority].advance(),
        }
    }
    /// Takes a packet of a priority and level (`htb_dequeue_tree`).
    fn dequeue_tree(
        &mut self,
        priority: usize,
        level: usize,
        context: &mut crate::node::Context<'_>,
    ) -> Option<Buffer> {
        let mut start = self.leaf(level, priority)?;
        let mut id = start;
        loop {
            if self.class(id).leaf.as_ref().is_none_or(|leaf| leaf.len() == 0) {
                self.deactivate(id);
                if self.levels[level].rows[priority].members.is_empty() {
                    return None;
                }
                let next = self.leaf(level, priority)?;
                if id == start {
                    start = next;
                }
                id = next;
                continue;
            }
            let class = self.class(id);
            if let Some(buffer) = class.leaf.as_mut().and_then(|leaf| leaf.dequeue(context)) {
                class.traffic.count(&buffer);
                class.deficit[level] -= i64::from(buffer.len);
                if class.deficit[level] < 0 {
                    class.deficit[level] += class.quantum;
                    self.advance(id, level, priority);
                }
                if self.class(id).leaf.as_ref().is_none_or(|leaf| leaf.len() == 0) {
                    self.deactivate(id);
                }
                self.charge(id, level, &buffer);
                return Some(buffer);
            }
            // The discipline of the leaf is throttled.
            self.advance(id, level, priority);
            id = self.leaf(level, priority)?;
            if id == start {
                return None;
            }
        }
    }
    /// Charges a packet to a leaf and the classes above (`htb_charge_class`).
    fn charge(&mut self, leaf: u16, level: usize, buffer: &Buffer) {
        let (now, mut next) = (self.now, Some(leaf));
        while let Some(id) = next {
            let class = self.class(id);
            let elapsed = (now - class.updated).min(MAX_TOKENS);
            let bounded = |tokens: i64| if tokens <= -MAX_TOKENS { 1 - MAX_TOKENS } else { tokens };
            if class.level >= level {
                class.lends += u32::from(class.level == level);
                let tokens = (elapsed + class.tokens).min(class.buffer) - class.rate.time(buffer.len);
                class.tokens = bounded(tokens);
            } else {
                class.borrows += 1;
                class.tokens += elapsed;
            }
            let tokens = (elapsed + class.ctokens).min(class.cbuffer) - class.ceil.time(buffer.len);
            class.ctokens = bounded(tokens);
            class.updated = now;
            let former = class.mode;
            let mut elapsed = 0;
            self.change_mode(id, &mut elapsed);
            let class = self.class(id);
            let (mode, level) = (class.mode, class.level);
            if level > 0 {
                class.traffic.count(buffer);
            }
            next = class.parent;
            if mode != former {
                if former != Mode::CanSend {
                    self.stop_waiting(id, level);
                }
                if mode != Mode::CanSend {
                    self.wait(id, elapsed);
                }
            }
        }
    }
    /// Takes the next packet (`htb_dequeue`).
    pub(super) fn dequeue(&mut self, context: &mut crate::node::Context<'_>) -> Option<Buffer> {
        self.now = context.ns();
        let mut next = self.now + 5_000_000_000;
        for level in 0..DEPTH {
            if self.now >= self.levels[level].next {
                // A change by this may set the time again.
                self.levels[level].next = i64::MAX;
                let event = self.run_events(level).unwrap_or(self.now + 1_000_000_000);
                self.levels[level].next = event;
            }
            next = next.min(self.levels[level].next);
            for priority in 0..PRIORITIES {
                if !self.levels[level].rows[priority].members.is_empty()
                    && let Some(buffer) = self.dequeue_tree(priority, level, context)
                {
                    return Some(buffer);
                }
            }
        }
        if self.classes.values().any(|class| class.activity != 0) {
            context.watch_ns(next.max(self.now + 1));
        }
        None
    }
    /// Forgets the schedule after all queues were emptied.
    pub(super) fn reset(&mut self) {
        self.levels = Default::default();
        self.waits.clear();
        for class in self.classes.values_mut() {
            class.activity = 0;
            class.mode = Mode::CanSend;
            class.feeds = Default::default();
        }
    }
}
