//! Comparison of the channel with closed-form results.

use crate::*;
use belljar_base::{Seed, SimDuration, SimTime};
use belljar_net::Packet;
use belljar_wire::ethernet::Address;

const BYTES: usize = 1_014;

fn address(n: usize) -> Address {
    Address([2, 0, 0, 0, (n >> 8) as u8, n as u8])
}
/// Frame of `bytes` bytes; broadcast if `to` is `None`.
fn frame(from: usize, to: Option<usize>, bytes: usize) -> Packet {
    let mut all = vec![0; bytes];
    all[..6].copy_from_slice(&to.map_or([0xff; 6], |to| address(to).0));
    all[6..12].copy_from_slice(&address(from).0);
    Packet::new(all)
}

/// Stations on a line, at positions in metres.
struct Line {
    medium: Medium,
    now: SimTime,
    received: Vec<(SimTime, usize, Packet)>,
    failed: Vec<(SimTime, usize)>,
}

impl Line {
    fn new(settings: Settings, metres: &[f64], seed: u64) -> Line {
        let tracks = metres.iter().map(|x| Track::still(Point::flat(*x, 0.0))).collect();
        let stations: Vec<_> = (0..metres.len()).map(|n| (format!("s{n}"), address(n))).collect();
        let medium = Medium::new(settings, tracks, &stations, Seed(seed), "air");
        Line { medium, now: SimTime::ZERO, received: Vec::new(), failed: Vec::new() }
    }
    fn send(&mut self, from: usize, to: Option<usize>) {
        self.medium.send(self.now, from, frame(from, to, BYTES));
    }
    /// Runs until a time; the senders in `saturated` always have a frame for their receivers.
    fn run(&mut self, until: SimTime, saturated: &[(usize, Option<usize>)]) {
        loop {
            for (from, to) in saturated {
                while self.medium.queue_len(*from) < 2 {
                    self.send(*from, *to);
                }
            }
            let Some(at) = self.medium.next_timeout().filter(|at| *at <= until) else { break };
            assert!(at >= self.now, "time goes back");
            self.now = at;
            self.medium.on_timeout(at);
            while let Some(output) = self.medium.poll() {
                match output {
                    Output::Received { station, packet } => self.received.push((at, station, packet)),
                    Output::Failed { station, .. } => self.failed.push((at, station)),
                }
            }
        }
        self.now = until;
    }
    fn acknowledged(&self, station: usize) -> f64 {
        self.medium.counters(station).acknowledged as f64
    }
}

fn s(n: u64) -> SimTime {
    SimTime::from_secs(n)
}
fn us(n: u64) -> SimDuration {
    SimDuration::from_micros(n)
}
fn near(found: f64, wanted: f64, share: f64) {
    assert!((found / wanted - 1.0).abs() < share, "{found} is not within {share} of {wanted}");
}

#[test]
fn a_frame_to_an_idle_medium_takes_its_airtime_and_is_acknowledged() {
    let settings = Settings::default();
    let mut line = Line::new(settings.clone(), &[0.0, 250.0, 251.0], 1);
    line.now = s(1);
    line.send(0, Some(1));
    line.run(s(2), &[]);
    let arrives = s(1) + settings.airtime(BYTES, true);
    assert_eq!(line.received, [(arrives, 1, frame(0, Some(1), BYTES))]);
    assert_eq!((line.acknowledged(0), line.medium.counters(0).retries), (1.0, 0));
    assert_eq!(line.medium.counters(1).airtime, settings.ack_airtime());
    line.send(0, None);
    line.run(s(3), &[]);
    let arrives = s(2) + settings.airtime(BYTES, false);
    assert_eq!(line.received[1..], [(arrives, 1, frame(0, None, BYTES))], "251 m is too far");
}

#[test]
fn a_saturated_sender_has_the_throughput_of_its_cycle() {
    let settings = Settings::default();
    let mut line = Line::new(settings.clone(), &[0.0, 10.0], 2);
    line.run(s(20), &[(0, Some(1))]);
    // DIFS, 15.5 slots on average, the frame, SIFS and the acknowledgement.
    let backoff = us(20 * 31).div(2);
    let cycle =
        settings.difs() + backoff + settings.airtime(BYTES, true) + settings.sifs + settings.ack_airtime();
    near(line.acknowledged(0), 20.0 / cycle.as_secs_f64(), 0.01);
    let mut line = Line::new(settings.clone(), &[0.0, 10.0], 2);
    line.run(s(20), &[(0, None)]);
    let cycle = settings.difs() + backoff + settings.airtime(BYTES, false);
    near(line.received.len() as f64, 20.0 / cycle.as_secs_f64(), 0.01);
    near(
        line.medium.counters(0).airtime.as_secs_f64(),
        20.0 * settings.airtime(BYTES, false).as_secs_f64() / cycle.as_secs_f64(),
        0.01,
    );
}

/// Saturation throughput of `n` stations within range of each other, in frames per second, by Bianchi,
/// Performance Analysis of the IEEE 802.11 Distributed Coordination Function, JSAC 2000, equations 7, 9 and
/// 13.
fn bianchi(settings: &Settings, n: i32) -> f64 {
    let (w, m) = (f64::from(settings.window[0] + 1), 5);
    let tau =
        |p: f64| 2.0 * (1.0 - 2.0 * p) / ((1.0 - 2.0 * p) * (w + 1.0) + p * w * (1.0 - (2.0 * p).powi(m)));
    // Collision probability by bisection; the derived probability decreases as it grows.
    let (mut low, mut high) = (0.0, 0.999);
    for _ in 0..200 {
        let p = (low + high) / 2.0;
        match 1.0 - (1.0 - tau(p)).powi(n - 1) > p {
            true => low = p,
            false => high = p,
        }
    }
    let tau = tau(low);
    let some = 1.0 - (1.0 - tau).powi(n);
    let one = f64::from(n) * tau * (1.0 - tau).powi(n - 1) / some;
    let exchange = settings.airtime(BYTES, true) + settings.sifs + settings.ack_airtime() + settings.difs();
    some * one / ((1.0 - some) * settings.slot.as_secs_f64() + some * exchange.as_secs_f64())
}

#[test]
fn saturated_stations_share_what_bianchi_says() {
    for n in [2, 5, 10, 20, 50] {
        let settings = Settings::default();
        let mut line = Line::new(settings.clone(), &vec![0.0; n + 1], n as u64);
        let senders: Vec<_> = (0..n).map(|from| (from, Some(n))).collect();
        line.run(s(10), &senders);
        let each: Vec<f64> = (0..n).map(|from| line.acknowledged(from)).collect();
        let sum: f64 = each.iter().sum();
        near(sum / 10.0, bianchi(&settings, n as i32), 0.04);
        // Jain's index of fairness.
        let index = sum * sum / (n as f64 * each.iter().map(|one| one * one).sum::<f64>());
        assert!(index > 0.93, "{n} stations: {index}");
    }
}

#[test]
fn hidden_stations_ruin_each_other_and_carrier_sense_saves_them() {
    let throughput = |carrier_sense| {
        let propagation = Propagation::Range { range: 250.0, carrier_sense };
        let mut line = Line::new(Settings { propagation, ..Settings::default() }, &[0.0, 200.0, 400.0], 3);
        line.run(s(20), &[(0, Some(1)), (2, Some(1))]);
        let lost: u64 = line.medium.counters(1).collided;
        (line.acknowledged(0) + line.acknowledged(2), lost, line.failed.len())
    };
    let ((hidden, collided, failed), (sensed, ..)) = (throughput(250.0), throughput(400.0));
    let settings = Settings::default();
    near(sensed / 20.0, bianchi(&settings, 2), 0.04);
    assert!(
        hidden < 0.7 * sensed && collided > 3_000 && failed > 10,
        "{hidden} of {sensed}, {collided}, {failed}"
    );
}

#[test]
fn capture_receives_the_stronger_frame() {
    let received = |capture, third| {
        let propagation = Propagation::LogDistance(LogDistance::default());
        let settings = Settings { propagation, capture, ..Settings::default() };
        let mut line = Line::new(settings, &[0.0, 20.0, third], 4);
        line.now = s(1);
        // Both stations find the medium idle.
        line.send(0, None);
        line.send(2, None);
        line.run(s(2), &[]);
        line.received.iter().map(|(_, station, packet)| (*station, packet.bytes()[11])).collect::<Vec<_>>()
    };
    // 110 m is beyond the reception range, but within the carrier sense range.
    assert_eq!(received(None, 130.0), []);
    assert_eq!(received(Some(10.0), 130.0), [(1, 0)], "22 dB stronger");
    assert_eq!(received(Some(10.0), 50.0), [], "5 dB stronger");
    assert_eq!(received(None, 171.0), [(1, 0)], "nothing is heard over 151 m");
}

#[test]
fn who_is_out_of_reach_is_given_up_after_the_retries() {
    let settings = Settings { retries: 3, ..Settings::default() };
    let mut line = Line::new(settings.clone(), &[0.0, 300.0], 5);
    line.send(0, Some(1));
    line.medium.send(s(0), 0, frame(0, Some(77), BYTES));
    line.run(s(1), &[]);
    let counters = *line.medium.counters(0);
    assert_eq!((counters.unicasts, counters.retries, counters.given_up), (2, 6, 2));
    assert_eq!(line.failed.iter().map(|(_, station)| *station).collect::<Vec<_>>(), [0, 0]);
    assert_eq!(line.received, []);
}

#[test]
fn a_lost_acknowledgement_does_not_deliver_twice() {
    let settings = Settings { loss: 0.3, ..Settings::default() };
    let mut line = Line::new(settings, &[0.0, 10.0], 6);
    for _ in 0..400 {
        line.send(0, Some(1));
    }
    line.run(s(10), &[]);
    let (sender, receiver) = (*line.medium.counters(0), *line.medium.counters(1));
    assert_eq!(line.received.len() as u64, receiver.received);
    assert!(receiver.duplicates > 50 && receiver.lost > 50, "{receiver:?}");
    assert!(receiver.received >= sender.acknowledged && sender.acknowledged + sender.given_up == 400);
}

#[test]
fn full_queues_and_lost_carriers_lose_frames() {
    let settings = Settings { queue: 3, ..Settings::default() };
    let mut line = Line::new(settings, &[0.0, 10.0], 7);
    line.now = s(1);
    for _ in 0..10 {
        line.send(0, Some(1));
    }
    // One frame has left the queue.
    assert_eq!((line.medium.queue_len(0), line.medium.counters(0).queue_full), (3, 6));
    line.run(s(1) + us(300), &[]);
    assert_eq!(line.medium.set_carrier(0, false), 4);
    line.send(0, Some(1));
    line.run(s(2), &[]);
    assert_eq!(line.received.len(), 1, "what is on the air arrives");
    line.medium.set_carrier(0, true);
    line.medium.set_carrier(1, false);
    line.send(0, Some(1));
    line.run(s(3), &[]);
    assert_eq!((line.received.len(), line.failed.len()), (1, 1), "who is down hears nothing");
}

#[test]
fn the_same_seed_gives_the_same_course_and_others_do_not_matter() {
    let course = |seed, stations: usize| {
        let mut metres = vec![0.0, 100.0, 200.0];
        metres.resize(stations, 10_000.0);
        let mut line = Line::new(Settings { loss: 0.1, ..Settings::default() }, &metres, seed);
        line.run(s(1), &[(0, Some(1)), (2, Some(1)), (1, None)]);
        line.received.into_iter().map(|(at, station, _)| (at, station)).collect::<Vec<_>>()
    };
    assert_eq!(course(1, 3), course(1, 3));
    assert_eq!(course(1, 3), course(1, 9), "stations far away disturb no draw");
    assert_ne!(course(1, 3), course(2, 3));
}

#[test]
fn stations_that_move_lose_each_other() {
    let away = Track::new(vec![
        Waypoint { at: s(0), to: Point::flat(0.0, 0.0) },
        Waypoint { at: s(100), to: Point::flat(1_000.0, 0.0) },
    ]);
    let tracks = vec![Track::still(Point::default()), away.unwrap()];
    let stations = [("a".to_owned(), address(0)), ("b".to_owned(), address(1))];
    let medium = Medium::new(Settings::default(), tracks, &stations, Seed(1), "air");
    let mut line = Line { medium, now: s(0), received: Vec::new(), failed: Vec::new() };
    for at in [10, 24, 26, 90] {
        line.run(s(at), &[]);
        line.send(0, None);
    }
    line.run(s(99), &[]);
    let times: Vec<u64> = line.received.iter().map(|(at, ..)| at.as_nanos() / 1_000_000_000).collect();
    assert_eq!(times, [10, 24], "250 m are reached after 25 s");
}
