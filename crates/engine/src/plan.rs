//! Groups of nodes that run together, and the lookaheads between groups.

use belljar_base::{HostId, SimDuration, SimTime};

/// Group of close nodes, run together by one worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// Nodes of the group.
    pub members: Vec<HostId>,
    /// Lower bound on the latency of messages within the group.
    pub inner: SimDuration,
    /// Lower bound on the latency of messages between the group and others, in both directions.
    pub lookahead: SimDuration,
}

/// Partition of all nodes into groups.
#[derive(Clone, Debug)]
pub struct Plan {
    groups: Vec<Group>,
    places: Vec<Place>,
    classes: Vec<SimDuration>,
    group_classes: Vec<u8>,
}

/// Destination of messages for a node.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    /// Group of the node.
    pub unit: u32,
    /// Lookahead class of the group.
    pub class: u8,
}

/// Maximum number of lookahead classes; a value between two of them counts as the lower.
const CLASSES: usize = 8;

impl Plan {
    /// Plan of `count` nodes in groups of one, with at least `lookahead` latency between them.
    pub fn uniform(count: usize, lookahead: SimDuration) -> Plan {
        let alone = |n| Group { members: vec![HostId(n)], inner: lookahead, lookahead };
        Plan::new((0..count as u32).map(alone).collect())
    }

    /// Plan of these groups. Each node from 0 on is in exactly one of them, and all latencies are positive.
    pub fn new(groups: Vec<Group>) -> Plan {
        let count = groups.iter().map(|group| group.members.len()).sum();
        let classes = classes(groups.iter().map(|group| group.lookahead));
        let class_of = |group: &Group| (classes.partition_point(|c| *c <= group.lookahead) - 1) as u8;
        let group_classes: Vec<u8> = groups.iter().map(class_of).collect();
        let mut places = vec![Place { unit: u32::MAX, class: 0 }; count];
        for (unit, group) in groups.iter().enumerate() {
            assert!(
                !group.lookahead.is_zero() && !group.inner.is_zero(),
                "nodes that feel each other at once cannot be run apart"
            );
            for member in &group.members {
                let place = &mut places[member.index()];
                assert_eq!(place.unit, u32::MAX, "{member} is in two groups");
                *place = Place { unit: unit as u32, class: group_classes[unit] };
            }
        }
        Plan { groups, places, classes, group_classes }
    }

    /// Groups of the plan.
    pub fn groups(&self) -> &[Group] {
        &self.groups
    }
    /// Number of nodes.
    pub fn node_count(&self) -> usize {
        self.places.len()
    }
    /// Index of a node's group.
    pub fn group_of(&self, node: HostId) -> usize {
        self.place(node).unit as usize
    }
    pub(crate) fn place(&self, node: HostId) -> Place {
        self.places[node.index()]
    }
    /// Lookaheads of the classes, ascending.
    pub(crate) fn classes(&self) -> &[SimDuration] {
        &self.classes
    }
    pub(crate) fn class_of(&self, unit: u32) -> usize {
        usize::from(self.group_classes[unit as usize])
    }
    /// Earliest time at which an event of a unit at `at` can affect another unit.
    pub(crate) fn lbts(&self, unit: u32, at: SimTime) -> SimTime {
        at + self.classes[self.class_of(unit)]
    }
}

/// Selects at most [`CLASSES`] of the values, including the minimum.
fn classes(values: impl Iterator<Item = SimDuration>) -> Vec<SimDuration> {
    let mut all: Vec<SimDuration> = values.collect();
    all.sort_unstable();
    all.dedup();
    if all.len() <= CLASSES {
        return all;
    }
    // Minimum of the values in each of `CLASSES` spans with the same ratio.
    let (least, greatest) = (all[0].as_picos() as f64, all[all.len() - 1].as_picos() as f64);
    let ratio = (greatest / least).powf(1.0 / CLASSES as f64);
    let mut chosen = vec![all[0]];
    for span in 1..CLASSES {
        let from = SimDuration::from_picos((least * ratio.powi(span as i32)) as u64);
        let first = all[all.partition_point(|v| *v < from)..].first();
        chosen.extend(first.filter(|v| Some(*v) != chosen.last()));
    }
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_are_few_and_never_above_the_value() {
        let values: Vec<SimDuration> = (1..500).map(|n| SimDuration::from_micros(n * n)).collect();
        let classes = classes(values.iter().copied());
        assert!(classes.len() <= CLASSES && classes.len() > CLASSES / 2, "{classes:?}");
        assert_eq!(classes[0], values[0]);
        assert!(classes.is_sorted_by(|a, b| a < b));
        let exact = [SimDuration::from_millis(50), SimDuration::from_micros(10)];
        assert_eq!(super::classes(exact.into_iter()), [exact[1], exact[0]]);
        assert_eq!(super::classes(std::iter::empty()), []);
    }

    #[test]
    #[should_panic(expected = "in two groups")]
    fn a_node_is_in_one_group() {
        let group = |members: [u32; 1]| Group {
            members: members.map(HostId).to_vec(),
            inner: SimDuration::MAX,
            lookahead: SimDuration::MAX,
        };
        Plan::new(vec![group([0]), group([0])]);
    }
}
