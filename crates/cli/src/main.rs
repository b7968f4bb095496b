//! The `belljar` command.
#![forbid(unsafe_code)]

mod exec;
mod failure;
mod placement;
mod progress;
mod run;
mod session;
mod validate;
mod workers;

use clap::{Parser, Subcommand};
use std::process::ExitCode;

/// Runs unmodified Linux programs on simulated hosts, in exact virtual time.
#[derive(Parser)]
#[command(version, about, propagate_version = true)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run an experiment
    Run(run::Arguments),
    /// Run one command on one simulated host, its output passed through
    Exec(exec::Arguments),
    /// Check an experiment file without running it
    Validate(validate::Arguments),
}

fn main() -> ExitCode {
    let result = match Arguments::parse().command {
        Command::Run(arguments) => run::main(&arguments),
        Command::Exec(arguments) => exec::main(&arguments),
        Command::Validate(arguments) => validate::main(&arguments),
    };
    result.unwrap_or_else(|failure| {
        eprintln!("{failure}");
        ExitCode::from(failure.status())
    })
}
