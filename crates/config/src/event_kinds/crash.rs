//! Events `crash`, `pause` and `resume`: hosts, or processes, that do not run.

use super::kind::Kind;
use super::programs::{process_text, processes};
use crate::emit::Writer;
use crate::error::Problem;
use crate::events::{Action, CrashFiles, DiskProfile, Event, HostSet, ProcessRef};
use crate::load::events_values::{World, host_set, of, set_disk, with_programs};
use crate::model::{Experiment, Host};
use crate::topology::Interface;
use crate::yaml::{Node, Section, section};
use std::rc::Rc;

/// Stops hosts at once.
pub(super) struct Crash;

impl Kind for Crash {
    fn key(&self) -> &'static str {
        "crash"
    }
    fn parameters(&self) -> &'static [&'static str] {
        &["files", "disk"]
    }
    fn read(&self, value: &Node, s: &Section, world: &World) -> Result<Action, Problem> {
        let mut files =
            s.read("files", |n, k| section::choice(n, k, CrashFiles::NAMES))?.unwrap_or(CrashFiles::Kept);
        set_disk(s, std::slice::from_mut(&mut files))?;
        Ok(Action::Crash { hosts: host_set(value, "crash", world)?, files })
    }
    fn write(&self, action: &Action, experiment: &Experiment, out: &mut Writer) {
        let Action::Crash { hosts, files } = action else { return };
        out.plain(1, "crash", experiment.host_set(hosts));
        out.plain(1, "files", files.name());
        if let CrashFiles::Unsynced { disk, .. } = files {
            out.plain(1, "disk", disk.name());
        }
    }
    fn hosts<'a>(&self, action: &'a mut Action) -> Vec<&'a mut HostSet> {
        let Action::Crash { hosts, .. } = action else { return Vec::new() };
        vec![hosts]
    }
    fn ending(&self, action: &Action) -> Action {
        match action {
            Action::Crash { hosts, .. } => Action::Restart { hosts: hosts.clone(), root: None },
            other => other.clone(),
        }
    }
}

/// Refuses two sets of rules for the disk of one host.
pub(crate) fn check(items: &[Rc<Node>], events: &[Event]) -> Result<(), Problem> {
    let disk = |event: &Event| match &event.action {
        Action::Crash { hosts, files: CrashFiles::Unsynced { disk, .. } } => Some((hosts.clone(), *disk)),
        _ => None,
    };
    for (at, (item, event)) in items.iter().zip(events).enumerate() {
        let Some((hosts, own)) = disk(event) else { continue };
        let clashes = |(others, other): (HostSet, DiskProfile)| other != own && hosts.may_share(&others);
        if events[..at].iter().filter_map(disk).any(clashes) {
            return Err(item
                .problem("the disk of a host cannot be both 'ordered' and 'any'")
                .help("give the same 'disk' in all crashes of a host"));
        }
    }
    Ok(())
}

/// Lets hosts or processes stand still.
pub(super) struct Pause;

impl Kind for Pause {
    fn key(&self) -> &'static str {
        "pause"
    }
    fn parameters(&self) -> &'static [&'static str] {
        &["process"]
    }
    fn read(&self, value: &Node, s: &Section, world: &World) -> Result<Action, Problem> {
        let hosts = host_set(value, "pause", world)?;
        if let Some(process) = running(value, "pause", &hosts, s, world)? {
            return Ok(Action::PauseProcess(hosts, process));
        }
        let drives = |host: &Host| {
            let has_device = |interface: &Interface| world.topology.links[interface.link].pci.is_some();
            host.machine.is_some() || host.interfaces.iter().any(has_device)
        };
        let found = of(&hosts, world).map(|(_, host)| host).find(|host| drives(host));
        match found {
            Some(host) => Err(value
                .problem(format!(
                    "host '{}' has a clock beside the simulated one: a machine, or a PCI device",
                    host.name
                ))
                .help("name other hosts, or take its links down: link_down")),
            None => Ok(Action::Pause(hosts)),
        }
    }
    fn write(&self, action: &Action, experiment: &Experiment, out: &mut Writer) {
        match action {
            Action::Pause(hosts) => out.plain(1, "pause", experiment.host_set(hosts)),
            Action::PauseProcess(hosts, process) => {
                out.plain(1, "pause", experiment.host_set(hosts));
                out.plain(1, "process", process_text(process));
            }
            _ => {}
        }
    }
    fn hosts<'a>(&self, action: &'a mut Action) -> Vec<&'a mut HostSet> {
        match action {
            Action::Pause(hosts) | Action::PauseProcess(hosts, _) => vec![hosts],
            _ => Vec::new(),
        }
    }
    fn ending(&self, action: &Action) -> Action {
        match action {
            Action::Pause(hosts) => Action::Resume(hosts.clone()),
            Action::PauseProcess(hosts, process) => Action::ResumeProcess(hosts.clone(), process.clone()),
            other => other.clone(),
        }
    }
}

/// Lets paused hosts or processes go on.
pub(super) struct Resume;

impl Kind for Resume {
    fn key(&self) -> &'static str {
        "resume"
    }
    fn parameters(&self) -> &'static [&'static str] {
        &["process"]
    }
    fn may_last(&self) -> bool {
        false
    }
    fn read(&self, value: &Node, s: &Section, world: &World) -> Result<Action, Problem> {
        let hosts = host_set(value, "resume", world)?;
        Ok(match running(value, "resume", &hosts, s, world)? {
            Some(process) => Action::ResumeProcess(hosts, process),
            None => Action::Resume(hosts),
        })
    }
    fn write(&self, action: &Action, experiment: &Experiment, out: &mut Writer) {
        match action {
            Action::Resume(hosts) => out.plain(1, "resume", experiment.host_set(hosts)),
            Action::ResumeProcess(hosts, process) => {
                out.plain(1, "resume", experiment.host_set(hosts));
                out.plain(1, "process", process_text(process));
            }
            _ => {}
        }
    }
    fn hosts<'a>(&self, action: &'a mut Action) -> Vec<&'a mut HostSet> {
        match action {
            Action::Resume(hosts) | Action::ResumeProcess(hosts, _) => vec![hosts],
            _ => Vec::new(),
        }
    }
}

/// The key `process`: an index of the hosts' lists, or a name.
fn running(
    value: &Node,
    key: &str,
    hosts: &HostSet,
    s: &Section,
    world: &World,
) -> Result<Option<ProcessRef>, Problem> {
    let Some(node) = s.get("process") else { return Ok(None) };
    with_programs(value, key, hosts, world)?;
    processes(node, "process", hosts, world, "process: redis-server").map(Some)
}
