//! Disjoint sets of numbers that grow by joining (union-find).

/// Disjoint sets of the numbers below a count, each represented by its smallest member.
#[derive(Clone, Debug)]
pub struct DisjointSets {
    /// A smaller or equal member of the same set, by number; the representative has itself.
    parent: Vec<usize>,
}

impl DisjointSets {
    /// Creates `count` sets of one number each.
    pub fn new(count: usize) -> DisjointSets {
        DisjointSets { parent: (0..count).collect() }
    }

    /// Smallest member of the set of a number.
    pub fn smallest(&mut self, mut number: usize) -> usize {
        while self.parent[number] != number {
            self.parent[number] = self.parent[self.parent[number]];
            number = self.parent[number];
        }
        number
    }

    /// Joins the sets of two numbers.
    pub fn join(&mut self, one: usize, other: usize) {
        let (one, other) = (self.smallest(one), self.smallest(other));
        self.parent[one.max(other)] = one.min(other);
    }

    /// Smallest member of the set of each number.
    pub fn into_smallest(mut self) -> Vec<usize> {
        (0..self.parent.len()).map(|number| self.smallest(number)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn joined_sets_have_their_smallest_member() {
        let mut sets = DisjointSets::new(7);
        for (one, other) in [(5, 6), (4, 5), (1, 2), (6, 2), (3, 3), (2, 5)] {
            sets.join(one, other);
        }
        assert_eq!((sets.smallest(6), sets.smallest(0)), (1, 0));
        assert_eq!(sets.into_smallest(), [0, 1, 1, 3, 1, 1, 1]);
    }
}
