//! Section `events` as YAML.

use super::{Writer, quoted, time};
use crate::events::{Action, Event, HostSet, ProcessRef, Target, When};
use crate::model::Experiment;
use belljar_base::{HostId, SimDuration, SimTime};
use belljar_net::link::PathChange;
use belljar_net::units::{format_bandwidth, format_duration};

impl Experiment {
    pub(super) fn events(&self, out: &mut Writer) {
        if self.events.is_empty() {
            return;
        }
        out.section(0, "events");
        for event in &self.events {
            self.event(out, event);
        }
    }

    /// An event without its time, on one line.
    pub fn event_text(&self, event: &Event) -> String {
        let mut out = Writer::default();
        if let Some(name) = &event.name {
            out.text(1, "name", name);
        }
        self.action(&mut out, &event.action);
        if let Some(lasting) = event.lasting {
            out.plain(1, "for", format_duration(lasting));
        }
        out.0.lines().map(str::trim).collect::<Vec<_>>().join(", ")
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
        self.action(out, &event.action);
    }

    fn action(&self, out: &mut Writer, action: &Action) {
        match action {
            Action::LinkDown(target) => out.plain(1, "link_down", self.target(target)),
            Action::LinkUp(target) => out.plain(1, "link_up", self.target(target)),
            Action::Change(target, change) => {
                out.plain(1, "link_change", self.target(target));
                path_change(out, change);
            }
            Action::Reset(target) => out.plain(1, "link_reset", self.target(target)),
            Action::Partition(groups) => {
                let groups: Vec<String> = groups.iter().map(|group| self.host_set(group)).collect();
                out.plain(1, "partition", format_args!("[{}]", groups.join(", ")));
            }
            Action::Heal(name) => out.plain(1, "heal", name.as_deref().map_or("all".to_owned(), quoted)),
            Action::Bandwidth { hosts, up, down } => {
                out.plain(1, "bandwidth", self.host_set(hosts));
                for (key, value) in [("up", up), ("down", down)] {
                    if let Some(bits) = value {
                        out.plain(1, key, bits.map_or("unlimited".to_owned(), format_bandwidth));
                    }
                }
            }
            Action::Crash { hosts, lose_files } => {
                out.plain(1, "crash", self.host_set(hosts));
                out.plain(1, "files", if *lose_files { "lost" } else { "kept" });
            }
            Action::Restart(hosts) => out.plain(1, "restart", self.host_set(hosts)),
            Action::NameServer { hosts, down } => {
                out.plain(1, if *down { "dns_down" } else { "dns_up" }, self.host_set(hosts));
            }
            Action::Start(hosts, process) => {
                out.plain(1, "start", process_ref(process));
                out.plain(1, "hosts", self.host_set(hosts));
            }
            Action::Stop(hosts, model) => {
                out.text(1, "stop", model);
                out.plain(1, "hosts", self.host_set(hosts));
            }
            Action::Signal(hosts, process, signal) => {
                out.plain(1, "signal", signal);
                out.plain(1, "hosts", self.host_set(hosts));
                out.plain(1, "process", process_ref(process));
            }
            Action::Move { hosts, to, speed } => {
                out.plain(1, "move", self.host_set(hosts));
                out.plain(1, "to", super::radio::position(*to));
                if let Some(speed) = speed {
                    out.plain(1, "speed", speed);
                }
            }
            Action::P4 { switches, setup } => {
                out.plain(1, "p4", self.host_set(&HostSet::Some(switches.clone())));
                super::topology::p4_setups(out, 1, setup);
            }
            Action::Clock { hosts, step_ns, drift_ppb } => {
                out.plain(1, "clock", self.host_set(hosts));
                if let Some(step) = step_ns {
                    out.text(1, "step", &signed(*step));
                }
                if let Some(drift) = drift_ppb {
                    out.plain(1, "drift_ppm", ppm(*drift));
                }
            }
        }
    }

    fn target(&self, target: &Target) -> String {
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

    fn host_set(&self, hosts: &HostSet) -> String {
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

fn path_change(out: &mut Writer, change: &PathChange) {
    if let Some(latency) = change.latency {
        out.plain(1, "latency", format_duration(latency));
    }
    if let Some(jitter) = change.jitter {
        out.plain(1, "jitter", format_duration(jitter));
    }
    if let Some(loss) = change.loss {
        out.plain(1, "packet_loss", loss);
    }
    super::line::change(out, 1, &change.link);
}

fn process_ref(process: &ProcessRef) -> String {
    match process {
        ProcessRef::Number(number) => number.to_string(),
        // In quotes, so that a program whose name is a number is not taken for an index.
        ProcessRef::Program(name) => format!("\"{}\"", quoted(name).trim_matches('"')),
    }
}

/// Formats a time that may be negative.
pub(super) fn signed(ns: i64) -> String {
    let amount = format_duration(SimDuration::from_nanos(ns.unsigned_abs()));
    if ns < 0 { format!("-{amount}") } else { amount }
}

/// Formats parts per billion as parts per million.
pub(super) fn ppm(ppb: i64) -> String {
    let sign = if ppb < 0 { "-" } else { "" };
    format!("{sign}{}.{:03}", ppb.unsigned_abs() / 1_000, ppb.unsigned_abs() % 1_000)
}
