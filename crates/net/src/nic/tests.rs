use super::*;
use crate::Packet;
use belljar_base::Seed;

const MTU: usize = 1_500;

fn us(n: u64) -> SimTime {
    SimTime::from_nanos(n * 1_000)
}

fn packet(len: usize, cookie: u64) -> Packet {
    Packet::with_cookie(vec![0; len], cookie)
}

fn nic(up: Option<u64>, down: Option<u64>) -> Nic {
    Nic::new(&NicConfig { bandwidth_up: up, bandwidth_down: down, ..NicConfig::default() })
}

/// Takes all egress events up to `now`, in short form: (time, kind, cookie).
fn drain(nic: &mut Nic, now: SimTime) -> Vec<(SimTime, &'static str, u64)> {
    let mut seen = Vec::new();
    while let Some((at, event)) = nic.poll(now) {
        assert!(at <= now);
        seen.push(match event {
            NicEvent::Transmit { packet, departs } => {
                assert!(departs >= at);
                (departs, "transmit", packet.cookie())
            }
            NicEvent::Sent { cookie, .. } => (at, "sent", cookie),
        });
    }
    seen
}

/// Takes all received packets up to `now`: (time, cookie).
fn received(nic: &mut Nic, now: SimTime) -> Vec<(SimTime, u64)> {
    std::iter::from_fn(|| nic.received(now)).map(|(at, packet)| (at, packet.cookie())).collect()
}

#[test]
fn packets_leave_one_after_another_at_exact_times() {
    // 1,500 bytes at 100 Mbit/s take 120 us.
    let mut nic = nic(Some(100_000_000), None);
    for cookie in 1..=3 {
        nic.send(us(10), packet(MTU, cookie)).unwrap();
    }
    assert_eq!(nic.next_event(), Some(us(10)));
    assert_eq!(drain(&mut nic, us(10)), [(us(130), "transmit", 1)]);
    assert_eq!(nic.next_event(), Some(us(130)));
    assert_eq!(nic.egress_queue_len(), 2);
    assert_eq!(drain(&mut nic, us(129)), []);
    assert_eq!(drain(&mut nic, us(130)), [(us(130), "sent", 1), (us(250), "transmit", 2)]);
    // A late poll does not change the times.
    let rest = [(us(250), "sent", 2), (us(370), "transmit", 3), (us(370), "sent", 3)];
    assert_eq!(drain(&mut nic, us(9_000)), rest);
    assert_eq!(nic.next_event(), None);
    assert_eq!((nic.counters().packets_out, nic.counters().bytes_out), (3, 4_500));
    // The sender is idle, so that the next packet starts at once.
    nic.send(us(9_001), packet(MTU, 0)).unwrap();
    assert_eq!(drain(&mut nic, us(9_001)), [(us(9_121), "transmit", 0)]);
    assert_eq!(nic.next_event(), None, "nobody waits for cookie 0");
}

#[test]
fn a_held_queue_goes_on_at_its_rate() {
    let mut nic = nic(Some(100_000_000), None);
    for cookie in 1..=3 {
        nic.send(us(10), packet(MTU, cookie)).unwrap();
    }
    assert_eq!(drain(&mut nic, us(10)), [(us(130), "transmit", 1)]);
    nic.hold_until(us(500));
    // The first one was under way.
    assert_eq!(nic.next_event(), Some(us(130)));
    assert_eq!(drain(&mut nic, us(500)), [(us(130), "sent", 1), (us(620), "transmit", 2)]);
    assert_eq!(drain(&mut nic, us(620)), [(us(620), "sent", 2), (us(740), "transmit", 3)]);
    // An idle interface has nothing to hold.
    drain(&mut nic, us(1_000));
    nic.hold_until(us(1_100));
    nic.send(us(1_200), packet(MTU, 0)).unwrap();
    assert_eq!(drain(&mut nic, us(1_200)), [(us(1_320), "transmit", 0)]);
}

#[test]
fn serialisation_is_counted_in_picoseconds() {
    let mut nic = nic(Some(100_000_000_000), None);
    nic.send(SimTime::ZERO, packet(1, 0)).unwrap();
    nic.send(SimTime::ZERO, packet(1, 0)).unwrap();
    let departures: Vec<_> = drain(&mut nic, us(1)).into_iter().map(|(at, ..)| at.as_picos()).collect();
    assert_eq!(departures, [80, 160]);
}

#[test]
fn without_bandwidths_packets_pass_at_once() {
    let mut nic = nic(None, None);
    for cookie in 1..=2 {
        nic.send(us(5), packet(MTU, cookie)).unwrap();
        nic.receive(us(5), packet(MTU, cookie + 10));
    }
    let seen = drain(&mut nic, us(5));
    assert!(seen.iter().all(|(at, ..)| *at == us(5)));
    let of =
        |kind| seen.iter().filter(|(_, k, _)| *k == kind).map(|(.., cookie)| *cookie).collect::<Vec<_>>();
    assert_eq!((of("transmit"), of("sent")), (vec![1, 2], vec![1, 2]));
    assert_eq!(received(&mut nic, us(5)), [(us(5), 11), (us(5), 12)]);
    assert_eq!((nic.next_event(), nic.next_received()), (None, None));
}

#[test]
fn a_full_queue_gives_the_packet_back() {
    let config =
        NicConfig { bandwidth_up: Some(1_000), queue: QueueConfig::packets(2), ..NicConfig::default() };
    let mut nic = Nic::new(&config);
    nic.send(us(0), packet(100, 1)).unwrap();
    drain(&mut nic, us(0));
    nic.send(us(0), packet(100, 2)).unwrap();
    nic.send(us(0), packet(100, 3)).unwrap();
    assert_eq!(nic.send(us(0), packet(100, 4)).unwrap_err().cookie(), 4);
    assert_eq!(nic.counters().dropped(DropReason::EgressFull), 1);
    assert_eq!(drain(&mut nic, SimTime::from_secs(100)).len(), 5);
}

#[test]
fn a_new_bandwidth_counts_from_the_next_packet() {
    let mut nic = nic(Some(8_000_000), None);
    nic.send(us(0), packet(1_000, 0)).unwrap();
    drain(&mut nic, us(0));
    nic.send(us(0), packet(1_000, 0)).unwrap();
    nic.set_bandwidths(us(0), Some(16_000_000), None);
    assert_eq!(drain(&mut nic, us(5_000)), [(us(1_500), "transmit", 0)]);
}

#[test]
fn the_downlink_delivers_in_order_after_serialisation() {
    let mut nic = nic(None, Some(100_000_000));
    nic.receive(us(0), packet(MTU, 1));
    nic.receive(us(50), packet(MTU, 2));
    assert_eq!((nic.next_received(), nic.next_event()), (Some(us(120)), None));
    assert_eq!(nic.coming().map(Packet::cookie), Some(1));
    assert_eq!(received(&mut nic, us(119)), []);
    assert_eq!(received(&mut nic, us(240)), [(us(120), 1), (us(240), 2)]);
    assert_eq!(
        (nic.would_be_received(us(200), MTU), nic.would_be_received(us(1_000), MTU)),
        (us(360), us(1_120))
    );
    nic.receive(us(1_000), packet(MTU, 3));
    // A packet arrives before the previous one has been taken.
    nic.receive(us(1_500), packet(MTU, 4));
    assert_eq!(nic.next_received(), Some(us(1_120)));
    assert_eq!((nic.counters().packets_in, nic.counters().bytes_in), (2, 3_000));
    assert_eq!(received(&mut nic, us(1_200)), [(us(1_120), 3)]);
    assert_eq!((nic.counters().packets_in, nic.counters().bytes_in), (3, 4_500));
}

#[test]
fn a_full_router_drops_the_newcomer() {
    let config = NicConfig { bandwidth_down: Some(1_000), router_queue_packets: 1, ..NicConfig::default() };
    let mut nic = Nic::new(&config);
    for cookie in 1..=3 {
        nic.receive(us(0), packet(10, cookie));
    }
    assert_eq!(nic.counters().dropped(DropReason::RouterFull), 1);
    let seen: Vec<_> = received(&mut nic, SimTime::from_secs(9)).iter().map(|(_, c)| *c).collect();
    assert_eq!(seen, [1, 2]);
}

/// Offers `packets` packets to a 10 Mbit/s downlink (1.2 ms per packet), one per `every`.
fn flood(every: SimDuration, packets: u64) -> (Nic, Vec<SimTime>) {
    let mut nic = nic(None, Some(10_000_000));
    let mut delivered = Vec::new();
    for i in 0..packets {
        let now = SimTime::ZERO + every.saturating_mul(i);
        delivered.extend(received(&mut nic, now).into_iter().map(|(at, _)| at));
        nic.receive(now, packet(MTU, i + 1));
    }
    (nic, delivered)
}

#[test]
fn codel_leaves_a_queue_alone_that_drains() {
    let (nic, _) = flood(SimDuration::from_micros(1_200), 2_000);
    assert_eq!(nic.counters().dropped_in_total(), 0);
    // A burst shorter than an interval is not cut either.
    let (mut nic, _) = flood(SimDuration::from_micros(1), 50);
    received(&mut nic, SimTime::from_secs(1));
    assert_eq!((nic.counters().packets_in, nic.counters().dropped_in_total()), (50, 0));
}

#[test]
fn codel_drops_ever_faster_while_the_queue_stands() {
    // At 20 % overload the queue exceeds 5 ms at about 30 ms, and the first drop follows about 100 ms
    // later.
    let every = SimDuration::from_millis(1);
    let drops_by = |packets| flood(every, packets).0.counters().dropped(DropReason::Codel);
    assert_eq!(drops_by(120), 0);
    assert_eq!(drops_by(160), 1);
    // RFC 8289 section 3.2: drop n + 1 follows interval / sqrt(n) after drop n.
    let mut expected = 0u32;
    let mut at_ms = 130.0;
    while at_ms < 1_130.0 {
        expected += 1;
        at_ms += 100.0 / f64::from(expected).sqrt();
    }
    let drops = drops_by(1_130);
    assert!(drops.abs_diff(u64::from(expected)) <= 1, "{drops}, not {expected}");
    let (nic, _) = flood(every, 10_000);
    assert_eq!(nic.counters().dropped(DropReason::RouterFull), 0, "CoDel keeps the queue below its limit");
}

#[test]
fn codel_never_starves_the_link() {
    let (_, delivered) = flood(SimDuration::from_millis(1), 20_000);
    let gaps = delivered.windows(2).map(|pair| pair[1].since(pair[0]));
    assert!(gaps.skip(10).all(|gap| gap == SimDuration::from_micros(1_200)));
}

#[test]
fn drops_elsewhere_are_counted_by_reason() {
    let mut nic = nic(None, None);
    nic.count_drop(DropReason::PacketLoss);
    nic.count_drop(DropReason::NoRoute);
    assert_eq!(nic.counters().dropped(DropReason::PacketLoss), 1);
    assert_eq!(nic.counters().dropped_in_total(), 2);
}

/// Runs random traffic with additional polls at random times. Returns all egress events, all received
/// packets, which may be offered late, and the counters.
#[allow(clippy::type_complexity)]
fn random_run(
    seed: u64,
    polls: u64,
    queue: &QueueConfig,
) -> (Vec<(SimTime, &'static str, u64)>, Vec<(SimTime, u64)>, Counters) {
    let mut traffic = Seed(seed).stream(&["traffic"]);
    let mut polling = Seed(seed ^ polls).stream(&["polling"]);
    let config = NicConfig {
        bandwidth_up: Some(5_000_000),
        bandwidth_down: Some(5_000_000),
        queue: queue.clone(),
        token_bucket: seed.is_multiple_of(3).then_some(TokenBucket { rate: 4_000_000, burst: 3_000 }),
        router_queue_packets: 60,
        ..NicConfig::default()
    };
    let mut nic = Nic::new(&config);
    let (mut now, mut seen, mut came, mut cookie) = (SimTime::ZERO, Vec::new(), Vec::new(), 0);
    let mut late = Vec::new();
    for _ in 0..1_500 {
        let until = now + SimDuration::from_micros(traffic.below(1_100));
        for _ in 0..polling.below(polls + 1) {
            now = now + SimDuration::from_picos(polling.below(until.since(now).as_picos() + 1));
            seen.extend(drain(&mut nic, now));
            late.drain(..).for_each(|(at, packet)| nic.receive(at, packet));
            came.extend(received(&mut nic, now));
        }
        now = until;
        cookie += 1;
        let len = 40 + traffic.below(1_460) as usize;
        let mut bytes = vec![0; len];
        (bytes[0], bytes[1], bytes[15]) = (0x45, traffic.below(32) as u8, traffic.below(9) as u8);
        match traffic.below(2) {
            0 => drop(nic.send(now, Packet::with_cookie(bytes, cookie))),
            _ => late.push((now, packet(len, cookie))),
        }
    }
    late.drain(..).for_each(|(at, packet)| nic.receive(at, packet));
    seen.extend(drain(&mut nic, SimTime::MAX));
    came.extend(received(&mut nic, SimTime::MAX));
    (seen, came, *nic.counters())
}

#[test]
fn what_happens_does_not_depend_on_when_it_is_polled() {
    let red = RedConfig {
        limit: 12_000,
        min: 2_000,
        max: 9_000,
        probability: 0.1,
        weight: 0.1,
        average_packet: 700,
        ecn: false,
    };
    let bands = vec![QueueConfig::packets(4), QueueConfig::Red(red), QueueConfig::packets(6)];
    let short = CodelConfig {
        target: SimDuration::from_micros(500),
        interval: SimDuration::from_millis(3),
        ..CodelConfig::default()
    };
    let fq = FqCodelConfig { packets: 12, flows: 4, quantum: Some(500), codel: short, ..Default::default() };
    let queues = [
        QueueConfig::packets(10),
        QueueConfig::Codel { packets: 10, codel: short },
        QueueConfig::FqCodel(fq),
        QueueConfig::Red(red),
        QueueConfig::Priority(PriorityConfig { bands, dscp: None, usual: 1 }),
    ];
    for (seed, queue) in (0..20).zip(queues.iter().cycle()) {
        let (seen, came, counters) = random_run(seed, 0, queue);
        assert!(counters.dropped_in_total() > 0, "the traffic is too little to fill queues");
        for polls in 1..4 {
            assert_eq!(random_run(seed, polls, queue), (seen.clone(), came.clone(), counters), "seed {seed}");
        }
        // Every packet is either sent or dropped, and its departure reported.
        let of = |kind| seen.iter().filter(move |(_, k, _)| *k == kind).map(|(.., cookie)| *cookie);
        assert_eq!(of("transmit").count() as u64, counters.packets_out);
        assert_eq!(came.len() as u64, counters.packets_in);
        assert_eq!(counters.packets_in + counters.packets_out + counters.dropped_in_total(), 1_500);
        assert!(came.iter().map(|(_, cookie)| *cookie).is_sorted());
        if matches!(queue, QueueConfig::Fifo { .. }) {
            // Packets of one direction keep their order.
            assert!(of("transmit").eq(of("sent")) && of("transmit").is_sorted());
        }
    }
}

#[test]
fn a_queue_is_bounded_by_packets_by_bytes_or_by_codel() {
    let held = |queue, lens: &[usize]| {
        let config = NicConfig { bandwidth_up: Some(8_000), queue, ..NicConfig::default() };
        let mut nic = Nic::new(&config);
        lens.iter().filter(|len| nic.send(us(1), packet(**len, 0)).is_ok()).count()
    };
    // One packet is being sent, or about to be.
    assert_eq!(held(QueueConfig::packets(2), &[9, 9, 9, 9]), 2 + 1);
    assert_eq!(held(QueueConfig::bytes(100), &[100, 60, 50, 40, 1]), 3);
    let codel = QueueConfig::Codel { packets: 3, codel: CodelConfig::default() };
    assert_eq!(held(codel, &[9, 9, 9, 9, 9]), 3 + 1);
}

#[test]
fn codel_on_the_way_out_drops_what_stands_and_says_that_it_has_left() {
    let codel = QueueConfig::Codel { packets: 1_000, codel: CodelConfig::default() };
    // A packet takes 10 ms; all arrive at the start.
    let mut nic =
        Nic::new(&NicConfig { bandwidth_up: Some(1_200_000), queue: codel, ..NicConfig::default() });
    (1..=100).for_each(|cookie| nic.send(us(0), packet(MTU, cookie)).unwrap());
    let seen = drain(&mut nic, us(2_000_000));
    let count = |what| seen.iter().filter(|(_, name, _)| *name == what).count() as u64;
    let dropped = nic.counters().dropped(DropReason::Codel);
    assert!(dropped > 3, "{dropped}");
    assert_eq!((count("transmit"), count("sent")), (100 - dropped, 100));
}

#[test]
fn overhead_takes_time_on_the_wire() {
    let config = NicConfig { bandwidth_up: Some(8_000_000), overhead: 24, ..NicConfig::default() };
    let mut nic = Nic::new(&config);
    nic.send(us(0), packet(76, 0)).unwrap();
    assert_eq!(drain(&mut nic, us(0)), [(us(100), "transmit", 0)]);
}

#[test]
fn without_a_carrier_everything_is_lost_but_nobody_waits_for_ever() {
    let mut nic = nic(Some(8_000_000), None);
    (1..=3).for_each(|cookie| nic.send(us(0), packet(100, cookie)).unwrap());
    assert_eq!(drain(&mut nic, us(0)), [(us(100), "transmit", 1)]);
    nic.set_carrier(us(50), false);
    assert!(nic.send(us(60), packet(100, 4)).is_err());
    assert_eq!(drain(&mut nic, us(200)), [(us(100), "sent", 1), (us(100), "sent", 2), (us(100), "sent", 3)]);
    assert_eq!(nic.counters().dropped(DropReason::LinkDown), 3);
    nic.set_carrier(us(300), true);
    nic.send(us(300), packet(100, 5)).unwrap();
    assert_eq!(drain(&mut nic, us(300)), [(us(400), "transmit", 5)]);
}
