//! Channels between two ends in one process.

use crate::testing::{at, eventually, frame, pair, parameters, socket, synchronised};
use crate::*;
use belljar_base::SimTime;

#[test]
fn a_frame_arrives_after_the_senders_latency_and_not_before() {
    let (mut left, mut right) = synchronised(500);
    assert!(left.is_synchronised() && right.is_synchronised());
    assert!(left.send(at(70), &frame(1, 60)).unwrap());
    assert_eq!(right.poll(at(569)).unwrap(), None);
    assert_eq!(right.horizon(), at(570), "seen, not taken");
    assert_eq!(right.poll(at(570)).unwrap(), Some((at(570), frame(1, 60))));
    assert_eq!(right.poll(SimTime::MAX).unwrap(), None);
    assert_eq!(right.horizon(), at(570));
}

#[test]
fn sync_is_due_an_interval_after_what_was_sent_last() {
    let (mut left, mut right) = synchronised(500);
    assert_eq!(left.sync_due(), at(0));
    assert!(left.sync(at(0)));
    assert_eq!(left.sync_due(), at(500));
    assert!(left.sync(at(499)), "none is due");
    assert_eq!(left.counts().syncs_sent, 1);
    left.send(at(300), &frame(1, 60)).unwrap();
    assert_eq!(left.sync_due(), at(800));
    assert!(left.sync(at(800)));
    assert_eq!(right.poll(at(800)).unwrap(), Some((at(800), frame(1, 60))));
    assert_eq!(right.poll(at(800)).unwrap(), None);
    assert_eq!(right.horizon(), at(1_300));
    assert_eq!((right.counts().syncs_received, right.counts().received), (1, 1));
}

/// With an interval as long as the latency, each end waits for a SYNC that the other sends at its own
/// horizon.
#[test]
fn two_ends_that_sync_when_due_never_wait_for_each_other() {
    let (left, right) = synchronised(500);
    let run = |mut end: Channel<Net>| {
        let (mut now, mut backoff) = (SimTime::ZERO, Backoff::default());
        while now < at(1_000_000) {
            assert!(end.sync(now));
            assert_eq!(end.poll(now).unwrap(), None);
            if end.horizon() > now {
                now = end.horizon();
                backoff.reset();
            } else {
                backoff.wait();
            }
        }
        end
    };
    let thread = std::thread::spawn(move || run(right));
    let left = run(left);
    let right = thread.join().unwrap();
    assert!(left.counts().syncs_sent >= 2_000 && right.counts().syncs_sent >= 2_000);
}

#[test]
fn slots_come_around_and_a_full_queue_says_so() {
    let (mut left, mut right) = synchronised(500);
    for round in 0..5_u64 {
        for n in 0..8 {
            assert!(left.send(at(round * 10 + n), &frame(n as u8, 64)).unwrap());
        }
        assert!(!left.send(at(round * 10 + 9), &frame(9, 64)).unwrap());
        assert!(!left.sync(at(round * 10 + 600)));
        for n in 0..8 {
            let (time, got) = right.poll(SimTime::MAX).unwrap().unwrap();
            assert_eq!((time, got), (at(round * 10 + n + 500), frame(n as u8, 64)));
        }
    }
}

#[test]
fn frames_are_as_long_as_slots_allow() {
    let path = socket();
    let jumbo = |role| Parameters { slot_size: 9_100, ..parameters(role, &path, 10) };
    let (mut left, mut right) = pair(jumbo(Role::Listen), jumbo(Role::Connect)).unwrap();
    assert_eq!((left.capacity(), right.capacity()), (9_036, 9_036));
    assert!(right.send(at(1), &frame(7, 9_036)).unwrap());
    assert_eq!(left.poll(at(11)).unwrap().unwrap().1, frame(7, 9_036));
    let error = right.send(at(2), &frame(7, 9_037)).unwrap_err().to_string();
    assert_eq!(
        error,
        "peer: a message of 9037 bytes does not fit into the peer's slots, which hold 9036: start it with larger slots"
    );
}

#[test]
fn each_end_may_leave_synchronisation_to_the_other() {
    use SyncMode::*;
    for (listener, connector, expected) in [
        (Off, Off, Ok((false, false))),
        (Off, Optional, Ok((false, false))),
        (Optional, Off, Ok((false, false))),
        (Optional, Optional, Ok((true, true))),
        (Required, Optional, Ok((true, true))),
        (Required, Off, Err("sync")),
        (Off, Required, Err("sync")),
    ] {
        let path = socket();
        let with = |role, sync| Parameters { sync, ..parameters(role, &path, 10) };
        let made = pair(with(Role::Listen, listener), with(Role::Connect, connector));
        let made = made.map(|(left, right)| (left.is_synchronised(), right.is_synchronised()));
        match expected {
            Ok(expected) => assert_eq!(made.unwrap(), expected, "{listener:?} {connector:?}"),
            Err(word) => assert!(made.unwrap_err().to_string().contains(word)),
        }
    }
}

#[test]
fn without_synchronisation_what_is_there_arrives_now() {
    let path = socket();
    let with = |role| Parameters { sync: SyncMode::Off, ..parameters(role, &path, 10) };
    let (mut left, mut right) = pair(with(Role::Listen), with(Role::Connect)).unwrap();
    left.send(at(1_000), &frame(1, 60)).unwrap();
    assert_eq!((right.horizon(), left.sync_due()), (SimTime::MAX, SimTime::MAX));
    assert_eq!(right.poll(at(3)).unwrap(), Some((at(3), frame(1, 60))));
}

#[test]
fn terminate_ends_a_channel_and_going_away_is_noticed_when_all_is_read() {
    let (mut left, mut right) = synchronised(500);
    left.send(at(5), &frame(1, 60)).unwrap();
    assert!(left.terminate());
    drop(left);
    right.check_peer().unwrap();
    assert_eq!(right.poll(at(600)).unwrap(), Some((at(505), frame(1, 60))));
    assert_eq!(right.poll(at(600)).unwrap(), None);
    assert!(right.has_ended());
    assert_eq!((right.horizon(), right.sync_due()), (SimTime::MAX, SimTime::MAX));
    assert_eq!(right.last_heard(), at(505), "whatever has been polled for since");
    right.check_peer().unwrap();
    assert!(right.send(at(700), &frame(1, 60)).unwrap(), "dropped");

    let (mut left, mut right) = synchronised(500);
    left.send(at(5), &frame(1, 60)).unwrap();
    drop(left);
    right.check_peer().unwrap();
    right.poll(at(505)).unwrap().unwrap();
    let error = eventually(|| right.check_peer().err()).to_string();
    assert_eq!(error, "peer: it closed the channel without TERMINATE: has it ended, or crashed?");
    assert!(right.has_ended());
}

#[test]
fn a_stamp_that_falls_is_late_and_arrives_at_the_horizon() {
    let (mut left, mut right) = synchronised(500);
    left.sync(at(100));
    assert!(left.send_raw(at(300).as_picos(), 0x40, &[0; 48]));
    assert_eq!(right.poll(at(599)).unwrap(), None);
    let (time, _) = right.poll(at(600)).unwrap().unwrap();
    assert_eq!((time, right.counts().late), (at(600), 1));
}

#[test]
fn messages_that_cannot_be_are_told_with_their_number() {
    for (kind, header, reason) in [
        (0x02, 0, "message 1 is not valid: type 0x2 is not one of the base protocol"),
        (0x41, 0, "message 1 is not valid: type 0x41 is not one of the network layer"),
        (0x40, 0xff, "it says that it has 65535 bytes, in a slot for 1536"),
    ] {
        let (mut left, mut right) = synchronised(500);
        left.sync(at(0));
        assert!(left.send_raw(0, kind, &[header; 48]));
        let error = right.poll(SimTime::MAX).unwrap_err().to_string();
        assert!(error.starts_with("peer: ") && error.contains(reason), "{error}");
    }
}
