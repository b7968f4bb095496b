//! Event `memory`: limits of hosts' memory.

use super::kind::Kind;
use crate::emit::Writer;
use crate::error::Problem;
use crate::events::{Action, HostSet};
use crate::load::cpu;
use crate::load::events_values::{World, host_set, with_programs};
use crate::model::Experiment;
use crate::yaml::{Node, Section};

/// Limits the memory of hosts.
pub(super) struct Memory;

impl Kind for Memory {
    fn key(&self) -> &'static str {
        "memory"
    }
    fn parameters(&self) -> &'static [&'static str] {
        &["limit"]
    }
    fn read(&self, value: &Node, s: &Section, world: &World) -> Result<Action, Problem> {
        let hosts = host_set(value, "memory", world)?;
        with_programs(value, "memory", &hosts, world)?;
        let limit = cpu::memory(s.required("limit", "limit: 64 MiB")?, "limit")?;
        Ok(Action::Memory { hosts, limit })
    }
    fn write(&self, action: &Action, experiment: &Experiment, out: &mut Writer) {
        let Action::Memory { hosts, limit } = action else { return };
        out.plain(1, "memory", experiment.host_set(hosts));
        out.plain(1, "limit", format_args!("{limit} B"));
    }
    fn hosts<'a>(&self, action: &'a mut Action) -> Vec<&'a mut HostSet> {
        let Action::Memory { hosts, .. } = action else { return Vec::new() };
        vec![hosts]
    }
}
