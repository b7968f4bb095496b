//! Random packets and calls: nothing panics, nothing grows without bound, timers advance.

use super::{at, config};
use crate::aodv::packet::{Message, Rerr, Rrep, Rreq};
use crate::aodv::{Aodv, Config};
use crate::tests::ip_packet;
use crate::{DataPlaneEvent, Interface, InterfaceEvent, InterfaceId, Protocol, Received, Time};
use belljar_base::{Seed, Stream};
use std::net::Ipv4Addr;
use std::time::Duration;

fn address(dice: &mut Stream) -> Ipv4Addr {
    match dice.below(12) {
        0 => Ipv4Addr::from(dice.next_u32()),
        _ => at(dice.below(6) as usize),
    }
}

fn sequence(dice: &mut Stream) -> u32 {
    [0, u32::MAX, 0x8000_0000][dice.below(3) as usize].wrapping_add(dice.below(4) as u32)
}

fn message(dice: &mut Stream) -> Message {
    let mut flag = || dice.chance(0.3);
    let (a, b, c, d, e) = (flag(), flag(), flag(), flag(), flag());
    match dice.below(4) {
        0 => Message::Rreq(Rreq {
            join: a,
            repair: b,
            gratuitous: c,
            destination_only: d,
            unknown_sequence: e,
            hop_count: dice.next_u32() as u8,
            id: dice.below(30) as u32,
            destination: address(dice),
            destination_sequence: sequence(dice),
            originator: address(dice),
            originator_sequence: sequence(dice),
        }),
        1 => Message::Rrep(Rrep {
            repair: a,
            acknowledge: b,
            prefix_size: dice.below(32) as u8,
            hop_count: if c { 0 } else { dice.next_u32() as u8 },
            destination: address(dice),
            destination_sequence: sequence(dice),
            originator: address(dice),
            lifetime: Duration::from_millis(u64::from(dice.next_u32() >> dice.below(32))),
            hello_interval: d.then(|| Duration::from_millis(u64::from(dice.next_u32() >> dice.below(32)))),
        }),
        2 => {
            let unreachable = (0..=dice.below(5)).map(|_| (address(dice), sequence(dice))).collect();
            Message::Rerr(Rerr { no_delete: a, unreachable })
        }
        _ => Message::RrepAck,
    }
}

fn run(seed: u64) {
    let mut dice = Seed(seed).stream(&["aodv fuzz"]);
    let mut flag = || dice.chance(0.5);
    let (acknowledge, local_repair, after_reboot, quiet) = (flag(), flag(), flag(), flag());
    let hello_interval = (!quiet).then_some(Duration::from_secs(1));
    let mut aodv = Aodv::new(
        Time::ZERO,
        Config { acknowledge, local_repair, after_reboot, hello_interval, ..config(0) },
    );
    let mut now = Time::ZERO;
    for _ in 0..400 {
        let interface = InterfaceId(dice.below(3) as u32);
        let neighbor = address(&mut dice);
        match dice.below(12) {
            0 => {
                let up = Interface {
                    id: interface,
                    address: at(20 + interface.0 as usize),
                    mtu: dice.below(1600) as usize,
                };
                let event =
                    if dice.chance(0.7) { InterfaceEvent::Up(up) } else { InterfaceEvent::Down(interface) };
                aodv.on_interface(now, event);
            }
            1 => aodv.on_data_plane(now, DataPlaneEvent::LinkLost { interface, neighbor }),
            2 => aodv.on_data_plane(now, DataPlaneEvent::LinkAlive { interface, neighbor }),
            3 => {
                let destination = address(&mut dice);
                aodv.on_data_plane(now, DataPlaneEvent::Used { source: neighbor, destination });
            }
            4 => {
                let packet = ip_packet(address(&mut dice), address(&mut dice));
                let len = if dice.chance(0.1) { dice.below(24) as usize } else { 24 };
                aodv.on_data_plane(now, DataPlaneEvent::NoRoute { packet: &packet[..len] });
            }
            5 => {
                now = now + Duration::from_millis(dice.below(3000));
                for _ in 0..1000 {
                    if aodv.next_timer().is_none_or(|at| at > now) {
                        break;
                    }
                    aodv.on_timer(now);
                }
                assert!(aodv.next_timer().is_none_or(|at| at > now), "seed {seed}: the timer stands still");
            }
            _ => {
                let mut payload = message(&mut dice).encode();
                if dice.chance(0.1) {
                    let at = dice.below(payload.len() as u64) as usize;
                    payload[at] = dice.next_u32() as u8;
                    payload.truncate(dice.below(payload.len() as u64 + 1) as usize);
                }
                let ttl = dice.below(4) as u8;
                let _ = aodv.on_packet(now, Received { interface, source: neighbor, ttl, payload: &payload });
            }
        }
        while let Some(packet) = aodv.poll_transmit() {
            assert!(Message::decode(&packet.payload).is_ok(), "seed {seed}: what is sent can be read");
        }
        while aodv.poll_route().is_some() {}
        while aodv.poll_released().is_some() {}
        assert!(aodv.footprint() < 5_000, "seed {seed}");
    }
}

#[test]
fn random_packets_and_calls() {
    (0..300).for_each(run);
}
