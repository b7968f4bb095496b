//! Analysis of routing in a run, independent of the protocol: routes over time, convergence, control
//! overhead, loops and black holes.
//!
//! The route logs contain each host's routes over time (`belljar: {route_log: true}`); `routes/network.json`
//! contains the connectivity of hosts by links and radio channels, with the loss of each link over time;
//! captures contain the packets of the protocols. IPv4 paths are followed, IPv6 routes are counted.
//!
//! *Loops* are searched at each change, for the affected destinations. *Paths* are sampled every second: for
//! each pair of connected hosts, the analysis determines whether packets arrive, the share of them that the
//! links of the path are expected to deliver, and the ratio of their hops to the shortest path's.

mod control;
mod log;
mod network;
mod overhead;
mod tables;
mod text;

use crate::connectivity::Connectivity;
use crate::names;
use crate::read::{ReadError, Results};
use crate::topology::Topology;
use belljar_base::{Map, Set};
use belljar_net::units;
use log::{Change, Entry};
use network::Network;
pub use overhead::Sent;
use serde::Serialize;
use std::net::Ipv4Addr;
use tables::{Outcome, Present, Table};
pub use text::text;

/// Routing in a run.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Routing {
    /// Results for each host.
    pub hosts: Map<String, HostRouting>,
    /// Changes after the start and after each event of the experiment at a fixed time.
    pub convergence: Vec<Convergence>,
    /// Loops, in order of their start times.
    pub loops: Vec<Loop>,
    /// State of the paths at each second.
    pub paths: Vec<PathSample>,
}

/// Routing at one host.
#[derive(Clone, Debug, Default, Serialize)]
pub struct HostRouting {
    /// Number of changes of routes, excluding the kernel's own.
    pub changes: u64,
    /// Time of the last change, in seconds.
    pub last_change: Option<f64>,
    /// Number of routes at the end.
    pub routes: usize,
    /// Packets of routing protocols sent by the host, if it has captures.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub control: Map<String, Sent>,
}

/// Changes after an event, until the next one.
#[derive(Clone, Debug, Serialize)]
pub struct Convergence {
    /// Time of the event, in seconds.
    pub time: f64,
    /// Description of the event.
    pub event: String,
    /// Number of changes.
    pub changes: u64,
    /// Number of hosts that changed routes.
    pub hosts: usize,
    /// Seconds until the last change; `None` if there was none.
    pub seconds: Option<f64>,
}

/// A forwarding loop.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Loop {
    /// Start time in seconds.
    pub from: f64,
    /// End time in seconds; `None` if the loop lasted until the end of the run.
    pub until: Option<f64>,
    /// Destination host of the looping packets.
    pub destination: String,
    /// Hosts in the loop.
    pub hosts: Vec<String>,
}

/// Paths between all pairs of hosts at one time.
#[derive(Clone, Debug, Serialize)]
pub struct PathSample {
    /// Time in seconds.
    pub time: f64,
    /// Number of pairs connected by some path.
    pub connected: u64,
    /// Number of connected pairs between which packets can arrive.
    pub working: u64,
    /// Number of connected pairs without a route at the source.
    pub no_route: u64,
    /// Number of connected pairs whose packets are all lost on the path: a black hole.
    pub lost: u64,
    /// Number of connected pairs whose packets loop.
    pub looping: u64,
    /// Expected share of packets that arrive, as the mean over the connected pairs: the product of what the
    /// links of a path deliver, and 0 for a pair that does not work. `None` without connected pairs.
    pub delivered: Option<f64>,
    /// Mean ratio of the hops taken to the hops of the shortest path.
    pub stretch: Option<f64>,
}

/// Reason why routing cannot be analysed.
#[derive(Debug, thiserror::Error)]
pub enum RoutingError {
    /// The results cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// There are no route logs.
    #[error("there are no route logs in {0}: run with --set belljar.route_log=true")]
    None(std::path::PathBuf),
    /// The folder has no description of the network, or a malformed one.
    #[error("{0} {1}: run the experiment again with --set belljar.route_log=true")]
    Network(std::path::PathBuf, String),
}

/// Analyses the routing of a run. `ports` are additional UDP ports of routing protocols.
pub fn routing(results: &Results, ports: &[u16]) -> Result<Routing, RoutingError> {
    let hosts: Vec<&String> = results.statistics.hosts.keys().collect();
    let entries = log::read(results, &hosts)?;
    if entries.is_empty() {
        return Err(RoutingError::None(results.path().to_owned()));
    }
    let connectivity = connectivity(results)?;
    let senders = overhead::Senders::new(&connectivity);
    let mut walk = Walk::new(&hosts, Network::new(connectivity, &hosts));
    let end = results.statistics.simulated_seconds;
    walk.run(entries, end);
    let mut all = walk.done(&hosts);
    let events = results.text(names::EXPERIMENT).map(|text| events(&text)).unwrap_or_default();
    all.convergence = convergence(&events, &walk.changes, end);
    let topology =
        results.text(names::TOPOLOGY).and_then(|text| Topology::from_json(&text)).unwrap_or_default();
    for name in &hosts {
        let sent = overhead::sent(results, name, &senders, topology.epoch_secs, ports)?;
        all.hosts.entry((*name).clone()).or_default().control = sent;
    }
    Ok(all)
}

fn connectivity(results: &Results) -> Result<Connectivity, RoutingError> {
    let bad = |reason: String| RoutingError::Network(results.path().join(names::CONNECTIVITY), reason);
    let text = results.text(names::CONNECTIVITY).ok_or_else(|| bad("is missing".to_owned()))?;
    serde_json::from_str(&text).map_err(|error| bad(format!("cannot be read ({error})")))
}

/// State of the traversal of the logs.
struct Walk {
    network: Network,
    tables: Vec<Table>,
    /// Open loops of each destination: hosts and start time.
    open: Map<usize, Map<Vec<usize>, f64>>,
    loops: Vec<(f64, Option<f64>, usize, Vec<usize>)>,
    /// Changes made by protocols: time and host.
    changes: Vec<(f64, usize)>,
    paths: Vec<PathSample>,
}

impl Walk {
    fn new(hosts: &[&String], network: Network) -> Walk {
        Walk {
            tables: vec![Table::default(); hosts.len()],
            network,
            open: Map::new(),
            loops: Vec::new(),
            changes: Vec::new(),
            paths: Vec::new(),
        }
    }

    fn run(&mut self, entries: Vec<Entry>, end: f64) {
        let mut second = 1.0;
        let mut entries = entries.into_iter().peekable();
        while let Some(time) = entries.peek().map(|entry| entry.time) {
            while second < time {
                self.sample(second);
                second += 1.0;
            }
            // Changes at the same time are applied together.
            let mut concerned = Set::new();
            while let Some(Entry { host, change, .. }) = entries.next_if(|entry| entry.time == time) {
                self.apply(time, host, change, &mut concerned);
            }
            for destination in concerned {
                self.find_loops(time, destination);
            }
        }
        while second <= end {
            self.sample(second);
            second += 1.0;
        }
    }

    fn apply(&mut self, time: f64, host: usize, change: Change, concerned: &mut Set<usize>) {
        match change {
            Change::Reset => {
                self.tables[host].clear();
                concerned.extend(0..self.tables.len());
            }
            Change::Carrier { dev, carrier } => self.network.set_carrier(host, dev, carrier),
            Change::Route6 => self.changes.push((time, host)),
            Change::Route { to, metric, route } => {
                let is_own = |route: &log::Route| route.is_own();
                let now_own = route.as_ref().is_some_and(is_own);
                let before = self.tables[host].set(to, metric, route);
                if !now_own && !before.as_ref().is_some_and(is_own) {
                    self.changes.push((time, host));
                }
                let mask = u32::MAX.checked_shl(u32::from(32 - to.1.min(32))).unwrap_or(0);
                let inside = |own: &Option<Ipv4Addr>| {
                    own.is_some_and(|own| u32::from(own) & mask == u32::from(to.0) & mask)
                };
                let addresses = self.network.addresses.iter().enumerate();
                concerned.extend(addresses.filter(|(_, own)| inside(own)).map(|(n, _)| n));
            }
        }
    }

    /// Finds the loops of packets to a host, and closes those that no longer exist.
    fn find_loops(&mut self, time: f64, destination: usize) {
        let Some(address) = self.network.addresses[destination] else { return };
        let mut found: Set<Vec<usize>> = Set::new();
        for from in (0..self.tables.len()).filter(|from| *from != destination) {
            let outcome = tables::follow(&self.tables, &self.network, None, from, destination, address);
            if let Outcome::Loop(mut hosts) = outcome {
                // Normalised: the same loop may be entered at any host.
                let least = (0..hosts.len()).min_by_key(|n| hosts[*n]).unwrap_or(0);
                hosts.rotate_left(least);
                found.insert(hosts);
            }
        }
        let open = self.open.entry(destination).or_default();
        open.retain(|hosts, since| {
            let stays = found.contains(hosts);
            if !stays {
                self.loops.push((*since, Some(time), destination, hosts.clone()));
            }
            stays
        });
        for hosts in found {
            open.entry(hosts).or_insert(time);
        }
    }

    /// Samples the paths of all pairs.
    fn sample(&mut self, time: f64) {
        if self.network.has_routers {
            return;
        }
        let present = Present { time, neighbours: self.network.neighbours(time) };
        let mut sample = PathSample {
            time,
            connected: 0,
            working: 0,
            no_route: 0,
            lost: 0,
            looping: 0,
            delivered: None,
            stretch: None,
        };
        let (mut stretch, mut delivered) = (0.0, 0.0);
        for (to, address) in self.network.addresses.iter().enumerate() {
            let Some(address) = *address else { continue };
            let distances = network::distances(&present.neighbours, to);
            for (from, shortest) in distances.iter().enumerate().filter(|(from, _)| *from != to) {
                let Some(shortest) = shortest else { continue };
                sample.connected += 1;
                match tables::follow(&self.tables, &self.network, Some(&present), from, to, address) {
                    Outcome::Arrives { hops, delivery } => {
                        sample.working += 1;
                        delivered += delivery;
                        stretch += f64::from(hops) / f64::from(*shortest);
                    }
                    Outcome::NoRoute | Outcome::Unknown => sample.no_route += 1,
                    Outcome::Lost(_) => sample.lost += 1,
                    Outcome::Loop(_) => sample.looping += 1,
                }
            }
        }
        sample.delivered = (sample.connected > 0).then(|| delivered / sample.connected as f64);
        sample.stretch = (sample.working > 0).then(|| stretch / sample.working as f64);
        self.paths.push(sample);
    }

    fn done(&mut self, hosts: &[&String]) -> Routing {
        for (destination, open) in std::mem::take(&mut self.open) {
            self.loops.extend(open.into_iter().map(|(hosts, since)| (since, None, destination, hosts)));
        }
        self.loops.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.2.cmp(&b.2)));
        let name = |n: &usize| hosts[*n].clone();
        let loops = self.loops.iter().map(|(from, until, destination, through)| Loop {
            from: *from,
            until: *until,
            destination: name(destination),
            hosts: through.iter().map(name).collect(),
        });
        let host = |n: usize| {
            let own = || self.changes.iter().filter(|(_, host)| *host == n);
            HostRouting {
                changes: own().count() as u64,
                last_change: own().next_back().map(|(at, _)| *at),
                routes: self.tables[n].len(),
                control: Map::new(),
            }
        };
        Routing {
            hosts: (0..hosts.len()).map(|n| (name(&n), host(n))).collect(),
            convergence: Vec::new(),
            loops: loops.collect(),
            paths: std::mem::take(&mut self.paths),
        }
    }
}

/// The start, and the events at fixed times and their ends, with descriptions.
fn events(experiment: &str) -> Vec<(f64, String)> {
    let mut all = vec![(0.0, "start".to_owned())];
    let lines = experiment.lines().skip_while(|line| *line != "events:").skip(1);
    let mut at = None;
    let mut lasting = None;
    let seconds = |text: &str| units::parse_duration(text).ok().map(|time| time.as_secs_f64());
    for line in lines.take_while(|line| line.starts_with(['-', ' '])) {
        let Some((key, value)) = line.trim_start_matches(['-', ' ']).split_once(": ") else { continue };
        match key {
            "at" => (at, lasting) = (seconds(value), None),
            "every" => at = None,
            "for" => lasting = seconds(value),
            "name" => {}
            // The first other key describes the event.
            _ => {
                let Some(begins) = at.take() else { continue };
                all.push((begins, format!("{key}: {value}")));
                if let Some(lasting) = lasting {
                    all.push((begins + lasting, format!("end of {key}: {value}")));
                }
            }
        }
    }
    all.sort_by(|a, b| a.0.total_cmp(&b.0));
    all
}

fn convergence(events: &[(f64, String)], changes: &[(f64, usize)], end: f64) -> Vec<Convergence> {
    let happened = events.iter().filter(|(time, _)| *time < end);
    let of_event = |(n, (time, event)): (usize, &(f64, String))| {
        let until =
            events[n + 1..].iter().map(|(time, _)| *time).find(|next| next > time).unwrap_or(f64::MAX);
        let own = || changes.iter().filter(|(at, _)| at >= time && *at < until);
        Convergence {
            time: *time,
            event: event.clone(),
            changes: own().count() as u64,
            hosts: own().map(|(_, host)| *host).collect::<Set<_>>().len(),
            seconds: own().next_back().map(|(at, _)| at - time),
        }
    };
    happened.enumerate().map(of_event).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connectivity::{ConnectivityLink, ConnectivityNode, ConnectivityPartition};
    use crate::{HostStatistics, Statistics};
    use std::fs;

    /// Three connected hosts a, b and c in a line.
    fn line() -> Connectivity {
        let node = |n: u32, name: &str| ConnectivityNode {
            name: name.to_owned(),
            kind: "host".to_owned(),
            addresses: vec![format!("10.0.0.{n}")],
            ..ConnectivityNode::default()
        };
        let end = |node: &str, interface: &str| (node.to_owned(), interface.to_owned());
        let link = |a, b| ConnectivityLink { ends: [a, b], ..ConnectivityLink::default() };
        let nodes = vec![node(1, "a"), node(2, "b"), node(3, "c")];
        let links = vec![link(end("a", "r"), end("b", "l")), link(end("b", "r"), end("c", "l"))];
        Connectivity { nodes, links, ..Connectivity::default() }
    }
    /// The analysis of a run with these route logs on a line of hosts.
    fn of(logs: [&str; 3], experiment: &str) -> Routing {
        over(&line(), logs, experiment)
    }
    /// The analysis of a run of hosts a, b and c with these route logs.
    fn over(network: &Connectivity, logs: [&str; 3], experiment: &str) -> Routing {
        let dir = tempfile::tempdir().unwrap();
        let host = |name: &str| (name.to_owned(), HostStatistics::default());
        let hosts = ["a", "b", "c"].map(host).into();
        let statistics = Statistics { hosts, simulated_seconds: 10.0, ..Statistics::default() };
        fs::write(dir.path().join(names::STATISTICS), statistics.to_json()).unwrap();
        fs::write(dir.path().join(names::EXPERIMENT), experiment).unwrap();
        fs::create_dir(dir.path().join(names::ROUTES)).unwrap();
        fs::write(dir.path().join(names::CONNECTIVITY), network.to_json()).unwrap();
        for (name, log) in ["a", "b", "c"].iter().zip(logs) {
            fs::write(dir.path().join(names::ROUTES).join(format!("{name}.jsonl")), log).unwrap();
        }
        routing(&Results::open(dir.path()).unwrap(), &[]).unwrap()
    }
    fn route(dev: &str, time: f64, to: u8, via: u8) -> String {
        format!(
            "{{\"time\": {time}, \"to\": \"10.0.0.{to}/32\", \"metric\": 2, \"protocol\": 150, \"hops\": [{{\"dev\": \"{dev}\", \"via\": \"10.0.0.{via}\"}}]}}\n"
        )
    }
    fn gone(time: f64, to: u8) -> String {
        format!("{{\"time\": {time}, \"to\": \"10.0.0.{to}/32\", \"metric\": 2}}\n")
    }

    #[test]
    fn loops_black_holes_and_convergence_are_found() {
        let a = [route("r", 1.5, 2, 2), route("r", 1.5, 3, 2)].concat();
        // b forwards to c, then back to a: a loop from 5.25 to 6 s; then it has no route to c.
        let b =
            [route("l", 1.0, 1, 1), route("r", 2.25, 3, 3), route("l", 5.25, 3, 1), gone(6.0, 3)].concat();
        let c = [route("l", 1.25, 1, 2), route("l", 1.25, 2, 2)].concat();
        let all = of([&a, &b, &c], "general:\nevents:\n- at: 5 s\n  link_down: l\n");
        let hosts = |hosts: &[&str]| hosts.iter().map(|host| (*host).to_owned()).collect::<Vec<_>>();
        let expected =
            Loop { from: 5.25, until: Some(6.0), destination: "c".to_owned(), hosts: hosts(&["a", "b"]) };
        assert_eq!(all.loops, [expected]);
        let at = |n: usize| {
            (all.paths[n].connected, all.paths[n].working, all.paths[n].no_route, all.paths[n].lost)
        };
        assert_eq!(at(0), (6, 1, 5, 0), "at 1 s b knows a");
        assert_eq!(at(1), (6, 4, 1, 1), "at 2 s a sends by b, which has no route for c yet");
        assert_eq!((at(2), all.paths[2].stretch), ((6, 6, 0, 0), Some(1.0)));
        assert_eq!(at(6), (6, 4, 1, 1));
        let seen: Vec<_> =
            all.convergence.iter().map(|c| (c.event.as_str(), c.changes, c.hosts, c.seconds)).collect();
        assert_eq!(seen, [("start", 6, 3, Some(2.25)), ("link_down: l", 2, 1, Some(1.0))]);
        assert_eq!(
            (all.hosts["b"].changes, all.hosts["b"].routes, all.hosts["a"].last_change),
            (4, 1, Some(1.5))
        );
    }

    #[test]
    fn a_resolved_experiment_has_the_ends_of_its_events() {
        let text = "hosts:\nevents:\n- at: 5 s\n  name: x\n  for: 4 s\n  link_down: { link: [l] }\n- every: 1 s\n  crash: a\n- at: 7 s\n  move: a\n";
        let expected = [
            (0.0, "start"),
            (5.0, "link_down: { link: [l] }"),
            (7.0, "move: a"),
            (9.0, "end of link_down: { link: [l] }"),
        ];
        let found = events(text);
        assert_eq!(found.iter().map(|(at, what)| (*at, what.as_str())).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn without_carriers_and_out_of_reach_there_is_no_way() {
        let b = [
            route("l", 1.0, 1, 1),
            route("r", 1.0, 3, 3),
            "{\"time\": 3.5, \"dev\": \"r\", \"carrier\": false}\n".to_owned(),
            "{\"time\": 5.5, \"dev\": \"r\", \"carrier\": true}\n".to_owned(),
        ];
        let all = of(["{\"time\": 0, \"reset\": true}\n", &b.concat(), ""], "");
        let connected: Vec<u64> = all.paths.iter().map(|sample| sample.connected).collect();
        assert_eq!(connected, [6, 6, 6, 2, 2, 6, 6, 6, 6, 6]);
    }

    /// Routes of all hosts of the line to all others from 0.5 s on.
    fn complete() -> [String; 3] {
        [
            [route("r", 0.5, 2, 2), route("r", 0.5, 3, 2)].concat(),
            [route("l", 0.5, 1, 1), route("r", 0.5, 3, 3)].concat(),
            [route("l", 0.5, 1, 2), route("l", 0.5, 2, 2)].concat(),
        ]
    }

    #[test]
    fn paths_lose_what_their_links_lose() {
        let mut network = line();
        // From a to b half of the packets are lost, from 3 s on all; from b to c half, until 6 s.
        network.links[0].loss = [vec![(0.0, 0.5), (3.0, 1.0)], vec![(0.0, 0.0)]];
        network.links[1].loss = [vec![(0.0, 0.5), (6.0, 0.0)], vec![(0.0, 0.0)]];
        let [a, b, c] = complete();
        let all = over(&network, [&a, &b, &c], "");
        let at = |n: usize| {
            let sample = &all.paths[n - 1];
            (sample.connected, sample.working, sample.lost, sample.delivered)
        };
        assert_eq!(at(1), (6, 6, 0, Some((0.5 + 0.25 + 0.5 + 3.0) / 6.0)));
        assert_eq!(at(3), (6, 4, 2, Some((0.5 + 3.0) / 6.0)), "nothing from a arrives");
        assert_eq!(at(6), (6, 4, 2, Some(4.0 / 6.0)));
        let shown = text(&all, 100);
        let row = shown.lines().rfind(|line| line.starts_with(" 6 ") || line.trim_start().starts_with("6 "));
        let cells: Vec<_> = row.unwrap().split_whitespace().collect();
        assert_eq!(cells[..7], ["6", "6.0", "66.7", "%", "66.7", "%", "0.0"], "{shown}");
    }

    #[test]
    fn of_parallel_links_that_of_the_route_counts() {
        let mut network = line();
        let ends = [("a".to_owned(), "r2".to_owned()), ("b".to_owned(), "l2".to_owned())];
        network.links.push(ConnectivityLink { ends, loss: [vec![(0.0, 1.0)], vec![]], unused: vec![] });
        let [_, b, c] = complete();
        let working = |dev: &str| {
            let a = [route(dev, 0.5, 2, 2), route(dev, 0.5, 3, 2)].concat();
            let sample = over(&network, [&a, &b, &c], "").paths[0].clone();
            (sample.working, sample.lost)
        };
        assert_eq!((working("r"), working("r2")), ((6, 0), (4, 2)));
        assert_eq!(working("l"), (6, 0), "a has no link at l: a bridge, say, over the better link");
        assert_eq!(working("br0"), (6, 0));
    }

    #[test]
    fn hosts_behind_a_partition_discard_packets() {
        let mut network = line();
        let groups = ["a", "c"].map(|host| vec![host.to_owned()]).to_vec();
        network.partitions = vec![ConnectivityPartition { from: 2.0, until: Some(4.0), groups }];
        let [a, b, c] = complete();
        let all = over(&network, [&a, &b, &c], "");
        let lost: Vec<u64> = all.paths[..5].iter().map(|sample| sample.lost).collect();
        assert_eq!(lost, [0, 2, 2, 0, 0]);
    }

    #[test]
    fn switches_join_their_links_but_those_that_the_spanning_tree_excludes() {
        let mut network = line();
        let device = |name: &str, kind: &str| ConnectivityNode {
            name: name.to_owned(),
            kind: kind.to_owned(),
            ..ConnectivityNode::default()
        };
        network.nodes.extend([device("s1", "switch"), device("s2", "switch")]);
        let end = |end: &str| {
            let (node, interface) = end.split_once(':').unwrap();
            (node.to_owned(), interface.to_owned())
        };
        let link = |a: &str, b: &str, loss: f64, unused: &[(f64, Option<f64>)]| ConnectivityLink {
            ends: [end(a), end(b)],
            loss: [vec![(0.0, loss)], vec![(0.0, loss)]],
            unused: unused.to_vec(),
        };
        network.links = vec![
            link("a:r", "s1:1", 0.0, &[]),
            link("s1:2", "s2:1", 0.5, &[(3.0, None)]),
            link("s1:3", "s2:2", 0.75, &[(0.0, Some(3.0)), (5.0, None)]),
            link("b:l", "s2:3", 0.0, &[]),
            link("b:r", "c:l", 0.0, &[]),
        ];
        let [a, b, c] = complete();
        let all = over(&network, [&a, &b, &c], "");
        let at = |n: usize| (all.paths[n - 1].connected, all.paths[n - 1].delivered);
        assert_eq!(at(1), (6, Some((4.0 * 0.5 + 2.0) / 6.0)));
        assert_eq!(at(3), (6, Some((4.0 * 0.25 + 2.0) / 6.0)), "the other link is in use");
        assert_eq!(at(5), (2, Some(1.0)), "a is alone");
    }

    #[test]
    fn without_a_network_the_remedy_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let statistics = Statistics {
            hosts: [("a".to_owned(), HostStatistics::default())].into(),
            ..Statistics::default()
        };
        fs::write(dir.path().join(names::STATISTICS), statistics.to_json()).unwrap();
        fs::create_dir(dir.path().join(names::ROUTES)).unwrap();
        fs::write(dir.path().join("routes/a.jsonl"), "{\"time\": 0, \"reset\": true}\n").unwrap();
        let error = routing(&Results::open(dir.path()).unwrap(), &[]).unwrap_err().to_string();
        assert!(
            error.ends_with(
                "network.json is missing: run the experiment again with --set belljar.route_log=true"
            ),
            "{error}"
        );
    }
}
