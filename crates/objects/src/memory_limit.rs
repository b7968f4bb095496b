//! Limits of a host's memory: the one that holds, what forked processes share, and victims of the out-of-memory killer.

use crate::ids::MmKey;
use belljar_base::Map;

/// Number of calls after which memory is counted again, unless a call changes mappings.
pub const COUNTED_EACH: u32 = 16;

/// Limits of the memory of one host.
#[derive(Debug, Default)]
pub struct MemoryLimit {
    /// Memory of the host; `None` if it has no setting of its own.
    own: Option<u64>,
    /// Limits of events that last, the latest last.
    of_events: Vec<Limited>,
    /// Calls since memory was counted last.
    calls: u32,
    /// Copies of address spaces: the space that they were forked from, and their pages at that moment.
    forked: Map<MmKey, (MmKey, u64)>,
    /// Number of processes that were killed.
    pub kills: u64,
}

/// Limit of an event.
#[derive(Debug)]
struct Limited {
    event: u32,
    bytes: u64,
    /// Processes of the experiment that were killed under it, by index.
    victims: Vec<usize>,
}

impl MemoryLimit {
    /// Limit of a host with so many bytes of memory.
    pub fn of_host(bytes: u64) -> MemoryLimit {
        MemoryLimit { own: Some(bytes), ..MemoryLimit::default() }
    }
    /// Adds the limit of an event; an earlier one of the same event ends.
    pub fn begin(&mut self, event: u32, bytes: u64) {
        self.of_events.retain(|limited| limited.event != event);
        self.of_events.push(Limited { event, bytes, victims: Vec::new() });
        self.calls = COUNTED_EACH;
    }
    /// Ends the limit of an event. Returns the processes of the experiment that were killed under it.
    pub fn end(&mut self, event: u32) -> Vec<usize> {
        let found = self.of_events.iter().position(|limited| limited.event == event);
        found.map(|at| self.of_events.remove(at).victims).unwrap_or_default()
    }
    /// Limit that holds, in bytes: that of the latest event, or the host's own.
    pub fn bytes(&self) -> Option<u64> {
        self.of_events.last().map(|limited| limited.bytes).or(self.own)
    }
    /// Counts a call; true if memory is to be counted before it.
    pub fn is_due(&mut self, changes_memory: bool) -> bool {
        self.calls += 1;
        let is_due = changes_memory || self.calls >= COUNTED_EACH;
        self.calls = if is_due { 0 } else { self.calls };
        is_due
    }
    /// Notes a killed process; `spec` is its index in the experiment. True if the limit is that of an event.
    pub fn killed(&mut self, spec: Option<usize>) -> bool {
        self.kills += 1;
        let Some(limited) = self.of_events.last_mut() else { return false };
        limited.victims.extend(spec);
        true
    }
    /// Forgets what a crash of the host ends: address spaces and processes.
    pub fn crashed(&mut self) {
        self.forked.clear();
        self.of_events.iter_mut().for_each(|limited| limited.victims.clear());
    }

    /// Notes a copy of an address space, which shares `pages` with it.
    pub fn forked(&mut self, parent: MmKey, child: MmKey, pages: u64) {
        self.forked.insert(child, (parent, pages));
    }
    /// Notes the end of an address space. The first copy of it has the shared pages from now on.
    pub fn released(&mut self, gone: MmKey) {
        self.forked.remove(&gone);
        let of_gone = |(_, (parent, _)): &(&MmKey, &(MmKey, u64))| *parent == gone;
        let copies: Vec<MmKey> = self.forked.iter().filter(of_gone).map(|(key, _)| *key).collect();
        let Some((heir, others)) = copies.split_first() else { return };
        self.forked.remove(heir);
        for other in others {
            self.forked.entry(*other).and_modify(|(parent, _)| *parent = *heir);
        }
    }
    /// Pages of an address space that are counted elsewhere.
    pub fn shared(&self, key: MmKey) -> u64 {
        self.forked.get(&key).map_or(0, |(_, pages)| *pages)
    }
}

/// Badness of a process (`oom_badness`): its pages, moved by `oom_score_adj` thousandths of the memory.
pub fn badness(pages: u64, adjustment: i32, total_pages: u64) -> i64 {
    pages as i64 + i64::from(adjustment) * (total_pages / 1_000) as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_event_holds_and_knows_its_victims() {
        let mut limit = MemoryLimit::of_host(100);
        assert!((limit.bytes(), limit.killed(Some(3))) == (Some(100), false));
        limit.begin(1, 50);
        limit.begin(2, 70);
        assert_eq!(limit.bytes(), Some(70));
        assert!(limit.killed(Some(4)) && limit.killed(None));
        assert_eq!((limit.end(2), limit.bytes(), limit.end(2)), (vec![4], Some(50), vec![]));
        assert_eq!((limit.end(1), limit.bytes(), limit.kills), (vec![], Some(100), 3));
        assert_eq!(MemoryLimit::default().bytes(), None);
    }

    #[test]
    fn memory_is_counted_at_calls_that_change_it_and_now_and_then() {
        let mut limit = MemoryLimit::of_host(100);
        assert!(limit.is_due(true) && !limit.is_due(false));
        let due = (0..2 * COUNTED_EACH).filter(|_| limit.is_due(false)).count();
        assert_eq!(due, 2);
        limit.begin(1, 50);
        assert!(limit.is_due(false));
    }

    #[test]
    fn shared_pages_are_counted_once_as_long_as_somebody_has_them() {
        let mut limit = MemoryLimit::default();
        let [a, b, c] = [1, 2, 3].map(MmKey);
        limit.forked(a, b, 10);
        limit.forked(a, c, 12);
        assert_eq!([a, b, c].map(|key| limit.shared(key)), [0, 10, 12]);
        limit.released(a);
        assert_eq!([b, c].map(|key| limit.shared(key)), [0, 12]);
        limit.released(b);
        assert_eq!(limit.shared(c), 0);
    }

    #[test]
    fn badness_is_that_of_linux() {
        assert_eq!(badness(100, 0, 10_000), 100);
        assert_eq!(badness(100, -500, 10_000), -4_900);
        assert_eq!(badness(100, 1_000, 10_000), 10_100);
    }
}
