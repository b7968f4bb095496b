//! Network adapters behind interfaces at links: what their drivers say of them.

use super::Stack;
use super::cpu::Work;
use super::interface::{Attachment, Interface};
use belljar_base::{SimDuration, SimTime};

/// An adapter, as its driver knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Adapter {
    /// The driver's name.
    pub driver: &'static str,
    /// The adapter's place on its bus.
    pub bus: String,
    /// Descriptors of each ring, and the most that there can be.
    pub ring: (u32, u32),
    /// The least time between two interrupts; `None`: the adapter has no such setting.
    pub interrupt_interval: Option<SimDuration>,
    /// Counts by name.
    pub statistics: Vec<(&'static str, u64)>,
}

impl Adapter {
    /// A count by its name; 0 for one that there is not.
    pub fn count(&self, name: &str) -> u64 {
        self.statistics.iter().find(|(own, _)| *own == name).map_or(0, |(_, count)| *count)
    }
}

impl Stack {
    /// Takes the adapter behind a link.
    pub fn set_adapter(&mut self, link: usize, adapter: Adapter) {
        self.links[link].adapter = Some(Box::new(adapter));
    }
    /// Takes new counts of the adapter behind a link.
    pub fn set_adapter_statistics(&mut self, link: usize, statistics: Vec<(&'static str, u64)>) {
        if let Some(adapter) = &mut self.links[link].adapter {
            adapter.statistics = statistics;
        }
    }
    /// The adapter of an interface, if it has one.
    pub fn adapter(&self, interface: &Interface) -> Option<&Adapter> {
        match interface.attachment {
            Attachment::Link(link) => self.links[link].adapter.as_deref(),
            _ => None,
        }
    }
    /// Takes an interrupt of an adapter, which came at `at`: the time from which its driver runs. The packets that it
    /// brings cost no other.
    pub fn interrupt(&mut self, at: SimTime) -> SimTime {
        if self.clock.processor.is_none() {
            return at;
        }
        self.clock.advance(at);
        self.clock.work(Work::Interrupt, 1);
        self.clock.now()
    }
}
