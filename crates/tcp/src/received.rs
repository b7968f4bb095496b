//! Receive queue: in-order data in the buffers of its packets, copied only when it is read.

use std::collections::VecDeque;
use std::ops::{Deref, Range};

/// Payload of a received segment.
#[derive(Debug)]
pub enum Payload<'a> {
    /// Borrowed bytes, which are copied if they are queued.
    Lent(&'a [u8]),
    /// Part of a packet, whose buffer is taken and replaced by an empty one if the bytes are queued.
    /// [`Connection::take_spent`](crate::Connection::take_spent) returns the buffer after they have been
    /// read.
    Owned(&'a mut Vec<u8>, Range<usize>),
}

impl Deref for Payload<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Payload::Lent(bytes) => bytes,
            Payload::Owned(packet, range) => packet.get(range.clone()).unwrap_or_default(),
        }
    }
}

impl<'a> From<&'a [u8]> for Payload<'a> {
    fn from(bytes: &'a [u8]) -> Payload<'a> {
        Payload::Lent(bytes)
    }
}

impl<'a, const N: usize> From<&'a [u8; N]> for Payload<'a> {
    fn from(bytes: &'a [u8; N]) -> Payload<'a> {
        Payload::Lent(bytes)
    }
}

/// Maximum payload that is appended to the last buffer if there is room.
const SMALL: usize = 512;
/// Capacity of a buffer allocated for a copy, in bytes.
const COPY_CAPACITY: usize = 1_024;
/// Minimum payload for keeping a packet's buffer, as a divisor of its capacity.
const WORTH_KEEPING: usize = 4;
/// Maximum number of spent buffers kept for [`ReceiveQueue::spent`].
const SPENT_MAX: usize = 256;

#[derive(Clone, Debug)]
struct Piece {
    /// Buffer; the unread bytes start at `from`, which is below the length.
    bytes: Vec<u8>,
    from: usize,
}

/// Unread in-order data.
#[derive(Clone, Debug, Default)]
pub(crate) struct ReceiveQueue {
    pieces: VecDeque<Piece>,
    len: usize,
    /// Buffers of packets that have been read.
    spent: Vec<Vec<u8>>,
}

impl ReceiveQueue {
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Queues the part `range` of a payload.
    pub(crate) fn push(&mut self, payload: &mut Payload<'_>, range: Range<usize>) {
        match payload {
            Payload::Owned(packet, within) if !self.has_room_for(range.len()) => {
                let (start, end) = (within.start + range.start, within.start + range.end);
                if range.len() * WORTH_KEEPING < packet.capacity() {
                    return self.push_copy(&packet[start..end]);
                }
                packet.truncate(end);
                self.push_buffer(std::mem::take(packet), start);
            }
            _ => self.push_copy(&payload[range]),
        }
    }

    /// True if `n` bytes are to be appended to the last buffer.
    fn has_room_for(&self, n: usize) -> bool {
        n <= SMALL && self.pieces.back().is_some_and(|last| last.bytes.capacity() - last.bytes.len() >= n)
    }

    fn push_copy(&mut self, bytes: &[u8]) {
        self.len += bytes.len();
        if self.has_room_for(bytes.len())
            && let Some(last) = self.pieces.back_mut()
        {
            last.bytes.extend_from_slice(bytes);
        } else if !bytes.is_empty() {
            let mut copy = Vec::with_capacity(bytes.len().max(COPY_CAPACITY));
            copy.extend_from_slice(bytes);
            self.pieces.push_back(Piece { bytes: copy, from: 0 });
        }
    }

    /// Queues the bytes of a buffer from `from` on.
    pub(crate) fn push_buffer(&mut self, bytes: Vec<u8>, from: usize) {
        if from < bytes.len() {
            self.len += bytes.len() - from;
            self.pieces.push_back(Piece { bytes, from });
        }
    }

    /// Up to `n` bytes from the front, as slices in order.
    pub(crate) fn slices(&self, n: usize) -> impl Iterator<Item = &[u8]> {
        self.pieces.iter().scan(n, |left, piece| {
            let bytes = &piece.bytes[piece.from..];
            let n = bytes.len().min(*left);
            *left -= n;
            (n > 0).then(|| &bytes[..n])
        })
    }

    /// Drops up to `n` bytes from the front; returns their number.
    pub(crate) fn drop_front(&mut self, n: usize) -> usize {
        let n = n.min(self.len);
        self.len -= n;
        let mut left = n;
        while left > 0
            && let Some(first) = self.pieces.front_mut()
        {
            let here = first.bytes.len() - first.from;
            if left < here {
                first.from += left;
                break;
            }
            left -= here;
            let spent = self.pieces.pop_front().map(|piece| piece.bytes);
            self.spent.extend(spent.filter(|_| self.spent.len() < SPENT_MAX));
        }
        n
    }

    /// Takes a buffer that has been read completely.
    pub(crate) fn spent(&mut self) -> Option<Vec<u8>> {
        self.spent.pop()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(received: &ReceiveQueue) -> Vec<u8> {
        received.slices(usize::MAX).flatten().copied().collect()
    }

    #[test]
    fn bytes_come_out_in_order_whoever_keeps_them() {
        let (mut received, mut expected) = (ReceiveQueue::default(), VecDeque::new());
        let mut stream = belljar_base::Seed(3).stream(&["received"]);
        let mut byte = 0u8;
        for _ in 0..20_000 {
            let mut draw = |below: usize| (stream.next_u64() % below as u64) as usize;
            let len = [1, 40, 700, 1_448][draw(4)];
            let bytes: Vec<u8> = std::iter::repeat_with(|| {
                byte = byte.wrapping_add(7);
                byte
            })
            .take(len)
            .collect();
            let cut = draw(len);
            expected.extend(&bytes[cut..]);
            if draw(2) == 0 {
                received.push(&mut Payload::Lent(&bytes), cut..len);
            } else {
                // Headers before the payload, padding after it.
                let mut packet = Vec::with_capacity(1_536);
                packet.extend_from_slice(&[0xee; 52]);
                packet.extend_from_slice(&bytes);
                packet.push(0xee);
                received.push(&mut Payload::Owned(&mut packet, 52..52 + len), cut..len);
            }
            let n = draw(2_000);
            assert_eq!(received.drop_front(n), n.min(expected.len()));
            expected.drain(..n.min(expected.len()));
            assert_eq!((received.len(), all(&received)), (expected.len(), Vec::from(expected.clone())));
        }
    }

    #[test]
    fn small_payloads_share_buffers() {
        let mut received = ReceiveQueue::default();
        for n in 0..10_000u32 {
            let mut packet = Vec::with_capacity(1_536);
            packet.extend_from_slice(&[0; 52]);
            packet.extend_from_slice(&n.to_be_bytes());
            received.push(&mut Payload::Owned(&mut packet, 52..56), 0..4);
        }
        let held: usize = received.pieces.iter().map(|piece| piece.bytes.capacity()).sum();
        assert!(held < 2 * received.len(), "{held} for {}", received.len());
        assert!(all(&received).chunks_exact(4).zip(0u32..).all(|(bytes, n)| bytes == n.to_be_bytes()));
    }

    #[test]
    fn buffers_come_back_when_they_are_read() {
        let mut received = ReceiveQueue::default();
        let mut packet = vec![7; 1_500];
        received.push(&mut Payload::Owned(&mut packet, 52..1_500), 0..1_448);
        assert!(packet.is_empty());
        received.drop_front(1_447);
        assert!(received.spent().is_none());
        received.drop_front(1);
        assert_eq!(received.spent().map(|buffer| buffer.len()), Some(1_500));
    }
}
