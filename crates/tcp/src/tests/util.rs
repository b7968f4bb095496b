//! Fixture: two connections, a link with a rate, a delay and faults, and the applications at its ends, in
//! virtual time.

use crate::{Config, Connection, Disposition, Ecn, Events, FastOpen, Repr, State};
use belljar_base::{Map, Seed, SimDuration, SimTime, Stream};
use belljar_wire::tcp::{Packet, fill_checksum};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

/// Bytes of IPv4 and Ethernet headers with preamble and gap, the overhead of a segment on the link.
const OVERHEAD: usize = 20;

/// Properties of a link, equal in both directions.
#[derive(Clone, Debug)]
pub(crate) struct Link {
    pub rate: u64,
    pub delay: SimDuration,
    /// Queue limit in bytes, above which packets are dropped.
    pub queue: usize,
    /// Queue length in bytes above which ECN-capable packets are marked.
    pub mark_above: usize,
    pub loss: f64,
    /// Length above which segments are dropped silently.
    pub swallows_above: usize,
    /// Probability that a bit of a segment is flipped.
    pub damage: f64,
    pub duplicate: f64,
    /// Probability that a segment is delayed, and the maximum delay.
    pub reorder: f64,
    pub reorder_by: SimDuration,
}

impl Link {
    pub(crate) fn new(rate: u64, delay: SimDuration) -> Link {
        Link {
            rate,
            delay,
            queue: usize::MAX,
            mark_above: usize::MAX,
            loss: 0.0,
            swallows_above: usize::MAX,
            damage: 0.0,
            duplicate: 0.0,
            reorder: 0.0,
            reorder_by: SimDuration::ZERO,
        }
    }
}

/// Endpoint with its application.
pub(crate) struct End {
    pub tcp: Connection,
    /// Length of the application's data; each byte is a function of its position.
    pub to_send: u64,
    pub written: u64,
    pub received: u64,
    /// True if the application reads incoming data.
    pub reads: bool,
    /// Maximum bytes per read, and the pause after it.
    pub at_once: usize,
    pub pause: SimDuration,
    reads_again: SimTime,
    /// True to shut down after everything is written.
    pub closes: bool,
    pub events: Events,
    device_free_at: SimTime,
    device_queue: usize,
    /// Maximum queue length in bytes, and the number of marked packets.
    pub longest_queue: usize,
    pub marked: u64,
    pattern: Vec<u8>,
}

/// Segment seen on the wire: time, sending end, header, payload length.
pub(crate) type Seen = (SimTime, usize, Repr, usize);

/// Filter called with time, sending end, header and payload length.
pub(crate) type Filter = Box<dyn FnMut(SimTime, usize, &Repr, usize) -> bool>;

enum Happening {
    Arrive(usize, Vec<u8>, Ecn),
    Departed(usize, usize),
}

pub(crate) struct World {
    pub now: SimTime,
    pub ends: [End; 2],
    pub link: Link,
    stream: Stream,
    agenda: Map<(SimTime, u64), Happening>,
    sequence: u64,
    pub trace: Vec<Seen>,
    pub tracing: bool,
    /// Filter called for each segment about to enter the link: true drops it.
    pub filter: Filter,
    pub segments: u64,
    buffer: Vec<u8>,
}

pub(crate) fn address(end: usize) -> SocketAddr {
    SocketAddr::new(IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1 + end as u8)), [40_000, 80][end])
}

/// Period of the pattern of an end's data: a prime, so that no power of two or segment size hides a shift.
const PERIOD: u64 = 65_521;

/// Pattern of one end's data, long enough for a chunk to start anywhere in it.
fn pattern(seed: u64, end: usize) -> Vec<u8> {
    let mut pattern = vec![0; PERIOD as usize];
    Seed(seed).stream(&["tcp-test", ["data-0", "data-1"][end]]).fill(&mut pattern);
    pattern.extend_from_within(..CHUNK);
    pattern
}

/// Bytes that an application reads or writes at once.
const CHUNK: usize = 16 * 1024;

impl End {
    fn new(tcp: Connection, pattern: Vec<u8>) -> End {
        End {
            tcp,
            to_send: 0,
            written: 0,
            received: 0,
            reads: true,
            at_once: CHUNK,
            pause: SimDuration::ZERO,
            reads_again: SimTime::ZERO,
            closes: false,
            events: Events::empty(),
            device_free_at: SimTime::ZERO,
            device_queue: 0,
            longest_queue: 0,
            marked: 0,
            pattern,
        }
    }

    /// Runs the application: writes what fits, reads and checks the data.
    fn run(&mut self, peer: &[u8], now: SimTime) {
        if matches!(self.tcp.state(), State::SynSent | State::SynReceived) && !self.tcp.is_unconfirmed() {
            return;
        }
        while self.written < self.to_send && self.tcp.writable_bytes() > 0 {
            let len = (self.to_send - self.written).min(CHUNK as u64) as usize;
            let at = (self.written % PERIOD) as usize;
            let n = self.tcp.send(&self.pattern[at..at + len], now);
            self.written += n as u64;
            if n == 0 {
                break;
            }
        }
        if self.written < self.to_send {
            // Like an application that polls for writability.
            let _ = self.tcp.readiness();
        } else if self.closes {
            self.tcp.shutdown_write(now);
        }
        let mut chunk = [0u8; CHUNK];
        while self.reads && now >= self.reads_again {
            let n = self.tcp.recv(&mut chunk[..self.at_once], now);
            if n == 0 {
                break;
            }
            self.reads_again = now + self.pause;
            let at = (self.received % PERIOD) as usize;
            assert!(
                chunk[..n] == peer[at..at + n],
                "wrong bytes at {}..{}",
                self.received,
                self.received + n as u64
            );
            self.received += n as u64;
        }
    }
}

impl World {
    /// World in which end 0 connects to end 1; the arrival of the SYN creates the passive end.
    pub(crate) fn new(link: Link, configs: [Config; 2], seed: u64) -> World {
        let mut stream = Seed(seed).stream(&["tcp-test", "isn"]);
        let isns = [stream.next_u32(), stream.next_u32()];
        let mut client =
            Connection::connect(configs[0].clone(), address(0), address(1), isns[0], SimTime::ZERO);
        let mut bytes = Vec::new();
        client.poll_transmit(SimTime::ZERO, 0, &mut bytes).expect("a SYN");
        let syn = Repr::parse(&Packet::new_checked(&bytes[..]).unwrap());
        let delay = link.delay;
        let now = SimTime::ZERO + delay;
        let server = Connection::accept_syn(configs[1].clone(), address(1), address(0), &syn, isns[1], now);
        World::with(link, [client, server], now, seed)
    }

    /// World as of [`new`](Self::new) with up to `len` bytes in the SYN, accepted by the passive end if the
    /// cookie is `good`.
    pub(crate) fn opened_fast(link: Link, configs: [Config; 2], seed: u64, len: usize, good: bool) -> World {
        let mut stream = Seed(seed).stream(&["tcp-test", "isn"]);
        let isns = [stream.next_u32(), stream.next_u32()];
        let data = pattern(seed, 0);
        let cookie = FastOpen::new(&[7; 8]);
        let start = SimTime::ZERO;
        let mut client = Connection::connect(configs[0].clone(), address(0), address(1), isns[0], start);
        let taken = client.fast_open(cookie, None, &data[..len.min(CHUNK)], start);
        let mut bytes = Vec::new();
        client.poll_transmit(start, 0, &mut bytes).expect("a SYN");
        let packet = Packet::new_checked(&bytes[..]).unwrap();
        let (syn, payload) = (Repr::parse(&packet), packet.payload());
        assert_eq!((syn.options.fast_open, payload.len()), (cookie, taken));
        let (config, now) = (configs[1].clone(), start + link.delay);
        let (here, there) = (address(1), address(0));
        let server = if good {
            Connection::accept_fast_open(config, here, there, &syn, payload, None, isns[1], now)
        } else {
            Connection::accept_syn(config, here, there, &syn, isns[1], now)
        };
        let mut world = World::with(link, [client, server], now, seed);
        world.ends[0].written = taken as u64;
        world
    }

    pub(crate) fn with(link: Link, [a, b]: [Connection; 2], now: SimTime, seed: u64) -> World {
        World {
            now,
            ends: [End::new(a, pattern(seed, 0)), End::new(b, pattern(seed, 1))],
            link,
            stream: Seed(seed).stream(&["tcp-test", "link"]),
            agenda: Map::new(),
            sequence: 0,
            trace: Vec::new(),
            tracing: false,
            filter: Box::new(|_, _, _, _| false),
            segments: 0,
            buffer: Vec::new(),
        }
    }

    pub(crate) fn simple() -> World {
        let link = Link::new(100_000_000, SimDuration::from_millis(10));
        let mut world = World::new(link, [Config::default(), Config::default()], 1);
        world.tracing = true;
        world
    }

    fn schedule(&mut self, at: SimTime, what: Happening) {
        self.sequence += 1;
        self.agenda.insert((at, self.sequence), what);
    }

    /// Runs an end's application and transmits its segments.
    pub(crate) fn flush(&mut self, end: usize) {
        let [first, second] = &mut self.ends;
        let (this, peer) = if end == 0 { (first, second) } else { (second, first) };
        this.run(&peer.pattern, self.now);
        loop {
            let mut bytes = std::mem::take(&mut self.buffer);
            bytes.clear();
            let this = &mut self.ends[end];
            let queued = this.device_queue;
            let Some(meta) = this.tcp.poll_transmit(self.now, queued, &mut bytes) else {
                self.buffer = bytes;
                break;
            };
            self.transmit(end, &bytes, meta.payload_len, meta.ecn);
            self.buffer = bytes;
        }
        self.ends[end].events |= self.ends[end].tcp.take_events();
    }

    fn transmit(&mut self, end: usize, bytes: &[u8], payload_len: usize, mut ecn: Ecn) {
        self.segments += 1;
        let packet = Packet::new_checked(bytes).expect("a segment");
        let repr = Repr::parse(&packet);
        assert_eq!((packet.payload().len(), packet.checksum()), (payload_len, 0));
        if self.tracing {
            self.trace.push((self.now, end, repr, payload_len));
        }
        let wire = bytes.len() + OVERHEAD;
        let now = self.now;
        let this = &mut self.ends[end];
        if this.device_queue + wire > self.link.queue {
            return;
        }
        if this.device_queue > self.link.mark_above && ecn != Ecn::NotEct {
            ecn = Ecn::Ce;
            this.marked += 1;
        }
        this.device_queue += wire;
        this.longest_queue = this.longest_queue.max(this.device_queue);
        this.device_free_at =
            this.device_free_at.max(now) + SimDuration::serialisation(wire as u64, self.link.rate);
        let departs = this.device_free_at;
        self.schedule(departs, Happening::Departed(end, wire));
        let swallowed = bytes.len() > self.link.swallows_above;
        if (self.filter)(now, end, &repr, payload_len) || self.stream.chance(self.link.loss) || swallowed {
            return;
        }
        let copies = 1 + usize::from(self.stream.chance(self.link.duplicate));
        for _ in 0..copies {
            let mut at = departs + self.link.delay;
            if self.stream.chance(self.link.reorder) {
                at += SimDuration::from_picos(self.stream.below(self.link.reorder_by.as_picos()));
            }
            let mut copy = bytes.to_vec();
            if self.link.damage > 0.0 {
                fill_checksum(address(end).ip(), address(1 - end).ip(), &mut copy);
            }
            if self.stream.chance(self.link.damage) {
                let bit = self.stream.below(8 * copy.len() as u64) as usize;
                copy[bit / 8] ^= 1 << (bit % 8);
            }
            self.schedule(at, Happening::Arrive(1 - end, copy, ecn));
        }
    }

    /// Processes the next event; returns false if there is none up to `until`.
    pub(crate) fn step(&mut self, until: SimTime) -> bool {
        let arrival = self.agenda.first_key_value().map(|(&(at, _), _)| at);
        let timers = self.ends.iter().filter_map(|end| end.tcp.next_timer()).min();
        let reader = self.ends.iter().filter(|end| end.reads && end.tcp.readable_bytes() > 0);
        let reader = reader.map(|end| end.reads_again).filter(|at| *at > self.now).min();
        let Some(at) = arrival.into_iter().chain(timers).chain(reader).min().filter(|&at| at <= until) else {
            return false;
        };
        assert!(at >= self.now, "a timer lies in the past: {at} at {}", self.now);
        self.now = at;
        if arrival == Some(at) {
            let (_, what) = self.agenda.pop_first().expect("just seen");
            match what {
                Happening::Departed(end, wire) => {
                    self.ends[end].device_queue -= wire;
                    self.flush(end);
                }
                Happening::Arrive(end, bytes, ecn) => {
                    // Damaged segments are dropped, as by the network stack.
                    let Ok(packet) = Packet::new_checked(&bytes[..]) else { return true };
                    if self.link.damage > 0.0
                        && !packet.verify_checksum(address(1 - end).ip(), address(end).ip())
                    {
                        return true;
                    }
                    let repr = Repr::parse(&packet);
                    let disposition = self.ends[end].tcp.on_segment(&repr, packet.payload(), ecn, at);
                    assert_eq!(disposition, Disposition::Consumed);
                    self.flush(end);
                }
            }
            return true;
        }
        for end in 0..2 {
            if reader == Some(at) && self.ends[end].reads_again == at {
                self.flush(end);
            }
            if self.ends[end].tcp.next_timer() == Some(at) {
                self.ends[end].tcp.on_timer(at);
                assert_ne!(self.ends[end].tcp.next_timer(), Some(at), "a timer that does not advance");
                self.flush(end);
            }
        }
        true
    }

    /// Runs until no event is left or `until` is reached.
    pub(crate) fn run_until(&mut self, until: SimTime) {
        self.flush(0);
        self.flush(1);
        while self.step(until) {}
        self.now = self.now.max(until);
    }

    pub(crate) fn run_for(&mut self, span: SimDuration) {
        self.run_until(self.now + span);
    }

    /// Runs while `going` is true; panics after `limit` of simulated time.
    pub(crate) fn run_while(&mut self, limit: SimTime, mut going: impl FnMut(&World) -> bool) {
        self.flush(0);
        self.flush(1);
        while going(self) {
            assert!(self.step(limit), "nothing more happens or the time is over at {}: {self:#?}", self.now);
        }
    }

    pub(crate) fn states(&self) -> [State; 2] {
        [self.ends[0].tcp.state(), self.ends[1].tcp.state()]
    }
}

impl std::fmt::Debug for World {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (i, end) in self.ends.iter().enumerate() {
            writeln!(
                f,
                "end {i}: written {} received {} {:?}",
                end.written,
                end.received,
                end.tcp.info(self.now)
            )?;
            writeln!(f, "  timers {:?} pending {:?}", end.tcp.timers, end.tcp.pending)?;
        }
        for (at, end, repr, len) in self.trace.iter().rev().take(20).rev() {
            writeln!(
                f,
                "{at} {end}: {} len {len} seq {} ack {} win {} {:?}",
                flags(repr),
                repr.seq,
                repr.ack,
                repr.window,
                repr.options.sack.as_slice()
            )?;
        }
        Ok(())
    }
}

fn flags(repr: &Repr) -> String {
    repr.flags.iter_names().map(|(name, _)| name).collect::<Vec<_>>().join("|")
}
