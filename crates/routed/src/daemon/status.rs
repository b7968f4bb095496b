//! Content of `belljar-routed show`, by protocol.

use super::interfaces::Interfaces;
use belljar_routing::aodv::{Aodv, State};
use belljar_routing::olsr::Olsr;
use belljar_routing::{Protocol, Time};
use serde_json::{Value, json};

/// A protocol that can report its state.
pub trait Status: Protocol {
    fn status(&self, now: Time, interfaces: &Interfaces) -> Value;
}

impl Status for Olsr {
    fn status(&self, now: Time, interfaces: &Interfaces) -> Value {
        let counts = self.counts();
        let neighbors: Vec<Value> = self
            .links(now)
            .iter()
            .map(|link| {
                json!({
                    "address": link.address,
                    "main_address": link.main_address,
                    "interface": interfaces.name(link.interface.0),
                    "symmetric": link.symmetric,
                    "mpr": link.relay,
                    "mpr_selector": link.selector,
                    "willingness": link.willingness,
                })
            })
            .collect();
        let routes: Vec<Value> = self
            .routes()
            .map(|route| {
                json!({
                    "destination": route.destination.to_string(),
                    "next_hop": route.next_hop,
                    "interface": interfaces.name(route.interface.0),
                    "hops": route.distance,
                })
            })
            .collect();
        let topology: Vec<Value> = self
            .topology()
            .map(|(last, destination)| json!({"last_hop": last, "destination": destination}))
            .collect();
        json!({
            "protocol": "olsr",
            "counts": {"malformed": counts.malformed, "forwarded": counts.forwarded, "refused": counts.refused},
            "neighbors": neighbors,
            "routes": routes,
            "topology": topology,
        })
    }
}

impl Status for Aodv {
    fn status(&self, now: Time, interfaces: &Interfaces) -> Value {
        let counts = self.counts();
        let entries = self.entries(now);
        let state = |state| match state {
            State::Valid => "valid",
            State::Invalid => "invalid",
            State::Repairing => "repairing",
        };
        let routes: Vec<Value> = entries
            .iter()
            .map(|entry| {
                json!({
                    "destination": format!("{}/32", entry.destination),
                    "next_hop": entry.next_hop,
                    "interface": interfaces.name(entry.interface.0),
                    "hops": entry.hop_count,
                    "state": state(entry.state),
                    "sequence": entry.sequence,
                    "lifetime": format!("{:.1} s", entry.lifetime.as_secs_f64()),
                    "precursors": entry.precursors,
                })
            })
            .collect();
        let neighbors: Vec<Value> = entries
            .iter()
            .filter(|entry| entry.hop_count == 1 && entry.state == State::Valid)
            .map(|entry| json!({"address": entry.destination, "interface": interfaces.name(entry.interface.0)}))
            .collect();
        json!({
            "protocol": "aodv",
            "sequence": self.sequence(),
            "counts": {
                "malformed": counts.malformed, "requests": counts.requests, "replies": counts.replies,
                "errors": counts.errors, "refused": counts.refused,
            },
            "neighbors": neighbors,
            "routes": routes,
        })
    }
}
