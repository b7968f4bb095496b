//! The account of an interface balances after any sequence of operations.

use super::*;
use belljar_base::{Map, Seed};

fn codel() -> CodelConfig {
    let [target, interval] = [50, 500].map(SimDuration::from_micros);
    CodelConfig { target, interval, ..CodelConfig::default() }
}

fn queues() -> Vec<QueueConfig> {
    let codel = codel();
    let red = RedConfig {
        limit: 6_000,
        min: 1_000,
        max: 4_000,
        probability: 0.5,
        weight: 0.5,
        average_packet: 600,
        ecn: false,
    };
    let bands = vec![QueueConfig::packets(2), QueueConfig::Red(red), QueueConfig::packets(3)];
    vec![
        QueueConfig::packets(4),
        QueueConfig::bytes(3_000),
        QueueConfig::Codel { packets: 6, codel },
        QueueConfig::FqCodel(FqCodelConfig { packets: 8, flows: 4, codel, ..FqCodelConfig::default() }),
        QueueConfig::Red(red),
        QueueConfig::Priority(PriorityConfig { bands, dscp: None, usual: 1 }),
    ]
}

fn packet(stream: &mut belljar_base::Stream) -> Packet {
    let mut bytes = vec![0; 40 + stream.below(1_400) as usize];
    (bytes[0], bytes[1], bytes[9]) = (0x45, stream.below(256) as u8, 17);
    (bytes[15], bytes[19], bytes[21]) = (1, 2, stream.below(6) as u8);
    Packet::with_cookie(bytes, stream.below(2))
}

/// Number of an operation: the first 13 are rare.
fn rare_first(stream: &mut belljar_base::Stream) -> u64 {
    let first = if stream.below(30) == 0 { 0 } else { 13 };
    first + stream.below(40 - first)
}

#[test]
fn the_account_balances_after_every_operation() {
    let mut reasons = Map::new();
    for (number, queue) in queues().into_iter().enumerate() {
        let mut stream = Seed(7).stream(&["account", &number.to_string()]);
        let config = NicConfig {
            bandwidth_up: Some(20_000_000),
            bandwidth_down: Some(20_000_000),
            queue: queue.clone(),
            router_queue_packets: 5,
            codel: codel(),
            ..NicConfig::default()
        };
        let mut nic = Nic::new(&config);
        let (mut now, mut taken, mut returned) = (SimTime::ZERO, 0, 0);
        for _ in 0..20_000 {
            now += SimDuration::from_micros(stream.below(400));
            match rare_first(&mut stream) {
                0 => nic.change(now, &NicChange::Queue(queues()[stream.below(6) as usize].clone())),
                1 => nic.change(now, &NicChange::Queue(queue.clone())),
                2 => {
                    let bucket = TokenBucket { rate: 10_000_000, burst: 3_000 };
                    nic.change(now, &NicChange::TokenBucket((stream.below(2) == 0).then_some(bucket)));
                }
                3 => nic.set_carrier(now, false),
                4..=6 => nic.set_carrier(now, true),
                7 => nic.set_bandwidths(now, Some(5_000_000), Some(1 + stream.below(30_000_000))),
                8 => nic.power_cycle(&config, nic.counters_without_power()),
                9 => nic.count_drop(DropReason::HostDown),
                10 => nic.count_received(60),
                11 => nic.count_backlog(),
                12 => nic.count_returned(),
                13..=25 => returned += u64::from(nic.send(now, packet(&mut stream)).is_err()),
                26..=35 => nic.receive(now, packet(&mut stream)),
                36..=37 => while nic.received(now).is_some() {},
                _ => {
                    while let Some((_, event)) = nic.poll(now) {
                        taken += u64::from(matches!(event, NicEvent::Transmit { .. }));
                    }
                }
            }
            let account = nic.packet_account();
            assert_eq!(account.imbalance(), 0, "{queue:?} at {now}: {account:?}");
        }
        let account = nic.packet_account();
        assert_eq!(account.sent, taken + nic.counters().packets_in);
        assert!(returned > 100 && taken > 100, "{returned} refused, {taken} sent");
        reasons.extend(account.dropped);
    }
    for reason in ["egress_full", "router_full", "codel", "red", "link_down", "host_down", "backlog"] {
        assert!(reasons.contains_key(reason), "{reason} did not occur: {reasons:?}");
    }
}
