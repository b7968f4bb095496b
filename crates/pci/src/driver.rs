//! Common interface of network controller drivers.

use crate::info::DeviceInfo;
use crate::transaction::{ToDevice, ToHost};
use crate::{corundum, e1000};
use belljar_base::{PacketAccount, SimDuration, SimTime};
use std::fmt::Debug;

/// Driver settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DriverSettings {
    /// Hardware address.
    pub mac: [u8; 6],
    /// Maximum frame length in bytes.
    pub longest: usize,
    /// Number of descriptors per ring: a multiple of 8; for Corundum a power of two.
    pub ring: u32,
    /// Software transmit queue limit in frames; further frames are dropped.
    pub queue: usize,
    /// Use MSI if the device supports it.
    pub msi: bool,
    /// Minimum interval between interrupts.
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

/// Driver counters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Frames received, and their bytes.
    pub received: (u64, u64),
    /// Frames passed to the device, and their bytes.
    pub sent: (u64, u64),
    /// Frames dropped because the software transmit queue was full.
    pub dropped: u64,
    /// Interrupts handled.
    pub interrupts: u64,
    /// Register reads, during each of which the processor stalls.
    pub register_reads: u64,
    /// Number of times that the transmit ring was full.
    pub ring_full: u64,
    /// Descriptors returned by the device with invalid contents.
    pub invalid: u64,
}

impl Counts {
    /// All counters under the names shown by `ethtool -S`.
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

/// Reasons for which drivers drop frames: not valid, no room in the transmit queue, longer than a buffer.
pub const DROP_REASONS: [&str; 3] = ["invalid", "queue_full", "too_long"];

/// Counters of a driver's account that [`Counts`] does not include.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Flow {
    /// Frames passed to [`Driver::transmit`].
    pub transmitted: u64,
    /// Frames in transmit descriptors that the device has returned.
    pub returned: u64,
    /// Frames found in receive descriptors.
    pub found: u64,
    /// Of these, frames that were invalid.
    pub invalid: u64,
    /// Frames returned by [`Driver::poll_received`].
    pub delivered: u64,
    /// Frames dropped because the transmit queue was full.
    pub queue_full: u64,
    /// Frames dropped because they exceed a buffer.
    pub too_long: u64,
}

impl Flow {
    /// Account of a driver that holds `held` frames.
    pub fn account(&self, held: u64) -> PacketAccount {
        let (received, sent) = (self.transmitted, self.delivered);
        let mut account = PacketAccount { received, sent, held, ..PacketAccount::default() };
        account.originate("device", self.found);
        account.consume("device", self.returned);
        let drops = [self.invalid, self.queue_full, self.too_long];
        DROP_REASONS.into_iter().zip(drops).for_each(|(reason, count)| account.drop_for(reason, count));
        account
    }
}

/// Driver of a network controller.
///
/// **Inputs**: [`start`](Self::start) once the device has been found, [`handle`](Self::handle) for each
/// transaction of the device, [`transmit`](Self::transmit) for each frame, [`on_timeout`](Self::on_timeout)
/// at [`next_timeout`](Self::next_timeout). **Outputs**, after each input: [`poll_device`](Self::poll_device)
/// and [`poll_received`](Self::poll_received). While the driver [`waits`](Self::waits) for a register read
/// the processor is stalled, and only [`handle`](Self::handle) may be called.
pub trait Driver: Debug + Send {
    /// Initializes the device.
    fn start(&mut self, now: SimTime, device: &DeviceInfo);
    /// Handles a transaction of the device.
    fn handle(&mut self, transaction: ToHost);
    /// Queues a frame for transmission.
    fn transmit(&mut self, frame: Vec<u8>);
    /// Processes expired timers.
    fn on_timeout(&mut self, now: SimTime);
    /// Time of the next call of [`on_timeout`](Self::on_timeout).
    fn next_timeout(&self) -> Option<SimTime>;
    /// True while a register read is pending.
    fn waits(&self) -> bool;
    /// Next transaction for the device.
    fn poll_device(&mut self) -> Option<ToDevice>;
    /// Next received frame.
    fn poll_received(&mut self) -> Option<Vec<u8>>;
    /// Counters of the driver.
    fn counts(&self) -> &Counts;
    /// Counters of driver and device under the names shown by `ethtool -S`; those of the device as last read.
    fn statistics(&self) -> Vec<(&'static str, u64)>;
    /// Number of device accesses outside the arena.
    fn outside(&self) -> u64;
    /// Account of the frames. Frames of the stack are received by [`transmit`](Self::transmit), and consumed
    /// as `device` when the device has returned their descriptor. Frames originate as `device` when the driver
    /// finds them in receive descriptors, and are sent by [`poll_received`](Self::poll_received). Frames in the
    /// transmit ring are held.
    ///
    /// Drop reasons: `queue_full`, the software transmit queue was full; `too_long`, longer than a transmit
    /// buffer; `invalid`, received with an error or longer than a receive buffer.
    fn packet_account(&self) -> PacketAccount;
}

/// Kinds of driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Intel 8254x.
    E1000,
    /// Corundum.
    Corundum,
}

impl Kind {
    /// Name in experiment files.
    pub fn name(self) -> &'static str {
        match self {
            Kind::E1000 => "e1000",
            Kind::Corundum => "corundum",
        }
    }
    /// True if the driver supports this device.
    pub fn drives(self, device: &DeviceInfo) -> bool {
        match self {
            Kind::E1000 => e1000::drives(device),
            Kind::Corundum => corundum::drives(device),
        }
    }
    /// Creates a driver that waits for its device.
    pub fn driver(self, settings: DriverSettings) -> Box<dyn Driver> {
        match self {
            Kind::E1000 => Box::new(e1000::Driver::new(settings)),
            Kind::Corundum => Box::new(corundum::Driver::new(settings)),
        }
    }
}
