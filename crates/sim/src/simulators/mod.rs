//! External simulators of an experiment: their start before a run, the channels to them, and their end
//! after it.
//!
//! [`launch`] starts a simulator, [`outlook`] shows which simulators wait for others, [`trace`] records the
//! messages. Simulators with channels between each other are started together.

mod launch;
mod outlook;
mod trace;

pub use outlook::{Outlook, Watched};
pub use trace::ChannelTrace;

use crate::device::ForeignSimulator;
use crate::options::RunOptions;
use crate::pci;
use belljar_base::{HostId, Map};
use belljar_channel::{SOCKET_NAME_MAX, SOCKET_PATH_MAX};
use belljar_config::Experiment;
use belljar_config::topology::{Device, DeviceKind, PciPort, PciRole, Simulator, SimulatorPort};
use belljar_cosim::process::{self, Running};
use belljar_cosim::turns::{Places, Turn, Turns};
use belljar_cosim::{
    Channel, Error, Layer, MemoryDevice, Net, Parameters, PcieDevice, PcieHost, Role, Setup, SyncMode, Wire,
    establish, wait,
};
use belljar_pci::driver::Kind;
use belljar_pci::e1000;
use belljar_results::ResultsFolder;
use belljar_wire::ethernet;
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
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

/// Exit of a simulator that has closed its channels.
pub enum Ended {
    /// Successful exit.
    Well,
    /// Failure, with a message.
    Badly(String),
}

/// Process of a simulator, as used by its device.
#[derive(Clone)]
pub struct Process {
    name: String,
    /// Process; `None` if it was started elsewhere.
    running: Option<Arc<Mutex<Running>>>,
    stderr: PathBuf,
    failure: Failure,
}

impl Process {
    /// Stops the run for this reason.
    pub fn fail(&self, reason: String) {
        // The first of several failures has caused the others.
        let _ = self.failure.set(reason);
    }

    /// Determines how the simulator ended, once a channel to it is closed.
    pub fn how_it_ended(&self) -> Ended {
        let gone = format!("simulator '{}': it has closed its channels in the middle of the run", self.name);
        let Some(running) = &self.running else { return Ended::Badly(gone) };
        match running.lock().unwrap_or_else(PoisonError::into_inner).ends_within(LAST_WORDS) {
            Some(status) if status.success() => Ended::Well,
            Some(status) => Ended::Badly(self.ended("in the middle of the run", status)),
            None => Ended::Badly(gone),
        }
    }

    fn ended(&self, when: &str, status: ExitStatus) -> String {
        let said = fs::read_to_string(&self.stderr).unwrap_or_default();
        let last = said.lines().rev().find(|line| !line.trim().is_empty());
        let last = last.map_or_else(String::new, |line| format!(": {}", line.trim()));
        format!("simulator '{}' ended {when} ({status}){last} [{}]", self.name, self.stderr.display())
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
    /// Folder of the sockets.
    folder: Option<PathBuf>,
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
                    let process = all.process(device, None, folder);
                    all.ready.insert(id, ForeignSimulator::new([], process, None, None, false));
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

    /// Ends all simulators, after their channels have been closed.
    pub fn end(self) {
        if let Some(turns) = &self.turns {
            turns.end();
        }
        let running = self.processes.iter().filter_map(|process| process.running.as_ref());
        process::end(running.map(|running| running.lock().unwrap_or_else(PoisonError::into_inner)).collect());
        if let Some(folder) = &self.folder {
            // Files that simulators have left are removed too.
            let _ = fs::remove_dir_all(folder);
        }
    }

    fn process(&self, device: &Device, running: Option<Running>, folder: &ResultsFolder) -> Process {
        let stderr = folder.path().join("simulators").join(&device.name).join("stderr");
        let running = running.map(|running| Arc::new(Mutex::new(running)));
        Process { name: device.name.clone(), running, stderr, failure: self.failure.clone() }
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
            let sockets = self.sockets(*id, device, settings)?;
            let handed = self.handed(*id, &sockets)?;
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
            let process = self.process(member.device, running, folder);
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
            let ports = ports.into_iter().zip(&member.settings.ports).map(|(port, settings)| {
                let latency = settings.pci.map_or(member.settings.latency, |pci| pci.latency);
                port.map(|(channel, longest)| (channel, longest, latency))
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
    fn sockets(&mut self, id: HostId, device: &Device, settings: &Simulator) -> Result<Vec<PathBuf>, Reason> {
        let mut sockets = Vec::new();
        for (number, (port, interface)) in settings.ports.iter().zip(&device.interfaces).enumerate() {
            sockets.push(match &port.socket {
                Some(path) => settings.working_directory.join(path),
                None if port.wired => self.folder()?.join(format!("link{}", interface.link)),
                None => self.folder()?.join(format!("{}.{number}", id.0)),
            });
        }
        Ok(sockets)
    }

    /// Paths of these sockets that fit into a socket address; long ones use a symbolic link to their
    /// folder.
    fn handed(&mut self, id: HostId, sockets: &[PathBuf]) -> Result<Vec<PathBuf>, Reason> {
        let short = sockets.iter().enumerate().map(|(number, socket)| {
            let name = socket.file_name().unwrap_or_default();
            if socket.as_os_str().len() <= SOCKET_PATH_MAX {
                return Ok(socket.clone());
            }
            let link = self.folder()?.join(format!("{}.{number}.d", id.0));
            let target = std::path::absolute(socket.parent().unwrap_or(Path::new("/")));
            target.and_then(|target| symlink(target, &link)).map_err(|error| {
                Reason(format!("no short path of socket {} can be made: {error}", socket.display()))
            })?;
            Ok(link.join(name))
        });
        short.collect()
    }

    /// Folder of the sockets, created on first use, with a short path.
    fn folder(&mut self) -> Result<&Path, Reason> {
        if self.folder.is_none() {
            let parent = std::env::temp_dir();
            // The remainder of a socket address is the file name.
            let room = SOCKET_PATH_MAX - SOCKET_NAME_MAX - "/belljar-123456/1.1.d/".len();
            let parent = if parent.as_os_str().len() <= room { parent } else { "/tmp".into() };
            let folder = tempfile::Builder::new().prefix("belljar-").tempdir_in(parent);
            let folder = folder.map_err(|error| {
                Reason(format!("no folder for sockets of simulators can be made: {error}"))
            })?;
            self.folder = Some(folder.keep());
        }
        self.folder.as_deref().ok_or_else(|| Reason(String::new()))
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
