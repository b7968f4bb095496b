//! Event `move`.

use super::kind::Kind;
use crate::emit::Writer;
use crate::error::Problem;
use crate::events::{Action, HostSet};
use crate::load::events_values::{World, host_set};
use crate::load::links;
use crate::model::Experiment;
use crate::model::Host;
use crate::topology::DeviceKind;
use crate::yaml::{Node, Section};
use belljar_base::HostId;

/// Moves stations of radios.
pub(super) struct Move;

impl Kind for Move {
    fn key(&self) -> &'static str {
        "move"
    }
    fn parameters(&self) -> &'static [&'static str] {
        &["to", "speed"]
    }
    fn may_last(&self) -> bool {
        false
    }
    fn read(&self, value: &Node, s: &Section, world: &World) -> Result<Action, Problem> {
        let hosts = host_set(value, "move", world)?;
        let is_station = |host: &Host| {
            host.interfaces.iter().any(|interface| {
                let nodes = world.topology.links[interface.link].ends.each_ref().map(|end| end.node.index());
                let devices = nodes
                    .map(|node| node.checked_sub(world.hosts.len()).map(|n| &world.topology.devices[n].kind));
                devices.iter().any(|kind| matches!(kind, Some(DeviceKind::Radio(_))))
            })
        };
        let named = |n: &usize| hosts.may_hold(HostId(*n as u32)) && hosts != HostSet::All;
        let other = (0..world.hosts.len()).filter(named).find(|n| !is_station(&world.hosts[*n]));
        if let Some(n) = other {
            return Err(value
                .problem(format!(
                    "host '{}' is no station of a radio, so it has no place to move from",
                    world.hosts[n].name
                ))
                .relational()
                .help("add it to the 'stations' of a radio"));
        }
        if hosts == HostSet::All && !world.hosts.iter().any(is_station) {
            return Err(value
                .problem("no host is a station of a radio")
                .relational()
                .help("add one to the 'stations' of a radio"));
        }
        let to = links::position(s.required("to", "to: [100, 250]")?, "to")?;
        let speed = s.read("speed", |node, key| links::number(node, key, 0.001))?;
        Ok(Action::Move { hosts, to, speed })
    }
    fn write(&self, action: &Action, experiment: &Experiment, out: &mut Writer) {
        let Action::Move { hosts, to, speed } = action else { return };
        out.plain(1, "move", experiment.host_set(hosts));
        out.plain(1, "to", crate::emit::position(*to));
        if let Some(speed) = speed {
            out.plain(1, "speed", speed);
        }
    }
    fn hosts<'a>(&self, action: &'a mut Action) -> Vec<&'a mut HostSet> {
        let Action::Move { hosts, .. } = action else { return Vec::new() };
        vec![hosts]
    }
}
