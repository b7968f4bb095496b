//! Changes of the network, and the resulting state of one path or direction of a link.

use belljar_base::{HostId, SimDuration, SimTime};
use belljar_config::topology::Line;
use belljar_config::{HostSet, LineChange, PathChange, Target};
use belljar_net::{DropReason, Path};

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

/// State of a path between two hosts, or of a direction of a link, as the difference from its initial state.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PathState {
    down: bool,
    /// Events whose partitions separate the two ends.
    splits: Vec<u32>,
    change: PathChange,
    /// True if latency and jitter were changed together.
    exact: bool,
    /// Index of the graph state that determines the path.
    pub graph: usize,
}

impl PathState {
    /// Applies a change; false if it does not affect the path from `from` to `to`.
    pub fn apply(&mut self, from: HostId, to: HostId, change: &NetChange) -> bool {
        self.apply_where(change, (from, to), |target| concerns(target, from, to))
    }

    /// Applies a change of a link; false if it does not affect this direction.
    pub fn apply_to_line(&mut self, direction: Direction, change: &NetChange) -> bool {
        if matches!(change, NetChange::Graph(_)) {
            return false;
        }
        self.apply_where(change, direction.nodes, |target| concerns_line(target, direction))
    }

    fn apply_where(
        &mut self,
        change: &NetChange,
        (from, to): (HostId, HostId),
        concerned: impl Fn(&Target) -> bool,
    ) -> bool {
        match change {
            NetChange::Graph(graph) => self.graph = *graph,
            NetChange::Heal(None) => self.splits.clear(),
            NetChange::Heal(Some(events)) => self.splits.retain(|split| !events.contains(split)),
            NetChange::Split(event, groups) => {
                self.splits.retain(|split| split != event);
                let group = |host| groups.iter().position(|group| group.may_hold(host));
                if let (Some(ours), Some(theirs)) = (group(from), group(to))
                    && ours != theirs
                {
                    self.splits.push(*event);
                }
            }
            NetChange::Down(target) | NetChange::Up(target) if concerned(target) => {
                self.down = matches!(change, NetChange::Down(_));
            }
            NetChange::Set(target, new) if concerned(target) => {
                self.exact = match (new.latency, new.jitter) {
                    (None, None) => self.exact,
                    (latency, jitter) => latency.is_some() && jitter.is_some(),
                };
                self.change.latency = new.latency.or(self.change.latency);
                self.change.jitter = new.jitter.or(self.change.jitter);
                self.change.loss = new.loss.or(self.change.loss);
                self.change.line.merge(&new.line);
            }
            NetChange::Reset(target) if concerned(target) => {
                (self.change, self.exact) = (PathChange::default(), false);
            }
            _ => return false,
        }
        true
    }

    /// The changed properties that exist only for links.
    pub fn line(&self) -> &LineChange {
        &self.change.line
    }

    /// True if a partition separates the ends.
    pub fn is_split(&self) -> bool {
        !self.splits.is_empty()
    }

    /// The path in this state; `path` is the one of the graph or the link without changes.
    pub fn path(&self, path: Option<Path>) -> Result<Path, DropReason> {
        if self.down {
            return Err(DropReason::LinkDown);
        }
        if !self.splits.is_empty() {
            return Err(DropReason::Partition);
        }
        let path = path.ok_or(DropReason::NoRoute)?;
        let loss = self.change.loss.unwrap_or(path.loss);
        if self.change.latency.is_none() && self.change.jitter.is_none() {
            return Ok(Path { loss, ..path });
        }
        let latency = self.change.latency.unwrap_or(path.latency);
        let jitter = self.change.jitter.unwrap_or(path.jitter).min(most_jitter(latency, self.exact));
        Ok(Path { latency, jitter, loss, least_latency: latency.saturating_sub(jitter) })
    }
}

/// Upper bound on the jitter. Unless it was changed together with the latency, it is half of the latency, so
/// that the minimum delay after each change can be computed before the run.
fn most_jitter(latency: SimDuration, exact: bool) -> SimDuration {
    let limit = if exact {
        SimDuration::from_nanos(1)
    } else {
        SimDuration::from_picos(latency.as_picos().div_ceil(2))
    };
    latency.saturating_sub(limit)
}

/// Minimum delay of a path affected by `change` if the graph's path takes at least `usual`. Another change
/// may combine a different jitter with this latency.
pub fn least_delay(change: &PathChange, usual: SimDuration) -> SimDuration {
    let least = |latency: SimDuration| latency.saturating_sub(most_jitter(latency, false));
    match (change.latency, change.jitter) {
        (None, None) => usual,
        (Some(latency), Some(jitter)) => {
            least(latency).min(latency.saturating_sub(jitter.min(most_jitter(latency, true))))
        }
        (Some(latency), None) => least(latency),
        (None, Some(_)) => least(usual),
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

/// Minimum latency of a frame in a direction of a link over the whole run.
pub fn least_latency(line: &Line, direction: Direction, changes: &[(SimTime, NetChange)]) -> SimDuration {
    let usual = line.latency.saturating_sub(line.jitter);
    let least = changes.iter().filter_map(|(_, change)| match change {
        NetChange::Set(_, new) if PathState::default().apply_to_line(direction, change) => {
            Some(least_delay(new, usual))
        }
        _ => None,
    });
    least.chain([usual]).min().unwrap_or(usual)
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
fn concerns_line(target: &Target, direction: Direction) -> bool {
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
        Path { latency: ms(50), jitter: ms(10), loss: 0.1, least_latency: ms(40) }
    }
    /// The path from host 0 to host 1 after these changes.
    fn after(changes: &[NetChange]) -> Result<Path, DropReason> {
        let mut state = PathState::default();
        for change in changes {
            state.apply(HostId(0), HostId(1), change);
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
    fn no_sequence_of_changes_undercuts_the_least_delay() {
        let amounts = [None, Some(ms(2)), Some(ms(9)), Some(ms(30)), Some(ms(400))];
        let changes: Vec<PathChange> = amounts
            .iter()
            .flat_map(|latency| {
                amounts.map(|jitter| PathChange { latency: *latency, jitter, ..PathChange::default() })
            })
            .filter(|c| c.latency.is_none_or(|latency| c.jitter.is_none_or(|jitter| jitter <= latency)))
            .collect();
        for first in &changes {
            for second in &changes {
                for third in &changes {
                    let sequence = [first, second, third];
                    let bound = sequence.iter().map(|c| least_delay(c, usual().least_latency)).min().unwrap();
                    let bound = bound.min(usual().least_latency);
                    let set = sequence.map(|c| NetChange::Set(between(0, 1, false), c.clone()));
                    let least = after(&set).unwrap().least_latency;
                    assert!(least >= bound && !least.is_zero(), "{least} < {bound}: {sequence:?}");
                }
            }
        }
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
        let changed = Path { latency: ms(90), jitter: ms(80), loss: 0.0, least_latency: ms(10) };
        assert_eq!(after(std::slice::from_ref(&set)), Ok(changed));
        assert_eq!(after(&[set, NetChange::Reset(between(0, 1, true))]), Ok(usual()));
    }
}
