use std::cmp::Ordering;
use std::fmt;

/// Sequence number: a point on a circle of 2^32 (RFC 9293, section 3.4). Comparison follows the shorter arc,
/// so the order is meaningful for numbers less than 2^31 apart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Seq(pub u32);

impl Seq {
    /// Sequence number advanced by `n`.
    #[must_use]
    pub const fn wrapping_add(self, n: u32) -> Seq {
        Seq(self.0.wrapping_add(n))
    }

    /// Distance from `other` to `self`; negative if `self` precedes `other`.
    pub const fn distance(self, other: Seq) -> i32 {
        self.0.wrapping_sub(other.0) as i32
    }

    /// True if `self` strictly precedes `other`.
    pub const fn before(self, other: Seq) -> bool {
        self.distance(other) < 0
    }

    /// True if `self` strictly follows `other`.
    pub const fn after(self, other: Seq) -> bool {
        self.distance(other) > 0
    }
}

/// Partial order only, because the order on a circle is not transitive.
impl PartialOrd for Seq {
    fn partial_cmp(&self, other: &Seq) -> Option<Ordering> {
        Some(self.distance(*other).cmp(&0))
    }
}

impl fmt::Display for Seq {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}
