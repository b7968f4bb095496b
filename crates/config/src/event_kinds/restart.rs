//! Event `restart`: hosts start again, as they were or with another root.

use super::kind::Kind;
use crate::emit::{Writer, quoted};
use crate::error::Problem;
use crate::events::{Action, HostSet, NewRoot};
use crate::load::events_values::{World, host_set, of, with_programs};
use crate::load::root;
use crate::model::{Experiment, Host};
use crate::yaml::{Node, Section};
use belljar_base::HostId;
use std::sync::Arc;

/// Restarts crashed hosts, and hosts that get another root.
pub(super) struct Restart;

impl Kind for Restart {
    fn key(&self) -> &'static str {
        "restart"
    }
    fn parameters(&self) -> &'static [&'static str] {
        &["root", "keep"]
    }
    fn check_duration(&self, action: &Action, node: &Node, _: &World) -> Result<(), Problem> {
        match action {
            Action::Restart { root: None, .. } => Err(node
                .problem("'restart' cannot be undone after a time")
                .help("leave out 'for': it is valid for events that bring a fault")),
            _ => Ok(()),
        }
    }
    fn read(&self, value: &Node, s: &Section, world: &World) -> Result<Action, Problem> {
        let hosts = host_set(value, "restart", world)?;
        let root = match (s.get("root"), s.entry("keep")) {
            (Some(node), _) => Some(Arc::new(new_root(value, node, s, &hosts, world)?)),
            (None, None) => None,
            (None, Some(keep)) => {
                return Err(Problem::at(keep.key_span, "'keep' is not valid without 'root'")
                    .help("a restart with the same root keeps all files: leave it out"));
            }
        };
        Ok(Action::Restart { hosts, root })
    }
    fn write(&self, action: &Action, experiment: &Experiment, out: &mut Writer) {
        let Action::Restart { hosts, root } = action else { return };
        out.plain(1, "restart", experiment.host_set(hosts));
        if let Some(new) = root {
            out.text(1, "root", &new.root.source.to_string_lossy());
            let keep: Vec<String> = new.keep.iter().map(|path| quoted(&path.to_string_lossy())).collect();
            out.plain(1, "keep", format_args!("[{}]", keep.join(", ")));
        }
    }
    fn hosts<'a>(&self, action: &'a mut Action) -> Vec<&'a mut HostSet> {
        let Action::Restart { hosts, .. } = action else { return Vec::new() };
        vec![hosts]
    }
}

/// Reads the root of an event, and finds the programs of its hosts there.
fn new_root(
    value: &Node,
    node: &Node,
    s: &Section,
    hosts: &HostSet,
    world: &World,
) -> Result<NewRoot, Problem> {
    with_programs(value, "restart", hosts, world)?;
    let concerned: Vec<(usize, &Host)> =
        of(hosts, world).filter(|(_, host)| !host.processes.is_empty()).collect();
    if let Some((_, host)) = concerned.iter().find(|(_, host)| host.root.is_none()) {
        return Err(value
            .problem(format!(
                "host '{}' has the files of this machine, so it cannot get another root",
                host.name
            ))
            .help("give the host a root at its start, such as root: server-1.tar"));
    }
    let files = root::read(node, world.around)?;
    let mut roots = vec![&files.model];
    roots.extend(concerned.iter().filter_map(|(_, host)| host.root.as_ref()));
    let example = "keep: [/var/lib/data], or keep: [] if no file of the host stays";
    let keep = root::kept_folders(s.required("keep", example)?, &roots)?;
    let programs = concerned.iter().map(|(id, host)| {
        let found = files.programs_of(host, world.around).map_err(|(message, help)| {
            node.problem(format!("the programs of host '{}': {message}", host.name)).maybe_help(help)
        });
        found.map(|programs| (HostId(*id as u32), programs))
    });
    let programs = programs.collect::<Result<_, _>>()?;
    Ok(NewRoot { root: files.model, keep, programs })
}
