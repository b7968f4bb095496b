//! Changes of the network, and the state of one path or direction of a link after them.

use belljar_base::{HostId, SimDuration, SimTime};
use belljar_config::topology::Line;
use belljar_config::{HostSet, LineChange, PathChange, Target};
use belljar_net::{DropReason, Path};

/// A change of the network. Choices among hosts are made, edges are turned into graphs.
#[derive(Clone, Debug)]
pub enum NetChange {
    /// Nothing passes.
    Down(Target),
    /// It does again.
    Up(Target),
    /// Other properties.
    Set(Target, PathChange),
    /// The graph's properties again.
    Reset(Target),
    /// Groups of hosts don't reach each other, by the number of the event.
    Split(u32, Vec<HostSet>),
    /// Ends the splits of these events, or all.
    Heal(Option<Vec<u32>>),
    /// The graph is in this state, 0 being the first, and all paths with it.
    Graph(usize),
}

/// The state of a path between two hosts, or of a direction of a link: how it differs from that of the start.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PathState {
    down: bool,
    /// The events that hold the two apart.
    splits: Vec<u32>,
    change: PathChange,
    /// Latency and jitter were given together.
    exact: bool,
    /// The state of the graph that gives the path.
    pub graph: usize,
}

impl PathState {
    /// Takes a change into account; false if it is none of `from` and `to`'s business.
    pub fn apply(&mut self, from: HostId, to: HostId, change: &NetChange) -> bool {
        self.apply_where(change, (from, to), |target| concerns(target, from, to))
    }

    /// Takes a change of a link into account; false if it does not concern this direction.
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

    /// The changed properties that only a link has.
    pub fn line(&self) -> &LineChange {
        &self.change.line
    }

    /// A partition lies between its ends.
    pub fn is_split(&self) -> bool {
        !self.splits.is_empty()
    }

    /// The path as it is in this state, where the graph or the link has `path` at the start.
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

/// Jitter that was not given together with the latency is limited to half of that: so the least
/// delay of every change can be told before the run.
fn most_jitter(latency: SimDuration, exact: bool) -> SimDuration {
    let limit = if exact {
        SimDuration::from_nanos(1)
    } else {
        SimDuration::from_picos(latency.as_picos().div_ceil(2))
    };
    latency.saturating_sub(limit)
}

/// The least delay of a path that `change` is one of the changes of, where the graph's path takes at
/// least `usual`. Another change may give other jitter to its latency.
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
    /// The link's place among all.
    pub link: usize,
    /// The nodes that it leads from and to.
    pub nodes: (HostId, HostId),
}

/// The least time that a frame takes in a direction of a link at any time of the run.
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

/// True if the path from one host to another is meant.
fn concerns(target: &Target, from: HostId, to: HostId) -> bool {
    match target {
        Target::Paths { from: a, to: b, both } => {
            (a.may_hold(from) && b.may_hold(to)) || (*both && a.may_hold(to) && b.may_hold(from))
        }
        Target::Edge(..) | Target::Links { .. } => false,
    }
}

/// True if a direction of a link is meant.
fn concerns_line(target: &Target, direction: Direction) -> bool {
    match target {
        Target::Links { links, from } => {
            links.binary_search(&direction.link).is_ok() && from.is_none_or(|from| from == direction.nodes.0)
        }
        Target::Paths { .. } | Target::Edge(..) => false,
    }
}

/// True if a host is at either end of what is meant.
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
    /// The way from host 0 to host 1 after these changes.
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
