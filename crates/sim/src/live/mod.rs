//! Live view: pauses a run and inspects its hosts and devices while it proceeds.
//!
//! Both take place between two windows, when the engine calls its observer. A run is paused while its
//! observer does not return. To stop at a given time the observer shortens windows; since nodes behave the
//! same wherever windows end, no simulated result depends on it. Nodes are inspected while they attend to
//! debuggers ([`belljar_engine::Verdict::Attend`]): each adds a [`NodeView`] to the requested [`Picture`],
//! without side effects.
//!
//! The run calls [`Live::pass`]; all other methods are for viewers, from any thread.

mod tables;

pub use tables::{ROUTE_COLUMNS, Rows, Table, add_routes};

use crate::accounts::NodeDrops;
use crate::device::DeviceNode;
use crate::node::HostNode;
use belljar_base::{HostId, Map, SimDuration, SimTime};
use belljar_engine::Verdict;
use belljar_kernel::ProcessReport;
use belljar_net::Counters;
use serde::Serialize;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Interval at which a paused run checks for its end and for debuggers.
const PATIENCE: Duration = Duration::from_millis(100);
/// Time limit for a picture, after which a viewer goes without it.
const LOOK: Duration = Duration::from_secs(2);
/// Longest window of a paused run in which added programs do something.
pub(crate) const BUSY_STEP: SimDuration = SimDuration::from_millis(1);

/// Goal of a run: the point up to which it proceeds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Goal {
    /// Run to the end.
    End,
    /// Pause before the next window.
    Here,
    /// Pause when all events before this time have been processed.
    Before(SimTime),
    /// Pause after the next time at which an event occurs.
    Instant,
    /// End the run before the next window.
    Finish,
}

/// Progress of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Position {
    /// Time before which all events have been processed; the time of the next event.
    pub committed: SimTime,
    /// True while the run is paused.
    pub is_paused: bool,
    /// True if the run has ended.
    pub is_over: bool,
}

/// Selection of the nodes whose tables are part of a picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TablesOf {
    /// No node.
    Nobody,
    /// Single node.
    One(HostId),
    /// All nodes.
    All,
}

impl TablesOf {
    fn has(self, id: HostId) -> bool {
        self == TablesOf::All || self == TablesOf::One(id)
    }
}

/// Picture of all hosts and devices at one time.
#[derive(Clone, Debug, Default)]
pub struct Picture {
    /// Time before which all events have been processed.
    pub at: SimTime,
    /// Views of the nodes, in the order of their ids.
    pub nodes: Vec<NodeView>,
}

/// View of a host or device.
#[derive(Clone, Debug, Serialize)]
pub struct NodeView {
    /// Id of the node.
    #[serde(skip)]
    pub id: HostId,
    /// Counters specific to hosts.
    pub host: Option<HostView>,
    /// Packets that the node and its outgoing links have dropped.
    pub dropped: u64,
    /// Outgoing directions of the node's links, in the order of its interfaces.
    pub links: Vec<LinkView>,
    /// Warnings with their counts.
    #[serde(skip)]
    pub warnings: Map<String, u64>,
    /// Tables of the node, if requested.
    pub tables: Vec<Table>,
}

/// Counters of a host since its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct HostView {
    /// Running programs of the experiment.
    pub running: u64,
    /// Programs of the experiment that have ended or could not start.
    pub ended: u64,
    /// TCP connections that are not closed.
    pub connections: u64,
    /// System calls.
    pub syscalls: u64,
    /// Packets received.
    pub packets_in: u64,
    /// Bytes received.
    pub bytes_in: u64,
    /// Packets sent.
    pub packets_out: u64,
    /// Bytes sent.
    pub bytes_out: u64,
    /// Packets lost at the host and on its outgoing paths and links.
    pub dropped: u64,
    /// Packets queued for sending.
    pub queued: u64,
}

/// Counters of one direction of a link since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct LinkView {
    /// Frames sent.
    pub frames: u64,
    /// Bytes sent.
    pub bytes: u64,
    /// Frames lost in the queue and on the link.
    pub dropped: u64,
    /// Frames queued.
    pub queued: u64,
}

/// Live view of a run. See the [module](self).
#[derive(Debug)]
pub struct Live {
    state: Mutex<State>,
    changed: Condvar,
    /// Lock that admits one viewer's request at a time.
    asking: Mutex<()>,
}

#[derive(Debug)]
struct State {
    goal: Goal,
    position: Position,
    /// Latest end of the last window, if it had a limit: no event has occurred from there to the next event.
    bound: Option<SimTime>,
    /// Requested picture that has not been started.
    wanted: Option<TablesOf>,
    /// Picture being taken: requested tables, and views added so far.
    taking: Option<(TablesOf, Vec<NodeView>)>,
    /// Last picture, with the selection of its tables.
    taken: Option<(TablesOf, Picture)>,
    notes: Vec<String>,
}

impl Live {
    /// Creates the live view of a run with this goal.
    pub fn new(goal: Goal) -> Arc<Live> {
        let state = State {
            goal,
            position: Position::default(),
            bound: None,
            wanted: None,
            taking: None,
            taken: None,
            notes: Vec::new(),
        };
        Arc::new(Live { state: Mutex::new(state), changed: Condvar::new(), asking: Mutex::new(()) })
    }

    /// Creates the live view of a run that is paused at its beginning.
    pub(crate) fn standing() -> Arc<Live> {
        let live = Live::new(Goal::Here);
        live.state().bound = Some(SimTime::ZERO);
        live
    }

    /// Sets the goal of the run.
    pub fn set_goal(&self, goal: Goal) {
        self.state().goal = goal;
        self.changed.notify_all();
    }

    /// Returns progress and goal of the run.
    pub fn position(&self) -> (Position, Goal) {
        let state = self.state();
        (state.position, state.goal)
    }

    /// Adds a note about the run for viewers.
    pub fn note(&self, text: &str) {
        self.state().notes.push(text.to_owned());
    }

    /// Returns the notes so far.
    pub fn notes(&self) -> Vec<String> {
        self.state().notes.clone()
    }

    /// Reports the end of the run.
    pub fn end(&self) {
        self.state().position.is_over = true;
        self.changed.notify_all();
    }

    /// Takes a picture of all nodes after the current window; `None` if this exceeds the time limit, or the
    /// run has ended.
    pub fn look(&self, tables: TablesOf) -> Option<Picture> {
        let _one = self.asking.lock().unwrap_or_else(PoisonError::into_inner);
        let mut state = self.state();
        (state.wanted, state.taken) = (Some(tables), None);
        self.changed.notify_all();
        let (mut state, _) = self
            .changed
            .wait_timeout_while(state, LOOK, |state| {
                // A late picture may belong to another viewer's request.
                !state.position.is_over && state.taken.as_ref().is_none_or(|(of, _)| *of != tables)
            })
            .unwrap_or_else(PoisonError::into_inner);
        state.wanted = None;
        state.taken.take().filter(|(of, _)| *of == tables).map(|(_, picture)| picture)
    }

    /// Waits until the run has reached its goal and is paused, or has ended.
    pub(crate) fn wait_until_paused(&self) {
        let mut state = self.state();
        loop {
            let Position { committed, is_paused, is_over } = state.position;
            let is_there = !matches!(state.goal, Goal::Before(at) if committed < at);
            if is_over || is_paused && is_there {
                return;
            }
            state = self.changed.wait_timeout(state, PATIENCE).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Returns the position of the run once it is paused or has ended, or after a moment.
    pub(crate) fn settled(&self) -> Position {
        let (state, _) = self
            .changed
            .wait_timeout_while(self.state(), 2 * PATIENCE, |state| {
                !state.position.is_paused && !state.position.is_over
            })
            .unwrap_or_else(PoisonError::into_inner);
        state.position
    }

    /// Wakes a paused run, which looks if it is called.
    pub(crate) fn wake(&self) {
        self.changed.notify_all();
    }

    /// Decides how a run whose events before `committed` have been processed proceeds. Blocks while the run
    /// is paused, until `is_called` returns true because the run must attend to something else. A paused run goes on
    /// by small steps while `is_busy` returns true.
    pub(crate) fn pass(
        &self,
        committed: SimTime,
        is_called: impl Fn() -> bool,
        is_busy: impl Fn() -> bool,
    ) -> Verdict {
        let mut state = self.state();
        // No event occurs between the goal and the next event, nor after the end of the last window.
        let bound = state.bound;
        state.position.committed = match (state.goal, bound) {
            (Goal::Before(at), _) => committed.min(at.max(state.position.committed)),
            (_, Some(bound)) => committed.min(bound.max(state.position.committed)),
            _ => committed,
        };
        if let Some((tables, mut nodes)) = state.taking.take() {
            nodes.sort_by_key(|node| node.id);
            state.taken = Some((tables, Picture { at: state.position.committed, nodes }));
            self.changed.notify_all();
        }
        loop {
            if let Some(tables) = state.wanted.take() {
                state.taking = Some((tables, Vec::new()));
                return Verdict::Attend;
            }
            if let Goal::Before(at) = state.goal {
                // A goal that has been set meanwhile, and is reached before the next event.
                state.position.committed = committed.min(at.max(state.position.committed));
            }
            let verdict = match state.goal {
                Goal::End if is_busy() => Some(Verdict::Until(committed + BUSY_STEP)),
                Goal::End => Some(Verdict::Continue),
                Goal::Before(at) if committed < at && is_busy() => {
                    Some(Verdict::Until(at.min(committed + BUSY_STEP)))
                }
                Goal::Before(at) if committed < at => Some(Verdict::Until(at)),
                Goal::Instant => {
                    state.goal = Goal::Here;
                    Some(Verdict::Until(committed + SimDuration::from_picos(1)))
                }
                Goal::Finish => Some(Verdict::Stop),
                Goal::Here | Goal::Before(_) if is_busy() => {
                    // The time that the run was to reach is over.
                    state.goal = Goal::Here;
                    Some(Verdict::Until(committed + BUSY_STEP))
                }
                Goal::Here | Goal::Before(_) => None,
            };
            if std::mem::replace(&mut state.position.is_paused, verdict.is_none()) != verdict.is_none() {
                self.changed.notify_all();
            }
            if let Some(verdict) = verdict {
                state.bound = match verdict {
                    Verdict::Until(at) if is_busy() || matches!(state.goal, Goal::Before(_)) => Some(at),
                    _ => None,
                };
                return verdict;
            }
            // The observer is called again after the run has attended.
            if is_called() {
                return Verdict::Continue;
            }
            state = self.changed.wait_timeout(state, PATIENCE).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Adds the view of a node to the picture being taken, if any.
    fn add(&self, view: impl FnOnce(TablesOf) -> NodeView) {
        // The engine attends to the nodes one by one.
        let tables = self.state().taking.as_ref().map(|(tables, _)| *tables);
        if let Some(tables) = tables {
            let view = view(tables);
            if let Some((_, nodes)) = &mut self.state().taking {
                nodes.push(view);
            }
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl HostNode {
    /// Adds this host to the picture.
    pub(crate) fn be_looked_at(&self, live: &Live) {
        let drops = NodeDrops::of_host(self);
        let dropped = drops.total();
        live.add(|tables| NodeView {
            id: self.id(),
            host: Some(self.view(dropped)),
            dropped,
            links: self.link_views(&drops),
            warnings: self.host.warnings().clone(),
            tables: if tables.has(self.id()) { tables::of_host(self) } else { Vec::new() },
        });
    }

    fn view(&self, dropped: u64) -> HostView {
        let (stack, linux) = (self.host.stack(), self.host.linux());
        let counters = stack.interface_counters();
        let is_end = |report: &&ProcessReport| !matches!(report, ProcessReport::Started { .. });
        HostView {
            running: linux.map_or(0, |linux| linux.running_specs().len()) as u64,
            ended: self.reports.iter().filter(is_end).count() as u64,
            connections: stack.tcp_samples().len() as u64,
            syscalls: linux.map_or(0, |linux| linux.call_counts().values().sum()),
            packets_in: counters.packets_in,
            bytes_in: counters.bytes_in,
            packets_out: counters.packets_out,
            bytes_out: counters.bytes_out,
            dropped,
            queued: stack.egress_queue_len() as u64,
        }
    }

    fn link_views(&self, drops: &NodeDrops) -> Vec<LinkView> {
        let stack = self.host.stack();
        let view = |(port, drops): (usize, _)| {
            let nic = &stack.links[port].nic;
            link_view(nic.counters(), drops, nic.egress_queue_len())
        };
        drops.by_direction.iter().enumerate().map(view).collect()
    }
}

impl DeviceNode {
    /// Adds this device to the picture.
    pub(crate) fn be_looked_at(&self, live: &Live) {
        let drops = NodeDrops::of_device(self);
        live.add(|tables| NodeView {
            id: self.id(),
            host: None,
            dropped: drops.total(),
            links: self.link_views(&drops),
            warnings: Map::new(),
            tables: if tables.has(self.id()) { self.tables() } else { Vec::new() },
        });
    }
}

/// View of a direction of a link, with its drops by reason. `queued` frames wait in its queue.
pub(crate) fn link_view(counters: &Counters, drops: &Map<&'static str, u64>, queued: usize) -> LinkView {
    LinkView {
        frames: counters.packets_out,
        bytes: counters.bytes_out,
        dropped: drops.values().sum(),
        queued: queued as u64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> SimTime {
        SimTime::from_nanos(ms * 1_000_000)
    }

    #[test]
    fn a_run_goes_as_far_as_it_is_to() {
        let live = Live::new(Goal::Before(ms(5)));
        // A paused run returns instead of blocking, because `is_called` returns true.
        let pass = |at| live.pass(at, || true, || false);
        assert_eq!(pass(ms(1)), Verdict::Until(ms(5)));
        assert_eq!(pass(ms(7)), Verdict::Continue);
        let (position, _) = live.position();
        assert_eq!((position.committed, position.is_paused), (ms(5), true), "nothing happens until 7 ms");
        live.set_goal(Goal::Instant);
        assert_eq!(pass(ms(7)), Verdict::Until(ms(7) + SimDuration::from_picos(1)));
        assert!(!live.position().0.is_paused);
        assert_eq!(pass(ms(8)), Verdict::Continue);
        assert_eq!(
            live.position(),
            (Position { committed: ms(8), is_paused: true, is_over: false }, Goal::Here)
        );
        live.set_goal(Goal::End);
        assert_eq!(pass(ms(9)), Verdict::Continue);
        assert!(!live.position().0.is_paused);
    }

    #[test]
    fn a_paused_run_goes_on_by_small_steps_while_programs_are_busy() {
        let live = Live::standing();
        let step = |at: SimTime| at + BUSY_STEP;
        // The next event is far away, and the run has not begun.
        assert_eq!(live.pass(ms(900), || true, || false), Verdict::Continue);
        assert_eq!(live.position().0, Position { committed: ms(0), is_paused: true, is_over: false });
        assert_eq!(live.pass(ms(3), || true, || true), Verdict::Until(step(ms(3))));
        assert!(!live.position().0.is_paused);
        live.pass(ms(900), || true, || false);
        let position = live.position().0;
        assert_eq!((position.committed, position.is_paused), (step(ms(3)), true), "not at the next event");
        live.set_goal(Goal::Before(ms(500)));
        assert_eq!(live.pass(ms(6), || true, || true), Verdict::Until(step(ms(6))), "input does not wait");
        assert_eq!(live.pass(ms(8), || true, || false), Verdict::Until(ms(500)));
        live.pass(ms(900), || true, || false);
        assert_eq!(live.position().0.committed, ms(500));
        live.set_goal(Goal::Finish);
        assert_eq!(live.pass(ms(900), || true, || false), Verdict::Stop);
    }

    #[test]
    fn a_look_is_taken_between_two_windows_and_none_after_the_end() {
        let live = Live::new(Goal::Here);
        let looking = {
            let live = live.clone();
            std::thread::spawn(move || live.look(TablesOf::One(HostId(1))))
        };
        while live.pass(ms(3), || true, || false) != Verdict::Attend {}
        for id in [HostId(1), HostId(0)] {
            live.add(|tables| {
                let name = format!("{}", tables.has(id));
                let tables = vec![Table { name, csv: String::new() }];
                NodeView { id, host: None, dropped: 0, links: Vec::new(), warnings: Map::new(), tables }
            });
        }
        live.pass(ms(3), || true, || false);
        let picture = looking.join().unwrap().unwrap();
        assert_eq!(picture.at, ms(3));
        assert_eq!(picture.nodes.iter().map(|node| node.id).collect::<Vec<_>>(), [HostId(0), HostId(1)]);
        assert_eq!((&*picture.nodes[0].tables[0].name, &*picture.nodes[1].tables[0].name), ("false", "true"));
        live.end();
        assert!(live.look(TablesOf::All).is_none());
    }
}
