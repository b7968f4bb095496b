//! Simulations connected by channels: toy hosts that forward numbered messages, some of them to the hosts of
//! another engine through gates.

use belljar_base::{EventClass, EventKey, HostId, Map, Seed, SimDuration, SimTime, Stream};
use belljar_cosim::{Channel, Error, Frame, Net, Parameters, Role, Setup, SyncMode, establish};
use belljar_engine::{Ending, Engine, Group, Node, Options, Outgoing, Plan, Verdict};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// Latency between hosts, between a host and its gate, and over the channel.
const NEAR: SimDuration = SimDuration::from_micros(10);
const TO_GATE: SimDuration = SimDuration::from_micros(1);
const CHANNEL: SimDuration = SimDuration::from_nanos(500);
/// Hosts of a side.
const HOSTS: u32 = 4;
const STOP: SimTime = SimTime::from_nanos(3_000_000);

/// Message to a host of either side, with the number of further hops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Message {
    to: u8,
    hops: u64,
}

struct Host {
    /// Number among the hosts of both sides.
    number: u32,
    stream: Stream,
    seen: Vec<(SimTime, u64)>,
}

struct Gate {
    channel: Channel<Net>,
    failure: Option<Error>,
}

enum Kind {
    Host(Host),
    Gate(Box<Gate>),
}

struct Toy {
    id: HostId,
    /// First host of this engine, and the number of its hosts; the node count without the gate.
    first: u32,
    count: u32,
    inbox: Map<EventKey, Message>,
    sequence: u64,
    kind: Kind,
    runs: Arc<AtomicU64>,
}

impl Toy {
    /// Sends a message to a host of this engine, or to the gate.
    fn send(
        &mut self,
        at: SimTime,
        message: Message,
        latency: SimDuration,
        out: &mut Vec<Outgoing<Message>>,
    ) {
        self.sequence += 1;
        let here = u32::from(message.to).wrapping_sub(self.first);
        let to = HostId(if here < self.count { here } else { self.count });
        let key = EventKey {
            time: at + latency,
            class: EventClass::Arrival,
            source: self.id,
            sequence: self.sequence,
        };
        out.push(Outgoing { to, key, message });
    }

    fn pass_on(&mut self, now: SimTime, message: Message, out: &mut Vec<Outgoing<Message>>) {
        let (first, count) = (self.first, self.count);
        let Kind::Host(host) = &mut self.kind else { return };
        host.seen.push((now, message.hops));
        if message.hops == 0 {
            return;
        }
        let to = host.stream.below(u64::from(2 * HOSTS)) as u32;
        let pause = SimDuration::from_picos(host.stream.below(20_000_000));
        let crosses = to / HOSTS != host.number / HOSTS;
        let latency = match crosses {
            false => NEAR,
            true if to.wrapping_sub(first) < count => SimDuration::from_nanos(2 * 1_000 + 500),
            true => TO_GATE,
        };
        self.send(now + pause, Message { to: to as u8, hops: message.hops - 1 }, latency, out);
    }

    fn exchange(&mut self, limit: SimTime, out: &mut Vec<Outgoing<Message>>) -> Result<(), Error> {
        let Kind::Gate(gate) = &mut self.kind else { return Ok(()) };
        while let Some(entry) = self.inbox.first_entry()
            && entry.key().time < limit
        {
            let (key, message) = entry.remove_entry();
            let bytes = [&[message.to][..], &message.hops.to_le_bytes()].concat();
            assert!(gate.channel.send(key.time, &Frame { port: 0, bytes })?);
        }
        assert!(gate.channel.sync(limit));
        let before = SimTime::from_picos(limit.as_picos() - 1);
        let mut arrived = Vec::new();
        while let Some((at, frame)) = gate.channel.poll(before)? {
            let hops = u64::from_le_bytes(frame.bytes[1..9].try_into().unwrap());
            arrived.push((at, Message { to: frame.bytes[0], hops }));
        }
        gate.channel.check_peer()?;
        for (at, message) in arrived {
            self.send(at, message, TO_GATE, out);
        }
        Ok(())
    }
}

impl Node for Toy {
    type Message = Message;

    fn deliver(&mut self, key: EventKey, message: Message) {
        assert!(self.inbox.insert(key, message).is_none());
    }
    fn run_until(&mut self, limit: SimTime, out: &mut Vec<Outgoing<Message>>) {
        self.runs.fetch_add(1, Relaxed);
        if let Kind::Gate(_) = self.kind {
            let done = self.exchange(limit, out);
            let Kind::Gate(gate) = &mut self.kind else { return };
            gate.failure = gate.failure.take().or(done.err());
            return;
        }
        while let Some(entry) = self.inbox.first_entry()
            && entry.key().time < limit
        {
            let (key, message) = entry.remove_entry();
            self.pass_on(key.time, message, out);
        }
    }
    fn next_event(&self) -> Option<SimTime> {
        let horizon = match &self.kind {
            Kind::Host(_) => SimTime::MAX,
            Kind::Gate(gate) => gate.channel.horizon(),
        };
        let first = self.inbox.first_key_value().map_or(SimTime::MAX, |(key, _)| key.time);
        Some(first.min(horizon)).filter(|at| *at < SimTime::MAX)
    }
    fn finished_at(&self) -> Option<SimTime> {
        None
    }
}

fn toy(id: u32, first: u32, count: u32, kind: Kind) -> Toy {
    Toy { id: HostId(id), first, count, inbox: Map::new(), sequence: 0, kind, runs: Arc::default() }
}

/// Hosts `first` to `first + count`, each with a message to forward.
fn hosts(first: u32, count: u32, hops: u64) -> Vec<Toy> {
    let host = |n: u32| {
        let stream = Seed(5).stream(&["toy", &n.to_string()]);
        let mut toy = toy(n - first, first, count, Kind::Host(Host { number: n, stream, seen: Vec::new() }));
        let source = HostId(u32::MAX - n);
        let key =
            EventKey { time: SimTime::from_nanos(n.into()), class: EventClass::Arrival, source, sequence: 0 };
        toy.deliver(key, Message { to: n as u8, hops });
        toy
    };
    (first..first + count).map(host).collect()
}

fn socket() -> PathBuf {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let name = format!("belljar-engine-{}-{}", std::process::id(), NUMBER.fetch_add(1, Relaxed));
    std::env::temp_dir().join(name)
}

fn channel(role: Role, socket: &Path) -> Channel<Net> {
    let parameters = Parameters {
        sync: SyncMode::Required,
        latency: CHANNEL,
        sync_interval: CHANNEL,
        slots: 4096,
        ..Parameters::new::<Net>("peer", role, socket)
    };
    let setup = Setup::new(parameters).unwrap();
    establish::<Net, Error>(vec![setup], Duration::from_secs(120), || Ok(())).unwrap().remove(0)
}

/// Nodes of a side: its hosts, then its gate.
fn side(side: u32, hops: u64, channel: Channel<Net>) -> Vec<Toy> {
    let mut nodes = hosts(side * HOSTS, HOSTS, hops);
    let gate = Gate { channel, failure: None };
    nodes.push(toy(HOSTS, side * HOSTS, HOSTS, Kind::Gate(Box::new(gate))));
    nodes
}

fn alone(n: u32, lookahead: SimDuration) -> Group {
    Group { members: vec![HostId(n)], inner: lookahead, lookahead }
}

/// Plan of a side, with its nodes separate or in one group.
fn plan(grouped: bool) -> Plan {
    if grouped {
        let members = (0..=HOSTS).map(HostId).collect();
        return Plan::new(vec![Group { members, inner: TO_GATE, lookahead: SimDuration::from_secs(1) }]);
    }
    Plan::new((0..=HOSTS).map(|n| alone(n, TO_GATE)).collect())
}

type Trace = Vec<Vec<(SimTime, u64)>>;

fn traces(nodes: Vec<(HostId, Toy)>) -> Trace {
    let host = |toy: Toy| match toy.kind {
        Kind::Host(host) => Some(host.seen),
        Kind::Gate(gate) => {
            assert_eq!(gate.channel.counts().late, 0);
            assert!(gate.failure.is_none_or(|error| error.to_string().contains("closed the channel")));
            None
        }
    };
    nodes.into_iter().filter_map(|(_, toy)| host(toy)).collect()
}

fn options(workers: usize) -> Options<'static> {
    Options { workers, stealing: true, ..Options::default() }
}

/// Trace with all hosts in one engine, without a channel.
fn uncut() -> Trace {
    let mut engine = Engine::new(hosts(0, 2 * HOSTS, 120), Plan::uniform(2 * HOSTS as usize, TO_GATE));
    assert_eq!(engine.run(STOP, &options(1), |_| Verdict::Continue), Ending::StopTime);
    traces(engine.into_nodes())
}

/// Trace of both sides, each with its engine and thread.
fn cut(grouped: bool, workers: usize, stealing: bool) -> Trace {
    let socket = socket();
    let run = |number: u32| {
        let role = if number == 0 { Role::Listen } else { Role::Connect };
        let nodes = side(number, 120, channel(role, &socket));
        let mut engine = Engine::new(nodes, plan(grouped));
        let options = Options { stealing, ..options(workers) };
        assert_eq!(engine.run(STOP, &options, |_| Verdict::Continue), Ending::StopTime);
        traces(engine.into_nodes())
    };
    std::thread::scope(|scope| {
        let other = scope.spawn(|| run(1));
        let mut all = run(0);
        all.extend(other.join().unwrap());
        all
    })
}

#[test]
fn a_simulation_cut_by_a_channel_is_the_same_to_the_picosecond() {
    let expected = uncut();
    assert!(expected.iter().map(Vec::len).sum::<usize>() > 500);
    for grouped in [false, true] {
        for (workers, stealing) in [(1, true), (2, true), (2, false), (3, true)] {
            let what = format!("grouped: {grouped}, {workers} workers, stealing: {stealing}");
            assert_eq!(cut(grouped, workers, stealing), expected, "{what}");
        }
    }
}

/// A host with a lookahead of one second runs once in a window, however many rounds the channel takes.
#[test]
fn hosts_far_from_a_channel_are_not_run_more_often() {
    let socket = socket();
    let peer = |socket: PathBuf| {
        let mut engine = Engine::new(side(1, 0, channel(Role::Connect, &socket)), plan(true));
        engine.run(STOP, &options(1), |_| Verdict::Continue)
    };
    let thread = {
        let socket = socket.clone();
        std::thread::spawn(move || peer(socket))
    };
    let mut nodes = side(0, 40, channel(Role::Listen, &socket));
    let mut far = hosts(2 * HOSTS, 1, 0).remove(0);
    far.id = HostId(HOSTS + 1);
    for n in 1..3_000_u64 {
        let key = EventKey {
            time: SimTime::from_nanos(n * 1_000),
            class: EventClass::Timer,
            source: far.id,
            sequence: n,
        };
        far.deliver(key, Message { to: 0, hops: 0 });
    }
    let (runs, gate_runs) = (far.runs.clone(), nodes[HOSTS as usize].runs.clone());
    nodes.push(far);
    let mut groups = plan(true).groups().to_vec();
    groups.push(alone(HOSTS + 1, SimDuration::from_secs(1)));
    let mut engine = Engine::new(nodes, Plan::new(groups));
    assert_eq!(engine.run(STOP, &options(1), |_| Verdict::Continue), Ending::StopTime);
    thread.join().unwrap();
    let (runs, gate_runs) = (runs.load(Relaxed), gate_runs.load(Relaxed));
    assert!(gate_runs > 1_000, "{gate_runs}");
    assert!(runs <= 1 + gate_runs / 100, "{runs} runs of the far host, {gate_runs} of the gate");
}

#[test]
fn a_peer_that_is_silent_does_not_keep_the_observer_from_stopping() {
    let socket = socket();
    let silent = {
        let socket = socket.clone();
        std::thread::spawn(move || channel(Role::Connect, &socket))
    };
    let nodes = side(0, 120, channel(Role::Listen, &socket));
    let silent = silent.join().unwrap();
    let mut engine = Engine::new(nodes, plan(true));
    let asked = AtomicU32::new(0);
    let ending = engine.run(STOP, &options(2), |_| {
        if asked.fetch_add(1, Relaxed) < 10 { Verdict::Continue } else { Verdict::Stop }
    });
    assert_eq!(ending, Ending::Stopped);
    assert!(engine.committed() <= SimTime::ZERO + CHANNEL);
    drop(silent);
}

#[test]
fn a_peer_that_goes_away_is_noticed_and_the_run_goes_on_without() {
    let socket = socket();
    let gone = {
        let socket = socket.clone();
        std::thread::spawn(move || {
            let mut channel = channel(Role::Connect, &socket);
            channel.sync(SimTime::ZERO);
        })
    };
    let nodes = side(0, 120, channel(Role::Listen, &socket));
    gone.join().unwrap();
    let mut engine = Engine::new(nodes, plan(false));
    assert_eq!(engine.run(STOP, &options(2), |_| Verdict::Continue), Ending::StopTime);
    let (_, gate) = engine.into_nodes().pop().unwrap();
    let Kind::Gate(gate) = gate.kind else { panic!("the gate is the last") };
    assert!(gate.failure.unwrap().to_string().starts_with("peer: it closed the channel"));
}
