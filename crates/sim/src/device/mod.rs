//! Devices: the nodes on links that are not hosts. Switches, routers, P4 switches, radio channels, network
//! controllers, memories, other simulators and gateways.
//!
//! A [`Device`] is a state machine without a clock: frames and timers in, frames out. [`DeviceNode`] is the
//! engine's node: it holds the device's inbox, its scheduled changes, the outgoing direction of each of its
//! links, its captures and samples, independently of the kind of device. A new kind implements the trait in
//! a file of its own, and gets a variant of `belljar_config::topology::DeviceKind` and a line in [`new`].

mod gateway;
mod memory;
mod nic;
mod node;
mod p4;
mod radio;
mod router;
mod simulator;
mod switch;

pub use gateway::{Gateway, Pace};
pub use node::DeviceNode;
pub use simulator::{ForeignSimulator, PortSetup};

use crate::fabric::Fabric;
use crate::gateways::Gateways;
use crate::live::Table;
use crate::simulators::Simulators;
use belljar_base::{HostId, PacketAccount, SimTime};
use belljar_config::Experiment;
use belljar_config::topology::{DeviceKind, P4Setup};
use belljar_net::switch::EgressFrame;
use belljar_net::{Counters, Nic, Packet};
use belljar_p4::servers::CreateServers;
use belljar_plan::LinkChange;
use belljar_results::Statistics;

/// State machine of a device.
///
/// Events: [`receive`](Self::receive), [`on_timeout`](Self::on_timeout), [`change`](Self::change) and
/// [`set_up`](Self::set_up); after each of them, [`poll`](Self::poll) is called until it returns `None`.
/// [`next_event`](Self::next_event) returns the time of the next call. Observers:
/// [`counters`](Self::counters), [`queue_len`](Self::queue_len), [`tables`](Self::tables), and after the run,
/// when [`finish`](Self::finish) has been called, [`packet_accounts`](Self::packet_accounts) and
/// [`add_statistics`](Self::add_statistics).
///
/// Events at the same time are ordered: changes, timers, frames. Times never decrease.
pub trait Device: Send {
    /// Processes a frame whose last bit has arrived at a port.
    fn receive(&mut self, now: SimTime, port: usize, frame: Packet);
    /// Processes expired timers. Called at [`next_event`](Self::next_event), for work other than
    /// [`poll`](Self::poll) itself.
    fn on_timeout(&mut self, _now: SimTime) {}
    /// Applies a scheduled change of the device's links; changes that do not apply to its kind are ignored.
    fn change(&mut self, now: SimTime, change: LinkChange);
    /// Applies runtime files and commands, if the device is a P4 switch.
    fn set_up(&mut self, _now: SimTime, _setup: &[P4Setup]) {}
    /// Returns the next frame whose transmission begins by `now`, ordered by time, then by port.
    fn poll(&mut self, now: SimTime) -> Option<EgressFrame>;
    /// Time of the next timer or departure, if no frame arrives before.
    fn next_event(&self) -> Option<SimTime>;
    /// Time by which the device must exchange messages with the outside, even if it has no event by then.
    fn next_exchange(&self) -> Option<SimTime> {
        None
    }
    /// Counters of the frames and bytes that a port has carried and dropped.
    fn counters(&self, port: usize) -> Counters;
    /// Number of frames queued at a port.
    fn queue_len(&self, port: usize) -> usize;
    /// Ends the exchange with the outside at the end of the run, and reads the final values of counters that are not the
    /// device's own.
    fn finish(&mut self, _end: SimTime) {}
    /// Accounts of the packets of the device and of its interfaces.
    fn packet_accounts(&self) -> Vec<DeviceAccount>;
    /// Interface to a network outside of the simulation, if the device has one.
    fn outside(&mut self) -> Option<&mut dyn Outside> {
        None
    }
    /// Time at which the device became idle for good, apart from answering others; `None` if the run must
    /// continue for it.
    fn finished_at(&self) -> Option<SimTime> {
        Some(SimTime::ZERO)
    }
    /// Takes the text logged since the last call, if the device keeps a log.
    fn take_log(&mut self) -> String {
        String::new()
    }
    /// Files with the device's final state: names and contents.
    fn state_files(&self) -> Vec<(&'static str, String)> {
        Vec::new()
    }
    /// Current tables of the device, for live views.
    fn tables(&self, _now: SimTime) -> Vec<Table> {
        let table =
            |(name, csv): (&str, String)| Table { name: name.trim_end_matches(".csv").to_owned(), csv };
        self.state_files().into_iter().map(table).collect()
    }
    /// Adds the statistics specific to the kind of device to those of the run, under its name.
    fn add_statistics(&self, _name: &str, _statistics: &mut Statistics) {}
}

/// Account of the packets of a device, or of a part of it.
pub struct DeviceAccount {
    /// Part of the device; `None` for the device itself.
    pub part: Option<&'static str>,
    /// Boundary to the network.
    pub boundary: Boundary,
    /// Account, as the part has counted it.
    pub account: PacketAccount,
}

/// Boundary of a part of a device to the links at its ports. The node of the device compares the frames that
/// it has passed with those that the part has counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Boundary {
    /// The part is the interface at a port: it has counted the frames that it took from the link, and those
    /// that it sent to the link.
    Port { port: usize, taken: u64, given: u64 },
    /// The part is connected to all ports that are not those of another part: all that it received and sent
    /// passed these.
    Ports,
    /// The part has no connection to links.
    Inside,
}

impl DeviceAccount {
    /// Account of the device itself, which receives frames from links and sends them to links.
    pub fn whole(account: PacketAccount) -> DeviceAccount {
        DeviceAccount { part: None, boundary: Boundary::Ports, account }
    }
    /// Account of the interface at a port.
    pub fn interface(port: usize, nic: &Nic) -> DeviceAccount {
        let (counters, account) = (nic.counters(), nic.packet_account());
        let boundary =
            Boundary::Port { port, taken: counters.offered_in, given: account.sent - counters.packets_in };
        DeviceAccount { part: None, boundary, account }
    }
    /// Account of a part without connection to links.
    pub fn inside(part: Option<&'static str>, account: PacketAccount) -> DeviceAccount {
        DeviceAccount { part, boundary: Boundary::Inside, account }
    }
}

/// Interface of a device to a network outside of the simulation, which has a clock of its own.
///
/// Before a device is run up to a limit, [`send`](Self::send) is called for all frames that arrive before
/// the limit, then [`exchange`](Self::exchange); the device is then run up to the time that `exchange`
/// returns. Frames to the outside are thus sent as early as they are known, which the outside clock depends
/// on.
pub trait Outside {
    /// Sends a frame that arrives at a port at `at`. [`receive`](Device::receive) is called for it later,
    /// when the device has reached that time.
    fn send(&mut self, at: SimTime, port: usize, frame: &Packet);
    /// Receives frames from the outside. The caller guarantees that all frames that arrive before `limit`
    /// have been sent. Returns the time, at most the limit, before which no further frame can arrive from
    /// the outside.
    fn exchange(&mut self, limit: SimTime) -> SimTime;
}

/// Account of a part of a device that lies between interfaces and exchanges packets with them alone. What it
/// received and sent is taken from the counters of the interfaces, so that a packet that disappears between
/// the two is missed.
fn between_interfaces<'a>(
    account: PacketAccount,
    interfaces: impl Iterator<Item = &'a Nic>,
) -> DeviceAccount {
    let mut account = PacketAccount { received: 0, sent: 0, ..account };
    for nic in interfaces {
        account.received += nic.counters().packets_in;
        account.sent += nic.counters().offered_out;
    }
    DeviceAccount::inside(None, account)
}

/// Substitute for a device that could not be opened; the run ends before it begins.
struct Absent;

impl Device for Absent {
    fn receive(&mut self, _: SimTime, _: usize, _: Packet) {}
    fn change(&mut self, _: SimTime, _: LinkChange) {}
    fn poll(&mut self, _: SimTime) -> Option<EgressFrame> {
        None
    }
    fn next_event(&self) -> Option<SimTime> {
        None
    }
    fn counters(&self, _: usize) -> Counters {
        Counters::default()
    }
    fn queue_len(&self, _: usize) -> usize {
        0
    }
    fn packet_accounts(&self) -> Vec<DeviceAccount> {
        Vec::new()
    }
}

/// Builds the device `id` of an experiment in its initial state. `simulators` have been started and
/// `gateways` opened before.
pub fn new(
    experiment: &Experiment,
    id: HostId,
    fabric: &Fabric,
    create_servers: Option<CreateServers>,
    simulators: &mut Simulators,
    gateways: &mut Gateways,
) -> Box<dyn Device> {
    let settings = experiment.device(id).expect("the id of a device");
    match &settings.kind {
        DeviceKind::Switch(switch) => switch::new(experiment, id, settings, switch, fabric),
        DeviceKind::P4(p4) => p4::new(experiment, id, settings, p4, create_servers, fabric),
        DeviceKind::Radio(radio) => radio::new(experiment, id, settings, radio),
        DeviceKind::Router(router) => router::new(experiment, id, settings, router, fabric),
        DeviceKind::Nic(controller) => nic::new(experiment, settings, controller),
        DeviceKind::Memory(memory) => memory::new(memory),
        DeviceKind::Simulator(_) => Box::new(simulators.take(id)),
        DeviceKind::Gateway(_) => match gateways.take(id) {
            Some(gateway) => Box::new(gateway),
            None => Box::new(Absent),
        },
    }
}
