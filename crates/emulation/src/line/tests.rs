use super::*;
use belljar_base::Seed;
use belljar_net::link::{DirectionChange, LinkDirection, LinkOverrides, LinkProperties, PathChange};
use belljar_net::nic::{Limit, QueueConfig};
use belljar_net::{Loss, Reordering};

fn at(us: u64) -> SimTime {
    SimTime::from_nanos(us * 1000)
}

/// Properties of a line without rate, delay and impairments.
fn plain() -> LinkProperties {
    LinkProperties { rate: None, latency: SimDuration::ZERO, ..LinkProperties::default() }
}

fn line(properties: &LinkProperties) -> Line {
    seeded(properties, 5, Vec::new())
}

fn seeded(properties: &LinkProperties, seed: u64, changes: Vec<(SimTime, DirectionChange)>) -> Line {
    let (seed, first) = (Seed(seed), SimTime::ZERO);
    let direction = LinkDirection::new(properties, seed, "link", "a", changes, first);
    Line::new(&properties.nic(1_514, seed, "link", "a"), direction)
}

/// Runs the line from event to event until it is empty. Returns delivery time, due time and first byte of
/// each frame.
fn run(line: &mut Line) -> Vec<(SimTime, SimTime, u8)> {
    let mut out = Vec::new();
    while let Some(now) = line.next_event() {
        line.deliver(now, |frame, due| out.push((now, due, frame[0])));
    }
    out
}

#[test]
fn delay_is_exact() {
    let mut line = line(&LinkProperties { latency: SimDuration::from_micros(300), ..plain() });
    line.offer(at(5), &[1; 60]);
    line.offer(at(6), &[2; 60]);
    assert_eq!(line.next_event(), Some(at(305)));
    assert_eq!(line.deliver(at(304), |_, _| panic!("too early")), 0);
    assert_eq!(run(&mut line), [(at(305), at(305), 1), (at(306), at(306), 2)]);
    assert_eq!(line.lateness().max(), SimDuration::ZERO);
    assert_eq!((line.counters().offered, line.counters().delivered), (2, 2));
}

#[test]
fn frames_leave_at_the_rate_whenever_the_line_is_polled() {
    let config = LinkProperties {
        rate: Some(8_000_000), // a byte a microsecond
        overhead: 24,
        latency: SimDuration::from_micros(10),
        ..plain()
    };
    let mut polled_late = line(&config);
    for i in 0..3 {
        polled_late.offer(at(0), &[i; 76]);
    }
    let mut due = Vec::new();
    polled_late.deliver(at(10_000), |_, d| due.push(d));
    assert_eq!(due, [at(110), at(210), at(310)]);
    assert_eq!(polled_late.lateness().max(), SimDuration::from_micros(9890));
    let mut polled = line(&config);
    for i in 0..3 {
        polled.offer(at(0), &[i; 76]);
    }
    assert_eq!(run(&mut polled).iter().map(|f| f.0).collect::<Vec<_>>(), due);
}

#[test]
fn a_full_queue_drops() {
    let queue = QueueConfig::Fifo { limit: Limit::Packets(4), ecn_threshold: None };
    let mut line = line(&LinkProperties { rate: Some(8_000_000), queue, ..plain() });
    for i in 0..10 {
        line.offer(at(0), &[i; 100]);
    }
    // One frame is on the wire, four are queued.
    assert_eq!(run(&mut line).iter().map(|f| f.2).collect::<Vec<_>>(), [0, 1, 2, 3, 4]);
    assert_eq!(line.counters().drops, Map::from([(DropReason::EgressFull, 5)]));
}

/// Sends a thousand numbered frames; returns the numbers of those that arrive, and the counters.
fn thousand(config: &LinkProperties, seed: u64) -> (Vec<u16>, LineCounters) {
    let mut line = seeded(config, seed, Vec::new());
    for i in 0..1000u16 {
        let mut frame = [0; 60];
        frame[..2].copy_from_slice(&i.to_be_bytes());
        line.offer(at(u64::from(i) * 100), &frame);
    }
    let mut out = Vec::new();
    while let Some(now) = line.next_event() {
        line.deliver(now, |frame, _| out.push(u16::from_be_bytes([frame[0], frame[1]])));
    }
    (out, line.counters())
}

#[test]
fn loss_follows_from_the_seed() {
    let config = LinkProperties { loss: Loss::Independent(0.2), ..plain() };
    let (first, counters) = thousand(&config, 1);
    assert_eq!(thousand(&config, 1).0, first);
    assert_ne!(thousand(&config, 2).0, first);
    let lost = counters.drops[&DropReason::PacketLoss];
    assert!((150..250).contains(&lost), "{counters:?}");
    assert_eq!(counters.delivered + lost, 1000);
    let jitter = LinkProperties {
        jitter: SimDuration::from_millis(1),
        latency: SimDuration::from_millis(2),
        ..config
    };
    assert_eq!(thousand(&jitter, 1).0, first, "jitter draws for itself and keeps the order");
}

#[test]
fn later_frames_overtake_those_that_are_held_back() {
    let reordering = Some(Reordering { probability: 0.1, delay: SimDuration::from_micros(250) });
    let (out, counters) = thousand(&LinkProperties { reordering, ..plain() }, 3);
    let overtaken = out.windows(2).filter(|w| w[0] > w[1]).count();
    assert!(overtaken > 30, "{overtaken}");
    assert!((50..150).contains(&counters.impaired.reordered) && out.len() == 1000, "{counters:?}");
}

#[test]
fn copies_and_wrong_bits_are_made_and_counted() {
    let config = LinkProperties { duplication: 0.5, corruption: 0.5, ..plain() };
    let mut line = line(&config);
    for i in 0..1000 {
        line.offer(at(i), &[0; 60]);
    }
    let (mut frames, mut wrong) = (0, 0);
    while let Some(now) = line.next_event() {
        line.deliver(now, |frame, _| {
            let bits: u32 = frame.iter().map(|b| b.count_ones()).sum();
            assert!(bits <= 1);
            wrong += u64::from(bits);
            frames += 1;
        });
    }
    let counters = line.counters().impaired;
    assert_eq!(frames, 1000 + counters.duplicated);
    assert!((400..600).contains(&counters.duplicated) && (400..600).contains(&counters.corrupted));
    assert!(wrong >= counters.corrupted);
}

#[test]
fn memory_is_bounded_without_a_rate() {
    let mut line = line(&LinkProperties { latency: SimDuration::from_secs(1), ..plain() });
    line.limit = 100;
    (0..1_000).for_each(|i| line.offer(at(i), &[0; 60]));
    assert_eq!((run(&mut line).len(), line.counters().overflowed), (100, 900));
}

#[test]
fn changes_act_on_frames_that_depart_later() {
    let slow = PathChange { latency: Some(SimDuration::from_micros(500)), ..PathChange::default() };
    let link = LinkOverrides { loss: Some(Loss::Independent(1.0)), ..LinkOverrides::default() };
    let lossy = PathChange { link: Box::new(link), ..PathChange::default() };
    let changes = vec![(at(10), DirectionChange::Set(slow)), (at(20), DirectionChange::Set(lossy))];
    let mut line = seeded(&LinkProperties { latency: SimDuration::from_micros(100), ..plain() }, 5, changes);
    line.offer(at(0), &[1; 60]);
    line.change_nic(at(10), &NicChange::Rate(Some(480_000_000))); // 60 bytes a microsecond
    line.offer(at(10), &[2; 60]);
    line.offer(at(20), &[3; 60]);
    assert_eq!(run(&mut line), [(at(100), at(100), 1), (at(511), at(511), 2)]);
    assert_eq!(line.counters().drops, Map::from([(DropReason::PacketLoss, 1)]));
    assert_eq!(line.least_latency(), SimDuration::from_micros(100));
}

#[test]
fn a_clock_that_goes_back_stands_still() {
    let mut line = line(&LinkProperties { latency: SimDuration::from_micros(10), ..plain() });
    line.offer(at(100), &[1; 60]);
    line.offer(at(50), &[2; 60]);
    assert_eq!(run(&mut line), [(at(110), at(110), 1), (at(110), at(110), 2)]);
}
