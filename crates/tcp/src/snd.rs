//! The send queue: the bytes that the program wrote, the segments in flight, and the peer's window. The
//! decision when to send is made in `output.rs`.

use crate::scoreboard::Scoreboard;
use std::collections::VecDeque;

/// Capacity in bytes above which an empty buffer releases its memory.
const KEEP_CAPACITY: usize = 64 * 1024;

/// Memory that Linux accounts for a buffer of written bytes besides its payload, on x86-64 in 6.18
/// (`skb->truesize` of `tcp_stream_alloc_skb`).
pub(crate) const BUFFER_COST: usize = 752;
/// Maximum payload of a buffer in bytes: the largest packet that a device without limits of its own accepts
/// (`sk_gso_max_size`).
pub(crate) const BUFFER_MAX: usize = 65_215;

/// The sender's variables of RFC 9293, section 3.3.1, and its queues.
#[derive(Clone, Debug)]
pub(crate) struct SendQueue {
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
    /// SND.UP: the sequence number after our last urgent byte. There is no urgent data if it is at most
    /// SND.UNA.
    pub up: u64,
    /// Largest window that the peer has announced, in bytes.
    pub max_window: u64,
    /// Shift of the peer's window.
    pub scale: u8,
    /// Largest payload that the peer and the path accept, less options, in bytes.
    pub mss: usize,
    /// MSS without deduction of options: the peer's announcement or the limit of the path.
    pub mss_limit: u16,
    /// Bytes that the program wrote and the peer has not acknowledged.
    data: VecDeque<u8>,
    /// Sequence number of the first byte of `data`.
    data_start: u64,
    /// Ends of the buffers in which Linux would keep the bytes. Linux allocates another buffer while the
    /// limit is not reached, and then fills it. The sent part of a buffer becomes a separate buffer.
    buffers: VecDeque<u64>,
    /// End of the data to be pushed: the end of a write, or of half a window of data since the last one. A
    /// segment that ends there carries PSH.
    pub pushed: u64,
    /// True if a FIN follows the last byte.
    pub fin: bool,
    /// End of the last segment sent that was smaller than the MSS (Minshall's modification of Nagle).
    pub small_end: u64,
    /// Size of the send buffer in bytes, `SO_SNDBUF`.
    pub limit: usize,
    pub limit_locked: bool,
    /// Number of sequence numbers that were unacknowledged at the end of the connection.
    pub left: usize,
    pub flight: Scoreboard,
}

impl SendQueue {
    pub(crate) fn new(initial: u64, limit: u32, limit_locked: bool) -> SendQueue {
        SendQueue {
            initial,
            una: initial,
            nxt: initial,
            window: 0,
            window_seq: 0,
            up: 0,
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

    /// Stream offset of the end of the written data.
    pub(crate) fn data_end(&self) -> u64 {
        self.data_start + self.data.len() as u64
    }

    /// Stream offset of the end of everything to be sent, the FIN included.
    pub(crate) fn end(&self) -> u64 {
        self.data_end() + u64::from(self.fin)
    }

    /// Right edge of the peer's window.
    pub(crate) fn window_end(&self) -> u64 {
        self.una + self.window
    }

    /// Number of bytes that were never sent.
    pub(crate) fn unsent(&self) -> usize {
        self.data_end().saturating_sub(self.nxt.max(self.data_start)) as usize
    }

    /// Unsent bytes, as many as are contiguous in memory from the first one.
    pub(crate) fn next_bytes(&self) -> &[u8] {
        let end = self.data_end();
        self.bytes(end - self.unsent() as u64, end).0
    }

    /// Number of bytes written and not acknowledged.
    pub(crate) fn queued(&self) -> usize {
        self.data.len()
    }

    /// Cost of the bytes against the limit (`sk_wmem_queued`).
    pub(crate) fn cost(&self) -> usize {
        self.data.len() + self.buffers.len() * BUFFER_COST
    }

    /// Payload of a new buffer: whole segments, at most half of the peer's largest window
    /// (`tcp_xmit_size_goal`).
    fn buffer_size(&self) -> usize {
        let most = match self.max_window as usize {
            window if window > 536 => BUFFER_MAX.min(window / 2),
            window => BUFFER_MAX.min(window.max(1)),
        };
        (most / self.mss * self.mss).max(self.mss)
    }

    /// Space in the last buffer, if part of it was never sent.
    fn room_in_last(&self) -> usize {
        match self.buffers.back() {
            Some(&end) if end > self.nxt => {
                let before = self.buffers.iter().rev().nth(1).copied().unwrap_or(self.data_start);
                self.buffer_size().saturating_sub((end - before.max(self.nxt)) as usize)
            }
            _ => 0,
        }
    }

    /// Number of bytes that [`write`](Self::write) would take.
    pub(crate) fn free(&self) -> usize {
        let room = self.room_in_last();
        match self.limit.saturating_sub(self.cost() + room) {
            0 => room,
            left => room + left.div_ceil(self.buffer_size() + BUFFER_COST) * self.buffer_size(),
        }
    }

    /// Appends as many bytes as fit into one buffer, the last or a new one, and returns their number. The
    /// caller sends what it may between two buffers, as Linux does.
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

    /// Grows the first unsent buffer to `wanted` bytes from the next one (`tcp_grow_skb`). Returns the number
    /// of unsent bytes in the first buffer, and whether it is the last.
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

    /// Ends a device packet at `end`. Linux splits a buffer there (`tso_fragment`), and each part costs
    /// [`BUFFER_COST`].
    pub(crate) fn cut_buffer(&mut self, end: u64) {
        let index = self.buffers.partition_point(|&buffer_end| buffer_end < end);
        if self.buffers.get(index).is_some_and(|&buffer_end| buffer_end > end) {
            self.buffers.insert(index, end);
        }
    }

    /// Decides whether the written bytes are to be pushed to the peer now (`forced_push`). `complete` is
    /// false if more follows in the same call.
    pub(crate) fn push_after(&mut self, complete: bool) -> bool {
        let pushes = complete || self.data_end() > self.pushed + self.max_window / 2;
        if pushes {
            self.pushed = self.data_end();
        }
        pushes
    }

    /// The bytes from `start` to `end`, in the two slices of the ring.
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

    /// Releases the data before `ack` and returns the number of bytes released.
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

    /// True if all data, and the FIN if there is one, is acknowledged.
    pub(crate) fn is_drained(&self) -> bool {
        self.una >= self.end()
    }

    /// Discards all data of a connection that has ended.
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
        let mut sender = SendQueue::new(100, 50, true);
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
        let mut sender = SendQueue::new(0, 100, true);
        sender.write(b"abc");
        sender.fin = true;
        assert_eq!((sender.data_end(), sender.end()), (4, 5));
        assert_eq!(sender.release(5), 3);
        assert!(sender.is_drained());
    }
}
