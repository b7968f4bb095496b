//! `belljar validate`.

use crate::backend;
use crate::failure::Failure;
use belljar_config::{Experiment, Refusal};
use std::path::PathBuf;
use std::process::ExitCode;

/// Reads an experiment file as `belljar run` does and says what is wrong with it, or what is in it.
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  belljar validate examples/first.yaml\n  belljar validate --for emulate examples/first.yaml"
)]
pub struct Arguments {
    /// The experiment file (`-` reads standard input)
    file: PathBuf,
    /// Backend that is to run the experiment: also reports the parts that it refuses
    #[arg(long = "for", value_enum, default_value_t = Backend::Run)]
    backend: Backend,
}

/// Backend of an experiment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Backend {
    /// `belljar run`
    Run,
    /// `belljar emulate`
    Emulate,
    /// `belljar emulate --tdf`
    Dilated,
    /// `belljar deploy`
    Deploy,
}

impl Backend {
    /// Parts of the experiment that the backend refuses.
    #[cfg(feature = "all-commands")]
    fn refusals(self, experiment: &Experiment) -> Result<Vec<Refusal>, Failure> {
        use belljar_emulation::{check, stage};
        Ok(match self {
            Backend::Run => Vec::new(),
            Backend::Emulate => check::refusals(experiment, stage::has_users(), false),
            Backend::Dilated => check::refusals(experiment, stage::has_users(), true),
            Backend::Deploy => belljar_deployment::check::refusals(experiment),
        })
    }

    /// A quick build has one backend.
    #[cfg(not(feature = "all-commands"))]
    fn refusals(self, _: &Experiment) -> Result<Vec<Refusal>, Failure> {
        match self {
            Backend::Run => Ok(Vec::new()),
            _ => Err(crate::parts::hand_over()),
        }
    }
}

/// Loads the experiment and prints a description.
pub fn main(arguments: &Arguments) -> Result<ExitCode, Failure> {
    let experiment = Experiment::load(&arguments.file).map_err(Failure::input)?;
    let refusals = arguments.backend.refusals(&experiment)?;
    backend::refuse(&arguments.file, &[], &refusals)?;
    for note in experiment.notes.iter().chain(&experiment.idle_notes()) {
        println!("note: {note}");
    }
    let processes: usize = experiment.hosts.iter().map(|host| host.processes.len()).sum();
    let topology = &experiment.topology;
    let links = match topology.links.len() {
        0 => String::new(),
        n => {
            let mut kinds = vec!["switches", "routers"];
            for device in &topology.devices {
                let (_, kind) = device.kind.noun();
                if !kinds.contains(&kind) {
                    kinds.push(kind);
                }
            }
            let count = |kind| topology.devices.iter().filter(|device| device.kind.noun().1 == kind).count();
            let counts: String = kinds.into_iter().map(|kind| format!(", {kind}: {}", count(kind))).collect();
            format!(", links: {n}{counts}")
        }
    };
    println!(
        "{}: valid; hosts: {}, processes: {processes}, graph nodes: {}{links}, stop time: {} s",
        arguments.file.display(),
        experiment.hosts.len(),
        experiment.network.graph.nodes().len(),
        experiment.general.stop_time.as_secs_f64(),
    );
    Ok(ExitCode::SUCCESS)
}
