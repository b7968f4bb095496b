//! Event `cpu`: hosts whose programs run for a share of the time.

use super::kind::Kind;
use crate::emit::Writer;
use crate::error::Problem;
use crate::events::{Action, CpuShare, HostSet};
use crate::load::events_values::{World, host_set, with_programs};
use crate::model::Experiment;
use crate::yaml::{Node, Section, section};
use belljar_base::SimDuration;
use belljar_net::units::format_duration;

/// Shortest and longest period.
const PERIODS: (SimDuration, SimDuration) = (SimDuration::from_micros(100), SimDuration::from_secs(3_600));
/// Shortest processor time of a period.
const LEAST_SLICE: SimDuration = SimDuration::from_nanos(1);

/// Slows hosts.
pub(super) struct Cpu;

impl Kind for Cpu {
    fn key(&self) -> &'static str {
        "cpu"
    }
    fn parameters(&self) -> &'static [&'static str] {
        &["share", "period"]
    }
    fn read(&self, value: &Node, s: &Section, world: &World) -> Result<Action, Problem> {
        let hosts = host_set(value, "cpu", world)?;
        with_programs(value, "cpu", &hosts, world)?;
        let node = s.required("share", "share: 0.1")?;
        let (share, period) = (share(node, "share")?, s.read("period", period)?.unwrap_or(CpuShare::PERIOD));
        let share = CpuShare::new(share, period);
        if share.slice < LEAST_SLICE || share.slice >= share.period {
            return Err(node
                .problem(format!(
                    "'share' is too close to a limit for a period of {}",
                    format_duration(period)
                ))
                .help("write a longer period, or a share such as 0.1"));
        }
        Ok(Action::Cpu { hosts, share })
    }
    fn write(&self, action: &Action, experiment: &Experiment, out: &mut Writer) {
        let Action::Cpu { hosts, share } = action else { return };
        out.plain(1, "cpu", experiment.host_set(hosts));
        out.plain(1, "share", share.share());
        out.plain(1, "period", format_duration(share.period));
    }
    fn hosts<'a>(&self, action: &'a mut Action) -> Vec<&'a mut HostSet> {
        let Action::Cpu { hosts, .. } = action else { return Vec::new() };
        vec![hosts]
    }
}

/// A share of the time: a number between 0 and 1.
pub(crate) fn share(node: &Node, key: &str) -> Result<f64, Problem> {
    let text = section::string(node, key)?;
    let number = text.parse::<f64>().ok();
    let problem = || node.problem(format!("'{key}' must be a number between 0 and 1, not '{text}'"));
    match number {
        Some(share) if share > 0.0 && share < 1.0 => Ok(share),
        Some(0.0) => Err(problem().help("a host that does not run at all is paused: write pause: HOST")),
        _ => Err(problem().help("write 0.1 for programs that run for a tenth of the time")),
    }
}

/// Time between the beginnings of two turns of a host.
pub(crate) fn period(node: &Node, key: &str) -> Result<SimDuration, Problem> {
    let period = section::duration(node, key)?;
    match (PERIODS.0..=PERIODS.1).contains(&period) {
        true => Ok(period),
        false => Err(node
            .problem(format!("'{key}' must lie between 100 us and 1 h"))
            .help("leave it out for 100 ms, that of Linux's bandwidth control")),
    }
}
