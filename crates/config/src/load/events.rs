//! Section `events`.

use super::events_values::{
    drift, host_set, model_ref, node_set, on_graph, probability, process_ref, runs_programs, signed_time,
    startable, target,
};
use super::process::signal;
use crate::PathContext;
use crate::error::Problem;
use crate::events::{Action, Event, HostSet, ProcessRef, Target, When};
use crate::model::{Host, Network};
use crate::topology::{DeviceKind, Topology};
use crate::yaml::{Node, Section, Style, Value, section};
use belljar_base::{HostId, SimDuration, SimTime};
use belljar_net::Loss;
use belljar_net::link::{LinkOverrides, PathChange};
use std::rc::Rc;

/// Names of actions, each with the further keys of its entry.
const ACTIONS: &[(&str, &[&str])] = &[
    ("link_down", &[]),
    ("link_up", &[]),
    (
        "link_change",
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
        ],
    ),
    ("link_reset", &[]),
    ("partition", &[]),
    ("heal", &[]),
    ("bandwidth", &["up", "down"]),
    ("crash", &["files"]),
    ("restart", &[]),
    ("dns_down", &[]),
    ("dns_up", &[]),
    ("start", &["hosts"]),
    ("stop", &["hosts"]),
    ("signal", &["hosts", "process"]),
    ("clock", &["step", "drift_ppm"]),
    ("p4", &["runtime", "commands"]),
    ("move", &["to", "speed"]),
];
const WHEN: &[&str] = &["at", "every", "between", "probability", "for", "name"];

/// The hosts and network to which events can refer.
pub(super) struct World<'a> {
    pub(super) hosts: &'a [Host],
    pub(super) network: &'a Network,
    pub(super) topology: &'a Topology,
    pub(super) around: &'a PathContext,
}

impl World<'_> {
    /// Names of hosts and devices, by their ids.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> + Clone {
        let hosts = self.hosts.iter().map(|host| host.name.as_str());
        hosts.chain(self.topology.devices.iter().map(|device| device.name.as_str()))
    }
    pub(super) fn node_count(&self) -> usize {
        self.hosts.len() + self.topology.devices.len()
    }
}

pub(super) fn read(node: &Node, world: &World) -> Result<Vec<Event>, Problem> {
    let items = section::list(node, "events")?;
    let events = items.iter().map(|item| event(item, world)).collect::<Result<Vec<_>, _>>()?;
    for (item, event) in items.iter().zip(&events) {
        check_heal(item, event, &events)?;
    }
    super::events_p4::check(items, &events, world)?;
    Ok(events)
}

fn event(node: &Rc<Node>, world: &World) -> Result<Event, Problem> {
    let mut keys: Vec<&str> = WHEN.to_vec();
    for (action, params) in ACTIONS {
        keys.push(action);
        keys.extend(params.iter().filter(|param| !keys.contains(param)).copied().collect::<Vec<_>>());
    }
    let s = Section::new(node, "an event", &keys, false)?;
    let (name, params) = one_action(&s)?;
    for key in keys.iter().filter(|key| !WHEN.contains(key) && **key != name && !params.contains(key)) {
        if let Some(entry) = s.entry(key) {
            let help = match params {
                [] => format!("'{name}' takes no further keys"),
                _ => format!("'{name}' takes {}", params.join(", ")),
            };
            return Err(
                Problem::at(entry.key_span, format!("'{key}' is not valid in event '{name}'")).help(help)
            );
        }
    }
    let when = when(&s)?;
    let lasting = s.read("for", section::duration)?;
    if let Some(node) = s.get("for") {
        if lasting == Some(SimDuration::ZERO) {
            return Err(node.problem("'for' must not be 0"));
        }
        if matches!(name, "link_up" | "link_reset" | "heal" | "restart" | "dns_up" | "signal" | "p4" | "move")
        {
            return Err(node
                .problem(format!("'{name}' cannot be undone after a time"))
                .help("leave out 'for': it is valid for events that bring a fault"));
        }
    }
    let action = action(name, &s, world)?;
    if let (Action::Clock { step_ns: Some(_), .. }, Some(node)) = (&action, s.get("for")) {
        return Err(node.problem("a step of the clock cannot be undone after a time").help("step it back"));
    }
    if let (Action::Start(hosts, process), Some(node)) = (&action, s.get("for"))
        && runs_programs(hosts, process, world)
    {
        return Err(node
            .problem("only models can be started for a time")
            .help("end a program by an event 'signal', or its 'shutdown_time'"));
    }
    let own_name = s.read("name", section::string)?.map(str::to_owned);
    Ok(Event { name: own_name, when, lasting, action })
}

/// The single key that names the action.
fn one_action(s: &Section) -> Result<(&'static str, &'static [&'static str]), Problem> {
    let mut found = ACTIONS.iter().filter(|(name, _)| s.entry(name).is_some());
    let names = || ACTIONS.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
    let Some((name, params)) = found.next() else {
        return Err(Problem::at(s.span, "this event does not say what happens")
            .help(format!("add one of {}", names())));
    };
    match found.next().and_then(|(second, _)| s.entry(second)) {
        Some(second) => {
            Err(Problem::at(second.key_span, format!("this event has both '{name}' and '{}'", second.key))
                .help("write two events"))
        }
        None => Ok((name, params)),
    }
}

fn when(s: &Section) -> Result<When, Problem> {
    match (s.get("at"), s.get("every")) {
        (Some(node), None) => {
            if let Some(entry) = ["between", "probability"].iter().find_map(|key| s.entry(key)) {
                return Err(Problem::at(
                    entry.key_span,
                    format!("'{}' is only valid with 'every'", entry.key),
                )
                .help("write every: in place of at:, or leave it out"));
            }
            Ok(When::At(section::time(node, "at")?))
        }
        (None, Some(node)) => {
            let interval = section::duration(node, "every")?;
            if interval.is_zero() {
                return Err(node.problem("'every' must not be 0"));
            }
            let (from, until) =
                s.read("between", between)?.unwrap_or((SimTime::ZERO + interval, SimTime::MAX));
            let probability = s.read("probability", probability)?.unwrap_or(1.0);
            Ok(When::Every { interval, from, until, probability })
        }
        (Some(_), Some(node)) => Err(node.problem("an event has 'at' or 'every', not both")),
        (None, None) => Err(Problem::at(s.span, "this event does not say when it happens")
            .help("add at: 10 s, or every: 10 s and between: [20 s, 60 s]")),
    }
}

fn between(node: &Node, key: &str) -> Result<(SimTime, SimTime), Problem> {
    const HELP: &str = "write two times, such as between: [20 s, 60 s]";
    let [from, until] = section::list(node, key)? else {
        return Err(node.problem("'between' must have a first and a last time").help(HELP));
    };
    let (first, last) = (section::time(from, key)?, section::time(until, key)?);
    if last < first {
        return Err(until.problem("'between' ends before it begins").help(HELP));
    }
    Ok((first, last))
}

fn action(name: &str, s: &Section, world: &World) -> Result<Action, Problem> {
    let value = s.required(name, &format!("{name}: ..., or see the guide on a changing world"))?;
    let hosts = |node: &Node, key: &str| host_set(node, key, world);
    Ok(match name {
        "link_down" => Action::LinkDown(target(value, name, world)?),
        "link_up" => Action::LinkUp(target(value, name, world)?),
        "link_reset" => Action::Reset(target(value, name, world)?),
        "link_change" => {
            let target = target(value, name, world)?;
            let change = path_change(s, &target, world)?;
            Action::Change(target, change)
        }
        "partition" => Action::Partition(groups(value, world)?),
        "heal" => {
            let text = section::string(value, name)?;
            Action::Heal((text != "all").then(|| text.to_owned()))
        }
        "bandwidth" => {
            let (up, down) = (s.read("up", bandwidth)?, s.read("down", bandwidth)?);
            if up.is_none() && down.is_none() {
                return Err(Problem::at(s.span, "this event changes neither 'up' nor 'down'")
                    .help("add up: 10 Mbit or down: 10 Mbit"));
            }
            let hosts = hosts(value, name)?;
            on_graph(value, &hosts, world)?;
            Action::Bandwidth { hosts, up, down }
        }
        "crash" => {
            const FILES: &[(&str, bool)] = &[("kept", false), ("lost", true)];
            let lose_files = s.read("files", |n, k| section::choice(n, k, FILES))?.unwrap_or(false);
            Action::Crash { hosts: hosts(value, name)?, lose_files }
        }
        "dns_down" | "dns_up" => Action::NameServer { hosts: hosts(value, name)?, down: name == "dns_down" },
        "restart" => Action::Restart(hosts(value, name)?),
        "start" => {
            let hosts = hosts(s.required("hosts", "hosts: alice")?, "hosts")?;
            let process = startable(value, &hosts, world)?;
            Action::Start(hosts, process)
        }
        "stop" => {
            let hosts = hosts(s.required("hosts", "hosts: alice")?, "hosts")?;
            let model = model_ref(value, &hosts, world)?;
            Action::Stop(hosts, model)
        }
        "signal" => {
            let number = signal(value, name)?;
            let hosts = hosts(s.required("hosts", "hosts: alice")?, "hosts")?;
            let process = match s.get("process") {
                Some(node) => process_ref(node, "process", &hosts, world)?,
                None => ProcessRef::Number(0),
            };
            Action::Signal(hosts, process, number)
        }
        "p4" => super::events_p4::action(value, s, world)?,
        "move" => movement(value, s, world)?,
        _ => {
            let (step_ns, drift_ppb) = (s.read("step", signed_time)?, s.read("drift_ppm", drift)?);
            if step_ns.is_none() && drift_ppb.is_none() {
                return Err(Problem::at(s.span, "this event changes nothing about the clock")
                    .help("add step: 5 s, step: -5 s or drift_ppm: 50"));
            }
            Action::Clock { hosts: hosts(value, name)?, step_ns, drift_ppb }
        }
    })
}

fn movement(value: &Node, s: &Section, world: &World) -> Result<Action, Problem> {
    let hosts = host_set(value, "move", world)?;
    let is_station = |host: &Host| {
        host.interfaces.iter().any(|interface| {
            let nodes = world.topology.links[interface.link].ends.each_ref().map(|end| end.node.index());
            let devices = nodes
                .map(|node| node.checked_sub(world.hosts.len()).map(|n| &world.topology.devices[n].kind));
            devices.iter().any(|kind| matches!(kind, Some(DeviceKind::Radio(_))))
        })
    };
    let named = |n: &usize| hosts.may_hold(HostId(*n as u32)) && hosts != HostSet::All;
    let other = (0..world.hosts.len()).filter(named).find(|n| !is_station(&world.hosts[*n]));
    if let Some(n) = other {
        return Err(value
            .problem(format!(
                "host '{}' is no station of a radio, so it has no place to move from",
                world.hosts[n].name
            ))
            .help("add it to the 'stations' of a radio"));
    }
    let to = super::links::position(s.required("to", "to: [100, 250]")?, "to")?;
    let speed = s.read("speed", |node, key| super::links::number(node, key, 0.001))?;
    Ok(Action::Move { hosts, to, speed })
}

fn path_change(s: &Section, target: &Target, world: &World) -> Result<PathChange, Problem> {
    let change = PathChange {
        latency: s.read("latency", section::duration)?.map(|latency| latency.max(SimDuration::from_nanos(1))),
        jitter: s.read("jitter", section::duration)?,
        loss: None,
        link: Box::new(super::links::line_change(s)?),
    };
    let change = match (target, change.link.loss) {
        (Target::Links { links, from }, _) => {
            check_p4_ports(s, links, *from, &change.link, world)?;
            if let (Some(Some(bucket)), Some(node)) = (&change.link.token_bucket, s.get("token_bucket")) {
                let mtu = links.iter().map(|n| world.topology.links[*n].mtu).max().unwrap_or(0);
                super::links::check_burst(node, bucket, mtu)?;
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
    links: &[usize],
    from: Option<HostId>,
    line: &LinkOverrides,
    world: &World,
) -> Result<(), Problem> {
    let ends = links.iter().flat_map(|link| &world.topology.links[*link].ends);
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
            super::links::check_p4_queue(queue).map_err(|why| {
                node.problem(format!("'{place}' is a P4 switch's port, which cannot have this queue: {why}"))
                    .help(help)
            })?;
        }
    }
    Ok(())
}

fn bandwidth(node: &Node, key: &str) -> Result<Option<u64>, Problem> {
    match section::string(node, key) {
        Ok("unlimited") => Ok(None),
        _ => section::bandwidth(node, key).map(Some),
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
            let ids = (0..world.hosts.len() as u32).map(belljar_base::HostId);
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
                .map(belljar_base::HostId)
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
fn check_heal(node: &Node, event: &Event, all: &[Event]) -> Result<(), Problem> {
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
    let place = match &node.value {
        Value::Mapping(entries) => {
            entries.iter().find(|e| e.key == "heal").map_or(node.span, |e| e.value.span)
        }
        _ => node.span,
    };
    Err(Problem::at(place, format!("no partition has the name '{name}'")).help(help))
}
