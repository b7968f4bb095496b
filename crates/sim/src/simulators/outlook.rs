//! Outlook: the channels of all simulators for other threads, which see by it who waits for whom.

use belljar_base::SimTime;
use belljar_cosim::Watch;
use std::sync::{Arc, Mutex, PoisonError};

/// The simulators of a run, once their channels are there.
#[derive(Debug, Default)]
pub struct Outlook(Mutex<Vec<Watched>>);

/// A simulator that can be looked at.
#[derive(Clone, Debug)]
pub struct Watched {
    /// Its name.
    pub name: String,
    /// Its process id, if it was started here.
    pub process: Option<u32>,
    ports: Vec<(String, Arc<Watch>)>,
}

impl Outlook {
    pub(super) fn add(&self, simulator: Watched) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(simulator);
    }
    /// All that there are yet.
    pub fn simulators(&self) -> Vec<Watched> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Watched {
    pub(super) fn new(name: &str, process: Option<u32>, ports: Vec<(String, Arc<Watch>)>) -> Watched {
        Watched { name: name.to_owned(), process, ports }
    }
    /// The port whose clock holds the experiment up, if one does, and the time where it stands.
    pub fn waited_for(&self) -> Option<(&str, SimTime)> {
        let waited_for = self.ports.iter().filter(|(_, watch)| watch.is_waited_for());
        waited_for.map(|(name, watch)| (name.as_str(), watch.horizon())).min_by_key(|(_, at)| *at)
    }
    /// A number that changes whenever the experiment looks for messages of it.
    pub fn looks(&self) -> u64 {
        self.ports.iter().map(|(_, watch)| watch.looks()).fold(0, u64::wrapping_add)
    }
    /// A port at which it has come to the end of what it has been sent: there it waits for the experiment, unless it still works.
    pub fn waits_at(&self) -> Option<&str> {
        let waiting = self.ports.iter().find(|(_, watch)| watch.peer_has_taken_all());
        waiting.map(|(name, _)| name.as_str())
    }
}
