//! Single connection against hand-made segments.

use super::util::address;
use crate::{Config, Connection, Disposition, Ecn, Flags, Repr, Seq, State};
use belljar_base::{SimDuration, SimTime};
use belljar_wire::tcp::{Options, Packet, Timestamps};

/// Initial sequence numbers of the connection and of its peer.
pub(crate) const OURS: u32 = 1000;
pub(crate) const PEERS: u32 = 50_000;

pub(crate) struct Solo {
    pub tcp: Connection,
    pub now: SimTime,
    /// Timestamp clock of the peer; `None` if it sends no timestamps.
    pub stamp: Option<u32>,
}

impl Solo {
    /// Connection in SYN-SENT whose SYN has been taken.
    pub(crate) fn connecting(config: Config) -> Solo {
        let tcp = Connection::connect(config, address(0), address(1), OURS, SimTime::ZERO);
        let mut solo = Solo { tcp, now: SimTime::ZERO, stamp: None };
        let syn = solo.sent();
        assert_eq!(syn.len(), 1);
        assert_eq!(syn[0].0.flags, Flags::SYN);
        solo
    }

    /// Connection in ESTABLISHED after a round trip of 10 ms, with a peer that supports only the MSS option.
    pub(crate) fn plain() -> Solo {
        let mut solo = Solo::connecting(Config::default());
        solo.now += SimDuration::from_millis(10);
        let mut syn_ack = solo.segment(Flags::SYN | Flags::ACK, PEERS, OURS + 1);
        syn_ack.options.mss = Some(1460);
        solo.feed(&syn_ack, b"");
        assert_eq!(solo.tcp.state(), State::Established);
        assert_eq!(solo.sent().len(), 1);
        solo
    }

    /// Connection in ESTABLISHED after 10 ms with timestamps, SACK and window scaling by 7.
    pub(crate) fn modern() -> Solo {
        Solo::modern_after(SimDuration::from_millis(10))
    }

    /// As [`modern`](Self::modern), with this round-trip time.
    pub(crate) fn modern_after(rtt: SimDuration) -> Solo {
        let mut solo = Solo::connecting(Config::default());
        solo.now += rtt;
        solo.stamp = Some(700);
        let mut syn_ack = solo.segment(Flags::SYN | Flags::ACK, PEERS, OURS + 1);
        syn_ack.options.mss = Some(1460);
        syn_ack.options.sack_permitted = true;
        syn_ack.options.window_scale = Some(7);
        solo.feed(&syn_ack, b"");
        assert_eq!(solo.tcp.state(), State::Established);
        assert_eq!(solo.sent().len(), 1);
        solo
    }

    /// Segment from the peer.
    pub(crate) fn segment(&self, flags: Flags, seq: u32, ack: u32) -> Repr {
        let timestamps = self.stamp.map(|value| Timestamps { value, echo: 0 });
        Repr {
            src_port: address(1).port(),
            dst_port: address(0).port(),
            seq: Seq(seq),
            ack: Seq(ack),
            flags,
            window: 60_000,
            urgent: 0,
            options: Options { timestamps, ..Options::default() },
        }
    }

    pub(crate) fn feed(&mut self, segment: &Repr, payload: &[u8]) {
        let disposition = self.tcp.on_segment(segment, payload, Ecn::NotEct, self.now);
        assert_eq!(disposition, Disposition::Consumed);
    }

    /// Feeds a plain data or ACK segment.
    pub(crate) fn data(&mut self, seq: u32, ack: u32, payload: &[u8]) {
        self.feed(&self.segment(Flags::ACK, seq, ack), payload);
    }

    /// Takes all segments that the connection transmits now.
    pub(crate) fn sent(&mut self) -> Vec<(Repr, Vec<u8>)> {
        let mut sent = Vec::new();
        let mut bytes = Vec::new();
        while self.tcp.poll_transmit(self.now, 0, &mut bytes).is_some() {
            let packet = Packet::new_checked(&bytes[..]).expect("a header");
            assert_eq!(packet.checksum(), 0);
            sent.push((Repr::parse(&packet), packet.payload().to_vec()));
            bytes.clear();
        }
        sent
    }

    /// Takes the only segment that the connection transmits now.
    pub(crate) fn sent_one(&mut self) -> (Repr, Vec<u8>) {
        let mut sent = self.sent();
        assert_eq!(sent.len(), 1, "{sent:?}");
        sent.remove(0)
    }

    /// Advances to the next timer, which must exist, and fires it.
    pub(crate) fn tick(&mut self) -> SimTime {
        self.now = self.tcp.next_timer().expect("a timer");
        self.tcp.on_timer(self.now);
        self.now
    }

    /// Advances time by `span`, firing timers.
    pub(crate) fn pass(&mut self, span: SimDuration) {
        let until = self.now + span;
        while self.tcp.next_timer().is_some_and(|at| at <= until) {
            self.tick();
        }
        self.now = until;
    }
}
