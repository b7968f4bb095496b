//! Random segments, calls and times: no panic, no unbounded growth, and timers advance.

use super::solo::{OURS, PEERS, Solo};
use crate::{CongestionAlgorithm, Ecn, Flags, Keepalive, Seq, State};
use belljar_base::{Seed, SimDuration, Stream};
use belljar_wire::tcp::Timestamps;

/// A number near one of the limits that the code compares with, or a random number.
fn number(dice: &mut Stream, solo: &Solo) -> Seq {
    let near = match dice.below(6) {
        0 => Seq(OURS),
        1 => Seq(PEERS),
        2 => solo.tcp.send_next(),
        3 => Seq(solo.tcp.rcv.nxt as u32),
        4 => Seq(solo.tcp.rcv.window_end() as u32),
        _ => Seq(dice.next_u32()),
    };
    near.wrapping_add((dice.below(4000) as u32).wrapping_sub(2000))
}

fn run(seed: u64) {
    let mut dice = Seed(seed).stream(&["garbage"]);
    let mut solo = if dice.chance(0.5) { Solo::modern() } else { Solo::plain() };
    let payload = [0u8; 3000];
    for _ in 0..300 {
        match dice.below(12) {
            0..=5 => {
                let mut segment = solo.segment(Flags::ACK, 0, 0);
                segment.seq = number(&mut dice, &solo);
                segment.ack = number(&mut dice, &solo);
                segment.window = dice.next_u32() as u16;
                segment.urgent = dice.below(4000) as u16;
                if dice.chance(0.3) {
                    segment.flags = Flags::from_bits_truncate(dice.next_u32() as u8);
                }
                if dice.chance(0.9) {
                    segment.flags.remove(Flags::RST);
                }
                for _ in 0..dice.below(5) {
                    segment.options.sack.push(number(&mut dice, &solo), number(&mut dice, &solo));
                }
                if dice.chance(0.3) {
                    let (value, echo) = (dice.next_u32(), dice.next_u32());
                    segment.options.timestamps = Some(Timestamps { value, echo });
                }
                let len = if dice.chance(0.5) { 0 } else { dice.below(3000) as usize };
                let _ = solo.tcp.on_segment(&segment, &payload[..len], Ecn::NotEct, solo.now);
            }
            6 if dice.chance(0.2) => solo.tcp.mark_urgent(),
            7 if dice.chance(0.2) => {
                let _ = (solo.tcp.take_urgent(dice.chance(0.5)), solo.tcp.readable_to_mark(dice.chance(0.5)));
            }
            6 => {
                solo.tcp.send(&payload[..dice.below(3000) as usize], solo.now);
            }
            7 => {
                let mut out = vec![0; dice.below(3000) as usize];
                solo.tcp.recv(&mut out, solo.now);
            }
            8 => {
                let until = solo.now + SimDuration::from_millis(dice.below(3000));
                let mut ticks = 0;
                while solo.tcp.next_timer().is_some_and(|at| at <= until) {
                    solo.tick();
                    solo.sent();
                    ticks += 1;
                    assert!(ticks < 10_000, "timers do not advance");
                }
                solo.now = until.max(solo.now);
            }
            9 => match dice.below(7) {
                0 => solo.tcp.set_nodelay(dice.chance(0.5)),
                1 => solo.tcp.set_cork(dice.chance(0.5), solo.now),
                2 => solo.tcp.set_quickack(dice.chance(0.5), solo.now),
                3 => solo.tcp.set_keepalive(Some(Keepalive::default()), solo.now),
                4 => solo.tcp.set_receive_buffer(2304 + dice.below(100_000) as u32),
                5 => solo.tcp.on_path_mtu(dice.below(1500) as u16, solo.now),
                _ => solo.tcp.set_congestion(CongestionAlgorithm::ALL[dice.below(4) as usize], solo.now),
            },
            10 if dice.chance(0.1) => solo.tcp.shutdown_write(solo.now),
            11 if dice.chance(0.02) => solo.tcp.close(solo.now),
            _ => {}
        }
        assert!(solo.sent().len() < 10_000);
        let _ = (solo.tcp.readiness(), solo.tcp.take_events(), solo.tcp.info(solo.now));
        assert!(solo.tcp.readable_bytes() <= 6_291_456);
        if solo.tcp.state() == State::Closed {
            assert_eq!(solo.tcp.next_timer(), None);
        }
    }
}

#[test]
fn nothing_that_arrives_can_hurt() {
    for seed in 0..3000 {
        if let Err(cause) = std::panic::catch_unwind(|| run(seed)) {
            eprintln!("seed {seed}");
            std::panic::resume_unwind(cause);
        }
    }
}
