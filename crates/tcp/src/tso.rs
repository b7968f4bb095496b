//! TCP segmentation offload: the device receives a packet of several segments and splits it. Whether to send
//! is decided once for all segments of a packet, and the last one carries PSH. A packet is deferred if the
//! next ACK will soon permit a larger one.

use crate::recovery::Phase;
use crate::sender::Sender;
use crate::snd::{BUFFER_COST, BUFFER_MAX};
use belljar_base::{SimDuration, SimTime};

/// `sk_pacing_shift`: a packet holds 1/1024 s of data at the pacing rate, as does the device's queue per
/// connection.
const PACKET_SHIFT: u32 = 10;
/// Maximum payload of a packet in bytes.
const PACKET_MAX: u64 = BUFFER_MAX as u64;
/// Shift from the minimum round trip in microseconds to units of 512 us, each of which halves the growth of a
/// packet (`net.ipv4.tcp_tso_rtt_log`).
const PACKET_RTT_SHIFT: u32 = 9;
/// Minimum number of segments in a packet (`net.ipv4.tcp_min_tso_segs`).
const PACKET_SEGMENTS: u32 = 2;
/// Divisor of the window: this part of it is sent without deferral (`net.ipv4.tcp_tso_win_divisor`).
const WINDOW_PART: u64 = 3;
/// Maximum time until the expected ACK for which a packet is deferred. After no transmission for this long,
/// packets are not deferred.
const WAIT_MAX: SimDuration = SimDuration::from_millis(1);

/// The device packet that was begun last.
#[derive(Clone, Debug, Default)]
pub(crate) struct DevicePacket {
    /// End of the packet, FIN included. While SND.NXT is below it, no other new data is sent.
    pub end: u64,
    /// True if the packet has more than one segment.
    pub several: bool,
}

/// Cause of an attempt to send new data.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Push {
    /// An ACK, a completed write or a timer: a packet may be deferred.
    All,
    /// A filled send buffer: packets are not deferred.
    One,
    /// A tail loss probe: one segment is sent regardless of the congestion window and Nagle.
    Probe,
}

/// Reason for which no packet can be begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Held {
    /// Too little unsent data.
    Program,
    /// The congestion window, which an ACK is expected to open further soon.
    Congestion,
    /// The peer's window.
    Window,
    /// The limit on bytes in the device's queue.
    Device,
}

/// Candidate for a device packet.
struct Candidate {
    /// Number of bytes in the first unsent buffer.
    len: u64,
    /// True if it is the last buffer; `fin` is true if a FIN follows it.
    is_last: bool,
    fin: bool,
    /// Number of bytes that the peer's window permits.
    window: u64,
    /// Number of segments that the congestion window permits.
    free: u64,
    /// Payload of a full segment in bytes, and the maximum number of segments.
    mss: u64,
    most: u32,
}

impl Sender {
    /// Number of segments in a packet for the device (`tcp_tso_autosize`).
    fn packet_segments(&self) -> u32 {
        ((self.bytes_at_once() / self.snd.mss as u64) as u32).max(self.least_segments())
    }

    /// Maximum payload of a device packet, in bytes.
    fn packet_limit(&self) -> u64 {
        self.bytes_at_once().max(u64::from(self.least_segments()) * self.snd.mss as u64)
    }

    fn least_segments(&self) -> u32 {
        self.congestion.min_packet_segments().unwrap_or(PACKET_SEGMENTS)
    }

    /// Bytes sent in about a millisecond at the pacing rate, and more if the round trip is short.
    fn bytes_at_once(&self) -> u64 {
        let mut bytes = (self.pacing_rate() >> PACKET_SHIFT).min(PACKET_MAX);
        if let Some(rtt) = self.rtt.min() {
            let shift = (rtt.as_micros() >> PACKET_RTT_SHIFT).min(63) as u32;
            bytes = (bytes + (PACKET_MAX >> shift)).min(PACKET_MAX);
        }
        bytes
    }

    /// True if TCP small queues withhold a packet of any size.
    pub(crate) fn is_device_full(&self, queued_bytes: usize) -> bool {
        queued_bytes > 0 && self.is_held_back(queued_bytes, self.packet_limit())
    }

    /// True if TCP small queues withhold a packet of `packet` bytes (`tcp_small_queue_check`).
    fn is_held_back(&self, queued_bytes: usize, packet: u64) -> bool {
        let enough = (self.pacing_rate() >> PACKET_SHIFT)
            .max(2 * (packet + BUFFER_COST as u64))
            .min(u64::from(self.config.limit_output));
        queued_bytes > 0 && queued_bytes as u64 >= enough
    }

    /// True if part of the device packet is still to be sent.
    pub(crate) fn is_in_packet(&self) -> bool {
        self.snd.nxt < self.packet.end
    }

    /// Begins the next device packet with unsent data, if the windows, Nagle and the limit on the device's
    /// queue permit it and it is not deferred (`tcp_write_xmit`).
    pub(crate) fn begin_packet(
        &mut self,
        push: Push,
        queued_bytes: usize,
        sack_len: usize,
        now: SimTime,
    ) -> Result<(), Held> {
        let start = self.snd.nxt;
        if start >= self.snd.end() {
            return Err(Held::Program);
        }
        let (mss, most) = (self.payload_limit(sack_len) as u64, self.packet_segments());
        let cwnd = self.window.cwnd;
        let least = u32::from(push == Push::Probe);
        let free = cwnd.saturating_sub(self.in_flight()).max(least);
        // `tcp_cwnd_test`.
        let quota = u64::from(free.min((cwnd / 2).max(1)).min(most)) * mss;
        let (len, is_last) = self.snd.grow_buffer(quota);
        let fin = is_last && self.snd.fin;
        let window = self.snd.window_end().saturating_sub(start);
        // SWS avoidance, RFC 9293, section 3.8.6.2.1: a small window does not make a segment small.
        if len.min(mss) + u64::from(fin && len <= mss) > window {
            return Err(Held::Window);
        }
        let candidate = Candidate { len, is_last, fin, window, free: u64::from(free), mss, most };
        let limit = if len <= mss {
            if len < mss && is_last && !fin && push != Push::Probe && self.must_wait_for_more() {
                return Err(Held::Program);
            }
            mss
        } else {
            if push == Push::All {
                self.wait_for_more(&candidate, now)?;
            }
            if self.snd.is_urgent() { mss } else { self.split_point(&candidate, quota, push) }
        };
        let payload = len.min(limit);
        if self.is_held_back(queued_bytes, payload) {
            return Err(Held::Device);
        }
        let end = if len > limit { start + limit } else { start + len + u64::from(fin) };
        self.begin_packet_until(end, payload > mss, now);
        Ok(())
    }

    /// Begins a device packet that ends at `end`.
    pub(crate) fn begin_packet_until(&mut self, end: u64, several: bool, now: SimTime) {
        let payload = end.min(self.snd.data_end()).saturating_sub(self.snd.nxt);
        self.snd.cut_buffer(end);
        self.packet = DevicePacket { end, several };
        self.note_paced(payload as usize, now);
    }

    /// End of the next segment of the device packet.
    pub(crate) fn next_segment(&self, sack_len: usize) -> u64 {
        let data_end = self.packet.end.min(self.snd.data_end());
        match self.snd.nxt + self.payload_limit(sack_len) as u64 {
            end if end < data_end => end,
            _ => self.packet.end,
        }
    }

    /// Number of bytes that may be sent as one packet; an incomplete last segment is included only if Nagle
    /// permits it (`tcp_mss_split_point`).
    fn split_point(&self, candidate: &Candidate, quota: u64, push: Push) -> u64 {
        if quota <= candidate.window && !candidate.is_last {
            return quota;
        }
        let needed = candidate.len.min(candidate.window);
        if quota <= needed {
            return quota;
        }
        let rest = needed % candidate.mss;
        let waits = rest != 0 && push != Push::Probe && self.must_wait_for_more();
        if waits { needed - rest } else { needed }
    }

    /// Decides whether to defer a packet until an ACK permits a larger one (`tcp_tso_should_defer`): an error
    /// if so.
    fn wait_for_more(&self, candidate: &Candidate, now: SimTime) -> Result<(), Held> {
        let &Candidate { len, is_last, fin, window, free, mss, most } = candidate;
        if matches!(self.recovery.phase, Phase::Recovery | Phase::Loss)
            || now.since(self.pacing.last_sent()) > WAIT_MAX
        {
            return Ok(());
        }
        let congestion = free * mss;
        let limit = window.min(congestion);
        let complete = !is_last && limit >= len;
        let used = self.snd.window.min(u64::from(self.window.cwnd) * mss);
        if limit >= u64::from(most) * mss || complete || limit >= used / WINDOW_PART {
            return Ok(());
        }
        let (Some(first), Some(srtt)) = (self.snd.flight.front(), self.rtt.srtt()) else { return Ok(()) };
        if (first.sent_at + srtt).since(now) > srtt.div(2).min(WAIT_MAX) {
            return Ok(());
        }
        match congestion < window {
            true if congestion <= len => Err(Held::Congestion),
            false if window <= len => Err(Held::Window),
            // The FIN completes this packet.
            _ if fin => Ok(()),
            _ => Err(Held::Program),
        }
    }
}
