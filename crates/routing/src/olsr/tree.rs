//! Tree of shortest paths of the last computation, which shows that most changes of the topology change no
//! route.
//!
//! Routes are computed by a breadth-first search from the 2-hop neighbours, which examines topology tuples in
//! a fixed order. A tuple whose destination had been found before can be removed without affecting the
//! search. A new tuple has no effect if the search finds its destination before it examines the tuple. Nodes
//! are ranked in the order of discovery.

/// Position of a node in the tree.
#[derive(Clone, Copy, Debug)]
struct Place {
    /// Rank of the node, from 1; 0 for nodes whose tuples the search does not examine: neighbours and
    /// unreachable nodes.
    rank: u32,
    /// Rank of the node from which it was found: 0 for nodes within two hops, `NOT_FOUND`, or `UNKNOWN`.
    by: u32,
}

const NOT_FOUND: u32 = u32::MAX;
/// The number was assigned to another node after the search.
const UNKNOWN: u32 = u32::MAX - 1;

/// Positions of nodes by number. See the [module](self).
#[derive(Debug, Default)]
pub(super) struct Tree {
    places: Vec<Place>,
    found: u32,
}

impl Tree {
    /// A tree before the search.
    pub fn new(nodes: usize) -> Tree {
        Tree { places: vec![Place { rank: 0, by: NOT_FOUND }; nodes], found: 0 }
    }
    /// Marks a node as within two hops.
    pub fn is_near(&mut self, node: usize) {
        self.places[node].by = 0;
    }
    /// Assigns the next rank to a node whose tuples the search will examine.
    pub fn follow(&mut self, node: usize) {
        self.found += 1;
        self.places[node].rank = self.found;
    }
    /// Records that the search found a node by a tuple of another, and assigns its rank.
    pub fn find(&mut self, node: usize, by: usize) {
        self.places[node].by = self.places[by].rank;
        self.follow(node);
    }
    /// Marks a number that has been assigned to another node since the search.
    pub fn forget(&mut self, node: usize) {
        if let Some(place) = self.places.get_mut(node) {
            *place = Place { rank: UNKNOWN, by: UNKNOWN };
        }
    }
    fn place(&self, node: u32) -> Place {
        self.places.get(node as usize).copied().unwrap_or(Place { rank: UNKNOWN, by: UNKNOWN })
    }
    /// True if the removal of a tuple may change routes.
    pub fn is_used(&self, [last, to]: [u32; 2]) -> bool {
        let (last, to) = (self.place(last), self.place(to));
        last.rank == UNKNOWN || to.by == UNKNOWN || (last.rank > 0 && to.by == last.rank)
    }
    /// True if the addition of a tuple may change routes.
    pub fn is_shorter(&self, [last, to]: [u32; 2]) -> bool {
        let (last, to) = (self.place(last), self.place(to));
        last.rank == UNKNOWN || to.by == UNKNOWN || (last.rank > 0 && to.by > last.rank)
    }
}
