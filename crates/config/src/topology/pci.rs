//! Network controllers, and the PCI connections between them and hosts.

use belljar_base::SimDuration;

/// A built-in network controller: an e1000 with a PCI connection at its port `pci` and a link at another
/// port.
#[derive(Clone, Debug, PartialEq)]
pub struct Nic {
    /// Hardware address, if specified.
    pub mac: Option<[u8; 6]>,
    /// Delay from the trigger of a descriptor fetch to the request.
    pub fetch: SimDuration,
    /// Delay from the last use of a descriptor to its write-back.
    pub write_back: SimDuration,
    /// Delay from a register read to its completion.
    pub register: SimDuration,
}

/// A built-in memory, accessed by simulators.
#[derive(Clone, Debug, PartialEq)]
pub struct Memory {
    /// Size in bytes.
    pub size: u64,
    /// Delay from a request to its completion.
    pub access: SimDuration,
}

/// Role of a simulator at its end of a PCI or memory connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PciRole {
    /// The PCI device.
    Device,
    /// The host of a PCI device.
    Host,
    /// The host of a memory.
    MemoryHost,
}

/// The PCI or memory connection behind a link: its first end is the host's, its second the device's.
#[derive(Clone, Debug, PartialEq)]
pub struct PciConnection {
    /// Latency of a transaction in either direction.
    pub latency: SimDuration,
    /// Driver, if the host is simulated by Belljar.
    pub driver: Option<PciDriver>,
}

/// Kind of the network controller for which a driver is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PciDriverKind {
    /// Intel's 8254x.
    E1000,
    /// Corundum.
    Corundum,
}

impl PciDriverKind {
    /// All kinds, with their names in experiments.
    pub const ALL: [(&'static str, PciDriverKind); 2] =
        [("e1000", PciDriverKind::E1000), ("corundum", PciDriverKind::Corundum)];

    /// Name of the driver in experiments.
    pub fn name(self) -> &'static str {
        PciDriverKind::ALL.into_iter().find(|(_, kind)| *kind == self).map_or("", |(name, _)| name)
    }
}

/// A driver of a network controller.
#[derive(Clone, Debug, PartialEq)]
pub struct PciDriver {
    /// Kind of the network controller.
    pub kind: PciDriverKind,
    /// True to use message-signalled interrupts if the device supports them; otherwise its interrupt line is
    /// used.
    pub msi: bool,
    /// Minimum interval between two interrupts.
    pub interrupt_interval: SimDuration,
    /// Number of descriptors in each ring.
    pub ring: u32,
}

/// Name of a device's port to its host.
pub const PCI_PORT: &str = "pci";
/// Latency between two built-in nodes that represent one; the channel accounts for the rest.
pub const NEAR: SimDuration = SimDuration::from_nanos(1);
