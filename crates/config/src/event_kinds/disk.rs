//! Events `disk_fault` and `disk_heal`.

use super::kind::Kind;
use crate::emit::{Writer, quoted};
use crate::error::Problem;
use crate::events::{Action, HostSet};
use crate::load::events_values::{World, host_set, probability, range, with_programs};
use crate::model::Experiment;
use crate::yaml::{Node, Section, section};
use belljar_base::SimDuration;
use belljar_machine::DiskFault;
use belljar_net::units::format_duration;

/// Largest number of syncs that fail.
const MOST_SYNCS: u64 = 1_000_000;

/// Lets disks fail.
pub(super) struct Fault;

impl Kind for Fault {
    fn key(&self) -> &'static str {
        "disk_fault"
    }
    fn parameters(&self) -> &'static [&'static str] {
        &["sync_time", "sync_errors", "full", "read_errors", "bit_rot", "path"]
    }
    fn read(&self, value: &Node, s: &Section, world: &World) -> Result<Action, Problem> {
        let hosts = host_set(value, "disk_fault", world)?;
        with_programs(value, "disk_fault", &hosts, world)?;
        let fault = DiskFault {
            sync_time: s.read("sync_time", |node, key| range(node, key, section::duration))?,
            sync_errors: s
                .read("sync_errors", |node, key| section::whole(node, key, MOST_SYNCS))?
                .unwrap_or(0) as u32,
            full: s.read("full", section::boolean)?.unwrap_or(false),
            read_errors: s.read("read_errors", probability)?.unwrap_or(0.0),
            bit_rot: s.read("bit_rot", probability)?.unwrap_or(0.0),
            path: s.read("path", section::string)?.map(str::to_owned),
        };
        if fault.sync_time.is_some_and(|(_, most)| most == SimDuration::ZERO) {
            return Err(s.get("sync_time").unwrap_or(value).problem("a sync that takes no time is no fault"));
        }
        if (DiskFault { path: None, ..fault.clone() }) == DiskFault::default() {
            return Err(value
                .problem("this 'disk_fault' does not say what fails")
                .relational()
                .help("add sync_time: 1 s, sync_errors: 1, full: true, read_errors: 0.01 or bit_rot: 0.01"));
        }
        if let Some(node) = s.get("path").filter(|_| fault.full) {
            return Err(node
                .problem("'path' is not valid with 'full'")
                .relational()
                .help("a full disk is full for all files: leave 'path' out, or write two events"));
        }
        Ok(Action::DiskFault { hosts, fault: Box::new(fault) })
    }
    fn write(&self, action: &Action, experiment: &Experiment, out: &mut Writer) {
        let Action::DiskFault { hosts, fault } = action else { return };
        out.plain(1, "disk_fault", experiment.host_set(hosts));
        if let Some((least, most)) = fault.sync_time {
            let times = format!("[{}, {}]", format_duration(least), format_duration(most));
            out.plain(1, "sync_time", if least == most { format_duration(least) } else { times });
        }
        if fault.sync_errors > 0 {
            out.plain(1, "sync_errors", fault.sync_errors);
        }
        if fault.full {
            out.plain(1, "full", true);
        }
        if fault.read_errors > 0.0 {
            out.plain(1, "read_errors", fault.read_errors);
        }
        if fault.bit_rot > 0.0 {
            out.plain(1, "bit_rot", fault.bit_rot);
        }
        if let Some(path) = &fault.path {
            out.plain(1, "path", quoted(path));
        }
    }
    fn hosts<'a>(&self, action: &'a mut Action) -> Vec<&'a mut HostSet> {
        let Action::DiskFault { hosts, .. } = action else { return Vec::new() };
        vec![hosts]
    }
}

/// Ends all faults of disks.
pub(super) struct Heal;

impl Kind for Heal {
    fn key(&self) -> &'static str {
        "disk_heal"
    }
    fn may_last(&self) -> bool {
        false
    }
    fn read(&self, value: &Node, _: &Section, world: &World) -> Result<Action, Problem> {
        Ok(Action::DiskHeal(host_set(value, "disk_heal", world)?))
    }
    fn write(&self, action: &Action, experiment: &Experiment, out: &mut Writer) {
        let Action::DiskHeal(hosts) = action else { return };
        out.plain(1, "disk_heal", experiment.host_set(hosts));
    }
    fn hosts<'a>(&self, action: &'a mut Action) -> Vec<&'a mut HostSet> {
        let Action::DiskHeal(hosts) = action else { return Vec::new() };
        vec![hosts]
    }
}
