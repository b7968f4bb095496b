//! `belljar p4`: P4 programs without an experiment.

mod build;
mod junit;
mod pcap;
mod program;
mod run;
pub mod serve;
mod step;
mod test;

use crate::failure::Failure;
use clap::Subcommand;
use std::process::ExitCode;

/// Compiles P4 programs for the v1model switch, runs and tests them.
#[derive(clap::Args)]
pub struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Compile a P4_16 program for v1model
    Build(build::Arguments),
    /// Send the packets of captures through a program
    Run(run::Arguments),
    /// Run packet tests in STF
    Test(test::Arguments),
    /// Run a switch on interfaces of this machine, in real time
    Serve(serve::Arguments),
}

/// Runs the subcommand.
pub fn main(arguments: &Arguments) -> Result<ExitCode, Failure> {
    match &arguments.command {
        Command::Build(arguments) => build::main(arguments),
        Command::Run(arguments) => run::main(arguments),
        Command::Test(arguments) => test::main(arguments),
        Command::Serve(arguments) => serve::main(arguments),
    }
}
