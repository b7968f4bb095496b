//! Packetization-layer path MTU discovery (RFC 4821) as Linux does it. A segment larger than the others
//! probes the path, and its acknowledgment or loss narrows the range of possible sizes. When retransmissions
//! stay unanswered, the path may drop large packets silently (a black hole); the segments are then made
//! smaller.

use crate::connection::{Connection, SegmentMeta};
use crate::counts::Counted;
use crate::output::TIMESTAMPS_LEN;
use crate::recovery::{DUP_THRESHOLD, Phase};
use crate::rtt::{RTO_MIN, retries_to_time};
use crate::sender::Sender;
use belljar_base::{SimDuration, SimTime};

/// Minimum congestion window for a probe, in segments.
const WINDOW_MIN: u32 = 11;
/// Length of a TCP header without options, in bytes.
const TCP_HEADER_LEN: usize = 20;

/// Parameters of MTU probing (`net.ipv4.tcp_mtu_probing` and related sysctls).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MtuProbing {
    /// `net.ipv4.tcp_mtu_probing`: 0 disables probing, 1 enables it after a suspected black hole, 2 enables
    /// it always.
    pub mode: u8,
    /// `net.ipv4.tcp_base_mss`: the MSS at which the search starts, in bytes.
    pub base_mss: u32,
    /// `net.ipv4.tcp_mtu_probe_floor`: the smallest MSS to which a suspected black hole reduces segments, in
    /// bytes.
    pub floor: u32,
    /// `net.ipv4.tcp_probe_threshold`: the width of the range, in bytes, below which the search ends.
    pub threshold: u32,
    /// `net.ipv4.tcp_probe_interval`: the time after which the whole range is searched again.
    pub interval: SimDuration,
}

impl Default for MtuProbing {
    fn default() -> MtuProbing {
        MtuProbing { mode: 0, base_mss: 1024, floor: 48, threshold: 8, interval: SimDuration::from_secs(600) }
    }
}

/// State of the search. Sizes are those of packets, IP header included, in bytes.
#[derive(Clone, Debug, Default)]
pub(crate) struct MtuSearch {
    pub enabled: bool,
    /// Largest size known to be delivered.
    pub low: usize,
    /// Upper bound: one less than the smallest size known to be lost, or the limit of the interface and the
    /// peer.
    high: usize,
    /// Size of the probe in flight, and its first and end sequence numbers.
    probe: Option<(usize, u64, u64)>,
    /// Start time of the search.
    since: SimTime,
    /// True if a probe was considered for the present train of segments; Linux considers one per train.
    asked: bool,
}

/// Decision on whether the next segment is a probe.
pub(crate) enum Probing {
    /// The next segment is an ordinary one.
    No,
    /// The next segment is a probe that ends at this sequence number.
    Until(u64),
    /// A probe is due, but too much is in flight; nothing else is sent until it can go.
    Later,
}

impl Sender {
    /// Length of the IP and TCP headers without options.
    pub(crate) fn packet_headers(&self) -> usize {
        TCP_HEADER_LEN + self.ip_header_len
    }

    fn option_len(&self) -> usize {
        if self.stamps.enabled { TIMESTAMPS_LEN } else { 0 }
    }

    /// Size of the packet that carries `payload` bytes (`tcp_mss_to_mtu`).
    fn packet_of(&self, payload: usize) -> usize {
        payload + self.option_len() + self.packet_headers()
    }

    /// Payload of a packet of `packet` bytes, limited by what the peer accepts (`tcp_mtu_to_mss`).
    pub(crate) fn payload_of(&self, packet: usize) -> usize {
        let mss = packet.saturating_sub(self.packet_headers()).min(usize::from(self.snd.mss_limit));
        let least = (self.config.min_send_mss as usize).min(usize::from(self.config.send_mss()));
        mss.max(least).saturating_sub(self.option_len()).max(1)
    }

    /// Starts the search between the base size and the peer's limit (`tcp_mtup_init`).
    pub(crate) fn begin_mtu_search(&mut self, now: SimTime) {
        self.mtu_search = MtuSearch {
            enabled: self.config.mtu_probing.mode > 1,
            low: self.packet_of(self.config.mtu_probing.base_mss as usize),
            high: usize::from(self.snd.mss_limit) + self.packet_headers(),
            probe: None,
            since: now,
            asked: false,
        };
    }

    /// Applies a path MTU reported by a router as the upper bound (`tcp_sync_mss`).
    pub(crate) fn limit_mtu_search(&mut self) {
        let most = usize::from(self.snd.mss_limit) + self.packet_headers();
        self.mtu_search.high = self.mtu_search.high.min(most);
    }

    /// Ends the train of segments when no more can be sent; the next one may begin with a probe.
    pub(crate) fn end_train(&mut self) {
        self.mtu_search.asked = false;
    }

    /// Decides whether the next segment is a probe (`tcp_mtu_probe`). `sack_news` is true if the next ACK
    /// carries SACK blocks.
    pub(crate) fn ask_for_mtu_probe(&mut self, sack_news: bool, now: SimTime) -> Probing {
        if !self.mtu_search.enabled || std::mem::replace(&mut self.mtu_search.asked, true) {
            return Probing::No;
        }
        let busy = self.mtu_search.probe.is_some() || self.recovery.phase != Phase::Open;
        // SACK blocks make the option length vary, and with it the size of the packet.
        if busy || self.window.cwnd < WINDOW_MIN || sack_news {
            return Probing::No;
        }
        let (low, high) = (self.mtu_search.low, self.mtu_search.high);
        let size = self.payload_of((low + high) / 2);
        if size > self.payload_of(high)
            || high.saturating_sub(low) < self.config.mtu_probing.threshold as usize
        {
            self.search_again(now);
            return Probing::No;
        }
        // The acknowledgments of the segments after the probe reveal its loss.
        let needed = (size + (DUP_THRESHOLD as usize + 1) * self.snd.mss) as u64;
        let nxt = self.snd.nxt;
        if (self.snd.data_end().saturating_sub(nxt)) < needed || self.snd.window < needed {
            return Probing::No;
        }
        let in_flight = self.in_flight();
        if nxt + needed > self.snd.window_end() {
            return Probing::Later;
        }
        if in_flight + 2 > self.window.cwnd {
            return if in_flight == 0 { Probing::No } else { Probing::Later };
        }
        Probing::Until(nxt + size as u64)
    }

    /// Restarts the search after the probe interval, since paths change (`tcp_mtu_check_reprobe`).
    fn search_again(&mut self, now: SimTime) {
        if now.since(self.mtu_search.since) < self.config.mtu_probing.interval {
            return;
        }
        self.mtu_search.probe = None;
        self.mtu_search.high = usize::from(self.snd.mss_limit) + self.packet_headers();
        self.mtu_search.low = self.packet_of(self.snd.mss);
        self.mtu_search.since = now;
    }

    /// Abandons the probe in flight after a retransmission: its outcome is no longer conclusive.
    pub(crate) fn forget_mtu_probe(&mut self) {
        self.mtu_search.probe = None;
    }

    /// Completes a probe that SND.UNA has passed (`tcp_mtup_probe_success`).
    pub(crate) fn check_mtu_probe(&mut self) {
        let Some((size, _, end)) = self.mtu_search.probe.filter(|(_, _, end)| *end <= self.snd.una) else {
            return;
        };
        debug_assert!(end > self.snd.initial, "a probe has payload");
        // The window keeps its size in bytes.
        let before = u64::from(self.window.cwnd) * self.packet_of(self.snd.mss) as u64;
        self.window.cwnd = ((before / size as u64) as u32).max(1);
        self.window.acked_towards_increase = 0;
        if !matches!(self.recovery.phase, Phase::Reduced | Phase::Recovery) {
            // `tcp_current_ssthresh`
            self.window.ssthresh = self.window.ssthresh.max(self.window.cwnd / 2 + self.window.cwnd / 4);
        }
        self.mtu_search.low = size;
        self.tally.count(Counted::MtuProbeSuccess);
        self.mtu_search.probe = None;
        self.set_mss();
    }

    /// Treats a lost probe whose successors were delivered as too large instead of as congestion
    /// (`tcp_mtup_probe_failed`). True if that was the case.
    pub(crate) fn probe_has_failed(&mut self, now: SimTime) -> bool {
        let Some((size, start, _)) = self.mtu_search.probe else { return false };
        if self.recovery.phase >= Phase::Reduced || self.snd.una != start {
            return false;
        }
        self.mtu_search.high = size - 1;
        self.tally.count(Counted::MtuProbeFail);
        self.mtu_search.probe = None;
        self.window.cwnd += 1;
        self.retransmit_too_large(now);
        true
    }

    /// Suspects a black hole when retransmissions stay unanswered, and reduces the segment size
    /// (`tcp_mtu_probing`).
    pub(crate) fn suspect_black_hole(&mut self, now: SimTime) {
        let settings = self.config.mtu_probing;
        let since = self.recovery.retransmit_stamp.filter(|_| self.recovery.timeouts > 0);
        let patience = retries_to_time(self.config.retries1, RTO_MIN);
        if settings.mode == 0 || since.is_none_or(|since| now.since(since) < patience) {
            return;
        }
        if self.mtu_search.enabled {
            let half = self.payload_of(self.mtu_search.low) / 2;
            let mss = half
                .min(settings.base_mss as usize)
                .max(settings.floor.max(self.config.min_send_mss) as usize);
            self.mtu_search.low = self.packet_of(mss);
        } else {
            self.mtu_search.enabled = true;
            self.mtu_search.since = now;
        }
        self.set_mss();
    }

    /// Retransmits the segments that exceed the present MSS at once, without a reduction, since there was no
    /// congestion (`tcp_simple_retransmit`).
    pub(crate) fn retransmit_too_large(&mut self, now: SimTime) {
        for index in 0..self.snd.flight.len() as usize {
            let segment = self.snd.flight.get(index);
            if (segment.end - segment.start) as usize > self.snd.mss {
                self.snd.flight.mark_lost(index);
            }
        }
        if self.snd.flight.has_to_retransmit() {
            self.enter_loss_without_reduction();
            self.rearm_rto(now);
        }
    }
}

impl Connection {
    pub(crate) fn transmit_mtu_probe(&mut self, end: u64, now: SimTime, out: &mut Vec<u8>) -> SegmentMeta {
        let start = self.tx.snd.nxt;
        // The probe counts as two segments.
        self.tx.window.cwnd -= 1;
        self.tx.mtu_search.probe = Some((self.tx.packet_of((end - start) as usize), start, end));
        self.transmit_single(end, now, out)
    }
}
