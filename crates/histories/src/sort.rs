//! Sorting: a few functions that are compiled once, as each use of a sort costs the compiler some thousand lines.

use std::cmp::Ordering;

/// Sorts pairs, such as a line and what stands there.
pub(crate) fn pairs(pairs: &mut [(usize, usize)]) {
    pairs.sort_unstable();
}

/// Numbers from 0 to `length`, in the order of what they stand for. Equal ones stay in ascending order.
pub(crate) fn order(length: usize, compare: &dyn Fn(usize, usize) -> Ordering) -> Vec<usize> {
    let mut order: Vec<usize> = (0..length).collect();
    order.sort_unstable_by(|&one, &other| compare(one, other).then(one.cmp(&other)));
    order
}
