//! Network adapters behind link interfaces: the properties and statistics that their drivers report.

use super::Stack;
use super::cpu::Work;
use super::interface::{Attachment, Interface};
use belljar_base::{SimDuration, SimTime};

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

/// Speed of an interface's medium in Mbit/s, as `ethtool` shows it: 10,000 without a rate, as of a veth
/// pair. `None` for interfaces without a medium; `u32::MAX` below 1 Mbit/s.
pub fn link_speed(net: &Stack, interface: &Interface) -> Option<u32> {
    const UNLIMITED: u32 = 10_000;
    let rate = match interface.attachment {
        Attachment::Graph => net.eth0.nic.rate(),
        Attachment::Link(link) => net.links[link].nic.rate(),
        Attachment::Veth { .. } => None,
        Attachment::Tun(_) | Attachment::Tap(_) => Some(UNLIMITED as u64 * 1_000_000),
        _ => return None,
    };
    Some(match rate.map(|rate| rate / 1_000_000) {
        None => UNLIMITED,
        Some(0) => u32::MAX,
        Some(speed) => u32::try_from(speed).unwrap_or(u32::MAX),
    })
}

impl Stack {
    /// Records the adapter behind a link.
    pub fn set_adapter(&mut self, link: usize, adapter: Adapter) {
        self.links[link].adapter = Some(Box::new(adapter));
    }
    /// Replaces the statistics of the adapter behind a link.
    pub fn set_adapter_statistics(&mut self, link: usize, statistics: Vec<(&'static str, u64)>) {
        if let Some(adapter) = &mut self.links[link].adapter {
            adapter.statistics = statistics;
        }
    }
    /// The adapter behind an interface, if any.
    pub fn adapter(&self, interface: &Interface) -> Option<&Adapter> {
        match interface.attachment {
            Attachment::Link(link) => self.links[link].adapter.as_deref(),
            _ => None,
        }
    }
    /// Charges the interrupt of an adapter that was raised at `at`, and returns the time at which its driver
    /// runs. The packets that the driver fetches cost no further interrupt.
    pub fn interrupt(&mut self, at: SimTime) -> SimTime {
        if self.clock.processor.is_none() {
            return at;
        }
        self.clock.advance(at);
        self.clock.work(Work::Interrupt, 1);
        self.clock.now()
    }
}
