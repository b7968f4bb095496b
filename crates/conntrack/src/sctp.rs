//! SCTP associations as an observer sees them (`nf_conntrack_proto_sctp.c`; RFC 9260).
//!
//! Each chunk of a packet moves the state machine. Verification tags are checked by the rules of RFC 9260,
//! section 8.5: each side's tag is learnt from the INIT or INIT ACK of its peer.

use crate::conn::{CtStatus, Jiffies, seconds};
use crate::settings::Settings;
use crate::tuple::TupleDirection;

/// Length of the common header in bytes.
const HEADER_LEN: usize = 12;
/// Length of a chunk header in bytes.
const CHUNK_LEN: usize = 4;

/// Chunk types (RFC 9260, section 3.2).
mod chunk {
    pub const DATA: u8 = 0;
    pub const INIT: u8 = 1;
    pub const INIT_ACK: u8 = 2;
    pub const HEARTBEAT: u8 = 4;
    pub const HEARTBEAT_ACK: u8 = 5;
    pub const ABORT: u8 = 6;
    pub const SHUTDOWN: u8 = 7;
    pub const SHUTDOWN_ACK: u8 = 8;
    pub const ERROR: u8 = 9;
    pub const COOKIE_ECHO: u8 = 10;
    pub const COOKIE_ACK: u8 = 11;
    pub const SHUTDOWN_COMPLETE: u8 = 14;
}

/// State of an association (`enum sctp_conntrack`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SctpState {
    /// Nothing seen.
    #[default]
    None,
    /// Closed, or an INIT seen.
    Closed,
    /// INIT ACK seen.
    CookieWait,
    /// COOKIE ECHO seen.
    CookieEchoed,
    /// COOKIE ACK seen.
    Established,
    /// SHUTDOWN seen in the original direction.
    ShutdownSent,
    /// SHUTDOWN seen in the reply direction.
    ShutdownReceived,
    /// SHUTDOWN ACK seen.
    ShutdownAckSent,
    /// HEARTBEAT seen on a new path.
    HeartbeatSent,
}

impl SctpState {
    /// State of a number.
    pub fn from_number(number: u8) -> Option<SctpState> {
        Some(match number {
            0 => SctpState::None,
            1 => SctpState::Closed,
            2 => SctpState::CookieWait,
            3 => SctpState::CookieEchoed,
            4 => SctpState::Established,
            5 => SctpState::ShutdownSent,
            6 => SctpState::ShutdownReceived,
            7 => SctpState::ShutdownAckSent,
            8 => SctpState::HeartbeatSent,
            _ => return None,
        })
    }

    /// Name in listings.
    pub const fn name(self) -> &'static str {
        match self {
            SctpState::None => "NONE",
            SctpState::Closed => "CLOSED",
            SctpState::CookieWait => "COOKIE_WAIT",
            SctpState::CookieEchoed => "COOKIE_ECHOED",
            SctpState::Established => "ESTABLISHED",
            SctpState::ShutdownSent => "SHUTDOWN_SENT",
            SctpState::ShutdownReceived => "SHUTDOWN_RECD",
            SctpState::ShutdownAckSent => "SHUTDOWN_ACK_SENT",
            SctpState::HeartbeatSent => "HEARTBEAT_SENT",
        }
    }

    /// True if an entry in this state may be evicted although it is assured.
    pub const fn may_be_evicted(self) -> bool {
        matches!(self, SctpState::ShutdownSent | SctpState::ShutdownReceived | SctpState::ShutdownAckSent)
    }

    fn timeout(self, settings: &Settings) -> u32 {
        match self {
            SctpState::None | SctpState::Closed => settings.sctp_closed,
            SctpState::CookieWait => settings.sctp_cookie_wait,
            SctpState::CookieEchoed => settings.sctp_cookie_echoed,
            SctpState::Established => settings.sctp_established,
            SctpState::ShutdownSent => settings.sctp_shutdown_sent,
            SctpState::ShutdownReceived => settings.sctp_shutdown_recd,
            SctpState::ShutdownAckSent => settings.sctp_shutdown_ack_sent,
            SctpState::HeartbeatSent => settings.sctp_heartbeat_sent,
        }
    }
}

/// State of an association, with the verification tags that packets of each direction must have.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SctpTrack {
    pub state: SctpState,
    pub tags: [u32; 2],
    /// A HEARTBEAT of this direction had a wrong tag, and its answer may teach the right one.
    wrong_heartbeat: Option<TupleDirection>,
}

/// Effect of a packet on its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SctpAccepted {
    /// New remaining time; `None` leaves the old one, and the packet is not counted.
    pub timeout: Option<Jiffies>,
    /// The state changed.
    pub changed: bool,
    /// The connection becomes assured.
    pub assured: bool,
}

/// Packet whose chunks have been checked.
pub(crate) struct SctpPacket<'a> {
    tag: u32,
    chunks: &'a [u8],
    /// Bit set of the chunk types below 64.
    types: u64,
}

impl<'a> SctpPacket<'a> {
    /// Reads a packet of header and chunks. `None` if it is cut short, or bundles chunks that must be alone
    /// (RFC 9260, section 6.10).
    pub fn parse(bytes: &'a [u8]) -> Option<SctpPacket<'a>> {
        let chunks = bytes.get(HEADER_LEN..)?;
        let mut packet = SctpPacket { tag: be32(bytes, 4), chunks, types: 0 };
        let (mut alone, mut count) = (false, 0);
        for (kind, _, chunk) in packet.chunks() {
            alone |= matches!(kind, chunk::INIT | chunk::INIT_ACK | chunk::SHUTDOWN_COMPLETE);
            let first = alone || matches!(kind, chunk::COOKIE_ACK | chunk::COOKIE_ECHO);
            if first && count != 0 || chunk.len() < CHUNK_LEN {
                return None;
            }
            count += 1;
            packet.types |= 1u64.checked_shl(u32::from(kind)).unwrap_or(0);
        }
        (count > 0).then_some(packet)
    }

    fn has(&self, kinds: &[u8]) -> bool {
        kinds.iter().any(|kind| self.types & 1 << kind != 0)
    }

    /// Chunks as type, flags and bytes with header; a malformed one is empty, and the last.
    fn chunks(&self) -> impl Iterator<Item = (u8, u8, &'a [u8])> + use<'a> {
        let mut rest = self.chunks;
        std::iter::from_fn(move || {
            let header = rest.get(..CHUNK_LEN)?;
            let len = usize::from(u16::from_be_bytes([header[2], header[3]]));
            let chunk = if len < CHUNK_LEN { &[] } else { &rest[..len.min(rest.len())] };
            rest = match len < CHUNK_LEN {
                true => &[],
                false => rest.get(len.next_multiple_of(4)..).unwrap_or_default(),
            };
            Some((header[0], header[1], chunk))
        })
    }
}

impl SctpTrack {
    /// State of a connection that a packet begins (`sctp_new`). `None` if it cannot begin one: "an out of the
    /// blue packet" (RFC 9260, section 8.4).
    pub fn new(packet: &SctpPacket<'_>) -> Option<SctpTrack> {
        if packet.has(&[chunk::ABORT, chunk::SHUTDOWN_COMPLETE, chunk::COOKIE_ACK]) {
            return None;
        }
        let mut track = SctpTrack::default();
        for (kind, _, chunk) in packet.chunks() {
            if next(TupleDirection::Original, SctpState::None, kind)? == SctpState::None {
                return None;
            }
            match kind {
                chunk::INIT if packet.tag != 0 => return None,
                chunk::INIT => track.tags[1] = init_tag(chunk)?,
                chunk::HEARTBEAT => track.tags[0] = packet.tag,
                _ => track.tags[1] = packet.tag,
            }
        }
        Some(track)
    }

    /// Takes a packet. `None` if it is not part of the association.
    pub fn packet(
        &mut self,
        packet: &SctpPacket<'_>,
        direction: TupleDirection,
        status: CtStatus,
        settings: &Settings,
    ) -> Option<SctpAccepted> {
        const CHECKED_BY_CHUNK: [u8; 7] = [
            chunk::INIT,
            chunk::SHUTDOWN_COMPLETE,
            chunk::COOKIE_ECHO,
            chunk::ABORT,
            chunk::SHUTDOWN_ACK,
            chunk::HEARTBEAT,
            chunk::HEARTBEAT_ACK,
        ];
        if !packet.has(&CHECKED_BY_CHUNK) && packet.tag != self.tags[direction as usize] {
            return None;
        }
        let mut accepted = SctpAccepted { timeout: None, changed: false, assured: false };
        let mut ignored = false;
        for (kind, flags, chunk) in packet.chunks() {
            if !self.check_tag(packet, (kind, flags), direction, &mut ignored)? {
                continue;
            }
            let (old, new) = (self.state, next(direction, self.state, kind)?);
            if matches!(kind, chunk::INIT | chunk::INIT_ACK) {
                self.tags[direction.opposite() as usize] = init_tag(chunk)?;
                // A repeated INIT does not prolong the entry: its ports could be held for ever.
                let repeated = old == SctpState::Closed && new == SctpState::Closed;
                ignored |= repeated && status.contains(CtStatus::CONFIRMED);
            }
            self.state = new;
            if old != new {
                accepted.changed = true;
                accepted.assured |= new == SctpState::Established && !status.contains(CtStatus::ASSURED);
            }
        }
        if !ignored {
            accepted.timeout = Some(seconds(self.state.timeout(settings)));
        }
        Some(accepted)
    }

    /// Checks the verification tag for a chunk. `None` refuses the packet; false skips the chunk.
    fn check_tag(
        &mut self,
        packet: &SctpPacket<'_>,
        (kind, flags): (u8, u8),
        direction: TupleDirection,
        ignored: &mut bool,
    ) -> Option<bool> {
        const T_FLAG: u8 = 1;
        let (own, peer) = (direction as usize, direction.opposite() as usize);
        match kind {
            chunk::INIT => (packet.tag == 0).then_some(true),
            chunk::ABORT | chunk::SHUTDOWN_COMPLETE => {
                let expected = if flags & T_FLAG == 0 { self.tags[own] } else { self.tags[peer] };
                (packet.tag == expected).then_some(true)
            }
            chunk::COOKIE_ECHO => (packet.tag == self.tags[own]).then_some(true),
            chunk::HEARTBEAT | chunk::HEARTBEAT_ACK if self.tags[own] == 0 => {
                self.tags[own] = packet.tag;
                Some(true)
            }
            chunk::HEARTBEAT | chunk::HEARTBEAT_ACK if packet.tag == self.tags[own] => {
                self.wrong_heartbeat = None;
                Some(true)
            }
            chunk::HEARTBEAT | chunk::HEARTBEAT_ACK if packet.has(&[chunk::DATA]) || *ignored => None,
            chunk::HEARTBEAT => {
                self.wrong_heartbeat = Some(direction);
                *ignored = true;
                Some(false)
            }
            chunk::HEARTBEAT_ACK => {
                if self.wrong_heartbeat != Some(direction.opposite()) {
                    return None;
                }
                self.wrong_heartbeat = None;
                self.tags[own] = packet.tag;
                self.tags[peer] = 0;
                Some(true)
            }
            _ => Some(true),
        }
    }
}

/// Tag in an INIT or INIT ACK chunk.
fn init_tag(chunk: &[u8]) -> Option<u32> {
    (chunk.len() >= 20).then(|| be32(chunk, CHUNK_LEN))
}

fn be32(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

/// State that follows `state` after a chunk of a type and direction. `None` if the chunk is invalid there.
fn next(direction: TupleDirection, state: SctpState, kind: u8) -> Option<SctpState> {
    use SctpState::{
        Closed, CookieEchoed, CookieWait, Established, HeartbeatSent, None as Nothing, ShutdownAckSent,
        ShutdownReceived, ShutdownSent,
    };
    let moves = matches!(kind, chunk::INIT..=chunk::INIT_ACK | chunk::HEARTBEAT..=chunk::COOKIE_ACK)
        || kind == chunk::SHUTDOWN_COMPLETE;
    if !moves {
        return Some(state);
    }
    if direction == TupleDirection::Original {
        return Some(match (kind, state) {
            (chunk::ABORT, _) => Closed,
            (chunk::HEARTBEAT, Nothing | HeartbeatSent) => HeartbeatSent,
            (chunk::HEARTBEAT_ACK, HeartbeatSent) => HeartbeatSent,
            (chunk::SHUTDOWN_ACK, Nothing | ShutdownSent | ShutdownReceived | HeartbeatSent) => {
                ShutdownAckSent
            }
            (chunk::INIT, HeartbeatSent) => CookieWait,
            (chunk::INIT, ShutdownSent | ShutdownReceived) => Closed,
            (chunk::SHUTDOWN, Established) => ShutdownSent,
            (chunk::COOKIE_ECHO, CookieWait) => CookieEchoed,
            (chunk::SHUTDOWN_COMPLETE, ShutdownAckSent) => Closed,
            (_, Nothing | HeartbeatSent) => Closed,
            (_, same) => same,
        });
    }
    Some(match (kind, state) {
        (chunk::HEARTBEAT, HeartbeatSent) => HeartbeatSent,
        (chunk::HEARTBEAT_ACK, HeartbeatSent) => Established,
        (_, Nothing | HeartbeatSent) => return None,
        (chunk::ABORT, _) => Closed,
        (chunk::INIT_ACK, Closed) => CookieWait,
        (chunk::SHUTDOWN, Established) => ShutdownReceived,
        (chunk::SHUTDOWN_ACK, ShutdownSent | ShutdownReceived) => ShutdownAckSent,
        (chunk::ERROR, CookieEchoed) => Closed,
        (chunk::COOKIE_ACK, CookieEchoed) => Established,
        (chunk::SHUTDOWN_COMPLETE, ShutdownAckSent) => Closed,
        (_, same) => same,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use TupleDirection::{Original, Reply};

    /// Packet with a tag and chunks of type, flags and value.
    fn packet(tag: u32, chunks: &[(u8, u8, &[u8])]) -> Vec<u8> {
        let mut bytes = vec![0, 1, 0, 2];
        bytes.extend(tag.to_be_bytes());
        bytes.extend([0; 4]);
        for (kind, flags, value) in chunks {
            let len = (CHUNK_LEN + value.len()) as u16;
            bytes.extend([*kind, *flags]);
            bytes.extend(len.to_be_bytes());
            bytes.extend_from_slice(value);
        }
        bytes
    }

    fn init(tag: u32) -> [u8; 16] {
        let mut value = [0; 16];
        value[..4].copy_from_slice(&tag.to_be_bytes());
        value
    }

    #[test]
    fn an_association_opens_and_closes() {
        let settings = Settings::default();
        let first = packet(0, &[(chunk::INIT, 0, &init(7))]);
        let first = SctpPacket::parse(&first).unwrap();
        let mut track = SctpTrack::new(&first).unwrap();
        let none = CtStatus::empty();
        assert!(track.packet(&first, Original, none, &settings).is_some());
        assert_eq!(track.state, SctpState::Closed);
        let steps = [
            (Reply, 7, (chunk::INIT_ACK, 0, &init(9)[..]), SctpState::CookieWait, 3),
            (Original, 9, (chunk::COOKIE_ECHO, 0, &[0; 4]), SctpState::CookieEchoed, 3),
            (Reply, 7, (chunk::COOKIE_ACK, 0, &[]), SctpState::Established, 210),
            (Original, 9, (chunk::DATA, 3, &[0; 16]), SctpState::Established, 210),
            (Original, 9, (chunk::SHUTDOWN, 0, &[0; 4]), SctpState::ShutdownSent, 3),
            (Reply, 7, (chunk::SHUTDOWN_ACK, 0, &[]), SctpState::ShutdownAckSent, 3),
            (Original, 9, (chunk::SHUTDOWN_COMPLETE, 0, &[]), SctpState::Closed, 10),
        ];
        for (direction, tag, one, state, timeout) in steps {
            let wrong = packet(tag + 1, &[one]);
            let wrong = SctpPacket::parse(&wrong).unwrap();
            let before = track.clone();
            if one.0 != chunk::SHUTDOWN_ACK {
                assert_eq!(track.packet(&wrong, direction, none, &settings), None, "{}", one.0);
                assert_eq!(track, before);
            }
            let right = packet(tag, &[one]);
            let right = SctpPacket::parse(&right).unwrap();
            let accepted = track.packet(&right, direction, none, &settings).unwrap();
            assert_eq!((track.state, accepted.timeout), (state, Some(seconds(timeout))));
        }
    }

    #[test]
    fn packets_out_of_the_blue_and_bundles_are_refused() {
        for kind in [chunk::ABORT, chunk::SHUTDOWN_COMPLETE, chunk::COOKIE_ACK] {
            let bytes = packet(1, &[(kind, 0, &[])]);
            assert_eq!(SctpTrack::new(&SctpPacket::parse(&bytes).unwrap()), None);
        }
        let tagged = packet(1, &[(chunk::INIT, 0, &init(7))]);
        assert_eq!(SctpTrack::new(&SctpPacket::parse(&tagged).unwrap()), None);
        let bundle = packet(0, &[(chunk::INIT, 0, &init(7)), (chunk::DATA, 0, &[0; 12])]);
        assert!(SctpPacket::parse(&bundle).is_none());
        assert!(SctpPacket::parse(&packet(0, &[])).is_none());
        assert!(SctpPacket::parse(&[0; 11]).is_none());
        let mut empty = packet(0, &[(chunk::DATA, 0, &[])]);
        empty[15] = 0;
        assert!(SctpPacket::parse(&empty).is_none());
    }

    #[test]
    fn a_new_path_begins_with_a_heartbeat() {
        let settings = Settings::default();
        let beat = packet(5, &[(chunk::HEARTBEAT, 0, &[0; 4])]);
        let beat = SctpPacket::parse(&beat).unwrap();
        let mut track = SctpTrack::new(&beat).unwrap();
        assert!(track.packet(&beat, Original, CtStatus::empty(), &settings).is_some());
        assert_eq!((track.state, track.tags), (SctpState::HeartbeatSent, [5, 0]));
        let answer = packet(6, &[(chunk::HEARTBEAT_ACK, 0, &[0; 4])]);
        let answer = SctpPacket::parse(&answer).unwrap();
        let accepted = track.packet(&answer, Reply, CtStatus::CONFIRMED, &settings).unwrap();
        assert!(accepted.assured && track.state == SctpState::Established);
    }
}
