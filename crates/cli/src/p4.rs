//! `belljar p4`: programs for P4 switches.

mod build;

use crate::failure::Failure;
use clap::{Args, Subcommand};
use std::process::ExitCode;

/// Works with P4 programs.
#[derive(Args)]
pub struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Compile a P4_16 program for v1model
    Build(build::Arguments),
}

/// Runs the command of the group.
pub fn main(arguments: &Arguments) -> Result<ExitCode, Failure> {
    match &arguments.command {
        Command::Build(arguments) => build::main(arguments),
    }
}
