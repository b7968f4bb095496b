use super::util::World;
use crate::{Events, State};
use belljar_base::{SimDuration, SimTime};

#[test]
fn handshake_takes_one_and_a_half_round_trips() {
    let mut world = World::simple();
    world.run_for(SimDuration::from_millis(50));
    assert_eq!(world.states(), [State::Established; 2]);
    assert!(world.ends.iter().all(|end| end.events.contains(Events::CONNECTED)));
    // SYN was sent before the trace began.
    assert_eq!(world.trace.len(), 2);
    // As on Linux with an MTU of 1500: 45 segments of 1448 bytes.
    assert_eq!(world.trace[0].2.window, 65_160);
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
