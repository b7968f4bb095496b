//! Analysis of routing in a run, independent of the protocol: routes over time, convergence, control
//! overhead, loops and black holes.
//!
//! The route logs contain each host's routes over time (`belljar: {route_log: true}`); `topology.json`
//! contains the connectivity of hosts by links and radio channels; captures contain the packets of the
//! protocols. IPv4 paths are followed, IPv6 routes are counted.
//!
//! *Loops* are searched at each change, for the affected destinations. *Paths* are sampled every second: for
//! each pair of connected hosts, the analysis determines whether packets arrive, and the ratio of their hops
//! to the shortest path's.

mod log;
mod network;
mod overhead;
mod tables;
mod text;

use crate::names;
use crate::read::{ReadError, Results};
use crate::topology::Topology;
use belljar_base::{Map, Set};
use belljar_net::units;
use log::{Change, Entry};
use network::Network;
pub use overhead::Sent;
use serde::Serialize;
use std::net::{IpAddr, Ipv4Addr};
use tables::{Table, Way};
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
    /// Number of connected pairs with delivery.
    pub working: u64,
    /// Number of connected pairs without a route at the source.
    pub no_route: u64,
    /// Number of connected pairs whose packets are lost on the path: a black hole.
    pub lost: u64,
    /// Number of connected pairs whose packets loop.
    pub looping: u64,
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
}

/// Analyses the routing of a run. `ports` are additional UDP ports of routing protocols.
pub fn routing(results: &Results, ports: &[u16]) -> Result<Routing, RoutingError> {
    let hosts: Vec<&String> = results.statistics.hosts.keys().collect();
    let entries = log::read(results, &hosts)?;
    if entries.is_empty() {
        return Err(RoutingError::None(results.path().to_owned()));
    }
    let topology =
        results.text(names::TOPOLOGY).and_then(|text| Topology::from_json(&text)).unwrap_or_default();
    let network = Network::new(&topology, &hosts);
    let mut own: Vec<Set<IpAddr>> = vec![Set::new(); hosts.len()];
    for host in &topology.hosts {
        let Some(n) = hosts.iter().position(|name| **name == host.name) else { continue };
        own[n]
            .extend(host.addresses.iter().chain([&host.address]).filter_map(|ip| ip.parse::<IpAddr>().ok()));
    }
    let mut walk = Walk::new(&hosts, network);
    let end = results.statistics.simulated_seconds;
    walk.run(entries, end);
    let mut all = walk.done(&hosts);
    let events = results.text(names::EXPERIMENT).map(|text| events(&text)).unwrap_or_default();
    all.convergence = convergence(&events, &walk.changes, end);
    for (n, name) in hosts.iter().enumerate() {
        let sent = overhead::sent(results, name, &own[n], topology.epoch_secs, ports)?;
        all.hosts.entry((*name).clone()).or_default().control = sent;
    }
    Ok(all)
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
            let way = tables::follow(&self.tables, &self.network, None, from, destination, address);
            if let Way::Loop(mut hosts) = way {
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
        let neighbours = self.network.neighbours(time);
        let mut sample =
            PathSample { time, connected: 0, working: 0, no_route: 0, lost: 0, looping: 0, stretch: None };
        let mut stretch = 0.0;
        for (to, address) in self.network.addresses.iter().enumerate() {
            let Some(address) = *address else { continue };
            let distances = network::distances(&neighbours, to);
            for (from, hops) in distances.iter().enumerate().filter(|(from, _)| *from != to) {
                let Some(hops) = hops else { continue };
                sample.connected += 1;
                match tables::follow(&self.tables, &self.network, Some(&neighbours), from, to, address) {
                    Way::Arrives(taken) => {
                        sample.working += 1;
                        stretch += f64::from(taken) / f64::from(*hops);
                    }
                    Way::NoRoute | Way::Unknown => sample.no_route += 1,
                    Way::Lost(_) => sample.lost += 1,
                    Way::Loop(_) => sample.looping += 1,
                }
            }
        }
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
    use crate::{HostStatistics, Statistics};
    use std::fs;

    /// The analysis of three connected hosts a, b and c in a line, with these route logs.
    fn of(logs: [&str; 3], experiment: &str) -> Routing {
        let dir = tempfile::tempdir().unwrap();
        let host = |name: &str| (name.to_owned(), HostStatistics::default());
        let hosts = ["a", "b", "c"].map(host).into();
        let statistics = Statistics { hosts, simulated_seconds: 10.0, ..Statistics::default() };
        fs::write(dir.path().join(names::STATISTICS), statistics.to_json()).unwrap();
        fs::write(dir.path().join(names::EXPERIMENT), experiment).unwrap();
        let host = |n: u32, name: &str| {
            format!(
                r#"{{"name": "{name}", "address": "10.0.0.{n}", "node": {n}, "bandwidth_up": null, "bandwidth_down": null}}"#
            )
        };
        let node = |n: u32| format!(r#"{{"id": {n}, "label": null, "kind": "host"}}"#);
        let edge = |a: u32, b: u32| {
            format!(
                r#"{{"source": {a}, "target": {b}, "latency_ns": 1, "jitter_ns": 0, "loss": 0, "interfaces": ["r", "l"]}}"#
            )
        };
        let topology = format!(
            r#"{{"epoch_secs": 0, "seed": 1, "omitted_nodes": 0, "nodes": [{}, {}, {}], "edges": [{}, {}], "hosts": [{}, {}, {}]}}"#,
            node(1),
            node(2),
            node(3),
            edge(1, 2),
            edge(2, 3),
            host(1, "a"),
            host(2, "b"),
            host(3, "c")
        );
        fs::write(dir.path().join(names::TOPOLOGY), topology).unwrap();
        fs::create_dir(dir.path().join(names::ROUTES)).unwrap();
        for (name, log) in ["a", "b", "c"].iter().zip(logs) {
            fs::write(dir.path().join(names::ROUTES).join(format!("{name}.jsonl")), log).unwrap();
        }
        routing(&Results::open(dir.path()).unwrap(), &[]).unwrap()
    }
    fn route(time: f64, to: u8, via: u8) -> String {
        format!(
            "{{\"time\": {time}, \"to\": \"10.0.0.{to}/32\", \"metric\": 2, \"protocol\": 150, \"hops\": [{{\"dev\": \"r\", \"via\": \"10.0.0.{via}\"}}]}}\n"
        )
    }
    fn gone(time: f64, to: u8) -> String {
        format!("{{\"time\": {time}, \"to\": \"10.0.0.{to}/32\", \"metric\": 2}}\n")
    }

    #[test]
    fn loops_black_holes_and_convergence_are_found() {
        let a = [route(1.5, 2, 2), route(1.5, 3, 2)].concat();
        // b forwards to c, then back to a: a loop from 5.25 to 6 s; then it has no route to c.
        let b = [route(1.0, 1, 1), route(2.25, 3, 3), route(5.25, 3, 1), gone(6.0, 3)].concat();
        let c = [route(1.25, 1, 2), route(1.25, 2, 2)].concat();
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
            route(1.0, 1, 1),
            route(1.0, 3, 3),
            "{\"time\": 3.5, \"dev\": \"r\", \"carrier\": false}\n".to_owned(),
            "{\"time\": 5.5, \"dev\": \"r\", \"carrier\": true}\n".to_owned(),
        ];
        let all = of(["{\"time\": 0, \"reset\": true}\n", &b.concat(), ""], "");
        let connected: Vec<u64> = all.paths.iter().map(|sample| sample.connected).collect();
        assert_eq!(connected, [6, 6, 6, 2, 2, 6, 6, 6, 6, 6]);
    }
}
