//! Start of a simulator's process.

use super::{Member, Reason};
use crate::options::RunOptions;
use belljar_config::Experiment;
use belljar_config::topology::Simulator;
use belljar_cosim::process::{Launch, Running};
use belljar_cosim::{Address, Role};
use belljar_results::ResultsFolder;
use std::ffi::OsString;
use std::path::Path;

/// Starts a simulator, with the addresses of its channels substituted in its command.
pub fn launch(
    experiment: &Experiment,
    member: &Member<'_>,
    folder: &ResultsFolder,
    options: &RunOptions,
) -> Result<Running, Reason> {
    let Member { device, settings, handed, .. } = member;
    let own = Path::new("simulators").join(&device.name);
    let create = |name: &str| folder.create_file(&own.join(name)).map_err(|error| Reason(error.to_string()));
    let value = |name: &str| {
        if name == "folder" {
            return Some(folder.path().join(&own).to_string_lossy().into_owned());
        }
        let port = |name: &str| device.interfaces.iter().position(|interface| interface.name == name);
        let memory = |number: usize| format!("{}-memory", handed[number].display());
        if let Some(number) = name.strip_suffix(".socket").and_then(port) {
            return Some(handed[number].display().to_string());
        }
        if let Some(number) = name.strip_suffix(".memory").and_then(port) {
            return Some(memory(number));
        }
        let latency = |number: usize| {
            let (port, interface) = (&settings.ports[number], &device.interfaces[number]);
            match port.wired {
                true => experiment.topology.links[interface.link].ends[interface.end].properties.latency,
                false => port.pci.map_or(settings.latency, |pci| pci.latency),
            }
        };
        if let Some(number) = name.strip_suffix(".latency").and_then(port) {
            return Some(latency(number).as_nanos().to_string());
        }
        let number = port(name)?;
        let (port, latency) = (&settings.ports[number], latency(number));
        let address = Address {
            role: if port.listens { Role::Listen } else { Role::Connect },
            socket: handed[number].clone(),
            memory: port.listens.then(|| memory(number).into()),
            sync: settings.sync,
            latency: Some(latency),
            sync_interval: Some(settings.sync_interval.min(latency)),
        };
        Some(address.to_string())
    };
    let mut command = options.simulators.launcher.clone();
    if !command.is_empty() {
        command.push(std::process::id().to_string().into());
    }
    for argument in &settings.command {
        let argument = Simulator::place(argument, value);
        command.push(OsString::from(argument.map_err(|name| Reason(format!("'{{{name}}}' is no port")))?));
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
