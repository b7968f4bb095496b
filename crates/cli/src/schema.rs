//! `belljar schema`.

use std::process::ExitCode;

/// Prints the JSON Schema of experiment files, for editors that complete and check as you type.
#[derive(clap::Args)]
#[command(
    after_help = "Example:\n  belljar schema > belljar.schema.json\n  # first line of an experiment, for the YAML language server:\n  # yaml-language-server: $schema=belljar.schema.json"
)]
pub struct Arguments {}

/// JSON Schema of experiments, draft 2020-12. Tests compare its keys with the loader's.
const SCHEMA: &str = include_str!("experiment.schema.json");

/// Prints the schema.
pub fn main(_: &Arguments) -> ExitCode {
    print!("{SCHEMA}");
    ExitCode::SUCCESS
}
