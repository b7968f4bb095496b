//! Tests of the engine with toy nodes that forward numbered messages.

use super::*;
use belljar_base::{EventClass, LineGroup, Map, Seed, Stream};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

/// Latency within a cluster, and between clusters.
pub const NEAR: SimDuration = SimDuration::from_micros(10);
const FAR: SimDuration = SimDuration::from_micros(300);
const CLUSTER: u32 = 4;

/// Node that forwards each message to a random node after a random time.
pub struct Toy {
    pub id: HostId,
    count: u32,
    inbox: Map<EventKey, u64>,
    sequence: u64,
    stream: Stream,
    pub seen: Vec<(EventKey, u64)>,
    /// Time from which the node is finished.
    pub rest: Option<SimTime>,
    now: SimTime,
    /// Number of messages seen at each call of `attend`.
    attended: Vec<usize>,
    /// Number of hops of a message that the node adds when it attends.
    request: Option<u64>,
}

impl Node for Toy {
    type Message = u64;

    fn deliver(&mut self, key: EventKey, message: u64) {
        assert!(key.time >= self.now, "{key:?} comes too late for {}", self.now);
        assert!(self.inbox.insert(key, message).is_none());
    }
    fn run_until(&mut self, limit: SimTime, out: &mut Vec<Outgoing<u64>>) {
        self.now = limit;
        while let Some(entry) = self.inbox.first_entry()
            && entry.key().time < limit
        {
            let (key, hops) = entry.remove_entry();
            assert_ne!(hops, 13_000_000, "an unlucky number");
            self.seen.push((key, hops));
            if hops == 0 {
                continue;
            }
            self.sequence += 1;
            let to = HostId(self.stream.below(u64::from(self.count)) as u32);
            let near = to.0 / CLUSTER == self.id.0 / CLUSTER;
            let pause = SimDuration::from_nanos(self.stream.below(50_000));
            let time = key.time + if near { NEAR } else { FAR } + pause;
            let key = EventKey { time, class: EventClass::Arrival, source: self.id, sequence: self.sequence };
            out.push(Outgoing { to, key, message: hops - 1 });
        }
    }
    fn next_event(&self) -> Option<SimTime> {
        self.inbox.first_key_value().map(|(key, _)| key.time)
    }
    fn finished_at(&self) -> Option<SimTime> {
        self.rest.filter(|at| *at <= self.now)
    }
    fn attend(&mut self, since: SimTime) {
        self.attended.push(self.seen.len());
        assert!(since >= self.now, "nodes are never ahead of the time at which they may add events");
        if let Some(hops) = self.request.take() {
            self.sequence += 1;
            let (class, source, sequence) = (EventClass::Arrival, self.id, self.sequence);
            self.deliver(EventKey { time: since, class, source, sequence }, hops);
        }
    }
}

pub fn toys(count: u32, hops: u64) -> Vec<Toy> {
    let mut toys: Vec<Toy> = (0..count)
        .map(|n| Toy {
            id: HostId(n),
            count,
            inbox: Map::new(),
            sequence: 0,
            stream: Seed(1).stream(&["toy", &n.to_string()]),
            seen: Vec::new(),
            rest: None,
            now: SimTime::ZERO,
            attended: Vec::new(),
            request: None,
        })
        .collect();
    for toy in &mut toys {
        toy.sequence += 1;
        let key = EventKey { time: SimTime::ZERO, class: EventClass::Arrival, source: toy.id, sequence: 1 };
        toy.deliver(key, hops);
    }
    toys
}

/// Plan in which each cluster is a group.
pub fn clusters(count: u32) -> Plan {
    let members = |first: u32| (first..count.min(first + CLUSTER)).map(HostId).collect();
    let group = |first| Group { members: members(first), inner: NEAR, lookahead: FAR };
    Plan::new((0..count).step_by(CLUSTER as usize).map(group).collect())
}

pub fn options(workers: usize, stealing: bool) -> Options<'static> {
    Options { workers, stealing, ..Options::default() }
}

pub type Trace = Vec<Vec<(EventKey, u64)>>;

pub fn trace(plan: Plan, options: &Options<'_>) -> Trace {
    let mut engine = Engine::new(toys(20, 200), plan);
    let ending = engine.run(SimTime::from_secs(1), options, |_| Verdict::Continue);
    assert_eq!(ending, Ending::StopTime);
    assert_eq!(engine.committed(), SimTime::from_secs(1));
    engine.into_nodes().into_iter().map(|(_, toy)| toy.seen).collect()
}

#[test]
fn every_message_arrives_and_each_node_sees_them_in_key_order() {
    let trace = trace(Plan::uniform(20, NEAR), &options(1, true));
    assert_eq!(trace.iter().map(Vec::len).sum::<usize>(), 20 * 201);
    for seen in trace {
        assert!(seen.is_sorted_by(|a, b| a.0 < b.0));
    }
}

#[test]
fn messages_in_flight_at_the_end_are_delivered() {
    for (plan, workers) in [(Plan::uniform(20, NEAR), 1), (Plan::uniform(20, NEAR), 3), (clusters(20), 2)] {
        let mut engine = Engine::new(toys(20, 200), plan);
        engine.run(SimTime::from_nanos(3_000_123), &options(workers, true), |_| Verdict::Continue);
        let toys: Vec<Toy> = engine.into_nodes().into_iter().map(|(_, toy)| toy).collect();
        let sent: u64 = toys.iter().map(|toy| toy.sequence).sum();
        let (seen, in_flight) = toys
            .iter()
            .fold((0, 0), |(seen, left), toy| (seen + toy.seen.len() as u64, left + toy.inbox.len() as u64));
        assert_eq!(seen + in_flight, sent);
        assert!(in_flight > 0 && seen > 0, "{seen} seen, {in_flight} in flight");
    }
}

#[test]
fn requests_from_outside_are_events_at_the_time_that_has_been_reached() {
    let pause = SimTime::from_nanos(2_000_000);
    for (plan, workers) in [(Plan::uniform(20, NEAR), 1), (clusters(20), 1), (clusters(20), 3)] {
        // The only message of the beginning goes one hop; the others come from outside.
        let mut toys = toys(20, 0);
        toys[7].request = Some(30);
        toys[7].inbox.insert(
            EventKey {
                time: SimTime::from_secs(1),
                class: EventClass::Arrival,
                source: HostId(7),
                sequence: 2,
            },
            0,
        );
        let asked = AtomicUsize::new(0);
        let mut engine = Engine::new(toys, plan);
        engine.run(SimTime::from_secs(2), &options(workers, true), |committed| {
            match committed >= pause && asked.fetch_add(1, Relaxed) == 0 {
                true => Verdict::Attend,
                false => Verdict::Until(pause.max(committed)),
            }
        });
        let toys: Vec<Toy> = engine.into_nodes().into_iter().map(|(_, toy)| toy).collect();
        let count: usize = toys.iter().map(|toy| toy.seen.len()).sum();
        assert_eq!(count, 20 + 1 + 31, "the request and its 30 hops");
        let first = toys[7].seen.iter().find(|(_, hops)| *hops == 30).unwrap();
        assert!(first.0.time <= pause, "{:?}", first.0);
    }
}

#[test]
fn windows_end_where_the_observer_says_and_nothing_changes() {
    let expected = trace(Plan::uniform(20, NEAR), &options(1, true));
    let bound = SimTime::from_nanos(2_000_000);
    for (plan, workers) in [(Plan::uniform(20, NEAR), 1), (clusters(20), 1), (clusters(20), 3)] {
        let attended = AtomicUsize::new(0);
        let mut engine = Engine::new(toys(20, 200), plan);
        let ending = engine.run(SimTime::from_secs(1), &options(workers, true), |committed| {
            if committed < bound {
                return Verdict::Until(bound);
            }
            match attended.fetch_add(1, Relaxed) {
                0 | 1 => Verdict::Attend,
                n if n % 3 == 0 => Verdict::Until(committed),
                _ => Verdict::Continue,
            }
        });
        assert_eq!(ending, Ending::StopTime);
        let toys: Vec<Toy> = engine.into_nodes().into_iter().map(|(_, toy)| toy).collect();
        for toy in &toys {
            let [first, second] = toy.attended[..] else { panic!("attended {:?}", toy.attended) };
            assert_eq!(first, second, "nothing happens between two questions");
            assert!(toy.seen[..first].iter().all(|(key, _)| key.time < bound));
            assert!(toy.seen[first..].iter().all(|(key, _)| key.time >= bound));
        }
        assert_eq!(toys.into_iter().map(|toy| toy.seen).collect::<Trace>(), expected);
    }
}

#[test]
fn workers_stealing_groups_and_windows_make_no_difference() {
    let expected = trace(Plan::uniform(20, NEAR), &options(1, true));
    let plans = [Plan::uniform(20, NEAR), Plan::uniform(20, SimDuration::from_nanos(237)), clusters(20)];
    let ways = [
        (1, true, false),
        (2, true, true),
        (3, true, false),
        (7, true, false),
        (30, true, false),
        (1, false, false),
        (2, false, true),
        (3, false, false),
        (12, false, false),
    ];
    for plan in plans {
        for (workers, stealing, spinning) in ways {
            let options = Options { spinning, ..options(workers, stealing) };
            assert_eq!(trace(plan.clone(), &options), expected, "{options:?}");
            // Each run takes half a millisecond, so other workers are woken for every due unit.
            let time = AtomicU64::new(0);
            let clock = || time.fetch_add(500_000, Relaxed);
            let options = Options { clock: Some(&clock), ..options };
            assert_eq!(trace(plan.clone(), &options), expected, "{options:?}, dear runs");
            assert!(time.load(Relaxed) > 0, "runs are timed");
        }
    }
}

#[test]
fn what_ran_long_ago_is_fetched_and_nothing_depends_on_it() {
    static FETCHED: AtomicUsize = AtomicUsize::new(0);
    fn fetch(groups: &[AtomicUsize]) {
        let groups = groups.iter().map(|group| LineGroup::from_word(group.load(Relaxed)));
        let mut told = groups.take_while(|group| *group != LineGroup::NONE);
        assert!(told.all(|group| group.addresses().count() > 0), "groups of lines");
        FETCHED.fetch_add(1, Relaxed);
    }
    let seen = |count: u32, workers, fetch| {
        let mut engine = Engine::new(toys(count, 50), Plan::uniform(count as usize, NEAR));
        let options = Options { fetch, ..options(workers, true) };
        engine.run(SimTime::from_secs(1), &options, |_| Verdict::Continue);
        engine.into_nodes().into_iter().map(|(_, toy)| toy.seen).collect::<Trace>()
    };
    assert_eq!(seen(5, 1, Some(fetch)), seen(5, 1, None));
    assert_eq!(FETCHED.load(Relaxed), 0, "five are still in the cache");
    let expected = seen(600, 1, None);
    for workers in [1, 2, 5] {
        let before = FETCHED.load(Relaxed);
        assert_eq!(seen(600, workers, Some(fetch)), expected, "{workers} workers");
        assert!(workers > 1 || FETCHED.load(Relaxed) > before, "six hundred are not");
    }
}

impl std::fmt::Debug for Options<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "workers {}, stealing {}, spinning {}", self.workers, self.stealing, self.spinning)
    }
}

#[test]
fn stops_at_the_stop_time_and_when_told() {
    let stop = SimTime::from_nanos(2_000_000);
    let mut engine = Engine::new(toys(5, 100), Plan::uniform(5, NEAR));
    assert_eq!(engine.run(stop, &options(2, true), |_| Verdict::Continue), Ending::StopTime);
    let toys_then = engine.into_nodes();
    assert!(toys_then.iter().all(|(_, toy)| toy.seen.iter().all(|(key, _)| key.time < stop)));
    assert!(toys_then.iter().any(|(_, toy)| toy.next_event().is_some()));

    let mut engine = Engine::new(toys(5, 100), Plan::uniform(5, NEAR));
    let windows = AtomicUsize::new(0);
    let ending = engine.run(stop, &options(2, true), |_| {
        if windows.fetch_add(1, Relaxed) == 3 { Verdict::Stop } else { Verdict::Continue }
    });
    assert_eq!((ending, windows.into_inner()), (Ending::Stopped, 4));
}

/// No event after the end is executed, although some nodes could run far ahead of it.
#[test]
fn all_finished_ends_at_the_same_time_however_it_is_run() {
    let end = SimTime::from_nanos(700_000);
    let run = |plan: Plan, workers| {
        let mut nodes = toys(8, u64::MAX);
        for toy in &mut nodes {
            toy.rest = Some(SimTime::from_nanos(500_000 + 1_000 * u64::from(toy.id.0)));
        }
        nodes[7].rest = Some(end);
        let mut engine = Engine::new(nodes, plan);
        let ending = engine.run(SimTime::from_secs(60), &options(workers, true), |_| Verdict::Continue);
        assert_eq!((ending, engine.committed()), (Ending::AllFinished, end + LINGER));
        engine.into_nodes().into_iter().map(|(_, toy)| toy.seen).collect::<Trace>()
    };
    let expected = run(Plan::uniform(8, NEAR), 1);
    assert!(expected.iter().flatten().all(|(key, _)| key.time < end + LINGER));
    assert_eq!(run(clusters(8), 2), expected);
    assert_eq!(run(clusters(8), 3), expected);
}

#[test]
fn no_node_runs_further_ahead_than_the_linger() {
    let mut nodes = toys(2, 0);
    nodes[0].rest = Some(SimTime::ZERO);
    nodes[1].rest = Some(SimTime::ZERO);
    let late =
        EventKey { time: SimTime::from_secs(3), class: EventClass::Arrival, source: HostId(0), sequence: 9 };
    nodes[1].deliver(late, 0);
    let mut engine = Engine::new(nodes, Plan::uniform(2, SimDuration::from_secs(10)));
    assert_eq!(
        engine.run(SimTime::from_secs(60), &options(1, true), |_| Verdict::Continue),
        Ending::AllFinished
    );
    assert!(engine.into_nodes()[1].1.seen.iter().all(|(key, _)| *key != late));
}

#[test]
#[should_panic(expected = "within the window")]
fn a_message_that_breaks_the_lookahead_is_a_bug() {
    let plan = Plan::uniform(3, SimDuration::from_millis(1));
    Engine::new(toys(3, 100), plan).run(SimTime::from_secs(1), &options(2, true), |_| Verdict::Continue);
}

#[test]
#[should_panic(expected = "an unlucky number")]
fn a_panic_on_any_worker_ends_the_run() {
    let mut nodes = toys(40, 1_000);
    let key = EventKey {
        time: SimTime::from_nanos(3_000_000),
        class: EventClass::Arrival,
        source: HostId(1),
        sequence: 1_000_000,
    };
    nodes[33].deliver(key, 13_000_000);
    Engine::new(nodes, Plan::uniform(40, NEAR))
        .run(SimTime::from_secs(1), &options(4, true), |_| Verdict::Continue);
}

#[test]
fn a_profile_counts_and_its_estimates_fall_with_workers() {
    let clock = std::sync::atomic::AtomicU64::new(0);
    let meter = || clock.fetch_add(1_000, Relaxed);
    let options = Options { clock: Some(&meter), profiled: true, ..options(1, true) };
    let mut engine = Engine::new(toys(20, 100), Plan::uniform(20, NEAR));
    engine.run(SimTime::from_secs(1), &options, |_| Verdict::Continue);
    let profile = engine.profile().unwrap();
    assert_eq!(profile.messages, 20 * 100);
    assert_eq!(profile.run_ns, profile.runs * 1_000);
    let estimates: Vec<Estimate> = profile.estimates().collect();
    assert_eq!(estimates[0].at_least_ns, profile.run_ns + profile.prepare_ns);
    assert!(estimates.is_sorted_by(|a, b| a.at_least_ns >= b.at_least_ns && a.at_most_ns >= b.at_most_ns));
    assert!(estimates.iter().all(|e| profile.longest_ns <= e.at_least_ns && e.at_least_ns <= e.at_most_ns));
}

#[test]
fn no_nodes_end_at_once() {
    let mut engine: Engine<Toy> = Engine::new(Vec::new(), Plan::uniform(0, NEAR));
    assert_eq!(
        engine.run(SimTime::from_secs(5), &options(2, true), |_| Verdict::Continue),
        Ending::AllFinished
    );
    assert_eq!(engine.committed(), SimTime::ZERO + LINGER);
}
