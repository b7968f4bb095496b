//! TCP connections as an observer between the ends sees them: the state machine and the window tracking of
//! `nf_conntrack_proto_tcp.c` (Linux 6.18).
//!
//! # Problem
//! The tracker must know when a connection is established and when it is over, and must not be misled by
//! segments that the ends would ignore: a RST or FIN with a wrong sequence number must not end the tracking
//! of a connection that goes on.
//!
//! # Algorithm
//! A segment has one of six kinds by its flags ([`Kind`]). [`transition`] gives the next state from state,
//! kind and direction; some kinds are *ignored* in some states, since only the receiver's answer shows if
//! they are valid, and some are *invalid*.
//!
//! A segment that is neither must lie within the windows (van Rooij, "Real stateful TCP packet filtering in
//! IP Filter", 2000). For each side are kept
//!
//! * `end`: the highest sequence number after data that it has sent,
//! * `max_end`: the highest one that its peer's acknowledgments and windows allow,
//! * `max_window`: its largest window, and what it has been seen to need beyond it,
//! * `max_ack`: its highest acknowledgment.
//!
//! A segment from `seq` to `end` with the acknowledgment `ack` (or the right edge of its highest SACK block)
//! passes if
//!
//! 1. `seq <= sender.max_end`,
//! 2. `end >= sender.end - receiver.max_window`,
//! 3. `ack <= receiver.end`,
//! 4. `ack >= receiver.end - max(66000, sender.max_window)`.
//!
//! # Limits
//! A connection whose beginning was not seen is *picked up* (`nf_conntrack_tcp_loose`) with windows that are
//! not enforced, since the window scale is unknown. SYN proxies are not supported.

mod table;
#[cfg(test)]
mod tests;
mod window;

pub(crate) use table::{Kind, Transition, transition};
pub(crate) use window::Segment;

use crate::conn::{CtStatus, Jiffies, seconds};
use crate::settings::Settings;
use crate::tuple::TupleDirection;
use bitflags::bitflags;
use window::WindowVerdict;

/// State of a connection (`enum tcp_conntrack`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum TcpState {
    /// Nothing seen.
    #[default]
    None,
    /// SYN seen.
    SynSent,
    /// SYN and ACK seen in answer.
    SynRecv,
    /// Acknowledgment seen.
    Established,
    /// FIN seen.
    FinWait,
    /// Acknowledgment seen after a FIN.
    CloseWait,
    /// Second FIN seen.
    LastAck,
    /// Acknowledgment of the second FIN seen.
    TimeWait,
    /// RST seen.
    Close,
    /// SYN seen from both sides: simultaneous open.
    SynSent2,
}

impl TcpState {
    /// All states, in order of number.
    pub const ALL: [TcpState; 10] = [
        TcpState::None,
        TcpState::SynSent,
        TcpState::SynRecv,
        TcpState::Established,
        TcpState::FinWait,
        TcpState::CloseWait,
        TcpState::LastAck,
        TcpState::TimeWait,
        TcpState::Close,
        TcpState::SynSent2,
    ];

    /// State of a number.
    pub fn from_number(number: u8) -> Option<TcpState> {
        TcpState::ALL.get(usize::from(number)).copied()
    }

    /// Name in listings.
    pub const fn name(self) -> &'static str {
        match self {
            TcpState::None => "NONE",
            TcpState::SynSent => "SYN_SENT",
            TcpState::SynRecv => "SYN_RECV",
            TcpState::Established => "ESTABLISHED",
            TcpState::FinWait => "FIN_WAIT",
            TcpState::CloseWait => "CLOSE_WAIT",
            TcpState::LastAck => "LAST_ACK",
            TcpState::TimeWait => "TIME_WAIT",
            TcpState::Close => "CLOSE",
            TcpState::SynSent2 => "SYN_SENT2",
        }
    }

    /// True if an entry in this state may be evicted although it is assured.
    pub const fn may_be_evicted(self) -> bool {
        matches!(
            self,
            TcpState::FinWait
                | TcpState::LastAck
                | TcpState::TimeWait
                | TcpState::Close
                | TcpState::CloseWait
        )
    }
}

bitflags! {
    /// Properties of one side: `IP_CT_TCP_FLAG_*`.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub(crate) struct SideFlags: u8 {
        /// The side offered window scaling.
        const WINDOW_SCALE = 0x01;
        /// The side permits SACK.
        const SACK_PERM = 0x02;
        /// The side sent the first FIN.
        const CLOSE_INIT = 0x04;
        /// Windows are not enforced.
        const BE_LIBERAL = 0x08;
        /// Data has not been acknowledged.
        const DATA_UNACKNOWLEDGED = 0x10;
        /// `max_ack` is known.
        const MAX_ACK_SET = 0x20;
        /// An ignored SYN may be answered by a challenge ACK (RFC 5961).
        const EXPECT_CHALLENGE_ACK = 0x40;
        /// SYNs crossed.
        const SIMULTANEOUS_OPEN = 0x80;
    }
}

/// State of one side (`struct ip_ct_tcp_state`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Side {
    pub end: u32,
    pub max_end: u32,
    /// 0 while the side has not been seen.
    pub max_window: u32,
    pub max_ack: u32,
    pub scale: u8,
    pub flags: SideFlags,
}

/// State of a connection (`struct ip_ct_tcp`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TcpTrack {
    pub sides: [Side; 2],
    pub state: TcpState,
    /// Direction, kind and numbers of the last segment.
    last_direction: TupleDirection,
    last_kind: Kind,
    last_seq: u32,
    last_ack: u32,
    last_end: u32,
    last_window: u16,
    last_scale: u8,
    last_flags: SideFlags,
    /// Number of times that the last segment has been repeated.
    retransmissions: u8,
}

impl Default for TcpTrack {
    fn default() -> TcpTrack {
        TcpTrack {
            sides: [Side::default(); 2],
            state: TcpState::None,
            last_direction: TupleDirection::Original,
            last_kind: Kind::None,
            last_seq: 0,
            last_ack: 0,
            last_end: 0,
            last_window: 0,
            last_scale: 0,
            last_flags: SideFlags::empty(),
            retransmissions: 0,
        }
    }
}

/// Properties of the connection that the state machine looks at.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TcpContext<'a> {
    pub direction: TupleDirection,
    pub status: CtStatus,
    /// Ticks until the connection expires.
    pub left: Jiffies,
    pub settings: &'a Settings,
}

/// Effect of a segment on its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TcpDisposition {
    /// The segment is not part of the connection, whose remaining time may be reduced.
    Invalid {
        /// New remaining time.
        shorten: Option<Jiffies>,
    },
    /// The segment passes without an effect on the state.
    Ignored,
    /// The segment begins the connection anew: the entry is to be deleted and the segment tracked again.
    Reopened,
    /// The segment is part of the connection.
    Accepted {
        /// New remaining time; `None` leaves the old one, and the packet is not counted.
        timeout: Option<Jiffies>,
        /// The state changed.
        changed: bool,
        /// The connection becomes assured.
        assured: bool,
        /// The entry is to be deleted: the only answer was a RST.
        kill: bool,
    },
}

impl TcpTrack {
    /// State of a connection that a segment begins (`tcp_new`). `None` if it cannot begin one.
    pub fn new(segment: &Segment<'_>, settings: &Settings) -> Option<TcpTrack> {
        let Transition::To(state) = transition(TupleDirection::Original, segment.kind, TcpState::None) else {
            return None;
        };
        let mut track = TcpTrack::default();
        let side = &mut track.sides[0];
        side.end = segment.end;
        side.max_window = u32::from(segment.window).max(1);
        side.max_end = side.end;
        if state == TcpState::SynSent {
            side.take_options(segment);
        } else {
            if settings.tcp_loose == 0 {
                return None;
            }
            side.max_end = side.end.wrapping_add(side.max_window);
            // SACK and liberal windows are assumed, since the options have not been seen.
            let assumed = SideFlags::SACK_PERM | SideFlags::BE_LIBERAL;
            track.sides[0].flags = assumed;
            track.sides[1].flags = assumed;
        }
        Some(track)
    }

    fn side(&mut self, direction: TupleDirection) -> &mut Side {
        &mut self.sides[direction as usize]
    }

    /// Takes a segment (`nf_conntrack_tcp_packet`). `offset` is the adjustment of the peer's sequence
    /// numbers, by which a helper has shifted the acknowledgment.
    pub fn segment(&mut self, segment: &Segment<'_>, offset: i32, context: TcpContext<'_>) -> TcpDisposition {
        let old = self.state;
        let new = match transition(context.direction, segment.kind, old) {
            Transition::Invalid => return TcpDisposition::Invalid { shorten: None },
            Transition::Ignore => match self.ignore(segment, context.direction) {
                Some(resynchronised) => resynchronised,
                None => return TcpDisposition::Ignored,
            },
            Transition::To(TcpState::SynSent) if old >= TcpState::TimeWait => {
                if self.may_reopen(context.direction) {
                    return TcpDisposition::Reopened;
                }
                match self.ignore(segment, context.direction) {
                    Some(resynchronised) => resynchronised,
                    None => return TcpDisposition::Ignored,
                }
            }
            Transition::To(state) => Effective { old, new: state },
        };
        let Effective { old, mut new } = new;
        match new {
            TcpState::TimeWait if self.is_challenge_ack(segment, old, context.direction) => {
                self.last_flags.remove(SideFlags::EXPECT_CHALLENGE_ACK);
                return TcpDisposition::Ignored;
            }
            TcpState::SynSent2 => self.last_flags.insert(SideFlags::SIMULTANEOUS_OPEN),
            TcpState::SynRecv
                if context.direction == TupleDirection::Reply
                    && segment.kind == Kind::Ack
                    && self.last_flags.contains(SideFlags::SIMULTANEOUS_OPEN) =>
            {
                new = TcpState::Established;
            }
            TcpState::Close if segment.kind == Kind::Rst => match self.judge_reset(segment, old, &context) {
                Reset::Invalid => return TcpDisposition::Invalid { shorten: None },
                Reset::InWindow(state) => {
                    return self.accept(segment, Effective { old, new: state }, &context);
                }
                Reset::Check(state) => new = state,
            },
            _ => {}
        }
        let liberal = context.settings.tcp_be_liberal != 0;
        match self.check_window(segment, offset, context.direction, liberal) {
            WindowVerdict::Accept => self.accept(segment, Effective { old, new }, &context),
            WindowVerdict::Ignore => TcpDisposition::Ignored,
            WindowVerdict::Invalid => TcpDisposition::Invalid { shorten: self.suspect(segment, &context) },
        }
    }

    /// Handles a segment that only its answer can judge: a SYN of the original side, a SYN-ACK of the reply
    /// side, or an acknowledgment in answer to the first SYN. `Some` if it is the answer to an ignored SYN,
    /// so that both ends are in step and the tracker has to follow.
    fn ignore(&mut self, segment: &Segment<'_>, direction: TupleDirection) -> Option<Effective> {
        if segment.kind == Kind::SynAck
            && self.last_kind == Kind::Syn
            && self.last_direction != direction
            && segment.ack == self.last_end
        {
            let (end, window) = (self.last_end, u32::from(self.last_window).max(1));
            let (scale, last) = (self.last_scale, self.last_direction);
            self.last_flags.remove(SideFlags::EXPECT_CHALLENGE_ACK);
            let flags = self.last_flags;
            let side = self.side(last);
            (side.end, side.max_end, side.max_window) = (end, end, window);
            (side.scale, side.flags) = (scale, flags);
            self.side(direction).forget();
            return Some(Effective { old: TcpState::SynSent, new: TcpState::SynRecv });
        }
        let old = self.state;
        self.last_kind = segment.kind;
        self.last_direction = direction;
        self.last_seq = segment.seq;
        self.last_end = segment.end;
        self.last_window = segment.window;
        if segment.kind == Kind::Syn && direction == TupleDirection::Original {
            let mut seen = Side::default();
            seen.take_options(segment);
            self.last_flags = seen.flags & (SideFlags::WINDOW_SCALE | SideFlags::SACK_PERM);
            self.last_scale = seen.scale;
            // In LAST_ACK a challenge ACK would be taken for that of the last FIN.
            self.last_flags.set(SideFlags::EXPECT_CHALLENGE_ACK, old == TcpState::LastAck);
        }
        if old == TcpState::SynSent && segment.kind == Kind::Ack && direction == TupleDirection::Reply {
            self.last_ack = segment.ack;
        }
        None
    }

    /// True if a SYN may begin a closed or aborted connection anew (RFC 1122, section 4.2.2.13).
    fn may_reopen(&self, direction: TupleDirection) -> bool {
        (self.sides[0].flags | self.sides[1].flags).contains(SideFlags::CLOSE_INIT)
            || self.last_direction == direction && self.last_kind == Kind::Rst
    }

    fn is_challenge_ack(&self, segment: &Segment<'_>, old: TcpState, direction: TupleDirection) -> bool {
        old == TcpState::LastAck
            && segment.kind == Kind::Ack
            && self.last_direction != direction
            && self.last_kind == Kind::Syn
            && self.last_flags.contains(SideFlags::EXPECT_CHALLENGE_ACK)
    }

    /// Judges a RST by its sequence number (RFC 5961, section 3.2).
    fn judge_reset(&self, segment: &Segment<'_>, old: TcpState, context: &TcpContext<'_>) -> Reset {
        // A closing connection's numbers may be those of the previous use of its ports.
        if self.state.may_be_evicted() {
            return Reset::InWindow(TcpState::Close);
        }
        let peer = &self.sides[context.direction.opposite() as usize];
        let assured = context.status.contains(CtStatus::ASSURED);
        let established = self.state == TcpState::Established && assured;
        let mut new = TcpState::Close;
        if peer.flags.contains(SideFlags::MAX_ACK_SET) && self.last_kind != Kind::Syn {
            // An answer to a SYN that was ignored.
            if segment.seq == 0 && !established {
                return Reset::Check(new);
            }
            if before(segment.seq, peer.max_ack) && context.settings.tcp_ignore_invalid_rst == 0 {
                return Reset::Invalid;
            }
            if !established || segment.seq == peer.max_ack {
                return Reset::Check(new);
            }
            // The RST follows the last data of the same side.
            if self.last_kind == Kind::Ack
                && self.last_direction == context.direction
                && segment.seq == self.last_end
            {
                return Reset::Check(new);
            }
            // "If the RST bit is set and the sequence number does not exactly match the next expected
            // sequence value, yet is within the current receive window, TCP endpoints MUST send an
            // acknowledgment (challenge ACK)": the connection may go on.
            new = old;
        }
        let seen_reply = context.status.contains(CtStatus::SEEN_REPLY);
        let answers_ignored =
            seen_reply && self.last_kind == Kind::Syn || !assured && self.last_kind == Kind::Ack;
        if answers_ignored && segment.ack == self.last_end {
            return Reset::InWindow(new);
        }
        // The answer to a challenge ACK that passed.
        if old == TcpState::SynSent
            && self.last_kind == Kind::Ack
            && self.last_direction == TupleDirection::Reply
            && segment.seq == self.last_ack
        {
            return Reset::InWindow(new);
        }
        Reset::Check(new)
    }

    /// Reduces the time of a connection whose ends seem to close it out of the tracker's window
    /// (`nf_tcp_handle_invalid`).
    fn suspect(&mut self, segment: &Segment<'_>, context: &TcpContext<'_>) -> Option<Jiffies> {
        const LEAST: Jiffies = seconds(120);
        if !context.status.contains(CtStatus::ASSURED) || context.status.contains(CtStatus::FIXED_TIMEOUT) {
            return None;
        }
        if !matches!(segment.kind, Kind::Rst | Kind::Fin) {
            return None;
        }
        if self.last_direction != context.direction && matches!(self.last_kind, Kind::Fin | Kind::Rst) {
            let limit = seconds(context.settings.tcp_unacknowledged);
            return (context.left >= LEAST && context.left > limit).then_some(limit);
        }
        self.last_kind = segment.kind;
        self.last_direction = context.direction;
        None
    }

    /// Takes a segment within the windows: state, timeout and marks of the connection.
    fn accept(
        &mut self,
        segment: &Segment<'_>,
        Effective { old, new }: Effective,
        context: &TcpContext<'_>,
    ) -> TcpDisposition {
        let settings = context.settings;
        self.last_kind = segment.kind;
        self.last_direction = context.direction;
        self.state = new;
        if old != new && new == TcpState::FinWait {
            self.side(context.direction).flags.insert(SideFlags::CLOSE_INIT);
        }
        let full = settings.tcp_timeout(new);
        let unacknowledged =
            (self.sides[0].flags | self.sides[1].flags).contains(SideFlags::DATA_UNACKNOWLEDGED);
        let mut timeout = if u32::from(self.retransmissions) >= settings.tcp_max_retrans
            && full > settings.tcp_timeout_max_retrans
        {
            settings.tcp_timeout_max_retrans
        } else if segment.kind == Kind::Rst {
            settings.tcp_timeout(TcpState::Close)
        } else if unacknowledged && full > settings.tcp_unacknowledged {
            settings.tcp_unacknowledged
        } else if self.last_window == 0 && full > settings.tcp_timeout_max_retrans {
            settings.tcp_timeout_max_retrans
        } else {
            full
        };
        let changed = old != new;
        let mut assured = false;
        if !context.status.contains(CtStatus::SEEN_REPLY) {
            if segment.kind == Kind::Rst {
                return TcpDisposition::Accepted { timeout: None, changed, assured, kill: true };
            }
            // A repeated SYN does not prolong the entry: its ports could be held for ever.
            if segment.kind == Kind::Syn && old == TcpState::SynSent {
                return TcpDisposition::Accepted { timeout: None, changed, assured, kill: false };
            }
            // A connection that was picked up, and not been answered yet.
            if new == TcpState::Established {
                timeout = timeout.min(settings.tcp_unacknowledged);
            }
        } else if !context.status.contains(CtStatus::ASSURED) {
            assured =
                matches!(old, TcpState::SynRecv | TcpState::Established) && new == TcpState::Established;
        }
        TcpDisposition::Accepted { timeout: Some(seconds(timeout)), changed, assured, kill: false }
    }
}

/// Transition as it takes effect.
struct Effective {
    old: TcpState,
    new: TcpState,
}

/// Verdict on a RST, with the state that follows.
enum Reset {
    Invalid,
    /// It is believed whatever the windows are.
    InWindow(TcpState),
    /// The windows decide.
    Check(TcpState),
}

/// True if the sequence number `a` precedes `b`.
const fn before(a: u32, b: u32) -> bool {
    (a.wrapping_sub(b) as i32) < 0
}

/// True if the sequence number `a` follows `b`.
const fn after(a: u32, b: u32) -> bool {
    before(b, a)
}
