//! Delayed acknowledgements: Linux's quick ACKs at the start of a flow, and delayed ACKs afterwards.

use crate::recovery::DUP_THRESHOLD;
use belljar_base::{SimDuration, SimTime};

/// Linux's `TCP_DELACK_MIN` and `TCP_ATO_MIN`.
const DELAY_MIN: SimDuration = SimDuration::from_millis(40);
/// Linux's `TCP_DELACK_MAX`.
pub(crate) const DELAY_MAX: SimDuration = SimDuration::from_millis(200);
/// `HZ / 2`: maximum delay while data flows only from the peer.
const DELAY_LIMIT: SimDuration = SimDuration::from_millis(500);
/// Linux's `TCP_MAX_QUICKACKS`.
const QUICK_ACKS: u32 = 16;

/// Delayed ACK state, which determines the delay of ACKs.
#[derive(Clone, Debug, Default)]
pub(crate) struct AckPolicy {
    /// Number of segments still to be acknowledged immediately.
    quick: u32,
    /// True if data flows in both directions, so that ACKs are piggybacked.
    pub interactive: bool,
    /// Time to wait for data to carry the ACK; zero before the first data.
    pub ato: SimDuration,
    pub last_data_at: SimTime,
    /// True if received data has not been acknowledged.
    pub scheduled: bool,
    /// True if a segment smaller than the MSS was received, probably the end of a message.
    pub pushed: bool,
    /// Number of ACKs of out-of-order data suppressed since the last one sent.
    pub compressed: u8,
    /// RCV.NXT when out-of-order data was last acknowledged immediately, and the number of such ACKs with
    /// this value.
    hole: u64,
    acked_at_hole: u32,
}

impl AckPolicy {
    /// Enters quick ACK mode for a number of segments derived from the window.
    pub(crate) fn enter_quick(&mut self, window: u32, mss: u32) {
        self.add_quick(window, mss);
        self.interactive = false;
        self.ato = DELAY_MIN;
    }

    /// Enters quick ACK mode for the next `n` segments.
    pub(crate) fn enter_quick_for(&mut self, n: u32) {
        self.quick = self.quick.max(n);
        self.interactive = false;
        self.ato = DELAY_MIN;
    }

    /// Acknowledges immediately to announce a larger window.
    pub(crate) fn announce_growth(&mut self) {
        self.quick |= 1;
    }

    /// Raises the number of segments to acknowledge immediately (`tcp_incr_quickack`).
    fn add_quick(&mut self, window: u32, mss: u32) {
        self.quick = self.quick.max((window / (2 * mss.max(1))).clamp(2, QUICK_ACKS));
    }

    pub(crate) fn leave_quick(&mut self) {
        self.quick = 0;
        self.interactive = true;
    }

    pub(crate) fn is_quick(&self) -> bool {
        self.quick > 0 && !self.interactive
    }

    /// Handles data that arrived in order (`tcp_event_data_recv`).
    pub(crate) fn on_data(&mut self, window: u32, mss: u32, rto: SimDuration, now: SimTime) {
        self.scheduled = true;
        if self.ato.is_zero() {
            self.add_quick(window, mss);
            self.ato = DELAY_MIN;
        } else {
            let gap = now.since(self.last_data_at);
            if gap <= DELAY_MIN.div(2) {
                self.ato = self.ato.div(2) + DELAY_MIN.div(2);
            } else if gap < self.ato {
                self.ato = (self.ato.div(2) + gap).min(rto);
            } else if gap > rto {
                // The sender was idle for so long that it may have reset its window.
                self.add_quick(window, mss);
            }
        }
        self.last_data_at = now;
    }

    /// Handles data sent: a response within the delay makes the flow interactive.
    pub(crate) fn on_data_sent(&mut self, now: SimTime) {
        if !self.ato.is_zero() && now.since(self.last_data_at) < self.ato {
            self.interactive = true;
        }
    }

    /// Handles an ACK sent, alone or with data.
    pub(crate) fn on_ack_sent(&mut self) {
        self.scheduled = false;
        self.pushed = false;
        self.compressed = 0;
        if self.quick > 0 {
            self.quick -= 1;
            if self.quick == 0 {
                self.ato = DELAY_MIN;
            }
        }
    }

    /// True if the ACK of out-of-order data may be delayed until more arrives. The first three ACKs above
    /// each hole must not, since the sender detects the loss by them.
    pub(crate) fn may_compress(&mut self, nxt: u64, most: u8) -> bool {
        if self.compressed >= most {
            return false;
        }
        if self.hole != nxt {
            self.hole = nxt;
            self.acked_at_hole = 0;
        }
        if self.acked_at_hole < DUP_THRESHOLD {
            self.acked_at_hole += 1;
            return false;
        }
        self.compressed += 1;
        true
    }

    /// Handles the expiration of the delayed ACK timer (`tcp_delack_timer_handler`).
    pub(crate) fn on_delay_expired(&mut self, rto: SimDuration) {
        if self.interactive {
            self.interactive = false;
            self.ato = DELAY_MIN;
        } else {
            self.ato = self.ato.saturating_mul(2).min(rto);
        }
    }

    /// Maximum delay of the ACK for data that just arrived (`tcp_send_delayed_ack`).
    pub(crate) fn delay(&self, srtt: Option<SimDuration>) -> SimDuration {
        if self.ato <= DELAY_MIN {
            return DELAY_MIN;
        }
        let mut limit = if self.interactive || self.pushed { DELAY_MAX } else { DELAY_LIMIT };
        if let Some(srtt) = srtt {
            limit = limit.min(srtt.max(DELAY_MIN));
        }
        self.ato.min(limit)
    }
}
