//! Congestion window validation (RFC 2861, RFC 7661) as Linux does it: the window decays and does not grow
//! while another limit applies. Also the growth of the send buffer with the window.

use crate::Events;
use crate::congestion::INITIAL_WINDOW;
use crate::connection::Connection;
use crate::sender::Sender;
use belljar_base::SimTime;

/// Use of the congestion window.
#[derive(Clone, Debug, Default)]
pub(crate) struct WindowUse {
    /// True if the window was full at some time in the present round trip.
    limited: bool,
    /// Most segments in flight in the present round trip.
    max_in_flight: u32,
    /// Sequence number whose acknowledgment ends the present round trip.
    round_end: u64,
    /// Most segments in flight since `stamp`, the last time at which the window was the limit.
    used: u32,
    stamp: SimTime,
    /// True if new data was sent since the last `validate_window`.
    pub sent: bool,
}

impl Sender {
    /// Records the use of the congestion window when sending stops, and lets an unused window decay
    /// (`tcp_cwnd_validate`). `waits` is true if sending waits for the congestion window to open further.
    pub(crate) fn validate_window(&mut self, waits: bool, now: SimTime) {
        let in_flight = self.snd.flight.len();
        let limited = waits || self.in_flight() >= self.window.cwnd;
        // Retransmissions alone do not indicate how much the program would send.
        let held_back = limited && self.snd.nxt < self.snd.end();
        if !std::mem::take(&mut self.window_use.sent) && !held_back {
            return;
        }
        let usage = &mut self.window_use;
        let new_round = self.snd.una >= usage.round_end;
        if new_round || limited || (!usage.limited && in_flight > usage.max_in_flight) {
            usage.limited = limited;
            usage.max_in_flight = in_flight;
            usage.round_end = self.snd.nxt;
        }
        if self.is_window_limited() {
            self.window_use.used = 0;
            self.window_use.stamp = now;
            return;
        }
        let usage = &mut self.window_use;
        usage.used = usage.used.max(in_flight);
        // RFC 2861, section 3.1: a window that was not filled for a retransmission timeout decays towards its
        // use.
        let decays = self.config.slow_start_after_idle && !self.congestion.rules_window();
        if decays && now.since(usage.stamp) >= self.rtt.rto() {
            let used = usage.used.max(INITIAL_WINDOW);
            // Not while the program waits for send buffer space (`SOCK_NOSPACE`).
            if self.recovery.is_open() && !self.write_waiting && used < self.window.cwnd {
                self.window.ssthresh = self.window.ssthresh.max(self.window.cwnd / 4 * 3);
                self.window.cwnd = (self.window.cwnd + used) / 2;
            }
            usage.used = 0;
            usage.stamp = now;
        }
    }

    /// True if the window may grow: it was full, or at least half full in slow start.
    pub(crate) fn is_window_limited(&self) -> bool {
        self.window_use.limited
            || (self.window.in_slow_start() && self.window.cwnd < 2 * self.window_use.max_in_flight)
    }

    /// Reduces the window after an idle period (RFC 5681, section 4.1): it is halved for each retransmission
    /// timeout that has passed.
    pub(crate) fn restart_after_idle(&mut self, now: SimTime) {
        if !self.config.slow_start_after_idle
            || self.congestion.rules_window()
            || !self.snd.flight.is_empty()
            || self.snd.unsent() > 0
        {
            return;
        }
        let rto = self.rtt.rto();
        let mut idle = now.since(self.stats.data_sent_at);
        if idle <= rto {
            return;
        }
        let least = self.window.cwnd.min(INITIAL_WINDOW);
        self.window.ssthresh = self.window.ssthresh.max(self.window.cwnd / 4 * 3);
        let mut cwnd = self.window.cwnd;
        while idle > rto && cwnd > least {
            idle = idle.saturating_sub(rto);
            cwnd /= 2;
        }
        self.window.cwnd = cwnd.max(least);
        self.window_use.stamp = now;
        self.window_use.used = 0;
    }

    /// Grows the send buffer to twice the congestion window, at Linux's memory cost per segment
    /// (`tcp_sndbuf_expand`): recovery needs one window of data to retransmit and one to send.
    pub(crate) fn expand_send_buffer(&mut self) {
        if self.snd.limit_locked {
            return;
        }
        // Linux 6.18 allocates headers, page descriptors and payload in a power of two, and the buffer
        // descriptor besides: 2,304 bytes for a segment of 1,460.
        const HEADERS: usize = 512;
        const BUFFER_HEAD: usize = 256;
        let mss = self.snd.mss.max(usize::from(self.snd.mss_limit));
        let per_segment = (mss + HEADERS).next_power_of_two() + BUFFER_HEAD;
        let segments = self.window.cwnd.max(INITIAL_WINDOW) as usize;
        let wanted = (self.congestion.send_buffer_windows() * per_segment * segments)
            .min(self.config.wmem[2] as usize);
        self.snd.limit = self.snd.limit.max(wanted);
    }

    /// `sk_stream_is_writeable`: the free space is at least half of the space in use.
    pub(crate) fn has_write_space(&self) -> bool {
        let cost = self.snd.cost();
        self.snd.limit.saturating_sub(cost) >= cost / 2 && self.snd.limit > cost
    }
}

impl Connection {
    /// Grows the send buffer after an ACK if a writer waits and the congestion window is open, and wakes the
    /// writer if there is space (`tcp_check_space`).
    pub(crate) fn make_room(&mut self, now: SimTime) {
        if self.tx.write_waiting && self.tx.in_flight() < self.tx.window.cwnd && !self.tx.snd.limit_locked {
            self.tx.expand_send_buffer();
            // The send buffer, not the program, leaves the window unused (`tcp_new_space`).
            self.tx.window_use.stamp = now;
        }
        self.wake_writer();
    }

    /// Notifies a waiting writer when the send buffer has enough space.
    pub(crate) fn wake_writer(&mut self) {
        if self.tx.write_waiting && self.tx.has_write_space() {
            self.tx.write_waiting = false;
            self.events |= Events::WRITABLE;
        }
    }
}
