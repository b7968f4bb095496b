//! The other simulators of an experiment: started before a run, with the channels to them, and ended after it.

use crate::device::ForeignSimulator;
use crate::run::RunOptions;
use belljar_base::{HostId, Map};
use belljar_config::Experiment;
use belljar_config::topology::{Device, DeviceKind, Simulator};
use belljar_cosim::process::{self, Launch, Running};
use belljar_cosim::{Address, Error, Layer, Net, Parameters, Role, Setup, SyncMode, establish};
use belljar_results::ResultsFolder;
use belljar_wire::ethernet;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

/// A slot's header and a VLAN tag.
const SLOT_EXTRA: usize = 64 + 4;
const SLOT_UNIT: usize = 64;
/// Time that a simulator has to end after it has closed a channel.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// The reason for which a run cannot go on: the first one counts.
pub type Failure = Arc<OnceLock<String>>;

/// The end of a simulator that has closed its channels.
pub enum Ended {
    /// As it should.
    Well,
    /// Otherwise: what to say of it.
    Badly(String),
}

/// The process of a simulator, as its device knows it.
#[derive(Clone)]
pub struct Process {
    name: String,
    /// `None`: somebody else has started it.
    running: Option<Arc<Mutex<Running>>>,
    stderr: PathBuf,
    failure: Failure,
}

impl Process {
    /// Stops the run for this reason.
    pub fn fail(&self, reason: String) {
        // Of several reasons the first one has led to the others.
        let _ = self.failure.set(reason);
    }

    /// The end of the simulator, once a channel to it is closed.
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

/// The simulators of a cell.
#[derive(Default)]
pub struct Simulators {
    ready: Map<HostId, ForeignSimulator>,
    processes: Vec<Process>,
    /// Where their sockets are.
    folder: Option<PathBuf>,
    failure: Failure,
}

/// Error of [`establish`], as a sentence.
struct Reason(String);

impl From<Error> for Reason {
    fn from(error: Error) -> Reason {
        Reason(error.to_string())
    }
}

impl Simulators {
    /// Starts those that are `mine` and waits for their channels. If that cannot be, [`failure`](Self::failure) says why.
    pub fn start(
        experiment: &Experiment,
        mine: impl Fn(HostId) -> bool,
        folder: &ResultsFolder,
        options: &RunOptions,
    ) -> Simulators {
        let mut all = Simulators::default();
        let ids = (experiment.hosts.len() as u32..).map(HostId);
        for (id, device) in ids.zip(&experiment.topology.devices).filter(|(id, _)| mine(*id)) {
            let DeviceKind::Simulator(settings) = &device.kind else { continue };
            match all.start_one(experiment, id, device, settings, folder, options) {
                Ok(simulator) => drop(all.ready.insert(id, simulator)),
                Err(Reason(reason)) => {
                    let _ = all.failure.set(reason);
                    all.ready.insert(
                        id,
                        ForeignSimulator::new([], settings.latency, all.process(device, None, folder)),
                    );
                }
            }
        }
        all
    }

    /// The reason for which the run cannot begin or go on, if any.
    pub fn failure(&self) -> Failure {
        self.failure.clone()
    }

    /// The device of a simulator.
    pub fn take(&mut self, id: HostId) -> ForeignSimulator {
        self.ready.remove(&id).expect("a simulator that has been started")
    }

    /// Ends them all, now that their channels are closed.
    pub fn end(self) {
        let running = self.processes.iter().filter_map(|process| process.running.as_ref());
        process::end(running.map(|running| running.lock().unwrap_or_else(PoisonError::into_inner)).collect());
        if let Some(folder) = &self.folder {
            // What simulators have left in it is nobody's.
            let _ = fs::remove_dir_all(folder);
        }
    }

    fn process(&self, device: &Device, running: Option<Running>, folder: &ResultsFolder) -> Process {
        let stderr = folder.path().join("simulators").join(&device.name).join("stderr");
        let running = running.map(|running| Arc::new(Mutex::new(running)));
        Process { name: device.name.clone(), running, stderr, failure: self.failure.clone() }
    }

    fn start_one(
        &mut self,
        experiment: &Experiment,
        id: HostId,
        device: &Device,
        settings: &Simulator,
        folder: &ResultsFolder,
        options: &RunOptions,
    ) -> Result<ForeignSimulator, Reason> {
        if self.failure.get().is_some() {
            return Err(Reason("another simulator has failed".into()));
        }
        let mut sockets = Vec::new();
        for (number, port) in settings.ports.iter().enumerate() {
            sockets.push(match &port.socket {
                Some(path) => settings.working_directory.join(path),
                None => self.sockets()?.join(format!("{}.{number}", id.0)),
            });
        }
        let longest: Vec<usize> = device
            .interfaces
            .iter()
            .map(|interface| experiment.topology.links[interface.link].mtu + ethernet::HEADER_LEN)
            .collect();
        let parameters = |number: usize| Parameters {
            sync: if settings.sync { SyncMode::Required } else { SyncMode::Off },
            latency: settings.latency,
            sync_interval: settings.sync_interval,
            slot_size: (longest[number] + SLOT_EXTRA).next_multiple_of(SLOT_UNIT).max(Net::SLOT_SIZE),
            ..Parameters::new::<Net>(
                &format!("simulator '{}', port '{}'", device.name, device.interfaces[number].name),
                if settings.ports[number].listens { Role::Connect } else { Role::Listen },
                &sockets[number],
            )
        };
        let setups =
            (0..sockets.len()).map(|number| Setup::new(parameters(number))).collect::<Result<_, _>>()?;
        let running = match settings.command.is_empty() {
            true => None,
            false => Some(launch(device, settings, &sockets, folder, options)?),
        };
        let process = self.process(device, running, folder);
        self.processes.push(process.clone());
        let go_on = || match process.has_ended() {
            _ if options.interrupt.load(Relaxed) => {
                Err(Reason(format!("interrupted while simulator '{}' started", device.name)))
            }
            Some(status) => Err(Reason(process.ended("before its channels were there", status))),
            None => Ok(()),
        };
        let patience = Duration::from_nanos(settings.start_timeout.as_nanos());
        let channels = establish::<Net, Reason>(setups, patience, go_on)?;
        let small = channels.iter().zip(&longest).find(|(channel, longest)| channel.capacity() < **longest);
        if let Some((channel, longest)) = small {
            return Err(Reason(format!(
                "{}: its slots hold frames of {} bytes, and its link's are up to {longest}: give the link a smaller mtu",
                channel.peer(),
                channel.capacity()
            )));
        }
        Ok(ForeignSimulator::new(channels.into_iter().zip(longest), settings.latency, process))
    }

    /// The folder of sockets, whose paths are short.
    fn sockets(&mut self) -> Result<&Path, Reason> {
        if self.folder.is_none() {
            let folder = tempfile::Builder::new().prefix("belljar-").tempdir();
            let folder = folder.map_err(|error| {
                Reason(format!("no folder for sockets of simulators can be made: {error}"))
            })?;
            self.folder = Some(folder.keep());
        }
        self.folder.as_deref().ok_or_else(|| Reason(String::new()))
    }
}

/// Starts a simulator's process.
fn launch(
    device: &Device,
    settings: &Simulator,
    sockets: &[PathBuf],
    folder: &ResultsFolder,
    options: &RunOptions,
) -> Result<Running, Reason> {
    let own = Path::new("simulators").join(&device.name);
    let create = |name: &str| folder.create_file(&own.join(name)).map_err(|error| Reason(error.to_string()));
    let value = |name: &str| {
        if name == "folder" {
            return Some(folder.path().join(&own).to_string_lossy().into_owned());
        }
        let port = |name: &str| device.interfaces.iter().position(|interface| interface.name == name);
        let memory = |number: usize| format!("{}-memory", sockets[number].display());
        if let Some(number) = name.strip_suffix(".socket").and_then(port) {
            return Some(sockets[number].display().to_string());
        }
        if let Some(number) = name.strip_suffix(".memory").and_then(port) {
            return Some(memory(number));
        }
        let number = port(name)?;
        let listens = settings.ports[number].listens;
        let address = Address {
            role: if listens { Role::Listen } else { Role::Connect },
            socket: sockets[number].clone(),
            memory: listens.then(|| memory(number).into()),
            sync: settings.sync,
            latency: Some(settings.latency),
            sync_interval: Some(settings.sync_interval),
        };
        Some(address.to_string())
    };
    let arguments = settings.command.iter().map(|argument| {
        Simulator::place(argument, value)
            .map(OsString::from)
            .map_err(|name| Reason(format!("'{{{name}}}' is no port")))
    });
    let mut command = options.simulator_launcher.clone();
    if !command.is_empty() {
        command.push(std::process::id().to_string().into());
    }
    for argument in arguments {
        command.push(argument?);
    }
    let launch = Launch {
        command,
        environment: settings.environment.clone().into_iter().collect(),
        directory: settings.working_directory.clone(),
        stdout: create("stdout")?,
        stderr: create("stderr")?,
    };
    Running::start(launch)
        .map_err(|error| Reason(format!("simulator '{}' cannot be started: {error}", device.name)))
}
