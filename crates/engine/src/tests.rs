//! The engine over toy nodes that pass numbered messages on.

use super::*;
use belljar_base::{EventClass, Map, Seed, Stream};

const LATENCY: SimDuration = SimDuration::from_micros(10);

/// Sends each message that it gets on to a random node after a random time.
struct Toy {
    id: HostId,
    count: u32,
    inbox: Map<EventKey, u64>,
    sequence: u64,
    stream: Stream,
    seen: Vec<(EventKey, u64)>,
}

impl Node for Toy {
    type Message = u64;

    fn deliver(&mut self, key: EventKey, message: u64) {
        assert!(self.inbox.insert(key, message).is_none());
    }
    fn run_until(&mut self, limit: SimTime, out: &mut Vec<Outgoing<u64>>) {
        while let Some(entry) = self.inbox.first_entry()
            && entry.key().time < limit
        {
            let (key, hops) = entry.remove_entry();
            self.seen.push((key, hops));
            if hops == 0 {
                continue;
            }
            self.sequence += 1;
            let time = key.time + LATENCY + SimDuration::from_nanos(self.stream.below(50_000));
            let key = EventKey { time, class: EventClass::Arrival, source: self.id, sequence: self.sequence };
            let to = HostId(self.stream.below(u64::from(self.count)) as u32);
            out.push(Outgoing { to, key, message: hops - 1 });
        }
    }
    fn next_event(&self) -> Option<SimTime> {
        self.inbox.first_key_value().map(|(key, _)| key.time)
    }
    fn finished_at(&self) -> Option<SimTime> {
        None
    }
}

fn toys(count: u32) -> Vec<Toy> {
    let mut toys: Vec<Toy> = (0..count)
        .map(|n| Toy {
            id: HostId(n),
            count,
            inbox: Map::new(),
            sequence: 0,
            stream: Seed(1).stream(&["toy", &n.to_string()]),
            seen: Vec::new(),
        })
        .collect();
    for toy in &mut toys {
        toy.sequence += 1;
        let key = EventKey { time: SimTime::ZERO, class: EventClass::Arrival, source: toy.id, sequence: 1 };
        toy.deliver(key, 100);
    }
    toys
}

type Trace = Vec<Vec<(EventKey, u64)>>;

fn trace(lookahead: SimDuration) -> Trace {
    let mut engine = Engine::new(toys(20), lookahead);
    assert_eq!(engine.run(SimTime::from_secs(1), |_| Verdict::Continue), Ending::StopTime);
    engine.nodes_mut().iter_mut().map(|toy| std::mem::take(&mut toy.seen)).collect()
}

#[test]
fn every_message_arrives_and_each_node_sees_them_in_key_order() {
    let trace = trace(LATENCY);
    assert_eq!(trace.iter().map(Vec::len).sum::<usize>(), 20 * 101);
    for seen in trace {
        assert!(seen.is_sorted_by(|a, b| a.0 < b.0));
    }
}

#[test]
fn the_size_of_windows_makes_no_difference() {
    assert_eq!(trace(LATENCY), trace(SimDuration::from_nanos(137)));
}

#[test]
fn stops_at_the_stop_time_and_when_told() {
    let stop = SimTime::from_nanos(200_000);
    let mut engine = Engine::new(toys(5), LATENCY);
    assert_eq!(engine.run(stop, |_| Verdict::Continue), Ending::StopTime);
    assert!(engine.nodes().iter().all(|toy| toy.seen.iter().all(|(key, _)| key.time < stop)));
    assert!(engine.nodes().iter().any(|toy| toy.next_event().is_some()));

    let mut engine = Engine::new(toys(5), LATENCY);
    let mut windows = 0;
    let ending = engine.run(stop, |_| {
        windows += 1;
        if windows == 3 { Verdict::Stop } else { Verdict::Continue }
    });
    assert_eq!((ending, windows), (Ending::Stopped, 3));
}

#[test]
#[should_panic(expected = "within the window")]
fn a_message_that_breaks_the_lookahead_is_a_bug() {
    Engine::new(toys(3), SimDuration::from_millis(1)).run(SimTime::from_secs(1), |_| Verdict::Continue);
}
