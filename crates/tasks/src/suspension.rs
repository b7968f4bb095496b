//! Suspension: threads that do not run although they could, for a time that the experiment sets. Their programs are not told: there is no
//! signal and no stop, and calls that wait go on waiting.
//!
//! A thread leaves the run queue when its turn comes, and returns to its tail, in the same order, when it may run again. A process that is
//! killed runs, so that it can end.

use belljar_base::{Map, Set};
use belljar_objects::ids::ThreadKey;

/// Suspended processes of a host, by process id.
#[derive(Debug, Default)]
pub struct Suspension {
    /// Events that suspend each process, as often as they do.
    events: Map<i32, Vec<u32>>,
    /// True if all processes are suspended.
    all: bool,
    /// Killed processes.
    killed: Set<i32>,
    /// Threads whose turn has come, in that order, with their processes.
    waiting: Vec<(ThreadKey, i32)>,
}

impl Suspension {
    /// Suspends a process, for an event. False if it was suspended by an event before.
    pub fn begin(&mut self, pid: i32, event: u32) -> bool {
        let events = self.events.entry(pid).or_default();
        events.push(event);
        events.len() == 1
    }
    /// Ends what one occurrence of an event has suspended.
    pub fn end_event(&mut self, event: u32) {
        self.events.values_mut().for_each(|events| {
            if let Some(at) = events.iter().position(|other| *other == event) {
                events.remove(at);
            }
        });
        self.events.retain(|_, events| !events.is_empty());
    }
    /// Ends the suspension of a process by any events. False if none suspends it.
    pub fn end(&mut self, pid: i32) -> bool {
        self.events.remove(&pid).is_some()
    }
    /// Suspends all processes, those that start later too, or ends that.
    pub fn set_all(&mut self, all: bool) {
        self.all = all;
    }
    /// Lets a process run to its end.
    pub fn kill(&mut self, pid: i32) {
        self.killed.insert(pid);
    }
    /// True if threads may have to wait.
    pub fn is_active(&self) -> bool {
        self.all || !self.events.is_empty()
    }
    /// Keeps a thread whose turn has come if its process is suspended. True if so.
    pub fn keeps_waiting(&mut self, thread: ThreadKey, pid: i32) -> bool {
        let waits = self.suspends(pid);
        if waits {
            self.waiting.push((thread, pid));
        }
        waits
    }
    /// Takes the threads that no longer have to wait, in order.
    pub fn take_released(&mut self) -> Vec<ThreadKey> {
        let waiting = std::mem::take(&mut self.waiting);
        let (kept, released): (Vec<_>, Vec<_>) =
            waiting.into_iter().partition(|(_, pid)| self.suspends(*pid));
        self.waiting = kept;
        released.into_iter().map(|(thread, _)| thread).collect()
    }
    /// Forgets a thread that ends, and with the last one its process.
    pub fn forget(&mut self, thread: ThreadKey, pid: i32, is_last: bool) {
        self.waiting.retain(|(waiting, _)| *waiting != thread);
        if is_last {
            self.events.remove(&pid);
            self.killed.remove(&pid);
        }
    }

    fn suspends(&self, pid: i32) -> bool {
        (self.all || self.events.contains_key(&pid)) && !self.killed.contains(&pid)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_return_in_order_once_no_event_suspends_their_process() {
        let mut suspension = Suspension::default();
        assert!(suspension.begin(7, 0) && !suspension.begin(7, 1) && suspension.begin(8, 1));
        assert!(suspension.keeps_waiting(ThreadKey(2), 8) && suspension.keeps_waiting(ThreadKey(1), 7));
        assert!(suspension.keeps_waiting(ThreadKey(0), 8) && !suspension.keeps_waiting(ThreadKey(3), 9));
        suspension.end_event(0);
        assert_eq!(suspension.take_released(), []);
        suspension.end_event(1);
        assert_eq!(suspension.take_released(), [ThreadKey(2), ThreadKey(1), ThreadKey(0)]);
        assert!(!suspension.is_active() && !suspension.keeps_waiting(ThreadKey(1), 7));
    }

    #[test]
    fn an_event_that_occurs_twice_ends_twice() {
        let mut suspension = Suspension::default();
        suspension.begin(7, 0);
        suspension.begin(7, 0);
        suspension.end_event(0);
        assert!(suspension.is_active());
        suspension.end_event(0);
        assert!(!suspension.is_active() && !suspension.end(7));
    }

    #[test]
    fn killed_processes_run_and_ended_ones_are_forgotten() {
        let mut suspension = Suspension::default();
        suspension.set_all(true);
        suspension.begin(7, 0);
        assert!(suspension.keeps_waiting(ThreadKey(1), 7) && suspension.keeps_waiting(ThreadKey(2), 8));
        suspension.kill(7);
        assert_eq!(suspension.take_released(), [ThreadKey(1)]);
        suspension.forget(ThreadKey(1), 7, true);
        suspension.forget(ThreadKey(2), 8, false);
        suspension.set_all(false);
        assert!(!suspension.is_active() && suspension.take_released().is_empty());
    }
}
