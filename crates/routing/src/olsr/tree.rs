//! The tree of shortest paths as it was last found, by which most changes of the topology are known to change no route.
//!
//! Routes are found by a search in breadth from the 2-hop neighbours, which looks at topology tuples in a fixed order. A tuple by which
//! it found nobody, because its destination was found before, can go without a change to the search; one that comes changes nothing
//! if its destination is found before the search gets to it. Nodes have ranks in the order in which they are found.

/// A node's place in the tree.
#[derive(Clone, Copy, Debug)]
struct Place {
    /// From 1; 0 for nodes whose tuples the search does not look at: neighbours, and those that it does not find.
    rank: u32,
    /// The rank of the node by which it was found: 0 for nodes within two hops, `NOT_FOUND`, or `UNKNOWN`.
    by: u32,
}

const NOT_FOUND: u32 = u32::MAX;
/// The number was given to another node after the search.
const UNKNOWN: u32 = u32::MAX - 1;

/// The places of nodes, by their numbers. See the [module](self).
#[derive(Debug, Default)]
pub(super) struct Tree {
    places: Vec<Place>,
    found: u32,
}

impl Tree {
    /// A tree of which nothing is found yet.
    pub fn new(nodes: usize) -> Tree {
        Tree { places: vec![Place { rank: 0, by: NOT_FOUND }; nodes], found: 0 }
    }
    /// A node is within two hops.
    pub fn is_near(&mut self, node: usize) {
        self.places[node].by = 0;
    }
    /// The search will look at the tuples of a node.
    pub fn follow(&mut self, node: usize) {
        self.found += 1;
        self.places[node].rank = self.found;
    }
    /// The search has found a node by a tuple of another, and will look at its tuples.
    pub fn find(&mut self, node: usize, by: usize) {
        self.places[node].by = self.places[by].rank;
        self.follow(node);
    }
    /// A number stands for a node that did not have it when the tree was found.
    pub fn forget(&mut self, node: usize) {
        if let Some(place) = self.places.get_mut(node) {
            *place = Place { rank: UNKNOWN, by: UNKNOWN };
        }
    }
    fn place(&self, node: u32) -> Place {
        self.places.get(node as usize).copied().unwrap_or(Place { rank: UNKNOWN, by: UNKNOWN })
    }
    /// True unless a tuple that goes leaves all routes as they are.
    pub fn is_used(&self, [last, to]: [u32; 2]) -> bool {
        let (last, to) = (self.place(last), self.place(to));
        last.rank == UNKNOWN || to.by == UNKNOWN || (last.rank > 0 && to.by == last.rank)
    }
    /// True unless a tuple that comes leaves all routes as they are.
    pub fn is_shorter(&self, [last, to]: [u32; 2]) -> bool {
        let (last, to) = (self.place(last), self.place(to));
        last.rank == UNKNOWN || to.by == UNKNOWN || (last.rank > 0 && to.by > last.rank)
    }
}
