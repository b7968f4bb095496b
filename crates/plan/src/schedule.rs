//! Schedule of a run: the section `events` as changes of the network, of hosts and of devices, computed
//! before the run. Changes at the same time happen in the order of the file, and before all other events of
//! that time.

use crate::network::NetChange;
use crate::new_root::NewRoot;
use crate::occurrences::{self, Occurrence};
use crate::routing::{self, PlannedRoute, RoutingState};
use belljar_base::{HostId, Map, Set, SimTime};
use belljar_config::topology::{LinkEnd, P4Setup};
use belljar_config::{
    Action, CallFault, CpuShare, CrashFiles, DiskFault, Experiment, HostSet, ProcessRef, ResetEnds, Target,
};
use belljar_net::dns::DnsFault;
use belljar_net::link::{LinkOverrides, PathChange};
use belljar_net::{EdgeState, Graph, NicChange, NodeIndex};
use std::net::Ipv6Addr;
use std::sync::Arc;

/// All changes of a run.
#[derive(Default)]
pub struct Schedule {
    /// Changes of the network, in order.
    pub network: Vec<(SimTime, NetChange)>,
    /// Changes of each host, in order.
    pub hosts: Vec<Vec<(SimTime, HostChange)>>,
    /// Changes of each switch and router, in order.
    pub devices: Vec<Vec<(SimTime, DeviceChange)>>,
    /// Routes and blocked ports at the start.
    pub first: RoutingState,
    /// States of the graph after the initial one.
    pub graphs: Vec<Arc<Graph>>,
}

/// A change of one host.
#[derive(Clone, Debug, PartialEq)]
pub enum HostChange {
    /// Stops the host at once.
    Crash {
        /// Fate of the files written by programs.
        files: CrashFiles,
    },
    /// Starts the host again.
    Restart,
    /// Starts the host again, whether it runs or not, with another root.
    NewRoot(Box<NewRoot>),
    /// Lets the host stand still.
    Pause,
    /// Lets the host go on after a pause.
    Resume,
    /// Lets processes stand still.
    PauseProcess {
        /// Number of the event.
        event: u32,
        /// The processes.
        process: ProcessRef,
    },
    /// Lets the processes go on that an occurrence of an event has paused.
    ResumeEvent(u32),
    /// Lets paused processes go on.
    ResumeProcess(ProcessRef),
    /// Lets programs run for a share of the time only.
    Cpu {
        /// Number of the event.
        event: u32,
        /// The share.
        share: CpuShare,
    },
    /// Ends the share of an event.
    CpuHeal(u32),
    /// Lets the disk fail.
    DiskFault {
        /// Number of the event.
        event: u32,
        /// The fault.
        fault: Box<DiskFault>,
    },
    /// Ends the disk's fault of an event, or all of its faults.
    DiskHeal(Option<u32>),
    /// Resets the TCP connections with other hosts.
    ConnectionReset(HostSet),
    /// Changes results of system calls.
    CallFault {
        /// Number of the event.
        event: u32,
        /// The fault.
        fault: CallFault,
    },
    /// Ends the change of an event.
    CallHeal(u32),
    /// Limits the memory.
    Memory {
        /// Number of the event.
        event: u32,
        /// Limit in bytes.
        limit: u64,
    },
    /// Ends the limit of an event.
    MemoryHeal(u32),
    /// Makes the name server unavailable to the host, or available again.
    NameServer {
        /// True if the name server is unavailable.
        down: bool,
    },
    /// Gives the host wrong answers to its queries for names, or none.
    DnsFault {
        /// Number of the event.
        event: u32,
        /// The names and the answer.
        fault: DnsFault,
    },
    /// Ends the wrong answers of an event.
    DnsHeal(u32),
    /// Starts the process with this index.
    Start(usize),
    /// Starts the model with this index.
    StartModel(u32),
    /// Stops the model with this index.
    StopModel(u32),
    /// Sends a signal to the process with this index.
    Signal(usize, i32),
    /// Ends a process of the list, and starts another one once it has ended.
    Upgrade {
        /// Index of the process that ends.
        from: usize,
        /// Index of the process that starts.
        to: usize,
    },
    /// Kills a process that an upgrade is to end, if it has not ended.
    UpgradeEnd(usize),
    /// Kills processes of the host.
    Kill {
        /// Number of the event.
        event: u32,
        /// The processes.
        process: ProcessRef,
    },
    /// Starts the processes of the host's list again that an event has killed.
    Revive(u32),
    /// Steps the wall clock by this number of nanoseconds.
    Step(i64),
    /// Sets the clock's drift in parts per billion.
    Drift(i64),
    /// Changes bandwidths in bits per second; `None` leaves one unchanged, the inner `None` is unlimited.
    Bandwidth {
        /// Upstream bandwidth.
        up: Option<Option<u64>>,
        /// Downstream bandwidth.
        down: Option<Option<u64>>,
    },
    /// A change of one of its links.
    Link(LinkChange),
}

/// A change of one device.
#[derive(Clone, Debug, PartialEq)]
pub enum DeviceChange {
    /// A change of one of its links.
    Link(LinkChange),
    /// Applies runtime files and commands to a P4 switch.
    P4(Arc<[P4Setup]>),
}

/// A change at a node that affects its links, by their indices at the node.
#[derive(Clone, Debug, PartialEq)]
pub enum LinkChange {
    /// Sets the carrier state of a link: true for up.
    Carrier(usize, bool),
    /// Changes the sending properties of an interface.
    Nic(usize, NicChange),
    /// Replaces the routes.
    Routes(Vec<PlannedRoute>),
    /// Replaces the IPv6 routes.
    Routes6(Vec<PlannedRoute<Ipv6Addr>>),
    /// Replaces the set of blocked ports.
    Blocked(Vec<usize>),
}

impl Schedule {
    /// Changes at a host or device that affect its links, in order.
    pub fn of_links(&self, node: HostId) -> impl DoubleEndedIterator<Item = (SimTime, &LinkChange)> {
        let of_host = self.hosts.get(node.index()).into_iter().flatten();
        let of_host = of_host.filter_map(|(at, change)| match change {
            HostChange::Link(change) => Some((*at, change)),
            _ => None,
        });
        let device = node.index().checked_sub(self.hosts.len());
        let of_device = device.map(|number| &self.devices[number]).into_iter().flatten();
        let of_device = of_device.filter_map(|(at, change)| match change {
            DeviceChange::Link(change) => Some((*at, change)),
            DeviceChange::P4(_) => None,
        });
        of_host.chain(of_device)
    }

    /// Computes the schedule of an experiment.
    pub fn new(experiment: &Experiment) -> Schedule {
        let occurrences = occurrences::all(experiment);
        let mut schedule = Schedule {
            hosts: vec![Vec::new(); experiment.hosts.len()],
            devices: vec![Vec::new(); experiment.node_count() - experiment.hosts.len()],
            first: routing::state(experiment, &Set::new()),
            ..Schedule::default()
        };
        let mut links = LinkStates { down: Set::new(), lines: Map::new(), now: schedule.first.clone() };
        let bootstrap_end = experiment.general.bootstrap_end_time;
        let mut is_limited = bootstrap_end == SimTime::ZERO;
        let mut edges = Map::new();
        for occurrence in occurrences.iter().filter(|o| o.at < experiment.general.stop_time) {
            if !is_limited && occurrence.at >= bootstrap_end {
                schedule.limit_rates(experiment, &links);
                is_limited = true;
            }
            schedule.add(experiment, occurrence, &mut edges);
            schedule.change_links(experiment, occurrence, &mut links);
        }
        if !is_limited {
            schedule.limit_rates(experiment, &links);
        }
        // Changes at the end of the bootstrap period are moved to their position in time.
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
            // One entry regardless of the order of the ends in the file.
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
            Action::Bandwidth { hosts, .. }
            | Action::Crash { hosts, .. }
            | Action::Restart { hosts, .. }
            | Action::Pause(hosts)
            | Action::Resume(hosts)
            | Action::PauseProcess(hosts, _)
            | Action::ResumeProcess(hosts, _)
            | Action::Cpu { hosts, .. }
            | Action::DiskFault { hosts, .. }
            | Action::DiskHeal(hosts)
            | Action::CallFault { hosts, .. }
            | Action::Memory { hosts, .. }
            | Action::NameServer { hosts, .. }
            | Action::DnsAnswers { hosts, .. }
            | Action::Start(hosts, _)
            | Action::Stop(hosts, _)
            | Action::Signal(hosts, ..)
            | Action::Kill(hosts, _)
            | Action::Upgrade { hosts, .. }
            | Action::Clock { hosts, .. } => return self.add_to_hosts(experiment, occurrence, hosts),
            Action::ConnectionReset { between: [one, other], ends } => {
                let sides = [(one, other, ResetEnds::Second), (other, one, ResetEnds::First)];
                for (own, peers, _) in sides.into_iter().filter(|(.., without)| ends != without) {
                    self.reset_connections(at, own, peers);
                }
                return;
            }
            // The tracks of stations have it.
            Action::Move { .. } => return,
        };
        self.network.push((at, network));
    }

    /// Adds resets of the connections of hosts with others.
    fn reset_connections(&mut self, at: SimTime, hosts: &HostSet, peers: &HostSet) {
        let own =
            self.hosts.iter_mut().enumerate().filter(|(index, _)| hosts.may_hold(HostId(*index as u32)));
        own.for_each(|(_, changes)| changes.push((at, HostChange::ConnectionReset(peers.clone()))));
    }

    /// Adds a change at a node.
    fn at_node(&mut self, node: HostId, at: SimTime, change: LinkChange) {
        match self.hosts.get_mut(node.index()) {
            Some(changes) => changes.push((at, HostChange::Link(change))),
            None => self.devices[node.index() - self.hosts.len()].push((at, DeviceChange::Link(change))),
        }
    }

    /// Limits the rates of links from the end of the bootstrap period on, as the file and the events before it say;
    /// until then they are unlimited.
    fn limit_rates(&mut self, experiment: &Experiment, states: &LinkStates) {
        let at = experiment.general.bootstrap_end_time;
        for (number, link) in experiment.topology.links.iter().enumerate() {
            for end in &link.ends {
                let changed = states.lines.get(&(number, end.port, end.node));
                let rate = changed.and_then(|line| line.rate).unwrap_or(end.properties.rate);
                self.at_node(end.node, at, LinkChange::Nic(end.port, NicChange::Rate(rate)));
                let bucket =
                    changed.and_then(|line| line.token_bucket).unwrap_or(end.properties.token_bucket);
                if bucket.is_some() {
                    self.at_node(end.node, at, LinkChange::Nic(end.port, NicChange::TokenBucket(bucket)));
                }
            }
        }
    }

    /// Adds changes of the sending properties at an end of a link. Rates do not limit before `limited_from`.
    fn change_nic(&mut self, end: &LinkEnd, at: SimTime, limited_from: SimTime, change: &LinkOverrides) {
        let is_limited = at >= limited_from;
        let changes = [
            change.rate.filter(|_| is_limited).map(NicChange::Rate),
            change.queue.clone().map(NicChange::Queue),
            change.token_bucket.filter(|_| is_limited).map(NicChange::TokenBucket),
        ];
        for change in changes.into_iter().flatten() {
            self.at_node(end.node, at, LinkChange::Nic(end.port, change));
        }
    }

    /// Adds changes at the ends of links, and the resulting changes of routes at other nodes.
    fn change_links(&mut self, experiment: &Experiment, occurrence: &Occurrence, states: &mut LinkStates) {
        let (at, limited_from) = (occurrence.at, experiment.general.bootstrap_end_time);
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
                Action::Change(_, PathChange { link: change, .. }) => {
                    for end in link.ends.iter().filter(meant) {
                        states.lines.entry((*number, end.port, end.node)).or_default().merge(change);
                        self.change_nic(end, at, limited_from, change);
                    }
                }
                Action::Reset(_) => {
                    for end in link.ends.iter().filter(meant) {
                        let changed = states.lines.remove(&(*number, end.port, end.node)).unwrap_or_default();
                        // Only changed properties are restored: setting a token bucket fills it.
                        let usual = LinkOverrides {
                            rate: changed.rate.map(|_| end.properties.rate),
                            queue: changed.queue.map(|_| end.properties.queue.clone()),
                            token_bucket: changed.token_bucket.map(|_| end.properties.token_bucket),
                            ..LinkOverrides::default()
                        };
                        self.change_nic(end, at, limited_from, &usual);
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

    fn add_to_hosts(&mut self, experiment: &Experiment, occurrence: &Occurrence, hosts: &HostSet) {
        for (index, settings) in experiment.hosts.iter().enumerate() {
            if !hosts.may_hold(HostId(index as u32)) {
                continue;
            }
            let changes = &mut self.hosts[index];
            let mut add = |change| changes.push((occurrence.at, change));
            match &occurrence.action {
                Action::Crash { files, .. } => add(HostChange::Crash { files: *files }),
                Action::Restart { root: None, .. } => add(HostChange::Restart),
                Action::Restart { root: Some(new), .. } => {
                    let id = HostId(index as u32);
                    add(HostChange::NewRoot(NewRoot::of(settings, id, new, occurrence.ends)));
                }
                Action::Pause(_) => add(HostChange::Pause),
                Action::Resume(_) => add(HostChange::Resume),
                Action::PauseProcess(_, process) => {
                    add(HostChange::PauseProcess { event: occurrence.event, process: process.clone() });
                }
                Action::ResumeProcess(..) if occurrence.ends => {
                    add(HostChange::ResumeEvent(occurrence.event));
                }
                Action::ResumeProcess(_, process) => add(HostChange::ResumeProcess(process.clone())),
                Action::Cpu { .. } if occurrence.ends => add(HostChange::CpuHeal(occurrence.event)),
                Action::Cpu { share, .. } => {
                    add(HostChange::Cpu { event: occurrence.event, share: *share });
                }
                Action::DiskFault { .. } if occurrence.ends => {
                    add(HostChange::DiskHeal(Some(occurrence.event)));
                }
                Action::DiskFault { fault, .. } => {
                    add(HostChange::DiskFault { event: occurrence.event, fault: fault.clone() });
                }
                Action::DiskHeal(_) => add(HostChange::DiskHeal(None)),
                Action::CallFault { .. } if occurrence.ends => add(HostChange::CallHeal(occurrence.event)),
                Action::CallFault { fault, .. } => {
                    add(HostChange::CallFault { event: occurrence.event, fault: fault.clone() });
                }
                Action::Memory { .. } if occurrence.ends => add(HostChange::MemoryHeal(occurrence.event)),
                Action::Memory { limit, .. } => {
                    add(HostChange::Memory { event: occurrence.event, limit: *limit });
                }
                Action::NameServer { down, .. } => add(HostChange::NameServer { down: *down }),
                Action::DnsAnswers { .. } if occurrence.ends => add(HostChange::DnsHeal(occurrence.event)),
                Action::DnsAnswers { fault, .. } => {
                    add(HostChange::DnsFault { event: occurrence.event, fault: fault.clone() });
                }
                Action::Start(_, process) => {
                    // The end of a stop affects models only.
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
                Action::Upgrade { process, to, grace, .. } => {
                    let ends = settings.processes_like(process).zip(settings.processes_like(to));
                    for (from, to) in ends {
                        changes.push((occurrence.at, HostChange::Upgrade { from, to }));
                        changes.push((occurrence.at + *grace, HostChange::UpgradeEnd(from)));
                    }
                }
                Action::Kill(..) if occurrence.ends => add(HostChange::Revive(occurrence.event)),
                Action::Kill(_, process) => {
                    add(HostChange::Kill { event: occurrence.event, process: process.clone() });
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
                Action::LinkDown(_)
                | Action::LinkUp(_)
                | Action::Change(..)
                | Action::Reset(_)
                | Action::Partition(_)
                | Action::Heal(_)
                | Action::ConnectionReset { .. }
                | Action::P4 { .. }
                | Action::Move { .. } => {}
            }
        }
    }
}

/// State of the links during the computation of the schedule.
struct LinkStates {
    down: Set<usize>,
    /// Changes of directions by events, keyed by the link and the port at which the direction starts.
    lines: Map<(usize, usize, HostId), LinkOverrides>,
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
    const CRASH: HostChange = HostChange::Crash { files: CrashFiles::Kept };

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
    fn killed_processes_start_again_after_the_time_of_their_event() {
        let schedule = schedule(1, "- { every: 40 s, kill: 'work*', hosts: all, for: 25 s }\n");
        let process = ProcessRef::Program("work*".to_owned());
        let kill = HostChange::Kill { event: 0, process };
        let revive = HostChange::Revive(0);
        assert_eq!(times(&schedule, 1), [(40, kill.clone()), (65, revive), (80, kill)]);
    }

    #[test]
    fn paused_processes_go_on_after_the_time_of_their_event_or_when_they_are_named() {
        let events = "- { at: 1 s, pause: b, process: 'work*', for: 3 s }\n- { at: 2 s, resume: b, process: sh }\n\
            - { at: 5 s, cpu: all, share: 0.25, for: 4 s }\n";
        let (named, share) =
            (|name: &str| ProcessRef::Program(name.to_owned()), CpuShare::new(0.25, CpuShare::PERIOD));
        let expected = [
            (1, HostChange::PauseProcess { event: 0, process: named("work*") }),
            (2, HostChange::ResumeProcess(named("sh"))),
            (4, HostChange::ResumeEvent(0)),
            (5, HostChange::Cpu { event: 2, share }),
            (9, HostChange::CpuHeal(2)),
        ];
        let text = format!(
            "general: {{ stop_time: 100 }}\nnetwork: {{ graph: {{ type: 1_gbit_switch }} }}\nhosts:\n  b: {{ network_node_id: 0, \
            processes: [ {{ path: /bin/sh }} ] }}\nevents:\n{events}"
        );
        let experiment = Experiment::parse_in("test.yaml", &text, &PathContext::default());
        let schedule = Schedule::new(&experiment.unwrap_or_else(|e| panic!("{e}")));
        assert_eq!(times(&schedule, 0), expected);
    }

    #[test]
    fn an_upgrade_is_undone_after_its_time_and_kills_what_does_not_end() {
        let text = "general: { stop_time: 100 }\nnetwork: { graph: { type: 1_gbit_switch } }\nhosts: { a: { network_node_id: 0, processes: \
            [ { path: /bin/sh }, { path: /bin/ls, start_time: never } ] } }\nevents:\n\
            - { at: 10 s, upgrade: sh, hosts: a, to: 1, grace: 30 s, for: 20 s }\n";
        let experiment = Experiment::parse_in("test.yaml", text, &PathContext::default());
        let schedule = Schedule::new(&experiment.unwrap_or_else(|e| panic!("{e}")));
        let expected = [
            (10, HostChange::Upgrade { from: 0, to: 1 }),
            (30, HostChange::Upgrade { from: 1, to: 0 }),
            (40, HostChange::UpgradeEnd(0)),
            (60, HostChange::UpgradeEnd(1)),
        ];
        assert_eq!(times(&schedule, 0), expected);
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

    #[test]
    fn rates_of_events_in_the_bootstrap_period_hold_after_it() {
        let text = "general: { stop_time: 9, bootstrap_end_time: 3 }\nhosts: { a: { processes: [] }, b: { processes: [] } }\n\
            links: [ { between: [a, b], name: l, rate: 8 Mbit } ]\nevents:\n\
            - { at: 1 s, link_change: { link: l, from: a }, rate: 1 Mbit }\n\
            - { at: 4 s, link_change: { link: l, from: a }, rate: 2 Mbit }\n";
        let experiment = Experiment::parse_in("test.yaml", text, &PathContext::default());
        let schedule = Schedule::new(&experiment.unwrap_or_else(|e| panic!("{e}")));
        let rate = |bits| HostChange::Link(LinkChange::Nic(0, NicChange::Rate(Some(bits))));
        assert_eq!(times(&schedule, 0), [(3, rate(1_000_000)), (4, rate(2_000_000))]);
        assert_eq!(times(&schedule, 1), [(3, rate(8_000_000))]);
    }
}
