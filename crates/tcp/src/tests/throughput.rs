use super::util::{Link, World};
use crate::{Config, CongestionAlgorithm};
use belljar_base::{SimDuration, SimTime};

/// Payload rate of a 10 s transfer in bytes per second, and the limit by rate or window / RTT.
fn goodput(mbit: u64, rtt_ms: u64, algorithm: CongestionAlgorithm, queue: usize) -> (f64, f64) {
    let rtt = SimDuration::from_millis(rtt_ms);
    let mut link = Link::new(mbit * 1_000_000, rtt.div(2));
    link.queue = queue;
    let config = Config { congestion: algorithm, ..Config::default() };
    let mut world = World::new(link, [config.clone(), config], 7);
    world.ends[0].to_send = u64::MAX;
    world.run_until(SimTime::from_secs(10));
    let rate = world.ends[1].received as f64 / 10.0;
    let window = f64::from(Config::default().rmem[2]) / 2.0 / rtt.as_secs_f64();
    let payload_share = 1448.0 / 1520.0;
    println!(
        "{mbit} Mbit/s x {rtt_ms} ms, {}: {:.2} Mbit/s, {} segments",
        algorithm.name(),
        rate * 8e-6,
        world.segments
    );
    (rate, (mbit as f64 * 125e3 * payload_share).min(window))
}

#[test]
fn ten_seconds_reach_nine_tenths_of_rate_or_window() {
    for mbit in [1, 10, 100, 1000] {
        for rtt in [1, 10, 75] {
            let (rate, limit) = goodput(mbit, rtt, CongestionAlgorithm::Cubic, usize::MAX);
            assert!(rate >= 0.9 * limit, "{mbit} Mbit/s x {rtt} ms: {rate} of {limit}");
        }
    }
    let (rate, limit) = goodput(100, 75, CongestionAlgorithm::Reno, usize::MAX);
    assert!(rate >= 0.9 * limit, "Reno: {rate} of {limit}");
}

/// A bottleneck with a buffer of one bandwidth-delay product: losses come from the queue.
#[test]
fn a_queue_that_overflows_costs_little() {
    for algorithm in CongestionAlgorithm::ALL {
        let (rate, limit) = goodput(50, 40, algorithm, 250_000);
        assert!(rate >= 0.85 * limit, "{rate} of {limit}");
    }
}

/// Loopback with segments of 64 KiB and no delay: round-trip times of zero must work.
#[test]
fn no_delay_and_huge_segments() {
    let config = Config { mss: 65_496, ..Config::default() };
    let mut world =
        World::new(Link::new(1_000_000_000_000_000, SimDuration::ZERO), [config.clone(), config], 3);
    for end in &mut world.ends {
        end.to_send = 20_000_000;
        end.closes = true;
    }
    world.run_while(SimTime::from_secs(1), |w| w.ends.iter().any(|end| end.received < end.to_send));
    assert!(world.now < SimTime::from_nanos(100_000_000), "{}", world.now);
    assert!(world.ends.iter().all(|end| end.tcp.info(world.now).total_retransmitted == 0), "{world:?}");
}

/// BBR needs neither a full queue nor a loss-free path.
#[test]
fn bbr_fills_the_path_with_little_queue_and_through_loss() {
    for (mbit, rtt_ms, loss) in [(10, 20, 0.0), (100, 40, 0.0), (50, 40, 0.01), (5, 10, 0.05)] {
        let mut link = Link::new(mbit * 1_000_000, SimDuration::from_millis(rtt_ms / 2));
        link.loss = loss;
        let config = Config { congestion: CongestionAlgorithm::Bbr, ..Config::default() };
        let mut world = World::new(link, [config.clone(), config], 11);
        world.ends[0].to_send = u64::MAX;
        world.run_until(SimTime::from_secs(4));
        let before = world.ends[1].received;
        world.run_until(SimTime::from_secs(34));
        let share = (world.ends[1].received - before) as f64 / 30.0 / (mbit as f64 * 125e3 * 1448.0 / 1520.0);
        let srtt = world.ends[0].tcp.info(world.now).rtt;
        println!("{mbit} Mbit/s x {rtt_ms} ms, loss {loss}: {share:.3}, srtt {srtt}");
        // A probe of the minimum round trip every ten seconds costs two per cent.
        assert!(share > if loss > 0.0 { 0.8 } else { 0.92 }, "{mbit} x {rtt_ms}, {loss}: {share}");
        assert!(srtt < SimDuration::from_millis(2 * rtt_ms + 5), "{srtt}");
    }
}

/// RFC 8257: the queue stays near the marking threshold and the link stays busy; an algorithm that halves its
/// window at a mark needs a longer queue. The threshold exceeds the amount sent to the device at once.
#[test]
fn dctcp_keeps_the_queue_short_and_the_link_busy() {
    let run = |congestion, mark_above| {
        let mut link = Link::new(1_000_000_000, SimDuration::from_micros(100));
        link.mark_above = mark_above;
        let config = Config { congestion, ecn: crate::EcnPolicy::Ask, ..Config::default() };
        let mut world = World::new(link, [config.clone(), config], 5);
        world.ends[0].to_send = u64::MAX;
        world.run_until(SimTime::from_nanos(100_000_000));
        let before = world.ends[1].received;
        world.run_until(SimTime::from_nanos(400_000_000));
        let share = (world.ends[1].received - before) as f64 / 0.3 / (125e6 * 1448.0 / 1520.0);
        println!("{} at {mark_above}: {share:.3}, {} marked", congestion.name(), world.ends[0].marked);
        assert!(world.ends[0].tcp.info(world.now).total_retransmitted == 0);
        assert!(world.ends[0].marked > 0);
        share
    };
    let dctcp = run(CongestionAlgorithm::Dctcp, 20_000);
    assert!(dctcp > 0.95, "{dctcp}");
    let reno = run(CongestionAlgorithm::Reno, 20_000);
    assert!(reno < dctcp - 0.02, "{reno} {dctcp}");
}

/// Receive buffer of a transfer over a link with a round trip below the resolution of timestamps, and the round
/// trip that its receiver measured.
fn tuned(timestamps: bool, rtt: SimDuration) -> (u32, SimDuration) {
    let config = Config { timestamps, ..Config::default() };
    let mut world = World::new(Link::new(10_000_000_000, rtt.div(2)), [config.clone(), config], 9);
    world.ends[0].to_send = u64::MAX;
    world.run_until(SimTime::from_nanos(50_000_000));
    let receiver = &world.ends[1].tcp;
    (receiver.receive_buffer(), receiver.info(world.now).receive_rtt)
}

/// The receiver measures by the window where timestamps do not resolve the round trip, or are off.
#[test]
fn the_receive_buffer_grows_below_a_millisecond() {
    let initial = Config::default().rmem[1];
    for timestamps in [true, false] {
        let rtt = SimDuration::from_micros(200);
        let (buffer, measured) = tuned(timestamps, rtt);
        assert!(buffer >= 4 * initial, "timestamps {timestamps}: {buffer}");
        // Timestamps that differ by one are samples of 1 ms.
        let most = if timestamps { SimDuration::from_millis(1) } else { rtt.saturating_mul(2) };
        assert!(measured >= rtt && measured <= most, "timestamps {timestamps}: {measured}");
    }
}
