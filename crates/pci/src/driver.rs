//! Drivers of network controllers: what they have in common.

use crate::info::DeviceInfo;
use crate::transaction::{ToDevice, ToHost};
use crate::{corundum, e1000};
use belljar_base::{SimDuration, SimTime};
use std::fmt::Debug;

/// Settings of a driver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DriverSettings {
    /// The address that it receives at.
    pub mac: [u8; 6],
    /// The longest frame.
    pub longest: usize,
    /// Descriptors of each ring: a multiple of 8, for Corundum a power of two.
    pub ring: u32,
    /// Frames that wait in front of the ring: more are lost.
    pub queue: usize,
    /// MSI where the device has it.
    pub msi: bool,
    /// The least time between two interrupts.
    pub interrupt_interval: SimDuration,
}

impl Default for DriverSettings {
    fn default() -> DriverSettings {
        DriverSettings {
            mac: [2, 0, 0, 0, 0, 1],
            longest: 1_514,
            ring: 256,
            queue: 1_000,
            msi: true,
            interrupt_interval: SimDuration::ZERO,
        }
    }
}

/// Counts of a driver.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Frames received, and their bytes.
    pub received: (u64, u64),
    /// Frames handed to the device, and their bytes.
    pub sent: (u64, u64),
    /// Frames lost because the queue in front of the ring was full.
    pub dropped: u64,
    /// Interrupts taken.
    pub interrupts: u64,
    /// Reads of registers, during each of which the host stood still.
    pub register_reads: u64,
    /// Times that the ring was full.
    pub ring_full: u64,
    /// Descriptors that the device gave back with something that cannot be.
    pub invalid: u64,
}

impl Counts {
    /// All of them by the names that `ethtool -S` shows.
    pub fn named(&self) -> Vec<(&'static str, u64)> {
        vec![
            ("rx_packets", self.received.0),
            ("tx_packets", self.sent.0),
            ("rx_bytes", self.received.1),
            ("tx_bytes", self.sent.1),
            ("tx_dropped", self.dropped),
            ("tx_restart_queue", self.ring_full),
            ("rx_errors", self.invalid),
            ("interrupts", self.interrupts),
            ("register_reads", self.register_reads),
        ]
    }
}

/// A driver of a network controller.
///
/// **In**: [`start`](Self::start) once the device has been found, [`handle`](Self::handle) for a transaction of the device,
/// [`transmit`](Self::transmit) for a frame, [`on_timeout`](Self::on_timeout) at [`next_timeout`](Self::next_timeout). **Out**, after
/// each: [`poll_device`](Self::poll_device) and [`poll_received`](Self::poll_received). While it [`waits`](Self::waits) for registers the
/// processor stands still, and only [`handle`](Self::handle) may be called.
pub trait Driver: Debug + Send {
    /// The device is there: sets it up.
    fn start(&mut self, now: SimTime, device: &DeviceInfo);
    /// Takes a transaction of the device.
    fn handle(&mut self, transaction: ToHost);
    /// Takes a frame to send.
    fn transmit(&mut self, frame: Vec<u8>);
    /// Does what is due.
    fn on_timeout(&mut self, now: SimTime);
    /// When it wants to be called next.
    fn next_timeout(&self) -> Option<SimTime>;
    /// True while a read of registers has no answer.
    fn waits(&self) -> bool;
    /// The next transaction for the device.
    fn poll_device(&mut self) -> Option<ToDevice>;
    /// The next frame that has been received.
    fn poll_received(&mut self) -> Option<Vec<u8>>;
    /// What it has counted itself.
    fn counts(&self) -> &Counts;
    /// Counts of it and of its device by the names that `ethtool -S` shows, those of the device as of the last time that they were read.
    fn statistics(&self) -> Vec<(&'static str, u64)>;
    /// Accesses of the device outside of the arena.
    fn outside(&self) -> u64;
}

/// The drivers that there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Intel's 8254x.
    E1000,
    /// Corundum.
    Corundum,
}

impl Kind {
    /// Its name in experiments.
    pub fn name(self) -> &'static str {
        match self {
            Kind::E1000 => "e1000",
            Kind::Corundum => "corundum",
        }
    }
    /// True if it drives this device.
    pub fn drives(self, device: &DeviceInfo) -> bool {
        match self {
            Kind::E1000 => e1000::drives(device),
            Kind::Corundum => corundum::drives(device),
        }
    }
    /// A driver that waits for its device.
    pub fn driver(self, settings: DriverSettings) -> Box<dyn Driver> {
        match self {
            Kind::E1000 => Box::new(e1000::Driver::new(settings)),
            Kind::Corundum => Box::new(corundum::Driver::new(settings)),
        }
    }
}
