//! Event `connection_reset`.

use super::kind::Kind;
use crate::emit::Writer;
use crate::error::Problem;
use crate::events::{Action, HostSet, ResetEnds};
use crate::load::events_values::{World, host_set, no_machine};
use crate::model::Experiment;
use crate::yaml::{Node, Section, Value, section};

/// Resets the TCP connections between hosts.
pub(super) struct Reset;

impl Kind for Reset {
    fn key(&self) -> &'static str {
        "connection_reset"
    }
    fn parameters(&self) -> &'static [&'static str] {
        &["ends"]
    }
    fn may_last(&self) -> bool {
        false
    }
    fn read(&self, value: &Node, s: &Section, world: &World) -> Result<Action, Problem> {
        let Value::Sequence(items) = &value.value else { return Err(two_sides(value)) };
        let [first, second] = &items[..] else { return Err(two_sides(value)) };
        let between =
            [host_set(first, "connection_reset", world)?, host_set(second, "connection_reset", world)?];
        for (node, hosts) in items.iter().zip(&between) {
            no_machine(node, hosts, world)?;
        }
        let ends = s.read("ends", |node, key| section::choice(node, key, ResetEnds::NAMES))?;
        Ok(Action::ConnectionReset { between, ends: ends.unwrap_or(ResetEnds::Both) })
    }
    fn write(&self, action: &Action, experiment: &Experiment, out: &mut Writer) {
        let Action::ConnectionReset { between: [first, second], ends } = action else { return };
        let sides = format!("[{}, {}]", experiment.host_set(first), experiment.host_set(second));
        out.plain(1, "connection_reset", sides);
        if *ends != ResetEnds::Both {
            out.plain(1, "ends", ends.name());
        }
    }
    fn hosts<'a>(&self, action: &'a mut Action) -> Vec<&'a mut HostSet> {
        let Action::ConnectionReset { between, .. } = action else { return Vec::new() };
        between.iter_mut().collect()
    }
}

fn two_sides(value: &Node) -> Problem {
    value
        .problem("'connection_reset' needs the hosts at the two ends of the connections")
        .help("write connection_reset: [alice, bob], or [alice, all]")
}
