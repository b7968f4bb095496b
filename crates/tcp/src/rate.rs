//! Delivery rate estimation (draft-cheng-iccrg-delivery-rate-estimation; Linux's `tcp_rate.c`).

use crate::scoreboard::RateStamp;
use belljar_base::{SimDuration, SimTime};

/// Delivery counters of a connection.
#[derive(Clone, Debug, Default)]
pub(crate) struct DeliveryRate {
    /// Segments delivered during the connection's lifetime.
    pub delivered: u64,
    /// Delivered segments whose ACK echoed a congestion mark.
    pub marked: u64,
    delivered_at: SimTime,
    first_sent_at: SimTime,
    /// Number of delivered segments up to which samples are application-limited.
    app_limited_until: u64,
    /// Latest sample in bytes per second, and true if it was application-limited.
    pub latest: u64,
    pub latest_app_limited: bool,
}

/// Rate sample of one ACK.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RateSample {
    /// Measurement interval; zero if there is no sample.
    pub interval: SimDuration,
    /// Segments delivered in the interval.
    pub delivered: u64,
    /// Segments delivered before the interval.
    pub prior_delivered: u64,
    /// True if the sample was application-limited.
    pub app_limited: bool,
    /// Delivery rate in bytes per second; 0 if there is no sample.
    pub rate: u64,
}

impl DeliveryRate {
    /// Stamp for a segment that is being sent.
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

    /// Records that the application has no data to send although the window is open.
    pub(crate) fn note_app_limited(&mut self, in_flight: u32) {
        self.app_limited_until = (self.delivered + u64::from(in_flight)).max(1);
    }

    /// Takes a sample from an ACK that delivered `segments`, the most recently sent of which was `newest`.
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
        // The longer of the send and ACK phases counts: ACKs may be compressed, sending may be bursty.
        let send = sent_at.since(stamp.first_sent_at);
        let receive = now.since(stamp.delivered_at);
        let mut sample = RateSample {
            interval: send.max(receive),
            delivered: self.delivered - stamp.delivered,
            prior_delivered: stamp.delivered,
            app_limited: stamp.app_limited,
            rate: 0,
        };
        // An interval below the minimum round-trip time does not measure the path.
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

    /// True if the connection is currently application-limited.
    pub(crate) fn is_app_limited(&self) -> bool {
        self.app_limited_until > 0
    }
}
