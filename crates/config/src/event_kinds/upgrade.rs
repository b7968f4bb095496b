//! Event `upgrade`: one program replaces another.

use super::kind::Kind;
use super::programs::{on_hosts_with_programs, process_text};
use crate::emit::Writer;
use crate::error::Problem;
use crate::events::{Action, HostSet};
use crate::load::events_values::{World, of, process_ref};
use crate::model::{Experiment, Host};
use crate::yaml::{Node, Section, section};
use belljar_base::{SimDuration, SimTime};
use belljar_net::units::format_duration;

/// Time that a process has to end, as containers have.
const GRACE: SimDuration = SimDuration::from_secs(10);

/// Ends a process and starts its replacement.
pub(super) struct Upgrade;

impl Kind for Upgrade {
    fn key(&self) -> &'static str {
        "upgrade"
    }
    fn parameters(&self) -> &'static [&'static str] {
        &["hosts", "to", "grace"]
    }
    fn read(&self, value: &Node, s: &Section, world: &World) -> Result<Action, Problem> {
        let hosts = on_hosts_with_programs(s, "upgrade", world)?;
        let process = process_ref(value, "upgrade", &hosts, world)?;
        let node = s.required("to", "to: 1")?;
        let to = process_ref(node, "to", &hosts, world)?;
        for (_, host) in of(&hosts, world) {
            check(host, host.processes_like(&process).collect(), host.processes_like(&to).collect())
                .map_err(|(message, help)| node.problem(message).help(help))?;
        }
        let grace = s.read("grace", section::duration)?.unwrap_or(GRACE);
        Ok(Action::Upgrade { hosts, process, to, grace })
    }
    fn write(&self, action: &Action, experiment: &Experiment, out: &mut Writer) {
        let Action::Upgrade { hosts, process, to, grace } = action else { return };
        out.plain(1, "upgrade", process_text(process));
        out.plain(1, "hosts", experiment.host_set(hosts));
        out.plain(1, "to", process_text(to));
        out.plain(1, "grace", format_duration(*grace));
    }
    fn hosts<'a>(&self, action: &'a mut Action) -> Vec<&'a mut HostSet> {
        let Action::Upgrade { hosts, .. } = action else { return Vec::new() };
        vec![hosts]
    }
    fn ending(&self, action: &Action) -> Action {
        match action.clone() {
            Action::Upgrade { hosts, process, to, grace } => {
                Action::Upgrade { hosts, process: to, to: process, grace }
            }
            other => other,
        }
    }
}

/// Checks that one process is replaced by another one, which starts by the event alone. The error is a problem and its remedy.
fn check(host: &Host, from: Vec<usize>, to: Vec<usize>) -> Result<(), (String, &'static str)> {
    let name = &host.name;
    let (&[from], &[to]) = (&from[..], &to[..]) else {
        let help = "name them by their numbers in the list";
        return Err((format!("on host '{name}' several processes have that name"), help));
    };
    if from == to {
        let help = "add the new program to the host's list, with start_time: never";
        return Err((format!("on host '{name}' that is the process which ends"), help));
    }
    match host.processes[to].start_time {
        SimTime::MAX => Ok(()),
        _ => Err((format!("on host '{name}' that process starts by itself"), "write start_time: never")),
    }
}
