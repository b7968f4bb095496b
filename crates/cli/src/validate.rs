//! `belljar validate`.

use crate::failure::Failure;
use belljar_config::Experiment;
use std::path::PathBuf;
use std::process::ExitCode;

/// Reads an experiment file as `belljar run` does and says what is wrong with it, or what is in it.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  belljar validate examples/first.yaml")]
pub struct Arguments {
    /// The experiment file (`-` reads standard input)
    file: PathBuf,
}

/// Loads the experiment and prints a description.
pub fn main(arguments: &Arguments) -> Result<ExitCode, Failure> {
    let experiment = Experiment::load(&arguments.file).map_err(Failure::input)?;
    for note in &experiment.notes {
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
