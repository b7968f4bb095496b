//! `belljar import`: topologies of other tools as experiments.

use crate::failure::Failure;
use belljar_config::Experiment;
use belljar_config::import::{self, Format};
use clap::{Args, ValueEnum};
use std::path::PathBuf;
use std::process::ExitCode;

/// The file must be one of these.
#[derive(Clone, Copy, ValueEnum)]
enum Tool {
    Containerlab,
    Kathara,
}

/// Writes an experiment with the nodes and links of a topology file of Containerlab, or of a lab.conf of
/// Kathara. What has no meaning here is left out and said.
#[derive(Args)]
#[command(
    after_help = "Examples:\n  belljar import lab.clab.yml -o lab.yaml\n  belljar import lab.conf -o lab.yaml"
)]
pub struct Arguments {
    /// The topology file
    file: PathBuf,
    /// The experiment file to write; standard output if left out
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Format of the file, if its name does not tell (.yml: Containerlab, .conf: Kathara)
    #[arg(long, value_enum)]
    format: Option<Tool>,
}

/// Reads, converts and writes.
pub fn main(arguments: &Arguments) -> Result<ExitCode, Failure> {
    let format = match arguments.format {
        Some(Tool::Containerlab) => Format::Containerlab,
        Some(Tool::Kathara) => Format::Kathara,
        None => Format::of(&arguments.file).ok_or_else(|| {
            let name = arguments.file.display();
            Failure::input(format!(
                "error: the name of {name} does not tell whose it is: add --format containerlab or --format kathara"
            ))
        })?,
    };
    let imported = import::import(&arguments.file, format).map_err(Failure::input)?;
    let base = arguments.output.as_deref().and_then(|path| path.parent()).unwrap_or("".as_ref());
    Experiment::parse("the imported experiment", &imported.yaml, base).map_err(Failure::input)?;
    for note in &imported.notes {
        eprintln!("note: {note}");
    }
    match &arguments.output {
        None => print!("{}", imported.yaml),
        Some(path) => std::fs::write(path, &imported.yaml).map_err(|error| {
            Failure::input(format!("error: {} cannot be written: {error}", path.display()))
        })?,
    }
    Ok(ExitCode::SUCCESS)
}
