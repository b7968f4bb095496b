//! Delivery rate estimation (the Internet draft behind BBR; Linux's `tcp_rate.c`).

use crate::scoreboard::RateStamp;
use belljar_base::{SimDuration, SimTime};

/// Delivery counters of a connection.
#[derive(Clone, Debug, Default)]
pub(crate) struct DeliveryRate {
    /// Segments delivered over the life of the connection.
    pub delivered: u64,
    /// Delivered segments whose ACK echoed a congestion mark.
    pub marked: u64,
    delivered_at: SimTime,
    first_sent_at: SimTime,
    /// Samples are limited by the program until this many are delivered.
    app_limited_until: u64,
    /// The last sample in bytes a second, and whether the program limited it.
    pub latest: u64,
    pub latest_app_limited: bool,
}

/// Rate sample of one ACK.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RateSample {
    /// Interval of the measurement; zero if there is no sample.
    pub interval: SimDuration,
    /// Segments delivered in that.
    pub delivered: u64,
    /// Segments delivered before it.
    pub prior_delivered: u64,
    /// The program limited it.
    pub app_limited: bool,
    /// Bytes a second; 0 if it says nothing.
    pub rate: u64,
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

    /// An ACK delivered `segments`, of which `newest` was sent last.
    pub(crate) fn sample(
        &mut self,
        segments: u32,
        newest: Option<(SimTime, RateStamp)>,
        mss: usize,
        min_rtt: Option<SimDuration>,
        now: SimTime,
    ) -> RateSample {
        self.delivered += u64::from(segments);
        let Some((sent_at, stamp)) = newest else { return RateSample::default() };
        self.delivered_at = now;
        self.first_sent_at = sent_at;
        if self.app_limited_until > 0 && self.delivered > self.app_limited_until {
            self.app_limited_until = 0;
        }
        // The slower of the two phases: ACKs may be compressed, sending may be bursty.
        let send = sent_at.since(stamp.first_sent_at);
        let receive = now.since(stamp.delivered_at);
        let mut sample = RateSample {
            interval: send.max(receive),
            delivered: self.delivered - stamp.delivered,
            prior_delivered: stamp.delivered,
            app_limited: stamp.app_limited,
            rate: 0,
        };
        // What took less than a round trip says nothing of the path.
        if sample.interval.is_zero() || min_rtt.is_some_and(|min| sample.interval < min) {
            sample.interval = SimDuration::ZERO;
            return sample;
        }
        let bytes = sample.delivered * mss as u64;
        sample.rate =
            (u128::from(bytes) * 1_000_000_000 / u128::from(sample.interval.as_nanos().max(1))) as u64;
        if !stamp.app_limited || sample.rate > self.latest {
            self.latest = sample.rate;
            self.latest_app_limited = stamp.app_limited;
        }
        sample
    }

    /// Time of the last delivery.
    pub(crate) fn delivered_at(&self) -> SimTime {
        self.delivered_at
    }

    /// True if the program is the limit at present.
    pub(crate) fn is_app_limited(&self) -> bool {
        self.app_limited_until > 0
    }
}
