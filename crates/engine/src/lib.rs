//! A conservative parallel discrete-event engine over nodes that exchange keyed messages.
//!
//! The engine knows neither packets nor guests: a [`Node`] is anything that runs up to a point in
//! time and sends messages that arrive later. The order of events within a node is that of their
//! [`EventKey`]s, which the nodes make; the engine adds nothing to it. A node does the same however
//! the time up to some point is cut into calls of [`Node::run_until`]. That is why results cannot
//! depend on how many workers there are, what each of them runs or how far a node runs at a time.
//!
//! The one rule of safety: a node may run up to the earliest time at which anything that has not
//! happened yet could reach it, the lower bound on the time stamps of future messages (LBTS). It is applied in *windows*. With `first`, the earliest event of all,
//! and each node's *lookahead*, the least time that a message from or to it takes ([`Plan`]), a window
//! lets each node run up to
//!
//! ```text
//! max( min over all nodes (next event + lookahead),  first + the node's own lookahead )
//! ```
//!
//! A message sent in a window arrives after the end of its receiver's window and is handed over when
//! the next one begins. Nodes that are very close to each other can be put in one [`Group`], which a
//! worker runs as one, with small windows of its own inside.
//!
//! A node that exchanges messages with another simulator over a *channel* is bounded by that simulator's clock. This is
//! the same rule: something may come at the channel's horizon, so that is the node's next event, and by the
//! lookaheads it bounds the others. What differs is that such a node cannot always go up to its limit. A worker
//! that runs a unit with a pending node takes nothing more from it, goes on with other units and comes back; so a unit beside a channel makes many
//! rounds with the other simulator within one window, in which units far from the channel run once. When nothing has moved
//! for a while, the window is closed as if the unit had been run: where a window ends makes no difference.
//!
//! * [`plan`]: groups and lookaheads; [`unit`](unit::Unit): what one worker runs at a time
//! * `footprints`: where the memory of units lies, to be fetched while others run
//! * `partition`: a worker's own units and the messages for them; `agenda`: the times of their next events
//! * `pending`: units that wait for another simulator's clock, and the back-off of their workers
//! * `window`: opening and closing a window; `worker`: the loop of a thread; `idle`: its waiting; `cost`: whether to wake it pays
//! * `cells`: several processes that run one simulation together
//! * [`profile`]: the real time spent, and an estimate for more workers
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

/// A message to another node.
#[derive(Debug)]
pub struct Outgoing<M> {
    /// The receiver.
    pub to: HostId,
    /// When and in which order it arrives: at least the lookahead after it was sent.
    pub key: EventKey,
    /// The message that arrives.
    pub message: M,
}

/// Something that is simulated sequentially.
pub trait Node: Send {
    /// Messages that nodes send each other.
    type Message: Send;

    /// Takes a message that arrives at `key.time`, which lies ahead of everything that has run.
    fn deliver(&mut self, key: EventKey, message: Self::Message);
    /// Does everything that happens strictly before `limit`; what it sends goes to `out`.
    ///
    /// A node that something outside of the simulation can send to knows up to where it has heard everything, the
    /// *horizon* of that channel. Where the horizon lies before the limit the node is *pending*: it does all that it can
    /// and returns, and its [`next_event`](Self::next_event) is the horizon at the latest, since something may come then. It
    /// is run again, also in the same window, until the horizon has moved on.
    fn run_until(&mut self, limit: SimTime, out: &mut Vec<Outgoing<Self::Message>>);
    /// When it will next do something without a further message; `None` if never.
    fn next_event(&self) -> Option<SimTime>;
    /// When it came to rest for good: it is not waited for any more. `None` while it is.
    fn finished_at(&self) -> Option<SimTime>;
    /// Looks after what somebody outside wants of it, see [`Verdict::Attend`]. Nothing that the
    /// simulation could see may come of that.
    fn attend(&mut self) {}
    /// Tells which memory it will read when it runs next; nothing depends on whether it does.
    fn footprint(&self, footprint: &mut Footprint) {
        let _ = footprint;
    }
}

/// Decision of the observer of [`Engine::run`] before each window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Run the next window.
    Continue,
    /// Run the next window, and end it at this time at the latest. Runs in several cells end it where it would end anyway.
    Until(SimTime),
    /// Let every node look after what somebody outside wants of it, then ask again.
    Attend,
    /// Stop here.
    Stop,
}

/// The reason of a run's end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// The stop time was reached, or nothing will happen any more.
    StopTime,
    /// Every node has finished, and [`LINGER`] has passed since.
    AllFinished,
    /// The observer stopped it.
    Stopped,
}

/// Time that a simulation goes on after its last node has finished, so that what was sent last
/// arrives and connections are closed. No node ever runs further ahead of another than this, since
/// the other's end may be the end of all.
pub const LINGER: SimDuration = SimDuration::from_secs(1);

/// Options of running a simulation; nothing of them changes what happens.
#[derive(Clone, Copy, Default)]
pub struct Options<'a> {
    /// Threads that run nodes, the calling one included; at least one.
    pub workers: usize,
    /// True if a worker with nothing left to do takes over nodes of others.
    pub stealing: bool,
    /// True if each worker has a core to itself, so that it may spin for a moment before it sleeps.
    pub spinning: bool,
    /// Workers, from the first on, that run units that wait for clocks outside; 0: all of them. Where processors are short,
    /// fewer of them leave more to what they wait for.
    pub waiters: usize,
    /// True if those workers sleep rather than spin, since what they wait for needs every processor.
    pub sleeping: bool,
    /// Called first on each worker's thread, with its number.
    pub on_start: Option<&'a (dyn Fn(usize) + Sync)>,
    /// Where workers say what they are doing, for who looks on.
    pub watched: Option<&'a Board>,
    /// CPU time of the calling thread in nanoseconds, by which the engine samples what it costs to run nodes: where that is much, other
    /// workers are woken for few of them. Without it, a run is taken to cost a microsecond.
    pub clock: Option<&'a (dyn Fn() -> u64 + Sync)>,
    /// True if all runs are timed by that clock, for a [`Profile`](profile::Profile).
    pub profiled: bool,
    /// With it, a node's memory is fetched while the one before it runs.
    pub fetch: Option<Fetch>,
}

/// The nodes of one simulation.
pub struct Engine<N: Node> {
    units: Vec<Mutex<Unit<N>>>,
    plan: Plan,
    committed: SimTime,
    profile: Option<Profile>,
}

impl<N: Node> Engine<N> {
    /// An engine over `nodes`, whose index is their [`HostId`]; `plan` has each of them once.
    pub fn new(nodes: Vec<N>, plan: Plan) -> Engine<N> {
        assert_eq!(nodes.len(), plan.node_count(), "the plan is for other nodes");
        Engine::of_cell(nodes.into_iter().enumerate().map(|(n, node)| (HostId(n as u32), node)), plan)
    }

    /// An engine over the nodes of one [`Cell`]: whole groups of them.
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

    /// Runs everything before `stop`. `observe` is called before each window, by one worker at a time,
    /// with the time before which everything has happened: that of the next event.
    ///
    /// # Panics
    /// If a node does, with its panic: all workers end first.
    pub fn run(
        &mut self,
        stop: SimTime,
        options: &Options<'_>,
        observe: impl Fn(SimTime) -> Verdict + Sync,
    ) -> Ending {
        self.run_in(None, stop, options, observe)
    }

    /// The same, as one cell of several if there is one. If the others have gone, the run has been stopped.
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

    /// Everything strictly before this time has happened.
    pub fn committed(&self) -> SimTime {
        self.committed
    }
    /// Where the time of the last run went, if it was profiled.
    pub fn profile(&self) -> Option<&Profile> {
        self.profile.as_ref()
    }
    /// The nodes in the order of their ids, to collect their results.
    pub fn into_nodes(self) -> Vec<(HostId, N)> {
        let units = self.units.into_iter().map(|unit| unit.into_inner().unwrap_or_else(|e| e.into_inner()));
        let mut nodes: Vec<(HostId, N)> = units.flat_map(Unit::into_members).collect();
        nodes.sort_by_key(|(id, _)| *id);
        nodes
    }
}
