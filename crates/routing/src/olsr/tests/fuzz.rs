//! Random packets and calls: nothing panics, nothing grows without bound, timers advance.

use super::{at, config};
use crate::olsr::packet::{self, Head};
use crate::olsr::{Config, Olsr};
use crate::{DataPlaneEvent, Interface, InterfaceEvent, InterfaceId, Protocol, Received, Time};
use belljar_base::{Seed, Stream};
use std::net::Ipv4Addr;
use std::time::Duration;

fn address(dice: &mut Stream) -> Ipv4Addr {
    match dice.below(8) {
        0 => Ipv4Addr::from(dice.next_u32()),
        _ => at(dice.below(6) as usize),
    }
}

/// A message with plausible fields and a body of plausible words or noise.
fn message(dice: &mut Stream) -> Vec<u8> {
    let mut body = Vec::new();
    for _ in 0..dice.below(12) {
        match dice.below(4) {
            0 => body.extend((dice.next_u32() as u16).to_be_bytes()),
            1 => body.extend([dice.below(16) as u8, 0, 0, 4 * (dice.below(4) as u8 + 1)]),
            _ => body.extend(address(dice).octets()),
        }
    }
    let validity = Duration::from_millis(dice.below(20_000));
    let (kind, ttl, seq) = (dice.below(6) as u8, dice.below(4) as u8 * 80, dice.below(40) as u16);
    packet::encode_message(Head { kind, validity, originator: address(dice), ttl, seq }, &body)
}

fn run(seed: u64) {
    let mut dice = Seed(seed).stream(&["olsr fuzz"]);
    let hysteresis = dice.chance(0.5).then(Default::default);
    let tc_redundancy = dice.below(3) as u8;
    let mut olsr = Olsr::new(Config { hysteresis, tc_redundancy, ..config(0, seed) });
    let mut now = Time::ZERO;
    for _ in 0..400 {
        let interface = InterfaceId(dice.below(3) as u32);
        let neighbor = address(&mut dice);
        match dice.below(10) {
            0 => {
                let up = Interface {
                    id: interface,
                    address: at(20 + interface.0 as usize),
                    mtu: dice.below(1600) as usize,
                };
                let event =
                    if dice.chance(0.7) { InterfaceEvent::Up(up) } else { InterfaceEvent::Down(interface) };
                olsr.on_interface(now, event);
            }
            1 => olsr.on_data_plane(now, DataPlaneEvent::LinkLost { interface, neighbor }),
            2 => olsr.on_data_plane(now, DataPlaneEvent::LinkAlive { interface, neighbor }),
            3 => {
                now = now + Duration::from_millis(dice.below(3000));
                for _ in 0..1000 {
                    if olsr.next_timer().is_none_or(|at| at > now) {
                        break;
                    }
                    olsr.on_timer(now);
                }
                assert!(olsr.next_timer().is_none_or(|at| at > now), "seed {seed}: the timer stands still");
            }
            _ => {
                let messages: Vec<_> = (0..dice.below(4)).map(|_| message(&mut dice)).collect();
                let mut payload = packet::encode_packet(dice.below(20) as u16, &messages);
                for _ in 0..if dice.chance(0.3) { dice.below(5) } else { 0 } {
                    let at = dice.below(payload.len() as u64) as usize;
                    payload[at] = dice.next_u32() as u8;
                }
                if dice.chance(0.1) {
                    payload.truncate(dice.below(payload.len() as u64 + 1) as usize);
                }
                let _ =
                    olsr.on_packet(now, Received { interface, source: neighbor, ttl: 1, payload: &payload });
            }
        }
        while let Some(packet) = olsr.poll_transmit() {
            let (_, mut messages) = packet::decode_packet(&packet.payload).expect("what is sent can be read");
            assert!(messages.all(|message| message.is_ok()), "seed {seed}");
        }
        while olsr.poll_route().is_some() {}
        assert!(olsr.footprint() < 20_000, "seed {seed}");
    }
}

#[test]
fn random_packets_and_calls() {
    (0..300).for_each(run);
}
