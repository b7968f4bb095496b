//! A conservative parallel discrete-event engine over nodes that exchange keyed messages.
//!
//! The engine is independent of packets and guests: a [`Node`] is anything that runs up to a point in time
//! and sends messages that arrive later. Events within a node are ordered by their [`EventKey`]s, which the
//! nodes create. The behaviour of a node does not depend on how the simulated time is divided into calls of
//! [`Node::run_until`]. Results are therefore independent of the number of workers, the assignment of nodes
//! to them and the size of the steps.
//!
//! Safety rule: a node may run up to the lower bound on the timestamps of future messages (LBTS) that can
//! reach it. The rule is applied in *windows*. With `first`, the earliest event of all nodes, and the
//! *lookahead* of each node, the minimum latency of messages from or to it ([`Plan`]), each node may run in a
//! window up to
//!
//! ```text
//! max( min over all nodes (next event + lookahead),  first + the node's own lookahead )
//! ```
//!
//! A message sent in a window arrives after the end of its receiver's window and is delivered when the next
//! one begins. Nodes that are very close to each other can form a [`Group`], which a worker runs as a unit,
//! with smaller windows inside.
//!
//! A node that exchanges messages with another simulator over a *channel* is bounded by that simulator's
//! clock. The same rule applies: a message may arrive at the channel's horizon, so the horizon counts as the
//! node's next event and bounds other nodes through the lookaheads. Such a node cannot always reach its
//! limit. A worker that runs a unit with a pending node leaves it, continues with other units and returns
//! later; a unit beside a channel thus makes many rounds with the other simulator within one window, in which
//! units far from the channel run once. Without progress for some time, the window is closed as if the unit
//! had finished it, since window boundaries do not affect results.
//!
//! * [`plan`]: groups and lookaheads; [`unit`](unit::Unit): the nodes that a worker runs as one
//! * `footprints`: prefetch of units' memory
//! * `partition`: a worker's units and their messages; `agenda`: the times of their next events
//! * `pending`: units that wait for another simulator's clock, and the back-off of their workers
//! * `window`: opening and closing of windows; `worker`: the loop of a thread; `idle`: waiting workers;
//!   `cost`: the estimate by which sleeping workers are woken
//! * `cells`: one simulation in several processes
//! * [`profile`]: CPU time of a run, and estimates for other numbers of workers
#![forbid(unsafe_code)]

mod agenda;
mod cells;
#[cfg(test)]
mod cells_tests;
mod cost;
mod footprints;
mod idle;
mod partition;
mod pending;
#[cfg(test)]
mod pending_tests;
mod plan;
mod profile;
#[cfg(test)]
mod tests;
mod unit;
mod window;
mod worker;

use belljar_base::activity::Board;
use belljar_base::{EventKey, Footprint, HostId, SimDuration, SimTime};
pub use cells::{Cell, CellStatus, Exchange, PeersGone};
pub use footprints::Fetch;
pub use plan::{Group, Plan};
pub use profile::{Estimate, Profile};
use std::sync::Mutex;
use unit::Unit;
use window::Shared;

/// Message to another node.
#[derive(Debug)]
pub struct Outgoing<M> {
    /// Receiver.
    pub to: HostId,
    /// Arrival time and order; the time is at least the lookahead after the sending.
    pub key: EventKey,
    /// Content of the message.
    pub message: M,
}

/// Sequentially simulated entity.
pub trait Node: Send {
    /// Messages exchanged between nodes.
    type Message: Send;

    /// Delivers a message that arrives at `key.time`, which is later than everything that has run.
    fn deliver(&mut self, key: EventKey, message: Self::Message);
    /// Executes all events strictly before `limit` and appends the messages sent to `out`.
    ///
    /// A node with a channel to a sender outside the simulation knows the time up to which it has received
    /// all messages, the *horizon* of the channel. While the horizon is before the limit, the node is
    /// *pending*: it executes what it can and returns, and its [`next_event`](Self::next_event) is at most
    /// the horizon, since a message may arrive then. The engine runs it again, possibly in the same window,
    /// until the horizon has advanced.
    fn run_until(&mut self, limit: SimTime, out: &mut Vec<Outgoing<Self::Message>>);
    /// Time of the next event without a further message; `None` if there is none.
    fn next_event(&self) -> Option<SimTime>;
    /// Time at which the node finished permanently, so that the run need not wait for it; `None` before.
    fn finished_at(&self) -> Option<SimTime>;
    /// Serves requests from outside the simulation, see [`Verdict::Attend`]. No node has run beyond `since`: the node
    /// may add events at that time or later. Otherwise it must not change anything visible to the simulation.
    fn attend(&mut self, since: SimTime) {
        let _ = since;
    }
    /// Reports the memory that the next run will read. Results do not depend on it.
    fn footprint(&self, footprint: &mut Footprint) {
        let _ = footprint;
    }
}

/// Decision of the observer of [`Engine::run`], made before each window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Run the next window.
    Continue,
    /// Run the next window and end it at this time at the latest. Ignored with several cells.
    Until(SimTime),
    /// Let every node serve requests from outside, which may add events, then ask again.
    Attend,
    /// Stop here.
    Stop,
}

/// Reason for the end of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// The stop time was reached, or no events are left.
    StopTime,
    /// Every node has finished, and [`LINGER`] has passed since.
    AllFinished,
    /// The observer stopped it.
    Stopped,
}

/// Time that a simulation continues after its last node has finished, so that the last messages arrive and
/// connections close. No node runs further ahead of another than this, since the other's finish may end the
/// run.
pub const LINGER: SimDuration = SimDuration::from_secs(1);

/// Options for running a simulation; none affects the results.
#[derive(Clone, Copy, Default)]
pub struct Options<'a> {
    /// Number of threads that run nodes, including the calling one; at least one.
    pub workers: usize,
    /// True if idle workers take over units of others.
    pub stealing: bool,
    /// True if each worker has a core to itself and may spin briefly before it sleeps.
    pub spinning: bool,
    /// Number of workers, from the first, that run units waiting for external clocks; 0 for all. With few
    /// processors, a smaller number leaves more of them to the other simulators.
    pub waiters: usize,
    /// True if these workers sleep instead of spinning, because the other simulators need every processor.
    pub sleeping: bool,
    /// Called first on each worker's thread, with the worker's number.
    pub on_start: Option<&'a (dyn Fn(usize) + Sync)>,
    /// Board on which workers report their activity to an observer.
    pub watched: Option<&'a Board>,
    /// CPU time of the calling thread in nanoseconds, by which the cost of running nodes is sampled: the
    /// higher it is, the fewer due nodes suffice to wake other workers. Without a clock, a run is assumed to
    /// cost a microsecond.
    pub clock: Option<&'a (dyn Fn() -> u64 + Sync)>,
    /// True to time all runs by that clock, for a [`Profile`](profile::Profile).
    pub profiled: bool,
    /// Prefetch function: a unit's memory is fetched while the one before it runs.
    pub fetch: Option<Fetch>,
}

/// Nodes of one simulation, with their progress.
pub struct Engine<N: Node> {
    units: Vec<Mutex<Unit<N>>>,
    plan: Plan,
    committed: SimTime,
    profile: Option<Profile>,
}

impl<N: Node> Engine<N> {
    /// Creates an engine over `nodes`, indexed by their [`HostId`]; `plan` contains each of them once.
    pub fn new(nodes: Vec<N>, plan: Plan) -> Engine<N> {
        assert_eq!(nodes.len(), plan.node_count(), "the plan is for other nodes");
        Engine::of_cell(nodes.into_iter().enumerate().map(|(n, node)| (HostId(n as u32), node)), plan)
    }

    /// Creates an engine over the nodes of one [`Cell`], which are whole groups.
    pub fn of_cell(nodes: impl IntoIterator<Item = (HostId, N)>, plan: Plan) -> Engine<N> {
        let mut all: Vec<Option<N>> = (0..plan.node_count()).map(|_| None).collect();
        for (id, node) in nodes {
            all[id.index()] = Some(node);
        }
        let unit = |group: &Group| {
            let members = group.members.iter().filter_map(|id| Some((*id, all[id.index()].take()?)));
            let members: Vec<(HostId, N)> = members.collect();
            assert!(
                members.is_empty() || members.len() == group.members.len(),
                "a group has its nodes in one cell"
            );
            Mutex::new(Unit::new(members, group.inner))
        };
        let units = plan.groups().iter().map(unit).collect();
        Engine { units, plan, committed: SimTime::ZERO, profile: None }
    }

    /// Runs all events before `stop`. `observe` is called before each window, by one worker at a time, with
    /// the time of the next event, before which everything has been executed.
    ///
    /// # Panics
    /// If a node panics: all workers end, then its panic is resumed.
    pub fn run(
        &mut self,
        stop: SimTime,
        options: &Options<'_>,
        observe: impl Fn(SimTime) -> Verdict + Sync,
    ) -> Ending {
        self.run_in(None, stop, options, observe)
    }

    /// Runs all events before `stop`, as one of several cells if `cell` is given. If a peer exits, the run
    /// ends as stopped.
    ///
    /// # Panics
    /// As [`run`](Self::run).
    pub fn run_in(
        &mut self,
        cell: Option<Cell<'_, N::Message>>,
        stop: SimTime,
        options: &Options<'_>,
        observe: impl Fn(SimTime) -> Verdict + Sync,
    ) -> Ending {
        let shared = Shared::new(&mut self.units, &self.plan, cell, stop, options, &observe);
        let done = worker::run_all(shared);
        self.committed = self.committed.max(done.committed);
        self.profile = done.profile;
        done.ending
    }

    /// Time strictly before which all events have been executed.
    pub fn committed(&self) -> SimTime {
        self.committed
    }
    /// Profile of the last run, if it was recorded.
    pub fn profile(&self) -> Option<&Profile> {
        self.profile.as_ref()
    }
    /// Nodes in order of id, for the collection of their results.
    pub fn into_nodes(self) -> Vec<(HostId, N)> {
        let units = self.units.into_iter().map(|unit| unit.into_inner().unwrap_or_else(|e| e.into_inner()));
        let mut nodes: Vec<(HostId, N)> = units.flat_map(Unit::into_members).collect();
        nodes.sort_by_key(|(id, _)| *id);
        nodes
    }
}
