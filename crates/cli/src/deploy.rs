//! `belljar deploy`.

use crate::backend::{self, Backend, Job, Outcome};
use crate::experiment_options;
use crate::failure::Failure;
use crate::progress::{self, Progress};
use crate::signals;
use belljar_config::{Experiment, Inventory};
use belljar_deployment::{MachineReport, Order, check, deploy};
use belljar_results::names;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Runs the experiment on machines that are reached by ssh: programs are started at a common time, and what they have written is
/// collected. Nothing is installed there and nothing is left. The network is that of the machines.
///
/// The exit status is 0 only if every process ended as the experiment expects.
#[derive(clap::Args)]
#[command(
    after_help = "An inventory:\n  machines:\n    alpha: {address: user@192.0.2.1, hosts: [server]}\n    beta: {address: user@192.0.2.2, hosts: [client]}\n\nExamples:\n  belljar deploy exp.yaml --inventory machines.yaml -o real\n  belljar compare sim real"
)]
pub struct Arguments {
    /// The experiment file
    file: PathBuf,
    /// The machines, and which hosts run there
    #[arg(long, value_name = "FILE", env = "BELLJAR_INVENTORY")]
    inventory: PathBuf,
    #[command(flatten)]
    experiment: experiment_options::Arguments,
}

/// Runs the experiment on the machines of the inventory.
pub fn main(arguments: &Arguments) -> Result<ExitCode, Failure> {
    backend::conduct(arguments, progress::now()).map(ExitCode::from)
}

/// Settings of a deployment.
pub struct Settings {
    inventory: Inventory,
    /// Folder of the experiment file.
    base: PathBuf,
}

impl Backend for Arguments {
    type Settings = Settings;

    fn options(&self) -> &experiment_options::Arguments {
        &self.experiment
    }

    fn prepare(&self) -> Result<(Experiment, Settings), Failure> {
        let experiment = self.experiment.load(&self.file)?;
        backend::refuse(&self.file, &self.experiment.settings(), &check::refusals(&experiment))?;
        let inventory = Inventory::load(&self.inventory, &experiment).map_err(Failure::input)?;
        let base = std::path::absolute(
            self.file.parent().filter(|at| *at != Path::new("")).unwrap_or(Path::new(".")),
        )
        .map_err(Failure::run)?;
        // Paths of programs contain no `..`, so the base must not either.
        let climbs = base.components().any(|part| part == std::path::Component::ParentDir);
        let base = if climbs { base.canonicalize().map_err(Failure::run)? } else { base };
        Ok((experiment, Settings { inventory, base }))
    }

    fn note(&self, experiment: &Experiment, _: &Settings) -> Option<String> {
        Some(format!("deployed: {}", check::differences(experiment).join("; ")))
    }

    fn run(&self, job: &Job, settings: Settings) -> Result<Outcome, Failure> {
        let &Job { experiment, folder, log, .. } = job;
        let stop = Arc::new(AtomicBool::new(false));
        let of_handler = stop.clone();
        signals::handle(move || {
            if of_handler.swap(true, Relaxed) {
                // The machines detect that their connections close.
                signals::exit();
            }
        })
        .map_err(Failure::run)?;
        let shown = Progress::new(self.experiment.display(), experiment.general.stop_time);
        let Settings { inventory, base } = &settings;
        let order = Order { experiment, inventory, base, folder, stop: &stop };
        let ended = deploy(&order, &|now| {
            shown.show(now, false, None);
            log.heartbeat(now);
        });
        shown.finish();
        let (statistics, deployment, notes, interrupted) = ended.map_err(Failure::run)?;
        notes.iter().for_each(|note| eprintln!("note: {note}"));
        for (name, text) in [
            (names::STATISTICS, serde_json::to_string_pretty(&statistics)),
            (names::DEPLOYMENT, serde_json::to_string_pretty(&deployment)),
        ] {
            folder.write(name, (text.map_err(Failure::run)? + "\n").as_bytes()).map_err(Failure::run)?;
        }
        let line = |(name, machine): (&String, &MachineReport)| {
            format!(
                "machine {name}: clock {:+.3} ms against this one's, known within {:.3} ms; programs started up to {:.1} ms late\n",
                machine.clock_offset * 1e3,
                machine.clock_uncertainty * 1e3,
                machine.latest_start * 1e3
            )
        };
        Ok(Outcome::of_real(job, statistics, interrupted, deployment.machines.iter().map(line).collect()))
    }
}
