//! Recovery from loss, and the times of retransmissions.

use super::solo::{OURS, PEERS, Solo};
use super::util::{Link, World};
use crate::{Config, Flags, State, TcpError};
use belljar_base::{SimDuration, SimTime};

const MS: fn(u64) -> SimDuration = SimDuration::from_millis;

/// Transfers `bytes` over 100 Mbit/s and 20 ms, losing the data segments with these numbers (from 1,
/// retransmissions included).
fn transfer(bytes: u64, lost: &'static [u32], config: Config) -> World {
    let mut world = World::new(Link::new(100_000_000, MS(10)), [config.clone(), config], 1);
    world.tracing = true;
    let mut count = 0;
    world.filter = Box::new(move |_, end, _, len| {
        count += u32::from(end == 0 && len > 0);
        end == 0 && len > 0 && lost.contains(&count)
    });
    world.ends[0].to_send = bytes;
    world.run_while(SimTime::from_secs(60), |w| w.ends[1].received < bytes);
    world
}

/// Data segments that are retransmissions.
fn retransmissions(world: &World) -> Vec<SimTime> {
    let mut highest = None;
    let mut found = Vec::new();
    for &(at, end, ref repr, len) in &world.trace {
        if end == 0 && len > 0 {
            match highest {
                Some(high) if repr.seq < high => found.push(at),
                _ => highest = Some(repr.seq.wrapping_add(len as u32)),
            }
        }
    }
    found
}

/// Time from the first transmission to the first retransmission of the same bytes.
fn patience(world: &World) -> SimDuration {
    let again = retransmissions(world)[0];
    let is_data = |end: usize, len: usize| end == 0 && len > 0;
    let (_, _, repr, _) =
        world.trace.iter().find(|&&(at, end, _, len)| at == again && is_data(end, len)).unwrap();
    let first = world.trace.iter().find(|(_, end, r, len)| is_data(*end, *len) && r.seq == repr.seq);
    again.since(first.unwrap().0)
}

#[test]
fn one_loss_is_repaired_by_one_retransmission_without_timeout() {
    let world = transfer(500_000, &[30], Config::default());
    let clean = transfer(500_000, &[], Config::default());
    assert_eq!(retransmissions(&clean).len(), 0);
    assert_eq!(retransmissions(&world).len(), 1);
    assert!(patience(&world) < MS(40), "{}", patience(&world));
    let info = world.ends[0].tcp.info(world.now);
    assert_eq!((info.total_retransmitted, info.congestion_state), (1, 0));
    assert!(info.ssthresh < 1000, "the window was reduced");
}

#[test]
fn a_burst_of_losses_is_repaired_in_a_few_round_trips() {
    let world = transfer(500_000, &[40, 41, 42, 43, 44, 45, 46, 47], Config::default());
    let clean = transfer(500_000, &[], Config::default());
    assert_eq!(retransmissions(&world).len(), 8);
    assert!(world.now.since(clean.now) < MS(150), "{}", world.now.since(clean.now));
}

#[test]
fn a_lost_retransmission_is_noticed_without_timeout() {
    // Segment 30 is lost; whichever transmission repairs it is lost as well.
    let mut world = World::simple();
    let (mut count, mut victim, mut drops) = (0, None, 0);
    world.filter = Box::new(move |_, end, repr, len| {
        if end != 0 || len == 0 {
            return false;
        }
        count += 1;
        if count == 60 {
            victim = Some(repr.seq);
        }
        let hit = victim == Some(repr.seq) && drops < 2;
        drops += u32::from(hit);
        hit
    });
    world.ends[0].to_send = 2_000_000;
    world.run_while(SimTime::from_secs(60), |w| w.ends[1].received < 2_000_000);
    assert_eq!(retransmissions(&world).len(), 2);
    let times = retransmissions(&world);
    assert!(times[1].since(times[0]) < MS(60), "{}", times[1].since(times[0]));
}

#[test]
fn newreno_repairs_without_sack() {
    let config = Config { sack: false, ..Config::default() };
    let world = transfer(500_000, &[40, 43], config);
    let times = retransmissions(&world);
    assert_eq!(times.len(), 2);
    assert!(patience(&world) < MS(40), "{}", patience(&world));
    // A partial ACK reveals the second hole one round trip later.
    assert!(times[1].since(times[0]) < MS(30), "{}", times[1].since(times[0]));
}

#[test]
fn the_tail_is_probed_after_two_round_trips() {
    // 20,000 bytes are 14 segments; the last two are lost. The probe retransmits the last one, and its SACK
    // reveals the other.
    let world = transfer(20_000, &[13, 14], Config::default());
    let times = retransmissions(&world);
    assert_eq!(times.len(), 2);
    let last = world.trace.iter().rfind(|&&(at, end, _, len)| end == 0 && len > 0 && at < times[0]);
    let waited = times[0].since(last.unwrap().0);
    // 2 * SRTT after the last ACK, earlier than the timeout of 220 ms.
    assert!(waited > MS(40) && waited < MS(90), "{waited}");
}

/// The ACK of a single segment may be delayed: Linux waits 200 ms longer.
#[test]
fn a_lone_tail_is_probed_later() {
    let world = transfer(20_000, &[14], Config::default());
    let times = retransmissions(&world);
    assert_eq!(times.len(), 1);
    assert!(patience(&world) > MS(200) && patience(&world) < MS(300), "{}", patience(&world));
}

/// Linux: SYNs one second apart at first, then at increasing intervals; ETIMEDOUT after 127 s, to which
/// `tcp_syn_retries` = 6 corresponds.
#[test]
fn syn_is_sent_eleven_times_in_131_seconds() {
    let mut solo = Solo::connecting(Config::default());
    let mut times = Vec::new();
    while solo.tcp.state() != State::Closed {
        times.push(solo.tick().as_nanos() / 1_000_000_000);
        for (repr, _) in solo.sent() {
            assert_eq!(repr.flags, Flags::SYN);
        }
    }
    assert_eq!(times, [1, 2, 3, 4, 5, 7, 11, 19, 35, 67, 131]);
    assert_eq!(solo.tcp.take_error(), Some(TcpError::TimedOut));
    assert_eq!(solo.tcp.next_timer(), None);
}

/// Linux after a 10 ms handshake: the timeout is SRTT + 200 ms and doubles up to 120 s; `tcp_retries2` = 15
/// ends the connection 924.6 s after the first one.
#[test]
fn data_is_retransmitted_with_exponential_backoff() {
    let mut solo = Solo::plain();
    solo.tcp.send(b"hello", solo.now);
    let start = solo.now;
    assert_eq!(solo.sent_one().1, b"hello");
    let mut gaps = Vec::new();
    let mut last = start;
    while solo.tcp.state() != State::Closed {
        let at = solo.tick();
        let sent = solo.sent();
        if !sent.is_empty() {
            assert_eq!((sent.len(), &sent[0].1[..]), (1, &b"hello"[..]));
            gaps.push(at.since(last).as_millis());
            last = at;
        }
    }
    let expected: Vec<u64> = (0..).map(|n| (210u64 << n).min(120_000)).take(gaps.len()).collect();
    assert_eq!(gaps, expected);
    assert_eq!(gaps.len(), 15);
    assert_eq!(solo.tcp.take_error(), Some(TcpError::TimedOut));
}

#[test]
fn syn_ack_is_sent_six_times() {
    let config = Config::default();
    let mut world = World::new(Link::new(1_000_000, MS(1)), [config.clone(), config], 1);
    world.tracing = true;
    world.filter = Box::new(|_, _, _, _| true);
    let start = world.now;
    world.run_for(SimDuration::from_secs(200));
    let of_server = world.trace.iter().filter(|(_, end, _, _)| *end == 1);
    let times: Vec<u64> = of_server.map(|(at, ..)| at.since(start).as_millis() / 1000).collect();
    assert_eq!(times, [0, 1, 3, 7, 15, 31]);
    assert_eq!(world.states()[1], State::Closed);
}

/// All later segments overtake those of half a second. The recovery was spurious: DSACKs reveal it, and the
/// window is restored.
#[test]
fn a_spurious_recovery_is_undone() {
    let mut world = World::simple();
    world.ends[0].to_send = 3_000_000;
    world.run_for(MS(150));
    let before = world.ends[0].tcp.info(world.now).cwnd;
    // No segment arrives for 500 ms; then all of them do.
    world.link.delay = MS(510);
    world.run_for(MS(25));
    world.link.delay = MS(10);
    world.run_for(MS(700));
    let after = world.ends[0].tcp.info(world.now);
    assert!(after.total_retransmitted > 0, "there was a recovery: {after:?}");
    assert!(after.cwnd >= before, "{before} before, {} after", after.cwnd);
}

/// RFC 3522: the ACK that arrives after a timeout echoes the timestamp of the first transmission.
#[test]
fn a_spurious_timeout_is_undone() {
    let mut solo = Solo::modern();
    solo.tcp.send(&[1; 14_480], solo.now);
    let first = solo.sent();
    assert_eq!(first.len(), 10);
    let before = solo.tcp.info(solo.now);
    let original = first[0].0.options.timestamps.unwrap().value;
    while solo.tcp.info(solo.now).congestion_state != 4 {
        solo.tick();
        solo.sent();
    }
    let lost = solo.tcp.info(solo.now);
    assert_eq!((lost.cwnd, lost.ssthresh), (1, 7));
    let mut ack = solo.segment(Flags::ACK, PEERS + 1, OURS + 1449);
    ack.options.timestamps.as_mut().unwrap().echo = original;
    solo.feed(&ack, b"");
    let after = solo.tcp.info(solo.now);
    assert_eq!((after.congestion_state, after.ssthresh, after.lost), (0, before.ssthresh, 0));
    assert!(after.cwnd >= before.cwnd);
}

/// As in the previous test, but the retransmission is acknowledged: the window stays reduced.
#[test]
fn a_genuine_timeout_is_not_undone() {
    let mut solo = Solo::modern();
    solo.tcp.send(&[1; 14_480], solo.now);
    solo.sent();
    let mut last = 0;
    while solo.tcp.info(solo.now).congestion_state != 4 {
        solo.tick();
        last = solo.sent().last().map_or(last, |s| s.0.options.timestamps.unwrap().value);
    }
    let mut ack = solo.segment(Flags::ACK, PEERS + 1, OURS + 1449);
    ack.options.timestamps.as_mut().unwrap().echo = last;
    solo.feed(&ack, b"");
    let after = solo.tcp.info(solo.now);
    assert_eq!((after.congestion_state, after.ssthresh), (4, 7));
    assert!(after.cwnd <= 2, "{after:?}");
}

#[test]
fn karn_no_sample_from_what_was_sent_twice() {
    let mut solo = Solo::plain();
    solo.tcp.send(b"x", solo.now);
    solo.sent();
    let rtt = solo.tcp.info(solo.now).rtt;
    solo.tick();
    assert_eq!(solo.sent().len(), 1);
    let rto = solo.tcp.info(solo.now).rto;
    assert_eq!(rto, MS(420));
    solo.now += MS(10);
    solo.data(PEERS + 1, OURS + 2, b"");
    let info = solo.tcp.info(solo.now);
    assert_eq!((info.rtt, info.rto), (rtt, rto), "RFC 6298: the backed-off timeout stays");
    solo.tcp.send(b"y", solo.now);
    solo.sent();
    solo.now += MS(10);
    solo.data(PEERS + 1, OURS + 3, b"");
    assert!(solo.tcp.info(solo.now).rto <= MS(210));
}
