use super::*;
use belljar_base::Map;

const SPEED: u64 = 8_000_000; // a byte each microsecond

fn us(n: u64) -> SimTime {
    SimTime::from_nanos(n * 1_000)
}
/// Returns a UDP packet of a flow, with a traffic class and a length.
fn packet(flow: u8, class: u8, len: usize) -> Packet {
    let mut bytes = vec![0; len];
    (bytes[0], bytes[1], bytes[9]) = (0x45, class, 17);
    (bytes[15], bytes[19], bytes[21]) = (1, 2, flow);
    Packet::with_cookie(bytes, u64::from(flow))
}
fn nic(queue: QueueConfig) -> Nic {
    Nic::new(&NicConfig { bandwidth_up: Some(SPEED), queue, seed: 3, ..NicConfig::default() })
}
/// Transmissions up to a time: start in microseconds, flow, traffic class.
fn left(nic: &mut Nic, until: SimTime) -> Vec<(u64, u64, u8)> {
    let mut all = Vec::new();
    while let Some((at, event)) = nic.poll(until) {
        if let NicEvent::Transmit { packet, .. } = event {
            all.push((at.as_nanos() / 1_000, packet.cookie(), packet.bytes()[1]));
        }
    }
    all
}
fn flows(left: &[(u64, u64, u8)]) -> Vec<u64> {
    left.iter().map(|(_, flow, _)| *flow).collect()
}

#[test]
fn a_step_marks_what_finds_more_than_the_threshold_waiting() {
    let marked = |limit, ecn_threshold, class: u8| {
        let mut nic = nic(QueueConfig::Fifo { limit, ecn_threshold: Some(ecn_threshold) });
        (1..=6).for_each(|flow| drop(nic.send(us(0), packet(flow, class, 100))));
        let marks = left(&mut nic, us(9_000)).iter().map(|(.., class)| class & 3 == 3).collect::<Vec<_>>();
        assert_eq!(nic.counters().ecn_marked, marks.iter().filter(|mark| **mark).count() as u64);
        marks
    };
    // The first packet is sent at once, two more are queued unmarked.
    assert_eq!(marked(Limit::Packets(9), Limit::Packets(2), 2), [false, false, false, true, true, true]);
    assert_eq!(marked(Limit::Packets(9), Limit::Packets(2), 0), [false; 6], "who does not understand marks");
    assert_eq!(marked(Limit::Bytes(350), Limit::Bytes(299), 1), [false, false, false, true]);
}

#[test]
fn codel_marks_instead_of_dropping() {
    let codel = CodelConfig { ecn: true, ..CodelConfig::default() };
    let stand = |class: u8| {
        let mut nic = nic(QueueConfig::Codel { packets: 1_000, codel });
        for n in 0..400 {
            nic.send(us(n * 1_000), packet(1, class, 1_200)).unwrap();
        }
        left(&mut nic, us(9_000_000));
        (nic.counters().dropped(DropReason::Codel), nic.counters().ecn_marked)
    };
    let (dropped, marked) = (stand(0), stand(2));
    assert!(dropped.0 > 2 && dropped.1 == 0, "{dropped:?}");
    // Marks do not shorten the queue, so that there are more of them than there would be drops.
    assert!(marked.0 == 0 && marked.1 >= dropped.0, "{marked:?}");
    let threshold = CodelConfig { ce_threshold: Some(SimDuration::from_micros(250)), ..codel };
    let mut nic = nic(QueueConfig::Codel { packets: 9, codel: threshold });
    (1..=5).for_each(|flow| nic.send(us(0), packet(flow, 1, 100)).unwrap());
    let classes: Vec<u8> = left(&mut nic, us(900)).iter().map(|(.., class)| *class).collect();
    assert_eq!(classes, [1, 1, 1, 3, 3], "those that wait for more than 250 us");
}

#[test]
fn fq_codel_lets_flows_take_turns_and_new_ones_go_first() {
    let fq = FqCodelConfig { quantum: Some(200), ..FqCodelConfig::default() };
    let mut nic = nic(QueueConfig::FqCodel(fq));
    (0..9).for_each(|_| nic.send(us(0), packet(1, 0, 100)).unwrap());
    (0..4).for_each(|_| nic.send(us(0), packet(2, 0, 100)).unwrap());
    let before = flows(&left(&mut nic, us(399)));
    // Flow 1 has sent one packet and has 100 bytes left in its turn; a turn is two packets.
    assert_eq!(before, [1, 1, 2, 2]);
    nic.send(us(450), packet(3, 0, 100)).unwrap();
    assert_eq!(flows(&left(&mut nic, us(9_000))), [1, 3, 1, 2, 2, 1, 1, 1, 1, 1]);
    assert_eq!(nic.counters().dropped_in_total(), 0);
}

#[test]
fn an_overflow_of_fq_codel_costs_the_longest_flow_its_oldest_packets() {
    let fq = FqCodelConfig { packets: 20, ..FqCodelConfig::default() };
    let mut nic = nic(QueueConfig::FqCodel(fq));
    nic.send(us(0), packet(9, 0, 100)).unwrap();
    (0..18).for_each(|_| nic.send(us(1), packet(1, 0, 100)).unwrap());
    (0..3).for_each(|_| nic.send(us(2), packet(2, 0, 100)).unwrap());
    // Flow 1 has 18 packets queued, of which half are dropped.
    assert_eq!(nic.counters().dropped(DropReason::EgressFull), 9);
    let left = flows(&left(&mut nic, us(9_000)));
    let of = |flow| left.iter().filter(|other| **other == flow).count();
    assert_eq!((of(1), of(2), of(9)), (9, 3, 1));
    let fq = FqCodelConfig { bytes: 500, ..FqCodelConfig::default() };
    let mut nic = self::nic(QueueConfig::FqCodel(fq));
    (0..7).for_each(|_| nic.send(us(0), packet(1, 0, 100)).unwrap());
    assert_eq!(nic.counters().dropped(DropReason::EgressFull), 3, "by bytes");
}

#[test]
fn what_fq_codel_drops_is_told_to_its_sender() {
    let mut nic = nic(QueueConfig::FqCodel(FqCodelConfig { packets: 5, ..FqCodelConfig::default() }));
    (0..50).for_each(|_| nic.send(us(0), packet(1, 0, 100)).unwrap());
    let told = std::iter::from_fn(|| nic.poll(us(99_000)));
    assert_eq!(told.filter(|(_, event)| matches!(event, NicEvent::Sent { .. })).count(), 50);
}

fn red(config: RedConfig) -> RedConfig {
    RedConfig { limit: 60_000, min: 10_000, max: 30_000, probability: 0.1, ..config }
}
const RED: RedConfig = RedConfig {
    limit: 0,
    min: 0,
    max: 0,
    probability: 0.0,
    weight: 0.002,
    average_packet: 1_000,
    ecn: false,
};

/// Fills a RED queue with packets of 1,000 bytes, then adds more at its service rate.
fn pressed(config: RedConfig, class: u8, fill: usize, more: u64) -> Counters {
    let mut nic = nic(QueueConfig::Red(config));
    (0..fill).for_each(|_| drop(nic.send(us(0), packet(1, class, 1_000))));
    for n in 1..=more {
        drop(nic.send(us(n * 1_000), packet(1, class, 1_000)));
        left(&mut nic, us(n * 1_000));
    }
    *nic.counters()
}

#[test]
fn red_drops_by_the_average_and_evenly() {
    let slow = red(RED);
    assert_eq!(pressed(slow, 0, 50, 100).dropped(DropReason::Red), 0, "the average is slow to follow");
    let quick = RedConfig { weight: 1.0, ..slow };
    assert_eq!(pressed(quick, 0, 9, 2_000).dropped(DropReason::Red), 0, "below min");
    // With 19 packets queued, (19 - 10) / (30 - 10) of a tenth are dropped; each drop shortens the queue.
    let dropped = pressed(quick, 0, 20, 4_000).dropped(DropReason::Red);
    assert!(dropped > 4, "{dropped}");
    let hard = pressed(quick, 0, 80, 1);
    assert!(hard.dropped(DropReason::Red) >= 80 - 35, "{hard:?}");
    assert!(hard.dropped(DropReason::EgressFull) == 0);
    let full = pressed(RedConfig { min: 58_000, max: 59_000, weight: 0.002, ..quick }, 0, 80, 1);
    assert_eq!((full.dropped(DropReason::Red), full.dropped(DropReason::EgressFull)), (0, 19));
}

#[test]
fn red_marks_a_stable_share() {
    // Marks do not shorten the queue, so that the share is exact: 19,000 bytes are queued.
    let config = RedConfig { ecn: true, weight: 1.0, ..red(RED) };
    let counters = pressed(config, 2, 20, 10_000);
    assert_eq!(counters.dropped_in_total(), 0);
    let expected = 10_000.0 * 0.1 * 9.0 / 20.0;
    // Spread evenly: a mark after 1 to 1/p packets, half of 1/p on average, and the next draw.
    let share = counters.ecn_marked as f64 / (2.0 * expected);
    assert!((0.85..1.15).contains(&share), "{} marks", counters.ecn_marked);
    assert!(pressed(config, 0, 20, 2_000).dropped(DropReason::Red) > 4, "who does not understand marks");
}

#[test]
fn an_idle_link_lets_the_average_of_red_fall() {
    let config = RedConfig { weight: 0.5, ..red(RED) };
    let after = |pause: u64| {
        let mut nic = nic(QueueConfig::Red(config));
        (0..40).for_each(|_| drop(nic.send(us(0), packet(1, 0, 1_000))));
        left(&mut nic, us(1_000_000));
        let before = nic.counters().dropped(DropReason::Red);
        let idle_since = us(nic.counters().packets_out * 1_000);
        nic.send(idle_since + SimDuration::from_micros(pause), packet(1, 0, 1_000)).ok();
        nic.counters().dropped(DropReason::Red) - before
    };
    assert_eq!((after(0), after(100_000)), (1, 0));
}

#[test]
fn bands_are_served_strictly_by_class() {
    let bands = vec![QueueConfig::packets(2), QueueConfig::packets(9), QueueConfig::packets(9)];
    let linux = PriorityConfig { bands: bands.clone(), dscp: None, usual: 1 };
    let mut nic = nic(QueueConfig::Priority(linux));
    // Bulk, then best effort, then low delay; packet 1 is already being sent.
    for (flow, class) in [(1, 8), (2, 8), (3, 0), (4, 0x10), (5, 0x10), (6, 0x10)] {
        assert_eq!(nic.send(us(0), packet(flow, class, 100)).is_ok(), flow != 6, "a band of two");
    }
    assert_eq!(flows(&left(&mut nic, us(9_000))), [1, 4, 5, 3, 2]);
    let dscp = Some(Map::from([(46, 0), (0, 2)]));
    let mut nic = self::nic(QueueConfig::Priority(PriorityConfig { bands, dscp, usual: 1 }));
    for (flow, class) in [(1, 0), (2, 0), (3, 10 << 2), (4, 46 << 2)] {
        nic.send(us(0), packet(flow, class, 100)).unwrap();
    }
    assert_eq!(flows(&left(&mut nic, us(9_000))), [1, 4, 3, 2]);
}

#[test]
fn tokens_let_a_burst_pass_and_then_their_rate() {
    let token_bucket = Some(TokenBucket { rate: SPEED / 10, burst: 250 });
    let config = NicConfig { bandwidth_up: Some(SPEED), token_bucket, ..NicConfig::default() };
    let mut nic = Nic::new(&config);
    (1..=5).for_each(|flow| nic.send(us(0), packet(flow, 0, 100)).unwrap());
    let times = |left: Vec<(u64, u64, u8)>| left.iter().map(|(at, ..)| *at).collect::<Vec<_>>();
    // The bucket holds 250 bytes; after the second packet it holds 50 and the tokens added meanwhile.
    assert_eq!(times(left(&mut nic, us(9_000))), [0, 100, 500, 1_500, 2_500]);
    (6..=9).for_each(|flow| nic.send(us(9_000), packet(flow, 0, 100)).unwrap());
    assert_eq!(times(left(&mut nic, us(9_150))), [9_000, 9_100], "full again");
    nic.change(us(9_200), &NicChange::TokenBucket(None));
    assert_eq!(times(left(&mut nic, us(20_000))), [9_200, 9_300]);
    let mut short =
        Nic::new(&NicConfig { token_bucket: Some(TokenBucket { rate: 8_000, burst: 50 }), ..config });
    (1..=2).for_each(|flow| short.send(us(0), packet(flow, 0, 100)).unwrap());
    assert_eq!(times(left(&mut short, us(900_000))), [0, 50_000], "longer than the bucket: a full one does");
}

#[test]
fn a_new_queue_takes_over_what_waits() {
    let mut nic = nic(QueueConfig::packets(9));
    (1..=6).for_each(|flow| nic.send(us(0), packet(flow, 0, 100)).unwrap());
    nic.change(us(50), &NicChange::Queue(QueueConfig::packets(3)));
    assert_eq!(nic.counters().dropped(DropReason::EgressFull), 2);
    assert_eq!(flows(&left(&mut nic, us(9_000))), [1, 2, 3, 4]);
}
