//! External simulators of an experiment: their start before a run, the channels to them, and their end
//! after it.
//!
//! [`launch`] starts a simulator, [`sockets`] has the paths of channels, [`outlook`] shows which simulators wait for others, [`trace`] records the
//! messages. Simulators with channels between each other are started together.

mod launch;
mod outlook;
mod sockets;
mod trace;

pub use outlook::{Outlook, Watched};
pub use trace::ChannelTrace;

use crate::device::{ForeignSimulator, PortSetup};
use crate::options::RunOptions;
use crate::pci;
use belljar_base::{HostId, Map};
use belljar_config::Experiment;
use belljar_config::topology::{
    Device, DeviceKind, PciPort, PciRole, Simulator, SimulatorEnd, SimulatorPort,
};
use belljar_cosim::process::{self, Running};
use belljar_cosim::turns::{Places, Turn, Turns};
use belljar_cosim::{
    Channel, Error, Layer, MemoryDevice, Net, Parameters, PcieDevice, PcieHost, Role, Setup, SyncMode, Wire,
    establish, wait,
};
use belljar_engine::Ending;
use belljar_pci::driver::Kind;
use belljar_pci::e1000;
use belljar_plan::link_nic;
use belljar_results::ResultsFolder;
use belljar_wire::ethernet;
use sockets::Sockets;
use std::ffi::OsString;
use std::fs;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

/// Header of a slot, and a VLAN tag, in bytes; unit of slot sizes.
const SLOT_EXTRA: usize = 64 + 4;
const SLOT_UNIT: usize = 64;
/// Time limit for a simulator to end after it has closed a channel.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// Reason for which a run cannot continue; only the first one is kept.
pub type Failure = Arc<OnceLock<String>>;

/// Process of a simulator, as used by its device.
#[derive(Clone)]
pub struct Process {
    name: String,
    /// Process; `None` if it was started elsewhere.
    running: Option<Arc<Mutex<Running>>>,
    stderr: PathBuf,
    failure: Failure,
    end: AcceptedEnd,
    /// True if all its channels are with other simulators.
    is_apart: bool,
}

/// End of a simulator that a run accepts, with exit status 0.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum AcceptedEnd {
    /// The end of the run, which is that of the hosts' programs.
    WithRun,
    /// Any time. The end of the run is that of the simulators, since nothing else acts.
    DecidesRun,
    /// Any time. At the end of the run it has all the time that it needs.
    WithPeer,
}

impl Process {
    /// Stops the run for this reason.
    pub fn fail(&self, reason: String) {
        // The first of several failures has caused the others.
        let _ = self.failure.set(reason);
    }

    /// Stops the run unless it accepts the end of the simulator, whose channels are closed: after a TERMINATE
    /// if `announced`, without one otherwise.
    pub fn judge_end(&self, announced: bool) {
        let accepted = self.end != AcceptedEnd::WithRun;
        let with_peer = self.end == AcceptedEnd::WithPeer;
        let status = self
            .running
            .as_ref()
            .map(|running| running.lock().unwrap_or_else(PoisonError::into_inner).ends_within(LAST_WORDS));
        match status {
            Some(Some(status)) if status.success() && accepted => {}
            Some(Some(status)) => self.fail(self.ended("in the middle of the run", status)),
            // A process that has announced its end may still be writing its results, and of one that was
            // started elsewhere the status is unknown.
            Some(None) if announced && accepted => {}
            None if with_peer || announced && accepted => {}
            Some(None) | None => {
                let name = &self.name;
                self.fail(format!("simulator '{name}': it has closed its channels in the middle of the run"));
            }
        }
    }

    /// True if the run accepts the end of the simulator at any time.
    pub fn may_end(&self) -> bool {
        self.end != AcceptedEnd::WithRun
    }

    fn ended(&self, when: &str, status: ExitStatus) -> String {
        let said = fs::read_to_string(&self.stderr).unwrap_or_default();
        let last = said.lines().rev().find(|line| !line.trim().is_empty());
        let last = last.map_or_else(String::new, |line| format!(": {}", line.trim()));
        let remedy = match status.success() && self.end == AcceptedEnd::WithRun {
            true => "; if that is no failure, give it `ends: with peer`",
            false => "",
        };
        let stderr = self.stderr.display();
        format!("simulator '{}' ended {when} ({status}){last} [{stderr}]{remedy}", self.name)
    }

    fn has_ended(&self) -> Option<ExitStatus> {
        self.running.as_ref()?.lock().unwrap_or_else(PoisonError::into_inner).ended()
    }
}

/// Options for the simulators of a run.
#[derive(Clone, Debug, Default)]
pub struct SimulatorOptions {
    /// Launcher: a program with its arguments, to which this process's id and the simulator's command are
    /// appended. If empty, simulators are started directly.
    pub launcher: Vec<OsString>,
    /// Processors that the simulators share by turns; `None` if each has its own.
    pub places: Option<Places>,
    /// True if the messages are recorded in the results.
    pub trace: bool,
    /// State of the channels, for other threads.
    pub outlook: Arc<Outlook>,
}

/// Simulators of a cell.
#[derive(Default)]
pub struct Simulators {
    ready: Map<HostId, ForeignSimulator>,
    processes: Vec<Process>,
    turns: Option<Arc<Turns>>,
    sockets: Option<Sockets>,
    failure: Failure,
}

/// Simulator to be started.
struct Member<'a> {
    id: HostId,
    device: &'a Device,
    settings: &'a Simulator,
    /// Paths of the sockets, by port.
    sockets: Vec<PathBuf>,
    /// Paths of the sockets for the command, short enough for a socket address.
    handed: Vec<PathBuf>,
}

/// Error message of [`establish`] or of the start.
struct Reason(String);

impl From<Error> for Reason {
    fn from(error: Error) -> Reason {
        Reason(error.to_string())
    }
}

/// Ends these processes, all at once.
fn end_all<'a>(processes: impl Iterator<Item = &'a Process>) {
    let running = processes.filter_map(|process| process.running.as_ref());
    process::end(running.map(|running| running.lock().unwrap_or_else(PoisonError::into_inner)).collect());
}

impl Simulators {
    /// Starts the simulators that are `mine` and waits for their channels. Errors are stored in
    /// [`failure`](Self::failure).
    pub fn start(
        experiment: &Experiment,
        mine: impl Fn(HostId) -> bool,
        folder: &ResultsFolder,
        options: &RunOptions,
    ) -> Simulators {
        let turns = options.simulators.places.clone().map(Turns::new);
        let mut all = Simulators { turns, ..Simulators::default() };
        for ids in experiment.simulators_together().into_iter().filter(|ids| ids.iter().any(|id| mine(*id))) {
            if let Err(Reason(reason)) = all.start_together(experiment, &ids, folder, options) {
                // The first of several failures has caused the others.
                let _ = all.failure.set(reason);
            }
            for id in ids {
                // Substitute without channels for a simulator that could not be started; the run ends
                // before it begins.
                if let (false, Some(device)) = (all.ready.contains_key(&id), experiment.device(id)) {
                    let process = all.process(experiment, device, None, folder);
                    let ports = device.interfaces.iter().map(|_| None);
                    all.ready.insert(id, ForeignSimulator::new(ports, process, None, None, false));
                }
            }
        }
        all
    }

    /// Shared slot for the reason for which the run cannot begin or continue.
    pub fn failure(&self) -> Failure {
        self.failure.clone()
    }

    /// Takes the device of a simulator.
    pub fn take(&mut self, id: HostId) -> ForeignSimulator {
        self.ready.remove(&id).expect("a simulator that has been started")
    }

    /// Fails the run if a simulator without a channel to it has failed.
    pub fn judge_apart(&self) {
        for process in self.processes.iter().filter(|process| process.is_apart) {
            if let Some(status) = process.has_ended().filter(|status| !status.success()) {
                process.fail(process.ended("in the middle of the run", status));
            }
        }
    }

    /// Ends all simulators, after their channels have been closed, and returns warnings. Those that end with
    /// their peer have all the time that they need until `interrupt`, and after a run of simulators alone
    /// that has come to its `ending`, those without a channel to it.
    pub fn end(self, ending: Ending, interrupt: &AtomicBool) -> Vec<String> {
        if let Some(turns) = &self.turns {
            turns.end();
        }
        let all_apart = self.processes.iter().all(|process| process.is_apart);
        let is_complete = ending == Ending::AllFinished || ending == Ending::StopTime && all_apart;
        let with_peer = |process: &&Process| process.end == AcceptedEnd::WithPeer;
        let decides =
            |process: &&Process| process.end == AcceptedEnd::DecidesRun && process.is_apart && is_complete;
        let mut warnings = Vec::new();
        let running = || self.processes.iter().filter(|process| process.running.is_some());
        for process in running().filter(decides) {
            if let Some(status) = self.await_end(process, interrupt).filter(|status| !status.success()) {
                process.fail(process.ended("in the middle of the run", status));
            }
        }
        // Those that end with their peer may wait for the end of others.
        end_all(running().filter(|process| !with_peer(process)));
        for process in running().filter(with_peer) {
            if let Some(status) = self.await_end(process, interrupt).filter(|status| !status.success()) {
                warnings.push(process.ended("after the run", status));
            }
        }
        end_all(running().filter(with_peer));
        warnings
    }

    /// Waits for the end of a process until the run fails or is interrupted.
    fn await_end(&self, process: &Process, interrupt: &AtomicBool) -> Option<ExitStatus> {
        let mut status = process.has_ended();
        while status.is_none() && self.failure.get().is_none() && !interrupt.load(Relaxed) {
            wait::moment();
            status = process.has_ended();
        }
        status
    }

    fn process(
        &self,
        experiment: &Experiment,
        device: &Device,
        running: Option<Running>,
        folder: &ResultsFolder,
    ) -> Process {
        let settings = match &device.kind {
            DeviceKind::Simulator(settings) => Some(settings),
            _ => None,
        };
        Process {
            name: device.name.clone(),
            running: running.map(|running| Arc::new(Mutex::new(running))),
            stderr: folder.path().join("simulators").join(&device.name).join("stderr"),
            failure: self.failure.clone(),
            end: match settings.map(|settings| settings.ends) {
                Some(SimulatorEnd::WithPeer) => AcceptedEnd::WithPeer,
                _ if nothing_else_acts(experiment) => AcceptedEnd::DecidesRun,
                _ => AcceptedEnd::WithRun,
            },
            is_apart: settings.is_some_and(|settings| settings.ports.iter().all(|port| port.wired)),
        }
    }

    /// Starts a simulator, or several that have channels with each other.
    fn start_together(
        &mut self,
        experiment: &Experiment,
        ids: &[HostId],
        folder: &ResultsFolder,
        options: &RunOptions,
    ) -> Result<(), Reason> {
        if self.failure.get().is_some() {
            return Err(Reason("another simulator has failed".into()));
        }
        let mut members = Vec::new();
        for id in ids {
            let Some(device) = experiment.device(*id) else { continue };
            let DeviceKind::Simulator(settings) = &device.kind else { continue };
            let sockets = self.paths(*id, device, settings, folder)?;
            let own = self.folder(*id, folder)?;
            let short = sockets.iter().map(|socket| {
                own.short(socket).map_err(|error| {
                    Reason(format!("no short path of socket {} can be made: {error}", socket.display()))
                })
            });
            let handed = short.collect::<Result<_, _>>()?;
            members.push(Member { id: *id, device, settings, sockets, handed });
        }
        // A simulator that connects is started after those that listen.
        members.sort_by_key(|member| {
            (member.settings.ports.iter().any(|port| port.wired && !port.listens), member.id)
        });
        let mut setups = Vec::new();
        let (mut longest, mut drivers): (Vec<usize>, Vec<Option<Kind>>) = Default::default();
        for member in &members {
            for (number, parameters) in parameters(experiment, member) {
                let link = &experiment.topology.links[member.device.interfaces[number].link];
                longest.push(link.mtu + ethernet::HEADER_LEN);
                let driver = link.pci.as_ref().and_then(|pci| pci.driver.as_ref());
                drivers.push(driver.map(|driver| pci::kind(driver.kind)));
                let layer = layer(&member.settings.ports[number]);
                setups.push(Setup::with(parameters, layer)?);
            }
        }
        let mut processes: Vec<Process> = Vec::new();
        for member in &members {
            self.await_sockets(member, &processes, options)?;
            let running = match member.settings.command.is_empty() {
                true => None,
                false => Some(launch::launch(experiment, member, folder, options)?),
            };
            let process = self.process(experiment, member.device, running, folder);
            self.processes.push(process.clone());
            processes.push(process);
        }
        let patience = members.iter().map(|member| member.settings.start_timeout.as_nanos()).max();
        let patience = Duration::from_nanos(patience.unwrap_or_default());
        let channels = establish::<Wire, Reason>(setups, patience, || go_on(&processes, options))?;
        for (channel, kind) in channels.iter().zip(&drivers) {
            let (Some(device), Some(kind)) = (channel.layer().device(), kind) else { continue };
            if !kind.drives(device) {
                return Err(Reason(format!(
                    "{}: it is PCI device {:04x}:{:04x}, which driver '{}' does not drive",
                    channel.peer(),
                    device.vendor,
                    device.device,
                    kind.name()
                )));
            }
        }
        let decide = nothing_else_acts(experiment);
        let small = channels.iter().zip(&longest).find(|(channel, longest)| channel.capacity() < **longest);
        if let Some((channel, longest)) = small {
            return Err(Reason(format!(
                "{}: its slots hold frames of {} bytes, and its link's are up to {longest}: give the link a smaller mtu",
                channel.peer(),
                channel.capacity()
            )));
        }
        let program = self.turns.as_ref().and_then(|turns| {
            let synchronised = members.iter().all(|member| member.settings.sync);
            let running: Option<Vec<_>> = processes.iter().map(|process| process.running.clone()).collect();
            Some((turns.clone(), turns.add(running.filter(|_| synchronised)?)))
        });
        let mut channels = channels.into_iter().zip(longest);
        for (member, process) in members.iter().zip(processes) {
            let ports: Vec<Option<(Channel<Wire>, usize)>> = member
                .settings
                .ports
                .iter()
                .map(|port| if port.wired { None } else { channels.next() })
                .collect();
            let watched = member.device.interfaces.iter().zip(&ports).filter_map(|(interface, port)| {
                Some((interface.name.clone(), port.as_ref()?.0.watch().clone()))
            });
            let id = process
                .running
                .as_ref()
                .map(|running| running.lock().unwrap_or_else(PoisonError::into_inner).id());
            options.simulators.outlook.add(Watched::new(&member.device.name, id, watched.collect()));
            let turn = program.clone().map(|(turns, program)| Turn::new(turns, program));
            let settings = member.settings.ports.iter().zip(&member.device.interfaces);
            let ports = ports.into_iter().zip(settings).map(|(port, (settings, interface))| {
                let latency = settings.pci.map_or(member.settings.latency, |pci| pci.latency);
                let into_link = link_nic(experiment, interface);
                port.map(|(channel, longest)| PortSetup { channel, longest, latency, into_link })
            });
            let names = || member.device.interfaces.iter().map(|interface| interface.name.clone()).collect();
            let trace =
                options.simulators.trace.then(|| ChannelTrace::create(folder, &member.device.name, names()));
            let trace = trace.transpose().map_err(Reason)?;
            self.ready.insert(member.id, ForeignSimulator::new(ports, process, turn, trace, decide));
        }
        Ok(())
    }

    /// Waits until the sockets exist to which a simulator connects.
    fn await_sockets(
        &self,
        member: &Member,
        started: &[Process],
        options: &RunOptions,
    ) -> Result<(), Reason> {
        let patience = Duration::from_nanos(member.settings.start_timeout.as_nanos());
        let ports = member.settings.ports.iter().zip(&member.sockets).zip(&member.device.interfaces);
        let mut waited = Duration::ZERO;
        for ((_, socket), interface) in ports.filter(|((port, _), _)| port.wired && !port.listens) {
            while !socket.exists() {
                go_on(started, options)?;
                if waited >= patience {
                    return Err(Reason(format!(
                        "simulator '{}', port '{}': nobody listens on {} after {} s: the simulator at the other end is to listen",
                        member.device.name,
                        interface.name,
                        socket.display(),
                        patience.as_secs()
                    )));
                }
                waited += wait::moment();
            }
        }
        Ok(())
    }

    /// Paths of the sockets of a simulator's ports. A socket between two simulators is named after their
    /// link.
    fn paths(
        &mut self,
        id: HostId,
        device: &Device,
        settings: &Simulator,
        results: &ResultsFolder,
    ) -> Result<Vec<PathBuf>, Reason> {
        let mut sockets = Vec::new();
        for (number, (port, interface)) in settings.ports.iter().zip(&device.interfaces).enumerate() {
            sockets.push(match &port.socket {
                Some(path) => settings.working_directory.join(path),
                None if port.wired => {
                    self.folder(id, results)?.folder().join(format!("link{}", interface.link))
                }
                None => self.folder(id, results)?.folder().join(format!("{}.{number}", id.0)),
            });
        }
        Ok(sockets)
    }

    /// Folder of the sockets, created on first use and named after the first simulator in it.
    fn folder(&mut self, first: HostId, results: &ResultsFolder) -> Result<&mut Sockets, Reason> {
        if self.sockets.is_none() {
            let made = Sockets::create(results, &first.0.to_string());
            self.sockets = Some(made.map_err(|error| {
                Reason(format!("no folder for sockets of simulators can be made: {error}"))
            })?);
        }
        self.sockets.as_mut().ok_or_else(|| Reason(String::new()))
    }
}

/// True if no host has programs or models, so that the run lasts as long as its simulators.
fn nothing_else_acts(experiment: &Experiment) -> bool {
    experiment.hosts.iter().all(|host| host.processes.is_empty() && host.models.is_empty())
}

/// Parameters of Belljar's ends of a simulator's channels, with the indices of the ports.
fn parameters<'a>(
    experiment: &'a Experiment,
    member: &'a Member<'_>,
) -> impl Iterator<Item = (usize, Parameters)> + 'a {
    let Member { device, settings, sockets, .. } = member;
    let own = settings.ports.iter().enumerate().filter(|(_, port)| !port.wired);
    own.map(|(number, port)| {
        let interface = &device.interfaces[number];
        let longest = experiment.topology.links[interface.link].mtu + ethernet::HEADER_LEN;
        let latency = port.pci.map_or(settings.latency, |pci| pci.latency);
        let layer = layer(port);
        let parameters = Parameters {
            sync: if settings.sync { SyncMode::Required } else { SyncMode::Off },
            latency,
            sync_interval: settings.sync_interval.min(latency),
            slot_size: (longest + SLOT_EXTRA).next_multiple_of(SLOT_UNIT).max(layer.slot_size()),
            ..Parameters::of(
                &layer,
                &format!("simulator '{}', port '{}'", device.name, interface.name),
                if port.listens { Role::Connect } else { Role::Listen },
                &sockets[number],
            )
        };
        (number, parameters)
    })
}

/// Protocol of Belljar's end of a simulator's port.
fn layer(port: &SimulatorPort) -> Wire {
    match port.pci {
        None => Wire::Net(Net),
        Some(PciPort { role: PciRole::Device, .. }) => Wire::PcieHost(PcieHost::default()),
        Some(PciPort { role: PciRole::Host, .. }) => Wire::PcieDevice(PcieDevice::new(e1000::info())),
        Some(PciPort { role: PciRole::MemoryHost, .. }) => Wire::MemoryDevice(MemoryDevice::default()),
    }
}

/// Checks whether waiting can continue: fails if a simulator has ended or the run is interrupted.
fn go_on(processes: &[Process], options: &RunOptions) -> Result<(), Reason> {
    for process in processes {
        if options.interrupt.load(Relaxed) {
            return Err(Reason(format!("interrupted while simulator '{}' started", process.name)));
        }
        if let Some(status) = process.has_ended() {
            return Err(Reason(process.ended("before its channels were there", status)));
        }
    }
    Ok(())
}
