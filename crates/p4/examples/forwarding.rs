//! Forwarding cost per packet in nanoseconds: an IPv4 router with longest prefix match, TTL decrement,
//! checksum verification and update, with 10 and with 100,000 routes.
//!
//! `cargo run --release -p belljar-p4 --example forwarding`

use belljar_base::{Seed, SimTime};
use belljar_p4::control::{ActionSpec, Entry, KeyMatch};
use belljar_p4::{Program, Switch, SwitchConfig};
use std::sync::Arc;
use std::time::Instant;

const PACKETS: u64 = 2_000_000;

fn main() {
    let program =
        Arc::new(Program::from_text(include_str!("../../../examples/p4-router.json")).expect("a program"));
    for routes in [10, 1_000, 100_000] {
        let mut switch = Switch::new(program.clone(), SwitchConfig::default());
        let table = program.table("routes").expect("a table");
        let action = program.action_of(table, "forward").expect("an action");
        let mut stream = Seed(1).stream(&["routes"]);
        let mut destinations: Vec<[u8; 4]> = Vec::new();
        while switch.entry_count(table).unwrap_or(0) < routes {
            let prefix = 16 + stream.below(13) as u32;
            let value = stream.next_u32() & (u32::MAX << (32 - prefix));
            let port = stream.below(16) as u8;
            let entry = Entry {
                key: vec![KeyMatch::Lpm { value: value.to_be_bytes().to_vec(), prefix }],
                priority: 0,
                action: ActionSpec::Direct { action, arguments: vec![vec![2, 0, 0, 0, 0, port], vec![port]] },
                idle_timeout: None,
            };
            if switch.add_entry(table, &entry).is_ok() {
                destinations.push((value | stream.next_u32() & ((1 << (32 - prefix)) - 1)).to_be_bytes());
            }
        }
        let nanoseconds = measure(&mut switch, &destinations);
        println!("{routes:>7} routes: {nanoseconds:.0} ns a packet");
    }
}

#[expect(clippy::disallowed_methods, reason = "a benchmark reads the clock")]
fn measure(switch: &mut Switch, destinations: &[[u8; 4]]) -> f64 {
    let mut frame = vec![0; 98];
    frame[12] = 8;
    frame[14..24].copy_from_slice(&[0x45, 0, 0, 84, 0, 1, 0, 0, 64, 17]);
    let mut left = 0;
    let start = Instant::now();
    let mut buffer = frame.clone();
    for n in 0..PACKETS {
        buffer.clear();
        buffer.extend_from_slice(&frame);
        buffer[30..34].copy_from_slice(&destinations[(n as usize).wrapping_mul(7_919) % destinations.len()]);
        let now = SimTime::from_nanos(n * 1_000);
        switch.receive(now, 0, std::mem::take(&mut buffer));
        while let Some(leaving) = switch.poll(now) {
            left += 1;
            buffer = leaving.packet;
        }
    }
    assert_eq!(left, PACKETS);
    start.elapsed().as_nanos() as f64 / PACKETS as f64
}
