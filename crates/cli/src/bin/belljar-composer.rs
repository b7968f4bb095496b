//! `belljar-composer`: the program that runs the commands of a test template.
#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    belljar_composer::main()
}
