//! The sending half: the bytes that the program wrote, which of them are in flight, and the
//! peer's window. Decides nothing about when to send: see `output.rs`.

use crate::scoreboard::Scoreboard;
use std::collections::VecDeque;

/// Buffers that have shrunk below this part of their memory give it back when they run empty.
const KEEP_CAPACITY: usize = 64 * 1024;

/// Overhead that Linux counts for a buffer of written bytes, on x86-64 as 6.18 shows it
/// (`skb->truesize` of `tcp_stream_alloc_skb`).
pub(crate) const BUFFER_COST: usize = 752;
/// The most bytes of payload in a buffer: what a device without limits of its own takes as one packet
/// (`sk_gso_max_size`).
pub(crate) const BUFFER_MAX: usize = 65_215;

/// The sender's variables of RFC 9293, section 3.3.1, and its queues.
#[derive(Clone, Debug)]
pub(crate) struct Sender {
    /// ISS.
    pub initial: u64,
    /// SND.UNA.
    pub una: u64,
    /// SND.NXT.
    pub nxt: u64,
    /// SND.WND in bytes, scaled.
    pub window: u64,
    /// SND.WL1: the sequence number of the segment that last updated the window.
    pub window_seq: u64,
    /// The greatest window the peer ever announced.
    pub max_window: u64,
    /// Shift of the peer's window.
    pub scale: u8,
    /// The greatest payload that the peer and the path take, options deducted.
    pub mss: usize,
    /// The MSS without deducting options: what the peer announced or the path limits.
    pub mss_limit: u16,
    /// Bytes that the program wrote and the peer has not acknowledged.
    data: VecDeque<u8>,
    /// The sequence number of the first byte of `data`.
    data_start: u64,
    /// Ends of the buffers that Linux would keep the bytes in: it allows another one as long as the
    /// limit is not reached, and fills it whole. What is sent becomes a buffer of its own.
    buffers: VecDeque<u64>,
    /// The end of what the program has written at once, or of so much that the peer should see it: a
    /// segment that ends there carries PSH.
    pub pushed: u64,
    /// FIN stands behind the last byte.
    pub fin: bool,
    /// The end of the last segment sent that was smaller than the MSS (Minshall's Nagle).
    pub small_end: u64,
    /// The size of the send buffer, `SO_SNDBUF`.
    pub limit: usize,
    pub limit_locked: bool,
    /// Sequence numbers that were not acknowledged when the connection ended.
    pub left: usize,
    pub flight: Scoreboard,
}

impl Sender {
    pub(crate) fn new(initial: u64, limit: u32, limit_locked: bool) -> Sender {
        Sender {
            initial,
            una: initial,
            nxt: initial,
            window: 0,
            window_seq: 0,
            max_window: 0,
            scale: 0,
            mss: 536,
            mss_limit: 536,
            data: VecDeque::new(),
            data_start: initial + 1,
            buffers: VecDeque::new(),
            pushed: initial + 1,
            fin: false,
            small_end: initial,
            limit: limit as usize,
            limit_locked,
            left: 0,
            flight: Scoreboard::default(),
        }
    }

    /// Stream offset behind the last byte written.
    pub(crate) fn data_end(&self) -> u64 {
        self.data_start + self.data.len() as u64
    }

    /// Stream offset behind everything to be sent, FIN included.
    pub(crate) fn end(&self) -> u64 {
        self.data_end() + u64::from(self.fin)
    }

    /// The right edge of the peer's window.
    pub(crate) fn window_end(&self) -> u64 {
        self.una + self.window
    }

    /// Bytes that were never sent.
    pub(crate) fn unsent(&self) -> usize {
        self.data_end().saturating_sub(self.nxt.max(self.data_start)) as usize
    }

    /// Bytes that were never sent, as many as lie together from the first on.
    pub(crate) fn next_bytes(&self) -> &[u8] {
        let end = self.data_end();
        self.bytes(end - self.unsent() as u64, end).0
    }

    /// Bytes written and not acknowledged.
    pub(crate) fn queued(&self) -> usize {
        self.data.len()
    }

    /// Cost of the bytes against the limit (`sk_wmem_queued`).
    pub(crate) fn cost(&self) -> usize {
        self.data.len() + self.buffers.len() * BUFFER_COST
    }

    /// The payload of a buffer: full segments, no more than half the peer's greatest window
    /// (`tcp_xmit_size_goal`).
    fn buffer_size(&self) -> usize {
        let most = match self.max_window as usize {
            window if window > 536 => BUFFER_MAX.min(window / 2),
            window => BUFFER_MAX.min(window.max(1)),
        };
        (most / self.mss * self.mss).max(self.mss)
    }

    /// Room in the last buffer, as long as something of it was never sent.
    fn room_in_last(&self) -> usize {
        match self.buffers.back() {
            Some(&end) if end > self.nxt => {
                let before = self.buffers.iter().rev().nth(1).copied().unwrap_or(self.data_start);
                self.buffer_size().saturating_sub((end - before.max(self.nxt)) as usize)
            }
            _ => 0,
        }
    }

    /// Bytes that [`write`](Self::write) would take.
    pub(crate) fn free(&self) -> usize {
        let room = self.room_in_last();
        match self.limit.saturating_sub(self.cost() + room) {
            0 => room,
            left => room + left.div_ceil(self.buffer_size() + BUFFER_COST) * self.buffer_size(),
        }
    }

    /// Takes what fits into one buffer, the last or a new one; gives how much. Between two buffers
    /// what may be sent is sent, as Linux does.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> usize {
        let room = self.room_in_last();
        let n = if room > 0 {
            room.min(bytes.len())
        } else if self.cost() < self.limit {
            self.buffers.push_back(self.data_end());
            self.buffer_size().min(bytes.len())
        } else {
            return 0;
        };
        *self.buffers.back_mut().expect("one with room or a new one") += n as u64;
        self.data.extend(&bytes[..n]);
        n
    }

    /// The bytes of the first buffer that was not sent, once it has taken what it lacks to `wanted` from the one behind it
    /// (`tcp_grow_skb`), and whether it is the last.
    pub(crate) fn grow_buffer(&mut self, wanted: u64) -> (u64, bool) {
        let index = self.buffers.partition_point(|&end| end <= self.nxt);
        let Some(&end) = self.buffers.get(index) else { return (0, true) };
        let mut len = end - self.nxt;
        if let Some(&next) = self.buffers.get(index + 1)
            && len < wanted
        {
            len = wanted.min(next - self.nxt);
            if self.nxt + len == next {
                self.buffers.remove(index);
            } else {
                self.buffers[index] = self.nxt + len;
            }
        }
        (len, index + 1 == self.buffers.len())
    }

    /// Ends a packet for the device at `end`. Linux cuts a buffer there (`tso_fragment`), and both parts count
    /// for [`BUFFER_COST`].
    pub(crate) fn cut_buffer(&mut self, end: u64) {
        let index = self.buffers.partition_point(|&buffer_end| buffer_end < end);
        if self.buffers.get(index).is_some_and(|&buffer_end| buffer_end > end) {
            self.buffers.insert(index, end);
        }
    }

    /// Bytes were written, with or without more to come in the same call; whether the peer should see them now
    /// (`forced_push`).
    pub(crate) fn push_after(&mut self, complete: bool) -> bool {
        let pushes = complete || self.data_end() > self.pushed + self.max_window / 2;
        if pushes {
            self.pushed = self.data_end();
        }
        pushes
    }

    /// The bytes from `start` to `end`, in the two pieces that the ring holds them in.
    pub(crate) fn bytes(&self, start: u64, end: u64) -> (&[u8], &[u8]) {
        let (from, to) = ((start - self.data_start) as usize, (end - self.data_start) as usize);
        let (first, second) = self.data.as_slices();
        if to <= first.len() {
            (&first[from..to], &[])
        } else if from >= first.len() {
            (&second[from - first.len()..to - first.len()], &[])
        } else {
            (&first[from..], &second[..to - first.len()])
        }
    }

    /// Everything before `ack` has arrived; gives the number of data bytes that this frees.
    pub(crate) fn release(&mut self, ack: u64) -> usize {
        self.una = ack;
        let n = (ack.min(self.data_end()).saturating_sub(self.data_start)) as usize;
        self.data.drain(..n);
        self.data_start += n as u64;
        while self.buffers.front().is_some_and(|&end| end <= self.data_start) {
            self.buffers.pop_front();
        }
        if self.data.is_empty() && self.data.capacity() > KEEP_CAPACITY {
            self.data = VecDeque::new();
        }
        n
    }

    /// True if all of the data and FIN, if there is one, is acknowledged.
    pub(crate) fn is_drained(&self) -> bool {
        self.una >= self.end()
    }

    /// Drops everything: the connection is dead.
    pub(crate) fn clear(&mut self) {
        self.data = VecDeque::new();
        self.buffers.clear();
        self.data_start = self.nxt;
        self.fin = false;
        self.una = self.nxt;
        self.flight = Scoreboard::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_come_back_across_the_ring_s_seam() {
        let mut sender = Sender::new(100, 50, true);
        let mut written = Vec::new();
        let mut byte = 0u8;
        for round in 0..200 {
            let piece: Vec<u8> = (0..17)
                .map(|_| {
                    byte = byte.wrapping_add(7);
                    byte
                })
                .collect();
            let n = sender.write(&piece);
            written.extend_from_slice(&piece[..n]);
            sender.nxt = sender.data_end();
            let (a, b) = sender.bytes(sender.data_start, sender.data_end());
            let at = (sender.data_start - 101) as usize;
            assert_eq!([a, b].concat(), written[at..], "round {round}");
            let ack = sender.data_end().min(sender.data_start + 11);
            sender.release(ack);
        }
    }

    #[test]
    fn fin_takes_one_sequence_number() {
        let mut sender = Sender::new(0, 100, true);
        sender.write(b"abc");
        sender.fin = true;
        assert_eq!((sender.data_end(), sender.end()), (4, 5));
        assert_eq!(sender.release(5), 3);
        assert!(sender.is_drained());
    }
}
