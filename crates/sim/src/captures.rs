//! Selection of the packets that are captured at a node's interfaces.

use belljar_base::Map;
use belljar_config::{CaptureFilter, Experiment};
use belljar_net::Filter;
use std::sync::Arc;

/// Capture filter of each interface of a node.
pub struct Captures(Map<Arc<str>, Option<Filter>>);

impl Captures {
    /// Parses the filters that `settings` define for these interfaces.
    pub fn new<'a>(
        experiment: &Experiment,
        settings: &CaptureFilter,
        interfaces: impl IntoIterator<Item = &'a str>,
    ) -> Captures {
        let one = |interface: &str| {
            let text = settings.of(interface)?;
            let filter = Filter::parse(text, &|name| experiment.addresses_of(name));
            Some(filter.expect("loading has checked the filter"))
        };
        // An empty map captures everything without lookups.
        match settings {
            CaptureFilter::All => Captures(Map::new()),
            _ => Captures(interfaces.into_iter().map(|name| (name.into(), one(name))).collect()),
        }
    }

    /// True if a packet is captured.
    pub fn wants(&self, interface: &str, packet: &[u8], ethernet: bool) -> bool {
        match self.0.get(interface) {
            None => true,
            Some(None) => false,
            Some(Some(filter)) if ethernet => filter.matches_frame(packet),
            Some(Some(filter)) => filter.matches(packet),
        }
    }
}
