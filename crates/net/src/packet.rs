use belljar_wire::checksum;

/// State of a packet's transport checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChecksumState {
    /// It is what its bytes say: right or wrong.
    Untested,
    /// It cannot but be right: whoever made the packet has computed it over just these bytes, and nothing has touched
    /// them since.
    Intact,
    /// It is not computed yet, and its field zero, because most packets are read by nobody who looks at it. It would
    /// be right.
    Open,
}

impl ChecksumState {
    /// Computes the transport checksum of the packet that this is known of, if it is open.
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

/// An IP packet on its way: its bytes, from the first byte of the IP header, and who wants to know
/// when they have left the host.
///
/// A packet may be *intact*, so that nobody needs to test its transport checksum, and may even be *open*: its checksum is
/// to be computed by who shows the packet to somebody (Linux's `CHECKSUM_PARTIAL`). Taking or changing its bytes does
/// that. See [`ChecksumState`].
///
/// One that does not leave its host may be several datagrams still: their data at a stretch, behind the headers of one.
///
/// Moving one moves a few words, never the bytes. The buffer is handed in and taken back whole, so
/// that a caller can keep a pool of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packet {
    bytes: Vec<u8>,
    cookie: u64,
    mark: u32,
    checksum: ChecksumState,
    undelivered: bool,
    segment: u16,
}

impl Packet {
    /// A packet of these bytes that nobody waits for.
    pub fn new(bytes: Vec<u8>) -> Packet {
        Packet::with_cookie(bytes, 0)
    }
    /// A packet whose leaving is reported as [`NicEvent::Sent`](crate::NicEvent::Sent) with
    /// `cookie`: a name for its sender. 0 stands for nobody and is never reported.
    pub fn with_cookie(bytes: Vec<u8>, cookie: u64) -> Packet {
        Packet { bytes, cookie, mark: 0, checksum: ChecksumState::Untested, undelivered: false, segment: 0 }
    }
    /// Sets the state of the transport checksum. Only TCP segments and UDP datagrams in IP packets without extension
    /// headers may be open.
    pub fn with_checksum(self, checksum: ChecksumState) -> Packet {
        Packet { checksum, ..self }
    }
    /// Marks the packet as made of datagrams with so many bytes of payload each, the last perhaps with fewer; 0 for one
    /// datagram.
    pub fn with_segment(self, segment: u16) -> Packet {
        Packet { segment, ..self }
    }
    /// Sets the mark (`SO_MARK`), a number that rules of its host may select the packet by. It is no part of the packet and does
    /// not leave the host.
    pub fn with_mark(self, mark: u32) -> Packet {
        Packet { mark, ..self }
    }
    /// Marks the frame as one that comes back to its sender: the medium could not deliver it.
    pub fn undelivered(self) -> Packet {
        Packet { undelivered: true, ..self }
    }
    /// True if it comes back to its sender.
    pub fn is_undelivered(&self) -> bool {
        self.undelivered
    }
    /// The bytes, from the first byte of the IP header. It must not be open: see [`fill_checksum`](Self::fill_checksum).
    pub fn bytes(&self) -> &[u8] {
        debug_assert!(self.checksum != ChecksumState::Open, "bytes of an open packet");
        &self.bytes
    }
    /// The bytes, whether the checksum is open or not: for readers that ignore it.
    pub fn open_bytes(&self) -> &[u8] {
        &self.bytes
    }
    /// State of its transport checksum.
    pub fn checksum(&self) -> ChecksumState {
        self.checksum
    }
    /// Computes its transport checksum, if that is open.
    #[inline]
    pub fn fill_checksum(&mut self) {
        self.checksum.fill(&mut self.bytes);
    }
    /// The payload of each datagram that it is made of, in bytes; 0 if it is one.
    pub fn segment(&self) -> u16 {
        self.segment
    }
    /// Its mark: see [`with_mark`](Self::with_mark).
    pub fn mark(&self) -> u32 {
        self.mark
    }
    /// Gives it another mark.
    pub fn set_mark(&mut self, mark: u32) {
        self.mark = mark;
    }
    /// The bytes, with their checksum, to change them in place: the packet is no longer intact.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        self.fill_checksum();
        self.checksum = ChecksumState::Untested;
        &mut self.bytes
    }
    /// The buffer itself, with its checksum, to be parsed or reused.
    pub fn into_bytes(mut self) -> Vec<u8> {
        self.fill_checksum();
        self.bytes
    }
    /// The buffer with its checksum as it is, open or not: for those who keep track of its state, or ignore it.
    pub fn into_open_bytes(self) -> Vec<u8> {
        self.bytes
    }
    /// The name that its sender gave, or 0.
    pub fn cookie(&self) -> u64 {
        self.cookie
    }
    /// The length of the IP packet in bytes.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }
    /// True if it has no bytes at all.
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

    /// An IP packet of either version and protocol: with its checksum, and without.
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
        assert_eq!(size_of::<Packet>(), size_of::<(Vec<u8>, u64, u64)>());
    }
}
