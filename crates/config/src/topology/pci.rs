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

/// The PCI connection that a link is: its first end is the host's, its second the device's.
#[derive(Clone, Debug, PartialEq)]
pub struct PciConnection {
    /// Time that a transaction takes in either direction.
    pub latency: SimDuration,
    /// The driver, if the host is one of ours.
    pub driver: Option<PciDriver>,
}

/// A driver of a network controller: that of the e1000.
#[derive(Clone, Debug, PartialEq)]
pub struct PciDriver {
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
