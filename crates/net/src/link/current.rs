//! Current state of a path: its initial state with the scheduled changes up to a time.

use super::{DirectionChange, PathState};
use crate::{DropReason, Flow, Path};
use belljar_base::SimTime;

/// Path, or direction of a link, with its scheduled changes applied.
///
/// Departures must be in order of time. Each packet is subject to the changes up to its departure, however
/// late it is processed.
#[derive(Clone, Debug, Default)]
pub struct CurrentPath {
    /// Flow over the path; `None` until there has been one.
    flow: Option<Flow>,
    state: PathState,
    /// Number of changes applied.
    applied: usize,
    /// False before `flow` and `blocked` have been set for the first time.
    is_set: bool,
    blocked: Option<DropReason>,
}

impl CurrentPath {
    /// Applies the changes up to `until`. `change` returns the effect of a change on this path, if there is
    /// one; `usual` returns the unchanged path in a state of the graph, if there is one. Returns true if
    /// the state may have changed.
    #[inline]
    pub fn follow<C>(
        &mut self,
        changes: &[(SimTime, C)],
        until: SimTime,
        change: impl Fn(&C) -> Option<DirectionChange>,
        usual: impl FnOnce(usize) -> Option<Path>,
    ) -> bool {
        let mut changed = !self.is_set;
        while let Some((at, next)) = changes.get(self.applied)
            && *at <= until
        {
            if let Some(next) = change(next) {
                self.state.apply(&next);
                changed = true;
            }
            self.applied += 1;
        }
        if changed {
            self.set(usual(self.state.graph));
        }
        changed
    }

    fn set(&mut self, usual: Option<Path>) {
        self.is_set = true;
        let path = self.state.path(usual);
        self.blocked = path.err();
        match (path, &mut self.flow) {
            (Ok(path), Some(flow)) => flow.set_path(path),
            (Ok(path), flow) => *flow = Some(Flow::new(path)),
            (Err(_), _) => {}
        }
    }

    /// Reason for which the path is blocked, if it is.
    pub fn blocked(&self) -> Option<DropReason> {
        self.blocked
    }

    /// Flow of packets; `None` until there has been a path.
    pub fn flow(&mut self) -> Option<&mut Flow> {
        self.flow.as_mut()
    }

    /// State after the changes applied so far.
    pub fn state(&self) -> &PathState {
        &self.state
    }
}
