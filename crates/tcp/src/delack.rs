//! Delayed acknowledgements: Linux's quick ACKs at the start of a flow, delayed ACKs afterwards.

use crate::recovery::DUP_THRESHOLD;
use belljar_base::{SimDuration, SimTime};

/// Linux's `TCP_DELACK_MIN` and `TCP_ATO_MIN`.
const DELAY_MIN: SimDuration = SimDuration::from_millis(40);
/// Linux's `TCP_DELACK_MAX`.
pub(crate) const DELAY_MAX: SimDuration = SimDuration::from_millis(200);
/// `HZ / 2`: the limit while the peer only sends and we only receive.
const DELAY_LIMIT: SimDuration = SimDuration::from_millis(500);
/// Linux's `TCP_MAX_QUICKACKS`.
const QUICK_ACKS: u32 = 16;

/// Delayed ACK state: it decides the time for which an ACK may wait.
#[derive(Clone, Debug, Default)]
pub(crate) struct AckPolicy {
    /// Segments still to be acknowledged at once.
    quick: u32,
    /// Both sides are talking: ACKs ride on data.
    pub interactive: bool,
    /// Time to wait for data to ride on; zero before the first data.
    pub ato: SimDuration,
    pub last_data_at: SimTime,
    /// Data was received that is not acknowledged.
    pub scheduled: bool,
    /// A segment smaller than the MSS came in: the end of a message, probably.
    pub pushed: bool,
    /// ACKs of out-of-order data that were left out since the last one sent.
    pub compressed: u8,
    /// RCV.NXT when out-of-order data was last acknowledged at once, and how often it was there.
    hole: u64,
    acked_at_hole: u32,
}

impl AckPolicy {
    /// The next `n` segments or so are to be acknowledged at once.
    pub(crate) fn enter_quick(&mut self, window: u32, mss: u32) {
        self.add_quick(window, mss);
        self.interactive = false;
        self.ato = DELAY_MIN;
    }

    /// The next `n` segments are to be acknowledged at once, whatever was before.
    pub(crate) fn enter_quick_for(&mut self, n: u32) {
        self.quick = self.quick.max(n);
        self.interactive = false;
        self.ato = DELAY_MIN;
    }

    /// The window has grown: the peer should know.
    pub(crate) fn announce_growth(&mut self) {
        self.quick |= 1;
    }

    /// More segments are to be acknowledged at once unless both sides are talking
    /// (`tcp_incr_quickack`).
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

    /// Data arrived in order (`tcp_event_data_recv`).
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
                // The sender was silent for so long that it may have lost its window.
                self.add_quick(window, mss);
            }
        }
        self.last_data_at = now;
    }

    /// Data was sent: an answer within the delay makes the flow interactive.
    pub(crate) fn on_data_sent(&mut self, now: SimTime) {
        if !self.ato.is_zero() && now.since(self.last_data_at) < self.ato {
            self.interactive = true;
        }
    }

    /// An ACK was sent, alone or on data.
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

    /// Out-of-order data arrived: whether its ACK may wait for those of the data behind it. The first
    /// three behind each hole must not, for they tell the sender of a loss.
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

    /// The delayed ACK's timer went off with nothing to ride on (`tcp_delack_timer_handler`).
    pub(crate) fn on_delay_expired(&mut self, rto: SimDuration) {
        if self.interactive {
            self.interactive = false;
            self.ato = DELAY_MIN;
        } else {
            self.ato = self.ato.saturating_mul(2).min(rto);
        }
    }

    /// Time for which the ACK for data that just arrived may wait (`tcp_send_delayed_ack`).
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
