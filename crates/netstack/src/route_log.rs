//! The route log: the timed changes of the main routing tables, one JSON object per line.
//!
//! A line has `time`, `to` and `metric`. An added or changed route has `protocol`, `kind` if it is not
//! unicast, and `hops`, each with `dev` and, if there is a gateway, `via`; a deleted route has none of these.
//! A line with `reset` records a start of the host, which discards all earlier routes. A line with `dev` and
//! `carrier` records a change of an interface's carrier.

use crate::interface::Interface;
use belljar_base::SimTime;
use belljar_net::routes::{Ip, RouteChange, RouteKind};
use std::fmt::Write;

/// The lines logged since they were last taken.
#[derive(Debug, Default)]
pub struct RouteLog {
    /// True if the log is enabled.
    on: bool,
    text: String,
}

impl RouteLog {
    /// Creates an empty log, enabled or not.
    pub fn new(on: bool) -> RouteLog {
        RouteLog { on, text: String::new() }
    }
    /// True if there are no lines.
    pub fn is_empty(&self) -> bool {
        self.text.is_empty()
    }
    /// True if the log is enabled.
    #[inline]
    pub fn is_on(&self) -> bool {
        self.on
    }
    /// Removes and returns the lines since the last call.
    pub fn take(&mut self) -> String {
        std::mem::take(&mut self.text)
    }
    /// Inserts the lines of an earlier log before those of this one.
    pub(crate) fn follow(&mut self, earlier: &RouteLog) {
        self.text.insert_str(0, &earlier.text);
    }
    /// Logs a start of the host, which discards all earlier routes.
    pub(crate) fn reset(&mut self, now: SimTime) {
        if self.on {
            let _ = writeln!(self.text, "{{\"time\": {now}, \"reset\": true}}");
        }
    }
    /// Logs a change of an interface's carrier.
    pub(crate) fn carrier(&mut self, now: SimTime, interface: &Interface) {
        if self.on {
            let (name, carrier) = (quoted(&interface.name), interface.carrier);
            let _ = writeln!(self.text, "{{\"time\": {now}, \"dev\": {name}, \"carrier\": {carrier}}}");
        }
    }
    /// Logs changes of a routing table.
    pub(crate) fn routes<A: Ip>(
        &mut self,
        now: SimTime,
        interfaces: &[Interface],
        changes: &[RouteChange<A>],
    ) {
        changes.iter().for_each(|change| line(&mut self.text, now, interfaces, change));
    }
}

fn line<A: Ip>(out: &mut String, now: SimTime, interfaces: &[Interface], change: &RouteChange<A>) {
    let _ = write!(out, "{{\"time\": {now}, \"to\": \"{}\", \"metric\": {}", change.prefix, change.metric);
    if let Some(route) = &change.route {
        let _ = write!(out, ", \"protocol\": {}", route.protocol);
        if route.kind != RouteKind::Unicast {
            let _ = write!(out, ", \"kind\": \"{}\"", format!("{:?}", route.kind).to_lowercase());
        }
        let hops = route.hops.iter().filter(|hop| !hop.dead).map(|hop| {
            let name = interfaces.get(hop.interface).map_or("", |interface| &*interface.name);
            let via = hop.router().map(|via| format!(", \"via\": \"{via}\"")).unwrap_or_default();
            format!("{{\"dev\": {}{via}}}", quoted(name))
        });
        let _ = write!(out, ", \"hops\": [{}]", hops.collect::<Vec<_>>().join(", "));
    }
    out.push_str("}\n");
}

/// Quotes an interface name, which may contain any character, as JSON.
fn quoted(name: &str) -> String {
    let mut text = String::from("\"");
    for c in name.chars() {
        match c {
            '"' | '\\' => text.extend(['\\', c]),
            c if c.is_control() => {
                let _ = write!(text, "\\u{:04x}", u32::from(c));
            }
            c => text.push(c),
        }
    }
    text + "\""
}
