//! `belljar trace`.

use crate::failure::Failure;
use belljar_results::names;
use belljar_results::read::Results;
use std::fs::File;
use std::path::PathBuf;
use std::process::ExitCode;

/// Writes a run as a trace in Chrome's JSON format, for ui.perfetto.dev or chrome://tracing: processes,
/// and as far as they were recorded system calls (--strace), packets (--pcap), messages of other simulators'
/// channels (--trace-channels) and time series.
#[derive(clap::Args)]
#[command(
    after_help = "Example:\n  belljar run exp.yaml -o exp.data --strace --pcap\n  belljar trace exp.data -o exp.json"
)]
pub struct Arguments {
    /// The results folder
    results: PathBuf,
    /// The trace; `-` is standard output [default: trace.json in the results folder]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Include system calls that took no simulated time
    #[arg(long)]
    all: bool,
}

/// Converts the results to a trace.
pub fn main(arguments: &Arguments) -> Result<ExitCode, Failure> {
    let results = Results::open(&arguments.results).map_err(Failure::usage)?;
    if arguments.output.as_ref().is_some_and(|path| path.as_os_str() == "-") {
        belljar_results::trace(&results, arguments.all, std::io::stdout().lock()).map_err(Failure::run)?;
        return Ok(ExitCode::SUCCESS);
    }
    let path = arguments.output.clone().unwrap_or_else(|| arguments.results.join(names::TRACE));
    let failed = |error| Failure::run(format!("{} cannot be written: {error}", path.display()));
    let file = File::create(&path).map_err(failed)?;
    belljar_results::trace(&results, arguments.all, file).map_err(Failure::run)?;
    println!("{}", path.display());
    Ok(ExitCode::SUCCESS)
}
