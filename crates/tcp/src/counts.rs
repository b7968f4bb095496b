//! Counters that Linux keeps for all connections together, for `/proc/net/netstat`.

use crate::connection::Connection;

/// Makes the events and their names in the columns of Linux from one list.
macro_rules! counted {
    ($($(#[$doc:meta])* $event:ident = $name:literal,)*) => {
        /// Something that is counted, by Linux's name for it (`LINUX_MIB_*`).
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Counted { $($(#[$doc])* $event,)* }
        /// The names of the counters in `/proc/net/netstat`, in the order of [`Counts`].
        pub const COUNT_NAMES: &[&str] = &[$($name,)*];
    };
}

counted! {
    /// A delayed ACK's time was over.
    DelayedAck = "DelayedACKs",
    /// A segment was older than one before, by its timestamp.
    Paws = "PAWSEstab",
    RenoRecovery = "TCPRenoRecovery",
    SackRecovery = "TCPSackRecovery",
    /// A recovery proved needless: when all was acknowledged, before, by D-SACKs, after a timeout.
    FullUndo = "TCPFullUndo",
    PartialUndo = "TCPPartialUndo",
    DsackUndo = "TCPDSACKUndo",
    LossUndo = "TCPLossUndo",
    /// F-RTO found a timeout spurious.
    SpuriousTimeout = "TCPSpuriousRTOs",
    FastRetransmission = "TCPFastRetrans",
    SlowStartRetransmission = "TCPSlowStartRetrans",
    LossProbe = "TCPLossProbes",
    LossProbeRecovery = "TCPLossProbeRecovery",
    /// The first timeout came in recovery, after another one, or with something selectively acknowledged.
    RenoRecoveryFail = "TCPRenoRecoveryFail",
    SackRecoveryFail = "TCPSackRecoveryFail",
    LossFailure = "TCPLossFailures",
    RenoFailure = "TCPRenoFailures",
    SackFailure = "TCPSackFailures",
    DsackReceived = "TCPDSACKRecv",
    DsackOutOfOrderReceived = "TCPDSACKOfoRecv",
    /// Closed with data that nobody had read.
    AbortOnClose = "TCPAbortOnClose",
    AbortOnTimeout = "TCPAbortOnTimeout",
    ChallengeAck = "TCPChallengeACK",
    HandshakeRetransmission = "TCPSynRetrans",
    OriginalSent = "TCPOrigDataSent",
    Delivered = "TCPDelivered",
    WindowProbe = "TCPWinProbe",
    KeepaliveProbe = "TCPKeepAlive",
    MtuProbeFail = "TCPMTUPFail",
    MtuProbeSuccess = "TCPMTUPSuccess",
    /// TIME-WAIT, or FIN-WAIT-2 without an owner, is over.
    TimeWait = "TW",
}

/// Number of counters.
pub const COUNTS: usize = COUNT_NAMES.len();

/// Counts since the last [`add_counts`](Connection::add_counts).
#[derive(Clone, Debug, Default)]
pub(crate) struct Tally {
    counts: [u32; COUNTS],
    /// Bits of the counters that are not 0.
    changed: u32,
}

const _: () = assert!(COUNTS <= u32::BITS as usize);

impl Tally {
    pub(crate) fn is_empty(&self) -> bool {
        self.changed == 0
    }
}

impl Connection {
    pub(crate) fn count(&mut self, event: Counted) {
        self.count_more(event, 1);
    }

    pub(crate) fn count_more(&mut self, event: Counted, n: u32) {
        self.tally.counts[event as usize] += n;
        self.tally.changed |= u32::from(n > 0) << event as u32;
    }

    /// Adds what has happened since the last call: how often each event of [`COUNT_NAMES`] has.
    pub fn add_counts(&mut self, totals: &mut [u64; COUNTS]) {
        while self.tally.changed != 0 {
            let event = self.tally.changed.trailing_zeros() as usize;
            self.tally.changed &= self.tally.changed - 1;
            totals[event] += u64::from(std::mem::take(&mut self.tally.counts[event]));
        }
    }
}
