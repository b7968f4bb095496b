//! Outlook: state of the channels of all simulators for other threads, which shows the simulators that
//! others wait for.

use belljar_base::SimTime;
use belljar_cosim::Watch;
use std::sync::{Arc, Mutex, PoisonError};

/// Simulators of a run whose channels are established.
#[derive(Debug, Default)]
pub struct Outlook(Mutex<Vec<Watched>>);

/// Simulator whose channels can be observed.
#[derive(Clone, Debug)]
pub struct Watched {
    /// Name of the simulator.
    pub name: String,
    /// Process id, if this process started it.
    pub process: Option<u32>,
    ports: Vec<(String, Arc<Watch>)>,
}

impl Outlook {
    pub(super) fn add(&self, simulator: Watched) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(simulator);
    }
    /// Simulators so far.
    pub fn simulators(&self) -> Vec<Watched> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Watched {
    pub(super) fn new(name: &str, process: Option<u32>, ports: Vec<(String, Arc<Watch>)>) -> Watched {
        Watched { name: name.to_owned(), process, ports }
    }
    /// Port whose clock holds the experiment up, if any, and the time of that clock.
    pub fn waited_for(&self) -> Option<(&str, SimTime)> {
        let waited_for = self.ports.iter().filter(|(_, watch)| watch.is_waited_for());
        waited_for.map(|(name, watch)| (name.as_str(), watch.horizon())).min_by_key(|(_, at)| *at)
    }
    /// Counter that changes whenever the experiment polls the simulator's channels.
    pub fn looks(&self) -> u64 {
        self.ports.iter().map(|(_, watch)| watch.looks()).fold(0, u64::wrapping_add)
    }
    /// Port at which the simulator has received all messages sent to it: unless it is computing, it waits
    /// for the experiment.
    pub fn waits_at(&self) -> Option<&str> {
        let waiting = self.ports.iter().find(|(_, watch)| watch.peer_has_taken_all());
        waiting.map(|(name, _)| name.as_str())
    }
}
