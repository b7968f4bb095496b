//! Events `start`, `stop`, `signal` and `kill`.

use super::kind::Kind;
use crate::emit::Writer;
use crate::emit::quoted;
use crate::error::Problem;
use crate::events::{Action, HostSet, ProcessRef};
use crate::load::events_values::{
    World, host_set, model_ref, place_or_name, process_ref, runs_programs, startable, with_programs,
};
use crate::load::process::signal;
use crate::model::Experiment;
use crate::yaml::{Node, Section};

/// Starts processes and models.
pub(super) struct Start;

impl Kind for Start {
    fn key(&self) -> &'static str {
        "start"
    }
    fn parameters(&self) -> &'static [&'static str] {
        &["hosts"]
    }
    fn check_duration(&self, action: &Action, node: &Node, world: &World) -> Result<(), Problem> {
        match action {
            Action::Start(hosts, process) if runs_programs(hosts, process, world) => Err(node
                .problem("only models can be started for a time")
                .help("end a program by an event 'signal', or its 'shutdown_time'")),
            _ => Ok(()),
        }
    }
    fn read(&self, value: &Node, s: &Section, world: &World) -> Result<Action, Problem> {
        let hosts = on_hosts(s, world)?;
        let process = startable(value, &hosts, world)?;
        Ok(Action::Start(hosts, process))
    }
    fn write(&self, action: &Action, experiment: &Experiment, out: &mut Writer) {
        let Action::Start(hosts, process) = action else { return };
        out.plain(1, "start", process_text(process));
        out.plain(1, "hosts", experiment.host_set(hosts));
    }
    fn hosts<'a>(&self, action: &'a mut Action) -> Vec<&'a mut HostSet> {
        let Action::Start(hosts, _) = action else { return Vec::new() };
        vec![hosts]
    }
    fn ending(&self, action: &Action) -> Action {
        match action {
            Action::Start(hosts, ProcessRef::Program(model)) => Action::Stop(hosts.clone(), model.clone()),
            other => other.clone(),
        }
    }
}

/// Stops models.
pub(super) struct Stop;

impl Kind for Stop {
    fn key(&self) -> &'static str {
        "stop"
    }
    fn parameters(&self) -> &'static [&'static str] {
        &["hosts"]
    }
    fn read(&self, value: &Node, s: &Section, world: &World) -> Result<Action, Problem> {
        let hosts = on_hosts(s, world)?;
        let model = model_ref(value, &hosts, world)?;
        Ok(Action::Stop(hosts, model))
    }
    fn write(&self, action: &Action, experiment: &Experiment, out: &mut Writer) {
        let Action::Stop(hosts, model) = action else { return };
        out.text(1, "stop", model);
        out.plain(1, "hosts", experiment.host_set(hosts));
    }
    fn hosts<'a>(&self, action: &'a mut Action) -> Vec<&'a mut HostSet> {
        let Action::Stop(hosts, _) = action else { return Vec::new() };
        vec![hosts]
    }
    fn ending(&self, action: &Action) -> Action {
        match action {
            Action::Stop(hosts, model) => Action::Start(hosts.clone(), ProcessRef::Program(model.clone())),
            other => other.clone(),
        }
    }
}

/// Sends a signal to processes.
pub(super) struct Signal;

impl Kind for Signal {
    fn key(&self) -> &'static str {
        "signal"
    }
    fn parameters(&self) -> &'static [&'static str] {
        &["hosts", "process"]
    }
    fn may_last(&self) -> bool {
        false
    }
    fn read(&self, value: &Node, s: &Section, world: &World) -> Result<Action, Problem> {
        let number = signal(value, "signal")?;
        let hosts = on_hosts(s, world)?;
        let process = match s.get("process") {
            Some(node) => process_ref(node, "process", &hosts, world)?,
            None => ProcessRef::Number(0),
        };
        Ok(Action::Signal(hosts, process, number))
    }
    fn write(&self, action: &Action, experiment: &Experiment, out: &mut Writer) {
        let Action::Signal(hosts, process, signal) = action else { return };
        out.plain(1, "signal", signal);
        out.plain(1, "hosts", experiment.host_set(hosts));
        out.plain(1, "process", process_text(process));
    }
    fn hosts<'a>(&self, action: &'a mut Action) -> Vec<&'a mut HostSet> {
        let Action::Signal(hosts, ..) = action else { return Vec::new() };
        vec![hosts]
    }
}

/// Kills processes.
pub(super) struct Kill;

impl Kind for Kill {
    fn key(&self) -> &'static str {
        "kill"
    }
    fn parameters(&self) -> &'static [&'static str] {
        &["hosts"]
    }
    fn read(&self, value: &Node, s: &Section, world: &World) -> Result<Action, Problem> {
        let hosts = on_hosts_with_programs(s, "kill", world)?;
        let process = processes(value, "kill", &hosts, world, "kill: redis-server")?;
        Ok(Action::Kill(hosts, process))
    }
    fn write(&self, action: &Action, experiment: &Experiment, out: &mut Writer) {
        let Action::Kill(hosts, process) = action else { return };
        out.plain(1, "kill", process_text(process));
        out.plain(1, "hosts", experiment.host_set(hosts));
    }
    fn hosts<'a>(&self, action: &'a mut Action) -> Vec<&'a mut HostSet> {
        let Action::Kill(hosts, _) = action else { return Vec::new() };
        vec![hosts]
    }
}

/// The required key `hosts`.
pub(super) fn on_hosts(s: &Section, world: &World) -> Result<HostSet, Problem> {
    host_set(s.required("hosts", "hosts: alice")?, "hosts", world)
}

/// The required key `hosts` of an event `key`, which has an effect on hosts with programs alone.
pub(super) fn on_hosts_with_programs(s: &Section, key: &str, world: &World) -> Result<HostSet, Problem> {
    let node = s.required("hosts", "hosts: alice")?;
    let hosts = host_set(node, "hosts", world)?;
    with_programs(node, key, &hosts, world)?;
    Ok(hosts)
}

/// An index of the hosts' lists, or a name of processes, in which `*` stands for any characters.
pub(super) fn processes(
    node: &Node,
    key: &str,
    hosts: &HostSet,
    world: &World,
    example: &str,
) -> Result<ProcessRef, Problem> {
    // A name may be that of a process which programs start, so only numbers are known to be right.
    match place_or_name(node, key)? {
        ProcessRef::Number(_) => process_ref(node, key, hosts, world),
        ProcessRef::Program(name) => {
            check_process_name(node, &name, example)?;
            Ok(ProcessRef::Program(name))
        }
    }
}

/// Refuses a name that no process has; `example` shows how to write one.
pub(crate) fn check_process_name(node: &Node, name: &str, example: &str) -> Result<(), Problem> {
    match name.is_empty() || name.contains('/') {
        true => Err(node
            .problem(format!("'{name}' is no name of a process"))
            .help(format!("write the program's file name, such as {example}"))),
        false => Ok(()),
    }
}

pub(super) fn process_text(process: &ProcessRef) -> String {
    match process {
        ProcessRef::Number(number) => number.to_string(),
        // In quotes, so that a program whose name is a number is not taken for an index.
        ProcessRef::Program(name) => format!("\"{}\"", quoted(name).trim_matches('"')),
    }
}
