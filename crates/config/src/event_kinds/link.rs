//! Events `link_down`, `link_up`, `link_change` and `link_reset`.

use super::kind::Kind;
use crate::emit::Writer;
use crate::error::Problem;
use crate::events::{Action, HostSet, Target};
use crate::load::events_values::{World, target};
use crate::load::links;
use crate::model::Experiment;
use crate::topology::DeviceKind;
use crate::yaml::{Node, Section, section};
use belljar_base::{HostId, SimDuration};
use belljar_net::Loss;
use belljar_net::link::{LinkOverrides, PathChange};
use belljar_net::units::format_duration;

/// Disables links or paths.
pub(super) struct Down;

impl Kind for Down {
    fn key(&self) -> &'static str {
        "link_down"
    }
    fn read(&self, value: &Node, _: &Section, world: &World) -> Result<Action, Problem> {
        Ok(Action::LinkDown(target(value, "link_down", world)?))
    }
    fn write(&self, action: &Action, experiment: &Experiment, out: &mut Writer) {
        let Action::LinkDown(target) = action else { return };
        out.plain(1, "link_down", experiment.target(target));
    }
    fn hosts<'a>(&self, action: &'a mut Action) -> Vec<&'a mut HostSet> {
        let Action::LinkDown(target) = action else { return Vec::new() };
        ends(target)
    }
    fn ending(&self, action: &Action) -> Action {
        match action {
            Action::LinkDown(target) => Action::LinkUp(target.clone()),
            other => other.clone(),
        }
    }
}

/// Enables links or paths again.
pub(super) struct Up;

impl Kind for Up {
    fn key(&self) -> &'static str {
        "link_up"
    }
    fn may_last(&self) -> bool {
        false
    }
    fn read(&self, value: &Node, _: &Section, world: &World) -> Result<Action, Problem> {
        Ok(Action::LinkUp(target(value, "link_up", world)?))
    }
    fn write(&self, action: &Action, experiment: &Experiment, out: &mut Writer) {
        let Action::LinkUp(target) = action else { return };
        out.plain(1, "link_up", experiment.target(target));
    }
    fn hosts<'a>(&self, action: &'a mut Action) -> Vec<&'a mut HostSet> {
        let Action::LinkUp(target) = action else { return Vec::new() };
        ends(target)
    }
}

/// Changes properties of links or paths.
pub(super) struct Change;

impl Kind for Change {
    fn key(&self) -> &'static str {
        "link_change"
    }
    fn parameters(&self) -> &'static [&'static str] {
        &[
            "latency",
            "jitter",
            "packet_loss",
            "rate",
            "reordering",
            "duplication",
            "corruption",
            "queue",
            "token_bucket",
        ]
    }
    fn read(&self, value: &Node, s: &Section, world: &World) -> Result<Action, Problem> {
        let target = target(value, "link_change", world)?;
        let change = path_change(s, &target, world)?;
        Ok(Action::Change(target, change))
    }
    fn write(&self, action: &Action, experiment: &Experiment, out: &mut Writer) {
        let Action::Change(target, change) = action else { return };
        out.plain(1, "link_change", experiment.target(target));
        if let Some(latency) = change.latency {
            out.plain(1, "latency", format_duration(latency));
        }
        if let Some(jitter) = change.jitter {
            out.plain(1, "jitter", format_duration(jitter));
        }
        if let Some(loss) = change.loss {
            out.plain(1, "packet_loss", loss);
        }
        crate::emit::line_change(out, 1, &change.link);
    }
    fn hosts<'a>(&self, action: &'a mut Action) -> Vec<&'a mut HostSet> {
        let Action::Change(target, _) = action else { return Vec::new() };
        ends(target)
    }
    fn ending(&self, action: &Action) -> Action {
        match action {
            Action::Change(target, _) => Action::Reset(target.clone()),
            other => other.clone(),
        }
    }
}

/// Restores the initial properties of links or paths.
pub(super) struct Reset;

impl Kind for Reset {
    fn key(&self) -> &'static str {
        "link_reset"
    }
    fn may_last(&self) -> bool {
        false
    }
    fn read(&self, value: &Node, _: &Section, world: &World) -> Result<Action, Problem> {
        Ok(Action::Reset(target(value, "link_reset", world)?))
    }
    fn write(&self, action: &Action, experiment: &Experiment, out: &mut Writer) {
        let Action::Reset(target) = action else { return };
        out.plain(1, "link_reset", experiment.target(target));
    }
    fn hosts<'a>(&self, action: &'a mut Action) -> Vec<&'a mut HostSet> {
        let Action::Reset(target) = action else { return Vec::new() };
        ends(target)
    }
}

/// Sets of hosts at the ends of paths.
fn ends(target: &mut Target) -> Vec<&mut HostSet> {
    match target {
        Target::Paths { from, to, .. } => vec![from, to],
        Target::Edge(..) | Target::Links { .. } => Vec::new(),
    }
}

fn path_change(s: &Section, target: &Target, world: &World) -> Result<PathChange, Problem> {
    let change = PathChange {
        latency: s.read("latency", section::duration)?.map(|latency| latency.max(SimDuration::from_nanos(1))),
        jitter: s.read("jitter", section::duration)?,
        loss: None,
        link: Box::new(links::line_change(s)?),
    };
    let change = match (target, change.link.loss) {
        (Target::Links { links, from }, _) => {
            check_p4_ports(s, links, *from, &change.link, world)?;
            if let (Some(Some(bucket)), Some(node)) = (&change.link.token_bucket, s.get("token_bucket")) {
                let mtu = links.iter().map(|n| world.topology.links[*n].mtu).max().unwrap_or(0);
                links::check_burst(node, bucket, mtu)?;
            }
            change
        }
        (_, Some(Loss::Independent(loss))) => PathChange {
            loss: Some(loss),
            link: Box::new(LinkOverrides { loss: None, ..*change.link }),
            ..change
        },
        _ => change,
    };
    if *change.link != LinkOverrides::default() && !matches!(target, Target::Links { .. }) {
        const KEYS: [&str; 7] =
            ["rate", "reordering", "duplication", "corruption", "queue", "token_bucket", "packet_loss"];
        let entry = KEYS.iter().find_map(|key| s.entry(key)).expect("one of them has changed it");
        let help = match entry.key.as_str() {
            "rate" => "the event 'bandwidth' changes that of hosts on the graph",
            "packet_loss" => "on the graph it is a number from 0 to 1",
            _ => "name a link, such as link_change: { link: NAME }",
        };
        return Err(
            Problem::at(entry.key_span, format!("'{}' is only valid for links", entry.key)).help(help)
        );
    }
    if change == PathChange::default() {
        return Err(Problem::at(s.span, "this event changes nothing about the link")
            .help("add latency: 100 ms, jitter: 5 ms or packet_loss: 0.1"));
    }
    if let (Some(latency), Some(jitter), Some(node)) = (change.latency, change.jitter, s.get("jitter"))
        && jitter > latency
    {
        return Err(node.problem("'jitter' must not be more than 'latency'"));
    }
    Ok(change)
}

/// Refuses a queue for a port of a P4 switch, which has queues of its own.
fn check_p4_ports(
    s: &Section,
    numbers: &[usize],
    from: Option<HostId>,
    line: &LinkOverrides,
    world: &World,
) -> Result<(), Problem> {
    let ends = numbers.iter().flat_map(|link| &world.topology.links[*link].ends);
    let meant = ends.filter(|end| from.is_none_or(|from| from == end.node));
    for end in meant {
        let device = end.node.index().checked_sub(world.hosts.len()).map(|n| &world.topology.devices[n]);
        let Some((device, DeviceKind::P4(p4))) = device.map(|device| (device, &device.kind)) else {
            continue;
        };
        if p4.management.as_ref().is_some_and(|management| management.interface == end.port) {
            continue;
        }
        let place = format!("{}:{}", device.name, device.interfaces[end.port].name);
        let help =
            "if it is meant for the other end alone, name that: link_change: { link: NAME, from: HOST }";
        if let (Some(queue), Some(node)) = (&line.queue, s.get("queue")) {
            links::check_p4_queue(queue).map_err(|why| {
                node.problem(format!("'{place}' is a P4 switch's port, which cannot have this queue: {why}"))
                    .help(help)
            })?;
        }
    }
    Ok(())
}
