//! `belljar import`: topologies of other tools as experiments.

use crate::failure::Failure;
use belljar_config::Experiment;
use belljar_config::import::{Daemon, Format, Imported, Options};
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Args, ValueEnum};
use std::path::PathBuf;
use std::process::ExitCode;

/// Writes an experiment with the nodes and links of another tool's file: a topology file of Containerlab or netlab, a
/// lab.conf of Kathara, a script of Mininet or SimBricks, a topology.json of the P4 tutorials, a p4app.json of p4-utils, a graph in
/// GraphML or GML as of the Topology Zoo, or CAIDA's AS relationships. Notes list each line that is not taken over.
/// Commands of the file run on the hosts, and one that fails fails the run.
#[derive(Args)]
#[command(
    after_help = "Examples:\n  belljar import lab.clab.yml -o lab.yaml\n  belljar import lab.conf -o lab.yaml\n  belljar import compose.yaml -o services.yaml\n  belljar import topology.json --p4 basic.p4 -o basic.yaml\n  belljar import --run-script office.py -o office.yaml\n  belljar import Abilene.graphml -o abilene.yaml\n  belljar import 20260101.as-rel.txt --sample 50 -o internet.yaml"
)]
pub struct Arguments {
    /// The topology file
    file: PathBuf,
    /// The experiment file to write; standard output if left out
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Format of the file, if its name does not show it (.yml: Containerlab, netlab or Compose, .conf: Kathara, .py: Mininet or SimBricks, .json: P4, .graphml, .gml, .txt: AS relationships)
    #[arg(long, value_parser = format_parser())]
    format: Option<Format>,
    /// P4 program of the switches for which the file names none
    #[arg(long, value_name = "PROGRAM")]
    p4: Option<PathBuf>,
    /// Let commands of the file fail: their processes have 'expected_final_state: any', and notes list the commands
    #[arg(long)]
    tolerate_failures: bool,
    /// Run the file, which is a script of Mininet or SimBricks: its code runs with your rights
    #[arg(long)]
    run_script: bool,
    /// Number of autonomous systems to draw from a file of AS relationships
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(2..))]
    sample: Option<u32>,
    /// Seed of the sample
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Routing daemon of autonomous systems
    #[arg(long, value_enum, default_value_t = Routing::Bird)]
    daemon: Routing,
}

/// Routing daemon of an autonomous system.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Routing {
    /// BIRD 2
    Bird,
    /// FRRouting
    Frr,
}

/// Parser of the name of a format.
fn format_parser() -> impl TypedValueParser<Value = Format> {
    let value = |format: Format| {
        let value = PossibleValue::new(format.name());
        match format.description() {
            Some(description) => value.help(description),
            None => value,
        }
    };
    PossibleValuesParser::new(Format::all().map(value))
        .try_map(|name| Format::all().find(|format| format.name() == name).ok_or("there is no such format"))
}

/// Reads a topology, converts it and writes the experiment.
pub fn main(arguments: &Arguments) -> Result<ExitCode, Failure> {
    let folder = arguments.output.as_deref().and_then(|path| path.parent()).unwrap_or("".as_ref());
    let format = match arguments.format {
        Some(format) => Some(format),
        None => Format::of(&arguments.file).map_err(Failure::input)?,
    };
    let extension = arguments.file.extension().and_then(|extension| extension.to_str());
    let unpacks = match extension {
        Some("bz2") => Some("bunzip2"),
        Some("gz") => Some("gunzip"),
        Some("xz") => Some("unxz"),
        Some("zip") => Some("unzip"),
        _ => None,
    };
    if let Some(unpacks) = unpacks {
        let file = arguments.file.display();
        return Err(Failure::input(format!(
            "error: {file} is compressed: unpack it first, by {unpacks} {file}"
        )));
    }
    let format = format.ok_or_else(|| {
        let names: Vec<&str> = Format::all().map(Format::name).collect();
        let (last, others) = names.split_last().unwrap_or((&"", &[]));
        Failure::input(format!(
            "error: the name of {} does not tell whose it is: add --format {} or {last}",
            arguments.file.display(),
            others.join(", ")
        ))
    })?;
    let options = Options {
        program: arguments.p4.as_deref(),
        tolerate_failures: arguments.tolerate_failures,
        sample: arguments.sample.map(|size| size as usize),
        seed: arguments.seed,
        daemon: match arguments.daemon {
            Routing::Bird => Daemon::Bird,
            Routing::Frr => Daemon::Frr,
        },
        run_script: arguments.run_script,
        ..Options::new(folder)
    };
    let imported = format.import(&arguments.file, &options).map_err(Failure::input)?;
    let loads = Experiment::parse("the imported experiment", &imported.yaml, folder);
    match (loads, format.may_be_incomplete()) {
        (Ok(_), _) => write(arguments, &imported),
        (Err(error), false) => Err(Failure::input(error)),
        // Exercises are often imported before their program is complete: the experiment is written nevertheless.
        (Err(error), true) => {
            let done = write(arguments, &imported)?;
            eprintln!("note: the experiment does not run yet\n{error}");
            Ok(done)
        }
    }
}

fn write(arguments: &Arguments, imported: &Imported) -> Result<ExitCode, Failure> {
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
