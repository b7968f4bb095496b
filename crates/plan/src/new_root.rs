//! Roots that events give to hosts.

use crate::ProcessPlan;
use belljar_base::HostId;
use belljar_config::{Host, Process};
use std::path::PathBuf;

/// A host's next root, with the programs of its processes in it.
#[derive(Clone, Debug, PartialEq)]
pub struct NewRoot {
    /// Native directory of the root.
    pub directory: PathBuf,
    /// Initial working directory of programs, a path in the root; `None` for the host's folder in the results.
    pub working_directory: Option<PathBuf>,
    /// Folders of the host that stay.
    pub keep: Vec<PathBuf>,
    /// Start parameters of the host's processes.
    pub processes: Vec<ProcessPlan>,
}

impl NewRoot {
    /// Root that an event gives to a host; with `ends` the one that the host has at first.
    pub(crate) fn of(host: &Host, id: HostId, new: &belljar_config::NewRoot, ends: bool) -> Box<NewRoot> {
        let first = host.root.as_ref().filter(|_| ends);
        let root = first.unwrap_or(&new.root);
        let programs = new.programs.get(&id).filter(|_| first.is_none()).map_or(&[][..], Vec::as_slice);
        let process = |(number, process): (usize, &Process)| {
            let Some(program) = programs.get(number).cloned() else { return ProcessPlan::new(process) };
            ProcessPlan::new(&Process {
                path: program.path,
                arg0: program.arg0,
                args: program.args,
                environment: program.environment,
                user: program.user,
                ..process.clone()
            })
        };
        Box::new(NewRoot {
            directory: root.directory.clone(),
            working_directory: root.working_directory.clone(),
            keep: new.keep.clone(),
            processes: host.processes.iter().enumerate().map(process).collect(),
        })
    }
}
