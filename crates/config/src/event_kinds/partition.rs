//! Events `partition` and `heal`.

use super::kind::Kind;
use crate::emit::Writer;
use crate::emit::quoted;
use crate::error::Problem;
use crate::events::{Action, Event, HostSet};
use crate::load::events_values::{World, node_set};
use crate::model::Experiment;
use crate::yaml::{Node, Section, Style, Value, section};
use belljar_base::HostId;
use std::rc::Rc;

/// Separates hosts of different groups.
pub(super) struct Partition;

impl Kind for Partition {
    fn key(&self) -> &'static str {
        "partition"
    }
    fn read(&self, value: &Node, _: &Section, world: &World) -> Result<Action, Problem> {
        Ok(Action::Partition(groups(value, world)?))
    }
    fn write(&self, action: &Action, experiment: &Experiment, out: &mut Writer) {
        let Action::Partition(groups) = action else { return };
        let groups: Vec<String> = groups.iter().map(|group| experiment.host_set(group)).collect();
        out.plain(1, "partition", format_args!("[{}]", groups.join(", ")));
    }
    fn hosts<'a>(&self, action: &'a mut Action) -> Vec<&'a mut HostSet> {
        let Action::Partition(groups) = action else { return Vec::new() };
        groups.iter_mut().collect()
    }
}

/// Ends partitions.
pub(super) struct Heal;

impl Kind for Heal {
    fn key(&self) -> &'static str {
        "heal"
    }
    fn may_last(&self) -> bool {
        false
    }
    fn read(&self, value: &Node, _: &Section, _: &World) -> Result<Action, Problem> {
        let text = section::string(value, "heal")?;
        Ok(Action::Heal((text != "all").then(|| text.to_owned())))
    }
    fn write(&self, action: &Action, _: &Experiment, out: &mut Writer) {
        let Action::Heal(name) = action else { return };
        out.plain(1, "heal", name.as_deref().map_or("all".to_owned(), quoted));
    }
    fn hosts<'a>(&self, _: &'a mut Action) -> Vec<&'a mut HostSet> {
        Vec::new()
    }
}

/// `[a, b]`: one group separated from all other hosts; `[[a, b], [c]]`: groups separated from each other.
fn groups(node: &Node, world: &World) -> Result<Vec<HostSet>, Problem> {
    let is_name = |item: &Rc<Node>| matches!(&item.value, Value::Scalar(s) if s.style != Style::Literal);
    let sets = match &node.value {
        Value::Sequence(items) if !items.iter().any(is_name) => {
            items.iter().map(|item| node_set(item, "partition", world)).collect::<Result<Vec<_>, _>>()?
        }
        _ => vec![node_set(node, "partition", world)?],
    };
    match &sets[..] {
        [] => Err(node.problem("'partition' has no groups").help("write partition: [[alice, bob], [carol]]")),
        [HostSet::Some(one)] => {
            let ids = (0..world.hosts.len() as u32).map(HostId);
            let others: Vec<_> = ids.filter(|id| one.binary_search(id).is_err()).collect();
            if others.is_empty() {
                return Err(node.problem("this partition has all hosts on one side"));
            }
            Ok(vec![HostSet::Some(one.clone()), HostSet::Some(others)])
        }
        [HostSet::All] => Err(node.problem("this partition has all hosts on one side")),
        // Drawn at each occurrence: the other group consists of the hosts not drawn.
        [HostSet::OneOf(_)] => Ok(sets),
        many => {
            let twice = (0..world.node_count() as u32)
                .map(HostId)
                .find(|id| many.iter().filter(|set| set.may_hold(*id)).count() > 1);
            match twice {
                Some(id) => {
                    let name = world.names().nth(id.index()).unwrap_or_default();
                    Err(node.problem(format!("host '{name}' is in two groups of this partition")))
                }
                None => Ok(sets),
            }
        }
    }
}

/// Fails if a healed partition name does not exist.
pub(crate) fn check_heal(node: &Node, event: &Event, all: &[Event]) -> Result<(), Problem> {
    let Action::Heal(Some(name)) = &event.action else { return Ok(()) };
    let partitions =
        || all.iter().filter(|e| matches!(e.action, Action::Partition(_))).filter_map(|e| e.name.as_deref());
    if partitions().any(|known| known == name) {
        return Ok(());
    }
    let help = match belljar_net::suggest::nearest(name, partitions()) {
        Some(near) => format!("did you mean '{near}'?"),
        None => "write heal: all, or give the partition a name: and heal that".to_owned(),
    };
    let place = node.entry("heal").map_or(node.span, |entry| entry.value.span);
    Err(Problem::at(place, format!("no partition has the name '{name}'")).help(help))
}
