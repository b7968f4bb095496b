/// An IP packet on its way: its bytes, from the first byte of the IP header, and who wants to know
/// when they have left the host.
///
/// A packet may be *intact*: whoever made it has computed its transport checksum over just these bytes, and
/// nothing has touched them since, so that nobody needs to test what must come out right. The checksum itself is
/// always there.
///
/// One that does not leave its host may be several datagrams still: their data at a stretch, behind the headers of one.
///
/// Moving one moves a few words, never the bytes. The buffer is handed in and taken back whole, so
/// that a caller can keep a pool of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packet {
    bytes: Vec<u8>,
    cookie: u64,
    intact: bool,
    segment: u16,
}

impl Packet {
    /// A packet of these bytes that nobody waits for.
    pub fn new(bytes: Vec<u8>) -> Packet {
        Packet { bytes, cookie: 0, intact: false, segment: 0 }
    }
    /// A packet whose leaving is reported as [`NicEvent::Sent`](crate::NicEvent::Sent) with
    /// `cookie`: a name for its sender. 0 stands for nobody and is never reported.
    pub fn with_cookie(bytes: Vec<u8>, cookie: u64) -> Packet {
        Packet { bytes, cookie, intact: false, segment: 0 }
    }
    /// The same, intact if `intact`.
    pub fn with_intact(self, intact: bool) -> Packet {
        Packet { intact, ..self }
    }
    /// The same, made of datagrams with so many bytes of payload each, the last perhaps with fewer; 0 for one datagram.
    pub fn with_segment(self, segment: u16) -> Packet {
        Packet { segment, ..self }
    }
    /// The bytes, from the first byte of the IP header.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }
    /// Whether its transport checksum cannot but be right.
    pub fn is_intact(&self) -> bool {
        self.intact
    }
    /// The payload of each datagram that it is made of, in bytes; 0 if it is one.
    pub fn segment(&self) -> u16 {
        self.segment
    }
    /// The bytes, to change them in place: the packet is no longer intact.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        self.intact = false;
        &mut self.bytes
    }
    /// The buffer itself, to be parsed or reused.
    pub fn into_bytes(self) -> Vec<u8> {
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
    /// Whether it has no bytes at all.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_is_intact_until_something_may_have_changed_it() {
        let mut packet = Packet::with_cookie(vec![1, 2], 3).with_intact(true);
        assert!(packet.is_intact() && packet.clone().is_intact() && packet.cookie() == 3);
        packet.bytes_mut();
        assert!(!packet.is_intact() && !Packet::new(Vec::new()).is_intact());
    }
}
