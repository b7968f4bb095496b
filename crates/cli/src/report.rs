//! `belljar report`.

use crate::failure::Failure;
use belljar_results::names;
use belljar_results::read::Results;
use std::path::PathBuf;
use std::process::ExitCode;

/// Writes one HTML page about a run: its network, time series, processes, events, warnings and the
/// beginning of what programs wrote. The page holds all that it needs and works offline.
#[derive(clap::Args)]
#[command(
    after_help = "Example:\n  belljar run exp.yaml -o exp.data --set belljar.metrics.interval=\"100 ms\"\n  belljar report exp.data -o exp.html"
)]
pub struct Arguments {
    /// The results folder
    results: PathBuf,
    /// The page; `-` is standard output [default: report.html in the results folder]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// Renders the page and writes it.
pub fn main(arguments: &Arguments) -> Result<ExitCode, Failure> {
    let results = Results::open(&arguments.results).map_err(Failure::usage)?;
    let page = belljar_results::report(&results).map_err(Failure::run)?;
    if arguments.output.as_ref().is_some_and(|path| path.as_os_str() == "-") {
        print!("{page}");
        return Ok(ExitCode::SUCCESS);
    }
    let path = arguments.output.clone().unwrap_or_else(|| arguments.results.join(names::REPORT));
    std::fs::write(&path, page)
        .map_err(|error| Failure::run(format!("{} cannot be written: {error}", path.display())))?;
    println!("{}", path.display());
    Ok(ExitCode::SUCCESS)
}
