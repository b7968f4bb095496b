use std::cmp::Ordering;
use std::fmt;

/// A sequence number: a point on a circle of 2^32 (RFC 9293, section 3.4). Two of them compare by
/// the shorter way round, so the order is meaningful for points less than 2^31 apart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Seq(pub u32);

impl Seq {
    /// The point `n` further on.
    #[must_use]
    pub const fn wrapping_add(self, n: u32) -> Seq {
        Seq(self.0.wrapping_add(n))
    }

    /// The distance from `other` to `self`; negative if `self` lies behind.
    pub const fn distance(self, other: Seq) -> i32 {
        self.0.wrapping_sub(other.0) as i32
    }

    /// True if `self` lies strictly before `other`.
    pub const fn before(self, other: Seq) -> bool {
        self.distance(other) < 0
    }

    /// True if `self` lies strictly after `other`.
    pub const fn after(self, other: Seq) -> bool {
        self.distance(other) > 0
    }
}

/// Not `Ord`: the order on a circle is not transitive.
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
