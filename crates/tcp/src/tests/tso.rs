//! Segments sent to the device together: number per packet, PSH on the last, and those deferred to the next
//! ACK.

use super::solo::{OURS, PEERS, Solo};
use crate::Flags;
use belljar_base::SimDuration;

const US: fn(u64) -> SimDuration = SimDuration::from_micros;
const MSS: u32 = 1448;

impl Solo {
    /// PSH flag of each segment that is sent now.
    fn pushed(&mut self) -> Vec<bool> {
        self.sent().iter().map(|(repr, _)| repr.flags.contains(Flags::PSH)).collect()
    }

    fn acknowledge(&mut self, segments: u32) {
        self.data(PEERS + 1, OURS + 1 + segments * MSS, b"");
    }
}

/// `[false, .., true]` of length `segments`.
fn packet(segments: usize) -> Vec<bool> {
    (1..=segments).map(|n| n == segments).collect()
}

/// A packet holds a millisecond of data, here two segments; RFC 6928's window of ten is five packets.
#[test]
fn a_packet_is_a_millisecond_of_the_rate() {
    let mut solo = Solo::modern();
    solo.tcp.send(&[1; 40_000], solo.now);
    assert_eq!(solo.pushed(), packet(2).repeat(5));
}

/// With a short round trip, half of the window is the only limit of a packet.
#[test]
fn a_packet_is_half_a_window_at_most() {
    let mut solo = Solo::modern_after(US(100));
    solo.tcp.send(&[1; 40_000], solo.now);
    assert_eq!(solo.pushed(), packet(5).repeat(2));
}

#[test]
fn small_pieces_of_a_window_wait_for_the_next_ack() {
    let mut solo = Solo::modern_after(US(100));
    solo.tcp.send(&[1; 40_000], solo.now);
    assert_eq!(solo.sent().len(), 10);
    solo.now += US(100);
    // The window permits two of the eleven segments, but the second segment's ACK is due.
    solo.acknowledge(1);
    assert_eq!(solo.pushed(), []);
    assert_eq!(solo.tcp.info(solo.now).cwnd, 11);
    // A third of the window.
    solo.now += US(10);
    solo.acknowledge(3);
    assert_eq!(solo.pushed(), packet(6));
}

#[test]
fn nothing_waits_for_an_ack_that_is_far_away() {
    for (wait, goes) in [(40, 1), (60, 0)] {
        let mut solo = Solo::modern_after(US(100));
        solo.tcp.send(&[1; 9 * MSS as usize], solo.now);
        assert_eq!(solo.sent().len(), 9);
        solo.now += US(wait);
        solo.tcp.send(&[2; 20_000], solo.now);
        // One segment is a packet without PSH.
        assert_eq!(solo.pushed(), vec![false; goes], "after {wait} us");
    }
}

/// A sender that has been idle for a millisecond does not defer a packet.
#[test]
fn a_pause_ends_the_waiting() {
    let mut solo = Solo::modern_after(SimDuration::from_millis(4));
    solo.tcp.send(&[1; 40_000], solo.now);
    assert_eq!(solo.sent().len(), 10);
    solo.now += SimDuration::from_millis(4);
    solo.acknowledge(1);
    assert_eq!(solo.pushed(), packet(2));
}

/// Segments that Nagle withholds are not appended to a packet either.
#[test]
fn the_rest_of_a_packet_is_nagle_s() {
    for (nodelay, pushed) in [(false, packet(3)), (true, packet(4))] {
        let mut solo = Solo::modern_after(US(100));
        solo.tcp.set_nodelay(nodelay);
        solo.tcp.send(b"small", solo.now);
        assert_eq!(solo.sent().len(), 1);
        solo.tcp.send(&[1; 3 * MSS as usize + 100], solo.now);
        assert_eq!(solo.pushed(), pushed, "TCP_NODELAY: {nodelay}");
    }
}
