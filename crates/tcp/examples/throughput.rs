//! Throughput of the state machine: one flow of 10 simulated seconds over 1 Gbit/s, whose segments are passed
//! on in virtual time without any other component. Run with
//! `perf stat -e task-clock cargo run --release -p belljar-tcp --example throughput`, or `time`.

use belljar_base::{SimDuration, SimTime};
use belljar_tcp::{Config, Connection, Ecn, Repr};
use belljar_wire::tcp::Packet;
use std::collections::VecDeque;
use std::net::SocketAddr;

/// One direction of the link: segments in transit in order of arrival, and buffers for reuse.
#[derive(Default)]
struct Pipe {
    free_at: SimTime,
    flight: VecDeque<(SimTime, SimTime, Vec<u8>)>,
}

const RATE: u64 = 1_000_000_000;
const DELAY: SimDuration = SimDuration::from_millis(5);

fn main() {
    let address = |host: u8| SocketAddr::from(([10, 0, 0, host], 5001));
    let mut now = SimTime::ZERO;
    let mut client = Connection::connect(Config::default(), address(1), address(2), 1, now);
    let mut bytes = Vec::new();
    client.poll_transmit(now, 0, &mut bytes).expect("a SYN");
    let syn = Repr::parse(&Packet::new_checked(&bytes[..]).expect("a header"));
    let server = Connection::accept_syn(Config::default(), address(2), address(1), &syn, 2, now);
    let mut ends = [client, server];
    let mut pipes = [Pipe::default(), Pipe::default()];
    let mut spare: Vec<Vec<u8>> = Vec::new();
    let data = vec![0x5a; 64 * 1024];
    let mut sink = vec![0; 64 * 1024];
    let (mut segments, mut received) = (0u64, 0u64);

    loop {
        for end in 0..2 {
            while end == 0 && ends[0].send(&data, now) > 0 {}
            loop {
                let n = ends[end].recv(&mut sink, now);
                received += n as u64;
                if n == 0 {
                    break;
                }
            }
            loop {
                let pipe = &mut pipes[end];
                let waiting = pipe.flight.iter().rev().take_while(|(departs, _, _)| *departs > now);
                let queued: usize = waiting.map(|(_, _, bytes)| bytes.len() + 20).sum();
                let mut bytes = spare.pop().unwrap_or_default();
                bytes.clear();
                if ends[end].poll_transmit(now, queued, &mut bytes).is_none() {
                    spare.push(bytes);
                    break;
                }
                segments += 1;
                let pipe = &mut pipes[end];
                let wire = bytes.len() as u64 + 20;
                pipe.free_at = pipe.free_at.max(now) + SimDuration::serialisation(wire, RATE);
                pipe.flight.push_back((pipe.free_at, pipe.free_at + DELAY, bytes));
            }
            ends[end].take_events();
        }
        let arrivals = pipes.iter().filter_map(|pipe| pipe.flight.front().map(|&(_, at, _)| at));
        // The device sent a packet: the connection may queue more.
        let departures = pipes[0].flight.iter().rev().take_while(|(departs, _, _)| *departs > now).last();
        let timers = ends.iter().filter_map(Connection::next_timer);
        let next = arrivals.chain(departures.map(|&(at, _, _)| at)).chain(timers).min();
        now = next.expect("a flow that goes on");
        if now > SimTime::from_secs(10) {
            break;
        }
        for end in 0..2 {
            while let Some((_, _, bytes)) = arrived(&mut pipes[1 - end], now) {
                let packet = Packet::new_checked(&bytes[..]).expect("a header");
                let _ = ends[end].on_segment(&Repr::parse(&packet), packet.payload(), Ecn::NotEct, now);
                spare.push(bytes);
            }
            if ends[end].next_timer().is_some_and(|at| at <= now) {
                ends[end].on_timer(now);
            }
        }
    }
    let goodput = received as f64 * 8.0 / now.as_secs_f64() / 1e6;
    println!("{segments} segments, {goodput:.1} Mbit/s over {now} s");
}

fn arrived(pipe: &mut Pipe, now: SimTime) -> Option<(SimTime, SimTime, Vec<u8>)> {
    let due = pipe.flight.front().is_some_and(|&(_, at, _)| at <= now);
    if due { pipe.flight.pop_front() } else { None }
}
