//! The route log: the timed changes of the main routing tables, one JSON object per line.
//!
//! A line has `time`, `to` and `metric`. An added or changed route has `protocol`, `kind` if it is not
//! unicast, and `hops`, each with `dev` and, if there is a gateway, `via`; a deleted route has none of these.
//! A line with `reset` records a start of the host, which discards all earlier routes. A line with `dev` and
//! `carrier` records a change of an interface's carrier.

use crate::Stack;
use crate::interface::Interface;
use belljar_base::SimTime;
use belljar_net::routes::{Ip, RouteChange, RouteKind};
use std::fmt::Write;

impl Stack {
    /// Removes and returns the lines since the last call.
    pub fn take_route_log(&mut self) -> String {
        std::mem::take(&mut self.route_log)
    }

    /// Logs a start of the host, with its initial routes.
    pub(crate) fn begin_route_log(&mut self) {
        if self.config.log_routes {
            let _ = writeln!(self.route_log, "{{\"time\": {}, \"reset\": true}}", self.clock.now());
            self.log_routes();
        }
    }

    /// Logs a change of an interface's carrier.
    pub(crate) fn log_carrier(&mut self, interface: usize) {
        if self.config.log_routes {
            let (now, there) = (self.clock.now(), &self.interfaces[interface]);
            let (name, carrier) = (quoted(&there.name), there.carrier);
            let _ = writeln!(self.route_log, "{{\"time\": {now}, \"dev\": {name}, \"carrier\": {carrier}}}");
        }
    }

    /// Logs the changes of the routing tables. The caller invokes it at the time of the change, after every
    /// operation that may have changed routes.
    pub fn log_routes(&mut self) {
        if !self.config.log_routes {
            return;
        }
        let now = self.clock.now();
        let (v4, v6) = (self.routes.take_changes(), self.v6.routes.take_changes());
        v4.iter().for_each(|change| line(&mut self.route_log, now, &self.interfaces, change));
        v6.iter().for_each(|change| line(&mut self.route_log, now, &self.interfaces, change));
    }
}

fn line<A: Ip>(out: &mut String, now: SimTime, interfaces: &[Interface], change: &RouteChange<A>) {
    let _ = write!(out, "{{\"time\": {now}, \"to\": \"{}\", \"metric\": {}", change.prefix, change.metric);
    if let Some(route) = &change.route {
        let _ = write!(out, ", \"protocol\": {}", route.protocol);
        if route.kind != RouteKind::Unicast {
            let _ = write!(out, ", \"kind\": \"{}\"", format!("{:?}", route.kind).to_lowercase());
        }
        let hops = route.hops.iter().map(|hop| {
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
