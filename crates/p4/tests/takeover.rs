//! Replacement of a program while packets are queued.

mod common;

use belljar_p4::switch::{Drop, QueueLimits};
use belljar_p4::{Switch, SwitchConfig};
use common::*;

#[test]
fn counts_and_the_wire_stay_and_what_waits_is_dropped() {
    // 1 Mbit/s: 34 bytes take 272 us.
    let config = SwitchConfig { rate: Some(1_000_000), ..SwitchConfig::default() };
    let builder = forward();
    let mut before = builder.switch(config.clone());
    let program = before.program().clone();
    before.set_trace(true);
    before.add_entry(0, &route(&program, [10, 0, 0, 0], 8, 1)).unwrap();
    for _ in 0..3 {
        before.receive(ms(1), 0, packet([10, 0, 0, 1], 0));
    }
    let length = packet([10, 0, 0, 1], 0).len() as u64;
    assert_eq!(leaving(&mut before, ms(1)).len(), 1);
    let mut after = Switch::new(program.clone(), config);
    after.set_trace(true);
    after.take_over(&before);
    assert!(after.take_trace().contains("packet 3: ingress from port 0"));
    assert_eq!((after.received(), after.dropped(Drop::Replaced), after.queue_len(1)), (3, 2, 0));
    assert_eq!(after.port_counters(1).unwrap().most_queued, 2);
    // The first bit of the next packet follows the last bit of the packet on the wire.
    after.add_entry(0, &route(&program, [10, 0, 0, 0], 8, 1)).unwrap();
    after.receive(ms(1), 0, packet([10, 0, 0, 1], 0));
    assert_eq!(leaving(&mut after, ms(1)), []);
    let free = after.next_packet().unwrap();
    assert_eq!(free.as_nanos() - ms(1).as_nanos(), length * 8 * 1_000);
    assert_eq!(leaving(&mut after, ms(2)).len(), 1);
    assert_eq!(after.port_counters(1).unwrap().packets_out, 2);
}

#[test]
fn limits_of_a_port_count_packets_and_bytes() {
    let builder = forward();
    let length = packet([10, 0, 0, 1], 0).len() as u64;
    for (limits, room) in [
        (QueueLimits { packets: 4, bytes: None, packets_per_second: None }, 4),
        (QueueLimits { packets: u32::MAX, bytes: Some(3 * length + 1), packets_per_second: None }, 3),
        (QueueLimits { packets: 2, bytes: Some(3 * length), packets_per_second: None }, 2),
    ] {
        let mut switch = builder.switch(SwitchConfig { rate: Some(1_000), ..SwitchConfig::default() });
        let program = switch.program().clone();
        switch.add_entry(0, &route(&program, [10, 0, 0, 0], 8, 1)).unwrap();
        switch.set_port_limits(1, limits);
        for _ in 0..10 {
            switch.receive(ms(1), 0, packet([10, 0, 0, 1], 0));
        }
        assert_eq!(switch.queue_len(1), room);
        // One packet is on the wire.
        assert_eq!(switch.dropped(Drop::QueueFull), 9 - room as u64);
        assert_eq!(switch.port_counters(1).unwrap().queue_full, 9 - room as u64);
    }
}
