//! Events `crash` and `restart`.

use super::Kind;
use crate::emit::Writer;
use crate::error::Problem;
use crate::events::{Action, HostSet};
use crate::load::events_values::{World, host_set};
use crate::model::Experiment;
use crate::yaml::{Node, Section, section};

/// Stops hosts at once.
pub(super) struct Crash;

impl Kind for Crash {
    fn key(&self) -> &'static str {
        "crash"
    }
    fn parameters(&self) -> &'static [&'static str] {
        &["files"]
    }
    fn read(&self, value: &Node, s: &Section, world: &World) -> Result<Action, Problem> {
        const FILES: &[(&str, bool)] = &[("kept", false), ("lost", true)];
        let lose_files = s.read("files", |n, k| section::choice(n, k, FILES))?.unwrap_or(false);
        Ok(Action::Crash { hosts: host_set(value, "crash", world)?, lose_files })
    }
    fn write(&self, action: &Action, experiment: &Experiment, out: &mut Writer) {
        let Action::Crash { hosts, lose_files } = action else { return };
        out.plain(1, "crash", experiment.host_set(hosts));
        out.plain(1, "files", if *lose_files { "lost" } else { "kept" });
    }
    fn hosts<'a>(&self, action: &'a mut Action) -> Vec<&'a mut HostSet> {
        let Action::Crash { hosts, .. } = action else { return Vec::new() };
        vec![hosts]
    }
    fn ending(&self, action: &Action) -> Action {
        match action {
            Action::Crash { hosts, .. } => Action::Restart(hosts.clone()),
            other => other.clone(),
        }
    }
}

/// Restarts crashed hosts.
pub(super) struct Restart;

impl Kind for Restart {
    fn key(&self) -> &'static str {
        "restart"
    }
    fn may_last(&self) -> bool {
        false
    }
    fn read(&self, value: &Node, _: &Section, world: &World) -> Result<Action, Problem> {
        Ok(Action::Restart(host_set(value, "restart", world)?))
    }
    fn write(&self, action: &Action, experiment: &Experiment, out: &mut Writer) {
        let Action::Restart(hosts) = action else { return };
        out.plain(1, "restart", experiment.host_set(hosts));
    }
    fn hosts<'a>(&self, action: &'a mut Action) -> Vec<&'a mut HostSet> {
        let Action::Restart(hosts) = action else { return Vec::new() };
        vec![hosts]
    }
}
