//! Network adapters behind link interfaces: the properties and statistics that their drivers report.

use belljar_base::SimDuration;

/// A network adapter, as reported by its driver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Adapter {
    /// The driver's name.
    pub driver: &'static str,
    /// The adapter's address on its bus.
    pub bus: String,
    /// Number of descriptors of each ring, and its maximum.
    pub ring: (u32, u32),
    /// Minimum interval between two interrupts; `None` if the adapter has no such setting.
    pub interrupt_interval: Option<SimDuration>,
    /// Statistics counters with their names.
    pub statistics: Vec<(&'static str, u64)>,
}

impl Adapter {
    /// The counter `name`; 0 if the adapter has none of that name.
    pub fn count(&self, name: &str) -> u64 {
        self.statistics.iter().find(|(own, _)| *own == name).map_or(0, |(_, count)| *count)
    }
}
