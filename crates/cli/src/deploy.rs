//! `belljar deploy`.

use crate::experiment_options;
use crate::failure::Failure;
use crate::progress::{self, Progress};
use belljar_config::Inventory;
use belljar_deployment::{Order, check, deploy};
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

/// Loads the experiment, deploys and runs it, and prints the summary.
pub fn main(arguments: &Arguments) -> Result<ExitCode, Failure> {
    let began = progress::now();
    let options = &arguments.experiment;
    let experiment = options.load(&arguments.file)?;
    let refused = check::refusals(&experiment);
    if !refused.is_empty() {
        let list = refused.iter().map(|why| format!("\n  {why}")).collect::<String>();
        return Err(Failure::usage(format!("{} cannot be deployed:{list}", arguments.file.display())));
    }
    let inventory = Inventory::load(&arguments.inventory, &experiment).map_err(Failure::input)?;
    experiment_options::print_notes(&experiment);
    eprintln!("note: deployed: {}", check::differences(&experiment).join("; "));
    let base = std::path::absolute(
        arguments.file.parent().filter(|at| *at != Path::new("")).unwrap_or(Path::new(".")),
    )
    .map_err(Failure::run)?;
    // Paths of programs contain no `..`, so the base must not either.
    let climbs = base.components().any(|part| part == std::path::Component::ParentDir);
    let base = if climbs { base.canonicalize().map_err(Failure::run)? } else { base };
    let stop = Arc::new(AtomicBool::new(false));
    let of_handler = stop.clone();
    ctrlc::set_handler(move || {
        if of_handler.swap(true, Relaxed) {
            // The machines detect that their connections close.
            std::process::exit(130);
        }
    })
    .map_err(Failure::run)?;
    let hosts = experiment.hosts.iter().map(|host| host.name.as_str());
    let folder = experiment_options::create_folder(&experiment, hosts)?;
    let (log, shown) =
        (options.log(&experiment), Progress::new(options.display(), experiment.general.stop_time));
    let order =
        Order { experiment: &experiment, inventory: &inventory, base: &base, folder: &folder, stop: &stop };
    let ended = deploy(&order, &|now| {
        shown.show(now, None);
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
    let (_, status) = options.sum_up(&experiment, &folder, began.elapsed(), interrupted, &log)?;
    for (name, machine) in &deployment.machines {
        println!(
            "machine {name}: clock {:+.3} ms against this one's, known within {:.3} ms; programs started up to {:.1} ms late",
            machine.clock_offset * 1e3,
            machine.clock_uncertainty * 1e3,
            machine.latest_start * 1e3
        );
    }
    Ok(status)
}
