//! Delivery rate estimation (the Internet draft behind BBR; Linux's `tcp_rate.c`).

use crate::scoreboard::RateStamp;
use belljar_base::SimTime;

/// How much has been delivered, and since when.
#[derive(Clone, Debug, Default)]
pub(crate) struct DeliveryRate {
    /// Segments delivered over the life of the connection.
    pub delivered: u64,
    delivered_at: SimTime,
    first_sent_at: SimTime,
    /// Samples are limited by the program until this many are delivered.
    app_limited_until: u64,
    /// The last sample in bytes a second.
    pub latest: u64,
}

impl DeliveryRate {
    /// The stamp for a segment that is being sent.
    pub(crate) fn stamp(&mut self, nothing_in_flight: bool, now: SimTime) -> RateStamp {
        if nothing_in_flight {
            self.first_sent_at = now;
            self.delivered_at = now;
        }
        RateStamp {
            delivered: self.delivered,
            delivered_at: self.delivered_at,
            first_sent_at: self.first_sent_at,
            app_limited: self.app_limited_until > self.delivered,
        }
    }

    /// The program has nothing more to send while the window would allow it.
    pub(crate) fn note_app_limited(&mut self, in_flight: u32) {
        self.app_limited_until = (self.delivered + u64::from(in_flight)).max(1);
    }

    /// An ACK delivered `segments`, of which `newest` was sent last. Gives bytes a second (0 if
    /// there is nothing to say) and whether the program was the limit.
    pub(crate) fn sample(
        &mut self,
        segments: u32,
        newest: Option<(SimTime, RateStamp)>,
        mss: usize,
        now: SimTime,
    ) -> (u64, bool) {
        self.delivered += u64::from(segments);
        let Some((sent_at, stamp)) = newest else { return (0, false) };
        self.delivered_at = now;
        self.first_sent_at = sent_at;
        if self.app_limited_until > 0 && self.delivered > self.app_limited_until {
            self.app_limited_until = 0;
        }
        // The slower of the two phases: ACKs may be compressed, sending may be bursty.
        let send = sent_at.since(stamp.first_sent_at);
        let receive = now.since(stamp.delivered_at);
        let interval = send.max(receive).as_nanos();
        if interval == 0 {
            return (0, stamp.app_limited);
        }
        let bytes = (self.delivered - stamp.delivered) * mss as u64;
        let rate = (u128::from(bytes) * 1_000_000_000 / u128::from(interval)) as u64;
        if !stamp.app_limited || rate > self.latest {
            self.latest = rate;
        }
        (rate, stamp.app_limited)
    }
}
