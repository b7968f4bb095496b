//! PCI devices of a host: their drivers, and the transfer of PCIe transactions over the links that stand
//! for PCI.
//!
//! A transaction is transferred as the bytes of a [`Packet`]. A device first sends its description. While a
//! driver waits for a register read the host is stalled: its clock is then advanced to the time of the
//! completion, and events that arrived meanwhile are processed at that time.

use belljar_base::{EventClass, EventKey, HostId, Inbox, PacketAccount, SimTime};
use belljar_config::Experiment;
use belljar_config::topology::{Interface, PciDriver, PciDriverKind};
use belljar_net::Packet;
use belljar_netstack::adapter::Adapter;
use belljar_pci::driver::Kind;
use belljar_pci::{Codec, DeviceInfo, Driver, DriverSettings, ToHost};
use belljar_results::Statistics;
use belljar_wire::ethernet;
use std::fmt::Write;

/// Type of the message by which a device describes itself, unused by PCIe messages.
const PRESENT: u8 = 0;
/// Maximum number of descriptors of a ring.
const MOST_DESCRIPTORS: u32 = 4_096;

/// Encodes the message by which a device describes itself.
pub fn present(info: &DeviceInfo) -> Vec<u8> {
    [&[PRESENT][..], &info.encode()].concat()
}

/// True for a message made by [`present`].
pub fn is_present(message: &[u8]) -> bool {
    message.first() == Some(&PRESENT)
}

/// PCI device of a host, with its driver.
pub struct HostDevice {
    /// Index of the host's link that stands for the PCI connection.
    pub link: usize,
    name: String,
    driver: Box<dyn Driver>,
    settings: PciDriver,
    inbox: Inbox<Packet>,
    /// Time of the latest action, which never decreases.
    last: SimTime,
}

impl HostDevice {
    /// Creates the devices of a host from its interfaces.
    pub fn all(experiment: &Experiment, host: &str, interfaces: &[Interface]) -> Vec<HostDevice> {
        let device = |(link, interface): (usize, &Interface)| {
            let connection = &experiment.topology.links[interface.link];
            let settings = connection.pci.as_ref()?.driver.as_ref()?;
            Some(HostDevice {
                link,
                name: interface.name.clone(),
                driver: kind(settings.kind).driver(driver_settings(
                    experiment,
                    host,
                    interface,
                    connection.mtu,
                    settings,
                )),
                settings: settings.clone(),
                inbox: Inbox::default(),
                last: SimTime::ZERO,
            })
        };
        interfaces.iter().enumerate().filter_map(device).collect()
    }

    /// Queues a message from the device.
    pub fn deliver(&mut self, key: EventKey, packet: Packet) {
        self.inbox.push(key, packet);
    }

    /// Time of the next message or timer.
    pub fn next_event(&self) -> Option<SimTime> {
        let timer = if self.driver.waits() { None } else { self.driver.next_timeout() };
        [self.inbox.next(), timer].into_iter().flatten().min()
    }

    /// True while the driver waits for a register read.
    pub fn waits(&self) -> bool {
        self.driver.waits()
    }

    /// Processes the next message or timer, which is due at `at`.
    pub fn handle(&mut self, at: SimTime) {
        self.last = self.last.max(at);
        if self.inbox.next() != Some(at) {
            return self.driver.on_timeout(at);
        }
        let Some(packet) = self.inbox.pop() else { return };
        match packet.bytes() {
            bytes if is_present(bytes) => {
                if let Ok(info) = DeviceInfo::decode(&bytes[1..]) {
                    self.driver.start(at, &info);
                }
            }
            bytes => {
                if let Ok(transaction) = ToHost::from_bytes(bytes) {
                    self.driver.handle(transaction);
                }
            }
        }
    }

    /// Sends a frame that leaves the host at `at`.
    pub fn transmit(&mut self, at: SimTime, mut frame: Packet) {
        self.last = self.last.max(at);
        frame.fill_checksum();
        self.driver.transmit(frame.into_bytes());
    }

    /// Returns the next transaction for the device, with its time.
    pub fn poll_device(&mut self) -> Option<(SimTime, Packet)> {
        self.driver.poll_device().map(|transaction| (self.last, Packet::new(transaction.to_bytes())))
    }

    /// Returns the next frame for the host, with its key.
    pub fn poll_received(&mut self, host: HostId, sequence: &mut u64) -> Option<(EventKey, Packet)> {
        let frame = self.driver.poll_received()?;
        *sequence += 1;
        let key = EventKey { time: self.last, class: EventClass::Arrival, source: host, sequence: *sequence };
        Some((key, Packet::new(frame)))
    }

    /// Account of the frames between the host's interface and the device.
    pub fn packet_account(&self) -> PacketAccount {
        self.driver.packet_account()
    }

    /// Number of interrupts that the driver has handled.
    pub fn interrupts(&self) -> u64 {
        self.driver.counts().interrupts
    }

    /// Delays the driver's actions to `at`.
    pub fn delay(&mut self, at: SimTime) {
        self.last = self.last.max(at);
    }

    /// Description of the adapter for programs; `number` is the index among the host's devices.
    pub fn adapter(&self, number: usize) -> Adapter {
        let has_interval = self.settings.kind == PciDriverKind::E1000;
        Adapter {
            driver: kind(self.settings.kind).name(),
            // The first three slots are for other devices of a PC.
            bus: format!("0000:00:{:02x}.0", number + 3),
            ring: (self.settings.ring, MOST_DESCRIPTORS),
            interrupt_interval: has_interval.then_some(self.settings.interrupt_interval),
            statistics: self.driver.statistics(),
        }
    }

    /// Counters of the driver, by name.
    pub fn statistics(&self) -> Vec<(&'static str, u64)> {
        self.driver.statistics()
    }

    /// Counters as text, with the name of their file.
    pub fn counters(&self) -> (String, String) {
        let mut text = String::new();
        for (name, count) in self.driver.statistics() {
            let _ = writeln!(text, "{name}: {count}");
        }
        (format!("{}.counters", self.name), text)
    }

    /// Adds a warning if the device has accessed memory outside of its driver's.
    pub fn add_statistics(&self, host: &str, statistics: &mut Statistics) {
        let outside = self.driver.outside();
        if outside > 0 {
            let what = format!(
                "host '{host}': the device of {} reached for memory outside of its driver's: reads gave ones, writes were lost",
                self.name
            );
            *statistics.warnings.entry(what).or_default() += outside;
        }
    }
}

/// Driver selected by an experiment.
pub fn kind(kind: PciDriverKind) -> Kind {
    match kind {
        PciDriverKind::E1000 => Kind::E1000,
        PciDriverKind::Corundum => Kind::Corundum,
    }
}

fn driver_settings(
    experiment: &Experiment,
    host: &str,
    interface: &Interface,
    mtu: usize,
    settings: &PciDriver,
) -> DriverSettings {
    DriverSettings {
        mac: belljar_plan::mac(experiment, host, interface),
        longest: mtu + ethernet::HEADER_LEN,
        ring: settings.ring,
        msi: settings.msi,
        interrupt_interval: settings.interrupt_interval,
        ..DriverSettings::default()
    }
}
