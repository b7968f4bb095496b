//! The schedule of a run: section `events` as changes of the network, of hosts and of devices, known before the run
//! begins. The changes of one time happen in the order of the file, and before anything else of that time.

use crate::network::NetChange;
use crate::occurrences::{self, Occurrence};
use crate::routing::{self, PlannedRoute, RoutingState};
use belljar_base::{HostId, Map, Set, SimTime};
use belljar_config::topology::{LinkEnd, P4Setup};
use belljar_config::{Action, Experiment, LineChange, PathChange, ProcessRef, Target};
use belljar_net::{EdgeState, Graph, NicChange, NodeIndex};
use std::net::Ipv6Addr;
use std::sync::Arc;

/// All changes of a run.
#[derive(Default)]
pub struct Schedule {
    /// Of the network, in order.
    pub network: Vec<(SimTime, NetChange)>,
    /// Of each host, in order.
    pub hosts: Vec<Vec<(SimTime, HostChange)>>,
    /// Of each switch and router, in order.
    pub devices: Vec<Vec<(SimTime, DeviceChange)>>,
    /// The routes and blocked ports at the start.
    pub first: RoutingState,
    /// The states that the graph has after the first.
    pub graphs: Vec<Arc<Graph>>,
}

/// A change of one host.
#[derive(Clone, Debug, PartialEq)]
pub enum HostChange {
    /// Stops at once; with its files or without.
    Crash {
        /// Files that programs have written are gone.
        lose_files: bool,
    },
    /// Starts again.
    Restart,
    /// The name server answers it no longer, or again.
    NameServer {
        /// It is gone.
        down: bool,
    },
    /// Starts a process of its list.
    Start(usize),
    /// Starts a model of its list.
    StartModel(u32),
    /// Stops a model of its list.
    StopModel(u32),
    /// Sends a signal to a process of its list.
    Signal(usize, i32),
    /// The wall clock jumps by so many nanoseconds.
    Step(i64),
    /// The clock gains so many parts per billion.
    Drift(i64),
    /// Other bandwidths; `None` leaves one as it is.
    Bandwidth {
        /// Out of the host.
        up: Option<Option<u64>>,
        /// Into the host.
        down: Option<Option<u64>>,
    },
    /// A change at one of its links.
    Link(LinkChange),
}

/// A change of one device.
#[derive(Clone, Debug, PartialEq)]
pub enum DeviceChange {
    /// A change at one of its links.
    Link(LinkChange),
    /// A P4 switch carries these out.
    P4(Arc<[P4Setup]>),
}

/// A change at a node that concerns its links, by their numbers there.
#[derive(Clone, Debug, PartialEq)]
pub enum LinkChange {
    /// The carrier of a link comes (true) or goes.
    Carrier(usize, bool),
    /// Other sending properties of an interface.
    Nic(usize, NicChange),
    /// Other routes.
    Routes(Vec<PlannedRoute>),
    /// Other IPv6 routes.
    Routes6(Vec<PlannedRoute<Ipv6Addr>>),
    /// Other ports that are not used.
    Blocked(Vec<usize>),
}

impl Schedule {
    /// Works out what an experiment says.
    pub fn new(experiment: &Experiment) -> Schedule {
        let occurrences = occurrences::all(experiment);
        let mut schedule = Schedule {
            hosts: vec![Vec::new(); experiment.hosts.len()],
            devices: vec![Vec::new(); experiment.node_count() - experiment.hosts.len()],
            first: routing::state(experiment, &Set::new()),
            ..Schedule::default()
        };
        let mut links = LinkStates { down: Set::new(), lines: Map::new(), now: schedule.first.clone() };
        schedule.limit_rates(experiment);
        let mut edges = Map::new();
        for occurrence in occurrences.iter().filter(|o| o.at < experiment.general.stop_time) {
            schedule.add(experiment, occurrence, &mut edges);
            schedule.change_links(experiment, occurrence, &mut links);
        }
        // What is set at the end of the bootstrap phase comes in its place.
        schedule.hosts.iter_mut().for_each(|changes| changes.sort_by_key(|(at, _)| *at));
        schedule.devices.iter_mut().for_each(|changes| changes.sort_by_key(|(at, _)| *at));
        schedule
    }

    fn add(
        &mut self,
        experiment: &Experiment,
        occurrence: &Occurrence,
        edges: &mut Map<(NodeIndex, NodeIndex), EdgeState>,
    ) {
        let at = occurrence.at;
        let target = match &occurrence.action {
            Action::LinkDown(target)
            | Action::LinkUp(target)
            | Action::Change(target, _)
            | Action::Reset(target) => Some(target),
            _ => None,
        };
        if let Some(Target::Edge(from, to)) = target {
            let graph = &experiment.network.graph;
            let node = |id: u32| graph.node_by_id(id).expect("loading has checked the edge");
            let (from, to) = (node(*from), node(*to));
            // One entry, whichever way round the file names the ends.
            let ends = if graph.is_directed() { (from, to) } else { (from.min(to), from.max(to)) };
            change_edge(edges.entry(ends).or_default(), &occurrence.action);
            let changed = Arc::new(graph.with_edges(edges));
            self.graphs.push(changed);
            return self.network.push((at, NetChange::Graph(self.graphs.len())));
        }
        let network = match &occurrence.action {
            Action::LinkDown(target) => NetChange::Down(target.clone()),
            Action::LinkUp(target) => NetChange::Up(target.clone()),
            Action::Change(target, change) => NetChange::Set(target.clone(), change.clone()),
            Action::Reset(target) => NetChange::Reset(target.clone()),
            Action::Partition(_) if occurrence.ends => NetChange::Heal(Some(vec![occurrence.event])),
            Action::Partition(groups) => NetChange::Split(occurrence.event, groups.clone()),
            Action::Heal(None) => NetChange::Heal(None),
            Action::Heal(Some(name)) => {
                let named =
                    experiment.events.iter().enumerate().filter(|(_, e)| e.name.as_ref() == Some(name));
                NetChange::Heal(Some(named.map(|(number, _)| number as u32).collect()))
            }
            Action::P4 { switches, setup } => {
                for switch in switches {
                    let changes = &mut self.devices[switch.index() - self.hosts.len()];
                    changes.push((at, DeviceChange::P4(setup.clone())));
                }
                return;
            }
            _ => return self.add_to_hosts(experiment, occurrence),
        };
        self.network.push((at, network));
    }

    /// Adds a change at a node.
    fn at_node(&mut self, node: HostId, at: SimTime, change: LinkChange) {
        match self.hosts.get_mut(node.index()) {
            Some(changes) => changes.push((at, HostChange::Link(change))),
            None => self.devices[node.index() - self.hosts.len()].push((at, DeviceChange::Link(change))),
        }
    }

    /// Until the end of the bootstrap phase links are as fast as can be.
    fn limit_rates(&mut self, experiment: &Experiment) {
        let at = experiment.general.bootstrap_end_time;
        if at == SimTime::ZERO {
            return;
        }
        for end in experiment.topology.links.iter().flat_map(|link| &link.ends) {
            self.at_node(end.node, at, LinkChange::Nic(end.port, NicChange::Rate(end.line.rate)));
            if let Some(bucket) = end.line.token_bucket {
                let change = NicChange::TokenBucket(Some(bucket));
                self.at_node(end.node, at, LinkChange::Nic(end.port, change));
            }
        }
    }

    /// Adds the changes of sending at an end of a link.
    fn change_nic(&mut self, end: &LinkEnd, at: SimTime, line: &LineChange) {
        let changes = [
            line.rate.map(NicChange::Rate),
            line.queue.clone().map(NicChange::Queue),
            line.token_bucket.map(NicChange::TokenBucket),
        ];
        for change in changes.into_iter().flatten() {
            self.at_node(end.node, at, LinkChange::Nic(end.port, change));
        }
    }

    /// Adds the changes at the ends of links, and the changed routes that follow from them elsewhere.
    fn change_links(&mut self, experiment: &Experiment, occurrence: &Occurrence, states: &mut LinkStates) {
        let at = occurrence.at;
        let (Action::LinkDown(Target::Links { links, from })
        | Action::LinkUp(Target::Links { links, from })
        | Action::Change(Target::Links { links, from }, _)
        | Action::Reset(Target::Links { links, from })) = &occurrence.action
        else {
            return;
        };
        for number in links {
            let link = &experiment.topology.links[*number];
            let meant = |end: &&LinkEnd| from.is_none_or(|from| from == end.node);
            match &occurrence.action {
                Action::LinkDown(_) | Action::LinkUp(_) if from.is_none() => {
                    let up = matches!(occurrence.action, Action::LinkUp(_));
                    let changed = if up { states.down.remove(number) } else { states.down.insert(*number) };
                    for end in link.ends.iter().filter(|_| changed) {
                        self.at_node(end.node, at, LinkChange::Carrier(end.port, up));
                    }
                }
                Action::Change(_, PathChange { line, .. }) => {
                    for end in link.ends.iter().filter(meant) {
                        states.lines.entry((*number, end.port, end.node)).or_default().merge(line);
                        self.change_nic(end, at, line);
                    }
                }
                Action::Reset(_) => {
                    for end in link.ends.iter().filter(meant) {
                        let changed = states.lines.remove(&(*number, end.port, end.node)).unwrap_or_default();
                        // Only what has been changed is set again: a token bucket that is set is full.
                        let usual = LineChange {
                            rate: changed.rate.map(|_| end.line.rate),
                            queue: changed.queue.map(|_| end.line.queue.clone()),
                            token_bucket: changed.token_bucket.map(|_| end.line.token_bucket),
                            ..LineChange::default()
                        };
                        self.change_nic(end, at, &usual);
                    }
                }
                _ => {}
            }
        }
        let after = routing::state(experiment, &states.down);
        for node in 0..experiment.node_count() {
            let id = HostId(node as u32);
            if after.routes[node] != states.now.routes[node] {
                self.at_node(id, at, LinkChange::Routes(after.routes[node].clone()));
            }
            if after.routes6[node] != states.now.routes6[node] {
                self.at_node(id, at, LinkChange::Routes6(after.routes6[node].clone()));
            }
            if after.blocked[node] != states.now.blocked[node] {
                self.at_node(id, at, LinkChange::Blocked(after.blocked[node].clone()));
            }
        }
        states.now = after;
    }

    fn add_to_hosts(&mut self, experiment: &Experiment, occurrence: &Occurrence) {
        let (Action::Bandwidth { hosts, .. }
        | Action::Crash { hosts, .. }
        | Action::Restart(hosts)
        | Action::NameServer { hosts, .. }
        | Action::Start(hosts, _)
        | Action::Stop(hosts, _)
        | Action::Signal(hosts, ..)
        | Action::Clock { hosts, .. }) = &occurrence.action
        else {
            return;
        };
        for (index, settings) in experiment.hosts.iter().enumerate() {
            if !hosts.may_hold(HostId(index as u32)) {
                continue;
            }
            let changes = &mut self.hosts[index];
            let mut add = |change| changes.push((occurrence.at, change));
            match &occurrence.action {
                Action::Crash { lose_files, .. } => add(HostChange::Crash { lose_files: *lose_files }),
                Action::Restart(_) => add(HostChange::Restart),
                Action::NameServer { down, .. } => add(HostChange::NameServer { down: *down }),
                Action::Start(_, process) => {
                    // What ends a stop concerns models alone.
                    if !occurrence.ends {
                        settings.processes_like(process).map(HostChange::Start).for_each(&mut add);
                    }
                    if let ProcessRef::Program(name) = process {
                        settings.models_called(name).map(|n| HostChange::StartModel(n as u32)).for_each(add);
                    }
                }
                Action::Stop(_, name) => {
                    settings.models_called(name).map(|n| HostChange::StopModel(n as u32)).for_each(add)
                }
                Action::Signal(_, process, signal) => {
                    let number = signal.number();
                    settings.processes_like(process).map(|n| HostChange::Signal(n, number)).for_each(add)
                }
                Action::Bandwidth { up, down, .. } if occurrence.ends => add(HostChange::Bandwidth {
                    up: up.map(|_| settings.bandwidth_up),
                    down: down.map(|_| settings.bandwidth_down),
                }),
                Action::Bandwidth { up, down, .. } => add(HostChange::Bandwidth { up: *up, down: *down }),
                Action::Clock { .. } if occurrence.ends => add(HostChange::Drift(settings.clock.drift_ppb)),
                Action::Clock { step_ns, drift_ppb, .. } => {
                    step_ns.map(HostChange::Step).into_iter().for_each(&mut add);
                    drift_ppb.map(HostChange::Drift).into_iter().for_each(&mut add);
                }
                _ => {}
            }
        }
    }
}

/// The state of the links while the schedule is worked out.
struct LinkStates {
    down: Set<usize>,
    /// Changes that events have made to directions, by link and the port where they begin.
    lines: Map<(usize, usize, HostId), LineChange>,
    now: RoutingState,
}

fn change_edge(state: &mut EdgeState, action: &Action) {
    match action {
        Action::LinkDown(_) => state.down = true,
        Action::LinkUp(_) => state.down = false,
        Action::Change(_, PathChange { latency, jitter, loss, .. }) => {
            state.latency = latency.or(state.latency);
            state.jitter = jitter.or(state.jitter);
            state.loss = loss.or(state.loss);
        }
        _ => *state = EdgeState { down: state.down, ..EdgeState::default() },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use belljar_config::PathContext;

    fn schedule(seed: u64, events: &str) -> Schedule {
        let text = format!(
            "general: {{ stop_time: 100, seed: {seed} }}\nnetwork: {{ graph: {{ type: 1_gbit_switch }} }}\n\
            hosts:\n  a: &h {{ network_node_id: 0, processes: [] }}\n  b: *h\n  c: *h\nevents:\n{events}"
        );
        let experiment = Experiment::parse_in("test.yaml", &text, &PathContext::default());
        Schedule::new(&experiment.unwrap_or_else(|e| panic!("{e}")))
    }
    fn times(schedule: &Schedule, host: usize) -> Vec<(u64, HostChange)> {
        let seconds = |at: SimTime| at.as_nanos() / 1_000_000_000;
        schedule.hosts[host].iter().map(|(at, change)| (seconds(*at), change.clone())).collect()
    }
    const CRASH: HostChange = HostChange::Crash { lose_files: false };

    #[test]
    fn what_lasts_is_undone_and_what_is_too_late_left_out() {
        let schedule =
            schedule(1, "- { every: 40 s, crash: b, for: 25 s }\n- { at: 65 s, clock: b, step: 1 s }\n");
        let step = HostChange::Step(1_000_000_000);
        let expected = [(40, CRASH), (65, HostChange::Restart), (65, step), (80, CRASH)];
        assert_eq!(times(&schedule, 1), expected);
        assert_eq!(times(&schedule, 0), []);
    }

    #[test]
    fn draws_follow_from_the_seed_and_the_name_alone() {
        let monkey =
            "- { every: 1 s, probability: 0.3, crash: { one_of: all }, for: 500 ms, name: monkey }\n";
        let all = |schedule: &Schedule| (0..3).map(|host| times(schedule, host)).collect::<Vec<_>>();
        let (first, again) = (all(&schedule(1, monkey)), all(&schedule(1, monkey)));
        assert_eq!(first, again);
        assert_ne!(first, all(&schedule(2, monkey)));
        let with_others = format!("- {{ every: 1 s, probability: 0.5, link_down: [a, b] }}\n{monkey}");
        assert_eq!(first, all(&schedule(1, &with_others)), "another event must not disturb it");
        let crashes = first.iter().flatten().filter(|(_, change)| *change == CRASH).count();
        assert!((15..45).contains(&crashes), "{crashes} of 99");
        assert!(first.iter().all(|host| host.len() > 4), "each host is drawn: {first:?}");
    }

    #[test]
    fn edges_keep_what_other_events_have_made_of_them() {
        let schedule = schedule(
            1,
            "- { at: 1 s, link_change: { edge: [0, 0] }, latency: 20 ms, for: 9 s }\n\
            - { at: 2 s, link_change: { edge: [0, 0] }, packet_loss: 0.5 }\n",
        );
        let at = |n: usize| {
            schedule.graphs[n].path(NodeIndex(0), NodeIndex(0)).map(|p| (p.latency.as_millis(), p.loss))
        };
        assert_eq!([at(0), at(1), at(2)], [Some((20, 0.0)), Some((20, 0.5)), Some((1, 0.0))]);
    }
}
