//! Kinds of segments, and the state transition table.

use super::TcpState;
use crate::tuple::TupleDirection;
use belljar_wire::tcp::Flags;

/// Kind of a segment by its flags; of several flags RST counts first, then SYN, FIN and ACK.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// SYN.
    Syn,
    /// SYN and ACK.
    SynAck,
    /// FIN.
    Fin,
    /// ACK alone.
    Ack,
    /// RST.
    Rst,
    /// None of these.
    None,
}

impl Kind {
    /// All kinds, in the order of the table's rows.
    #[cfg(test)]
    pub const ALL: [Kind; 6] = [Kind::Syn, Kind::SynAck, Kind::Fin, Kind::Ack, Kind::Rst, Kind::None];

    /// Kind of a segment with these flags.
    pub fn of(flags: Flags) -> Kind {
        match flags {
            flags if flags.contains(Flags::RST) => Kind::Rst,
            flags if flags.contains(Flags::SYN | Flags::ACK) => Kind::SynAck,
            flags if flags.contains(Flags::SYN) => Kind::Syn,
            flags if flags.contains(Flags::FIN) => Kind::Fin,
            flags if flags.contains(Flags::ACK) => Kind::Ack,
            _ => Kind::None,
        }
    }
}

/// Effect of a segment on the state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Transition {
    /// The state becomes this one, if the segment is within the windows.
    To(TcpState),
    /// The segment passes, and its answer decides.
    Ignore,
    /// The segment is not part of the connection.
    Invalid,
}

/// State that follows `state` after a segment of a kind and direction.
pub(crate) fn transition(direction: TupleDirection, kind: Kind, state: TcpState) -> Transition {
    use TcpState::{
        Close, CloseWait, Established, FinWait, LastAck, None as Nothing, SynRecv, SynSent, SynSent2,
        TimeWait,
    };
    use Transition::{Ignore, Invalid, To};
    let original = direction == TupleDirection::Original;
    match kind {
        Kind::Syn if original => match state {
            Nothing | SynSent | TimeWait | Close => To(SynSent),
            SynSent2 => To(SynSent2),
            // The receiver answers with a RST or a challenge ACK, unless it has lost the connection.
            SynRecv | Established | FinWait | CloseWait | LastAck => Ignore,
        },
        Kind::Syn => match state {
            // Simultaneous open.
            SynSent | SynSent2 => To(SynSent2),
            // The former server connects to the former client.
            TimeWait => To(SynSent),
            _ => Invalid,
        },
        // The answer to the other SYN of a simultaneous open, and repeated.
        Kind::SynAck if original => match state {
            SynRecv | SynSent2 => To(SynRecv),
            _ => Invalid,
        },
        Kind::SynAck => match state {
            Nothing => Invalid,
            SynSent | SynSent2 => To(SynRecv),
            _ => Ignore,
        },
        // Either side may close first. A second FIN may be the first one repeated.
        Kind::Fin => match state {
            Nothing | SynSent | SynSent2 => Invalid,
            SynRecv | Established => To(FinWait),
            FinWait | CloseWait | LastAck => To(LastAck),
            TimeWait => To(TimeWait),
            Close => To(Close),
        },
        Kind::Ack => match state {
            // A connection whose beginning was not seen.
            Nothing if original => To(Established),
            Nothing => Invalid,
            SynSent | SynSent2 if original => Invalid,
            // The server may have the connection still half open.
            SynSent | SynSent2 => Ignore,
            SynRecv if original => To(Established),
            // The answer to a SYN repeated late.
            SynRecv => To(SynRecv),
            Established => To(Established),
            FinWait | CloseWait => To(CloseWait),
            LastAck | TimeWait => To(TimeWait),
            Close => To(Close),
        },
        Kind::Rst => match state {
            Nothing => Invalid,
            _ => To(Close),
        },
        Kind::None => Invalid,
    }
}
