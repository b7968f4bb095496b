//! Events `dns_down` and `dns_up`.

use super::Kind;
use crate::emit::Writer;
use crate::error::Problem;
use crate::events::{Action, HostSet};
use crate::load::events_values::{World, host_set};
use crate::model::Experiment;
use crate::yaml::{Node, Section};

/// Makes the name server unavailable to hosts.
pub(super) struct Down;

impl Kind for Down {
    fn key(&self) -> &'static str {
        "dns_down"
    }
    fn read(&self, value: &Node, _: &Section, world: &World) -> Result<Action, Problem> {
        Ok(Action::NameServer { hosts: host_set(value, "dns_down", world)?, down: true })
    }
    fn write(&self, action: &Action, experiment: &Experiment, out: &mut Writer) {
        let Action::NameServer { hosts, .. } = action else { return };
        out.plain(1, "dns_down", experiment.host_set(hosts));
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

/// Makes the name server available again.
pub(super) struct Up;

impl Kind for Up {
    fn key(&self) -> &'static str {
        "dns_up"
    }
    fn may_last(&self) -> bool {
        false
    }
    fn read(&self, value: &Node, _: &Section, world: &World) -> Result<Action, Problem> {
        Ok(Action::NameServer { hosts: host_set(value, "dns_up", world)?, down: false })
    }
    fn write(&self, action: &Action, experiment: &Experiment, out: &mut Writer) {
        let Action::NameServer { hosts, .. } = action else { return };
        out.plain(1, "dns_up", experiment.host_set(hosts));
    }
    fn hosts<'a>(&self, action: &'a mut Action) -> Vec<&'a mut HostSet> {
        let Action::NameServer { hosts, .. } = action else { return Vec::new() };
        vec![hosts]
    }
}
