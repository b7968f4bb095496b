//! Section `events`.

use super::events_values::{World, probability};
use crate::error::{Problem, Problems};
use crate::event_kinds::{self, KINDS, Kind};
use crate::events::{Action, Event, When};
use crate::yaml::{Node, Section, section};
use belljar_base::{SimDuration, SimTime};
use belljar_net::units::format_duration;
use std::rc::Rc;

const WHEN: &[&str] = &["at", "every", "between", "probability", "for", "name"];

pub(super) fn read(node: &Node, world: &World) -> Result<Vec<Event>, Problem> {
    let items = section::list(node, "events")?;
    let events = items.iter().enumerate();
    let events = Problems::all(events.map(|(number, item)| event(number as u32, item, world)))?;
    for (item, event) in items.iter().zip(&events) {
        event_kinds::check_heal(item, event, &events).map_err(Problem::relational)?;
    }
    for (item, event) in items.iter().zip(&events) {
        check_undoes(item, event, &events).map_err(Problem::relational)?;
    }
    event_kinds::check_p4(items, &events, world).map_err(Problem::relational)?;
    event_kinds::check_disks(items, &events).map_err(Problem::relational)?;
    Ok(events)
}

/// Refuses an event that undoes others, such as `link_up`, if no event on its hosts or links is undone by it.
fn check_undoes(item: &Node, event: &Event, all: &[Event]) -> Result<(), Problem> {
    if all.iter().any(|other| event.undoes(other) != Some(false)) {
        return Ok(());
    }
    let key = match &event.action {
        Action::LinkUp(_) => "link_down",
        Action::Reset(_) => "link_change",
        Action::Heal(_) => "partition",
        Action::Restart { .. } => "crash",
        Action::Resume(_) | Action::ResumeProcess(..) => "pause",
        Action::DiskHeal(_) => "disk_fault",
        _ => "dns_down",
    };
    let own = event.action.kind().key();
    Err(item
        .problem(format!("'{own}' undoes events '{key}', of which there are none for what it names"))
        .help(format!("leave it out, or add an event '{key}' for the same hosts or links")))
}

/// Action of an event of one of these kinds, without a time.
pub(super) fn undated(node: &Node, kinds: &[&'static dyn Kind], world: &World) -> Result<Action, Problem> {
    let keys = keys_of(kinds, &[]);
    let s = Section::new(node, "an event without a time", &keys, false)?;
    let kind = one_kind(&s, kinds)?;
    check_parameters(&s, kind, &keys)?;
    let action = kind.read(s.required(kind.key(), &format!("{}: ...", kind.key()))?, &s, world)?;
    match action {
        Action::Restart { root: None, .. } => {
            Err(Problem::at(s.span, "a restart with the same root replaces no program")
                .help("add root: IMAGE and keep: [/var/lib/data]"))
        }
        action => Ok(action),
    }
}

/// Keys of events of these kinds, after those of `more`.
fn keys_of(kinds: &[&'static dyn Kind], more: &[&'static str]) -> Vec<&'static str> {
    let mut keys: Vec<&str> = more.to_vec();
    for kind in kinds {
        keys.push(kind.key());
        let more = kind.parameters().iter().filter(|key| !keys.contains(key));
        keys.extend(more.copied().collect::<Vec<_>>());
    }
    keys
}

/// Refuses keys that are not those of a kind.
fn check_parameters(s: &Section, kind: &dyn Kind, keys: &[&str]) -> Result<(), Problem> {
    let (name, params) = (kind.key(), kind.parameters());
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
    Ok(())
}

fn event(number: u32, node: &Rc<Node>, world: &World) -> Result<Event, Problem> {
    let keys = keys_of(KINDS, WHEN);
    let s = Section::new(node, "an event", &keys, false)?;
    let kind = one_kind(&s, KINDS)?;
    check_parameters(&s, kind, &keys)?;
    let name = kind.key();
    let when = when(&s)?;
    let lasting = s.read("for", section::duration)?;
    if let Some(node) = s.get("for") {
        if lasting == Some(SimDuration::ZERO) {
            return Err(node.problem("'for' must not be 0"));
        }
        if !kind.may_last() {
            return Err(node
                .problem(format!("'{name}' cannot be undone after a time"))
                .help("leave out 'for': it is valid for events that bring a fault"));
        }
    }
    let value = s.required(name, &format!("{name}: ..., or see the guide on a changing world"))?;
    let action = kind.read(value, &s, world)?;
    if let Some(node) = s.get("for") {
        kind.check_duration(&action, node, world)?;
    }
    let own_name = s.read("name", section::string)?.map(str::to_owned);
    let event = Event { number, name: own_name, when, lasting, action };
    if let Some(stop) = world.stop_time {
        check_within(&s, &event, stop)?;
    }
    Ok(event)
}

/// The kind, which a single key names.
fn one_kind(s: &Section, kinds: &[&'static dyn Kind]) -> Result<&'static dyn Kind, Problem> {
    let mut found = kinds.iter().filter(|kind| s.entry(kind.key()).is_some());
    let names = || kinds.iter().map(|kind| kind.key()).collect::<Vec<_>>().join(", ");
    let Some(kind) = found.next() else {
        return Err(Problem::at(s.span, "this event does not say what happens")
            .help(format!("add one of {}", names())));
    };
    match found.next().and_then(|second| s.entry(second.key())) {
        Some(second) => {
            let message = format!("this event has both '{}' and '{}'", kind.key(), second.key);
            Err(Problem::at(second.key_span, message).help("write two events"))
        }
        None => Ok(*kind),
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

/// Refuses an event that never happens, because the simulation stops before; with a stop time from the command
/// line, such events are dropped later ([`Experiment::drop_late_events`](crate::Experiment)).
fn check_within(s: &Section, event: &Event, stop: SimTime) -> Result<(), Problem> {
    let first = event.first();
    if first < stop {
        return Ok(());
    }
    let seconds = |at: SimTime| format_duration(at.since(SimTime::ZERO));
    let (first, stop) = (seconds(first), seconds(stop));
    let message = format!("this event never happens: it is at {first}, and the simulation stops at {stop}");
    let help = "give the event an earlier time, or general.stop_time a later one";
    let node = ["at", "between", "every"].iter().find_map(|key| s.get(key));
    Err(Problem::at(node.map_or(s.span, |node| node.span), message).help(help))
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
