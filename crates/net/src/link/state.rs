//! State of a path between two hosts, or of a direction of a link, after scheduled changes.

use super::{LinkOverrides, LinkProperties, PathChange};
use crate::{DropReason, Path};
use belljar_base::SimDuration;

/// Scheduled change in its effect on one path or one direction of a link.
#[derive(Clone, Debug, PartialEq)]
pub enum DirectionChange {
    /// The path goes down.
    Down,
    /// The path comes up.
    Up,
    /// The path's properties change.
    Set(PathChange),
    /// The path's properties return to their initial values.
    Reset,
    /// A partition begins. `apart` is true if it separates the two ends.
    Split {
        /// Number of the event that starts the partition.
        event: u32,
        /// True if the ends are in different groups.
        apart: bool,
    },
    /// The partitions of these events end, or all partitions.
    Heal(Option<Vec<u32>>),
    /// The graph enters this state, 0 being the initial one.
    Graph(usize),
}

/// State of a path or direction: its difference from the start of the run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PathState {
    down: bool,
    /// Events whose partitions separate the two ends.
    splits: Vec<u32>,
    change: PathChange,
    /// True if latency and jitter were set together.
    exact: bool,
    /// State of the graph that gives the path.
    pub graph: usize,
}

impl PathState {
    /// Applies a change.
    pub fn apply(&mut self, change: &DirectionChange) {
        match change {
            DirectionChange::Graph(graph) => self.graph = *graph,
            DirectionChange::Heal(None) => self.splits.clear(),
            DirectionChange::Heal(Some(events)) => self.splits.retain(|split| !events.contains(split)),
            DirectionChange::Split { event, apart } => {
                self.splits.retain(|split| split != event);
                if *apart {
                    self.splits.push(*event);
                }
            }
            DirectionChange::Down => self.down = true,
            DirectionChange::Up => self.down = false,
            DirectionChange::Set(new) => {
                self.exact = match (new.latency, new.jitter) {
                    (None, None) => self.exact,
                    (latency, jitter) => latency.is_some() && jitter.is_some(),
                };
                self.change.latency = new.latency.or(self.change.latency);
                self.change.jitter = new.jitter.or(self.change.jitter);
                self.change.loss = new.loss.or(self.change.loss);
                self.change.link.merge(&new.link);
            }
            DirectionChange::Reset => {
                (self.change, self.exact) = (PathChange::default(), false);
            }
        }
    }

    /// Changed properties that only links have.
    pub fn overrides(&self) -> &LinkOverrides {
        &self.change.link
    }

    /// True if a partition separates the two ends.
    pub fn is_split(&self) -> bool {
        !self.splits.is_empty()
    }

    /// Returns the path in this state, where `path` is the unchanged path of the graph or the link. Fails
    /// with the reason for which packets are dropped.
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
        Ok(Path::new(latency, jitter, loss))
    }
}

/// Upper bound of the jitter. Jitter that was not set together with the latency is limited to half of the
/// latency, so that [`least_delay`] is a bound for every sequence of changes.
fn most_jitter(latency: SimDuration, exact: bool) -> SimDuration {
    let limit = if exact {
        SimDuration::from_nanos(1)
    } else {
        SimDuration::from_picos(latency.as_picos().div_ceil(2))
    };
    latency.saturating_sub(limit)
}

/// Lower bound of the delay of a path whose changes include `change`, and which initially takes at least
/// `usual`. Another change may combine its latency with other jitter.
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

/// Lower bound of a frame's latency in a direction of a link, over the whole run, of which these are the changes of properties.
pub fn least_latency<'a>(
    properties: &LinkProperties,
    changes: impl IntoIterator<Item = &'a PathChange>,
) -> SimDuration {
    let usual = properties.path().least_latency;
    changes.into_iter().map(|change| least_delay(change, usual)).fold(usual, SimDuration::min)
}
