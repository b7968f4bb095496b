/// An IP packet on its way: its bytes, from the first byte of the IP header, and who wants to know
/// when they have left the host.
///
/// Moving one moves four words, never the bytes. The buffer is handed in and taken back whole, so
/// that a caller can keep a pool of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packet {
    bytes: Vec<u8>,
    cookie: u64,
}

impl Packet {
    /// A packet of these bytes that nobody waits for.
    pub fn new(bytes: Vec<u8>) -> Packet {
        Packet { bytes, cookie: 0 }
    }
    /// A packet whose leaving is reported as [`NicEvent::Sent`](crate::NicEvent::Sent) with
    /// `cookie`: a name for its sender. 0 stands for nobody and is never reported.
    pub fn with_cookie(bytes: Vec<u8>, cookie: u64) -> Packet {
        Packet { bytes, cookie }
    }
    /// The bytes, from the first byte of the IP header.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }
    /// The bytes, to change them in place (ECN marks, TTL).
    pub fn bytes_mut(&mut self) -> &mut [u8] {
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
