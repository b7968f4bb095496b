//! Events `pause` and `resume`.

use super::Kind;
use crate::emit::Writer;
use crate::error::Problem;
use crate::events::{Action, HostSet};
use crate::load::events_values::{World, host_set};
use crate::model::{Experiment, Host};
use crate::topology::Interface;
use crate::yaml::{Node, Section};
use belljar_base::HostId;

/// Lets hosts stand still.
pub(super) struct Pause;

impl Kind for Pause {
    fn key(&self) -> &'static str {
        "pause"
    }
    fn read(&self, value: &Node, _: &Section, world: &World) -> Result<Action, Problem> {
        let hosts = host_set(value, "pause", world)?;
        let drives = |host: &Host| {
            let has_device = |interface: &Interface| world.topology.links[interface.link].pci.is_some();
            host.machine.is_some() || host.interfaces.iter().any(has_device)
        };
        let found = world
            .hosts
            .iter()
            .enumerate()
            .find(|(n, host)| drives(host) && hosts.may_hold(HostId(*n as u32)));
        match found {
            Some((_, host)) => Err(value
                .problem(format!(
                    "host '{}' has a clock beside the simulated one: a machine, or a PCI device",
                    host.name
                ))
                .help("name other hosts, or take its links down: link_down")),
            None => Ok(Action::Pause(hosts)),
        }
    }
    fn write(&self, action: &Action, experiment: &Experiment, out: &mut Writer) {
        let Action::Pause(hosts) = action else { return };
        out.plain(1, "pause", experiment.host_set(hosts));
    }
    fn hosts<'a>(&self, action: &'a mut Action) -> Vec<&'a mut HostSet> {
        let Action::Pause(hosts) = action else { return Vec::new() };
        vec![hosts]
    }
    fn ending(&self, action: &Action) -> Action {
        match action {
            Action::Pause(hosts) => Action::Resume(hosts.clone()),
            other => other.clone(),
        }
    }
}

/// Lets paused hosts go on.
pub(super) struct Resume;

impl Kind for Resume {
    fn key(&self) -> &'static str {
        "resume"
    }
    fn may_last(&self) -> bool {
        false
    }
    fn read(&self, value: &Node, _: &Section, world: &World) -> Result<Action, Problem> {
        Ok(Action::Resume(host_set(value, "resume", world)?))
    }
    fn write(&self, action: &Action, experiment: &Experiment, out: &mut Writer) {
        let Action::Resume(hosts) = action else { return };
        out.plain(1, "resume", experiment.host_set(hosts));
    }
    fn hosts<'a>(&self, action: &'a mut Action) -> Vec<&'a mut HostSet> {
        let Action::Resume(hosts) = action else { return Vec::new() };
        vec![hosts]
    }
}
