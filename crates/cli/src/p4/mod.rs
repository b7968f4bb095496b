//! `belljar p4`: P4 programs without an experiment.

mod build;
mod serve;

use crate::failure::Failure;
use clap::Subcommand;
use std::process::ExitCode;

/// Compiles P4 programs for the v1model switch, and runs them.
#[derive(clap::Args)]
pub struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Compile a P4_16 program for v1model
    Build(build::Arguments),
    /// Run a switch on interfaces of this machine, in real time
    Serve(serve::Arguments),
}

/// Runs the subcommand.
pub fn main(arguments: &Arguments) -> Result<ExitCode, Failure> {
    match &arguments.command {
        Command::Build(arguments) => build::main(arguments),
        Command::Serve(arguments) => serve::main(arguments),
    }
}
