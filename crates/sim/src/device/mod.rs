//! Devices: the nodes at the ends of links that are no hosts. Switches, routers, P4 switches, radios, network controllers, memories, other simulators and gateways.
//!
//! A [`Device`] is a state machine without a clock: frames and timers in, frames out. [`DeviceNode`] is what the
//! engine runs: it keeps the device's inbox, its scheduled changes, the outgoing direction of each of its links, its
//! captures and samples, and knows no kind. A new kind implements the trait in a file of its own, gets a variant in
//! `belljar_config::topology::DeviceKind`, and a line in [`new`].

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
pub use simulator::ForeignSimulator;

use crate::fabric::Fabric;
use crate::gateways::Gateways;
use crate::live::Table;
use crate::simulators::Simulators;
use belljar_base::{HostId, SimTime};
use belljar_config::Experiment;
use belljar_config::topology::{DeviceKind, P4Setup};
use belljar_net::switch::EgressFrame;
use belljar_net::{Counters, Packet};
use belljar_plan::LinkChange;
use belljar_results::Statistics;

/// A device.
///
/// Events: [`receive`](Self::receive), [`on_timeout`](Self::on_timeout), [`change`](Self::change) and [`set_up`](Self::set_up); after each,
/// [`poll`](Self::poll) is called until it gives `None`. [`next_event`](Self::next_event) says when the device wants
/// to be called next. Observers: [`counters`](Self::counters), [`queue_len`](Self::queue_len),
/// [`tables`](Self::tables) and [`add_statistics`](Self::add_statistics).
///
/// Events of one instant come in this order: changes, timers, frames. Times never go back.
pub trait Device: Send {
    /// Takes a frame whose last bit has arrived at a port.
    fn receive(&mut self, now: SimTime, port: usize, frame: Packet);
    /// Does what is due. Called at [`next_event`](Self::next_event) for whatever [`poll`](Self::poll) alone does not do.
    fn on_timeout(&mut self, _now: SimTime) {}
    /// Takes a scheduled change of its links; one that does not concern its kind has no effect.
    fn change(&mut self, now: SimTime, change: LinkChange);
    /// Carries out runtime files and commands, if it is a P4 switch.
    fn set_up(&mut self, _now: SimTime, _setup: &[P4Setup]) {}
    /// Gives the next frame that begins to leave up to `now`, in the order of time and then of ports.
    fn poll(&mut self, now: SimTime) -> Option<EgressFrame>;
    /// The time of its next timer or departure, if no frame arrives before.
    fn next_event(&self) -> Option<SimTime>;
    /// The frames and bytes that a port has carried and dropped.
    fn counters(&self, port: usize) -> Counters;
    /// The number of frames that wait to leave a port.
    fn queue_len(&self, port: usize) -> usize;
    /// For a device that exchanges frames with something outside of the simulation: its way to there.
    fn outside(&mut self) -> Option<&mut dyn Outside> {
        None
    }
    /// When it came to rest for good, as far as it does not only answer others; `None` while a run is to go on for its sake.
    fn finished_at(&self) -> Option<SimTime> {
        Some(SimTime::ZERO)
    }
    /// Takes the text written to its log since the last call, if it keeps one.
    fn take_log(&mut self) -> String {
        String::new()
    }
    /// The files that tell what state it is in when the run is over, by their names.
    fn state_files(&self) -> Vec<(&'static str, String)> {
        Vec::new()
    }
    /// Its tables as they are at `now`, for who looks on.
    fn tables(&self, _now: SimTime) -> Vec<Table> {
        let table =
            |(name, csv): (&str, String)| Table { name: name.trim_end_matches(".csv").to_owned(), csv };
        self.state_files().into_iter().map(table).collect()
    }
    /// Adds what only its kind counts to the statistics of the run, under its name.
    fn add_statistics(&self, _name: &str, _statistics: &mut Statistics) {}
}

/// The way of a device to something outside of the simulation, which has a clock of its own.
///
/// Whenever the device is run up to a limit, [`send`](Self::send) is called for all that arrives before it, then
/// [`exchange`](Self::exchange); only then what happens up to the time that this gives. So what is to leave leaves as early as
/// it is known, which is what the clock outside waits for.
pub trait Outside {
    /// Takes a frame that arrives at a port at `at`. Later [`receive`](Device::receive) is called for it, when that time has
    /// come here too.
    fn send(&mut self, at: SimTime, port: usize, frame: &Packet);
    /// Promises that all that arrives before `limit` has been sent, and takes what has come from outside. Gives the time, at
    /// most the limit, before which nothing comes from there any more.
    fn exchange(&mut self, limit: SimTime) -> SimTime;
}

/// A device in the place of one that could not be opened: the run ends before it begins.
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
}

/// Builds the device `id` of an experiment, as it is at the start. `simulators` are those that have been started, `gateways`
/// those that have been opened.
pub fn new(
    experiment: &Experiment,
    id: HostId,
    fabric: &Fabric,
    simulators: &mut Simulators,
    gateways: &mut Gateways,
) -> Box<dyn Device> {
    let settings = experiment.device(id).expect("the id of a device");
    match &settings.kind {
        DeviceKind::Switch(switch) => switch::new(experiment, id, settings, switch, fabric),
        DeviceKind::P4(p4) => p4::new(experiment, id, settings, p4, fabric),
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
