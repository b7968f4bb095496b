//! `belljar plan`.

use crate::failure::Failure;
use belljar_config::{Experiment, Overrides, Setting};
use belljar_plan::with_fixed_events;
use std::path::PathBuf;
use std::process::ExitCode;

/// Prints the experiment with everything resolved that a run would work out before its start: names and addresses, and
/// each event at its time, about the hosts that the seed chooses. What is printed runs to the same results.
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  belljar plan examples/faults.yaml\n  belljar plan examples/faults.yaml --seed 7 > faults-7.yaml\n\nEdit the result to keep one failure of a random schedule and drop the others."
)]
pub struct Arguments {
    /// The experiment file (`-` reads standard input)
    file: PathBuf,
    /// The seed of all randomness
    #[arg(long, env = "BELLJAR_SEED")]
    seed: Option<u64>,
    /// Set a value of the experiment, whatever the file says, as `belljar run` does
    #[arg(long, value_name = "KEY=VALUE", value_parser = Setting::parse)]
    set: Vec<Setting>,
}

/// Loads the experiment, makes its random choices and prints it.
pub fn main(arguments: &Arguments) -> Result<ExitCode, Failure> {
    let mut experiment = Experiment::load_with(&arguments.file, &arguments.set).map_err(Failure::input)?;
    experiment.apply_overrides(&Overrides { seed: arguments.seed, ..Overrides::default() });
    for note in &experiment.notes {
        eprintln!("note: {note}");
    }
    print!("{}", with_fixed_events(&experiment).to_yaml());
    Ok(ExitCode::SUCCESS)
}
