//! Event `bandwidth`.

use super::kind::Kind;
use crate::emit::Writer;
use crate::error::Problem;
use crate::events::{Action, HostSet};
use crate::load::events_values::{World, host_set, on_graph};
use crate::model::Experiment;
use crate::yaml::{Node, Section, section};
use belljar_net::units::format_bandwidth;

/// Changes bandwidths of hosts on the graph.
pub(super) struct Bandwidth;

impl Kind for Bandwidth {
    fn key(&self) -> &'static str {
        "bandwidth"
    }
    fn parameters(&self) -> &'static [&'static str] {
        &["up", "down"]
    }
    fn read(&self, value: &Node, s: &Section, world: &World) -> Result<Action, Problem> {
        let (up, down) = (s.read("up", bandwidth)?, s.read("down", bandwidth)?);
        if up.is_none() && down.is_none() {
            return Err(Problem::at(s.span, "this event changes neither 'up' nor 'down'")
                .help("add up: 10 Mbit or down: 10 Mbit"));
        }
        let hosts = host_set(value, "bandwidth", world)?;
        on_graph(value, &hosts, world)?;
        Ok(Action::Bandwidth { hosts, up, down })
    }
    fn write(&self, action: &Action, experiment: &Experiment, out: &mut Writer) {
        let Action::Bandwidth { hosts, up, down } = action else { return };
        out.plain(1, "bandwidth", experiment.host_set(hosts));
        for (key, value) in [("up", up), ("down", down)] {
            if let Some(bits) = value {
                out.plain(1, key, bits.map_or("unlimited".to_owned(), format_bandwidth));
            }
        }
    }
    fn hosts<'a>(&self, action: &'a mut Action) -> Vec<&'a mut HostSet> {
        let Action::Bandwidth { hosts, .. } = action else { return Vec::new() };
        vec![hosts]
    }
}

fn bandwidth(node: &Node, key: &str) -> Result<Option<u64>, Problem> {
    match section::string(node, key) {
        Ok("unlimited") => Ok(None),
        _ => section::bandwidth(node, key).map(Some),
    }
}
