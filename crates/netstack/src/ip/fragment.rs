//! Reassembly of datagrams (RFC 791, section 3.2; RFC 8200, section 4.5).

use super::IpHeader;
use crate::mib::version;
use belljar_base::SimTime;
use belljar_wire::ipv6;
use std::collections::VecDeque;
use std::net::IpAddr;
use std::ops::Range;

/// Offset of the payload length in an IPv6 header.
const PAYLOAD_LENGTH_AT: u8 = 4;
/// `net.ipv4.ipfrag_high_thresh`: while more than this number of bytes is queued, no reassembly is started.
const MAX_BYTES: usize = 4 << 20;
/// Maximum length of a datagram in bytes, with the IPv4 header.
const MAX_DATAGRAM: usize = 65_535;
/// Bytes of a first fragment stored for the Time Exceeded error.
const QUOTED: usize = ipv6::MIN_MTU;

/// A fragment of a datagram.
#[derive(Debug)]
struct Piece {
    offset: usize,
    data: Vec<u8>,
    /// True if the fragment is not contiguous to the one that was last on its arrival. A fragment within one
    /// run is a duplicate; one across the boundary of a run overlaps.
    begins_run: bool,
}

impl Piece {
    fn end(&self) -> usize {
        self.offset + self.data.len()
    }
}

#[derive(Debug)]
struct Partial {
    key: (IpAddr, IpAddr, u8, u32),
    /// Expiry time of the reassembly.
    until: SimTime,
    /// Header and initial bytes of the first fragment, once received.
    first: Option<(IpHeader, Vec<u8>)>,
    /// Input interface of the last fragment received.
    interface: usize,
    /// Fragments in the order of their offsets.
    pieces: Vec<Piece>,
    bytes: usize,
    /// End of the data received so far, and below it true if that is the end of the datagram.
    end: usize,
    complete: bool,
}

/// Counters of one version of IP: `ReasmFails`, `ReasmTimeout`, `ReasmOverlaps`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct ReassemblyCounters {
    pub failed: u64,
    pub timeouts: u64,
    pub overlaps: u64,
}

/// Result of adding a fragment.
#[derive(Debug)]
pub enum Added {
    /// The fragment is queued: the datagram is incomplete.
    Waits,
    /// The fragment is dropped: a duplicate, or one that ends the reassembly.
    Dropped {
        /// Number of queued fragments dropped with it.
        queued: usize,
    },
    /// The datagram is complete.
    Whole {
        /// The header of the datagram.
        header: IpHeader,
        /// The datagram with that header.
        packet: Vec<u8>,
        /// Number of its fragments.
        fragments: usize,
    },
    /// The fragment is invalid at this offset of the packet, which a Parameter Problem error reports to its
    /// sender (IPv6).
    Wrong(u8),
}

/// A datagram whose reassembly has timed out.
#[derive(Debug)]
pub struct Expired {
    /// Input interface of the last fragment received.
    pub interface: usize,
    /// Initial bytes of the first fragment, as received, for the Time Exceeded error.
    pub first: Option<Vec<u8>>,
    /// Number of the fragments received.
    pub fragments: usize,
}

/// Incomplete datagrams, the oldest first.
#[derive(Debug, Default)]
pub struct Reassembly {
    waiting: VecDeque<Partial>,
    bytes: usize,
    /// Counters, indexed by [`version`].
    pub counters: [ReassemblyCounters; 2],
}

impl Reassembly {
    /// Adds a fragment received on `interface` (`ip_frag_queue`, `ip6_frag_queue` of Linux). `until` is the
    /// expiry time if it starts a reassembly.
    pub fn add(
        &mut self,
        until: SimTime,
        interface: usize,
        header: &IpHeader,
        packet: &[u8],
        payload: Range<usize>,
    ) -> Added {
        let v4 = header.dst.is_ipv4();
        let offset = header.fragment_offset;
        let mut len = payload.len();
        if v4 && header.more_fragments {
            len &= !7;
        } else if !v4 {
            if offset + len > MAX_DATAGRAM {
                return Added::Wrong((payload.start - ipv6::FRAGMENT_LEN + 2) as u8);
            }
            if header.more_fragments && !len.is_multiple_of(8) {
                return Added::Wrong(PAYLOAD_LENGTH_AT);
            }
        }
        // Fragments of one IPv6 packet may differ in their next header; the first fragment's applies.
        let key = (header.src, header.dst, if v4 { header.protocol } else { 0 }, header.id);
        let at = match self.waiting.iter().position(|partial| partial.key == key) {
            Some(at) => at,
            None if self.bytes > MAX_BYTES => {
                self.counters[version(&header.dst)].failed += 1;
                return Added::Dropped { queued: 0 };
            }
            None => {
                self.waiting.push_back(Partial {
                    key,
                    until,
                    first: None,
                    interface,
                    pieces: Vec::new(),
                    bytes: 0,
                    end: 0,
                    complete: false,
                });
                self.waiting.len() - 1
            }
        };
        let end = offset + len;
        let partial = &mut self.waiting[at];
        // A datagram has one end, and no data follows it.
        let contradicts = match header.more_fragments {
            false => end < partial.end || (partial.complete && end != partial.end),
            true => end > partial.end && partial.complete,
        };
        if contradicts || len == 0 {
            return self.give_up(at);
        }
        partial.end = partial.end.max(end);
        partial.complete |= !header.more_fragments;
        let Some((slot, begins_run)) = place(&partial.pieces, offset, end) else {
            self.counters[version(&header.dst)].overlaps += 1;
            return self.give_up(at);
        };
        let Some(slot) = slot else { return Added::Dropped { queued: 0 } };
        let data = packet[payload.start..payload.start + len].to_vec();
        partial.pieces.insert(slot, Piece { offset, data, begins_run });
        partial.bytes += len;
        partial.interface = interface;
        self.bytes += len;
        if offset == 0 {
            partial.first = Some((*header, packet[..payload.end.min(QUOTED)].to_vec()));
        }
        if partial.complete && partial.end == partial.bytes && partial.first.is_some() {
            return self.complete(at);
        }
        Added::Waits
    }

    fn complete(&mut self, at: usize) -> Added {
        let Some(Partial { first: Some((mut header, _)), bytes, pieces, key, .. }) = self.waiting.remove(at)
        else {
            unreachable!("a complete datagram has a first fragment")
        };
        self.bytes -= bytes;
        let len = header.len() + bytes;
        if key.0.is_ipv4() && len > MAX_DATAGRAM {
            self.counters[version(&key.0)].failed += 1;
            return Added::Dropped { queued: pieces.len() - 1 };
        }
        header.more_fragments = false;
        header.fragment_offset = 0;
        let mut packet = Vec::with_capacity(len);
        packet.resize(header.len(), 0);
        pieces.iter().for_each(|piece| packet.extend_from_slice(&piece.data));
        header.emit(&mut packet);
        Added::Whole { header, packet, fragments: pieces.len() }
    }

    /// Ends a reassembly because of a fragment that is not queued.
    fn give_up(&mut self, at: usize) -> Added {
        let Some(partial) = self.waiting.remove(at) else { return Added::Dropped { queued: 0 } };
        self.bytes -= partial.bytes;
        self.counters[version(&partial.key.0)].failed += 1;
        Added::Dropped { queued: partial.pieces.len() }
    }

    /// Number of fragments queued.
    pub fn fragments(&self) -> usize {
        self.waiting.iter().map(|partial| partial.pieces.len()).sum()
    }

    /// The next expiry time of a reassembly.
    pub fn next_timeout(&self) -> Option<SimTime> {
        self.waiting.iter().map(|partial| partial.until).min()
    }

    /// Removes a datagram whose reassembly has timed out; `None` if there is none.
    pub fn expire(&mut self, now: SimTime) -> Option<Expired> {
        let at = self.waiting.iter().position(|partial| partial.until <= now)?;
        let partial = self.waiting.remove(at)?;
        self.bytes -= partial.bytes;
        let counters = &mut self.counters[version(&partial.key.0)];
        counters.failed += 1;
        counters.timeouts += 1;
        let first = partial.first.map(|(_, first)| first);
        Some(Expired { interface: partial.interface, first, fragments: partial.pieces.len() })
    }
}

/// The index at which a fragment is inserted, and true if it begins a run. The index is `None` for a
/// duplicate. The result is `None` for an overlap (RFC 5722, which Linux applies to IPv4 too;
/// `inet_frag_queue_insert`).
fn place(pieces: &[Piece], offset: usize, end: usize) -> Option<(Option<usize>, bool)> {
    let Some(last) = pieces.last() else { return Some((Some(0), true)) };
    if last.end() < end {
        return (offset >= last.end()).then_some((Some(pieces.len()), offset != last.end()));
    }
    let mut from = 0;
    for run in pieces.chunk_by(|_, next| !next.begins_run) {
        let (start, run_end) = (run[0].offset, run[run.len() - 1].end());
        if end <= start {
            break;
        }
        if offset < run_end {
            return (offset >= start && end <= run_end).then_some((None, false));
        }
        from += run.len();
    }
    Some((Some(from), true))
}

#[cfg(test)]
mod tests {
    use super::super::header::V4_LEN;
    use super::*;
    use belljar_base::SimDuration;

    fn fragment(offset: usize, data: &[u8], more: bool) -> (IpHeader, Vec<u8>) {
        let header = IpHeader {
            id: 9,
            more_fragments: more,
            fragment_offset: offset,
            ..IpHeader::new([1, 0, 0, 1].into(), [1, 0, 0, 2].into(), 17)
        };
        (header, data.to_vec())
    }

    fn add(
        reassembly: &mut Reassembly,
        at: SimTime,
        offset: usize,
        data: &[u8],
        more: bool,
    ) -> Option<Vec<u8>> {
        let (header, bytes) = fragment(offset, data, more);
        match reassembly.add(at + SimDuration::from_secs(30), 1, &header, &bytes, 0..bytes.len()) {
            Added::Whole { header, packet, .. } => {
                assert!(!header.more_fragments && header.fragment_offset == 0);
                Some(packet[V4_LEN..].to_vec())
            }
            Added::Waits | Added::Dropped { .. } => None,
            Added::Wrong(at) => panic!("wrong at {at}"),
        }
    }

    #[test]
    fn pieces_in_any_order_make_the_whole() {
        let mut reassembly = Reassembly::default();
        let mut whole = None;
        for (offset, data, more) in [(16, &[3u8; 3][..], false), (0, &[1; 8], true), (8, &[2; 8], true)] {
            assert!(whole.is_none());
            whole = add(&mut reassembly, SimTime::ZERO, offset, data, more);
        }
        assert_eq!(whole, Some([[1; 8].as_slice(), &[2; 8], &[3; 3]].concat()));
        assert_eq!((reassembly.bytes, reassembly.counters, reassembly.next_timeout()), Default::default());
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
        assert!(matches!(reassembly.add(SimTime::ZERO, 1, &last, &[2; 3], 0..3), Added::Waits));
        let added = reassembly.add(SimTime::ZERO, 1, &header, &[1; 8], 0..8);
        let Added::Whole { header: whole, packet, fragments: 2 } = added else {
            panic!("nothing is missing")
        };
        assert_eq!((whole.protocol, whole.fragment_offset, packet.len()), (17, 0, 40 + 11));
        assert_eq!(packet[40..], [[1; 8].as_slice(), &[2; 3]].concat());
        assert_eq!(packet[4..7], [0, 11, 17]);
        // A fragment other than the last must end at a multiple of eight bytes.
        assert!(matches!(reassembly.add(SimTime::ZERO, 1, &header, &[1; 9], 0..9), Added::Wrong(4)));
    }

    #[test]
    fn what_stays_incomplete_is_given_up_and_told_of() {
        let mut reassembly = Reassembly::default();
        assert_eq!(add(&mut reassembly, SimTime::from_secs(1), 0, &[1; 8], true), None);
        assert_eq!(reassembly.next_timeout(), Some(SimTime::from_secs(31)));
        assert!(reassembly.expire(SimTime::from_secs(30)).is_none());
        let expired = reassembly.expire(SimTime::from_secs(31)).expect("its time is up");
        assert_eq!((expired.interface, expired.first, expired.fragments), (1, Some(vec![1; 8]), 1));
        assert_eq!(add(&mut reassembly, SimTime::from_secs(31), 8, &[2; 3], false), None);
        let expired = reassembly.expire(SimTime::from_secs(61)).expect("its time is up");
        assert_eq!((expired.first, expired.fragments), (None, 1), "no error is sent");
        let counted = ReassemblyCounters { failed: 2, timeouts: 2, overlaps: 0 };
        assert_eq!((reassembly.counters[0], reassembly.bytes), (counted, 0));
    }

    #[test]
    fn copies_are_ignored_and_overlaps_end_all() {
        let mut reassembly = Reassembly::default();
        let mut add = |offset, len: usize, more| {
            add(&mut reassembly, SimTime::ZERO, offset, &vec![1; len], more).map(|whole| whole.len())
        };
        assert_eq!(add(0, 16, true), None);
        assert_eq!(add(16, 16, true), None);
        assert_eq!(add(8, 16, true), None, "a copy of parts of a run");
        assert_eq!(add(0, 16, true), None);
        assert_eq!(add(32, 4, false), Some(36));
        assert_eq!(add(0, 16, true), None);
        assert_eq!(add(8, 16, true), None, "it goes over the end");
        assert_eq!(add(16, 8, false), None, "there is nothing left to complete");
        assert_eq!(reassembly.counters[0], ReassemblyCounters { failed: 1, timeouts: 0, overlaps: 1 });
    }

    #[test]
    fn there_is_one_end() {
        let mut reassembly = Reassembly::default();
        for (offset, more) in [(8, false), (16, true), (8, false), (0, false), (8, true)] {
            assert_eq!(add(&mut reassembly, SimTime::ZERO, offset, &[1; 8], more), None);
        }
        // (16, true) lies behind the end, and (0, false) implies another end.
        assert_eq!(reassembly.counters[0].failed, 2);
    }
}
