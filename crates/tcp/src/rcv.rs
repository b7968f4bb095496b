//! Receiver: in-order data for the application, the out-of-order queue with its SACK blocks, and the
//! announced window.

use crate::received::{Payload, ReceiveQueue};
use crate::seq64;
use belljar_base::{Map, SimDuration, SimTime};
use belljar_wire::tcp::SackBlocks;

/// Charge in bytes for an out-of-order range besides its data, which bounds the number of tiny ranges.
const RANGE_OVERHEAD: usize = 256;

/// Size of Linux's buffers for small packets in bytes (`SKB_SMALL_HEAD_CACHE_SIZE`).
const SMALL_BUFFER: u32 = 640;
/// Header bytes of a segment without options over IPv4.
const HEADERS: u32 = 40;
/// Minimum of the window clamp in bytes (`SOCK_MIN_RCVBUF` / 2).
const CLAMP_MIN: u32 = 2_304 / 2;

/// Payload ratio before the first full segment: one half (`TCP_DEFAULT_SCALING_RATIO`).
const DEFAULT_RATIO: u32 = 128;

/// Buffer charge of a segment (`skb->truesize`) in bytes, for a driver that receives into separate memory:
/// headers, payload and headroom, rounded up by the allocator, plus the kernel's packet structure.
fn truesize(payload: u32, headers: u32) -> u32 {
    const HEADROOM_AND_SHARED_INFO: u32 = 64 + 320;
    const DESCRIPTION: u32 = 256;
    const PAGE: u32 = 4096;
    let buffer = payload + headers + HEADROOM_AND_SHARED_INFO;
    if buffer <= SMALL_BUFFER {
        // `skbuff_small_head`
        SMALL_BUFFER + DESCRIPTION
    } else if buffer <= PAGE {
        buffer.next_power_of_two() + DESCRIPTION
    } else {
        buffer.next_multiple_of(PAGE) + DESCRIPTION
    }
}

/// Receive variables of RFC 9293, section 3.3.1, and the receive queues.
#[derive(Clone, Debug)]
pub(crate) struct Receiver {
    /// IRS.
    pub initial: u64,
    /// RCV.NXT.
    pub nxt: u64,
    /// RCV.NXT when the last ACK was sent.
    pub acked: u64,
    /// RCV.WND at that time, in bytes.
    pub window: u32,
    /// Window scale shift.
    pub scale: u8,
    /// Advertised MSS.
    pub advertised_mss: u32,
    /// Header bytes of received segments.
    pub headers: u32,
    /// Estimate of the peer's segment size in bytes.
    pub mss: u32,
    /// Current limit of the announced window, which grows as data arrives (`rcv_ssthresh`).
    pub ssthresh: u32,
    /// Maximum window to announce (`window_clamp`).
    pub clamp: u32,
    /// Receive buffer size, `SO_RCVBUF`: twice the window.
    pub limit: u32,
    pub limit_locked: bool,
    /// `tcp_moderate_rcvbuf`: the buffer grows with the data read per round trip.
    pub moderated: bool,
    pub limit_max: u32,
    /// Payload ratio of the buffer in 1/256; the rest is overhead of Linux's structures.
    ratio: u32,
    /// True if the FIN has been received in order.
    pub finished: bool,
    data: ReceiveQueue,
    /// Buffer charge of `data`.
    data_cost: u64,
    out_of_order: Map<u64, Vec<u8>>,
    out_of_order_bytes: usize,
    /// Sequence number of a FIN that arrived out of order.
    pending_fin: Option<u64>,
    /// Out-of-order ranges, the most recently changed first (RFC 2018, section 4).
    recent: Vec<(u64, u64)>,
    /// Range received twice, to be reported once (RFC 2883).
    duplicate: Option<(u64, u64)>,
    tuning: Autotuning,
    pub bytes_received: u64,
}

/// Dynamic right-sizing: the amount of data that the application reads per round trip.
#[derive(Clone, Debug, Default)]
struct Autotuning {
    rtt: SimDuration,
    space: u32,
    from_seq: u64,
    since: SimTime,
    /// Measurement of the round trip by the window: it ends with the byte before this sequence number.
    window_end: u64,
    window_since: Option<SimTime>,
}

/// Disposition of a data segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arrival {
    /// The segment extended the in-order data.
    InOrder,
    /// The segment is above a hole.
    OutOfOrder,
    /// The segment contained no new data, or there was no room.
    Useless,
}

impl Receiver {
    pub(crate) fn new(advertised_mss: u16, rmem: [u32; 3], fixed: Option<u32>, scaling: bool) -> Receiver {
        let limit = fixed.unwrap_or(rmem[1]);
        let space = limit / 2;
        let mss = u32::from(advertised_mss);
        // The scale depends on the maximum window that can ever be announced.
        let greatest = if fixed.is_some() { space } else { rmem[2].max(space) };
        let mut scale = 0;
        if scaling {
            scale = (greatest.max(1).ilog2().saturating_sub(15) as u8).min(14);
        }
        let window = if space > mss { space / mss * mss } else { space }.min(65_535);
        Receiver {
            initial: 0,
            nxt: 0,
            acked: 0,
            window,
            scale,
            advertised_mss: mss,
            headers: HEADERS,
            mss: mss.clamp(88, 536),
            ssthresh: window,
            clamp: space,
            limit,
            limit_locked: fixed.is_some(),
            moderated: true,
            limit_max: rmem[2],
            ratio: DEFAULT_RATIO,
            finished: false,
            data: ReceiveQueue::default(),
            data_cost: 0,
            out_of_order: Map::new(),
            out_of_order_bytes: 0,
            pending_fin: None,
            recent: Vec::new(),
            duplicate: None,
            tuning: Autotuning { space: window.min(10 * mss), ..Autotuning::default() },
            bytes_received: 0,
        }
    }

    /// Adjusts the first window to a multiple of the segment size, once the options of segments are known.
    pub(crate) fn fit_window(&mut self) {
        let (space, mss) = (self.limit / 2, self.advertised_mss.max(1));
        self.window = if space > mss { space / mss * mss } else { space }.min(65_535);
        self.ssthresh = self.window;
    }

    /// Deducts the options that every segment will carry.
    pub(crate) fn deduct_options(&mut self, options: u32) {
        self.advertised_mss = self.advertised_mss.saturating_sub(options).max(88);
        self.headers += options;
        self.tuning.space = self.tuning.space.min(10 * self.advertised_mss);
    }

    /// Window for a buffer of `space` bytes.
    fn window_of(&self, space: u32) -> u32 {
        ((u64::from(space) * u64::from(self.ratio)) >> 8) as u32
    }

    /// Buffer size needed for a window.
    fn space_of(&self, window: u64) -> u64 {
        (window << 8) / u64::from(self.ratio)
    }

    /// Updates the payload ratio by a segment that is at least as large as any before
    /// (`tcp_measure_rcv_mss`).
    pub(crate) fn measure_segment(&mut self, len: u32) {
        if len != self.mss {
            let ratio = ((len << 8) / truesize(len, self.headers)).max(1);
            if ratio != self.ratio {
                self.ratio = ratio;
                self.set_clamp(self.window_of(self.limit));
            }
        }
        self.mss = len.min(self.advertised_mss);
    }

    /// Reserves the buffer space of one segment when the connection is established (`tcp_init_buffer_space`).
    pub(crate) fn reserve_segment(&mut self) {
        let (greatest, mss) = (self.window_of(self.limit), self.advertised_mss);
        self.clamp = self.clamp.min(greatest);
        if self.clamp > 2 * mss && self.clamp + mss > greatest {
            self.clamp = (2 * mss).max(greatest.saturating_sub(mss));
        }
        self.ssthresh = self.ssthresh.min(self.clamp);
    }

    /// Changes the maximum window (`tcp_set_window_clamp`).
    fn set_clamp(&mut self, clamp: u32) {
        let clamp = clamp.max(CLAMP_MIN);
        if clamp < self.clamp {
            self.ssthresh = self.ssthresh.min(clamp);
        } else if clamp > self.clamp {
            self.ssthresh = self.ssthresh.max(self.window.min(clamp));
        }
        self.clamp = clamp;
    }

    /// Sets the peer's initial sequence number.
    pub(crate) fn synchronise(&mut self, initial: u64, now: SimTime) {
        self.initial = initial;
        self.nxt = initial + 1;
        self.acked = self.nxt;
        self.tuning.from_seq = self.nxt;
        self.tuning.since = now;
    }

    pub(crate) fn readable(&self) -> usize {
        self.data.len()
    }

    /// Bytes in the out-of-order queue.
    #[cfg(test)]
    pub(crate) fn held(&self) -> usize {
        self.out_of_order.values().map(|bytes| bytes.len()).sum()
    }

    pub(crate) fn has_holes(&self) -> bool {
        !self.out_of_order.is_empty()
    }

    /// Sequence number of the next byte to be read by the application.
    pub(crate) fn read_seq(&self) -> u64 {
        self.nxt - self.data.len() as u64 - u64::from(self.finished)
    }

    /// Remainder of the window last announced (`tcp_receive_window`).
    pub(crate) fn window_left(&self) -> u32 {
        (self.acked + u64::from(self.window)).saturating_sub(self.nxt) as u32
    }

    pub(crate) fn window_end(&self) -> u64 {
        self.nxt + u64::from(self.window_left())
    }

    /// Queues `payload`, which starts at `seq`, and a FIN after it.
    // The symbol is used by benches/instructions.py to count segments.
    #[inline(never)]
    pub(crate) fn insert(&mut self, seq: u64, payload: &mut Payload<'_>, fin: bool) -> Arrival {
        let end = seq + payload.len() as u64;
        if self.finished || end + u64::from(fin) <= self.nxt {
            self.duplicate = Some((seq, end + u64::from(fin)));
            return Arrival::Useless;
        }
        if seq > self.nxt {
            return self.insert_out_of_order(seq, payload, fin);
        }
        if seq < self.nxt {
            self.duplicate = Some((seq, self.nxt));
        }
        // Data beyond the announced window is not accepted.
        let room = self.window_end().max(self.nxt);
        let known = ((self.nxt - seq) as usize).min(payload.len());
        let new = payload.len() - known;
        let fits = new.min((room - self.nxt) as usize);
        if fits == 0 && new > 0 {
            return Arrival::Useless;
        }
        self.note_appended(fits);
        self.data.push(payload, known..known + fits);
        if fits == new && fin {
            self.finish();
        } else if self.has_holes() || !self.recent.is_empty() || self.pending_fin.is_some() {
            self.absorb_out_of_order();
        }
        Arrival::InOrder
    }

    /// Charges `bytes` that are appended.
    fn note_appended(&mut self, bytes: usize) {
        let len = bytes as u32;
        // Linux coalesces small segments, so they are not charged for a buffer each.
        self.data_cost += if len >= self.mss / 2 {
            u64::from(truesize(len, self.headers))
        } else {
            self.space_of(u64::from(len))
        };
        self.nxt += bytes as u64;
        self.bytes_received += bytes as u64;
    }

    fn finish(&mut self) {
        self.finished = true;
        self.nxt += 1;
        self.out_of_order.clear();
        self.out_of_order_bytes = 0;
        self.recent.clear();
    }

    fn absorb_out_of_order(&mut self) {
        while let Some(range) = self.out_of_order.first_entry() {
            if *range.key() > self.nxt {
                break;
            }
            let (start, bytes) = range.remove_entry();
            self.out_of_order_bytes -= bytes.len() + RANGE_OVERHEAD;
            let known = ((self.nxt - start) as usize).min(bytes.len());
            self.note_appended(bytes.len() - known);
            self.data.push_buffer(bytes, known);
        }
        if self.pending_fin == Some(self.nxt) {
            self.finish();
        }
        let nxt = self.nxt;
        self.recent.retain(|&(_, end)| end > nxt);
    }

    fn insert_out_of_order(&mut self, seq: u64, payload: &[u8], fin: bool) -> Arrival {
        let room = (self.window_end().saturating_sub(seq) as usize).min(payload.len());
        let payload_fits = room == payload.len();
        let payload = &payload[..room];
        if payload_fits && fin {
            self.pending_fin = Some(seq + payload.len() as u64);
        }
        if payload.is_empty() {
            return if payload_fits && fin { Arrival::OutOfOrder } else { Arrival::Useless };
        }
        if self.data.len() + self.out_of_order_bytes + payload.len() + RANGE_OVERHEAD > self.limit as usize {
            return Arrival::Useless;
        }
        let end = seq + payload.len() as u64;
        // The preceding range may touch or overlap.
        let before = self.out_of_order.range(..=seq).next_back().map(|(&s, b)| (s, s + b.len() as u64));
        let (start, mut tail) = match before {
            Some((start, stop)) if stop >= end => {
                self.duplicate = Some((seq, end));
                self.note_range(start, stop);
                return Arrival::OutOfOrder;
            }
            Some((start, stop)) if stop >= seq => {
                if stop > seq {
                    self.duplicate = Some((seq, stop));
                }
                let bytes = self.out_of_order.get_mut(&start).expect("the range just found");
                bytes.extend_from_slice(&payload[(stop - seq) as usize..]);
                self.out_of_order_bytes += (end - stop) as usize;
                (start, end)
            }
            _ => {
                self.out_of_order.insert(seq, payload.to_vec());
                self.out_of_order_bytes += payload.len() + RANGE_OVERHEAD;
                (seq, end)
            }
        };
        // Following ranges may touch or overlap.
        while let Some((&next, bytes)) = self.out_of_order.range(start + 1..=tail).next() {
            let stop = next + bytes.len() as u64;
            let bytes = self.out_of_order.remove(&next).expect("the range just found");
            self.out_of_order_bytes -= bytes.len() + RANGE_OVERHEAD;
            if next < tail {
                self.duplicate = Some((next, stop.min(tail)));
            }
            if stop > tail {
                let whole = self.out_of_order.get_mut(&start).expect("the range just extended");
                whole.extend_from_slice(&bytes[(tail - next) as usize..]);
                self.out_of_order_bytes += (stop - tail) as usize;
                tail = stop;
            }
        }
        self.note_range(start, tail);
        Arrival::OutOfOrder
    }

    fn note_range(&mut self, start: u64, end: u64) {
        self.recent.retain(|&(s, e)| e < start || s > end);
        self.recent.insert(0, (start, end));
        self.recent.truncate(SackBlocks::MAX);
    }

    /// SACK blocks for the next ACK: a duplicate first (RFC 2883), then the recent ranges.
    pub(crate) fn sack_blocks(&mut self, max: usize) -> SackBlocks {
        let mut blocks = SackBlocks::default();
        let ranges = self.duplicate.take().into_iter().chain(self.recent.iter().copied());
        for (start, end) in ranges.take(max) {
            // A FIN after the range counts as received too.
            let end = end + u64::from(self.pending_fin == Some(end));
            blocks.push(seq64::wire(start), seq64::wire(end));
        }
        blocks
    }

    pub(crate) fn note_duplicate(&mut self, start: u64, end: u64) {
        self.duplicate = Some((start, end));
    }

    /// True if the next ACK has SACK blocks.
    pub(crate) fn has_sack_news(&self) -> bool {
        self.duplicate.is_some() || !self.recent.is_empty()
    }

    /// Number of SACK blocks of the next ACK.
    pub(crate) fn sack_len(&self) -> usize {
        self.recent.len() + usize::from(self.duplicate.is_some())
    }

    /// Copies bytes to `out` and removes them.
    pub(crate) fn read(&mut self, out: &mut [u8]) -> usize {
        let mut n = 0;
        for piece in self.slices(out.len()) {
            out[n..n + piece.len()].copy_from_slice(piece);
            n += piece.len();
        }
        self.drop_front(n);
        n
    }

    /// Up to `n` bytes from the front, as slices.
    pub(crate) fn slices(&self, n: usize) -> impl Iterator<Item = &[u8]> {
        self.data.slices(n)
    }

    /// Takes a packet buffer whose bytes have been read.
    pub(crate) fn spent(&mut self) -> Option<Vec<u8>> {
        self.data.spent()
    }

    /// Drops up to `n` bytes from the front; returns their number.
    pub(crate) fn drop_front(&mut self, n: usize) -> usize {
        let n = n.min(self.data.len());
        if n > 0 {
            self.data_cost = match n == self.data.len() {
                true => 0,
                false => self.data_cost - self.data_cost * n as u64 / self.data.len() as u64,
            };
        }
        self.data.drop_front(n)
    }

    pub(crate) fn clear(&mut self) {
        self.data = ReceiveQueue::default();
        self.data_cost = 0;
        self.out_of_order.clear();
        self.out_of_order_bytes = 0;
        self.recent.clear();
    }

    /// Window to announce (`__tcp_select_window`): the free space, but at least one segment (SWS avoidance,
    /// RFC 9293, section 3.8.6.2.2) and at most `ssthresh`.
    pub(crate) fn select_window(&self) -> u32 {
        let full = self.clamp.min(self.window_of(self.limit));
        let used = self.data_cost + self.space_of(self.out_of_order_bytes as u64);
        let mut free = full.min(self.window_of(u64::from(self.limit).saturating_sub(used) as u32));
        let mss = self.mss.min(full);
        if free < full / 2 {
            free = free >> self.scale << self.scale;
            if free < full >> 4 || free < mss {
                return 0;
            }
        }
        free = free.min(self.ssthresh);
        if self.scale > 0 {
            // Rounded up so that scaling does not reduce the window.
            return free.next_multiple_of(1 << self.scale);
        }
        let window = self.window;
        if window <= free.saturating_sub(mss) || window > free {
            free / mss.max(1) * mss.max(1)
        } else if mss == full && free > window + full / 2 {
            free
        } else {
            window
        }
    }

    /// Window field of the segment being sent; records the announced window.
    pub(crate) fn announce_window(&mut self) -> u16 {
        let left = self.window_left();
        let mut window = self.select_window();
        // RFC 9293, section 3.8.6: "A TCP receiver SHOULD NOT shrink the window".
        if window < left {
            window = left.next_multiple_of(1 << self.scale);
        }
        window = window.min(0xffff << self.scale);
        self.window = window;
        self.acked = self.nxt;
        (window >> self.scale) as u16
    }

    /// Lets the announced window grow after in-order data of `len` bytes (`tcp_grow_window`). True if it has
    /// grown.
    pub(crate) fn grow_window(&mut self, len: usize) -> bool {
        let left = u64::from(self.limit).saturating_sub(self.data_cost) as u32;
        let space = self.window_of(left).min(self.clamp);
        let len = len as u32;
        if len < 128 || space <= self.ssthresh {
            return false;
        }
        let cost = truesize(len, self.headers);
        let growth = if self.window_of(cost) <= len {
            2 * self.advertised_mss
        } else {
            self.cautious_growth(cost, len)
        };
        if growth > 0 {
            self.ssthresh += (space - self.ssthresh).min(growth.max(2 * len));
        }
        growth > 0
    }

    /// Growth for segments whose buffer charge exceeds their length: as far as such segments fit into the
    /// maximum buffer (`__tcp_grow_window`).
    fn cautious_growth(&self, cost: u32, len: u32) -> u32 {
        let mut cost = self.window_of(cost) / 2;
        let mut window = self.window_of(self.limit_max) / 2;
        while self.ssthresh <= window {
            if cost <= len {
                return 2 * self.mss;
            }
            cost /= 2;
            window /= 2;
        }
        0
    }

    /// Enlarges the buffer for a round trip's data above a hole.
    pub(crate) fn grow_for_holes(&mut self) {
        self.grow_limit(u64::from(self.tuning.space), u64::from(self.tuning.space.max(1)));
    }

    /// Enlarges the buffer to twice the data read per round trip, plus the sender's growth meanwhile
    /// (`tcp_rcvbuf_grow`).
    fn grow_limit(&mut self, read: u64, before: u64) {
        if self.limit_locked || !self.moderated {
            return;
        }
        let mut wanted = 2 * read;
        wanted += 2 * (wanted * (read - before) / before);
        if let Some((start, bytes)) = self.out_of_order.last_key_value() {
            wanted += start + bytes.len() as u64 - self.nxt;
        }
        let limit = self.space_of(wanted).min(u64::from(self.limit_max)) as u32;
        if limit > self.limit {
            self.limit = limit;
            self.clamp = self.window_of(limit);
        }
    }

    /// Adds a receiver-side measurement of the round-trip time, from a timestamp echo, before its segment is
    /// queued (`tcp_rcv_rtt_update`).
    pub(crate) fn sample_rtt(&mut self, rtt: SimDuration) {
        let old = self.tuning.rtt;
        if old.is_zero() || rtt < old {
            self.tuning.rtt = rtt;
        } else if self.data.len() == 0 {
            // With unread data, the time includes that of the application.
            let smoothed = old.as_picos() - old.as_picos() / 8 + rtt.as_picos() / 8;
            self.tuning.rtt = SimDuration::from_picos(smoothed);
        }
    }

    /// Samples the round trip as the time in which one window of data arrives, of which the minimum counts
    /// (`tcp_rcv_rtt_measure`). This is the only measurement without timestamps, and on paths below 1 ms.
    pub(crate) fn sample_rtt_by_window(&mut self, now: SimTime) {
        let tuning = &mut self.tuning;
        if let Some(since) = tuning.window_since {
            if self.nxt < tuning.window_end {
                return;
            }
            let sample = SimDuration::from_micros(now.since(since).as_micros().max(1));
            if tuning.rtt.is_zero() || sample < tuning.rtt {
                tuning.rtt = sample;
            }
        }
        tuning.window_end = self.nxt + u64::from(self.window);
        tuning.window_since = Some(now);
    }

    pub(crate) fn rtt(&self) -> SimDuration {
        self.tuning.rtt
    }

    pub(crate) fn space_per_rtt(&self) -> u32 {
        self.tuning.space
    }

    /// Once per round trip after a read, enlarges the buffer to twice the data read in it, plus the sender's
    /// growth meanwhile (`tcp_rcv_space_adjust` in Linux 6.18).
    pub(crate) fn autotune(&mut self, now: SimTime) {
        if self.tuning.rtt.is_zero() || now.since(self.tuning.since) < self.tuning.rtt {
            return;
        }
        // Unread data does not count for this round trip.
        let read = (self.read_seq() - self.tuning.from_seq).saturating_sub(self.data.len() as u64);
        let space = u64::from(self.tuning.space.max(1));
        if read > space {
            self.tuning.space = read as u32;
            self.grow_limit(read, space);
        }
        self.tuning.from_seq = self.read_seq();
        self.tuning.since = now;
    }

    /// Handles a change of `SO_RCVBUF`.
    pub(crate) fn set_limit(&mut self, limit: u32) {
        self.limit = limit;
        self.limit_locked = true;
        self.clamp = self.window_of(limit);
        self.ssthresh = self.ssthresh.min(self.clamp);
    }
}
