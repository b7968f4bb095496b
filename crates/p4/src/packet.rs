use crate::phv::Phv;
use belljar_base::SimTime;

/// Packet in the switch.
#[derive(Clone, Debug, Default)]
pub(crate) struct Packet {
    pub phv: Phv,
    /// Bytes as received, or as written by the deparser.
    pub data: Vec<u8>,
    /// Bytes consumed by the parser; the payload follows.
    pub parsed: usize,
    pub ingress_port: u16,
    /// Length on arrival in bytes, for counters and meters.
    pub ingress_len: u32,
    /// Length with the current headers in bytes.
    pub len: u32,
    /// Number of passes through ingress or egress, including those of the packet's originals.
    pub passes: u32,
    /// Arrival number of the packet or of its original.
    pub id: u64,
    pub clone: Option<(u16, u16)>,
    pub digest: u16,
    pub resubmit: u16,
    pub recirculate: u16,
    pub truncate: Option<u32>,
    pub exit: bool,
    /// True after a failed assertion.
    pub failed: bool,
    pub error: u32,
    pub checksum_error: bool,
    pub enqueued: SimTime,
    pub timestamp: SimTime,
}

impl Packet {
    /// Clears the requests of primitives.
    pub fn clear_requests(&mut self) {
        self.clone = None;
        self.digest = 0;
        self.resubmit = 0;
        self.recirculate = 0;
        self.truncate = None;
        self.exit = false;
        self.failed = false;
    }
    /// Clears the requests of ingress except truncation.
    pub fn end_ingress(&mut self) {
        let truncate = self.truncate;
        self.clear_requests();
        self.truncate = truncate;
    }
}
