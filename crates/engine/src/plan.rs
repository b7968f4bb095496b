//! Groups of nodes that are run together, and the lookaheads between the others.

use belljar_base::{HostId, SimDuration, SimTime};

/// Nodes that one worker runs together because they are so close to each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// Its nodes.
    pub members: Vec<HostId>,
    /// No message between two of them takes less than this.
    pub inner: SimDuration,
    /// No message from one of them to another group, or the other way round, takes less than this.
    pub lookahead: SimDuration,
}

/// All nodes in groups.
#[derive(Clone, Debug)]
pub struct Plan {
    groups: Vec<Group>,
    places: Vec<Place>,
    classes: Vec<SimDuration>,
    group_classes: Vec<u8>,
}

/// Where the messages for a node go.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    /// Its group.
    pub unit: u32,
    /// The class of its group's lookahead.
    pub class: u8,
}

/// Lookaheads are told apart by at most this many values; what lies between two counts as the lower.
const CLASSES: usize = 8;

impl Plan {
    /// `count` nodes, each of them on its own, between which no message takes less than `lookahead`.
    pub fn uniform(count: usize, lookahead: SimDuration) -> Plan {
        let alone = |n| Group { members: vec![HostId(n)], inner: lookahead, lookahead };
        Plan::new((0..count as u32).map(alone).collect())
    }

    /// These groups. Each node from 0 on is in one of them, and no time in them is zero.
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

    /// The groups.
    pub fn groups(&self) -> &[Group] {
        &self.groups
    }
    /// Number of nodes.
    pub fn node_count(&self) -> usize {
        self.places.len()
    }
    /// The number of a node's group.
    pub fn group_of(&self, node: HostId) -> usize {
        self.place(node).unit as usize
    }
    pub(crate) fn place(&self, node: HostId) -> Place {
        self.places[node.index()]
    }
    /// The lookaheads that are told apart, ascending.
    pub(crate) fn classes(&self) -> &[SimDuration] {
        &self.classes
    }
    pub(crate) fn class_of(&self, unit: u32) -> usize {
        usize::from(self.group_classes[unit as usize])
    }
    /// The earliest time at which something that a unit does at `at` can reach another one.
    pub(crate) fn lbts(&self, unit: u32, at: SimTime) -> SimTime {
        at + self.classes[self.class_of(unit)]
    }
}

/// At most [`CLASSES`] of the values, the least among them.
fn classes(values: impl Iterator<Item = SimDuration>) -> Vec<SimDuration> {
    let mut all: Vec<SimDuration> = values.collect();
    all.sort_unstable();
    all.dedup();
    if all.len() <= CLASSES {
        return all;
    }
    // The least value of each of as many spans of equal ratio.
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
