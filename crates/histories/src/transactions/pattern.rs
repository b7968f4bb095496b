//! Patterns: the sequences of edges that make a cycle an anomaly, as small automata.

use super::anomaly::{Anomaly, Extra};
use super::graph::EdgeKind;

/// Shape of a cycle without regard to edges of order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    G0,
    G1c,
    Single,
    Nonadjacent,
    G2Item,
}

/// Cycles of one anomaly. A walk starts in state 0 at the cycle's most telling edge, and is a cycle if it returns in an accepting state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Pattern {
    shape: Shape,
    extra: Extra,
}

/// Number of states of a pattern.
pub(super) const STATES: usize = 10;

impl Pattern {
    /// All patterns; those that only differ in edges of order stand together, the ones with fewer such edges first.
    pub fn all() -> impl Iterator<Item = Pattern> {
        let shapes = [Shape::G0, Shape::G1c, Shape::Single, Shape::Nonadjacent, Shape::G2Item];
        let extras = [Extra::None, Extra::Process, Extra::Realtime];
        shapes
            .into_iter()
            .flat_map(move |shape| extras.into_iter().map(move |extra| Pattern { shape, extra }))
    }

    /// Anomaly that a cycle of the pattern is.
    pub fn anomaly(self) -> Anomaly {
        match self.shape {
            Shape::G0 => Anomaly::G0(self.extra),
            Shape::G1c => Anomaly::G1c(self.extra),
            Shape::Single => Anomaly::GSingle(self.extra),
            Shape::Nonadjacent => Anomaly::GNonadjacent(self.extra),
            Shape::G2Item => Anomaly::G2Item(self.extra),
        }
    }

    /// True if every cycle of the other pattern excludes what one of this pattern does.
    pub fn is_implied_by(self, other: Pattern) -> bool {
        let is_same =
            self.shape == other.shape || self.shape == Shape::Nonadjacent && other.shape == Shape::Single;
        is_same && other.extra <= self.extra
    }

    /// Set of the kinds of edges that occur.
    pub fn kinds(self) -> u8 {
        let dependencies = match self.shape {
            Shape::G0 => EdgeKind::Ww.bit(),
            Shape::G1c => EdgeKind::Ww.bit() | EdgeKind::Wr.bit(),
            _ => EdgeKind::Ww.bit() | EdgeKind::Wr.bit() | EdgeKind::Rw.bit(),
        };
        dependencies
            | match self.extra {
                Extra::None => 0,
                Extra::Process => EdgeKind::Process.bit(),
                Extra::Realtime => EdgeKind::Process.bit() | EdgeKind::Realtime.bit(),
            }
    }

    /// State after an edge, or none if the edge cannot be next.
    pub fn next(self, state: u8, kind: EdgeKind) -> Option<u8> {
        let (base, mut ordered) = (state / 2, state % 2);
        if kind.bit() & self.kinds() == 0 {
            return None;
        }
        let is_order = matches!(kind, EdgeKind::Process | EdgeKind::Realtime);
        ordered |= u8::from(is_order);
        let is_rw = kind == EdgeKind::Rw;
        let base = match (self.shape, base) {
            (Shape::G0, 0) if kind != EdgeKind::Ww => return None,
            (Shape::G0, _) => 1,
            (Shape::G1c, 0) if kind != EdgeKind::Wr => return None,
            (Shape::G1c, _) => 1,
            (Shape::Single | Shape::Nonadjacent, 0) if !is_rw => return None,
            (Shape::Single, 0) => 1,
            (Shape::Single, _) if is_rw => return None,
            (Shape::Single, _) => 1,
            // States: 1 after the first rw, 2 after others, 3 after a further rw, 4 after others.
            (Shape::Nonadjacent, 0) => 1,
            (Shape::Nonadjacent, 1 | 3) if is_rw => return None,
            (Shape::Nonadjacent, 1) => 2,
            (Shape::Nonadjacent, 2) if !is_rw => 2,
            (Shape::Nonadjacent, 2 | 4) if is_rw => 3,
            (Shape::Nonadjacent, _) => 4,
            (Shape::G2Item, 0 | 1) if !is_rw => return None,
            (Shape::G2Item, 0) => 1,
            (Shape::G2Item, _) => 2,
        };
        Some(base * 2 + ordered)
    }

    /// True if a walk that is back where it started is a cycle of the pattern.
    pub fn accepts(self, state: u8) -> bool {
        let base = match self.shape {
            Shape::G0 | Shape::G1c | Shape::Single => 1,
            Shape::Nonadjacent => 4,
            Shape::G2Item => 2,
        };
        state / 2 == base && (self.extra == Extra::None || state % 2 == 1)
    }
}
