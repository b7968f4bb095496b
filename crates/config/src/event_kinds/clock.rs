//! Event `clock`.

use super::kind::Kind;
use crate::emit::Writer;
use crate::emit::{ppm, signed};
use crate::error::Problem;
use crate::events::{Action, HostSet};
use crate::load::events_values::{World, drift, host_set, signed_time};
use crate::model::Experiment;
use crate::yaml::{Node, Section};
use belljar_base::HostId;

/// Changes the clock of hosts.
pub(super) struct Clock;

impl Kind for Clock {
    fn key(&self) -> &'static str {
        "clock"
    }
    fn parameters(&self) -> &'static [&'static str] {
        &["step", "drift_ppm"]
    }
    fn check_duration(&self, action: &Action, node: &Node, _: &World) -> Result<(), Problem> {
        match action {
            Action::Clock { step_ns: Some(_), .. } => {
                Err(node.problem("a step of the clock cannot be undone after a time").help("step it back"))
            }
            _ => Ok(()),
        }
    }
    fn read(&self, value: &Node, s: &Section, world: &World) -> Result<Action, Problem> {
        let (step_ns, drift_ppb) = (s.read("step", signed_time)?, s.read("drift_ppm", drift)?);
        if step_ns.is_none() && drift_ppb.is_none() {
            return Err(Problem::at(s.span, "this event changes nothing about the clock")
                .help("add step: 5 s, step: -5 s or drift_ppm: 50"));
        }
        let hosts = host_set(value, "clock", world)?;
        let machine = world.hosts.iter().enumerate().find(|(n, host)| {
            host.machine.is_some() && hosts.may_hold(HostId(*n as u32)) && hosts != HostSet::All
        });
        if let Some((_, host)) = machine {
            return Err(value
                .problem(format!("host '{}' is a machine, whose clock is its own", host.name))
                .help("set it in the machine"));
        }
        Ok(Action::Clock { hosts, step_ns, drift_ppb })
    }
    fn write(&self, action: &Action, experiment: &Experiment, out: &mut Writer) {
        let Action::Clock { hosts, step_ns, drift_ppb } = action else { return };
        out.plain(1, "clock", experiment.host_set(hosts));
        if let Some(step) = step_ns {
            out.text(1, "step", &signed(*step));
        }
        if let Some(drift) = drift_ppb {
            out.plain(1, "drift_ppm", ppm(*drift));
        }
    }
    fn hosts<'a>(&self, action: &'a mut Action) -> Vec<&'a mut HostSet> {
        let Action::Clock { hosts, .. } = action else { return Vec::new() };
        vec![hosts]
    }
}
