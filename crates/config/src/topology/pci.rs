//! Network controllers, and the PCI connections between them and hosts.

use belljar_base::SimDuration;

/// A network controller of ours: an e1000 with a PCI connection at its port `pci` and a link at another.
#[derive(Clone, Debug, PartialEq)]
pub struct Nic {
    /// Its hardware address, if the file says so.
    pub mac: Option<[u8; 6]>,
    /// From a reason to fetch descriptors to the request.
    pub fetch: SimDuration,
    /// From the last use of a descriptor to its writing back.
    pub write_back: SimDuration,
    /// From a read of registers to its answer.
    pub register: SimDuration,
}

/// A memory of ours, which simulators reach.
#[derive(Clone, Debug, PartialEq)]
pub struct Memory {
    /// Its bytes.
    pub size: u64,
    /// From a request to its answer.
    pub access: SimDuration,
}

/// What a simulator is at its end of a connection that is no network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PciRole {
    /// The PCI device.
    Device,
    /// The host of a PCI device.
    Host,
    /// The host of a memory.
    MemoryHost,
}

/// The PCI connection that a link is, or that to a memory: its first end is the host's, its second the device's.
#[derive(Clone, Debug, PartialEq)]
pub struct PciConnection {
    /// Time that a transaction takes in either direction.
    pub latency: SimDuration,
    /// The driver, if the host is one of ours.
    pub driver: Option<PciDriver>,
}

/// The kind of network controller that a driver drives.
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

    /// The driver's name in experiments.
    pub fn name(self) -> &'static str {
        PciDriverKind::ALL.into_iter().find(|(_, kind)| *kind == self).map_or("", |(name, _)| name)
    }
}

/// A driver of a network controller.
#[derive(Clone, Debug, PartialEq)]
pub struct PciDriver {
    /// What it drives.
    pub kind: PciDriverKind,
    /// Message-signalled interrupts where the device has them; else its interrupt line.
    pub msi: bool,
    /// The least time between two interrupts.
    pub interrupt_interval: SimDuration,
    /// Descriptors of each ring.
    pub ring: u32,
}

/// The name of a device's port to its host.
pub const PCI_PORT: &str = "pci";
/// Latency between two nodes of ours that stand for one: what is beside it is the channel's.
pub const NEAR: SimDuration = SimDuration::from_nanos(1);
