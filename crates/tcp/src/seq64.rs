//! 64-bit sequence numbers within a connection, which never wrap: the low half is the number on the wire.
//! They compare as integers; modular arithmetic is confined to the conversions.

use belljar_wire::tcp::Seq;

/// 64-bit number of an initial sequence number. It starts one wrap above zero, so that slightly older numbers
/// stay positive.
pub(crate) const fn from_initial(isn: u32) -> u64 {
    (1 << 32) | isn as u64
}

/// Sequence number on the wire.
pub(crate) const fn wire(seq: u64) -> Seq {
    Seq(seq as u32)
}

/// 64-bit number closest to `near` whose low half is `seq`.
pub(crate) const fn unwrap(seq: Seq, near: u64) -> u64 {
    near.wrapping_add_signed(seq.0.wrapping_sub(near as u32) as i32 as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unwraps_to_the_nearest() {
        let near = from_initial(u32::MAX);
        assert_eq!(unwrap(Seq(3), near), near + 4);
        assert_eq!(unwrap(Seq(u32::MAX - 5), near + 10), near - 5);
        assert_eq!(wire(near + 4), Seq(3));
        assert_eq!(unwrap(Seq(7), from_initial(7)), from_initial(7));
    }
}
