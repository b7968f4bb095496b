use crate::phv::Phv;
use belljar_base::SimTime;

/// A packet in the switch.
#[derive(Clone, Debug, Default)]
pub(crate) struct Packet {
    pub phv: Phv,
    /// Bytes as they came in, or as the deparser wrote them.
    pub data: Vec<u8>,
    /// Bytes that the parser has consumed: what follows is the payload.
    pub parsed: usize,
    pub ingress_port: u16,
    /// Bytes with which it came in, for counters and meters.
    pub ingress_len: u32,
    /// Bytes with its present headers.
    pub len: u32,
    /// Times that it went through ingress or egress, those of the packets that it is a copy of included.
    pub passes: u32,
    /// Number of the packet that it, or the one it is a copy of, came in as.
    pub id: u64,
    pub clone: Option<(u16, u16)>,
    pub digest: u16,
    pub resubmit: u16,
    pub recirculate: u16,
    pub truncate: Option<u32>,
    pub exit: bool,
    /// An assertion failed.
    pub failed: bool,
    pub error: u32,
    pub checksum_error: bool,
    pub enqueued: SimTime,
    pub timestamp: SimTime,
}

impl Packet {
    /// Forgets what primitives asked for.
    pub fn clear_requests(&mut self) {
        self.clone = None;
        self.digest = 0;
        self.resubmit = 0;
        self.recirculate = 0;
        self.truncate = None;
        self.exit = false;
        self.failed = false;
    }
    /// Forgets what ingress asked for, but for a truncation.
    pub fn end_ingress(&mut self) {
        let truncate = self.truncate;
        self.clear_requests();
        self.truncate = truncate;
    }
}
