//! The gateways of a run: interfaces of this machine, opened before it begins, and the clock that ties simulated to real time.

use crate::device::{Gateway, Pace};
use crate::options::RunOptions;
use crate::simulators::Failure;
use belljar_base::{HostId, Map, SimTime};
use belljar_config::Experiment;
use belljar_config::topology::{self, DeviceKind};
use belljar_packetio::{Attachment, Namespace, Port};
use belljar_plan::link_nic;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::Duration;

/// After so long it is looked whether the run is to end.
const LONGEST_WAIT: Duration = Duration::from_millis(50);

/// This machine's clock, by which a run is paced: nanoseconds that only go up.
pub type RealClock = fn() -> u64;

/// Simulated time as it goes by on this machine's clock: time 0 is when it is first asked for.
#[derive(Clone)]
pub struct PacedClock {
    read: RealClock,
    epoch: Arc<OnceLock<u64>>,
}

impl PacedClock {
    /// A clock that has not begun yet.
    pub fn new(read: RealClock) -> PacedClock {
        PacedClock { read, epoch: Arc::default() }
    }
    /// Waits until it is `time`, unless `interrupt` is set before.
    pub fn wait_for(&self, time: SimTime, interrupt: &AtomicBool) {
        while let Some(ahead) = time.as_nanos().checked_sub(self.now().as_nanos()).filter(|ahead| *ahead > 0)
        {
            if interrupt.load(Relaxed) {
                return;
            }
            thread::park_timeout(Duration::from_nanos(ahead).min(LONGEST_WAIT));
        }
    }
    /// The time that it is now.
    pub fn now(&self) -> SimTime {
        let now = (self.read)();
        // Of two threads that ask first the one that has read the earlier time may come second.
        SimTime::from_nanos(now.saturating_sub(*self.epoch.get_or_init(|| now)))
    }
}

/// The gateways of a run that have been opened.
#[derive(Default)]
pub struct Gateways(Map<HostId, Gateway>);

impl Gateways {
    /// Opens those that are `mine`. If one cannot be opened, `failure` says why, and the run ends before it begins.
    pub fn open(
        experiment: &Experiment,
        mine: impl Fn(HostId) -> bool,
        options: &RunOptions,
        clock: Option<&PacedClock>,
        failure: &Failure,
    ) -> Gateways {
        let ids = (experiment.hosts.len() as u32..).map(HostId).zip(&experiment.topology.devices);
        let gateways = ids.filter_map(|(id, device)| match &device.kind {
            DeviceKind::Gateway(settings) if mine(id) => Some((id, device, settings)),
            _ => None,
        });
        let gateways: Vec<_> = gateways.collect();
        let mut opened = Gateways::default();
        let Some(clock) = clock else {
            if let Some((_, device, _)) = gateways.first() {
                let _ = failure.set(format!("gateway '{}': this run has no real time", device.name));
            }
            return opened;
        };
        let run = Pace {
            clock: clock.clone(),
            interrupt: options.interrupt.clone(),
            failure: failure.clone(),
            alone: gateways.len() == 1,
        };
        for (id, device, settings) in gateways {
            let port = match open(experiment, device, settings) {
                Ok(port) => port,
                Err(reason) => {
                    // Of several reasons the first one counts.
                    let _ = failure.set(format!("gateway '{}': {reason}", device.name));
                    continue;
                }
            };
            let out = link_nic(experiment, &device.interfaces[0]);
            let link = &experiment.topology.links[device.interfaces[0].link];
            opened.0.insert(id, Gateway::new(device, settings, port, &out, link.mtu, &run));
        }
        opened
    }

    /// The device of a gateway; `None` if it could not be opened.
    pub fn take(&mut self, id: HostId) -> Option<Gateway> {
        self.0.remove(&id)
    }
}

fn open(
    experiment: &Experiment,
    device: &topology::Device,
    settings: &topology::Gateway,
) -> Result<Box<dyn Port>, String> {
    let Ok(attachment) = settings.interface.parse::<Attachment>();
    let mtu = experiment.topology.links[device.interfaces[0].link].mtu;
    let address = settings.address.map(|address| (address.ip, address.len));
    let namespace = match &settings.namespace {
        Some(name) => Namespace::Name(name.clone()),
        None => Namespace::Current,
    };
    attachment.open_for(&namespace, address, mtu)
}
