//! `belljar import`: topologies of other tools as experiments.

use crate::failure::Failure;
use belljar_config::Experiment;
use belljar_config::import::{self, Format, p4};
use clap::{Args, ValueEnum};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// The file must be one of these.
#[derive(Clone, Copy, ValueEnum)]
enum Tool {
    Containerlab,
    Kathara,
    /// topology.json of the P4 tutorials
    P4Tutorial,
    /// p4app.json of p4-utils
    P4app,
}

/// Writes an experiment with the nodes and links of another tool's file: a topology file of Containerlab, a lab.conf of
/// Kathara, a topology.json of the P4 tutorials or a p4app.json of p4-utils. What is not taken over is said.
#[derive(Args)]
#[command(
    after_help = "Examples:\n  belljar import lab.clab.yml -o lab.yaml\n  belljar import lab.conf -o lab.yaml\n  belljar import topology.json --p4 basic.p4 -o basic.yaml"
)]
pub struct Arguments {
    /// The topology file
    file: PathBuf,
    /// The experiment file to write; standard output if left out
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Format of the file, if its name does not tell (.yml: Containerlab, .conf: Kathara, .json: P4)
    #[arg(long, value_enum)]
    format: Option<Tool>,
    /// P4 program of the switches for which the file names none
    #[arg(long, value_name = "PROGRAM")]
    p4: Option<PathBuf>,
}

/// Reads a topology, converts it and writes the experiment.
pub fn main(arguments: &Arguments) -> Result<ExitCode, Failure> {
    let folder = arguments.output.as_deref().and_then(|path| path.parent()).unwrap_or("".as_ref());
    let is_json = arguments.file.extension().is_some_and(|ending| ending == "json");
    let format = match arguments.format {
        Some(Tool::Containerlab) => Format::Containerlab,
        Some(Tool::Kathara) => Format::Kathara,
        Some(Tool::P4Tutorial) => return p4_network(arguments, Some(p4::Dialect::Tutorial), folder),
        Some(Tool::P4app) => return p4_network(arguments, Some(p4::Dialect::P4app), folder),
        None if is_json => return p4_network(arguments, None, folder),
        None => Format::of(&arguments.file).ok_or_else(|| {
            let name = arguments.file.display();
            Failure::input(format!(
                "error: the name of {name} does not tell whose it is: add --format containerlab, kathara, p4-tutorial or p4app"
            ))
        })?,
    };
    let imported = import::import(&arguments.file, format).map_err(Failure::input)?;
    Experiment::parse("the imported experiment", &imported.yaml, folder).map_err(Failure::input)?;
    write(arguments, &imported)
}

/// Imports a P4 network. The experiment is written even if it does not load: exercises are often imported
/// before their program is complete.
fn p4_network(
    arguments: &Arguments,
    dialect: Option<p4::Dialect>,
    folder: &Path,
) -> Result<ExitCode, Failure> {
    let options = p4::Options { folder, program: arguments.p4.as_deref() };
    let imported = p4::import(&arguments.file, dialect, &options).map_err(Failure::input)?;
    let done = write(arguments, &imported)?;
    if let Err(error) = Experiment::parse("the imported experiment", &imported.yaml, folder) {
        eprintln!("note: the experiment does not run yet\n{error}");
    }
    Ok(done)
}

fn write(arguments: &Arguments, imported: &import::Imported) -> Result<ExitCode, Failure> {
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
