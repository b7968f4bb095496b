//! `belljar diff`.

use crate::failure::Failure;
use std::path::PathBuf;
use std::process::ExitCode;

/// Compares the results of two runs and names the first divergence in simulated time: host, process,
/// system call or packet, with what stands around it in both. Runs with --strace and --pcap can be
/// compared most exactly. What has no influence on a run (the folder's name, worker threads) is no
/// difference.
///
/// The exit status is 0 if the runs are the same, 1 if they differ, 2 if they cannot be compared.
#[derive(clap::Args)]
#[command(
    after_help = "Example:\n  belljar run exp.yaml -o a --strace --pcap\n  belljar run exp.yaml -o b --strace --pcap\n  belljar diff a b"
)]
pub struct Arguments {
    /// A results folder
    a: PathBuf,
    /// The results folder to compare with
    b: PathBuf,
    /// Print nothing: the exit status is the answer
    #[arg(short, long)]
    quiet: bool,
}

/// Compares two results folders and prints the first divergence.
pub fn main(arguments: &Arguments) -> Result<ExitCode, Failure> {
    let comparison = belljar_results::compare(&arguments.a, &arguments.b).map_err(Failure::usage)?;
    if !arguments.quiet {
        println!("{comparison}");
    }
    Ok(if comparison.is_same() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
