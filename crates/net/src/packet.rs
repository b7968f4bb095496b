use belljar_wire::checksum;

/// State of a packet's transport checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChecksumState {
    /// The checksum field may be right or wrong.
    Untested,
    /// The checksum is right: it was computed over exactly these bytes, which have not changed since.
    Intact,
    /// The checksum has not been computed, and its field is zero; it would be right. This saves the
    /// computation for packets whose checksum is never read.
    Open,
}

impl ChecksumState {
    /// Computes the transport checksum of the packet with this state, if it is open.
    #[inline]
    pub fn fill(&mut self, packet: &mut [u8]) {
        if *self == ChecksumState::Open {
            self.close(packet);
        }
    }
    #[cold]
    #[inline(never)]
    fn close(&mut self, packet: &mut [u8]) {
        checksum::fill_transport(packet);
        *self = ChecksumState::Intact;
    }
}

/// IP packet in flight: its bytes from the start of the IP header, and a cookie of its sender for the
/// report of its departure.
///
/// A packet can be *intact*, so that its transport checksum need not be verified, or even *open*: its
/// checksum is computed only before the packet is exposed to a reader (Linux's `CHECKSUM_PARTIAL`). Taking
/// or changing its bytes computes it. See [`ChecksumState`].
///
/// A packet that does not leave its host may contain several datagrams: their payloads concatenated, after
/// the headers of one.
///
/// Moving a packet moves a few words, never the bytes. The buffer is passed in and returned whole, so that
/// a caller can keep a pool of buffers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packet {
    bytes: Vec<u8>,
    cookie: u64,
    mark: u32,
    checksum: ChecksumState,
    undelivered: bool,
    segment: u16,
    tracking: u64,
}

impl Packet {
    /// Creates a packet of these bytes, without a cookie.
    pub fn new(bytes: Vec<u8>) -> Packet {
        Packet::with_cookie(bytes, 0)
    }
    /// Creates a packet whose departure is reported as [`NicEvent::Sent`](crate::NicEvent::Sent) with
    /// `cookie`, which identifies it to its sender. The cookie 0 is never reported.
    pub fn with_cookie(bytes: Vec<u8>, cookie: u64) -> Packet {
        let checksum = ChecksumState::Untested;
        Packet { bytes, cookie, mark: 0, checksum, undelivered: false, segment: 0, tracking: 0 }
    }
    /// Sets the state of the transport checksum. Only TCP segments and UDP datagrams in IP packets without
    /// extension headers may be open.
    pub fn with_checksum(self, checksum: ChecksumState) -> Packet {
        Packet { checksum, ..self }
    }
    /// Marks the packet as a concatenation of datagrams with this payload length in bytes each, except for
    /// a shorter last one; 0 for a single datagram.
    pub fn with_segment(self, segment: u16) -> Packet {
        Packet { segment, ..self }
    }
    /// Sets the mark (`SO_MARK`), by which rules of the host can select the packet. The mark is not part of the
    /// packet's bytes and does not leave the host.
    pub fn with_mark(self, mark: u32) -> Packet {
        Packet { mark, ..self }
    }
    /// Sets the attachment of connection tracking, 0 for none: it accompanies the packet from hook to hook within
    /// its host.
    pub fn with_tracking(self, tracking: u64) -> Packet {
        Packet { tracking, ..self }
    }
    /// Attachment of connection tracking; see [`with_tracking`](Self::with_tracking).
    pub fn tracking(&self) -> u64 {
        self.tracking
    }
    /// Changes the attachment of connection tracking.
    pub fn set_tracking(&mut self, tracking: u64) {
        self.tracking = tracking;
    }
    /// Marks the frame as returned to its sender, because the medium could not deliver it.
    pub fn undelivered(self) -> Packet {
        Packet { undelivered: true, ..self }
    }
    /// True if the frame is returned to its sender as undelivered.
    pub fn is_undelivered(&self) -> bool {
        self.undelivered
    }
    /// Returns the bytes, from the start of the IP header. The packet must not be open: see
    /// [`fill_checksum`](Self::fill_checksum).
    pub fn bytes(&self) -> &[u8] {
        debug_assert!(self.checksum != ChecksumState::Open, "bytes of an open packet");
        &self.bytes
    }
    /// Returns the bytes, with an open checksum left open: for readers that ignore it.
    pub fn open_bytes(&self) -> &[u8] {
        &self.bytes
    }
    /// State of the transport checksum.
    pub fn checksum(&self) -> ChecksumState {
        self.checksum
    }
    /// Computes the transport checksum, if it is open.
    #[inline]
    pub fn fill_checksum(&mut self) {
        self.checksum.fill(&mut self.bytes);
    }
    /// Payload length of each contained datagram in bytes; 0 for a single datagram.
    pub fn segment(&self) -> u16 {
        self.segment
    }
    /// Mark of the packet; see [`with_mark`](Self::with_mark).
    pub fn mark(&self) -> u32 {
        self.mark
    }
    /// Changes the mark.
    pub fn set_mark(&mut self, mark: u32) {
        self.mark = mark;
    }
    /// Returns the bytes for changes in place, with the checksum computed. The packet is no longer intact.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        self.fill_checksum();
        self.checksum = ChecksumState::Untested;
        &mut self.bytes
    }
    /// Returns the buffer for changes that may change its length, with the checksum computed. The packet is no
    /// longer intact.
    pub fn buffer_mut(&mut self) -> &mut Vec<u8> {
        self.fill_checksum();
        self.checksum = ChecksumState::Untested;
        &mut self.bytes
    }
    /// Sets the state of the transport checksum again after a change that has kept the checksum right.
    pub fn restore_checksum(&mut self, checksum: ChecksumState) {
        self.checksum = match checksum {
            ChecksumState::Open => ChecksumState::Intact,
            other => other,
        };
    }
    /// Returns the buffer, with the checksum computed, for parsing or reuse.
    pub fn into_bytes(mut self) -> Vec<u8> {
        self.fill_checksum();
        self.bytes
    }
    /// Returns the buffer with the checksum left as it is, possibly open: for callers that track its state
    /// or ignore it.
    pub fn into_open_bytes(self) -> Vec<u8> {
        self.bytes
    }
    /// Cookie given by the sender, or 0.
    pub fn cookie(&self) -> u64 {
        self.cookie
    }
    /// Length of the packet in bytes.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }
    /// True if the packet has no bytes.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use belljar_wire::{ipv4, ipv6, protocol, tcp, udp};
    use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

    #[test]
    fn a_packet_is_intact_until_something_may_have_changed_it() {
        let mut packet = Packet::with_cookie(vec![1, 2], 3).with_checksum(ChecksumState::Intact);
        assert_eq!((packet.checksum(), packet.cookie()), (ChecksumState::Intact, 3));
        packet.fill_checksum();
        assert_eq!((packet.checksum(), packet.bytes()), (ChecksumState::Intact, &[1, 2][..]));
        packet.bytes_mut();
        assert_eq!(packet.checksum(), ChecksumState::Untested);
        assert_eq!(Packet::new(Vec::new()).checksum(), ChecksumState::Untested);
    }

    /// Returns an IP packet of a version and protocol, with its checksum and without it.
    fn both(v6: bool, number: u8) -> (Vec<u8>, Vec<u8>) {
        let (src, dst): (IpAddr, IpAddr) = match v6 {
            false => (Ipv4Addr::new(11, 0, 0, 1).into(), Ipv4Addr::new(11, 0, 0, 2).into()),
            true => (Ipv6Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()),
        };
        let mut segment = Vec::new();
        match number {
            protocol::TCP => tcp::Repr::default().append(src, dst, (b"some ", b"bytes"), &mut segment),
            _ => udp::Repr::append((src, 1), (dst, 2), b"datagram", &mut segment),
        }
        let mut packet = vec![0; if v6 { ipv6::HEADER_LEN } else { ipv4::HEADER_LEN }];
        match (src, dst) {
            (IpAddr::V4(src), IpAddr::V4(dst)) => {
                ipv4::Repr::new(src, dst, number, segment.len()).emit(&mut packet);
            }
            (IpAddr::V6(src), IpAddr::V6(dst)) => {
                let (next_header, payload_len) = (number, segment.len());
                let (hop_limit, traffic_class, flow_label) = (64, 0, 0);
                ipv6::Repr { src, dst, next_header, payload_len, hop_limit, traffic_class, flow_label }
                    .emit(&mut packet);
            }
            _ => unreachable!(),
        }
        let at = packet.len() + if number == protocol::TCP { 16 } else { 6 };
        packet.extend(segment);
        let mut open = packet.clone();
        open[at..at + 2].fill(0);
        assert_ne!(open, packet);
        (packet, open)
    }

    #[test]
    fn whoever_takes_the_bytes_of_an_open_packet_finds_its_checksum() {
        for (v6, number) in
            [false, true].into_iter().flat_map(|v6| [(v6, protocol::TCP), (v6, protocol::UDP)])
        {
            let (right, open) = both(v6, number);
            let packet = || Packet::with_cookie(open.clone(), 7).with_checksum(ChecksumState::Open);
            assert_eq!(packet().open_bytes(), open);
            assert_eq!(packet().into_open_bytes(), open);
            assert_eq!(packet().into_bytes(), right);
            let mut filled = packet();
            filled.fill_checksum();
            assert_eq!((filled.bytes(), filled.checksum()), (&right[..], ChecksumState::Intact));
            assert_eq!(filled.cookie(), 7);
            let mut changed = packet();
            assert_eq!(changed.bytes_mut(), right);
            assert_eq!((changed.bytes(), changed.checksum()), (&right[..], ChecksumState::Untested));
        }
    }

    #[test]
    #[cfg(debug_assertions)]
    #[should_panic(expected = "bytes of an open packet")]
    fn the_bytes_of_an_open_packet_are_not_read_unawares() {
        Packet::new(both(false, protocol::UDP).1).with_checksum(ChecksumState::Open).bytes();
    }

    #[test]
    fn what_is_known_of_the_checksum_takes_no_room() {
        // The buffer, the cookie, the mark with the checksum's state, and the attachment of connection tracking.
        assert_eq!(size_of::<Packet>(), size_of::<(Vec<u8>, u64, u64, u64)>());
    }
}
