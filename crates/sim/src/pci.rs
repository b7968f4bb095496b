//! PCI devices of a host: its drivers, and the way of their transactions over the links that stand for PCI.
//!
//! A transaction travels as the bytes of a [`Packet`]. The first thing that a device says is what it is. While a driver waits for
//! registers the host stands still: its clock goes on to the time of the answer, and what has arrived until then is dealt with then.

use belljar_base::{EventClass, EventKey, HostId, Inbox, SimTime};
use belljar_config::Experiment;
use belljar_config::topology::{Interface, PciDriver, PciDriverKind};
use belljar_net::Packet;
use belljar_netstack::adapter::Adapter;
use belljar_pci::driver::Kind;
use belljar_pci::{Codec, DeviceInfo, Driver, DriverSettings, ToHost};
use belljar_results::Statistics;
use belljar_wire::ethernet;
use std::fmt::Write;

/// The type of the message by which a device says what it is; none of PCIe has it.
const PRESENT: u8 = 0;
/// Most descriptors that a ring can be given.
const MOST_DESCRIPTORS: u32 = 4_096;

/// The message of a device that says what it is.
pub fn present(info: &DeviceInfo) -> Vec<u8> {
    [&[PRESENT][..], &info.encode()].concat()
}

/// True for a message that [`present`] has made.
pub fn is_present(message: &[u8]) -> bool {
    message.first() == Some(&PRESENT)
}

/// A device of a host, with its driver.
pub struct HostDevice {
    /// The link that stands for its PCI connection, by its number among the host's.
    pub link: usize,
    name: String,
    driver: Box<dyn Driver>,
    settings: PciDriver,
    inbox: Inbox<Packet>,
    /// Time of the latest that was done. Others' never fall, so neither do ours.
    last: SimTime,
}

impl HostDevice {
    /// The devices of a host, by its interfaces.
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

    /// Takes what the device has sent.
    pub fn deliver(&mut self, key: EventKey, packet: Packet) {
        self.inbox.push(key, packet);
    }

    /// When something is due.
    pub fn next_event(&self) -> Option<SimTime> {
        let timer = if self.driver.waits() { None } else { self.driver.next_timeout() };
        [self.inbox.next(), timer].into_iter().flatten().min()
    }

    /// True while its driver waits for registers.
    pub fn waits(&self) -> bool {
        self.driver.waits()
    }

    /// Does the first thing that is due at `at`.
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

    /// Takes a frame that leaves the host at `at`.
    pub fn transmit(&mut self, at: SimTime, mut frame: Packet) {
        self.last = self.last.max(at);
        frame.fill_checksum();
        self.driver.transmit(frame.into_bytes());
    }

    /// The next transaction for the device, with its time.
    pub fn poll_device(&mut self) -> Option<(SimTime, Packet)> {
        self.driver.poll_device().map(|transaction| (self.last, Packet::new(transaction.to_bytes())))
    }

    /// The next frame for the host, with its key.
    pub fn poll_received(&mut self, host: HostId, sequence: &mut u64) -> Option<(EventKey, Packet)> {
        let frame = self.driver.poll_received()?;
        *sequence += 1;
        let key = EventKey { time: self.last, class: EventClass::Arrival, source: host, sequence: *sequence };
        Some((key, Packet::new(frame)))
    }

    /// Interrupts that its driver has taken.
    pub fn interrupts(&self) -> u64 {
        self.driver.counts().interrupts
    }

    /// Its driver runs at `at` only.
    pub fn delay(&mut self, at: SimTime) {
        self.last = self.last.max(at);
    }

    /// The adapter, as programs see it, the `number`th of its host.
    pub fn adapter(&self, number: usize) -> Adapter {
        let has_interval = self.settings.kind == PciDriverKind::E1000;
        Adapter {
            driver: kind(self.settings.kind).name(),
            // The first three are what machines have besides.
            bus: format!("0000:00:{:02x}.0", number + 3),
            ring: (self.settings.ring, MOST_DESCRIPTORS),
            interrupt_interval: has_interval.then_some(self.settings.interrupt_interval),
            statistics: self.driver.statistics(),
        }
    }

    /// Its counters by name.
    pub fn statistics(&self) -> Vec<(&'static str, u64)> {
        self.driver.statistics()
    }

    /// Its counters as text, by the name of a file for them.
    pub fn counters(&self) -> (String, String) {
        let mut text = String::new();
        for (name, count) in self.driver.statistics() {
            let _ = writeln!(text, "{name}: {count}");
        }
        (format!("{}.counters", self.name), text)
    }

    /// Warns of what the device has done wrong.
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

/// The driver that an experiment names.
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
