//! Account of the frames: in random scenes every frame is delivered, dropped for a reason, or held.

use crate::*;
use belljar_base::{Map, PacketAccount, Seed, SimDuration, SimTime, Stream};
use belljar_net::Packet;
use belljar_wire::ethernet::Address;

const STATIONS: u64 = 8;
/// Offset of a frame's number, by which the test knows it.
const NUMBER: usize = 14;

fn address(n: u64) -> Address {
    Address([2, 0, 0, 0, 0, n as u8])
}

/// Addressee of a frame.
#[derive(Clone, Copy, PartialEq, Eq)]
enum To {
    Station(u64),
    All,
    Unknown,
}

fn frame(from: u64, to: To, number: u32, bytes: usize) -> Packet {
    let to = match to {
        To::Station(n) => address(n).0,
        To::All => [0xff; 6],
        To::Unknown => address(99).0,
    };
    let mut all = [&to[..], &address(from).0, &[8, 0], &number.to_be_bytes()].concat();
    all.resize(bytes.max(all.len()), 0);
    Packet::new(all)
}

fn number(packet: &Packet) -> u32 {
    let bytes = packet.bytes()[NUMBER..NUMBER + 4].try_into();
    bytes.map(u32::from_be_bytes).unwrap_or_default()
}

/// Stations of which every second one moves, over an area that is larger than the range.
fn tracks(stream: &mut Stream) -> Vec<Track> {
    let point = |stream: &mut Stream| Point::flat(700.0 * stream.unit(), 50.0 * stream.unit());
    let track = |n: u64| {
        let waypoints = (0..1 + 3 * (n % 2))
            .map(|leg| Waypoint { at: SimTime::from_nanos(leg * 100_000_000), to: point(stream) });
        Track::new(waypoints.collect()).unwrap_or_else(|| panic!("waypoints in order of time"))
    };
    (0..STATIONS).map(track).collect()
}

/// Channel with the frames passed to it and the outputs taken from it.
struct Scene {
    medium: Medium,
    now: SimTime,
    name: String,
    /// Number of deliveries of each frame.
    frames: Vec<u64>,
    sent: u64,
}

impl Scene {
    fn new(settings: Settings, name: String, stream: &mut Stream) -> Scene {
        let stations: Vec<_> = (0..STATIONS).map(|n| (format!("s{n}"), address(n))).collect();
        let medium = Medium::new(settings, tracks(stream), &stations, Seed(1), &name);
        Scene { medium, now: SimTime::ZERO, name, frames: Vec::new(), sent: 0 }
    }

    fn send(&mut self, from: u64, to: To, bytes: usize) {
        let packet = frame(from, to, self.frames.len() as u32, bytes);
        self.frames.push(0);
        self.medium.send(self.now, from as usize, packet);
        self.account();
    }

    fn set_carrier(&mut self, station: u64, carrier: bool) {
        self.medium.set_carrier(station as usize, carrier);
        self.account();
    }

    fn poll(&mut self) {
        while let Some(output) = self.medium.poll() {
            self.sent += 1;
            if let Output::Received { packet, .. } = output {
                self.frames[number(&packet) as usize] += 1;
            }
            self.account();
        }
    }

    fn run(&mut self, until: SimTime) {
        while let Some(at) = self.medium.next_timeout().filter(|at| *at <= until) {
            self.now = at;
            self.medium.on_timeout(at);
            self.account();
            self.poll();
        }
        self.now = self.now.max(until);
    }

    /// Account, which balances and agrees with the inputs and outputs.
    fn account(&self) -> PacketAccount {
        let account = self.medium.packet_account();
        assert_eq!(account.imbalance(), 0, "{} at {}: {account:?}", self.name, self.now);
        assert_eq!((account.received, account.sent), (self.frames.len() as u64, self.sent), "{}", self.name);
        account
    }
}

/// Runs a random scene until its queues are empty; returns its account and the deliveries of each frame.
fn random_scene(name: String, broadcasts: bool) -> (PacketAccount, Vec<u64>) {
    let mut stream = Seed(7).stream(&["scene", &name]);
    let settings = Settings {
        propagation: Propagation::Range {
            range: 250.0,
            carrier_sense: [250.0, 400.0][stream.below(2) as usize],
        },
        capture: (stream.below(2) == 0).then_some(6.0),
        loss: [0.05, 0.5][stream.below(2) as usize],
        retries: 3,
        queue: 4,
        ..Settings::default()
    };
    let mut scene = Scene::new(settings, name, &mut stream);
    for _ in 0..600 {
        let station = stream.below(STATIONS);
        match stream.below(12) {
            0 => scene.set_carrier(station, false),
            1..4 => scene.set_carrier(station, true),
            4..8 => {
                let wait = SimDuration::from_micros(stream.below(1_500));
                scene.run(scene.now + wait);
            }
            _ => {
                let to = match stream.below(8) {
                    0 => To::Unknown,
                    1..4 if broadcasts => To::All,
                    _ => To::Station(stream.below(STATIONS)),
                };
                for _ in 0..=stream.below(3) {
                    scene.send(station, to, 60 + stream.below(1_000) as usize);
                }
            }
        }
    }
    scene.run(SimTime::from_secs(100));
    let account = scene.account();
    assert_eq!(account.held, 0, "{account:?}");
    (account, scene.frames)
}

fn add(totals: &mut Map<&'static str, u64>, counts: &Map<&'static str, u64>) {
    for (name, count) in counts {
        *totals.entry(name).or_default() += count;
    }
}

#[test]
fn every_frame_of_random_scenes_has_an_end() {
    let mut totals = Map::new();
    for seed in 0..40 {
        let (account, _) = random_scene(format!("mixed {seed}"), true);
        add(&mut totals, &account.originated);
        add(&mut totals, &account.dropped);
    }
    let names =
        ["broadcast", "returned", "duplicates", "link_down", "queue_full", "given_up", "out_of_range"];
    for name in names.into_iter().chain(["collided", "deaf", "lost"]) {
        assert!(totals.get(name).is_some_and(|count| *count > 0), "no frame '{name}': {totals:?}");
    }
}

#[test]
fn unicast_frames_are_dropped_if_and_only_if_they_were_never_delivered() {
    for seed in 0..40 {
        let (account, deliveries) = random_scene(format!("unicast {seed}"), false);
        let undelivered = deliveries.iter().filter(|count| **count == 0).count() as u64;
        assert_eq!(account.dropped.values().sum::<u64>(), undelivered, "{seed}: {account:?}");
        let again: u64 = deliveries.iter().map(|count| count.saturating_sub(1)).sum();
        assert_eq!(account.originated.get("duplicates").copied().unwrap_or(0), again, "{seed}");
    }
}
