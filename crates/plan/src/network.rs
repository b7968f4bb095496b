//! Changes of the network, and the resulting state of one path or direction of a link.

use belljar_base::{HostId, SimDuration, SimTime};
use belljar_config::topology::Interface;
use belljar_config::{Experiment, HostSet, Target};
use belljar_net::NicConfig;
use belljar_net::link::{self, DirectionChange, LinkDirection, LossChange, PathChange};
use belljar_wire::ethernet::HEADER_LEN;

/// A change of the network, with random choices made and edges converted to graphs.
#[derive(Clone, Debug)]
pub enum NetChange {
    /// Disables the target.
    Down(Target),
    /// Enables the target again.
    Up(Target),
    /// Changes properties of the target.
    Set(Target, PathChange),
    /// Restores the target's initial properties.
    Reset(Target),
    /// Separates groups of hosts; the number is that of the event.
    Split(u32, Vec<HostSet>),
    /// Ends the partitions of these events, or all partitions.
    Heal(Option<Vec<u32>>),
    /// Switches to this state of the graph, 0 being the initial one, and thereby changes all paths.
    Graph(usize),
}

impl NetChange {
    /// The change as it concerns the path over the graph from one host to another, if it does.
    pub fn of_path(&self, from: HostId, to: HostId) -> Option<DirectionChange> {
        if let NetChange::Graph(graph) = self {
            return Some(DirectionChange::Graph(*graph));
        }
        self.between((from, to), |target| concerns(target, from, to))
    }

    /// The change as it concerns a direction of a link, if it does.
    pub fn of_link(&self, direction: Direction) -> Option<DirectionChange> {
        self.between(direction.nodes, |target| concerns_link(target, direction))
    }

    fn between(
        &self,
        (from, to): (HostId, HostId),
        concerned: impl Fn(&Target) -> bool,
    ) -> Option<DirectionChange> {
        match self {
            NetChange::Heal(events) => Some(DirectionChange::Heal(events.clone())),
            NetChange::Split(event, groups) => {
                let group = |host| groups.iter().position(|group| group.may_hold(host));
                let apart = group(from).zip(group(to)).is_some_and(|(ours, theirs)| ours != theirs);
                Some(DirectionChange::Split { event: *event, apart })
            }
            NetChange::Down(target) => concerned(target).then_some(DirectionChange::Down),
            NetChange::Up(target) => concerned(target).then_some(DirectionChange::Up),
            NetChange::Set(target, new) => concerned(target).then(|| DirectionChange::Set(new.clone())),
            NetChange::Reset(target) => concerned(target).then_some(DirectionChange::Reset),
            NetChange::Graph(_) => None,
        }
    }
}

/// One direction of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Direction {
    /// Index of the link.
    pub link: usize,
    /// Source and destination nodes of the direction.
    pub nodes: (HostId, HostId),
}

impl Direction {
    /// The direction of link number `link` of an experiment that begins at its end 0 or 1.
    pub fn of(experiment: &Experiment, link: usize, end: usize) -> Direction {
        let ends = &experiment.topology.links[link].ends;
        Direction { link, nodes: (ends[end].node, ends[1 - end].node) }
    }

    /// The changes that concern this direction, of those of the whole network, in their order.
    pub fn changes(self, network: &[(SimTime, NetChange)]) -> Vec<(SimTime, DirectionChange)> {
        let own = network.iter().filter_map(|(at, change)| Some((*at, change.of_link(self)?)));
        own.collect()
    }
}

/// The direction of a link that begins at its end 0 or 1, behind its queue, with its changes among those of the network.
pub fn link_direction(
    experiment: &Experiment,
    network: &[(SimTime, NetChange)],
    link: usize,
    end: usize,
) -> LinkDirection {
    let settings = &experiment.topology.links[link];
    LinkDirection::new(
        &settings.ends[end].properties,
        experiment.seed(),
        &settings.name,
        experiment.node_name(settings.ends[end].node),
        Direction::of(experiment, link, end).changes(network),
        experiment.general.bootstrap_end_time,
    )
}

/// Settings of the queue of an interface on a link at the start of the run. Rates do not limit before the end of the
/// bootstrap phase, when the [schedule](crate::Schedule) sets them.
pub fn link_nic(experiment: &Experiment, interface: &Interface) -> NicConfig {
    let settings = &experiment.topology.links[interface.link];
    let end = &settings.ends[interface.end];
    let seed = experiment.seed();
    let from = experiment.node_name(end.node);
    let nic = end.properties.nic(settings.mtu + HEADER_LEN, seed, &settings.name, from);
    match experiment.general.bootstrap_end_time {
        SimTime::ZERO => nic,
        _ => NicConfig { bandwidth_up: None, token_bucket: None, ..nic },
    }
}

/// Expected loss, over time, of the direction of a link that begins at its end 0 or 1.
pub fn link_loss(
    experiment: &Experiment,
    network: &[(SimTime, NetChange)],
    link: usize,
    end: usize,
) -> Vec<LossChange> {
    let properties = &experiment.topology.links[link].ends[end].properties;
    let changes = Direction::of(experiment, link, end).changes(network);
    link::loss_over_time(properties, &changes, experiment.general.bootstrap_end_time)
}

/// Partition of hosts during an interval.
#[derive(Clone, Debug, PartialEq)]
pub struct Partition {
    /// Start of the partition.
    pub from: SimTime,
    /// End of the partition; `None` if it lasts until the end of the run.
    pub until: Option<SimTime>,
    /// Groups whose hosts are separated from those of the other groups.
    pub groups: Vec<HostSet>,
}

/// The partitions among the changes of the network, in order of their starts.
pub fn partitions(network: &[(SimTime, NetChange)]) -> Vec<Partition> {
    let mut all: Vec<(u32, Partition)> = Vec::new();
    for (at, change) in network {
        // A partition of an event ends when the event splits the network again.
        let ended: &dyn Fn(u32) -> bool = match change {
            NetChange::Split(event, _) => &|open| open == *event,
            NetChange::Heal(None) => &|_| true,
            NetChange::Heal(Some(events)) => &|open| events.contains(&open),
            _ => continue,
        };
        let open = all.iter_mut().filter(|(event, partition)| partition.until.is_none() && ended(*event));
        open.for_each(|(_, partition)| partition.until = Some(*at));
        if let NetChange::Split(event, groups) = change {
            all.push((*event, Partition { from: *at, until: None, groups: groups.clone() }));
        }
    }
    all.into_iter().map(|(_, partition)| partition).collect()
}

/// Lower bound of the latency of the direction of a link that begins at its end 0 or 1, over the whole run.
pub fn least_latency(
    experiment: &Experiment,
    network: &[(SimTime, NetChange)],
    link: usize,
    end: usize,
) -> SimDuration {
    let direction = Direction::of(experiment, link, end);
    let own = network.iter().filter_map(|(_, change)| match change {
        NetChange::Set(target, new) if concerns_link(target, direction) => Some(new),
        _ => None,
    });
    link::least_latency(&experiment.topology.links[link].ends[end].properties, own)
}

/// True if the target includes the path from one host to another.
fn concerns(target: &Target, from: HostId, to: HostId) -> bool {
    match target {
        Target::Paths { from: a, to: b, both } => {
            (a.may_hold(from) && b.may_hold(to)) || (*both && a.may_hold(to) && b.may_hold(from))
        }
        Target::Edge(..) | Target::Links { .. } => false,
    }
}

/// True if the target includes the direction of a link.
fn concerns_link(target: &Target, direction: Direction) -> bool {
    match target {
        Target::Links { links, from } => {
            links.binary_search(&direction.link).is_ok() && from.is_none_or(|from| from == direction.nodes.0)
        }
        Target::Paths { .. } | Target::Edge(..) => false,
    }
}

/// True if the host is at either end of a path in the target.
pub fn concerns_host(target: &Target, host: HostId) -> bool {
    match target {
        Target::Paths { from, to, .. } => from.may_hold(host) || to.may_hold(host),
        Target::Edge(..) | Target::Links { .. } => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use belljar_base::SimDuration;
    use belljar_net::link::PathState;
    use belljar_net::{DropReason, Path};

    fn ms(n: u64) -> SimDuration {
        SimDuration::from_millis(n)
    }
    fn hosts(ids: &[u32]) -> HostSet {
        HostSet::Some(ids.iter().copied().map(HostId).collect())
    }
    fn between(a: u32, b: u32, both: bool) -> Target {
        Target::Paths { from: hosts(&[a]), to: hosts(&[b]), both }
    }
    fn usual() -> Path {
        Path::new(ms(50), ms(10), 0.1)
    }
    /// The path from host 0 to host 1 after these changes.
    fn after(changes: &[NetChange]) -> Result<Path, DropReason> {
        let mut state = PathState::default();
        for change in changes {
            change.of_path(HostId(0), HostId(1)).iter().for_each(|change| state.apply(change));
        }
        state.path(Some(usual()))
    }

    #[test]
    fn a_direction_goes_down_and_up() {
        assert_eq!(after(&[]), Ok(usual()));
        assert_eq!(after(&[NetChange::Down(between(1, 0, false))]), Ok(usual()), "the other direction");
        assert_eq!(after(&[NetChange::Down(between(1, 0, true))]), Err(DropReason::LinkDown));
        assert_eq!(
            after(&[NetChange::Down(between(1, 0, true)), NetChange::Up(between(0, 1, false))]),
            Ok(usual())
        );
    }

    #[test]
    fn splits_add_up_and_are_healed_by_event() {
        let split = |event| NetChange::Split(event, vec![hosts(&[0]), hosts(&[1, 2])]);
        let apart = Err(DropReason::Partition);
        assert_eq!(
            after(&[NetChange::Split(3, vec![hosts(&[0]), hosts(&[2])])]),
            Ok(usual()),
            "1 is in no group"
        );
        assert_eq!(after(&[split(3), split(4), NetChange::Heal(Some(vec![3]))]), apart);
        assert_eq!(after(&[split(3), split(4), NetChange::Heal(Some(vec![3, 4]))]), Ok(usual()));
        assert_eq!(after(&[split(3), split(4), NetChange::Heal(None)]), Ok(usual()));
    }

    #[test]
    fn partitions_have_their_intervals() {
        let at = |n: u64| SimTime::from_nanos(n * 1_000_000_000);
        let split = |event, host| NetChange::Split(event, vec![hosts(&[0]), hosts(&[host])]);
        let network = [
            (at(1), split(3, 1)),
            (at(2), split(4, 1)),
            (at(3), split(3, 2)),
            (at(4), NetChange::Heal(Some(vec![4]))),
            (at(5), NetChange::Heal(None)),
            (at(6), split(3, 1)),
        ];
        let found: Vec<_> = partitions(&network)
            .iter()
            .map(|each| (each.from, each.until, each.groups[1].may_hold(HostId(2))))
            .collect();
        let expected = [
            (at(1), Some(at(3)), false),
            (at(2), Some(at(4)), false),
            (at(3), Some(at(5)), true),
            (at(6), None, false),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn a_reset_brings_the_graphs_path_back() {
        let slow = PathChange {
            latency: Some(ms(90)),
            jitter: Some(ms(80)),
            loss: Some(0.0),
            ..PathChange::default()
        };
        let set = NetChange::Set(between(0, 1, true), slow);
        let changed = Path::new(ms(90), ms(80), 0.0);
        assert_eq!(after(std::slice::from_ref(&set)), Ok(changed));
        assert_eq!(after(&[set, NetChange::Reset(between(0, 1, true))]), Ok(usual()));
    }
}
