//! Gateways of a run: interfaces of the machine, opened before the run begins, and the clock that paces
//! simulated time by real time.

use crate::device::{Gateway, Pace};
use crate::options::RunOptions;
use crate::simulators::Failure;
use belljar_base::{HostId, Map, SimTime};
use belljar_config::Experiment;
use belljar_config::topology::{self, DeviceKind};
use belljar_packetio::{Attachment, Namespace, Port};
use belljar_plan::link_nic;
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::Duration;

/// Interval at which a wait checks whether the run is interrupted.
const LONGEST_WAIT: Duration = Duration::from_millis(50);

/// Clock of the machine that paces a run: monotonic nanoseconds.
pub type RealClock = fn() -> u64;

/// Simulated time on the machine's clock; time 0 is that of the first reading.
#[derive(Clone)]
pub struct PacedClock {
    read: RealClock,
    epoch: Arc<OnceLock<u64>>,
}

impl PacedClock {
    /// Creates a clock that has not started.
    pub fn new(read: RealClock) -> PacedClock {
        PacedClock { read, epoch: Arc::default() }
    }
    /// Waits until the clock shows `time`, or `is_called` returns true.
    pub fn wait_for(&self, time: SimTime, is_called: impl Fn() -> bool) {
        while let Some(ahead) = time.as_nanos().checked_sub(self.now().as_nanos()).filter(|ahead| *ahead > 0)
        {
            if is_called() {
                return;
            }
            thread::park_timeout(Duration::from_nanos(ahead).min(LONGEST_WAIT));
        }
    }
    /// Reads the clock, and starts it at the first reading.
    pub fn now(&self) -> SimTime {
        let now = (self.read)();
        // Two threads may race for the first reading, and the one with the earlier time lose.
        SimTime::from_nanos(now.saturating_sub(*self.epoch.get_or_init(|| now)))
    }
}

/// Opened gateways of a run.
#[derive(Default)]
pub struct Gateways(Map<HostId, Gateway>);

impl Gateways {
    /// Opens the gateways that are `mine`. A failure is stored in `failure`, and the run ends before it
    /// begins.
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
                    // The first of several failures is reported.
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

    /// Takes the device of a gateway; `None` if it could not be opened.
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
