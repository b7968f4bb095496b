//! Classic explicit congestion notification (RFC 3168).

use crate::connection::Connection;
use crate::recovery::Phase;
use crate::sender::Sender;
use crate::{Ecn, EcnPolicy, Flags, Repr, State};

/// ECN state of a connection, in both directions.
#[derive(Clone, Debug, Default)]
pub(crate) struct EcnState {
    /// True if both endpoints have agreed to use ECN.
    pub enabled: bool,
    /// True if the peer has sent a packet with an ECN codepoint.
    pub seen: bool,
    /// True if a mark was received. Every segment carries ECE until the peer answers with CWR.
    echoing: bool,
    /// True if the window was reduced. The next new data segment carries CWR.
    announce: bool,
    /// True if the last data segment was marked (DCTCP.CE of RFC 8257).
    marked: bool,
}

impl EcnState {
    /// True if an ACK reports that our segments were marked.
    pub(crate) fn echoes_mark(&self, segment: &Repr) -> bool {
        self.enabled && segment.has(Flags::ECE) && !segment.has(Flags::SYN)
    }

    /// Queues a CWR after a reduction of the window.
    pub(crate) fn queue_cwr(&mut self) {
        self.announce = self.enabled;
    }

    /// Withdraws the CWR of a reduction that was undone before its announcement.
    pub(crate) fn withdraw_cwr(&mut self) {
        self.announce = false;
    }
}

impl Sender {
    /// The ECN flags of our SYN, which request ECN, or of our SYN-ACK, which accept it.
    pub(crate) fn ecn_handshake_flags(&self, is_reply: bool) -> Flags {
        match self.config.ecn {
            _ if is_reply && self.ecn.enabled => Flags::ECE,
            // RFC 3168, section 6.1.1.1: the flags may be the reason for which a SYN was lost.
            _ if !is_reply && self.asks_for_ecn() && self.recovery.timeouts == 0 => Flags::ECE | Flags::CWR,
            _ => Flags::empty(),
        }
    }

    fn asks_for_ecn(&self) -> bool {
        self.config.ecn == EcnPolicy::Ask || self.congestion.needs_ecn()
    }

    /// Processes an echoed mark: once per window it counts as a loss (RFC 3168, section 6.1.2).
    pub(crate) fn on_mark_echoed(&mut self) {
        if self.recovery.phase < Phase::Reduced {
            self.enter_reduced();
        }
    }

    /// ECN flags and codepoint of a segment. Retransmissions (RFC 3168, section 6.1.5) and pure ACKs (section
    /// 6.1.4) must not be marked by routers, so they are sent as Not-ECT.
    pub(crate) fn ecn_of_segment(&mut self, new_data: bool) -> (Flags, Ecn) {
        if !self.ecn.enabled {
            return (Flags::empty(), Ecn::NotEct);
        }
        let mut flags = Flags::empty();
        flags.set(Flags::ECE, self.ecn.echoing);
        if !new_data {
            let ecn = if self.congestion.needs_ecn() { Ecn::Ect0 } else { Ecn::NotEct };
            return (flags, ecn);
        }
        flags.set(Flags::CWR, std::mem::take(&mut self.ecn.announce));
        (flags, Ecn::Ect0)
    }
}

impl Connection {
    /// Evaluates the flags of the peer's SYN or SYN-ACK. RFC 3168, section 6.1.1: a SYN requests ECN with ECE
    /// and CWR, a SYN-ACK accepts it with ECE alone.
    pub(crate) fn negotiate_ecn(&mut self, syn: &Repr) {
        let asked = (syn.has(Flags::ECE), syn.has(Flags::CWR));
        self.tx.ecn.enabled = match self.state {
            State::SynSent if syn.has(Flags::ACK) => self.tx.asks_for_ecn() && asked == (true, false),
            _ => {
                let may = self.tx.config.ecn != EcnPolicy::Never || self.tx.congestion.needs_ecn();
                may && asked == (true, true)
            }
        };
    }

    /// Processes the codepoint and CWR flag of a data segment. "The TCP data receiver sets the ECN-Echo flag
    /// in each ACK until it receives a CWR packet."
    pub(crate) fn on_data_ecn(&mut self, segment: &Repr, codepoint: Ecn) {
        if !self.tx.ecn.enabled {
            return;
        }
        if segment.has(Flags::CWR) {
            self.tx.ecn.echoing = false;
            // Linux: immediate ACK, since a sender with a window of one segment would wait for a delayed one.
            self.pending.ack = true;
        }
        if self.tx.congestion.needs_ecn() {
            return self.echo_exactly(codepoint == Ecn::Ce);
        }
        match codepoint {
            Ecn::Ce => {
                if !self.tx.ecn.echoing {
                    self.delack.enter_quick_for(2);
                    self.tx.ecn.echoing = true;
                }
                self.tx.ecn.seen = true;
            }
            Ecn::NotEct if self.tx.ecn.seen => self.delack.enter_quick_for(2),
            Ecn::NotEct => {}
            Ecn::Ect0 | Ecn::Ect1 => self.tx.ecn.seen = true,
        }
    }

    /// Makes every ACK state whether the segments that it covers were marked (RFC 8257, section 3.2). "When
    /// receiving packets, the CE codepoint MUST be processed as follows: If the CE codepoint is set and
    /// DCTCP.CE is false, set DCTCP.CE to true and send an immediate ACK." The converse holds for an unmarked
    /// segment.
    fn echo_exactly(&mut self, marked: bool) {
        self.tx.ecn.seen = true;
        if marked != self.tx.ecn.marked {
            if self.timers.delayed_ack.is_some() && self.delack.scheduled {
                self.pending.earlier_ack = Some((self.rcv.nxt, self.tx.ecn.marked));
            }
            self.pending.ack = true;
            self.tx.ecn.marked = marked;
        }
        self.tx.ecn.echoing = marked;
    }
}
