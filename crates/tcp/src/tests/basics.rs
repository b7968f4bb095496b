use super::util::{Link, World};
use crate::{Config, Events, State};
use belljar_base::{SimDuration, SimTime};

#[test]
fn handshake_takes_one_and_a_half_round_trips() {
    let mut world = World::simple();
    world.run_for(SimDuration::from_millis(50));
    assert_eq!(world.states(), [State::Established; 2]);
    assert!(world.ends.iter().all(|end| end.events.contains(Events::CONNECTED)));
    // SYN was sent before the trace began.
    assert_eq!(world.trace.len(), 2);
}

#[test]
fn both_directions_at_once() {
    let mut world = World::simple();
    for end in &mut world.ends {
        end.to_send = 1_000_000;
        end.closes = true;
    }
    world.run_while(SimTime::from_secs(30), |w| w.ends.iter().any(|end| end.received < 1_000_000));
    world.run_for(SimDuration::from_secs(100));
    assert_eq!(world.states(), [State::Closed; 2]);
}

/// How much of the link's rate (or of window / RTT) a 10 s transfer gets.
fn goodput(mbit: u64, delay_ms: u64) -> (f64, f64, u64) {
    let rtt = SimDuration::from_millis(2 * delay_ms);
    let mut link = Link::new(mbit * 1_000_000, SimDuration::from_millis(delay_ms));
    link.queue = usize::MAX;
    let mut world = World::new(link, [Config::default(), Config::default()], 7);
    world.ends[0].to_send = u64::MAX;
    world.run_until(SimTime::from_secs(10));
    let rate = world.ends[1].received as f64 * 8.0 / 10.0;
    let window = f64::from(Config::default().rmem[2]) / 2.0 * 8.0 / rtt.as_secs_f64();
    let payload_share = 1448.0 / 1520.0;
    (rate, (mbit as f64 * 1e6 * payload_share).min(window), world.segments)
}

#[test]
fn throughput_reaches_rate_or_window() {
    for mbit in [1, 10, 100, 1000] {
        for delay in [1, 10, 75] {
            let (rate, limit, segments) = goodput(mbit, delay);
            println!(
                "{mbit} Mbit/s x {delay} ms: {:.1} of {:.1} Mbit/s, {segments} segments",
                rate / 1e6,
                limit / 1e6
            );
            assert!(rate >= 0.9 * limit, "{mbit} Mbit/s x {delay} ms: {rate} of {limit}");
        }
    }
}
