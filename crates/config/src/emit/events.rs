//! Section `events` as YAML.

use super::{Writer, quoted, time};
use crate::events::{Action, Event, HostSet, Target, When};
use crate::model::Experiment;
use belljar_base::{HostId, SimDuration, SimTime};
use belljar_net::units::format_duration;

impl Experiment {
    pub(super) fn events(&self, out: &mut Writer, events: &[Event]) {
        if events.is_empty() {
            return;
        }
        out.section(0, "events");
        for event in events {
            self.event(out, event);
        }
    }

    /// Events of this experiment's hosts as the section `events` of a file.
    pub fn events_yaml(&self, events: &[Event]) -> String {
        let mut out = Writer::default();
        self.events(&mut out, events);
        out.0.trim_start().to_owned()
    }

    /// An event without its time, on one line.
    pub fn event_text(&self, event: &Event) -> String {
        let mut out = Writer::default();
        if let Some(name) = &event.name {
            out.text(1, "name", name);
        }
        event.action.kind().write(&event.action, self, &mut out);
        if let Some(lasting) = event.lasting {
            out.plain(1, "for", format_duration(lasting));
        }
        out.one_line()
    }

    /// The keys of an action on one line.
    pub(super) fn action_text(&self, action: &Action) -> String {
        let mut out = Writer::default();
        action.kind().write(action, self, &mut out);
        out.one_line()
    }

    fn event(&self, out: &mut Writer, event: &Event) {
        match event.when {
            When::At(at) => out.plain(0, "- at", time(at)),
            When::Every { interval, from, until, probability } => {
                out.plain(0, "- every", format_duration(interval));
                if until != SimTime::MAX || from != SimTime::ZERO + interval {
                    out.plain(1, "between", format_args!("[{}, {}]", time(from), time(until)));
                }
                out.plain(1, "probability", probability);
            }
        }
        if let Some(name) = &event.name {
            out.text(1, "name", name);
        }
        if let Some(lasting) = event.lasting {
            out.plain(1, "for", format_duration(lasting));
        }
        event.action.kind().write(&event.action, self, out);
    }

    pub(crate) fn target(&self, target: &Target) -> String {
        match target {
            Target::Paths { from, to, both: true } => {
                format!("[{}, {}]", self.host_set(from), self.host_set(to))
            }
            Target::Paths { from, to, both: false } => {
                format!("{{ from: {}, to: {} }}", self.host_set(from), self.host_set(to))
            }
            Target::Edge(from, to) => format!("{{ edge: [{from}, {to}] }}"),
            Target::Links { links, from } => {
                let names: Vec<String> =
                    links.iter().map(|n| quoted(&self.topology.links[*n].name)).collect();
                let names = names.join(", ");
                match from {
                    None => format!("{{ link: [{names}] }}"),
                    Some(from) => format!("{{ link: [{names}], from: {} }}", quoted(self.node_name(*from))),
                }
            }
        }
    }

    pub(crate) fn host_set(&self, hosts: &HostSet) -> String {
        let list = |hosts: &[HostId]| {
            let names: Vec<String> = hosts.iter().map(|id| quoted(self.node_name(*id))).collect();
            format!("[{}]", names.join(", "))
        };
        match hosts {
            HostSet::All => "all".to_owned(),
            HostSet::Some(hosts) => list(hosts),
            HostSet::OneOf(hosts) => format!("{{ one_of: {} }}", list(hosts)),
        }
    }
}

/// Formats a time that may be negative.
pub(crate) fn signed(ns: i64) -> String {
    let amount = format_duration(SimDuration::from_nanos(ns.unsigned_abs()));
    if ns < 0 { format!("-{amount}") } else { amount }
}

/// Formats parts per billion as parts per million.
pub(crate) fn ppm(ppb: i64) -> String {
    let sign = if ppb < 0 { "-" } else { "" };
    format!("{sign}{}.{:03}", ppb.unsigned_abs() / 1_000, ppb.unsigned_abs() % 1_000)
}
