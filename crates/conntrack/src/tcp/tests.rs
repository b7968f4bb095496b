//! Tests of the state machine and of window tracking.

use super::*;
use TupleDirection::{Original, Reply};
use belljar_wire::tcp::Flags;

/// The table of `nf_conntrack_proto_tcp.c` of Linux 6.12: a row for each kind of segment (SYN, SYN-ACK, FIN,
/// ACK, RST, none), a column for each state (NONE, SYN_SENT, SYN_RECV, ESTABLISHED, FIN_WAIT, CLOSE_WAIT,
/// LAST_ACK, TIME_WAIT, CLOSE, SYN_SENT2). IV is invalid, IG ignored.
const TABLE: [[&str; 6]; 2] = [
    [
        "SS SS IG IG IG IG IG SS SS S2",
        "IV IV SR IV IV IV IV IV IV SR",
        "IV IV FW FW LA LA LA TW CL IV",
        "ES IV ES ES CW CW TW TW CL IV",
        "IV CL CL CL CL CL CL CL CL CL",
        "IV IV IV IV IV IV IV IV IV IV",
    ],
    [
        "IV S2 IV IV IV IV IV SS IV S2",
        "IV SR IG IG IG IG IG IG IG SR",
        "IV IV FW FW LA LA LA TW CL IV",
        "IV IG SR ES CW CW TW TW CL IG",
        "IV CL CL CL CL CL CL CL CL CL",
        "IV IV IV IV IV IV IV IV IV IV",
    ],
];

fn parse(word: &str) -> Transition {
    let names = ["NO", "SS", "SR", "ES", "FW", "CW", "LA", "TW", "CL", "S2"];
    match word {
        "IV" => Transition::Invalid,
        "IG" => Transition::Ignore,
        _ => Transition::To(TcpState::ALL[names.iter().position(|name| *name == word).unwrap()]),
    }
}

#[test]
fn the_transitions_are_those_of_the_kernels_table() {
    for direction in TupleDirection::BOTH {
        for (row, kind) in Kind::ALL.into_iter().enumerate() {
            let words = TABLE[direction as usize][row].split(' ');
            for (word, state) in words.zip(TcpState::ALL) {
                assert_eq!(
                    transition(direction, kind, state),
                    parse(word),
                    "{direction:?} {kind:?} {state:?}"
                );
            }
        }
    }
}

#[test]
fn a_segment_has_one_kind() {
    let kinds = [
        (Flags::SYN, Kind::Syn),
        (Flags::SYN | Flags::ACK, Kind::SynAck),
        (Flags::FIN | Flags::ACK, Kind::Fin),
        (Flags::ACK | Flags::PSH, Kind::Ack),
        (Flags::RST | Flags::ACK, Kind::Rst),
        (Flags::PSH, Kind::None),
    ];
    for (flags, kind) in kinds {
        assert_eq!(Kind::of(flags), kind);
    }
}

/// Bytes of a segment with `len` bytes of payload; `options` is padded by the caller.
fn bytes(flags: Flags, seq: u32, ack: u32, window: u16, options: &[u8], len: usize) -> Vec<u8> {
    let mut bytes = vec![0x10, 0, 0, 80];
    bytes.extend(seq.to_be_bytes());
    bytes.extend(ack.to_be_bytes());
    bytes.extend([(((20 + options.len()) / 4) << 4) as u8, flags.bits()]);
    bytes.extend(window.to_be_bytes());
    bytes.extend([0; 4]);
    bytes.extend_from_slice(options);
    bytes.resize(bytes.len() + len, 0);
    bytes
}

#[test]
fn segments_with_contradicting_flags_or_cut_short_are_refused() {
    let good = bytes(Flags::ACK, 1, 1, 1, &[], 3);
    assert!(Segment::parse(&good).is_some());
    assert!(Segment::parse(&good[..19]).is_none());
    let mut long = good.clone();
    long[12] = 0xf0;
    assert!(Segment::parse(&long).is_none());
    let mut valid = 0;
    for bits in 0..=u8::MAX {
        let flags = Flags::from_bits_retain(bits);
        valid += usize::from(Segment::parse(&bytes(flags, 1, 1, 1, &[], 0)).is_some());
    }
    // Nine combinations of FIN, SYN, RST, ACK and URG, each with any of PSH, ECE and CWR.
    assert_eq!(valid, 9 * 8);
}

/// Connection under test with the flags that the tracker keeps.
struct Fixture {
    track: TcpTrack,
    status: CtStatus,
    left: Jiffies,
    settings: Settings,
}

/// Disposition in short: I invalid, G ignored, R reopened, K killed, or the timeout in seconds.
#[derive(Debug, PartialEq, Eq)]
enum Short {
    Invalid,
    Ignored,
    Reopened,
    Killed,
    Kept,
    Seconds(u64),
}

impl Fixture {
    fn begin(flags: Flags, seq: u32, ack: u32, window: u16, options: &[u8]) -> Fixture {
        let settings = Settings::default();
        let bytes = bytes(flags, seq, ack, window, options, 0);
        let segment = Segment::parse(&bytes).unwrap();
        let track = TcpTrack::new(&segment, &settings).unwrap();
        let mut fixture = Fixture { track, status: CtStatus::empty(), left: 0, settings };
        fixture.take(Original, &bytes);
        fixture.status |= CtStatus::CONFIRMED;
        fixture
    }

    fn take(&mut self, direction: TupleDirection, bytes: &[u8]) -> Short {
        let segment = Segment::parse(bytes).unwrap();
        let context =
            TcpContext { direction, status: self.status, left: self.left, settings: &self.settings };
        let disposition = self.track.segment(&segment, 0, context);
        let short = match disposition {
            TcpDisposition::Invalid { shorten } => {
                self.left = shorten.unwrap_or(self.left);
                return Short::Invalid;
            }
            TcpDisposition::Reopened => return Short::Reopened,
            TcpDisposition::Ignored => Short::Ignored,
            TcpDisposition::Accepted { kill: true, .. } => Short::Killed,
            TcpDisposition::Accepted { timeout: None, .. } => Short::Kept,
            TcpDisposition::Accepted { timeout: Some(left), assured, .. } => {
                self.left = left;
                self.status.set(CtStatus::ASSURED, assured || self.status.contains(CtStatus::ASSURED));
                Short::Seconds(left / belljar_base::HZ)
            }
        };
        if direction == Reply {
            self.status |= CtStatus::SEEN_REPLY;
        }
        short
    }

    fn send(&mut self, direction: TupleDirection, flags: Flags, seq: u32, ack: u32, len: usize) -> Short {
        self.take(direction, &bytes(flags, seq, ack, 1000, &[], len))
    }

    /// Connection after its handshake: the client's next sequence number is 101, the server's 501.
    fn established() -> Fixture {
        let mut fixture = Fixture::begin(Flags::SYN, 100, 0, 1000, &[]);
        assert_eq!(fixture.send(Reply, Flags::SYN | Flags::ACK, 500, 101, 0), Short::Seconds(60));
        assert_eq!(fixture.send(Original, Flags::ACK, 101, 501, 0), Short::Seconds(432_000));
        assert!(fixture.status.contains(CtStatus::ASSURED));
        fixture
    }
}

#[test]
fn a_connection_opens_carries_data_and_closes() {
    let mut fixture = Fixture::established();
    // Data that is not acknowledged shortens the timeout.
    assert_eq!(fixture.send(Original, Flags::ACK, 101, 501, 10), Short::Seconds(300));
    assert_eq!(fixture.send(Reply, Flags::ACK, 501, 111, 0), Short::Seconds(432_000));
    let fin = Flags::FIN | Flags::ACK;
    assert_eq!(fixture.send(Original, fin, 111, 501, 0), Short::Seconds(120));
    assert_eq!(fixture.track.state, TcpState::FinWait);
    assert_eq!(fixture.send(Reply, Flags::ACK, 501, 112, 0), Short::Seconds(60));
    assert_eq!(fixture.track.state, TcpState::CloseWait);
    assert_eq!(fixture.send(Reply, fin, 501, 112, 0), Short::Seconds(30));
    assert_eq!(fixture.track.state, TcpState::LastAck);
    assert_eq!(fixture.send(Original, Flags::ACK, 112, 502, 0), Short::Seconds(120));
    assert_eq!(fixture.track.state, TcpState::TimeWait);
    // The side that closed first may reopen.
    assert_eq!(fixture.send(Original, Flags::SYN, 9000, 0, 0), Short::Reopened);
    assert_eq!(fixture.send(Reply, Flags::SYN, 9000, 0, 0), Short::Reopened);
}

#[test]
fn a_repeated_syn_does_not_prolong_the_entry() {
    let mut fixture = Fixture::begin(Flags::SYN, 100, 0, 1000, &[]);
    assert_eq!(fixture.send(Original, Flags::SYN, 100, 0, 0), Short::Kept);
    // The only answer is a RST: the entry is removed.
    let mut refused = Fixture::begin(Flags::SYN, 100, 0, 1000, &[]);
    assert_eq!(refused.send(Reply, Flags::RST | Flags::ACK, 0, 101, 0), Short::Killed);
}

#[test]
fn crossing_syns_establish_a_connection() {
    let mut fixture = Fixture::begin(Flags::SYN, 100, 0, 1000, &[]);
    assert_eq!(fixture.send(Reply, Flags::SYN, 500, 0, 0), Short::Kept);
    assert_eq!(fixture.track.state, TcpState::SynSent2);
    assert_eq!(fixture.send(Original, Flags::SYN | Flags::ACK, 100, 501, 0), Short::Seconds(60));
    assert_eq!(fixture.track.state, TcpState::SynRecv);
    assert_eq!(fixture.send(Reply, Flags::ACK, 501, 101, 0), Short::Seconds(432_000));
    assert_eq!(fixture.track.state, TcpState::Established);
}

#[test]
fn segments_outside_the_windows_are_invalid_or_ignored() {
    let mut fixture = Fixture::established();
    let before = fixture.track.clone();
    // Beyond the receiver's window by more than itself.
    assert_eq!(fixture.send(Original, Flags::ACK, 101 + 5000, 501, 10), Short::Invalid);
    // An acknowledgment of data that was not sent.
    assert_eq!(fixture.send(Original, Flags::ACK, 101, 900, 0), Short::Invalid);
    // Data that was acknowledged long ago, and an acknowledgment that is very late.
    assert_eq!(fixture.send(Original, Flags::ACK, 101u32.wrapping_sub(3000), 501, 0), Short::Ignored);
    assert_eq!(fixture.send(Original, Flags::ACK, 101, 501u32.wrapping_sub(70_000), 0), Short::Ignored);
    assert_eq!(fixture.track, before);
    // A little beyond the window: it passes, so that its acknowledgment is valid.
    assert_eq!(fixture.send(Original, Flags::ACK, 101 + 1001, 501, 10), Short::Ignored);
    assert_eq!(fixture.send(Reply, Flags::ACK, 501, 101 + 1011, 0), Short::Seconds(432_000));
    // Nothing is refused where the setting says so.
    let mut liberal = Fixture::established();
    liberal.settings.tcp_be_liberal = 1;
    assert_eq!(liberal.send(Original, Flags::ACK, 101 + 5000, 900, 10), Short::Seconds(432_000));
}

#[test]
fn windows_are_scaled_if_both_sides_offer_it() {
    let scale = |shift| [3, 3, shift, 0];
    for (both, far) in [(true, Short::Seconds(300)), (false, Short::Invalid)] {
        let mut fixture = Fixture::begin(Flags::SYN, 100, 0, 1000, &scale(2));
        let answer = if both { scale(7).to_vec() } else { vec![] };
        fixture.take(Reply, &bytes(Flags::SYN | Flags::ACK, 500, 101, 1000, &answer, 0));
        fixture.send(Original, Flags::ACK, 101, 501, 0);
        // The server's window is 1000 or 128,000.
        fixture.send(Reply, Flags::ACK, 501, 101, 0);
        assert_eq!(fixture.send(Original, Flags::ACK, 101 + 120_000, 501, 10), far);
    }
}

#[test]
fn sack_blocks_count_as_acknowledgments() {
    let permitted = [4, 2, 1, 1];
    let mut fixture = Fixture::begin(Flags::SYN, 100, 0, 1000, &permitted);
    fixture.take(Reply, &bytes(Flags::SYN | Flags::ACK, 500, 101, 1000, &permitted, 0));
    fixture.send(Original, Flags::ACK, 101, 501, 0);
    fixture.send(Original, Flags::ACK, 101, 501, 500);
    let block = |right: u32| {
        let mut option = vec![1, 1, 5, 10];
        option.extend(300u32.to_be_bytes());
        option.extend(right.to_be_bytes());
        option
    };
    let beyond = bytes(Flags::ACK, 501, 101, 1000, &block(700), 0);
    assert_eq!(fixture.take(Reply, &beyond), Short::Invalid);
    let within = bytes(Flags::ACK, 501, 101, 1000, &block(601), 0);
    assert_eq!(fixture.take(Reply, &within), Short::Seconds(300));
}

#[test]
fn connections_are_picked_up_in_the_middle_unless_that_is_off() {
    let mut fixture = Fixture::begin(Flags::ACK, 1000, 2000, 500, &[]);
    assert_eq!(fixture.track.state, TcpState::Established);
    // Until it is answered, it has five minutes.
    assert_eq!(fixture.send(Original, Flags::ACK, 1000, 2000, 1), Short::Seconds(300));
    assert_eq!(fixture.send(Reply, Flags::ACK, 2000, 1001, 0), Short::Seconds(300));
    assert_eq!(fixture.send(Reply, Flags::ACK, 2000, 1001, 0), Short::Seconds(432_000));
    assert!(fixture.status.contains(CtStatus::ASSURED));
    let settings = Settings { tcp_loose: 0, ..Settings::default() };
    let ack = bytes(Flags::ACK, 1, 1, 1, &[], 0);
    assert!(TcpTrack::new(&Segment::parse(&ack).unwrap(), &settings).is_none());
    let reset = bytes(Flags::RST, 1, 1, 1, &[], 0);
    assert!(TcpTrack::new(&Segment::parse(&reset).unwrap(), &Settings::default()).is_none());
}

#[test]
fn a_reset_needs_the_exact_sequence_number() {
    // Exactly the next number: the connection is closed.
    let mut fixture = Fixture::established();
    fixture.send(Original, Flags::ACK, 101, 501, 0);
    assert_eq!(fixture.send(Reply, Flags::RST | Flags::ACK, 501, 101, 0), Short::Seconds(10));
    assert_eq!(fixture.track.state, TcpState::Close);
    // Below what is acknowledged: invalid, unless such resets are let through.
    for (ignore, state) in [(0, TcpState::Established), (1, TcpState::Established)] {
        let mut fixture = Fixture::established();
        fixture.settings.tcp_ignore_invalid_rst = ignore;
        fixture.send(Original, Flags::ACK, 101, 501, 0);
        let short = fixture.send(Reply, Flags::RST, 400, 0, 0);
        assert_eq!(short == Short::Invalid, ignore == 0, "{short:?}");
        assert_eq!(fixture.track.state, state);
    }
    // Within the window: the receiver answers with a challenge ACK, and the connection goes on. The timeout
    // is that of a closed connection until then.
    let mut fixture = Fixture::established();
    assert_eq!(fixture.send(Reply, Flags::RST, 510, 0, 0), Short::Seconds(10));
    assert_eq!(fixture.track.state, TcpState::Established);
    assert_eq!(fixture.send(Original, Flags::ACK, 101, 501, 0), Short::Seconds(300));
}

#[test]
fn an_ignored_syn_that_is_answered_brings_the_tracker_in_step() {
    let mut fixture = Fixture::established();
    // The client has lost its state and begins again with the same ports.
    assert_eq!(fixture.send(Original, Flags::SYN, 7000, 0, 0), Short::Ignored);
    assert_eq!(fixture.send(Reply, Flags::SYN | Flags::ACK, 8000, 7001, 0), Short::Seconds(60));
    assert_eq!(fixture.track.state, TcpState::SynRecv);
    assert_eq!(fixture.send(Original, Flags::ACK, 7001, 8001, 0), Short::Seconds(432_000));
}

#[test]
fn a_challenge_ack_does_not_end_the_last_fin() {
    let mut fixture = Fixture::established();
    let fin = Flags::FIN | Flags::ACK;
    fixture.send(Reply, fin, 501, 101, 0);
    fixture.send(Original, Flags::ACK, 101, 502, 0);
    fixture.send(Original, fin, 101, 502, 0);
    assert_eq!(fixture.track.state, TcpState::LastAck);
    assert_eq!(fixture.send(Original, Flags::SYN, 7000, 0, 0), Short::Ignored);
    assert_eq!(fixture.send(Reply, Flags::ACK, 502, 101, 0), Short::Ignored);
    assert_eq!(fixture.track.state, TcpState::LastAck);
    assert_eq!(fixture.send(Reply, Flags::ACK, 502, 102, 0), Short::Seconds(120));
    assert_eq!(fixture.track.state, TcpState::TimeWait);
}

#[test]
fn repeated_segments_and_closed_windows_shorten_the_timeout() {
    let mut fixture = Fixture::established();
    for n in 0..4 {
        let short = fixture.send(Original, Flags::ACK, 101, 501, 0);
        assert_eq!(short, Short::Seconds(if n < 2 { 432_000 } else { 300 }), "{n}");
    }
    let mut closed = Fixture::established();
    assert_eq!(closed.take(Reply, &bytes(Flags::ACK, 501, 101, 0, &[], 0)), Short::Seconds(300));
}

#[test]
fn resets_outside_the_window_from_both_sides_shorten_the_timeout() {
    let mut fixture = Fixture::established();
    fixture.left = seconds(432_000);
    let fin = Flags::FIN | Flags::ACK;
    assert_eq!(fixture.send(Original, fin, 101 + 9000, 501, 0), Short::Invalid);
    assert_eq!(fixture.left, seconds(432_000));
    assert_eq!(fixture.send(Reply, fin, 501 + 9000, 101, 0), Short::Invalid);
    assert_eq!(fixture.left, seconds(300));
}
