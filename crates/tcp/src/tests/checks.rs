//! Invalid segments, and silent peers.

use super::solo::{OURS, PEERS, Solo};
use crate::{Config, Events, Flags, Keepalive, Seq, State, TcpError};
use belljar_base::SimDuration;

const MS: fn(u64) -> SimDuration = SimDuration::from_millis;
const SECS: fn(u64) -> SimDuration = SimDuration::from_secs;

#[test]
fn paws_drops_old_duplicates() {
    let mut solo = Solo::modern();
    solo.stamp = Some(800);
    solo.data(PEERS + 1, OURS + 1, b"new");
    solo.sent();
    solo.stamp = Some(799);
    solo.data(PEERS + 4, OURS + 1, b"old");
    assert_eq!(solo.tcp.readable_bytes(), 3);
    let (ack, _) = solo.sent_one();
    assert_eq!((ack.flags, ack.ack.0), (Flags::ACK, PEERS + 4));
    assert_eq!(ack.options.timestamps.unwrap().echo, 800);
    solo.stamp = Some(800);
    solo.data(PEERS + 4, OURS + 1, b"now");
    assert_eq!(solo.tcp.readable_bytes(), 6);
    // After 24 days of silence the clock may have wrapped.
    solo.now += SECS(25 * 24 * 3600);
    solo.stamp = Some(1);
    solo.data(PEERS + 7, OURS + 1, b"!");
    assert_eq!(solo.tcp.readable_bytes(), 7);
}

#[test]
fn resets_count_only_at_the_exact_number() {
    let mut solo = Solo::plain();
    solo.feed(&solo.segment(Flags::RST, PEERS, 0), b"");
    solo.feed(&solo.segment(Flags::RST, PEERS + 100_000, 0), b"");
    assert_eq!(solo.sent().len(), 0);
    // RFC 5961: a reset inside the window, but not at its edge, is challenged.
    solo.feed(&solo.segment(Flags::RST, PEERS + 2, 0), b"");
    let (challenge, _) = solo.sent_one();
    assert_eq!((challenge.flags, challenge.ack.0), (Flags::ACK, PEERS + 1));
    assert_eq!(solo.tcp.state(), State::Established);
    // Challenges are limited in rate.
    solo.feed(&solo.segment(Flags::RST, PEERS + 2, 0), b"");
    assert_eq!(solo.sent().len(), 0);
    solo.feed(&solo.segment(Flags::RST, PEERS + 1, 0), b"");
    assert_eq!(solo.tcp.state(), State::Closed);
    assert_eq!(solo.tcp.take_error(), Some(TcpError::Reset));
    assert!(solo.tcp.take_events().contains(Events::ERROR | Events::CLOSED));
}

#[test]
fn a_syn_in_the_middle_is_challenged() {
    let mut solo = Solo::plain();
    solo.feed(&solo.segment(Flags::SYN, PEERS + 1, 0), b"");
    assert_eq!(solo.sent_one().0.flags, Flags::ACK);
    assert_eq!(solo.tcp.state(), State::Established);
}

#[test]
fn acks_of_the_future_and_of_the_distant_past_are_refused() {
    let mut solo = Solo::plain();
    solo.data(PEERS + 1, OURS + 2, b"spoofed");
    assert_eq!(solo.tcp.readable_bytes(), 0);
    assert_eq!(solo.sent_one().0.ack.0, PEERS + 1);
    solo.now += SECS(1);
    solo.data(PEERS + 1, OURS.wrapping_sub(1_000_000), b"spoofed");
    assert_eq!(solo.tcp.readable_bytes(), 0);
    assert_eq!(solo.sent().len(), 1);
    solo.data(PEERS + 1, OURS + 1, b"real");
    assert_eq!(solo.tcp.readable_bytes(), 4);
}

#[test]
fn segments_outside_the_window_are_acknowledged_and_dropped() {
    let mut solo = Solo::plain();
    solo.data(PEERS + 1 + 200_000, OURS + 1, b"beyond");
    assert_eq!(solo.sent_one().0.ack.0, PEERS + 1);
    solo.data(PEERS + 1, OURS + 1, b"abc");
    solo.sent();
    solo.data(PEERS + 1, OURS + 1, b"abc");
    assert_eq!(solo.sent_one().0.ack.0, PEERS + 4);
    // Overlapping data: only the new part counts.
    solo.data(PEERS + 2, OURS + 1, b"bcdef");
    let mut buffer = [0; 10];
    assert_eq!(solo.tcp.recv(&mut buffer, solo.now), 6);
    assert_eq!(&buffer[..6], b"abcdef");
}

#[test]
fn holes_are_reported_and_duplicates_too() {
    let mut solo = Solo::modern();
    let block = |a: u32, b: u32| (Seq(PEERS + a), Seq(PEERS + b));
    solo.data(PEERS + 11, OURS + 1, &[2; 10]);
    assert_eq!(solo.sent_one().0.options.sack.as_slice(), [block(11, 21)]);
    solo.data(PEERS + 31, OURS + 1, &[4; 10]);
    assert_eq!(solo.sent_one().0.options.sack.as_slice(), [block(31, 41), block(11, 21)]);
    solo.data(PEERS + 21, OURS + 1, &[3; 10]);
    assert_eq!(solo.sent_one().0.options.sack.as_slice(), [block(11, 41)]);
    // RFC 2883: a duplicate within the queue comes first.
    solo.data(PEERS + 15, OURS + 1, &[9; 5]);
    assert_eq!(solo.sent_one().0.options.sack.as_slice(), [block(15, 20), block(11, 41)]);
    solo.data(PEERS + 1, OURS + 1, &[1; 10]);
    let (ack, _) = solo.sent_one();
    assert_eq!((ack.ack.0, ack.options.sack.is_empty()), (PEERS + 41, true));
    solo.data(PEERS + 1, OURS + 1, &[1; 10]);
    assert_eq!(solo.sent_one().0.options.sack.as_slice(), [block(1, 11)]);
    let mut buffer = [0; 50];
    assert_eq!(solo.tcp.recv(&mut buffer, solo.now), 40);
    assert_eq!([buffer[0], buffer[10], buffer[15], buffer[20], buffer[39]], [1, 2, 2, 3, 4]);
}

#[test]
fn a_fin_behind_a_hole_waits_for_it() {
    let mut solo = Solo::modern();
    solo.feed(&solo.segment(Flags::ACK | Flags::FIN, PEERS + 4, OURS + 1), b"def");
    assert_eq!(solo.tcp.state(), State::Established);
    solo.data(PEERS + 1, OURS + 1, b"abc");
    assert_eq!(solo.tcp.state(), State::CloseWait);
    let mut buffer = [0; 10];
    assert_eq!(solo.tcp.recv(&mut buffer, solo.now), 6);
    assert!(solo.tcp.is_read_closed());
    assert_eq!(solo.sent().last().unwrap().0.ack.0, PEERS + 8);
}

#[test]
fn silence_is_probed_and_then_ends_the_connection() {
    let mut solo = Solo::plain();
    let start = solo.now;
    let keepalive = Keepalive { idle: SECS(60), interval: SECS(5), probes: 3 };
    solo.tcp.set_keepalive(Some(keepalive), solo.now);
    let mut times = Vec::new();
    while solo.tcp.state() != State::Closed {
        times.push(solo.tick().since(start).as_millis() / 1000);
        let (probe, payload) = solo.sent_one();
        if solo.tcp.state() == State::Closed {
            assert!(probe.has(Flags::RST));
        } else {
            assert_eq!((probe.seq.0, probe.flags, payload.len()), (OURS, Flags::ACK, 0));
        }
    }
    assert_eq!(times, [60, 65, 70, 75]);
    assert_eq!(solo.tcp.take_error(), Some(TcpError::TimedOut));
}

#[test]
fn an_answered_probe_starts_the_silence_anew() {
    let mut solo = Solo::plain();
    let keepalive = Keepalive { idle: SECS(60), interval: SECS(5), probes: 3 };
    solo.tcp.set_keepalive(Some(keepalive), solo.now);
    for _ in 0..5 {
        solo.tick();
        assert_eq!(solo.sent().len(), 1);
        let answered = solo.now;
        solo.data(PEERS + 1, OURS + 1, b"");
        while solo.tcp.next_timer().unwrap() < answered + SECS(59) {
            solo.tick();
            assert_eq!(solo.sent().len(), 0);
        }
    }
}

#[test]
fn the_other_side_of_a_keepalive_probe_answers() {
    let mut solo = Solo::modern();
    solo.data(PEERS, OURS + 1, b"");
    assert_eq!(solo.sent_one().0.ack.0, PEERS + 1);
}

#[test]
fn user_timeout_is_sooner_than_retries() {
    let mut solo = Solo::plain();
    solo.tcp.set_user_timeout(Some(SECS(5)));
    solo.tcp.send(b"lost", solo.now);
    let start = solo.now;
    while solo.tcp.state() != State::Closed {
        solo.sent();
        solo.tick();
    }
    let lasted = solo.now.since(start);
    assert!(lasted >= SECS(5) && lasted < SECS(10), "{lasted}");
    assert_eq!(solo.tcp.take_error(), Some(TcpError::TimedOut));
}

#[test]
fn unreachable_ends_a_handshake_but_not_a_connection() {
    let mut solo = Solo::connecting(Config::default());
    solo.tcp.on_unreachable(TcpError::HostUnreachable, false);
    assert_eq!(solo.tcp.take_error(), Some(TcpError::HostUnreachable));
    let mut solo = Solo::plain();
    solo.tcp.on_unreachable(TcpError::HostUnreachable, false);
    assert_eq!(solo.tcp.state(), State::Established);
    solo.tcp.send(b"lost", solo.now);
    while solo.tcp.state() != State::Closed {
        solo.sent();
        solo.tick();
    }
    assert_eq!(solo.tcp.take_error(), Some(TcpError::HostUnreachable));
}

#[test]
fn a_smaller_path_means_smaller_segments() {
    let mut solo = Solo::plain();
    solo.tcp.send(&[5; 4000], solo.now);
    assert_eq!(solo.sent().iter().map(|s| s.1.len()).collect::<Vec<_>>(), [1460, 1460, 1080]);
    solo.tcp.on_path_mtu(1000, solo.now);
    let sent = solo.sent();
    assert_eq!(sent[0].0.seq.0, OURS + 1);
    assert!(
        sent.iter().all(|s| s.1.len() <= 960),
        "{:?}",
        sent.iter().map(|s| s.1.len()).collect::<Vec<_>>()
    );
    assert!(sent.iter().map(|s| s.1.len()).sum::<usize>() >= 4000);
}

#[test]
fn everything_in_flight_times_out_in_a_row() {
    let mut solo = Solo::plain();
    solo.tcp.send(&[5; 4000], solo.now);
    solo.sent();
    solo.pass(MS(250));
    let (again, _) = solo.sent_one();
    assert_eq!(again.seq.0, OURS + 1);
    solo.data(PEERS + 1, OURS + 1461, b"");
    let next: Vec<u32> = solo.sent().iter().map(|s| s.0.seq.0).collect();
    assert_eq!(next, [OURS + 1461, OURS + 2921]);
}
