//! Events `dns_down` and `dns_up`.

use super::kind::Kind;
use crate::emit::Writer;
use crate::error::Problem;
use crate::events::{Action, HostSet};
use crate::load::events_values::{World, host_set};
use crate::model::Experiment;
use crate::yaml::{Node, Section};

/// Makes the name server unavailable to hosts, or available again.
pub(super) struct NameServer {
    pub(super) down: bool,
}

impl Kind for NameServer {
    fn key(&self) -> &'static str {
        if self.down { "dns_down" } else { "dns_up" }
    }
    fn may_last(&self) -> bool {
        self.down
    }
    fn read(&self, value: &Node, _: &Section, world: &World) -> Result<Action, Problem> {
        Ok(Action::NameServer { hosts: host_set(value, self.key(), world)?, down: self.down })
    }
    fn write(&self, action: &Action, experiment: &Experiment, out: &mut Writer) {
        let Action::NameServer { hosts, .. } = action else { return };
        out.plain(1, self.key(), experiment.host_set(hosts));
    }
    fn hosts<'a>(&self, action: &'a mut Action) -> Vec<&'a mut HostSet> {
        let Action::NameServer { hosts, .. } = action else { return Vec::new() };
        vec![hosts]
    }
    fn ending(&self, action: &Action) -> Action {
        match action {
            Action::NameServer { hosts, .. } => Action::NameServer { hosts: hosts.clone(), down: false },
            other => other.clone(),
        }
    }
}
