//! The interface of a kind of event. It is a file of its own, so that kinds do not name the list of all kinds.

use crate::emit::Writer;
use crate::error::Problem;
use crate::events::{Action, HostSet};
use crate::load::events_values::World;
use crate::model::Experiment;
use crate::yaml::{Node, Section};

/// A kind of event. Methods that take an action are given one of this kind.
pub(crate) trait Kind: Sync {
    /// Key that names the kind.
    fn key(&self) -> &'static str;
    /// Further keys of an event of this kind.
    fn parameters(&self) -> &'static [&'static str] {
        &[]
    }
    /// True if an event of this kind may have a duration.
    fn may_last(&self) -> bool {
        true
    }
    /// Refuses a duration, which `node` specifies, for this action.
    fn check_duration(&self, _action: &Action, _node: &Node, _world: &World) -> Result<(), Problem> {
        Ok(())
    }
    /// Reads the action from the value of its key and its section.
    fn read(&self, value: &Node, s: &Section, world: &World) -> Result<Action, Problem>;
    /// Writes the action's keys.
    fn write(&self, action: &Action, experiment: &Experiment, out: &mut Writer);
    /// Sets of hosts from which hosts may be drawn at each occurrence.
    fn hosts<'a>(&self, action: &'a mut Action) -> Vec<&'a mut HostSet>;
    /// Action that ends this one after its duration; the action itself if the plan knows its end.
    fn ending(&self, action: &Action) -> Action {
        action.clone()
    }
}
