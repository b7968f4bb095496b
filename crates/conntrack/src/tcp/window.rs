//! Segments, and the check that they lie within the windows.

use super::{Kind, Side, SideFlags, TcpState, TcpTrack, after, before};
use crate::tuple::TupleDirection;
use belljar_wire::tcp::{self, Flags};

/// Least tolerance for late acknowledgments in bytes (`MAXACKWINCONST`).
const LATE_ACK_WINDOW: u32 = 66_000;
/// Largest window scale (RFC 7323, section 2.3).
const MAX_SCALE: u8 = 14;

mod option {
    pub const END: u8 = 0;
    pub const NOP: u8 = 1;
    pub const WINDOW_SCALE: u8 = 3;
    pub const SACK_PERMITTED: u8 = 4;
    pub const SACK: u8 = 5;
}

/// Segment as the tracker sees it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Segment<'a> {
    pub kind: Kind,
    pub flags: Flags,
    pub seq: u32,
    pub ack: u32,
    /// Sequence number after the payload, SYN and FIN.
    pub end: u32,
    /// Window field, without scaling.
    pub window: u16,
    options: &'a [u8],
}

impl<'a> Segment<'a> {
    /// Reads a segment of header and payload. `None` if it is cut short or its flags contradict each other
    /// (`tcp_error`).
    pub fn parse(bytes: &'a [u8]) -> Option<Segment<'a>> {
        tcp::Packet::new_checked(bytes).ok()?;
        let word = |at: usize| u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        let header_len = usize::from(bytes[12] >> 4) * 4;
        let flags = Flags::from_bits_retain(bytes[13]);
        if !are_valid(flags) {
            return None;
        }
        let numbers = u32::from(flags.contains(Flags::SYN)) + u32::from(flags.contains(Flags::FIN));
        let seq = word(4);
        Some(Segment {
            kind: Kind::of(flags),
            flags,
            seq,
            ack: word(8),
            end: seq.wrapping_add((bytes.len() - header_len) as u32).wrapping_add(numbers),
            window: (word(12) & 0xffff) as u16,
            options: &bytes[tcp::HEADER_LEN..header_len],
        })
    }

    /// Options as pairs of kind and data; ends at the first malformed one.
    fn options(&self) -> impl Iterator<Item = (u8, &'a [u8])> {
        let mut rest = self.options;
        std::iter::from_fn(move || {
            while let [option::NOP, tail @ ..] = rest {
                rest = tail;
            }
            let (&kind, &len) = (rest.first()?, rest.get(1)?);
            if kind == option::END || len < 2 {
                return None;
            }
            let data = rest.get(2..usize::from(len))?;
            rest = &rest[usize::from(len)..];
            Some((kind, data))
        })
    }

    /// Highest right edge of the SACK blocks, or `ack` if they are lower.
    fn highest_sack(&self, ack: u32) -> u32 {
        let blocks = self
            .options()
            .find(|(kind, data)| *kind == option::SACK && !data.is_empty() && data.len() % 8 == 0);
        let Some((_, blocks)) = blocks else { return ack };
        blocks.chunks_exact(8).fold(ack, |highest, block| {
            let edge = u32::from_be_bytes([block[4], block[5], block[6], block[7]]);
            if after(edge, highest) { edge } else { highest }
        })
    }
}

/// True for the combinations of flags that a TCP may send; PSH, ECE and CWR are always valid.
fn are_valid(flags: Flags) -> bool {
    let flags = flags & (Flags::FIN | Flags::SYN | Flags::RST | Flags::ACK | Flags::URG);
    [
        Flags::SYN,
        Flags::SYN | Flags::URG,
        Flags::SYN | Flags::ACK,
        Flags::RST,
        Flags::RST | Flags::ACK,
        Flags::FIN | Flags::ACK,
        Flags::FIN | Flags::ACK | Flags::URG,
        Flags::ACK,
        Flags::ACK | Flags::URG,
    ]
    .contains(&flags)
}

/// Verdict of the window check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WindowVerdict {
    /// The segment is within the windows.
    Accept,
    /// The segment passes without an effect.
    Ignore,
    /// The segment is outside.
    Invalid,
}

impl Side {
    /// Takes scale and SACK permission from the options of a segment, if it has any.
    pub(super) fn take_options(&mut self, segment: &Segment<'_>) {
        if segment.options.is_empty() {
            return;
        }
        self.scale = 0;
        self.flags &= SideFlags::BE_LIBERAL;
        for (kind, data) in segment.options() {
            match (kind, data) {
                (option::SACK_PERMITTED, []) => self.flags.insert(SideFlags::SACK_PERM),
                (option::WINDOW_SCALE, [scale]) => {
                    self.scale = (*scale).min(MAX_SCALE);
                    self.flags.insert(SideFlags::WINDOW_SCALE);
                }
                _ => {}
            }
        }
    }

    /// Forgets everything but that windows are not enforced.
    pub(super) fn forget(&mut self) {
        *self = Side { flags: self.flags & SideFlags::BE_LIBERAL, ..Side::default() };
    }
}

impl TcpTrack {
    /// Takes the numbers of a SYN or SYN-ACK as those of its side (`tcp_init_sender`).
    fn begin_side(&mut self, segment: &Segment<'_>, direction: TupleDirection) {
        let side = self.side(direction);
        side.end = segment.end;
        side.max_end = segment.end;
        side.max_window = u32::from(segment.window).max(1);
        side.take_options(segment);
        // "This option is an offer, not a promise; both sides must send Window Scale options in their <SYN>
        // segments to enable window scaling in either direction" (RFC 7323, section 2.2).
        if direction == TupleDirection::Reply
            && !(self.sides[0].flags & self.sides[1].flags).contains(SideFlags::WINDOW_SCALE)
        {
            self.sides[0].scale = 0;
            self.sides[1].scale = 0;
        }
    }

    /// Checks a segment against the windows and moves them (`tcp_in_window`). `offset` is the adjustment of
    /// the receiver's sequence numbers.
    pub(super) fn check_window(
        &mut self,
        segment: &Segment<'_>,
        offset: i32,
        direction: TupleDirection,
        liberal: bool,
    ) -> WindowVerdict {
        let (from, to) = (direction as usize, direction.opposite() as usize);
        let has = |flags| segment.flags.contains(flags);
        let Segment { mut seq, mut ack, mut end, .. } = *segment;
        let mut window = u32::from(segment.window);
        let mut sack = ack;
        if self.sides[to].flags.contains(SideFlags::SACK_PERM) {
            sack = segment.highest_sack(ack);
        }
        ack = ack.wrapping_sub(offset as u32);
        sack = sack.wrapping_sub(offset as u32);

        if self.sides[from].max_window == 0 {
            if has(Flags::SYN) {
                self.begin_side(segment, direction);
                if !has(Flags::ACK) {
                    return WindowVerdict::Accept;
                }
            } else {
                self.pick_up(from, to, end, sack, window);
            }
        } else if has(Flags::SYN)
            && after(end, self.sides[from].end)
            && matches!(self.state, TcpState::SynSent | TcpState::SynRecv)
        {
            // "It need not wait at all; it must only be sure to use sequence numbers larger than those
            // recently used": the side begins anew.
            self.begin_side(segment, direction);
            if direction == TupleDirection::Reply && !has(Flags::ACK) {
                return WindowVerdict::Accept;
            }
        }

        let (mut sender, mut receiver) = (self.sides[from], self.sides[to]);
        if !has(Flags::ACK) || has(Flags::RST) && ack == 0 {
            // A segment without an acknowledgment counts as one that acknowledges everything; so does a RST
            // with the acknowledgment 0 of some TCPs.
            ack = receiver.end;
            sack = receiver.end;
        }
        if has(Flags::RST) && seq == 0 && self.state == TcpState::SynSent {
            // The answer to a SYN.
            seq = sender.end;
            end = sender.end;
        }

        let lenient = liberal || sender.flags.contains(SideFlags::BE_LIBERAL);
        let refuse = |verdict| if lenient { WindowVerdict::Accept } else { verdict };
        let least_ack = receiver.end.wrapping_sub(sender.max_window.max(LATE_ACK_WINDOW)).wrapping_sub(1);
        let least_end = sender.end.wrapping_sub(receiver.max_window).wrapping_sub(1);
        if !before(seq, sender.max_end.wrapping_add(1)) {
            let excess = end.wrapping_sub(sender.max_end).wrapping_add(1);
            let near = receiver.max_window != 0 && after(end, least_end);
            if near
                && after(sack, least_ack)
                && excess <= receiver.max_window
                && before(sack, receiver.end.wrapping_add(1))
            {
                // A TCP that sends more than the window allows. If rules let the segment pass and the peer
                // acknowledges it, that acknowledgment must not be invalid.
                sender.end = end;
                sender.flags.insert(SideFlags::DATA_UNACKNOWLEDGED);
                self.sides[from] = sender;
                return refuse(WindowVerdict::Ignore);
            }
            return refuse(WindowVerdict::Invalid);
        }
        if !before(sack, receiver.end.wrapping_add(1)) {
            return refuse(WindowVerdict::Invalid);
        }
        if receiver.max_window != 0 && !after(end, least_end) {
            return refuse(WindowVerdict::Ignore);
        }
        if !after(sack, least_ack) {
            return refuse(WindowVerdict::Ignore);
        }

        // The window in a SYN is never scaled.
        if !has(Flags::SYN) {
            window <<= sender.scale;
        }
        sender.max_window = sender.max_window.max(window.wrapping_add(sack.wrapping_sub(ack)));
        if after(end, sender.end) {
            sender.end = end;
            sender.flags.insert(SideFlags::DATA_UNACKNOWLEDGED);
        }
        if has(Flags::ACK) && (!sender.flags.contains(SideFlags::MAX_ACK_SET) || after(ack, sender.max_ack)) {
            sender.max_ack = ack;
            sender.flags.insert(SideFlags::MAX_ACK_SET);
        }
        if receiver.max_window != 0 && after(end, sender.max_end) {
            receiver.max_window = receiver.max_window.wrapping_add(end.wrapping_sub(sender.max_end));
        }
        if after(sack.wrapping_add(window), receiver.max_end.wrapping_sub(1)) {
            receiver.max_end = sack.wrapping_add(window);
            if window == 0 {
                receiver.max_end = receiver.max_end.wrapping_add(1);
            }
        }
        if ack == receiver.end {
            receiver.flags.remove(SideFlags::DATA_UNACKNOWLEDGED);
        }
        (self.sides[from], self.sides[to]) = (sender, receiver);
        if segment.kind == Kind::Ack {
            self.count_repetition(segment, direction, (seq, ack, end));
        }
        WindowVerdict::Accept
    }

    /// Takes the numbers of a segment in the middle of a connection as those of its side.
    fn pick_up(&mut self, from: usize, to: usize, end: u32, sack: u32, window: u32) {
        let sender = &mut self.sides[from];
        sender.end = end;
        sender.max_window = (window << sender.scale).max(1);
        sender.max_end = end.wrapping_add(sender.max_window);
        let receiver = &mut self.sides[to];
        if receiver.max_window == 0 {
            receiver.end = sack;
            receiver.max_end = sack;
        } else if sack == receiver.end.wrapping_add(1) {
            // Probably the answer to a keep-alive.
            receiver.end = sack;
        }
    }

    fn count_repetition(
        &mut self,
        segment: &Segment<'_>,
        direction: TupleDirection,
        (seq, ack, end): (u32, u32, u32),
    ) {
        let repeated = self.last_direction == direction
            && (self.last_seq, self.last_ack, self.last_end) == (seq, ack, end)
            && self.last_window == segment.window;
        if repeated {
            self.retransmissions = self.retransmissions.saturating_add(1);
            return;
        }
        self.last_direction = direction;
        (self.last_seq, self.last_ack, self.last_end) = (seq, ack, end);
        self.last_window = segment.window;
        self.retransmissions = 0;
    }
}
