//! Event `p4`: runtime files and commands for P4 switches during the run.

use super::kind::Kind;
use crate::emit::Writer;
use crate::error::Problem;
use crate::events::{Action, Event, HostSet, When};
use crate::load::events_values::World;
use crate::load::links::p4_setups;
use crate::model::Experiment;
use crate::topology::{DeviceKind, P4Setup, P4Switch};
use crate::yaml::{Node, Section, Value, section};
use belljar_base::{HostId, Map, SimTime, matches_wildcard};
use belljar_net::suggest::nearest;
use belljar_p4::Switch;
use std::rc::Rc;

/// Applies runtime files and commands to P4 switches: `p4: s1` with `runtime` or `commands`.
pub(super) struct P4;

impl Kind for P4 {
    fn key(&self) -> &'static str {
        "p4"
    }
    fn parameters(&self) -> &'static [&'static str] {
        &["runtime", "commands"]
    }
    fn may_last(&self) -> bool {
        false
    }
    fn read(&self, value: &Node, s: &Section, world: &World) -> Result<Action, Problem> {
        let all = || switches(world).map(|(_, name, _)| name);
        let mut chosen = Vec::new();
        let items: Vec<&Node> = match &value.value {
            Value::Sequence(items) => items.iter().map(|item| &**item).collect(),
            _ => vec![value],
        };
        for item in items {
            let text = section::string(item, "p4")?;
            let found = switches(world).filter(|(_, name, _)| matches_wildcard(text, name));
            let found: Vec<HostId> = found.map(|(id, ..)| id).collect();
            if found.is_empty() {
                let help = match (nearest(text, all()), all().next()) {
                    (Some(near), _) => format!("did you mean '{near}'?"),
                    (None, Some(first)) => format!("P4 switches have names such as '{first}'"),
                    (None, None) => {
                        "this experiment has none: give a switch a program by p4: program.p4".to_owned()
                    }
                };
                return Err(item.problem(format!("there is no P4 switch '{text}'")).help(help));
            }
            chosen.extend(found);
        }
        chosen.sort_unstable();
        chosen.dedup();
        let (setup, _) = p4_setups(s, world.around)?;
        if setup.is_empty() {
            return Err(Problem::at(s.span, "this event does not say what the switch is to carry out")
                .help("add runtime: entries.json or commands: commands.txt"));
        }
        Ok(Action::P4 { switches: chosen, setup: setup.into() })
    }
    fn write(&self, action: &Action, experiment: &Experiment, out: &mut Writer) {
        let Action::P4 { switches, setup } = action else { return };
        out.plain(1, "p4", experiment.host_set(&HostSet::Some(switches.clone())));
        crate::emit::p4_setups(out, 1, setup);
    }
    fn hosts<'a>(&self, _: &'a mut Action) -> Vec<&'a mut HostSet> {
        Vec::new()
    }
}

/// The P4 switches of an experiment, with the ids of their nodes.
fn switches<'a>(world: &World<'a>) -> impl Iterator<Item = (HostId, &'a str, &'a P4Switch)> + Clone {
    let hosts = world.hosts.len();
    world.topology.devices.iter().enumerate().filter_map(move |(n, device)| match &device.kind {
        DeviceKind::P4(p4) => Some((HostId((hosts + n) as u32), device.name.as_str(), &**p4)),
        _ => None,
    })
}

/// Applies the events of each switch in order of time: a refusal is an error in the file. For a switch with a
/// management interface, which a controller may have changed meanwhile, errors are reported when the event
/// happens instead.
pub(crate) fn check(items: &[Rc<Node>], events: &[Event], world: &World) -> Result<(), Problem> {
    let time = |event: &Event| match event.when {
        When::At(at) => at,
        When::Every { from, .. } => from,
    };
    let mut order: Vec<(SimTime, usize)> =
        events.iter().enumerate().map(|(n, event)| (time(event), n)).collect();
    order.sort_unstable();
    let mut made: Map<HostId, Switch> = Map::new();
    for (_, n) in order {
        let Action::P4 { switches: chosen, setup } = &events[n].action else { continue };
        for (id, name, p4) in switches(world).filter(|(id, ..)| chosen.contains(id)) {
            if p4.management.is_some() {
                continue;
            }
            let new = || p4.try_switch(p4.config.clone()).and_then(Result::ok);
            let Some(switch) = made.remove(&id).or_else(new) else { continue };
            let switch = made.entry(id).or_insert(switch);
            for one in &**setup {
                one.apply(switch)
                    .map_err(|error| place(&items[n], one).problem(format!("switch '{name}': {error}")))?;
            }
        }
    }
    Ok(())
}

/// The node of the file that contains the setup.
fn place<'a>(item: &'a Node, setup: &P4Setup) -> &'a Node {
    let key = if matches!(setup, P4Setup::Runtime(..)) { "runtime" } else { "commands" };
    item.entry(key).map_or(item, |entry| &*entry.value)
}
