//! Windows and the decision when to send: zero windows, Nagle, corks, delayed ACKs.

use super::solo::{OURS, PEERS, Solo};
use super::util::World;
use crate::{Config, CongestionAlgorithm, Events, Flags, State, TcpError};
use belljar_base::{SimDuration, SimTime};
use belljar_wire::tcp::Timestamps;

const MS: fn(u64) -> SimDuration = SimDuration::from_millis;

#[test]
fn a_stopped_reader_stops_the_sender_and_starts_it_again() {
    let mut world = World::simple();
    world.ends[1].reads = false;
    world.ends[0].to_send = 2_000_000;
    world.run_for(SimDuration::from_secs(30));
    let buffered = world.ends[1].tcp.readable_bytes() as u64;
    assert!((60_000..=131_072).contains(&buffered), "{buffered}");
    let info = world.ends[0].tcp.info(world.now);
    assert_eq!(info.unacked, 0);
    assert!(info.unsent_bytes > 0);
    // Zero-window probes back off: only a few are sent in 30 s.
    let probes =
        world.trace.iter().filter(|&&(at, end, _, len)| end == 0 && len == 0 && at > SimTime::from_secs(1));
    assert!((3..10).contains(&probes.count()), "{world:#?}");
    world.ends[1].reads = true;
    world.run_while(SimTime::from_secs(60), |w| w.ends[1].received < 2_000_000);
    assert!(world.now < SimTime::from_secs(32), "{}", world.now);
}

#[test]
fn a_lost_window_update_is_found_by_a_probe() {
    let mut world = World::simple();
    world.ends[1].reads = false;
    world.ends[0].to_send = 200_000;
    world.run_for(SimDuration::from_secs(2));
    world.ends[1].reads = true;
    // The window update is lost.
    let mut lost = 0;
    world.filter = Box::new(move |_, end, repr, len| {
        let update = end == 1 && len == 0 && repr.window > 0;
        lost += u32::from(update);
        update && lost == 1
    });
    world.run_while(SimTime::from_secs(60), |w| w.ends[1].received < 200_000);
    assert!(world.now < SimTime::from_secs(10), "{}", world.now);
}

/// RFC 9293, section 3.8.6.2.2: no window is announced until it has space for a segment.
#[test]
fn reading_byte_by_byte_makes_no_silly_windows() {
    let mut world = World::simple();
    world.ends[1].reads = false;
    world.ends[0].to_send = 1_000_000;
    world.run_for(SimDuration::from_secs(2));
    let start = world.trace.len();
    for _ in 0..5000 {
        let mut byte = [0];
        assert_eq!(world.ends[1].tcp.recv(&mut byte, world.now), 1);
        world.ends[1].received += 1;
        world.run_for(SimDuration::from_micros(100));
    }
    for (_, end, repr, len) in &world.trace[start..] {
        if *end == 1 {
            let window = u32::from(repr.window) << 7;
            assert!(window == 0 || window >= 1448, "{window}");
        } else if *len > 0 {
            assert_eq!(*len, 1448);
        }
    }
}

#[test]
fn a_probe_is_answered_and_does_not_kill() {
    let mut solo = Solo::plain();
    let mut closed = solo.segment(Flags::ACK, PEERS + 1, OURS + 1);
    closed.window = 0;
    solo.feed(&closed, b"");
    solo.tcp.send(b"waiting", solo.now);
    assert_eq!(solo.sent().len(), 0);
    let mut gaps = Vec::new();
    let mut last = solo.now;
    for _ in 0..12 {
        let at = solo.tick();
        gaps.push(at.since(last).as_millis());
        last = at;
        let (probe, payload) = solo.sent_one();
        // The sequence number of a byte already acknowledged, which the peer must answer.
        assert_eq!((probe.seq.0, payload.len()), (OURS, 0));
        solo.feed(&closed, b"");
    }
    assert_eq!(gaps[..4], [210, 420, 840, 1680]);
    assert_eq!(*gaps.last().unwrap(), 120_000);
    let mut open = closed;
    open.window = 1000;
    solo.feed(&open, b"");
    assert_eq!(solo.sent_one().1, b"waiting");
}

#[test]
fn unanswered_probes_end_the_connection() {
    let mut solo = Solo::plain();
    let mut closed = solo.segment(Flags::ACK, PEERS + 1, OURS + 1);
    closed.window = 0;
    solo.feed(&closed, b"");
    solo.tcp.send(b"waiting", solo.now);
    solo.sent();
    let mut probes = 0;
    while solo.tcp.state() != State::Closed {
        solo.tick();
        probes += solo.sent().len();
    }
    assert_eq!(probes, 15);
    assert_eq!(solo.tcp.take_error(), Some(TcpError::TimedOut));
}

#[test]
fn nagle_holds_back_a_second_small_segment() {
    let mut solo = Solo::plain();
    solo.tcp.send(b"one", solo.now);
    assert_eq!(solo.sent_one().1, b"one");
    solo.tcp.send(b"two", solo.now);
    solo.tcp.send(b"three", solo.now);
    assert_eq!(solo.sent().len(), 0);
    solo.now += MS(10);
    solo.data(PEERS + 1, OURS + 4, b"");
    assert_eq!(solo.sent_one().1, b"twothree");
    // A full segment is sent at once and the small rest is withheld (Minshall): "two three" is
    // unacknowledged.
    solo.tcp.send(&[7; 2000], solo.now);
    let sent = solo.sent();
    assert_eq!(sent.iter().map(|(_, payload)| payload.len()).collect::<Vec<_>>(), [1460]);
    solo.tcp.set_nodelay(true);
    assert_eq!(solo.sent_one().1.len(), 540);
}

#[test]
fn fin_is_not_held_back() {
    let mut solo = Solo::plain();
    solo.tcp.send(b"one", solo.now);
    solo.sent();
    solo.tcp.send(b"two", solo.now);
    assert_eq!(solo.sent().len(), 0);
    solo.tcp.shutdown_write(solo.now);
    let (repr, payload) = solo.sent_one();
    assert!(repr.has(Flags::FIN));
    assert_eq!(payload, b"two");
}

#[test]
fn a_cork_gives_way_after_about_200_ms() {
    let mut solo = Solo::plain();
    solo.tcp.set_cork(true, solo.now);
    solo.tcp.send(b"head", solo.now);
    assert_eq!(solo.sent().len(), 0);
    solo.tcp.send(&[1; 1456], solo.now);
    assert_eq!(solo.sent_one().1.len(), 1460, "a full segment goes");
    solo.now += MS(10);
    solo.data(PEERS + 1, OURS + 1461, b"");
    solo.tcp.send(b"rest", solo.now);
    assert_eq!(solo.sent().len(), 0);
    let start = solo.now;
    let at = solo.tick();
    assert_eq!(solo.sent_one().1, b"rest");
    let waited = at.since(start);
    assert!(waited >= MS(200) && waited < MS(230), "{waited}");
    solo.tcp.send(b"more", solo.now);
    assert_eq!(solo.sent().len(), 0);
    solo.tcp.set_cork(false, solo.now);
    solo.now += MS(10);
    solo.data(PEERS + 1, OURS + 1465, b"");
    assert_eq!(solo.sent_one().1, b"more");
}

/// The first segments of a flow are acknowledged one by one, later ones in pairs or after 40 ms.
#[test]
fn acks_are_quick_at_first_then_delayed() {
    let mut solo = Solo::plain();
    let mut seq = PEERS + 1;
    let mut quick = 0;
    let mut buffer = [0; 4000];
    for _ in 0..40 {
        solo.now += MS(1);
        solo.data(seq, OURS + 1, &[1; 1000]);
        solo.tcp.recv(&mut buffer, solo.now);
        seq += 1000;
        if solo.sent().is_empty() {
            break;
        }
        quick += 1;
    }
    assert!((8..=32).contains(&quick), "{quick}");
    let start = solo.now;
    let at = solo.tick();
    assert_eq!(at.since(start), MS(40));
    assert_eq!(solo.sent_one().0.ack.0, seq);
    // Two full segments are acknowledged at once.
    solo.data(seq, OURS + 1, &[1; 1000]);
    assert_eq!(solo.sent().len(), 0);
    solo.data(seq + 1000, OURS + 1, &[1; 1000]);
    solo.tcp.recv(&mut buffer, solo.now);
    assert_eq!(solo.sent_one().0.ack.0, seq + 2000);
    // TCP_QUICKACK disables delayed ACKs again.
    solo.tcp.set_quickack(true, solo.now);
    solo.data(seq + 2000, OURS + 1, &[1; 10]);
    assert_eq!(solo.sent().len(), 1);
}

#[test]
fn an_ack_rides_on_an_answer() {
    let mut solo = Solo::plain();
    let mut seq = PEERS + 1;
    let mut ours = OURS + 1;
    let mut segments = 0;
    for _ in 0..20 {
        solo.data(seq, ours, b"question");
        seq += 8;
        let mut buffer = [0; 100];
        solo.tcp.recv(&mut buffer, solo.now);
        solo.tcp.send(b"answer", solo.now);
        segments += solo.sent().len();
        ours += 6;
        solo.now += MS(10);
    }
    assert_eq!(segments, 20);
}

#[test]
fn writers_are_woken_when_a_third_is_free() {
    let mut world = World::simple();
    world.run_for(MS(100));
    let end = &mut world.ends[0];
    end.tcp.set_send_buffer(30_000);
    // One buffer above the limit, since a buffer is filled once it is allocated.
    let mut written = 0;
    while let n @ 1.. = end.tcp.send(&[0; 50_000], world.now) {
        written += n;
    }
    assert_eq!(written, 22 * 1448);
    assert!(!end.tcp.readiness().contains(crate::Readiness::WRITABLE));
    end.events = Events::empty();
    world.ends[1].reads = false;
    world.run_while(SimTime::from_secs(1), |w| !w.ends[0].events.contains(Events::WRITABLE));
    let free = world.ends[0].tcp.writable_bytes();
    assert!(free >= 10_000, "{free}");
}

/// `SO_SNDBUF` that Linux 6.18 reports for connections over `lo` with these `TCP_MAXSEG`.
#[test]
fn the_send_buffer_holds_the_first_window_twice() {
    for (mss, reno, bbr) in [
        (300, 25_600, 38_400),
        (512, 25_600, 38_400),
        (513, 46_080, 69_120),
        (1_460, 46_080, 69_120),
        (1_537, 87_040, 130_560),
        (8_960, 332_800, 499_200),
    ] {
        for (congestion, expected) in [(CongestionAlgorithm::Reno, reno), (CongestionAlgorithm::Bbr, bbr)] {
            let config = Config { mss, congestion, ..Config::default() };
            let mut world =
                World::new(super::util::Link::new(100_000_000, MS(5)), [config.clone(), config], 2);
            world.run_for(MS(100));
            assert_eq!(world.ends[0].tcp.send_buffer(), expected, "{mss} {congestion:?}");
        }
    }
}

/// In the kernel, the window of such a flow does not change while it lasts: the program would send more.
#[test]
fn a_window_that_the_send_buffer_leaves_unused_does_not_decay() {
    let config = Config { wmem: [4096, 16_384, 300_000], ..Config::default() };
    let mut world = World::new(super::util::Link::new(100_000_000, MS(25)), [config.clone(), config], 2);
    world.ends[0].to_send = u64::MAX;
    world.run_for(SimDuration::from_secs(3));
    let before = world.ends[0].tcp.info(world.now);
    world.run_for(SimDuration::from_secs(10));
    let after = world.ends[0].tcp.info(world.now);
    assert!(before.cwnd > 250 && after.cwnd == before.cwnd, "{} and {}", before.cwnd, after.cwnd);
}

#[test]
fn fixed_buffers_bound_what_is_held() {
    let config = Config { receive_buffer: Some(8192), send_buffer: Some(8192), ..Config::default() };
    let link = super::util::Link::new(10_000_000, MS(5));
    let mut world = World::new(link, [config.clone(), config], 2);
    world.ends[1].reads = false;
    world.ends[0].to_send = u64::MAX;
    world.run_for(SimDuration::from_secs(60));
    assert!(world.ends[1].tcp.readable_bytes() <= 8192);
    assert!(world.ends[0].tcp.unacknowledged_bytes() <= 8192);
    assert_eq!(world.ends[1].tcp.receive_buffer(), 8192);
}

/// Out-of-order data causes three immediate ACKs; ACKs of further segments in close succession are merged.
#[test]
fn acks_behind_a_hole_are_compressed() {
    let mut solo = Solo::modern();
    let (payload, ours) = ([0; 1000], OURS + 1);
    solo.tcp.set_quickack(false, solo.now);
    let echo = |solo: &Solo, seq: u32| {
        let mut segment = solo.segment(Flags::ACK, seq, ours);
        segment.options.timestamps = solo.stamp.map(|value| Timestamps { value, echo: 1 });
        segment
    };
    solo.pass(MS(50));
    solo.feed(&echo(&solo, PEERS + 1), &payload);
    solo.pass(MS(50));
    solo.sent();
    for hole in 1..=3 {
        solo.feed(&echo(&solo, PEERS + 1 + 2000 * hole), &payload);
        assert_eq!(solo.sent().len(), 1, "{hole}");
    }
    let since = solo.now;
    for hole in 4..=20 {
        solo.feed(&echo(&solo, PEERS + 1 + 2000 * hole), &payload);
        assert_eq!(solo.sent().len(), 0, "{hole}");
    }
    // A twentieth of the round trip of 10 ms.
    assert_eq!(solo.tick(), since + SimDuration::from_micros(500));
    assert_eq!(solo.sent().len(), 1);
}
