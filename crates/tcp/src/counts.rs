//! Event counters that Linux keeps across all connections and shows in `/proc/net/netstat`.

use crate::connection::Connection;

/// Defines the events and their Linux column names from one list.
macro_rules! counted {
    ($($(#[$doc:meta])* $event:ident = $name:literal,)*) => {
        /// Counted event, by Linux's name for it (`LINUX_MIB_*`).
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Counted { $($(#[$doc])* $event,)* }
        /// Names of the counters in `/proc/net/netstat`, in the order of [`Counts`].
        pub const COUNT_NAMES: &[&str] = &[$($name,)*];
    };
}

counted! {
    /// The delayed-ACK timer expired.
    DelayedAck = "DelayedACKs",
    /// A segment's timestamp was older than that of an earlier segment.
    Paws = "PAWSEstab",
    RenoRecovery = "TCPRenoRecovery",
    SackRecovery = "TCPSackRecovery",
    /// A recovery proved spurious: at its end (`FullUndo`), by a partial ACK, by D-SACKs, or after a timeout.
    FullUndo = "TCPFullUndo",
    PartialUndo = "TCPPartialUndo",
    DsackUndo = "TCPDSACKUndo",
    LossUndo = "TCPLossUndo",
    /// F-RTO detected a spurious timeout.
    SpuriousTimeout = "TCPSpuriousRTOs",
    FastRetransmission = "TCPFastRetrans",
    SlowStartRetransmission = "TCPSlowStartRetrans",
    LossProbe = "TCPLossProbes",
    LossProbeRecovery = "TCPLossProbeRecovery",
    /// The first timeout occurred in recovery, after another timeout, or with segments selectively
    /// acknowledged.
    RenoRecoveryFail = "TCPRenoRecoveryFail",
    SackRecoveryFail = "TCPSackRecoveryFail",
    LossFailure = "TCPLossFailures",
    RenoFailure = "TCPRenoFailures",
    SackFailure = "TCPSackFailures",
    DsackReceived = "TCPDSACKRecv",
    DsackOutOfOrderReceived = "TCPDSACKOfoRecv",
    /// The connection was closed with unread data.
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
    /// TIME-WAIT, or an orphan's FIN-WAIT-2, ended.
    TimeWait = "TW",
}

/// Number of counters.
pub const COUNTS: usize = COUNT_NAMES.len();

/// Counts since the last [`add_counts`](Connection::add_counts).
#[derive(Clone, Debug, Default)]
pub(crate) struct Tally {
    counts: [u32; COUNTS],
    /// Bit set of the counters that are not 0.
    changed: u32,
}

const _: () = assert!(COUNTS <= u32::BITS as usize);

impl Tally {
    pub(crate) fn is_empty(&self) -> bool {
        self.changed == 0
    }

    pub(crate) fn count(&mut self, event: Counted) {
        self.count_more(event, 1);
    }

    pub(crate) fn count_more(&mut self, event: Counted, n: u32) {
        self.counts[event as usize] += n;
        self.changed |= u32::from(n > 0) << event as u32;
    }
}

impl Connection {
    /// Adds the occurrences of each event of [`COUNT_NAMES`] since the last call to `totals`.
    pub fn add_counts(&mut self, totals: &mut [u64; COUNTS]) {
        let tally = &mut self.tx.tally;
        while tally.changed != 0 {
            let event = tally.changed.trailing_zeros() as usize;
            tally.changed &= tally.changed - 1;
            totals[event] += u64::from(std::mem::take(&mut tally.counts[event]));
        }
    }
}
