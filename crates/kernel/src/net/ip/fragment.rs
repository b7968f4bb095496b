//! Reassembly of datagrams (RFC 791, section 3.2; RFC 8200, section 4.5).

use super::IpHeader;
use belljar_base::{SimDuration, SimTime};
use std::collections::VecDeque;
use std::net::IpAddr;
use std::ops::Range;

/// `net.ipv4.ipfrag_time`.
const TIMEOUT: SimDuration = SimDuration::from_secs(30);
/// `net.ipv6.ip6frag_time`.
const TIMEOUT_V6: SimDuration = SimDuration::from_secs(60);
/// `net.ipv4.ipfrag_high_thresh`: more than this many bytes waiting throws the oldest away.
const MAX_BYTES: usize = 4 << 20;
/// The longest datagram.
const MAX_DATAGRAM: usize = 65_535;

#[derive(Debug)]
struct Partial {
    key: (IpAddr, IpAddr, u8, u32),
    since: SimTime,
    /// The header of the first fragment, once it is here.
    first: Option<IpHeader>,
    /// Offset and bytes of the pieces, in order of offset, without overlaps.
    pieces: Vec<(usize, Vec<u8>)>,
    bytes: usize,
    /// The length of the whole payload, known from the last fragment.
    total: Option<usize>,
}

/// Datagrams of which some fragments are missing, the oldest first.
#[derive(Debug, Default)]
pub struct Reassembly {
    waiting: VecDeque<Partial>,
    bytes: usize,
    /// Datagrams given up: `ReasmFails` of `/proc/net/snmp`.
    pub failed: u64,
}

impl Reassembly {
    /// Adds a fragment; gives the whole packet with its header when it was the last one missing.
    pub fn add(
        &mut self,
        now: SimTime,
        header: &IpHeader,
        packet: &[u8],
        payload: Range<usize>,
    ) -> Option<(IpHeader, Vec<u8>)> {
        self.expire(now);
        // The fragments of an IPv6 packet need not name one protocol: the first one counts.
        let protocol = if header.dst.is_ipv4() { header.protocol } else { 0 };
        let key = (header.src, header.dst, protocol, header.id);
        let at = match self.waiting.iter().position(|partial| partial.key == key) {
            Some(at) => at,
            None => {
                let partial =
                    Partial { key, since: now, first: None, pieces: Vec::new(), bytes: 0, total: None };
                self.waiting.push_back(partial);
                self.waiting.len() - 1
            }
        };
        let data = &packet[payload];
        let partial = &mut self.waiting[at];
        let offset = header.fragment_offset;
        let end = offset + data.len();
        // All but the last must be multiples of eight; overlaps end the datagram (RFC 5722's rule,
        // which Linux applies to IPv4 too), exact repetitions are ignored.
        let malformed = end > MAX_DATAGRAM || (header.more_fragments && !data.len().is_multiple_of(8));
        let slot = partial.pieces.partition_point(|(start, _)| *start < offset);
        let repeated = partial
            .pieces
            .get(slot)
            .is_some_and(|(start, piece)| *start == offset && piece.len() == data.len());
        if repeated {
            return None;
        }
        let overlaps = partial.pieces.get(slot).is_some_and(|(start, _)| *start < end)
            || slot > 0 && {
                let (start, piece) = &partial.pieces[slot - 1];
                start + piece.len() > offset
            };
        if malformed || overlaps {
            self.give_up(at);
            return None;
        }
        partial.pieces.insert(slot, (offset, data.to_vec()));
        partial.bytes += data.len();
        self.bytes += data.len();
        if offset == 0 {
            partial.first = Some(*header);
        }
        if !header.more_fragments {
            partial.total = Some(end);
        }
        if partial.total == Some(partial.bytes) && partial.first.is_some() {
            return self.complete(at);
        }
        while self.bytes > MAX_BYTES {
            self.give_up(0);
        }
        None
    }

    fn complete(&mut self, at: usize) -> Option<(IpHeader, Vec<u8>)> {
        let partial = self.waiting.remove(at)?;
        self.bytes -= partial.bytes;
        let mut header = partial.first?;
        header.more_fragments = false;
        header.fragment_offset = 0;
        let mut packet = Vec::with_capacity(header.len() + partial.bytes);
        packet.resize(header.len(), 0);
        partial.pieces.iter().for_each(|(_, piece)| packet.extend_from_slice(piece));
        header.emit(&mut packet);
        Some((header, packet))
    }

    fn give_up(&mut self, at: usize) {
        if let Some(partial) = self.waiting.remove(at) {
            self.bytes -= partial.bytes;
            self.failed += 1;
        }
    }

    fn expire(&mut self, now: SimTime) {
        let old = |partial: &Partial| {
            let limit = if partial.key.0.is_ipv4() { TIMEOUT } else { TIMEOUT_V6 };
            now.since(partial.since) >= limit
        };
        while let Some(at) = self.waiting.iter().position(old) {
            self.give_up(at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::header::V4_LEN;
    use super::*;

    fn fragment(offset: usize, data: &[u8], more: bool) -> (IpHeader, Vec<u8>) {
        let header = IpHeader {
            id: 9,
            more_fragments: more,
            fragment_offset: offset,
            ..IpHeader::new([1, 0, 0, 1].into(), [1, 0, 0, 2].into(), 17)
        };
        (header, data.to_vec())
    }

    #[test]
    fn pieces_in_any_order_make_the_whole() {
        let mut reassembly = Reassembly::default();
        let mut whole = None;
        for (offset, data, more) in [(16, &[3u8; 3][..], false), (0, &[1; 8], true), (8, &[2; 8], true)] {
            assert!(whole.is_none());
            let (header, bytes) = fragment(offset, data, more);
            whole = reassembly.add(SimTime::ZERO, &header, &bytes, 0..bytes.len());
        }
        let (header, packet) = whole.expect("nothing is missing");
        assert_eq!(packet[V4_LEN..], [[1; 8].as_slice(), &[2; 8], &[3; 3]].concat());
        assert!(!header.more_fragments && header.fragment_offset == 0);
        assert_eq!((reassembly.bytes, reassembly.failed), (0, 0));
    }

    #[test]
    fn pieces_of_ipv6_packets_fit_together() {
        let header = IpHeader {
            id: 0x1234_5678,
            more_fragments: true,
            ..IpHeader::new("2001:db8::1".parse().unwrap(), "2001:db8::2".parse().unwrap(), 17)
        };
        let mut reassembly = Reassembly::default();
        let last = IpHeader { more_fragments: false, fragment_offset: 8, protocol: 59, ..header };
        assert!(reassembly.add(SimTime::ZERO, &last, &[2; 3], 0..3).is_none());
        let (whole, packet) = reassembly.add(SimTime::ZERO, &header, &[1; 8], 0..8).unwrap();
        assert_eq!((whole.protocol, whole.fragment_offset, packet.len()), (17, 0, 40 + 11));
        assert_eq!(packet[40..], [[1; 8].as_slice(), &[2; 3]].concat());
        assert_eq!(packet[4..7], [0, 11, 17]);
    }

    #[test]
    fn what_stays_incomplete_is_given_up() {
        let mut reassembly = Reassembly::default();
        let (header, bytes) = fragment(0, &[1; 8], true);
        assert!(reassembly.add(SimTime::ZERO, &header, &bytes, 0..8).is_none());
        let (header, bytes) = fragment(8, &[2; 3], false);
        assert!(reassembly.add(SimTime::from_secs(31), &header, &bytes, 0..3).is_none());
        assert_eq!(reassembly.failed, 1);
        let (header, bytes) = fragment(4, &[2; 8], true);
        assert!(reassembly.add(SimTime::from_secs(31), &header, &bytes, 0..8).is_none());
        assert_eq!(reassembly.failed, 2, "overlap");
    }
}
