//! Charge of a socket's packets against its send buffer (`sk_wmem_alloc` of Linux): UDP, raw and ping.
//!
//! A packet is charged while it is in the queue of an interface. A datagram that exceeds the MTU is charged by
//! its fragments, each until it departs: Linux builds it of buffers of that length (`__ip_append_data`).

use belljar_linux_abi::Errno;

/// Number of packets in the queue of an interface up to which a packet is not charged, since it departs before
/// the charge matters.
pub const UNCHARGED_QUEUE: usize = 8;

/// Length of the header of a fragment, in bytes; over IPv6 it is longer by 28, which makes a fragment more of 50.
const HEADER: usize = 20;

/// Packets of a socket in the queues of interfaces.
#[derive(Clone, Copy, Debug, Default)]
pub struct SendCharge {
    /// Charge of these packets, in bytes.
    pub bytes: u32,
    /// Number of packets passed to interfaces that report departures.
    pub given: u64,
    /// Number of these packets that have departed.
    pub left: u64,
}

impl SendCharge {
    /// True if at most half of the send buffer is in use (`sock_writeable` of Linux).
    pub fn is_writable(&self, send_buffer: u32) -> bool {
        self.bytes.saturating_mul(2) <= send_buffer
    }

    /// Fails with `ENOBUFS` if the last fragment of a packet of `len` bytes finds more than twice the send buffer in
    /// use.
    #[inline(never)]
    pub fn check_fragments(&self, len: usize, mtu: usize, send_buffer: u32) -> Result<(), Errno> {
        // A fragment has a whole number of 8-byte units behind its header.
        let payload = (mtu.saturating_sub(HEADER) & !7).max(8);
        let before_last =
            (len.saturating_sub(HEADER).div_ceil(payload).max(1) as u64 - 1) * u64::from(charge(mtu));
        let is_over = u64::from(self.bytes) + before_last > 2 * u64::from(send_buffer);
        if is_over { Err(Errno::ENOBUFS) } else { Ok(()) }
    }

    /// Charges a packet of `len` bytes.
    pub fn give(&mut self, len: usize) {
        self.bytes += charge(len);
        self.given += 1;
    }

    /// Charges the fragments of a charged packet of `len` bytes in its place.
    pub fn cut(&mut self, len: usize, pieces: &[Vec<u8>]) {
        self.bytes = self.bytes.saturating_sub(charge(len));
        self.given -= 1;
        pieces.iter().for_each(|piece| self.give(piece.len()));
    }

    /// Ends the charge of a packet of `len` bytes, which has departed or was dropped.
    pub fn leave(&mut self, len: usize) {
        self.bytes = self.bytes.saturating_sub(charge(len));
        self.left += 1;
    }
}

/// Charge of a packet created by a socket, in bytes (`skb->truesize`): `struct sk_buff` and its buffer,
/// rounded up by the allocator; most of a long packet is in pages, charged byte for byte. Measured with
/// `/proc/net/udp` on Linux 6.18.
pub fn charge(packet_len: usize) -> u32 {
    const SK_BUFF: usize = 256;
    const HEADROOM: usize = 31;
    const SHARED_INFO: usize = 320;
    /// `SKB_SMALL_HEAD_CACHE_SIZE`.
    const SMALL: usize = 576;
    /// `SKB_MAX_ALLOC`.
    const MAX_LINEAR: usize = 16_064;
    const HEADERS: usize = 28;
    let data = packet_len + HEADROOM;
    let buffer = if data >= MAX_LINEAR {
        SMALL + packet_len - HEADERS
    } else {
        match data.next_multiple_of(64) + SHARED_INFO {
            small if small <= SMALL => SMALL,
            larger => larger.next_power_of_two(),
        }
    };
    (SK_BUFF + buffer) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn charges_are_those_of_linux() {
        for (payload, charged) in [
            (1, 832),
            (197, 832),
            (198, 1_280),
            (645, 1_280),
            (646, 2_304),
            (1_669, 2_304),
            (1_670, 4_352),
            (3_717, 4_352),
            (3_718, 8_448),
            (7_813, 8_448),
            (7_814, 16_640),
            (16_004, 16_640),
            (16_005, 16_837),
            (65_507, 66_339),
        ] {
            assert_eq!(charge(28 + payload), charged, "{payload} bytes");
        }
    }
}
