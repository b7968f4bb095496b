//! Topologies that `broadcast` offers to nodes: the neighbours of each.

use clap::ValueEnum;
use serde_json::{Map, Value, json};

/// Arrangement of the nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Topology {
    /// A row
    Line,
    /// A square, with up to 4 neighbours
    Grid,
    /// A tree whose nodes have 2 children
    #[value(alias = "tree2")]
    Tree,
    /// A tree whose nodes have 3 children
    Tree3,
    /// A tree whose nodes have 4 children
    Tree4,
    /// All are neighbours of all
    Total,
}

impl Topology {
    /// Name, as the command line has it.
    pub fn name(self) -> &'static str {
        match self {
            Topology::Line => "line",
            Topology::Grid => "grid",
            Topology::Tree => "tree",
            Topology::Tree3 => "tree3",
            Topology::Tree4 => "tree4",
            Topology::Total => "total",
        }
    }

    /// Neighbours of each node, as the message `topology` has them.
    pub fn neighbours(self, nodes: &[String]) -> Value {
        let count = nodes.len();
        let map: Map<String, Value> = (0..count)
            .map(|one| {
                let others = (0..count).filter(|&other| other != one && self.joins(count, one, other));
                (nodes[one].clone(), json!(others.map(|other| &nodes[other]).collect::<Vec<_>>()))
            })
            .collect();
        Value::Object(map)
    }

    /// True if two of `count` nodes are neighbours.
    fn joins(self, count: usize, one: usize, other: usize) -> bool {
        let (low, high) = (one.min(other), one.max(other));
        let child = |branches: usize| (high - 1) / branches == low;
        match self {
            Topology::Total => true,
            Topology::Line => high - low == 1,
            Topology::Grid => {
                let side = (1..).find(|side| side * side >= count).unwrap_or(1);
                high - low == side || (high - low == 1 && high % side != 0)
            }
            Topology::Tree => child(2),
            Topology::Tree3 => child(3),
            Topology::Tree4 => child(4),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn neighbours(topology: Topology, count: usize) -> String {
        let nodes: Vec<String> = (0..count).map(|index| format!("n{index}")).collect();
        topology.neighbours(&nodes).to_string()
    }

    #[test]
    fn topologies_are_those_of_maelstrom() {
        assert_eq!(neighbours(Topology::Line, 3), r#"{"n0":["n1"],"n1":["n0","n2"],"n2":["n1"]}"#);
        assert_eq!(
            neighbours(Topology::Grid, 5),
            r#"{"n0":["n1","n3"],"n1":["n0","n2","n4"],"n2":["n1"],"n3":["n0","n4"],"n4":["n1","n3"]}"#
        );
        assert_eq!(
            neighbours(Topology::Tree, 4),
            r#"{"n0":["n1","n2"],"n1":["n0","n3"],"n2":["n0"],"n3":["n1"]}"#
        );
        assert_eq!(neighbours(Topology::Tree4, 3), r#"{"n0":["n1","n2"],"n1":["n0"],"n2":["n0"]}"#);
        assert_eq!(neighbours(Topology::Total, 3), r#"{"n0":["n1","n2"],"n1":["n0","n2"],"n2":["n0","n1"]}"#);
        assert_eq!(neighbours(Topology::Total, 1), r#"{"n0":[]}"#);
    }
}
