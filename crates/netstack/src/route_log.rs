//! The route log: each change of the main routing tables at its time, a JSON object a line.
//!
//! A line has `time`, `to` and `metric`. A route that has been added, or changed, has `protocol`, `kind` if it is not unicast, and
//! `hops`, each with `dev` and, through a router, `via`; one that is gone has none of these. A line with `reset` says that the host
//! has started: all that was before is gone. One with `dev` and `carrier` says that an interface has lost its carrier or found it.

use crate::Stack;
use crate::interface::Interface;
use belljar_base::SimTime;
use belljar_net::routes::{Ip, RouteChange, RouteKind};
use std::fmt::Write;

impl Stack {
    /// The lines since the last call.
    pub fn take_route_log(&mut self) -> String {
        std::mem::take(&mut self.route_log)
    }

    /// Takes down that the host starts, with its first routes.
    pub(crate) fn begin_route_log(&mut self) {
        if self.config.log_routes {
            let _ = writeln!(self.route_log, "{{\"time\": {}, \"reset\": true}}", self.clock.now());
            self.log_routes();
        }
    }

    /// Takes down that an interface has lost its carrier or found it.
    pub(crate) fn log_carrier(&mut self, interface: usize) {
        if self.config.log_routes {
            let (now, there) = (self.clock.now(), &self.interfaces[interface]);
            let (name, carrier) = (quoted(&there.name), there.carrier);
            let _ = writeln!(self.route_log, "{{\"time\": {now}, \"dev\": {name}, \"carrier\": {carrier}}}");
        }
    }

    /// Takes down what has changed. To be called at the time of the change, after whatever may have changed routes.
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

/// A name as JSON: programs can give interfaces any.
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
