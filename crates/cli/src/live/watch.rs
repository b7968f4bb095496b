//! Model of the live view: the run's state, and the commands that control it.

use super::network::{Loads, Network};
use super::schedule::{Entry, entries};
use crate::progress::now;
use belljar_base::{HostId, Map, SimDuration, SimTime};
use belljar_config::Experiment;
use belljar_sim::{Goal, HostView, LinkView, Live, Picture, Position, Table, TablesOf};
use serde::Serialize;
use std::collections::VecDeque;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Maximum age of a picture while the run goes on.
const STALE: Duration = Duration::from_millis(200);
/// Real time over which the speed is averaged.
const SPEED_OVER: Duration = Duration::from_secs(3);
/// Number of entries of the schedule shown before and after the present.
const PAST: usize = 5;
const TO_COME: usize = 12;
/// Number of link directions shown, those with the longest queues.
const QUEUES: usize = 20;

/// Constant properties of a run, and its last observed state.
pub struct Watch {
    live: Arc<Live>,
    name: String,
    folder: String,
    stop: SimTime,
    workers: usize,
    in_real_time: bool,
    started: Instant,
    /// Names of the hosts, then of the devices.
    nodes: Vec<String>,
    host_count: usize,
    /// Names of each node's outgoing link directions, by node.
    links: Vec<Vec<String>>,
    network: Network,
    schedule: Vec<Entry>,
    notes: Vec<String>,
    seen: Mutex<Seen>,
}

#[derive(Default)]
struct Seen {
    picture: Arc<Picture>,
    taken: Option<Instant>,
    /// Activity of each host as a digit 0 to 9, by host.
    activity: String,
    /// Loads between the last two pictures of different times.
    loads: Loads,
    /// Pairs of real and simulated time, to compute the speed.
    times: VecDeque<(Instant, SimTime)>,
    /// True if the last attempt to take a picture timed out, because a window takes long.
    is_late: bool,
}

/// Column of the table of hosts: its name and its value.
type Column = (&'static str, fn(&HostView) -> u64);

/// Columns by which hosts can be sorted.
const COLUMNS: [Column; 9] = [
    ("running", |host| host.running),
    ("ended", |host| host.ended),
    ("connections", |host| host.connections),
    ("syscalls", |host| host.syscalls),
    ("bytes_in", |host| host.bytes_in),
    ("bytes_out", |host| host.bytes_out),
    ("packets_out", |host| host.packets_out),
    ("dropped", |host| host.dropped),
    ("queued", |host| host.queued),
];

/// Snapshot of a run's state for the view.
#[derive(Debug, Serialize)]
pub struct State {
    pub name: String,
    pub folder: String,
    /// Committed simulated time, and below the stop time, in nanoseconds.
    pub time_ns: u64,
    pub stop_ns: u64,
    /// Simulated time of the next pause, if one is set.
    pub pause_at_ns: Option<u64>,
    pub real_s: f64,
    /// Simulated seconds per real second; `None` while the run is paused.
    pub speed: Option<f64>,
    pub is_paused: bool,
    pub is_over: bool,
    /// Reason why the run cannot pause, if it cannot.
    pub no_pause: Option<&'static str>,
    /// True if the state of hosts is outdated, because a window takes long.
    pub is_late: bool,
    pub workers: usize,
    pub host_count: usize,
    pub device_count: usize,
    pub total: HostView,
    /// Activity digits of the hosts, in the order of their names.
    pub activity: String,
    pub loads: Loads,
    /// Selected hosts, and the number of hosts that match the filter.
    pub hosts: Vec<Host>,
    pub matching: usize,
    pub links: Vec<Link>,
    pub link_count: usize,
    pub past: Vec<Entry>,
    pub to_come: Vec<Entry>,
    /// Number of schedule entries before the first of `past`, and after the last of `to_come`.
    pub earlier: usize,
    pub later: usize,
    pub warnings: Map<String, u64>,
    pub notes: Vec<String>,
}

/// State of a host, with its name.
#[derive(Debug, Serialize)]
pub struct Host {
    pub name: String,
    #[serde(flatten)]
    pub view: HostView,
}

/// State of a link direction, with its name.
#[derive(Debug, Serialize)]
pub struct Link {
    pub name: String,
    /// Name of the sending node.
    pub from: String,
    #[serde(flatten)]
    pub view: LinkView,
}

/// Filter, order and limit for the hosts in a [`State`].
pub struct Selection<'a> {
    /// Substring of the names.
    pub filter: &'a str,
    /// Column to sort by, in descending order; empty for the order of names.
    pub by: &'a str,
    /// Upper bound on the number of hosts.
    pub limit: usize,
}

impl Watch {
    pub fn new(
        live: Arc<Live>,
        experiment: &Experiment,
        folder: &Path,
        workers: usize,
        in_real_time: bool,
    ) -> Watch {
        let ids = (0..experiment.node_count() as u32).map(HostId);
        let directions = |id: HostId| -> Vec<String> {
            let interfaces = experiment.node_interfaces(id).iter();
            let name = |interface: &belljar_config::topology::Interface| {
                let link = &experiment.topology.links[interface.link];
                let to = experiment.node_name(link.ends[1 - interface.end].node);
                format!("{} to {to} ({})", experiment.node_name(id), link.name)
            };
            interfaces.map(name).collect()
        };
        let name = folder.file_name().unwrap_or(folder.as_os_str()).to_string_lossy();
        Watch {
            live,
            name: name.trim_end_matches(".data").to_owned(),
            folder: folder.display().to_string(),
            stop: experiment.general.stop_time,
            workers,
            in_real_time,
            started: now(),
            nodes: experiment.node_names().map(str::to_owned).collect(),
            host_count: experiment.hosts.len(),
            links: ids.map(directions).collect(),
            network: Network::new(experiment),
            schedule: entries(experiment),
            notes: experiment.notes.clone(),
            seen: Mutex::default(),
        }
    }

    /// Names of all hosts and devices.
    pub fn names(&self) -> &[String] {
        &self.nodes
    }

    /// The network to draw.
    pub fn network(&self) -> &Network {
        &self.network
    }

    /// Name of the run.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Notes issued since the start of the run.
    pub fn later_notes(&self) -> Vec<String> {
        self.live.notes()
    }

    /// Returns the current state of the run.
    pub fn state(&self, selection: &Selection<'_>) -> State {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let (position, goal) = self.look(&mut seen);
        let now = now();
        let (mut total, mut warnings) = (HostView::default(), Map::<String, u64>::new());
        let (mut hosts, mut links) = (Vec::new(), Vec::new());
        for node in &seen.picture.nodes {
            let named = self.links[node.id.index()].iter().zip(&node.links);
            let from = &self.nodes[node.id.index()];
            links.extend(named.map(|(name, view)| Link {
                name: name.clone(),
                from: from.clone(),
                view: *view,
            }));
            for (text, count) in &node.warnings {
                *warnings.entry(text.clone()).or_default() += count;
            }
            let Some(view) = node.host else {
                total.dropped += node.dropped;
                continue;
            };
            add(&mut total, &view);
            let name = &self.nodes[node.id.index()];
            if name.contains(selection.filter) {
                hosts.push(Host { name: name.clone(), view });
            }
        }
        if let Some((_, value)) = COLUMNS.iter().find(|(name, _)| *name == selection.by) {
            hosts.sort_by_key(|host| std::cmp::Reverse(value(&host.view)));
        }
        links.sort_by_key(|link| std::cmp::Reverse((link.view.queued, link.view.dropped, link.view.bytes)));
        let (matching, link_count) = (hosts.len(), links.len());
        hosts.truncate(selection.limit);
        links.truncate(QUEUES);
        let next = self.schedule.partition_point(|entry| entry.at_ns < position.committed.as_nanos());
        let (first, last) = (next.saturating_sub(PAST), (next + TO_COME).min(self.schedule.len()));
        State {
            name: self.name.clone(),
            folder: self.folder.clone(),
            time_ns: position.committed.min(self.stop).as_nanos(),
            stop_ns: self.stop.as_nanos(),
            pause_at_ns: match goal {
                Goal::Before(at) if !position.is_paused => Some(at.as_nanos()),
                _ => None,
            },
            real_s: (now - self.started).as_secs_f64(),
            speed: if position.is_paused { None } else { speed(&seen.times) },
            is_paused: position.is_paused && !position.is_over,
            is_over: position.is_over,
            no_pause: self.in_real_time.then_some("the run is tied to real time"),
            is_late: seen.is_late,
            workers: self.workers,
            host_count: self.host_count,
            device_count: self.nodes.len() - self.host_count,
            total,
            activity: seen.activity.clone(),
            loads: seen.loads.clone(),
            hosts,
            matching,
            links,
            link_count,
            past: self.schedule[first..next].to_vec(),
            to_come: self.schedule[next..last].to_vec(),
            earlier: first,
            later: self.schedule.len() - last,
            warnings,
            notes: self.notes.iter().cloned().chain(self.live.notes()).collect(),
        }
    }

    /// Takes a picture of all nodes, unless the last one is recent.
    fn look(&self, seen: &mut Seen) -> (Position, Goal) {
        let (before, _) = self.live.position();
        let is_fresh = match (seen.taken, before.is_paused) {
            (None, _) => false,
            (Some(_), true) => !seen.is_late && seen.picture.at == before.committed,
            (Some(taken), false) => now() - taken < STALE,
        };
        if !before.is_over && !is_fresh {
            match self.live.look(TablesOf::Nobody) {
                Some(picture) => {
                    seen.activity = activity(&seen.picture, &picture);
                    if let Some(loads) = self.network.loads(&seen.picture, &picture) {
                        seen.loads = loads;
                    }
                    seen.picture = Arc::new(picture);
                    seen.is_late = false;
                }
                None => seen.is_late = !self.live.position().0.is_over,
            }
            seen.taken = Some(now());
        }
        let (position, goal) = self.live.position();
        if position.is_paused {
            seen.times.clear();
        }
        seen.times.push_back((now(), position.committed));
        while seen.times.len() > 2 && now() - seen.times[0].0 > SPEED_OVER {
            seen.times.pop_front();
        }
        (position, goal)
    }

    /// Returns the tables of a host or device, and their simulated time in nanoseconds.
    pub fn tables(&self, name: &str) -> Result<(u64, Vec<Table>), String> {
        let Some(place) = self.nodes.iter().position(|node| node == name) else {
            return Err(format!("there is no host or device '{name}'"));
        };
        let picture = self.live.look(TablesOf::One(HostId(place as u32))).ok_or(NO_ANSWER)?;
        let tables = picture.nodes.into_iter().find(|node| node.id.index() == place);
        Ok((picture.at.as_nanos(), tables.map(|node| node.tables).unwrap_or_default()))
    }

    /// Returns the state of all hosts and devices as JSON, and its simulated time.
    pub fn snapshot(&self) -> Result<(SimTime, String), String> {
        let picture = self.live.look(TablesOf::All).ok_or(NO_ANSWER)?;
        let nodes: Map<&str, _> =
            picture.nodes.iter().map(|node| (&*self.nodes[node.id.index()], node)).collect();
        let json = serde_json::json!({ "time": picture.at.to_string(), "nodes": nodes });
        Ok((picture.at, json.to_string()))
    }

    /// Resumes the run.
    pub fn go_on(&self) {
        self.live.set_goal(Goal::End);
    }
    /// Pauses the run. Fails for a run in real time.
    pub fn pause(&self) -> Result<(), String> {
        self.set_goal(Goal::Here)
    }
    /// Processes the next instant and pauses.
    pub fn step(&self) -> Result<(), String> {
        self.set_goal(Goal::Instant)
    }
    /// Runs until just before the next entry of the schedule, and pauses.
    pub fn next_event(&self) -> Result<(), String> {
        let (position, _) = self.live.position();
        let at = position.committed.as_nanos();
        let next = self.schedule.iter().find(|entry| entry.at_ns > at);
        let next = next.ok_or("nothing is scheduled any more")?;
        self.set_goal(Goal::Before(SimTime::from_nanos(next.at_ns)))
    }
    /// Runs for the given simulated duration, and pauses.
    pub fn go_for(&self, duration: SimDuration) -> Result<(), String> {
        self.set_goal(Goal::Before(self.live.position().0.committed + duration))
    }

    fn set_goal(&self, goal: Goal) -> Result<(), String> {
        if self.in_real_time {
            return Err("a run that is tied to real time cannot pause".to_owned());
        }
        self.live.set_goal(goal);
        Ok(())
    }
}

const NO_ANSWER: &str = "the run does not answer: it has ended, or a program computes without a system call";

fn speed(times: &VecDeque<(Instant, SimTime)>) -> Option<f64> {
    let (first, last) = (times.front()?, times.back()?);
    let real = (last.0 - first.0).as_secs_f64();
    (real > 0.05).then(|| last.1.since(first.1).as_secs_f64() / real)
}

fn add(total: &mut HostView, view: &HostView) {
    total.running += view.running;
    total.ended += view.ended;
    total.connections += view.connections;
    total.syscalls += view.syscalls;
    total.packets_in += view.packets_in;
    total.bytes_in += view.bytes_in;
    total.packets_out += view.packets_out;
    total.bytes_out += view.bytes_out;
    total.dropped += view.dropped;
    total.queued += view.queued;
}

/// Activity of each host between two pictures, as a digit: 0 for none, then by the logarithm of calls and
/// bytes.
fn activity(before: &Picture, after: &Picture) -> String {
    let old: Map<HostId, HostView> =
        before.nodes.iter().filter_map(|node| Some((node.id, node.host?))).collect();
    let done = |view: &HostView| view.syscalls + (view.bytes_in + view.bytes_out) / 100;
    let digit = |(id, view): (HostId, HostView)| {
        let did = done(&view).saturating_sub(old.get(&id).map_or(0, done));
        char::from(b'0' + did.checked_ilog2().map_or(0, |bits| (1 + bits / 2).min(9)) as u8)
    };
    after.nodes.iter().filter_map(|node| Some((node.id, node.host?))).map(digit).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use belljar_sim::NodeView;

    fn picture(calls: [u64; 3]) -> Picture {
        let node = |(n, syscalls): (usize, u64)| NodeView {
            id: HostId(n as u32),
            host: Some(HostView { syscalls, ..HostView::default() }),
            dropped: 0,
            links: Vec::new(),
            warnings: Map::new(),
            tables: Vec::new(),
        };
        Picture { at: SimTime::ZERO, nodes: calls.into_iter().enumerate().map(node).collect() }
    }

    #[test]
    fn activity_is_what_was_done_since() {
        assert_eq!(activity(&Picture::default(), &picture([0, 1, 1 << 40])), "019");
        assert_eq!(activity(&picture([5, 5, 5]), &picture([5, 6, 9])), "012");
    }

    #[test]
    fn the_speed_is_that_of_the_last_seconds() {
        let start = now();
        let times = |real: u64, simulated: u64| {
            VecDeque::from([
                (start, SimTime::from_secs(1)),
                (start + Duration::from_millis(real), SimTime::from_secs(1 + simulated)),
            ])
        };
        assert_eq!(speed(&times(500, 4)), Some(8.0));
        assert_eq!(speed(&times(1, 4)), None);
        assert_eq!(speed(&VecDeque::new()), None);
    }
}
